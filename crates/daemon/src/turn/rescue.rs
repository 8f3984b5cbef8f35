//! After the ledger failed under a transition, it may be committed all the same, with nobody to do what it asks for.
//! A while later every row in flight that nobody works on is taken up again, as after a start.

use crate::Daemon;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::value::{Message, MessageId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between a failure and the first look, and between two looks: a row whose task is only about to start is no orphan.
const PAUSE: Duration = Duration::from_secs(2);

/// Messages that a task works on.
#[derive(Debug, Default)]
pub(crate) struct Hands(Mutex<HashMap<MessageId, usize>>);

/// One task that works on a message, as long as it lives.
pub(crate) struct Hand<'a> {
    hands: &'a Hands,
    message_id: MessageId,
}

impl Hands {
    /// Takes a message up. A turn that is lost is looked at by a second task before the first has ended.
    pub(crate) fn take(&self, message_id: &MessageId) -> Hand<'_> {
        let mut busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *busy.entry(message_id.clone()).or_default() += 1;
        Hand {
            hands: self,
            message_id: message_id.clone(),
        }
    }

    fn hold(&self, message_id: &MessageId) -> bool {
        let busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        busy.contains_key(message_id)
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        let mut busy = self.hands.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = busy.get_mut(&self.message_id) {
            *tasks -= 1;
            if *tasks == 0 {
                busy.remove(&self.message_id);
            }
        }
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn rescue(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.doubt.notified() => {}
            }
            while let Err(error) = self.take_up_orphans().await {
                tracing::error!(%error, "what the ledger's failure left can't be seen yet");
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
                    tracing::warn!(%message_id, "a message that the ledger's failure left is taken up again");
                    self.resume(message).await?;
                }
            }
        }
        self.answer_again().await?;
        self.reopen_lanes().await?;
        self.wake.notify_one();
        self.ack_wake.notify_one();
        Ok(())
    }

    /// Messages in flight that no task works on. A stop that was swallowed is given again on the way.
    async fn orphans(&self) -> Result<Vec<Message>, LedgerError> {
        let mut orphans = Vec::new();
        let mut after = None;
        while let Some((page, last)) = self.unfinished(after).await? {
            after = Some(last);
            for message in page.iter().filter(|message| message.life.stop.is_some()) {
                self.interrupt(&message.message_id);
            }
            orphans.extend(page.into_iter().filter(|message| {
                message.life.state.name().in_flight() && !self.hands.hold(&message.message_id)
            }));
        }
        Ok(orphans)
    }
}
