//! Inputs of agents' tasks: accept one together with its message, answer a request of Codex with one, and reserve numbers
//! for the events of a task. The rest of its life is that of its messages.

use super::{
    Decide, DecideOutcome, DecideRefusal, Decision, Receive, Received, Refused, Transition,
};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::storage::OverBudget;
use crate::task::{self, A2aState, TaskSnapshot};
use crate::value::{
    ExternalId, MessageId, StateName, Task, TaskId, TaskInput, TaskInputKind, Timestamp,
};

/// Accepts an input of an agent: a new task, or the next message of one.
#[derive(Clone, Debug)]
pub struct AcceptInput {
    /// Its message.
    pub receive: Receive,
    /// The task it belongs to.
    pub place: InputTarget,
    /// The client's own id for it.
    pub client_message_id: String,
    /// The message in the channel's stored form.
    pub original: String,
    /// The same without its parts: what is kept when a guard refuses the message.
    pub brief: String,
}

/// The task an input belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputTarget {
    /// It begins a task; its conversation is that of the message.
    New(Task),
    /// It is the next input of one.
    Old {
        /// The task.
        task_id: TaskId,
        /// The sender.
        owner: String,
    },
}

/// Result of [`AcceptInput`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputAccepted {
    /// It is on disk.
    New {
        /// Of this task.
        task: Task,
        /// As this message.
        message_id: MessageId,
    },
    /// It was here before, with the same key.
    Known {
        /// Of this task.
        task: Task,
        /// As this message.
        message_id: MessageId,
    },
    /// It was here before, with the same key, and answered a question.
    KnownAnswer {
        /// Of this task.
        task: Task,
    },
    /// The task is over; nothing was stored.
    Over(A2aState),
    /// This owner has no such task; nothing was stored.
    Unknown,
    /// Too much waits already; nothing was stored.
    Full,
    /// Its owner has stored as much as it may; nothing was stored.
    OverBudget(OverBudget),
    /// Its owner's token was revoked while it was on its way; nothing was stored.
    Revoked,
}

/// The rows that decide.
#[derive(Debug)]
pub struct TakeView {
    receive: <Receive as Transition>::View,
    known: Option<(Task, MessageId)>,
    old: Option<TaskSnapshot>,
}

impl Transition for AcceptInput {
    type View = TakeView;
    type Outcome = InputAccepted;
    const NAME: &'static str = "accept_input";

    fn load(&self, rows: &dyn Read) -> Result<TakeView, RowsError> {
        let receive = &self.receive;
        let mut known = None;
        if let Some(message) = rows.message_by_external(&receive.channel, &receive.external_id)?
            && let Some(task_id) = rows.task_of_message(&message.message_id)?
            && let Some(task) = rows.task(&task_id)?
        {
            known = Some((task, message.message_id));
        }
        Ok(TakeView {
            known,
            old: match &self.place {
                InputTarget::New(_) => None,
                InputTarget::Old { task_id, .. } => TaskSnapshot::load(rows, task_id)?,
            },
            receive: self.receive.load(rows)?,
        })
    }

    fn decide(self, view: TakeView, now: Timestamp) -> Result<Decision<InputAccepted>, Refused> {
        let owner = match &self.place {
            InputTarget::New(task) => &task.owner,
            InputTarget::Old { owner, .. } => owner,
        };
        if let Some((task, message_id)) = view.known {
            return Ok(Decision::nothing(if task.is_agents(owner) {
                InputAccepted::Known { task, message_id }
            } else {
                InputAccepted::Unknown
            }));
        }
        let (task, ordinal, new) = match self.place {
            InputTarget::New(task) => (task, 1, true),
            InputTarget::Old { owner, .. } => match view.old {
                Some(old) if old.task.is_agents(&owner) => {
                    if task::answer_with_key(&old.inputs, &self.receive.external_id).is_some() {
                        let task = old.task;
                        return Ok(Decision::nothing(InputAccepted::KnownAnswer { task }));
                    }
                    let state = old.now().state;
                    if state.terminal() {
                        return Ok(Decision::nothing(InputAccepted::Over(state)));
                    }
                    (old.task, next_ordinal(&old.inputs), false)
                }
                Some(_) | None => return Ok(Decision::nothing(InputAccepted::Unknown)),
            },
        };
        if usize::try_from(ordinal).unwrap_or(usize::MAX) > limits::TASK_INPUTS_MAX {
            return Ok(Decision::nothing(InputAccepted::Full));
        }
        let own_id = self.receive.message_id.clone();
        let mut receive = self.receive;
        receive.extras.storage.beside = u64::try_from(self.original.len()).unwrap_or(u64::MAX);
        let received = receive.decide(view.receive, now)?;
        let (mut changes, actions) = (received.changes, received.actions);
        let message_id = match received.outcome {
            Received::New(message_id) => message_id,
            // A message with this key that is of no task: somebody else's, of which nothing is told.
            Received::Duplicate(_) => return Err(Refused::new(Self::NAME, &own_id, None)),
            Received::Full => return Ok(Decision::nothing(InputAccepted::Full)),
            Received::Revoked => return Ok(Decision::nothing(InputAccepted::Revoked)),
            Received::OverBudget(over) => {
                return Ok(Decision::nothing(InputAccepted::OverBudget(over)));
            }
        };
        let seated = changes.iter().find_map(|change| match change {
            Change::NewMessage { message, .. } => Some(message.conversation_id.clone()),
            _ => None,
        });
        let seated = seated.unwrap_or_else(|| task.conversation_id.clone());
        if !new && seated != task.conversation_id {
            // A chain never leaves its conversation.
            return Ok(Decision::nothing(InputAccepted::Unknown));
        }
        let task = Task {
            conversation_id: seated,
            ..task
        };
        let refused_by_guard = changes.iter().any(buries);
        if new {
            changes.push(Change::NewTask(task.clone()));
        }
        changes.push(Change::NewTaskInput(TaskInput {
            task_id: task.task_id.clone(),
            ordinal,
            client_message_id: self.client_message_id,
            idempotency_key: None,
            kind: TaskInputKind::Message(message_id.clone()),
            original: if refused_by_guard {
                self.brief
            } else {
                self.original
            },
            at: now,
        }));
        Ok(Decision {
            changes,
            actions,
            outcome: InputAccepted::New { task, message_id },
        })
    }
}

