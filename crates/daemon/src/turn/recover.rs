//! Taking rows up again: all unfinished ones at a start, and after the ledger failed those that no task works on.
//!
//! Every row is brought to a state from which it goes on, and every action that a crash may have swallowed is
//! generated again from rows.

use crate::Daemon;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::{Resume, regenerate};
use bridge_core::value::{Message, MessageId, StateName};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between a failure and the first look, and between two looks: a row whose task is only about to start is no orphan.
const PAUSE: Duration = Duration::from_secs(2);

/// How many tasks work on each message: a lost turn is looked at by a second task before the first has ended.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<MessageId, usize>>);

/// One task that works on a message, as long as it lives.
pub(super) struct InFlightGuard<'a> {
    in_flight: &'a InFlight,
    message_id: MessageId,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, message_id: &MessageId) -> InFlightGuard<'_> {
        *self.lock().entry(message_id.clone()).or_default() += 1;
        InFlightGuard {
            in_flight: self,
            message_id: message_id.clone(),
        }
    }

    pub(super) fn contains(&self, message_id: &MessageId) -> bool {
        self.lock().contains_key(message_id)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        let mut tasks = self.in_flight.lock();
        if let Some(count) = tasks.get_mut(&self.message_id) {
            *count -= 1;
            if *count == 0 {
                tasks.remove(&self.message_id);
            }
        }
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<usize, LedgerError> {
        let mut found = 0;
        let mut after = None;
        while let Some((page, last)) = self.unfinished(after).await? {
            after = Some(last);
            found += page.len();
            for message in page {
                self.take_up(message).await?;
            }
        }
        self.reopen_lanes().await?;
        Ok(found)
    }

    /// The next unfinished messages, and where the ones behind them begin.
    pub(crate) async fn unfinished(
        &self,
        after: Option<MessageId>,
    ) -> Result<Option<(Vec<Message>, MessageId)>, LedgerError> {
        let page = self
            .ledger
            .read(move |rows| rows.unfinished(after.as_ref(), PAGE_MAX))
            .await?;
        let last = page.last().map(|last| last.message_id.clone());
        Ok(last.map(|last| (page, last)))
    }

    /// Resumes a message. One with a row that can't be read stays where it is, and keeps no other one back.
    async fn take_up(self: &Arc<Self>, message: Message) -> Result<(), LedgerError> {
        let message_id = message.message_id.clone();
        // What another node works on is that one's; what a node that is gone left is taken over with its conversation.
        if message.life.state.name() != StateName::Received
            && !self.is_at_home(&message.conversation_id).await?
        {
            return Ok(());
        }
        match self.resume(message).await {
            Err(error) if error.is_unreadable() => {
                tracing::error!(%error, %message_id, "a message stays where it is, because one of its rows can't be read; run `codex-bridge doctor`");
                Ok(())
            }
            resumed => resumed,
        }
    }

    pub(crate) async fn resume(self: &Arc<Self>, message: Message) -> Result<(), LedgerError> {
        let state = message.life.state.name();
        let left_in_the_middle = state.in_flight() && state != StateName::Unclear;
        if left_in_the_middle {
            return self
                .commit(Resume {
                    message_id: message.message_id,
                })
                .await;
        }
        self.perform(regenerate(&message));
        Ok(())
    }

    /// Notices of finished messages wait in lanes too.
    pub(crate) async fn reopen_lanes(self: &Arc<Self>) -> Result<(), LedgerError> {
        let mut after = None;
        loop {
            let from = after.take();
            let page = self
                .ledger
                .read(move |rows| rows.lanes(from.as_ref(), PAGE_MAX))
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for conversation_id in page {
                self.deliver(conversation_id);
            }
        }
    }

    /// Takes up what a failure of the ledger left, or another node moved here: a transition may be committed with nobody to
    /// do what it asks for.
    pub(crate) async fn rescue(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.turns.recheck.notified() => {}
            }
            while let Err(error) = self.take_up_orphans().await {
                tracing::error!(%error, "what the database's failure left can't be seen yet");
                if self.stopping.is_cancelled() {
                    return;
                }
            }
        }
    }

    async fn take_up_orphans(self: &Arc<Self>) -> Result<(), LedgerError> {
        tokio::time::sleep(PAUSE).await;
        let before = self.orphans().await?;
        if !before.is_empty() {
            tokio::time::sleep(PAUSE).await;
            for message in self.orphans().await? {
                let message_id = &message.message_id;
                if before.iter().any(|known| known.message_id == *message_id) {
                    tracing::warn!(%message_id, "a message that nobody worked on is taken up again");
                    self.take_up(message).await?;
                }
            }
        }
        self.answer_again().await?;
        self.reopen_lanes().await?;
        self.turns.wake();
        Ok(())
    }

    /// Messages in flight that no task works on. A stop that was swallowed is given again on the way.
    async fn orphans(&self) -> Result<Vec<Message>, LedgerError> {
        let mut orphans = Vec::new();
        let mut after = None;
        while let Some((page, last)) = self.unfinished(after).await? {
            after = Some(last);
            for message in page.iter().filter(|message| message.life.stop.is_some()) {
                self.turns.running.interrupt(&message.message_id);
            }
            for message in page {
                let left = message.life.state.name().in_flight()
                    && !self.turns.in_flight.contains(&message.message_id);
                if left && self.is_at_home(&message.conversation_id).await? {
                    orphans.push(message);
                }
            }
        }
        Ok(orphans)
    }
}
