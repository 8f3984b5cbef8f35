//! Name: a run of `codex exec` began before its thread had a name, and now Codex has told it. The conversation is
//! bound to it at once: what is not bound is lost with the run.

use super::{Decision, Refused, Transition, expect};
use crate::port::{Change, Read, RowsError};
use crate::value::{Conversation, Message, MessageId, StateName, ThreadId, Timestamp, Turn};

/// Records the name of the thread that a turn runs on.
#[derive(Clone, Debug)]
pub struct Name {
    /// Whose turn it is.
    pub message_id: MessageId,
    /// The thread's name.
    pub thread: ThreadId,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    turn: Option<Turn>,
    conversation: Option<Conversation>,
}

impl Transition for Name {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "name";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let (message, turn) = super::touched::message_and_turn(rows, &self.message_id)?;
        let conversation = match &message {
            Some(message) => rows.conversation(&message.conversation_id)?,
            None => None,
        };
        Ok(View {
            message,
            turn,
            conversation,
        })
    }

    fn decide(self, view: View, _now: Timestamp) -> Result<Decision<()>, Refused> {
        let states = [StateName::Starting, StateName::Running];
        expect(Self::NAME, &self.message_id, view.message.as_ref(), &states)?;
        let Some(turn) = view.turn.filter(|turn| turn.thread.is_unnamed()) else {
            return Ok(Decision::nothing(()));
        };
        let mut changes = Vec::new();
        // A conversation that has moved to another thread meanwhile stays there.
        let waiting = view
            .conversation
            .filter(|conversation| conversation.thread.as_ref() == Some(&turn.thread));
        changes.extend(waiting.map(|conversation| Change::Bind {
            conversation_id: conversation.conversation_id,
            from: conversation.thread,
            to: Some(self.thread.clone()),
        }));
        changes.push(Change::Turn(Turn {
            thread: self.thread,
            ..turn
        }));
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome: (),
        })
    }
}
