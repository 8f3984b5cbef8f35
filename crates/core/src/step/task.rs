//! Started tasks: start one (its row, its first input and its message together), and add an input to it. The rest of its
//! life is that of its messages.

use super::task_input::next_ordinal;
use super::{Action, Decision, Receive, Received, Refused, Transition};
use crate::port::{Change, Read, RowsError};
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
    /// Who is told of its end.
    pub notify: Option<String>,
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
    receive: <Receive as Transition>::View,
    known: Option<Task>,
}

impl Transition for StartTask {
    type View = StartView;
    type Outcome = TaskStarted;
    const NAME: &'static str = "start_task";

    fn load(&self, rows: &dyn Read) -> Result<StartView, RowsError> {
        let receive = &self.receive;
        let message = rows.message_by_external(&receive.channel, &receive.external_id)?;
        Ok(StartView {
            known: match message {
                Some(message) => rows.started_task(&message.conversation_id)?,
                None => None,
            },
            receive: self.receive.load(rows)?,
        })
    }

    fn decide(self, view: StartView, now: Timestamp) -> Result<Decision<TaskStarted>, Refused> {
        let message_id = self.receive.message_id.clone();
        let external_id = self.receive.external_id.clone();
        let received = self.receive.decide(view.receive, now)?;
        let (mut changes, actions) = (received.changes, received.actions);
        let outcome = match (received.outcome, view.known) {
            (Received::New(message_id), _) => {
                let task = self.task;
                let task_id = &task.task_id;
                changes.push(Change::NewTask(task.clone()));
                changes.push(input(task_id, 1, external_id, message_id, now));
                let told = self.notify.map(|target| {
                    let at = task.created_at;
                    Subscription::of_end(task_id.clone(), Some(target), at)
                });
                changes.extend(told.map(Change::PutSubscription));
                TaskStarted::New(task)
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

impl Transition for SteerTask {
    type View = (<Receive as Transition>::View, Option<(TaskId, u32)>);
    type Outcome = SteerStored;
    const NAME: &'static str = "steer_task";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let receive = &self.receive;
        let conversation = rows.conversation_by_key(&receive.channel, &receive.external_key)?;
        let mut open = None;
        if let Some(conversation) = conversation
            && let id = conversation.conversation_id
            && !rows.unanswered_of(&id, 1)?.is_empty()
            && let Some(task) = rows.started_task(&id)?
        {
            let next = next_ordinal(&rows.task_inputs(&task.task_id)?);
            open = Some((task.task_id, next));
        }
        Ok((self.receive.load(rows)?, open))
    }

    fn decide(
        self,
        (view, open): Self::View,
        now: Timestamp,
    ) -> Result<Decision<SteerStored>, Refused> {
        let Some((task_id, ordinal)) = open else {
            return Ok(Decision::nothing(SteerStored::Over));
        };
        let external_id = self.receive.external_id.clone();
        let received = self.receive.decide(view, now)?;
        let mut changes = received.changes;
        if let Received::New(message_id) = &received.outcome {
            changes.push(input(
                &task_id,
                ordinal,
                external_id,
                message_id.clone(),
                now,
            ));
        }
        let join = |action: &Action| matches!(action, Action::Join { .. });
        let running = received.actions.iter().any(join);
        Ok(Decision {
            changes,
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
