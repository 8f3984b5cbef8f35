//! How a channel is, for `status`: what it does now, why, and since when.

use crate::poll::now;
use bridge_core::value::{ChannelId, Timestamp};
use std::sync::{Mutex, PoisonError};

/// What a channel does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    /// No call to the platform has succeeded yet.
    Starting,
    /// The platform shows its messages.
    Receiving,
    /// It does not now; the channel tries again by itself.
    Retrying,
    /// It will not until a person does something; the channel looks again all the same.
    Parked,
}

impl ChannelState {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Receiving => "receiving",
            Self::Retrying => "retrying",
            Self::Parked => "parked",
        }
    }
}

/// How a channel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelHealth {
    pub channel: ChannelId,
    /// What it does now.
    pub state: ChannelState,
    /// Why, as a sentence for people.
    pub detail: String,
    /// Since when.
    pub since: Timestamp,
}

/// The place where a channel's loops say how it is.
#[derive(Debug)]
pub(super) struct Health(Mutex<ChannelHealth>);

impl Health {
    pub(super) fn new(channel: ChannelId) -> Self {
        Self(Mutex::new(ChannelHealth {
            channel,
            state: ChannelState::Starting,
            detail: "the platform was not reached yet".to_owned(),
            since: now(),
        }))
    }

    pub(super) fn get(&self) -> ChannelHealth {
        self.lock().clone()
    }

    /// Says what is true now; a change of state is logged once.
    pub(super) fn set(&self, state: ChannelState, detail: &str) {
        let mut health = self.lock();
        let moved = health.state != state;
        if !moved && health.detail == detail {
            return;
        }
        if moved {
            health.since = now();
        }
        health.state = state;
        detail.clone_into(&mut health.detail);
        let channel = health.channel.clone();
        drop(health);
        let (state, detail) = (state.as_str(), detail.escape_debug().to_string());
        tracing::info!(%channel, state, detail, "the channel's state");
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ChannelHealth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
