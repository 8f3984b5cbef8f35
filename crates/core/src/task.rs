//! How a task stands, derived from the rows of its messages, their answers and questions. Pure, and the only place
//! that says so: fronts and notifications show what this says.

use crate::outcome::{self, Outcome};
use crate::port::{Read, RowsError};
use crate::requester;
use crate::value::{
    A2aTask, Answer, AnswerSource, Attachment, ExternalId, Hold, Message, MessageState, ReplyKind,
    Request, TaskId, TaskInput, TaskInputKind, Timestamp,
};

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum A2aState {
    /// Taken in; nothing was done yet.
    Submitted,
    /// Codex works on it.
    Working,
    /// It waits for its owner's next input.
    InputRequired,
    /// It waits for the owner of this machine.
    AuthRequired,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Stopped.
    Canceled,
    /// Never begun, or refused by Codex itself.
    Rejected,
}

impl A2aState {
    /// Whether nothing more happens to it.
    #[must_use]
    pub fn terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
            Self::Submitted | Self::Working | Self::InputRequired | Self::AuthRequired => false,
        }
    }

    /// Whether it waits for somebody.
    #[must_use]
    pub fn interrupted(self) -> bool {
        match self {
            Self::InputRequired | Self::AuthRequired => true,
            Self::Submitted
            | Self::Working
            | Self::Completed
            | Self::Failed
            | Self::Canceled
            | Self::Rejected => false,
        }
    }
}

/// All that is shown of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSnapshot {
    pub task: A2aTask,
    /// The key of its conversation.
    pub context: String,
    /// What its owner said, in order.
    pub inputs: Vec<TaskInput>,
    /// What became of that, in order.
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
    /// What Codex asks now.
    pub requests: Vec<Request>,
    /// The newest thing that the bridge itself said about it.
    pub notice: Option<String>,
}

/// What Codex asks in a task.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'v> {
    pub request: &'v Request,
    /// The message whose turn asks.
    pub of: &'v TaskMessage,
    /// Whether the owner of the task may answer it; else it waits for the owner of this machine.
    pub theirs: bool,
}

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Where it is.
    pub state: A2aState,
    /// What it waits for, or why it ended so.
    pub why: Option<String>,
    /// Since when, as far as rows say.
    pub at: Timestamp,
}

/// What was said before under this key: a message, or an answer in this task.
pub fn repeated_input(
    rows: &dyn Read,
    task_id: &TaskId,
    idempotency_key: &ExternalId,
) -> Result<Option<TaskInput>, RowsError> {
    let Some(task) = rows.a2a_task(task_id)? else {
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

/// The answer to a question that was given under this key.
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
        let Some(task) = rows.a2a_task(task_id)? else {
            return Ok(None);
        };
        let conversation = rows.conversation(&task.conversation_id)?;
        let inputs = rows.task_inputs(task_id)?;
        let mut messages = Vec::with_capacity(inputs.len());
        for input in &inputs {
            if let TaskInputKind::Message(message_id) = &input.kind
                && let Some(message) = rows.message(message_id)?
            {
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

    /// How it stands. What is not over goes first, and of that what somebody waits for; then the newest message says.
    #[must_use]
    pub fn now(&self) -> Stand {
        let (state, why) = self.asked().unwrap_or_else(|| self.without_questions());
        Stand {
            state,
            why,
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
        let open = |one: &&TaskMessage| one.message.life.state.name().awaits_answer();
        let mut asked = self.messages.iter().filter(open).flat_map(|of| {
            let waiting = of.requests.iter().filter(|asked| asked.state.waits());
            waiting.map(move |request| Asked {
                theirs: request.sender_may(of.message.tier),
                request,
                of,
            })
        });
        let theirs = asked.clone().find(|asked| asked.theirs);
        theirs.or_else(|| asked.next())
    }

    fn asked(&self) -> Option<(A2aState, Option<String>)> {
        let asked = self.question()?;
        let message = &asked.of.message;
        Some(if asked.theirs {
            let headline = asked.request.headline.clone();
            (A2aState::InputRequired, Some(headline))
        } else {
            let whose = requester::requester(message);
            let subject = requester::subject(message, asked.request);
            let why =
                format!("For {whose}: waits for the owner of this bridge to decide: {subject}");
            (A2aState::AuthRequired, Some(why))
        })
    }

    /// The first message that is not over says how it stands, and without one the last that is.
    fn without_questions(&self) -> (A2aState, Option<String>) {
        let (mut over, mut begun) = ((A2aState::Submitted, None), false);
        for one in &self.messages {
            let life = &one.message.life;
            let told = |reason: &str| requester::told(&one.message, reason);
            begun |= life.attempt > 0;
            over = match &life.state {
                MessageState::Claimed
                | MessageState::Starting
                | MessageState::Running { .. }
                | MessageState::Steered { .. } => return (A2aState::Working, None),
                MessageState::Unclear { hold } => {
                    return (A2aState::Working, hold.as_ref().map(reason).map(told));
                }
                MessageState::Parked { reason, .. } => {
                    return (A2aState::AuthRequired, Some(told(reason)));
                }
                MessageState::Received { hold } => {
                    let state = if begun {
                        A2aState::Working
                    } else {
                        A2aState::Submitted
                    };
                    return (state, hold.as_ref().map(reason).map(told));
                }
                MessageState::Answered | MessageState::Sending | MessageState::Done => one.said(),
                MessageState::Dead { reason } => one.died(reason),
                MessageState::Cancelled { reason } => (A2aState::Canceled, Some(told(reason))),
            };
        }
        let stopped = self
            .inputs
            .last()
            .is_some_and(|input| input.kind == TaskInputKind::End);
        if stopped && !over.0.terminal() {
            (A2aState::Canceled, Some("it was stopped".to_owned()))
        } else {
            over
        }
    }
}

fn reason(hold: &Hold) -> &str {
    &hold.failure.reason
}

impl TaskMessage {
    fn load(rows: &dyn Read, message: Message) -> Result<Self, RowsError> {
        let replies = rows.replies(&message.message_id)?;
        let of = |kind: ReplyKind| replies.iter().filter(move |reply| reply.kind == kind);
        let mut requests = rows.live_requests(&message.message_id)?;
        requests.retain(|request| request.state.waits());
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

    /// An answer says itself what it is.
    fn said(&self) -> (A2aState, Option<String>) {
        let answer = self.answer.as_ref();
        match answer.map(|answer| outcome::read(&answer.text)) {
            Some((Outcome::Asks, text)) => (A2aState::InputRequired, Some(text.to_owned())),
            Some((Outcome::Refuses, text)) => (A2aState::Rejected, Some(text.to_owned())),
            Some((Outcome::Done | Outcome::Says, _)) | None => (A2aState::Completed, None),
        }
    }

    fn died(&self, reason: &str) -> (A2aState, Option<String>) {
        let state = match (&self.answer, self.message.life.attempt) {
            // It could not be delivered, and can be read here.
            (Some(_), _) => return self.said(),
            (None, 0) => A2aState::Rejected,
            (None, _) => A2aState::Failed,
        };
        (state, Some(requester::told(&self.message, reason)))
    }
}

#[cfg(test)]
mod tests;
