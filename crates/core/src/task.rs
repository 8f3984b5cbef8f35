//! Tasks as they are read: the rows of one task, and its state derived from them. Pure, and the only derivation: fronts
//! and notifications show projections of it.

mod state;

pub use state::{A2aState, ControlStatus, TaskState, phase};

use crate::outcome;
use crate::port::{Read, RowsError};
use crate::requester;
use crate::value::{
    Answer, AnswerSource, Attachment, ExternalId, Hold, Message, MessageState, ReplyKind, Request,
    Task, TaskId, TaskInput, TaskInputKind, Timestamp,
};

/// Messages of a started task that are read, the newest ones.
const STARTED_MESSAGES_MAX: usize = 50;

/// The rows of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSnapshot {
    /// The task.
    pub task: Task,
    /// The key of its conversation.
    pub context: String,
    /// Its inputs, in order.
    pub inputs: Vec<TaskInput>,
    /// The messages among them, in order.
    pub messages: Vec<TaskMessage>,
    /// When any row of it last changed: lists are in this order.
    pub changed_at: Timestamp,
}

/// One message of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMessage {
    pub message: Message,
    pub answer: Option<Answer>,
    /// The files of its answer.
    pub files: Vec<Attachment>,
    /// Requests of Codex that wait for an answer.
    pub requests: Vec<Request>,
    /// The newest notice of the bridge about it.
    pub notice: Option<String>,
}

/// The request that a task waits for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'v> {
    /// The request.
    pub request: &'v Request,
    /// The message whose turn asks.
    pub of: &'v TaskMessage,
    /// Whether the owner of the task may answer it; else it waits for the owner of this machine.
    pub theirs: bool,
}

/// The status of a task for its A2A owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Its state.
    pub state: A2aState,
    /// What it waits for, or why it ended so.
    pub why: Option<String>,
    /// Since when, as far as rows say.
    pub at: Timestamp,
}

/// The input that came before under this key: a message, or an answer in this task.
pub fn repeated_input(
    rows: &dyn Read,
    task_id: &TaskId,
    idempotency_key: &ExternalId,
) -> Result<Option<TaskInput>, RowsError> {
    let Some(task) = rows.task(task_id)? else {
        return Ok(None);
    };
    let Some(message) = rows.message_by_external(&task.channel, idempotency_key)? else {
        let inputs = rows.task_inputs(task_id)?;
        return Ok(answer_with_key(&inputs, idempotency_key).cloned());
    };
    let Some(said_in) = rows.task_of_message(&message.message_id)? else {
        return Ok(None);
    };
    let kind = TaskInputKind::Message(message.message_id);
    let mut inputs = rows.task_inputs(&said_in)?.into_iter();
    Ok(inputs.find(|input| input.kind == kind))
}

/// The answer that was given under this key.
#[must_use]
pub fn answer_with_key<'w>(
    inputs: &'w [TaskInput],
    idempotency_key: &ExternalId,
) -> Option<&'w TaskInput> {
    let known = |input: &&TaskInput| input.idempotency_key.as_ref() == Some(idempotency_key);
    inputs.iter().find(known)
}

impl TaskSnapshot {
    /// Reads it.
    pub fn load(rows: &dyn Read, task_id: &TaskId) -> Result<Option<Self>, RowsError> {
        let Some(task) = rows.task(task_id)? else {
            return Ok(None);
        };
        let conversation = rows.conversation(&task.conversation_id)?;
        let inputs = rows.task_inputs(task_id)?;
        let mut ids: Vec<_> = inputs.iter().filter_map(TaskInput::message_id).collect();
        if task.start.is_some() {
            ids.drain(..ids.len().saturating_sub(STARTED_MESSAGES_MAX));
        }
        let mut messages = Vec::with_capacity(ids.len());
        for message_id in ids {
            if let Some(message) = rows.message(message_id)? {
                messages.push(TaskMessage::load(rows, message)?);
            }
        }
        Ok(Some(Self {
            context: conversation.map_or_else(String::new, |known| known.external_key),
            changed_at: rows.task_changed(task_id)?.unwrap_or(task.created_at),
            task,
            inputs,
            messages,
        }))
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> TaskState {
        let last = self.inputs.last();
        let ended = last.is_some_and(|input| input.kind == TaskInputKind::End);
        TaskState::derive(&self.messages, ended)
    }

    /// Whether every message has its answer, or will not get one.
    #[must_use]
    pub fn settled(&self) -> bool {
        self.state().control().over()
    }

    /// The message that decides its state.
    #[must_use]
    pub fn present(&self) -> Option<&TaskMessage> {
        present(&self.messages)
    }

    /// What its owner is shown about its state.
    #[must_use]
    pub fn now(&self) -> Stand {
        let state = self.state();
        Stand {
            state: state.a2a(),
            why: self.why(state),
            at: self.changed_at,
        }
    }

    /// Its messages whose answers are shown. A message that a turn took in while it ran has that turn's answer, which is
    /// shown once; it is shown where the turn was of another task.
    pub fn answered(&self) -> impl Iterator<Item = &TaskMessage> {
        let answers = self.messages.iter().filter_map(|one| one.answer.as_ref());
        let own = answers.filter(|answer| answer.source != AnswerSource::Shared);
        self.messages.iter().filter(move |one| {
            one.answer.as_ref().is_some_and(|answer| {
                answer.source != AnswerSource::Shared
                    || !own.clone().any(|other| other.text == answer.text)
            })
        })
    }

    /// The question that it waits for, if Codex asks. What the owner of the task may answer goes first: the owner of
    /// this machine is asked elsewhere too.
    #[must_use]
    pub fn question(&self) -> Option<Asked<'_>> {
        let messages = self.messages.iter();
        let mut asked = messages.flat_map(|of| {
            of.waiting().map(move |request| Asked {
                theirs: request.sender_may(of.message.tier),
                request,
                of,
            })
        });
        let first = asked.next()?;
        if first.theirs {
            return Some(first);
        }
        Some(asked.find(|asked| asked.theirs).unwrap_or(first))
    }

