//! Loads the rows of a task, or of a message of any channel that is shown as one.

use crate::control::ControlError;
use crate::message_view::ID_PREFIX_MIN_CHARS;
use bridge_core::find::TASK_PREFIX;
use bridge_core::phase::Phase;
use bridge_core::port::{Read, RowsError};
use bridge_core::task::{ControlStatus, TaskMessage, TaskState, phase, present};
use bridge_core::value::{
    Conversation, Incarnation, ItemEvent, Message, MessageId, Request, Subscription, Task, TaskId,
    Transport, Turn,
};

/// Messages of a task that are read, the newest ones.
const MESSAGES_READ: u32 = 50;
/// Events that are shown, the newest ones; as many as in the legacy tool.
pub(super) const EVENTS_SHOWN: usize = 20;

/// What an id names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskSubject {
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
            Self::Unknown => ControlError::unknown(format!("Unknown Codex bridge task: {id}")),
            Self::Several => ControlError::invalid(format!(
                "several tasks or messages begin with {id}: give more of the id"
            )),
        }
    }
}

impl TaskSubject {
    /// The task or message with this id; its beginning will do.
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
        Ok(Ok(match rows.started_task(&message.conversation_id)? {
            Some(task) => Self::Task(Box::new(task)),
            None => Self::Message(message_id),
        }))
    }

    /// Its messages, oldest first.
    pub(crate) fn messages(&self, rows: &dyn Read) -> Result<Vec<Message>, RowsError> {
        Ok(match self {
            Self::Task(task) => {
                let mut messages = rows.last_messages(&task.conversation_id, MESSAGES_READ)?;
                messages.reverse();
                messages
            }
            Self::Message(message_id) => rows.message(message_id)?.into_iter().collect(),
        })
    }

    fn find_task(rows: &dyn Read, id: &str) -> Result<Result<Self, NotFound>, RowsError> {
        let found = rows.task(&TaskId::new(id))?;
        if let Some(task) = found.filter(|task| task.start.is_some()) {
            return Ok(Ok(Self::Task(Box::new(task))));
        }
        if id.chars().count() < TASK_PREFIX.len() + ID_PREFIX_MIN_CHARS {
            return Ok(Err(NotFound::Unknown));
        }
        let mut found = rows.started_tasks_by_prefix(id, 2)?;
        Ok(match (found.pop(), found.pop()) {
            (Some(task), None) => Ok(Self::Task(Box::new(task))),
            (Some(_), Some(_)) => Err(NotFound::Several),
            (None, _) => Err(NotFound::Unknown),
        })
    }
}

/// The rows of one task or message.
#[derive(Debug)]
pub(crate) struct TaskRows {
    pub(super) task: Option<Task>,
    /// The subscription to its end.
    pub(super) notification: Option<Subscription>,
    pub(super) conversation: Option<Conversation>,
    /// Oldest first.
    pub(super) messages: Vec<TaskMessage>,
    /// The newest turn of each message, in the same order.
    pub(super) turns: Vec<Turn>,
    /// Oldest first.
    pub(super) events: Vec<ItemEvent>,
    /// How we talk to Codex.
    pub(super) transport: Transport,
}

impl TaskRows {
    pub(crate) fn load(rows: &dyn Read, subject: TaskSubject) -> Result<Option<Self>, RowsError> {
        let messages = subject.messages(rows)?;
        let task = match subject {
            TaskSubject::Task(task) => Some(*task),
            TaskSubject::Message(_) => None,
        };
        let Some(first) = messages.first() else {
            return Ok(None);
        };
        let conversation = rows.conversation(&first.conversation_id)?;
        let events = newest_events(rows, &messages)?;
        let turns = messages
            .iter()
            .filter_map(|message| {
                rows.turn(&message.message_id, message.life.attempt)
                    .transpose()
            })
            .collect::<Result<Vec<_>, _>>()?;
        let notification = match &task {
            Some(task) => rows.subscription(&task.task_id, Subscription::END)?,
            None => None,
        };
        let messages = messages.into_iter();
        Ok(Some(Self {
            task,
            notification,
            conversation,
            events,
            transport: transport(&rows.live_incarnations()?, &turns),
            turns,
            messages: messages
                .map(|message| TaskMessage::load(rows, message))
                .collect::<Result<_, _>>()?,
        }))
    }

    /// Its status.
    pub(crate) fn status(&self) -> ControlStatus {
        TaskState::derive(&self.messages, false).control()
    }

    /// The same in the words for people.
    pub(crate) fn phase(&self) -> Phase {
        phase(&self.messages)
    }

    /// The message that decides its status.
    pub(super) fn present(&self) -> Option<&TaskMessage> {
        present(&self.messages)
    }

    /// The requests that Codex waits for.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.messages.iter().flat_map(|one| &one.requests)
    }
}

/// How we talk to the Codex of its newest turn while that one lives; there may be several. Otherwise how we would.
pub(super) fn transport(live: &[Incarnation], turns: &[Turn]) -> Transport {
    let own = turns.last().and_then(|turn| {
        let mut live = live.iter();
        live.find(|incarnation| incarnation.incarnation_id == turn.incarnation)
    });
    own.or(live.last())
        .map_or(Transport::Socket, |incarnation| incarnation.transport)
}

fn newest_events(rows: &dyn Read, messages: &[Message]) -> Result<Vec<ItemEvent>, RowsError> {
    let limit = u32::try_from(EVENTS_SHOWN).unwrap_or(u32::MAX);
    let mut events = Vec::new();
    for message in messages.iter().rev() {
        let last = rows.last_event(&message.message_id)?;
        events.extend(rows.events(&message.message_id, last.saturating_sub(limit), limit)?);
    }
    events.sort_by(|one, other| {
        let key = |event: &ItemEvent| (event.at, event.message_id.clone(), event.ordinal);
        key(one).cmp(&key(other))
    });
    let surplus = events.len().saturating_sub(EVENTS_SHOWN);
    events.drain(..surplus);
    Ok(events)
}
