//! Conversations that nobody used for long: retention takes their threads, and with them the history that Codex keeps.
//!
//! The row gives the thread up first, in favour of a stand-in, so that nobody begins a turn on it; then Codex deletes it,
//! which the stand-in says from then on. What dies in between finds the stand-in and goes on from there.

use crate::limits;
use crate::port::Change;
use crate::step::{RunError, Transition, Tx};
use crate::value::{ConversationId, ThreadId, Timestamp};

/// Takes threads from conversations in which nothing happened for so long, a few at a time.
#[derive(Clone, Copy, Debug)]
pub struct PruneThreads {
    pub before: Timestamp,
}

/// Codex has deleted a thread that was taken from its conversation.
#[derive(Clone, Debug)]
pub struct ThreadDeleted {
    pub conversation_id: ConversationId,
    /// The stand-in.
    pub thread: ThreadId,
}

impl Transition for PruneThreads {
    /// How many were taken; when it is a whole batch, there may be more.
    type Outcome = u32;
    const NAME: &'static str = "prune_threads";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<u32, RunError> {
        let mut taken = 0;
        // The files of a thread lie on one of the nodes, and in the ledger for all of them.
        if tx.this_node().is_some() {
            return Ok(taken);
        }
        for conversation in tx.prunable(self.before, limits::PRUNE_BATCH)? {
            let Some(thread) = conversation.thread else {
                continue;
            };
            // Codex never knew one that it has not named.
            let to = match thread.is_unnamed() {
                true => ThreadId::deleted(),
                false => thread.pruned(),
            };
            tx.change(Change::Bind {
                conversation_id: conversation.conversation_id,
                from: Some(thread),
                to: Some(to),
            })?;
            taken += 1;
        }
        Ok(taken)
    }
}

impl Transition for ThreadDeleted {
    type Outcome = ();
    const NAME: &'static str = "thread_deleted";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        let conversation = tx.conversation(&self.conversation_id)?;
        let bound = conversation.and_then(|conversation| conversation.thread);
        // A message that came meanwhile has begun a new one.
        if bound.as_ref() == Some(&self.thread) {
            tx.change(Change::Bind {
                conversation_id: self.conversation_id,
                from: bound,
                to: Some(ThreadId::deleted()),
            })?;
        }
        Ok(())
    }
}
