//! Tasks: start one (its row and its first message together), and tell a task more. A task is a conversation, so the
//! rest of its life is that of its messages.

use super::{Action, Decision, Receive, Received, Refused, Staged};
use crate::port::{Change, Read, RowsError};
use crate::storage::OverBudget;
use crate::value::{MessageId, Task, Timestamp};

/// Starts a task.
#[derive(Clone, Debug)]
pub struct StartTask {
    /// Its first message. The channel's id for it is the starter's own key, so that the same one is the same task.
    pub receive: Receive,
    /// The task; its conversation and message are those of `receive`.
    pub task: Task,
}

/// What became of a task that was to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStarted {
    /// It is on disk.
    New(Task),
    /// It was started before with the same key; this is the one.
    Known(Task),
    /// Too much waits already.
    Full,
    /// Its starter has stored as much as it may.
    OverBudget(OverBudget),
    /// Its starter's token was revoked while it was on its way.
    Revoked,
}

/// The rows that decide.
#[derive(Debug)]
pub struct StartView {
    receive: <Receive as Staged>::View,
    known: Option<Task>,
}

impl Staged for StartTask {
    type View = StartView;
    type Outcome = TaskStarted;
    const NAME: &'static str = "start_task";

    fn load(&self, rows: &dyn Read) -> Result<StartView, RowsError> {
        let receive = &self.receive;
        let message = rows.message_by_external(&receive.channel, &receive.external_id)?;
        Ok(StartView {
            known: match message {
                Some(message) => rows.task_of(&message.conversation_id)?,
                None => None,
            },
            receive: self.receive.load(rows)?,
        })
    }

    fn decide(self, view: StartView, now: Timestamp) -> Result<Decision<TaskStarted>, Refused> {
        let message_id = self.receive.message_id.clone();
        let received = self.receive.decide(view.receive, now)?;
        let (mut changes, actions) = (received.changes, received.actions);
        let outcome = match (received.outcome, view.known) {
            (Received::New(_), _) => {
                changes.push(Change::NewTask(self.task.clone()));
                TaskStarted::New(self.task)
            }
            (Received::Duplicate(_), Some(known)) => TaskStarted::Known(known),
            (Received::Duplicate(_), None) => {
                return Err(Refused::new(Self::NAME, &message_id, None));
            }
            (Received::Full, _) => TaskStarted::Full,
            (Received::OverBudget(over), _) => TaskStarted::OverBudget(over),
            (Received::Revoked, _) => TaskStarted::Revoked,
        };
        Ok(Decision {
            changes,
            actions,
            outcome,
        })
    }
}

/// Tells a task more: a message of its conversation, while it is not over.
#[derive(Clone, Debug)]
pub struct SteerTask {
    /// The message.
    pub receive: Receive,
}

/// What became of a text for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SteerStored {
    /// It is on disk. Whoever asked gives it to the running turn if there is one.
    Stored {
        /// Its message.
        message_id: MessageId,
        /// A turn runs that may be given it.
        running: bool,
    },
    /// The task is over; nothing was stored.
    Over,
    /// Too much waits already.
    Full,
    /// Whoever tells it more has stored as much as they may.
    OverBudget(OverBudget),
    /// The token of whoever tells it more was revoked while the text was on its way.
    Revoked,
}

impl Staged for SteerTask {
    type View = (<Receive as Staged>::View, bool);
    type Outcome = SteerStored;
    const NAME: &'static str = "steer_task";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let receive = &self.receive;
        let conversation = rows.conversation_by_key(&receive.channel, &receive.external_key)?;
        let alive = match conversation {
            Some(conversation) => !rows
                .unanswered_of(&conversation.conversation_id, 1)?
                .is_empty(),
            None => false,
        };
        Ok((self.receive.load(rows)?, alive))
    }

    fn decide(
        self,
        (view, alive): Self::View,
        now: Timestamp,
    ) -> Result<Decision<SteerStored>, Refused> {
        if !alive {
            return Ok(Decision::nothing(SteerStored::Over));
        }
        let received = self.receive.decide(view, now)?;
        let join = |action: &Action| matches!(action, Action::Join { .. });
        let running = received.actions.iter().any(join);
        Ok(Decision {
            changes: received.changes,
            // The caller joins it, and waits for the agent's word.
            actions: received.actions.into_iter().filter(|a| !join(a)).collect(),
            outcome: match received.outcome {
                Received::New(message_id) | Received::Duplicate(message_id) => {
                    SteerStored::Stored {
                        message_id,
                        running,
                    }
                }
                Received::Full => SteerStored::Full,
                Received::OverBudget(over) => SteerStored::OverBudget(over),
                Received::Revoked => SteerStored::Revoked,
            },
        })
    }
}
