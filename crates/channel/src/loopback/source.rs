//! The source: fetches rows, hands each to the door, and polls again. It remembers nothing that a restart could
//! lose: the platform shows what was not acknowledged, and the ledger knows what it has seen.

use super::client::INBOX_ROWS;
use super::fault::{CallError, Deed, failure};
use super::wire::Inbox;
use super::{Loopback, now, row};
use crate::door::Door;
use bridge_core::limits::clip;
use bridge_core::retry::backoff_ms;
use bridge_core::step::Received;
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// First pause after a poll that failed; doubles up to [`POLL_MAX_MS`].
const POLL_BASE_MS: i64 = 1_000;
const POLL_MAX_MS: i64 = 60_000;
/// Pause when the door is full or can't write.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a poll that came back with nothing new: a platform that does not wait must not be hammered.
const IDLE_PAUSE: Duration = Duration::from_millis(50);
/// How much of a row that nothing can be kept of is logged.
const LOGGED_MAX_CHARS: usize = 200;

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
    pub async fn fetch<D: Door>(&self, door: D, stop: CancellationToken) {
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
    async fn poll<D: Door>(&self, door: &D, state: &mut Poll) -> Duration {
        match self.client.inbox(state.rows, state.mark).await {
            Ok(inbox) => {
                state.failures = 0;
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

    async fn take<D: Door>(&self, door: &D, inbox: Inbox, state: &mut Poll) -> Page {
        let mut news = false;
        for value in &inbox.rows {
            let arrival = match row::read(value, &self.settings) {
                Ok(arrival) => arrival,
                Err(why) => {
                    state.skip(value, &why);
                    continue;
                }
            };
            match door.take_in(arrival).await {
                Ok(Received::New(message_id)) => {
                    tracing::debug!(%message_id, "taken in from the loopback platform");
                    news = true;
                }
                Ok(Received::Duplicate(_)) => {}
                Ok(Received::Full) => {
                    tracing::warn!("too much waits already; the loopback platform keeps the rest");
                    return Page::PushedBack;
                }
                Err(error) => {
                    tracing::error!(%error, "a row of the loopback platform could not be kept");
                    return Page::PushedBack;
                }
            }
        }
        Page::Taken { news }
    }
}

/// What the loop remembers between two polls.
#[derive(Debug)]
struct Poll {
    mark: Option<u64>,
    /// How many rows to ask for: fewer after a page that was too long.
    rows: usize,
    failures: u32,
    skipped: u64,
}

impl Poll {
    fn new() -> Self {
        Self {
            mark: None,
            rows: INBOX_ROWS,
            failures: 0,
            skipped: 0,
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
        let pause = backoff_ms(self.failures, POLL_BASE_MS, POLL_MAX_MS, jitter());
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(
            class = failure.class.word(),
            reason = failure.reason.escape_debug().to_string(),
            pause_ms = pause,
            "the loopback platform could not be polled"
        );
        Duration::from_millis(u64::try_from(pause).unwrap_or(1))
    }

    /// A row without an id can't be kept, nor acknowledged: it is shown again for ever, and said once in a while.
    fn skip(&mut self, row: &Value, why: &str) {
        if self.skipped.is_power_of_two() || self.skipped == 0 {
            let row = clip(&row.to_string(), LOGGED_MAX_CHARS);
            tracing::warn!(
                skipped = self.skipped + 1,
                why,
                row = row.escape_debug().to_string(),
                "the loopback platform shows a row that nothing can be kept of"
            );
        }
        self.skipped = self.skipped.saturating_add(1);
    }
}

/// A random number in 0..=1000 for backoff.
fn jitter() -> u16 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    u16::try_from(high % 1001).unwrap_or(0)
}