    /// What it waits for, or why it ended so.
    fn why(&self, state: TaskState) -> Option<String> {
        if state == TaskState::Ended {
            return Some("it was stopped".to_owned());
        }
        if let Some(asked) = self.question() {
            return Some(asked.why());
        }
        let present = self.present()?;
        let shown = |reason: &str| requester::for_sender(&present.message, reason);
        let answer = || {
            let answer = present.answer.as_ref()?;
            let (outcome, text) = outcome::read(&answer.text);
            let said = matches!(outcome, outcome::Outcome::Asks | outcome::Outcome::Refuses);
            said.then(|| text.to_owned())
        };
        match &present.message.life.state {
            MessageState::Received { hold } | MessageState::Unclear { hold } => {
                hold.as_ref().map(reason).map(shown)
            }
            MessageState::Claimed
            | MessageState::Starting
            | MessageState::Running { .. }
            | MessageState::Steered { .. } => None,
            MessageState::Parked { reason, .. } | MessageState::Cancelled { reason } => {
                Some(shown(reason))
            }
            MessageState::Answered | MessageState::Sending | MessageState::Done => answer(),
            MessageState::Dead { .. } if present.answer.is_some() => answer(),
            MessageState::Dead { reason } => Some(shown(reason)),
        }
    }
}

impl Asked<'_> {
    fn why(&self) -> String {
        if self.theirs {
            return self.request.headline.clone();
        }
        let whose = requester::requester(&self.of.message);
        let subject = requester::subject(&self.of.message, self.request);
        format!("For {whose}: waits for the owner of this bridge to decide: {subject}")
    }
}

/// The message that decides the state of a task: the first without an answer, else the last.
#[must_use]
pub fn present(messages: &[TaskMessage]) -> Option<&TaskMessage> {
    messages.get(state::present_at(messages)?)
}

fn reason(hold: &Hold) -> &str {
    &hold.failure.reason
}

impl TaskMessage {
    /// Reads a message with what is shown of it.
    pub fn load(rows: &dyn Read, message: Message) -> Result<Self, RowsError> {
        let replies = rows.replies(&message.message_id)?;
        let of = |kind: ReplyKind| replies.iter().filter(move |reply| reply.kind == kind);
        let mut requests = Vec::new();
        // The end of a turn withdraws its requests: an answered message has none.
        if message.life.state.name().awaits_answer() {
            requests = rows.live_requests(&message.message_id)?;
            requests.retain(|request| request.state.waits());
        }
        Ok(Self {
            answer: rows.answer(&message.message_id)?,
            files: of(ReplyKind::Answer)
                .flat_map(|reply| reply.attachments.clone())
                .collect(),
            notice: of(ReplyKind::Notice)
                .next_back()
                .map(|reply| reply.body.clone()),
            requests,
            message,
        })
    }

    /// Whether there is anything in its answer beside the input for how it ended.
    pub(crate) fn says_something(&self) -> bool {
        let text = self
            .answer
            .as_ref()
            .map(|answer| outcome::read(&answer.text).1);
        text.is_some_and(|text| !text.trim().is_empty()) || !self.files.is_empty()
    }

    /// Requests that somebody must answer before its turn goes on.
    fn waiting(&self) -> impl Iterator<Item = &Request> {
        let open = self.message.life.state.name().awaits_answer();
        let waits = move |request: &&Request| open && request.state.waits();
        self.requests.iter().filter(waits)
    }
}

#[cfg(test)]
mod tests;
