//! The ack lane: sources hear that a message is finished, or in our hands. It lives on rows alone: a wake-up only
//! says "look", and what could not be said is said later.

use super::Daemon;
use crate::process::ids::{jitter, now};
use bridge_core::limits::{PAGE_MAX, REPLY_BACKOFF_BASE_MS, REPLY_BACKOFF_MAX_MS};
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::retry::backoff_ms;
use bridge_core::step::Acknowledge;
use bridge_core::value::{ChannelId, Class, MessageId, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep: a wake-up may be lost, rows are not.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Pause after the ledger failed under the lane.
const FAULT_PAUSE_MS: i64 = 1_000;

/// A channel that did not take an ack: how often, and when it is asked again.
#[derive(Clone, Copy, Debug)]
struct Pause {
    tries: u32,
    until: Timestamp,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn acks(self: Arc<Self>) {
        let mut pauses: HashMap<ChannelId, Pause> = HashMap::new();
        while !self.stopping.is_cancelled() {
            let walked = self.acknowledge_due(&mut pauses).await;
            // A pause that is over and was not renewed has nobody left to wait for it.
            pauses.retain(|_, pause| pause.until > now());
            let mut next = pauses.values().map(|pause| pause.until).min();
            if let Err(error) = walked {
                tracing::error!(%error, "the ack lane can't use the ledger");
                next = Some(now().plus_ms(FAULT_PAUSE_MS));
            }
            let sleep = next.map_or(SLEEP_MAX, |at| {
                let ms = u64::try_from(at.since_ms(now())).unwrap_or(0).max(1);
                Duration::from_millis(ms).min(SLEEP_MAX)
            });
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.ack_wake.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// One walk over everything that is owed; a channel that does not take one ack is left in peace for a while.
    async fn acknowledge_due(
        self: &Arc<Self>,
        pauses: &mut HashMap<ChannelId, Pause>,
    ) -> Result<(), LedgerError> {
        let mut after = None;
        loop {
            let from = after.take();
            let page: Vec<MessageId> = self
                .ledger
                .read(move |rows| rows.acks_due(from.as_ref(), PAGE_MAX))
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for message_id in page {
                if self.stopping.is_cancelled() {
                    return Ok(());
                }
                self.acknowledge(message_id, pauses).await?;
            }
        }
    }

    async fn acknowledge(
        self: &Arc<Self>,
        message_id: MessageId,
        pauses: &mut HashMap<ChannelId, Pause>,
    ) -> Result<(), LedgerError> {
        let Some((message, _)) = self.load(&message_id).await? else {
            return Ok(());
        };
        let paused = pauses.get(&message.channel).copied();
        if paused.is_some_and(|pause| pause.until > now()) {
            return Ok(());
        }
        let fault = match self.sink.acknowledge(&message).await {
            Ok(()) => {
                pauses.remove(&message.channel);
                let taken = true;
                return self.commit(Acknowledge { message_id, taken }).await;
            }
            Err(fault) => fault.failure,
        };
        let reason = crate::term::escape_line(&fault.reason).into_owned();
        tracing::warn!(%message_id, reason, class = fault.class.as_str(), "an ack was not taken");
        if matches!(fault.class, Class::Permanent | Class::Bug) {
            pauses.remove(&message.channel);
            let taken = false;
            return self.commit(Acknowledge { message_id, taken }).await;
        }
        let tries = paused.map_or(0, |pause| pause.tries.saturating_add(1));
        let wait = backoff_ms(tries, REPLY_BACKOFF_BASE_MS, REPLY_BACKOFF_MAX_MS, jitter());
        let soonest = now().plus_ms(wait);
        let until = match fault.class {
            Class::Capacity { until: Some(until) } => until.max(soonest),
            _ => soonest,
        };
        pauses.insert(message.channel, Pause { tries, until });
        Ok(())
    }
}
