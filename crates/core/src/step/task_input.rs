//! Inputs of agents' tasks: accept one together with its message, answer a request of Codex with one, and reserve numbers
//! for the events of a task. The rest of its life is that of its messages.

use super::{
    Decide, DecideOutcome, DecideRefusal, Receive, Received, Refused, RunError, Transition, Tx,
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
    pub receive: Receive,
    /// Where it belongs.
    pub place: InputTarget,
    /// The owner's own id for it.
    pub client_message_id: String,
    /// What was said, in the channel's stored form.
    pub original: String,
    /// The same without its parts: what is kept when a guard refuses the message.
    pub brief: String,
}

/// Where an input belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputTarget {
    /// It begins a task; its conversation is that of the message.
    New(Task),
    /// It is the next input of one.
    Old {
        task_id: TaskId,
        /// Who says it.
        owner: String,
    },
}

/// What kind of a word.
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

impl Transition for AcceptInput {
    type Outcome = InputAccepted;
    const NAME: &'static str = "accept_input";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<InputAccepted, RunError> {
        let owner = match &self.place {
            InputTarget::New(task) => &task.owner,
            InputTarget::Old { owner, .. } => owner,
        };
        if let Some((task, message_id)) = self.known(&**tx)? {
            return Ok(if task.is_agents(owner) {
                InputAccepted::Known { task, message_id }
            } else {
                InputAccepted::Unknown
            });
        }
        let (task, ordinal, new) = match self.place {
            InputTarget::New(task) => (task, 1, true),
            InputTarget::Old { owner, task_id } => {
                let old = TaskSnapshot::load(&**tx, &task_id)?;
                let Some(old) = old.filter(|old| old.task.is_agents(&owner)) else {
                    return Ok(InputAccepted::Unknown);
                };
                if task::answer_with_key(&old.inputs, &self.receive.external_id).is_some() {
                    let task = old.task;
                    return Ok(InputAccepted::KnownAnswer { task });
                }
                let state = old.now().state;
                if state.terminal() {
                    return Ok(InputAccepted::Over(state));
                }
                (old.task, next_ordinal(&old.inputs), false)
            }
        };
        if usize::try_from(ordinal).unwrap_or(usize::MAX) > limits::TASK_INPUTS_MAX {
            return Ok(InputAccepted::Full);
        }
        let mut receive = self.receive;
        receive.extras.storage.beside = u64::try_from(self.original.len()).unwrap_or(u64::MAX);
        // A chain never leaves its conversation.
        let leaves = !new && receive.present(&**tx)?.as_ref() != Some(&task.conversation_id);
        let own_id = receive.message_id.clone();
        if leaves {
            return Ok(InputAccepted::Unknown);
        }
        let message_id = match receive.apply(tx, now)? {
            Received::New(message_id) => message_id,
            // A message with this key that is of no task: somebody else's, of which nothing is said.
            Received::Duplicate(_) => return Err(Refused::new(Self::NAME, &own_id, None).into()),
            // A task names no terms of a conversation.
            Received::Full | Received::OtherTerms => return Ok(InputAccepted::Full),
            Received::Revoked => return Ok(InputAccepted::Revoked),
            Received::OverBudget(over) => return Ok(InputAccepted::OverBudget(over)),
        };
        let message = tx.existing(Self::NAME, &message_id)?;
        let task = Task {
            conversation_id: message.conversation_id,
            ..task
        };
        if new {
            tx.change(Change::NewTask(task.clone()))?;
        }
        // A message that is a dead letter when it comes was refused by a guard, or is unfit.
        let refused_by_guard = message.life.state.name() == StateName::Dead;
        tx.change(Change::NewTaskInput(TaskInput {
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
        }))?;
        Ok(InputAccepted::New { task, message_id })
    }
}

impl AcceptInput {
    /// The task that has this input already, as this message.
    fn known(&self, rows: &dyn Read) -> Result<Option<(Task, MessageId)>, RowsError> {
        let receive = &self.receive;
        if let Some(message) = rows.message_by_external(&receive.channel, &receive.external_id)?
            && let Some(task_id) = rows.task_of_message(&message.message_id)?
            && let Some(task) = rows.task(&task_id)?
        {
            return Ok(Some((task, message.message_id)));
        }
        Ok(None)
    }
}

pub(super) fn next_ordinal(inputs: &[TaskInput]) -> u32 {
    inputs
        .last()
        .map_or(1, |input| input.ordinal.saturating_add(1))
}

/// Answers a question of Codex with an input of a task's owner.
#[derive(Clone, Debug)]
pub struct AnswerTask {
    pub decide: Decide,
    /// In which task.
    pub task_id: TaskId,
    /// The owner's own id for what was said.
    pub client_message_id: String,
    /// A repeat is known again by this.
    pub idempotency_key: Option<ExternalId>,
    /// What was said, in the channel's stored form.
    pub original: String,
}

/// Result of [`AnswerTask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskAnswered {
    /// It was judged.
    Judged(DecideOutcome),
    /// It was here before, with the same key, as this input; nothing was done.
    Known(TaskInput),
}

impl Transition for AnswerTask {
    type Outcome = TaskAnswered;
    const NAME: &'static str = "answer_task";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<TaskAnswered, RunError> {
        if let Some(idempotency_key) = &self.idempotency_key
            && let Some(input) = task::repeated_input(&**tx, &self.task_id, idempotency_key)?
        {
            return Ok(TaskAnswered::Known(input));
        }
        let request_id = self.decide.request_id.clone();
        let asked_in = match tx.request(&request_id)? {
            Some(request) => tx.task_of_message(&request.message_id)?,
            None => None,
        };
        let inputs = tx.task_inputs(&self.task_id)?;
        if asked_in.as_ref() != Some(&self.task_id) || inputs.len() >= limits::TASK_INPUTS_MAX {
            // Whether it is asked elsewhere is nobody's business here.
            let unknown = DecideOutcome::Refused(DecideRefusal::Unknown);
            return Ok(TaskAnswered::Judged(unknown));
        }
        let outcome = self.decide.apply(tx, now)?;
        // A refused decision changes nothing, and then nothing was said either.
        if !matches!(outcome, DecideOutcome::Refused(_)) {
            tx.change(Change::NewTaskInput(TaskInput {
                task_id: self.task_id,
                ordinal: next_ordinal(&inputs),
                client_message_id: self.client_message_id,
                idempotency_key: self.idempotency_key,
                kind: TaskInputKind::Answer(request_id),
                original: self.original,
                at: now,
            }))?;
        }
        Ok(TaskAnswered::Judged(outcome))
    }
}

/// Reserves numbers for news of a task, so that none is given twice, also after a crash.
#[derive(Clone, Debug)]
pub struct ReserveSequence {
    /// Of which.
    pub task_id: TaskId,
    pub more: u32,
}

impl Transition for ReserveSequence {
    /// The first of them; absent when there is no such task.
    type Outcome = Option<u64>;
    const NAME: &'static str = "reserve_sequence";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<Option<u64>, RunError> {
        let Some(task) = tx.task(&self.task_id)? else {
            return Ok(None);
        };
        tx.change(Change::TaskSequence {
            task_id: self.task_id,
            sequence: task.sequence.saturating_add(u64::from(self.more)),
        })?;
        Ok(Some(task.sequence.saturating_add(1)))
    }
}
