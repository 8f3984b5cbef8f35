//! Started tasks: start one (its row, its first input and its message together), and add an input to it. The rest of its
//! life is that of its messages.

use super::task_input::next_ordinal;
use super::{MidTurn, Receive, Received, Refused, RunError, Transition, Tx};
use crate::port::Change;
use crate::storage::OverBudget;
use crate::value::{
    ExternalId, MessageId, Subscription, Task, TaskId, TaskInput, TaskInputKind, Timestamp,
};

/// Starts a task.
#[derive(Clone, Debug)]
pub struct StartTask {
    /// Its first message. The channel's id for it is the starter's own key, so that the same one is the same task.
    pub receive: Receive,
    /// The task; its conversation is that of `receive`.
    pub task: Task,
    /// Who is notified of its end.
    pub notify: Option<String>,
}

/// Result of [`StartTask`].
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

impl Transition for StartTask {
    type Outcome = TaskStarted;
    const NAME: &'static str = "start_task";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<TaskStarted, RunError> {
        let own_id = self.receive.message_id.clone();
        let external_id = self.receive.external_id.clone();
        Ok(match self.receive.apply(tx, now)? {
            Received::New(message_id) => {
                let task = self.task;
                tx.change(Change::NewTask(task.clone()))?;
                tx.change(input(&task.task_id, 1, external_id, message_id, now))?;
                if let Some(target) = self.notify {
                    let (id, at) = (task.task_id.clone(), task.created_at);
                    let end = Subscription::of_end(id, Some(target), at);
                    tx.change(Change::PutSubscription(end))?;
                }
                TaskStarted::New(task)
            }
            Received::Duplicate(message_id) => {
                let known = tx.existing(Self::NAME, &message_id)?;
                match tx.started_task(&known.conversation_id)? {
                    Some(known) => TaskStarted::Known(known),
                    None => return Err(Refused::new(Self::NAME, &own_id, None).into()),
                }
            }
            // A task names no terms of a conversation.
            Received::Full | Received::OtherTerms => TaskStarted::Full,
            Received::OverBudget(over) => TaskStarted::OverBudget(over),
            Received::Revoked => TaskStarted::Revoked,
        })
    }
}

fn input(
    task_id: &TaskId,
    ordinal: u32,
    external_id: ExternalId,
    message_id: MessageId,
    at: Timestamp,
) -> Change {
    Change::NewTaskInput(TaskInput {
        task_id: task_id.clone(),
        ordinal,
        client_message_id: external_id.to_string(),
        idempotency_key: None,
        kind: TaskInputKind::Message(message_id),
        // The message row has the text.
        original: String::new(),
        at,
    })
}

/// Adds an input to a started task while it is not over.
#[derive(Clone, Debug)]
pub struct SteerTask {
    pub receive: Receive,
}

/// Result of [`SteerTask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SteerStored {
    /// It is on disk. Whoever asked gives it to the running turn if there is one.
    Stored {
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

impl Transition for SteerTask {
    type Outcome = SteerStored;
    const NAME: &'static str = "steer_task";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<SteerStored, RunError> {
        let mut receive = self.receive;
        let conversation = tx.conversation_by_key(&receive.channel, &receive.external_key)?;
        let Some(conversation) = conversation else {
            return Ok(SteerStored::Over);
        };
        let id = &conversation.conversation_id;
        if tx.unanswered_of(id, 1)?.is_empty() {
            return Ok(SteerStored::Over);
        }
        let Some(task) = tx.started_task(id)? else {
            return Ok(SteerStored::Over);
        };
        let ordinal = next_ordinal(&tx.task_inputs(&task.task_id)?);
        let external_id = receive.external_id.clone();
        let running = receive.joins(&**tx, id)?;
        // The caller joins it, and waits for the agent's word.
        receive.mid_turn = MidTurn::Queue;
        Ok(match receive.apply(tx, now)? {
            Received::New(message_id) => {
                let id = message_id.clone();
                tx.change(input(&task.task_id, ordinal, external_id, id, now))?;
                SteerStored::Stored {
                    message_id,
                    running,
                }
            }
            Received::Duplicate(message_id) => SteerStored::Stored {
                message_id,
                running: false,
            },
            // A task names no terms of a conversation.
            Received::Full | Received::OtherTerms => SteerStored::Full,
            Received::OverBudget(over) => SteerStored::OverBudget(over),
            Received::Revoked => SteerStored::Revoked,
        })
    }
}
