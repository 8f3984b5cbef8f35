//! The source: fetches rows, hands each to the door, and polls again. It remembers nothing that a restart could
//! lose: the platform shows what was not acknowledged, and the ledger knows what it has seen.

use super::client::INBOX_ROWS;
use super::fault::failure;
use super::row::Address;
use super::wire::Inbox as WireInbox;
use super::{CHANNEL, Loopback, row};
use crate::fault::Deed;
use crate::http::CallError;
use crate::inbox::Inbox;
use crate::poll::{Backoff, Unkept, now};
use bridge_core::step::Received;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause when the door is full or can't write.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a poll that came back with nothing new: a platform that does not wait must not be hammered.
const IDLE_PAUSE: Duration = Duration::from_millis(50);

/// What became of one page.
enum Page {
    /// All of it is on disk.
    Taken {
        /// Something was not known before.
        news: bool,
    },
    /// Some of it must be shown again.
    PushedBack,
}

impl Loopback {
    /// Fetches until it is told to stop.
    pub async fn fetch<D: Inbox>(&self, door: D, stop: CancellationToken) {
        let mut state = Poll::new();
        loop {
            let pause = tokio::select! {
                pause = self.poll(&door, &mut state) => pause,
                () = stop.cancelled() => return,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One poll; gives how long to wait before the next.
    async fn poll<D: Inbox>(&self, door: &D, state: &mut Poll) -> Duration {
        match self.client.inbox(state.rows, state.mark).await {
            Ok(inbox) => {
                state.backoff.reset();
                state.rows = state.rows.saturating_mul(2).min(INBOX_ROWS);
                let mark = inbox.mark;
                match self.take(door, inbox, state).await {
                    Page::Taken { news } => {
                        state.mark = mark;
                        if news { Duration::ZERO } else { IDLE_PAUSE }
                    }
                    Page::PushedBack => {
                        state.mark = None;
                        FULL_PAUSE
                    }
                }
            }
            Err(error) => state.failed(&error),
        }
    }

    async fn take<D: Inbox>(&self, door: &D, inbox: WireInbox, state: &mut Poll) -> Page {
        let (mut news, mut all_acked) = (false, true);
        for value in &inbox.rows {
            let arrival = match row::read(value, &self.settings) {
                Ok(arrival) => arrival,
                Err(why) => {
                    state.unkept.note(CHANNEL, value, &why);
                    continue;
                }
            };
            let external_id = arrival.external_id.clone();
            match door.take_in(arrival).await {
                Ok(Received::New(message_id)) => {
                    tracing::debug!(%message_id, "taken in from the loopback platform");
                    news = true;
                }
                Ok(Received::Duplicate(_)) => {}
                Ok(Received::Full | Received::OverBudget(_) | Received::Revoked) => {
                    tracing::warn!("too much waits already; the loopback platform keeps the rest");
                    return Page::PushedBack;
                }
                Err(error) => {
                    tracing::error!(%error, "a row of the loopback platform could not be kept");
                    return Page::PushedBack;
                }
            }
            // Only after the commit: the platform does not show an acknowledged row again.
            if let Some(address) = Address::of(&external_id)
                && let Err(error) = self.client.acknowledge(address.row).await
            {
                tracing::warn!(%error, "the loopback platform did not take an ack; it shows the row again");
                all_acked = false;
            }
        }
        if all_acked {
            Page::Taken { news }
        } else {
            Page::PushedBack
        }
    }
}

/// What the loop remembers between two polls.
#[derive(Debug)]
struct Poll {
    mark: Option<u64>,
    /// How many rows to ask for: fewer after a page that was too long.
    rows: usize,
    backoff: Backoff,
    unkept: Unkept,
}

impl Poll {
    fn new() -> Self {
        Self {
            mark: None,
            rows: INBOX_ROWS,
            backoff: Backoff::default(),
            unkept: Unkept::default(),
        }
    }

    fn failed(&mut self, error: &CallError) -> Duration {
        if let CallError::TooLong(_) = error
            && self.rows > 1
        {
            self.rows /= 2;
            return IDLE_PAUSE;
        }
        let failure = failure(Deed::Fetch, error, now());
        let pause = self.backoff.next();
        tracing::warn!(
            class = failure.class.as_str(),
            reason = failure.reason.escape_debug().to_string(),
            pause_ms = pause.as_millis(),
            "the loopback platform could not be polled"
        );
        pause
    }
}
