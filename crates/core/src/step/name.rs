//! Name: a run of `codex exec` began before its thread had a name, and now Codex has told it. The conversation is
//! bound to it at once: what is not bound is lost with the run.

use super::{RunError, Transition, Tx};
use crate::port::Change;
use crate::value::{MessageId, StateName, ThreadId, Timestamp, Turn};

/// Records the name of the thread that a turn runs on.
#[derive(Clone, Debug)]
pub struct Name {
    /// Whose turn it is.
    pub message_id: MessageId,
    /// The thread's name.
    pub thread: ThreadId,
}

impl Transition for Name {
    type Outcome = ();
    const NAME: &'static str = "name";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        let states = [StateName::Starting, StateName::Running];
        let message = tx.expect(Self::NAME, &self.message_id, &states)?;
        let unnamed = |turn: &Turn| turn.thread.is_unnamed();
        let Some(turn) = tx.turn_of(&message)?.filter(unnamed) else {
            return Ok(());
        };
        // A conversation that has moved to another thread meanwhile stays there.
        if let Some(conversation) = tx.conversation(&message.conversation_id)?
            && conversation.thread.as_ref() == Some(&turn.thread)
        {
            tx.change(Change::Bind {
                conversation_id: conversation.conversation_id,
                from: conversation.thread,
                to: Some(self.thread.clone()),
            })?;
        }
        tx.change(Change::Turn(Turn {
            thread: self.thread,
            ..turn
        }))?;
        Ok(())
    }
}
