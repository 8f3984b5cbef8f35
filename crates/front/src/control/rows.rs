//! The rows that say how a task is, or how a message of any channel is in the same words. Nothing is derived here.

use crate::control::{ControlError, ControlErrorKind};
use crate::view::ID_PREFIX_MIN_CHARS;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Read, RowsError};
use bridge_core::value::{
    Answer, Conversation, Incarnation, ItemEvent, Message, MessageId, Request, Task, TaskId,
    Transport, Turn,
};

/// Messages of a task that are looked at, the newest ones.
const MESSAGES_LOOKED_AT: u32 = 50;
/// Events that are told, the newest ones, as in the tool that other agents know.
pub(super) const EVENTS_TOLD: usize = 20;
/// What begins the id of a task.
const TASK_PREFIX: &str = "codex-";

/// What an id names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A task.
    Task(Box<Task>),
    /// A message of another channel.
    Message(MessageId),
}

/// Why an id names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// Nothing has it.
    Unknown,
    /// Several tasks or messages begin so.
    Several,
}

impl NotFound {
    pub(crate) fn of(self, id: &str) -> ControlError {
        match self {
            Self::Unknown => ControlError::new(
                ControlErrorKind::Unknown,
                format!("Unknown Codex bridge task: {id}"),
            ),
            Self::Several => ControlError::new(
                ControlErrorKind::Invalid,
                format!("several tasks or messages begin with {id}: give more of the id"),
            ),
        }
    }
}

impl Subject {
    /// The task or message with this id; its beginning will do, of a task among the newest.
    pub(crate) fn find(rows: &dyn Read, id: &str) -> Result<Result<Self, NotFound>, RowsError> {
        if id.starts_with(TASK_PREFIX) {
            return Self::find_task(rows, id);
        }
        if id.chars().count() < ID_PREFIX_MIN_CHARS {
            return Ok(Err(NotFound::Unknown));
        }
        let mut found = rows.message_ids_by_prefix(id, 2)?;
        let message_id = match (found.pop(), found.pop()) {
            (Some(message_id), None) => message_id,
            (Some(_), Some(_)) => return Ok(Err(NotFound::Several)),
            (None, _) => return Ok(Err(NotFound::Unknown)),
        };
        let Some(message) = rows.message(&message_id)? else {
            return Ok(Err(NotFound::Unknown));
        };
        Ok(Ok(match rows.task_of(&message.conversation_id)? {
            Some(task) => Self::Task(Box::new(task)),
            None => Self::Message(message_id),
        }))
    }

    /// Its messages, oldest first.
    pub(crate) fn messages(&self, rows: &dyn Read) -> Result<Vec<Message>, RowsError> {
        Ok(match self {
            Self::Task(task) => {
                let mut messages = rows.messages_of(&task.conversation_id, MESSAGES_LOOKED_AT)?;
                messages.reverse();
                messages
            }
            Self::Message(message_id) => rows.message(message_id)?.into_iter().collect(),
        })
    }

    fn find_task(rows: &dyn Read, id: &str) -> Result<Result<Self, NotFound>, RowsError> {
        if let Some(task) = rows.task(&TaskId::new(id))? {
            return Ok(Ok(Self::Task(Box::new(task))));
        }
        if id.chars().count() < TASK_PREFIX.len() + ID_PREFIX_MIN_CHARS {
            return Ok(Err(NotFound::Unknown));
        }
        let mut found = rows.tasks(None, PAGE_MAX)?;
        found.retain(|task| task.task_id.as_str().starts_with(id));
        Ok(match (found.pop(), found.pop()) {
            (Some(task), None) => Ok(Self::Task(Box::new(task))),
            (Some(_), Some(_)) => Err(NotFound::Several),
            (None, _) => Err(NotFound::Unknown),
        })
    }
}

/// Everything that is told about one task or message.
#[derive(Debug)]
pub(crate) struct TaskRows {
    pub(super) task: Option<Task>,
    pub(super) conversation: Option<Conversation>,
    /// Oldest first, with the answer and the newest turn of each.
    pub(super) messages: Vec<MessageRows>,
    /// Oldest first.
    pub(super) events: Vec<ItemEvent>,
    /// What Codex waits for.
    pub(super) asked: Vec<Request>,
    /// How we talk to Codex.
    pub(super) transport: Transport,
}

/// One message of a task.
#[derive(Debug)]
pub(super) struct MessageRows {
    pub(super) message: Message,
    pub(super) answer: Option<Answer>,
    pub(super) turn: Option<Turn>,
}

impl TaskRows {
    pub(crate) fn load(rows: &dyn Read, subject: Subject) -> Result<Option<Self>, RowsError> {
        let messages = subject.messages(rows)?;
        let task = match subject {
            Subject::Task(task) => Some(*task),
            Subject::Message(_) => None,
        };
        let Some(first) = messages.first() else {
            return Ok(None);
        };
        let conversation = rows.conversation(&first.conversation_id)?;
        let (events, asked) = (newest_events(rows, &messages)?, asked(rows, &messages)?);
        let messages: Vec<MessageRows> = messages
            .into_iter()
            .map(|message| MessageRows::load(rows, message))
            .collect::<Result<_, _>>()?;
        Ok(Some(Self {
            task,
            conversation,
            events,
            asked,
            transport: transport(&rows.live_incarnations()?, &messages),
            messages,
        }))
    }
}

/// How we talk to the Codex of its newest turn while that one lives; there may be several. Otherwise how we would.
pub(super) fn transport(live: &[Incarnation], messages: &[MessageRows]) -> Transport {
    let turn = messages.iter().rev().find_map(|rows| rows.turn.as_ref());
    let own = turn.and_then(|turn| {
        let mut live = live.iter();
        live.find(|incarnation| incarnation.incarnation_id == turn.incarnation)
    });
    own.or(live.last())
        .map_or(Transport::Socket, |incarnation| incarnation.transport)
}

impl MessageRows {
    fn load(rows: &dyn Read, message: Message) -> Result<Self, RowsError> {
        Ok(Self {
            answer: rows.answer(&message.message_id)?,
            turn: rows.turn(&message.message_id, message.life.attempt)?,
            message,
        })
    }
}

fn asked(rows: &dyn Read, messages: &[Message]) -> Result<Vec<Request>, RowsError> {
    let mut asked = Vec::new();
    for message in messages {
        if !message.life.state.name().finished() {
            asked.extend(rows.live_requests(&message.message_id)?);
        }
    }
    asked.retain(|request| request.state.waits());
    Ok(asked)
}

fn newest_events(rows: &dyn Read, messages: &[Message]) -> Result<Vec<ItemEvent>, RowsError> {
    let told = u32::try_from(EVENTS_TOLD).unwrap_or(u32::MAX);
    let mut events = Vec::new();
    for message in messages.iter().rev() {
        let last = rows.last_event(&message.message_id)?;
        events.extend(rows.events(&message.message_id, last.saturating_sub(told), told)?);
    }
    events.sort_by(|one, other| {
        let key = |event: &ItemEvent| (event.at, event.message_id.clone(), event.ordinal);
        key(one).cmp(&key(other))
    });
    let surplus = events.len().saturating_sub(EVENTS_TOLD);
    events.drain(..surplus);
    Ok(events)
}
