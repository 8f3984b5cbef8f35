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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{message, turn};
    use crate::value::{ChannelId, ConversationId, MessageState, Sandbox};

    /// What a name changes where the conversation and the turn have these threads.
    fn named(bound: &str, run_on: &str) -> Vec<Change> {
        let view = View {
            message: Some(message(MessageState::Starting, |_| {})),
            turn: Some(Turn {
                thread: ThreadId::new(run_on),
                ..turn(Sandbox::WorkspaceWrite, false)
            }),
            conversation: Some(Conversation {
                conversation_id: ConversationId::new("c"),
                channel: ChannelId::new("local"),
                external_key: "main".to_owned(),
                context: None,
                thread: Some(ThreadId::new(bound)),
                last_turn: None,
                workdir: "/w".to_owned(),
                created_at: Timestamp(0),
            }),
        };
        let name = Name {
            message_id: MessageId::new("m"),
            thread: ThreadId::new("t"),
        };
        name.decide(view, Timestamp(1)).unwrap().changes
    }

    #[test]
    fn turn_and_conversation_are_named_once() {
        let unnamed = ThreadId::unnamed("x");
        let changes = named(unnamed.as_str(), unnamed.as_str());
        let [Change::Bind { from, to, .. }, Change::Turn(turn)] = changes.as_slice() else {
            panic!("{changes:?}");
        };
        let name = ThreadId::new("t");
        assert_eq!((from, to), (&Some(unnamed), &Some(name.clone())));
        assert_eq!(turn.thread, name);
        assert_eq!(named("t", "t"), [], "it has a name already");
    }

    #[test]
    fn moved_conversation_keeps_its_thread() {
        let changes = named("elsewhere", "exec-x");
        assert!(
            matches!(changes.as_slice(), [Change::Turn(_)]),
            "{changes:?}"
        );
    }
}
