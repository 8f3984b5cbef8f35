//! The end of the daemon: nothing more is taken in, turns finish or are interrupted, and Codex ends.

use crate::api::service::CodexDaemon;
use crate::run::HALT_PATIENCE;
use crate::turn::RunningTurn;
use bridge_core::find::short_id;
use bridge_core::port::{Agent, Ledger};
use bridge_core::value::MessageId;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long interrupted turns may take to end during a stop.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(10);
/// How often a drain looks which turns wait for a person.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Most messages that a line names.
const NAMED_MAX: usize = 10;

impl<L: Ledger> CodexDaemon<L> {
    /// Takes in nothing more, lets turns finish, interrupts what does not, and ends Codex.
    pub(crate) async fn stop(
        self: &Arc<Self>,
        drain: Duration,
        handover: bool,
        now: &CancellationToken,
    ) {
        self.stopping.cancel();
        self.tasks.close();
        if handover {
            self.halt.cancel();
            let _ended = tokio::time::timeout(HALT_PATIENCE, self.tasks.wait()).await;
            return self.agent.inner().hand_over().await;
        }
        self.drain(drain, now).await;
        self.interrupt_all().await;
        let _ended = tokio::time::timeout(INTERRUPT_PATIENCE, self.tasks.wait()).await;
        self.halt.cancel();
        let _ended = tokio::time::timeout(HALT_PATIENCE, self.tasks.wait()).await;
        self.agent.inner().stop().await;
    }

    /// Lets turns finish for a while. One that waits for a person does not hold the daemon: its question survives, and can
    /// be answered after the next start.
    async fn drain(&self, patience: Duration, now: &CancellationToken) {
        let mut left = HashSet::new();
        self.leave_to_people(&mut left).await;
        self.tell_of_drain(patience, &left);
        let mut too_long = std::pin::pin!(tokio::time::sleep(patience));
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                () = self.tasks.wait() => return,
                () = &mut too_long => {
                    return tracing::warn!("turns did not finish in time and are interrupted");
                }
                () = now.cancelled() => {
                    return tracing::warn!("stop at once: turns are interrupted");
                }
                _ = look.tick() => self.leave_to_people(&mut left).await,
            }
        }
    }

    fn tell_of_drain(&self, patience: Duration, left: &HashSet<MessageId>) {
        let running = self.running_turns();
        let ids: Vec<_> = running
            .iter()
            .map(|(message_id, _)| message_id)
            .filter(|message_id| !left.contains(message_id))
            .collect();
        if ids.is_empty() && (self.tasks.is_empty() || !left.is_empty()) {
            return;
        }
        let names: Vec<_> = ids.iter().take(NAMED_MAX).map(|id| short_id(id)).collect();
        tracing::info!(
            turns = ids.len(),
            ids = %names.join(","),
            seconds = patience.as_secs(),
            "waiting for running turns to finish; a second Ctrl-C (or SIGTERM) stops at once"
        );
    }

    /// Interrupts turns that only wait for a person, each once.
    async fn leave_to_people(&self, left: &mut HashSet<MessageId>) {
        for (message_id, turn) in self.running_turns() {
            let codes = turn.requests.open_codes();
            if codes.is_empty() || !left.insert(message_id.clone()) {
                continue;
            }
            tracing::info!(
                id = short_id(&message_id),
                request = codes.join(","),
                "waits only for a person, so the stop does not wait for it; the request stays open, and the message goes on at the next start"
            );
            self.interrupt_one(&turn).await;
        }
    }

    fn running_turns(&self) -> Vec<(MessageId, RunningTurn)> {
        let running = self.turns.running.lock();
        let each = running.iter();
        each.map(|(message_id, turn)| (message_id.clone(), turn.clone()))
            .collect()
    }

    async fn interrupt_all(&self) {
        for (_, turn) in self.running_turns() {
            self.interrupt_one(&turn).await;
        }
    }

    async fn interrupt_one(&self, turn: &RunningTurn) {
        let thread = &turn.thread;
        if let Err(error) = self.agent.interrupt(thread, &turn.turn_id).await {
            tracing::warn!(%error, %thread, "a turn could not be interrupted");
        }
    }
}
