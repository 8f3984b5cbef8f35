//! The start after any end: every unfinished row is brought to a state from which it goes on, and every action
//! that a crash may have swallowed is generated again from rows.

use crate::Daemon;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::{Resume, regenerate};
use bridge_core::value::{Message, MessageId, StateName};
use std::sync::Arc;

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<usize, LedgerError> {
        let mut found = 0;
        let mut after = None;
        while let Some((page, last)) = self.unfinished(after).await? {
            after = Some(last);
            found += page.len();
            for message in page {
                self.resume(message).await?;
            }
        }
        self.reopen_lanes().await?;
        self.ack_wake.notify_one();
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
}