/// A message that is a dead letter when it comes was refused by a guard, or is unfit.
fn buries(change: &Change) -> bool {
    matches!(change, Change::Live { life, .. } if life.state.name() == StateName::Dead)
}

pub(super) fn next_ordinal(inputs: &[TaskInput]) -> u32 {
    inputs
        .last()
        .map_or(1, |input| input.ordinal.saturating_add(1))
}

/// Answers a request of Codex with an input of the task's owner.
#[derive(Clone, Debug)]
pub struct AnswerTask {
    /// The decision.
    pub decide: Decide,
    /// The task.
    pub task_id: TaskId,
    /// The client's own id for it.
    pub client_message_id: String,
    /// Identifies a repeat of it.
    pub idempotency_key: Option<ExternalId>,
    /// The message in the channel's stored form.
    pub original: String,
}

/// Result of [`AnswerTask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskAnswered {
    /// It was decided upon.
    Judged(DecideOutcome),
    /// It was here before, with the same key, as this input; nothing was done.
    Known(TaskInput),
}

/// The rows that decide.
#[derive(Debug)]
pub struct AnswerView {
    known: Option<TaskInput>,
    decide: <Decide as Transition>::View,
    /// The request is one of this task.
    asked_here: bool,
    inputs: Vec<TaskInput>,
}

impl Transition for AnswerTask {
    type View = AnswerView;
    type Outcome = TaskAnswered;
    const NAME: &'static str = "answer_task";

    fn load(&self, rows: &dyn Read) -> Result<AnswerView, RowsError> {
        let asked_in = match rows.request(&self.decide.request_id)? {
            Some(request) => rows.task_of_message(&request.message_id)?,
            None => None,
        };
        Ok(AnswerView {
            known: match &self.idempotency_key {
                Some(idempotency_key) => {
                    task::repeated_input(rows, &self.task_id, idempotency_key)?
                }
                None => None,
            },
            decide: self.decide.load(rows)?,
            asked_here: asked_in.as_ref() == Some(&self.task_id),
            inputs: rows.task_inputs(&self.task_id)?,
        })
    }

    fn decide(self, view: AnswerView, now: Timestamp) -> Result<Decision<TaskAnswered>, Refused> {
        if let Some(input) = view.known {
            return Ok(Decision::nothing(TaskAnswered::Known(input)));
        }
        let inputs = view.inputs;
        if !view.asked_here || inputs.len() >= limits::TASK_INPUTS_MAX {
            // Whether it is asked elsewhere is nobody's business here.
            let unknown = DecideOutcome::Refused(DecideRefusal::Unknown);
            return Ok(Decision::nothing(TaskAnswered::Judged(unknown)));
        }
        let request_id = self.decide.request_id.clone();
        let decision = self.decide.decide(view.decide, now)?;
        let mut changes = decision.changes;
        // A refused decision changes nothing, and then nothing was said either.
        if !changes.is_empty() {
            changes.push(Change::NewTaskInput(TaskInput {
                task_id: self.task_id,
                ordinal: next_ordinal(&inputs),
                client_message_id: self.client_message_id,
                idempotency_key: self.idempotency_key,
                kind: TaskInputKind::Answer(request_id),
                original: self.original,
                at: now,
            }));
        }
        Ok(Decision {
            changes,
            actions: decision.actions,
            outcome: TaskAnswered::Judged(decision.outcome),
        })
    }
}

/// Reserves event numbers of a task, so that none is given twice, also after a crash.
#[derive(Clone, Debug)]
pub struct ReserveSequence {
    /// The task.
    pub task_id: TaskId,
    /// How many.
    pub more: u32,
}

impl Transition for ReserveSequence {
    type View = Option<Task>;
    /// The first of them; absent when there is no such task.
    type Outcome = Option<u64>;
    const NAME: &'static str = "reserve_sequence";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        rows.task(&self.task_id)
    }

    fn decide(self, task: Option<Task>, _now: Timestamp) -> Result<Decision<Option<u64>>, Refused> {
        let Some(task) = task else {
            return Ok(Decision::nothing(None));
        };
        let sequence = task.sequence.saturating_add(u64::from(self.more));
        Ok(Decision {
            changes: vec![Change::TaskSequence {
                task_id: self.task_id,
                sequence,
            }],
            actions: Vec::new(),
            outcome: Some(task.sequence.saturating_add(1)),
        })
    }
}
