//! Platforms that messages come from and replies go to, one module each.
//!
//! A channel turns what its platform shows into an [`Arrival`] for the [`Inbox`], and takes replies through
//! [`bridge_core::port::Sink`]. It never decides what happens to a message, and channels never name each other;
//! [`Channels`] sends each reply to its own.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod a2a;
pub mod files;
pub mod guard;
mod guarded_post;
mod http;
mod inbox;
pub mod local;
pub mod molecule;
pub mod notify;
pub mod otlp;
mod poll;
mod router;
mod secret;
pub mod task;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use guarded_post::PostPayload;
pub use inbox::{Activity, Arrival, Inbox, IntakeStatus, Page, PastReply, Refusal};
pub use router::Channels;
pub use secret::Secret;

/// Locks a mutex, also after another holder panicked: the data stays usable, and a panic must not spread.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
