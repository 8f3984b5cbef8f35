//! The events of a task, in order, derived from rows. A subscription keeps the mark of the last delivered one; what comes
//! behind it in this list is still to be delivered.
//!
//! Past events never move, so a receiver that was away gets the rest in order. Only requests come and go: a settled one is
//! no event any more.

use crate::outcome::{self, Outcome};
use crate::port::{Read, RowsError};
use crate::task::{A2aState, TaskMessage, TaskSnapshot};
use crate::value::{Message, MessageId, Subscription, TaskId, Timestamp};
use std::collections::HashSet;

/// The mark of a subscription to future events only.
pub const FROM_NOW: &str = "now";

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEvent {
    /// Its stable name within the task.
    pub mark: String,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The task was in this state.
    Stood {
        /// The state.
        state: A2aState,
        /// Since when.
        at: Timestamp,
    },
    /// The task is in this state: [`TaskSnapshot::now`] says the rest.
    Stands(A2aState),
    /// A message was answered, and there is something to show.
    Answered(MessageId),
}

/// A task with the rows that its events are derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    pub view: TaskSnapshot,
    /// When the first turn of its first message began; not known where no turn of its first attempt was.
    pub began: Option<Timestamp>,
}

impl Timeline {
    /// Reads it.
    pub fn load(rows: &dyn Read, task_id: &TaskId) -> Result<Option<Self>, RowsError> {
        let Some(view) = TaskSnapshot::load(rows, task_id)? else {
            return Ok(None);
        };
        let began = match view.messages.first() {
            Some(first) => rows.turn(&first.message.message_id, 1)?,
            None => None,
        };
        Ok(Some(Self {
            began: began.map(|turn| turn.started_at),
            view,
        }))
    }

    /// Whether nothing more happens to the task.
    #[must_use]
    pub fn over(&self) -> bool {
        self.view.now().state.terminal()
    }

    /// The end of a started task; every message of it is answered or over.
    #[must_use]
    pub fn end(&self) -> Option<TaskEvent> {
        let over = self.view.task.start.is_some() && self.view.settled();
        over.then(|| TaskEvent {
            mark: Subscription::END.to_owned(),
            what: What::Stands(self.view.state().a2a()),
        })
    }

    /// Every event, in order.
    #[must_use]
    pub fn task_events(&self) -> Vec<TaskEvent> {
        let mut dated = Vec::new();
        let mut messages = self.view.messages.iter().peekable();
        let shown: HashSet<_> = self.view.answered().map(id_of).collect();
        let mut first = true;
        while let Some(one) = messages.next() {
            self.of_message(one, first, &mut dated);
            if let Some(answer) = &one.answer {
                let id = id_of(one);
                let at = answer.created_at;
                if shown.contains(id) && one.says_something() {
                    let what = What::Answered(id.clone());
                    dated.push((at, task_event(id, "answer", what)));
                }
                // It stood so until the next word came.
                let asked = outcome::read(&answer.text).0 == Outcome::Asks;
                let next = messages.peek();
                if asked && next.is_some_and(|next| next.message.received_at >= at) {
                    dated.push((at, stood(id, A2aState::InputRequired, at)));
                }
            }
            first = false;
        }
        dated.sort_by_key(|(at, _)| *at);
        let mut events: Vec<_> = dated
            .into_iter()
            .map(|(_, task_event)| task_event)
            .collect();
        events.extend(self.present(&events));
        events
    }

    fn of_message(&self, one: &TaskMessage, first: bool, to: &mut Vec<(Timestamp, TaskEvent)>) {
        let message = &one.message;
        let (id, came) = (&message.message_id, message.received_at);
        if !first {
            to.push((came, stood(id, A2aState::Working, came)));
            return;
        }
        to.push((came, stood(id, A2aState::Submitted, came)));
        if was_begun(message) {
            let answered = one.answer.as_ref().map(|answer| answer.created_at);
            let at = self.began.or(answered).unwrap_or(message.life.updated_at);
            // It has its place behind the beginning, whenever that is known: a turn may be lost, and begun again.
            to.push((came, stood(id, A2aState::Working, at.max(came))));
        }
    }

    /// How it stands, unless that was the last thing to tell.
    fn present(&self, events: &[TaskEvent]) -> Option<TaskEvent> {
        let last = self.view.messages.last()?;
        let state = self.view.now().state;
        let stands = What::Stands(state);
        if let Some(asked) = self.view.question() {
            let asked = asked.request;
            let name = format!("{}/{}", asked.request_id, state.as_str());
            return Some(task_event(&asked.message_id, &name, stands));
        }
        let before = events
            .iter()
            .rev()
            .find_map(|task_event| match &task_event.what {
                What::Stood { state, .. } | What::Stands(state) => Some(*state),
                What::Answered(_) => None,
            });
        let news = before != Some(state);
        news.then(|| task_event(&last.message.message_id, state.as_str(), stands))
    }
}

/// The event behind a mark.
#[must_use]
pub fn behind<'t>(task_events: &'t [TaskEvent], mark: Option<&str>) -> Option<&'t TaskEvent> {
    let Some(mark) = mark else {
        return task_events.first();
    };
    if let Some(at) = task_events
        .iter()
        .rposition(|task_event| task_event.mark == mark)
    {
        return task_events.get(at + 1);
    }
    // What it names is not so any more: a question was settled, or a dead letter was sent again. The work went on.
    let message = mark.split('/').next().unwrap_or_default();
    let working = format!("{message}/{}", A2aState::Working.as_str());
    let resumed = task_events
        .iter()
        .find(|task_event| task_event.mark == working);
    resumed.or(task_events.last())
}

fn id_of(one: &TaskMessage) -> &MessageId {
    &one.message.message_id
}

fn was_begun(message: &Message) -> bool {
    message.life.attempt > 0 || message.life.state.name().in_flight()
}

fn task_event(message_id: &MessageId, name: &str, what: What) -> TaskEvent {
    TaskEvent {
        mark: format!("{message_id}/{name}"),
        what,
    }
}

fn stood(message_id: &MessageId, state: A2aState, at: Timestamp) -> TaskEvent {
    task_event(message_id, state.as_str(), What::Stood { state, at })
}

#[cfg(test)]
mod tests;
