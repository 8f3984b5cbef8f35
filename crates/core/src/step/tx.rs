//! The context that a transition runs in: the rows of one open transaction, what was written, and what is left to do.

use super::{Action, Applied, Refused, RunError};
use crate::limits;
use crate::port::{Change, Read, Rows, RowsError};
use crate::value::{
    AuditEntry, ConversationId, EventKind, ItemEvent, Life, Message, MessageId, StateName,
    Timestamp, Turn,
};
use core::fmt::Display;
use core::ops::Deref;

/// One open transaction. Reads go through [`Deref`]; a change is written at once, so later reads see it.
///
/// It has no clock and does no I/O of its own: the same rows, the same transition and the same `now` give the same
/// changes and actions.
pub struct Tx<'a> {
    rows: &'a mut (dyn Rows + 'a),
    changes: Vec<Change>,
    actions: Vec<Action>,
}

impl<'a> Deref for Tx<'a> {
    type Target = dyn Read + 'a;

    fn deref(&self) -> &Self::Target {
        &*self.rows
    }
}

impl core::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tx")
            .field("changes", &self.changes)
            .field("actions", &self.actions)
            .finish_non_exhaustive()
    }
}

impl<'a> Tx<'a> {
    /// A context over the rows of an open transaction.
    pub fn new(rows: &'a mut (dyn Rows + 'a)) -> Self {
        Self {
            rows,
            changes: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Writes a change. A guard that does not hold is a [`RowsError::Conflict`], which undoes the transaction.
    pub fn change(&mut self, change: Change) -> Result<(), RowsError> {
        self.rows.apply(&change)?;
        self.changes.push(change);
        Ok(())
    }

    /// Leaves an action to do after the commit.
    pub fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// What was written, what is left to do, and what the caller learns.
    pub fn finish<O>(self, outcome: O) -> Applied<O> {
        Applied {
            changes: self.changes,
            actions: self.actions,
            outcome,
        }
    }

    /// A message that must exist and be in one of `states`.
    pub(super) fn expect(
        &self,
        transition: &'static str,
        message_id: &MessageId,
        states: &[StateName],
    ) -> Result<Message, RunError> {
        match self.message(message_id)? {
            Some(message) if states.contains(&message.life.state.name()) => Ok(message),
            other => Err(Refused::new(transition, message_id, other.as_ref()).into()),
        }
    }

    /// A message that must exist.
    pub(super) fn existing(
        &self,
        transition: &'static str,
        message_id: &MessageId,
    ) -> Result<Message, RunError> {
        let message = self.message(message_id)?;
        message.ok_or_else(|| Refused::new(transition, message_id, None).into())
    }

    /// The turn of a message's newest attempt.
    pub(super) fn turn_of(&self, message: &Message) -> Result<Option<Turn>, RowsError> {
        self.turn(&message.message_id, message.life.attempt)
    }

    /// Rewrites the life of a message as it was read.
    pub(super) fn set_life(&mut self, message: &Message, life: Life) -> Result<(), RowsError> {
        self.change(Change::UpdateState {
            message_id: message.message_id.clone(),
            from: message.life.state.name(),
            life,
        })
    }

    /// Adds an event, unless the message has as many as are kept.
    pub(super) fn event(
        &mut self,
        message: &Message,
        kind: EventKind,
        text: &str,
        now: Timestamp,
    ) -> Result<(), RowsError> {
        let last = self.last_event(&message.message_id)?;
        if last >= limits::EVENTS_PER_MESSAGE_MAX {
            return Ok(());
        }
        self.change(Change::NewEvent(ItemEvent {
            message_id: message.message_id.clone(),
            ordinal: last + 1,
            attempt: message.life.attempt,
            kind,
            text: limits::clip(text, limits::EVENT_TEXT_MAX_CHARS),
            at: now,
        }))
    }

    /// Adds an act of a person.
    pub(super) fn audit(
        &mut self,
        actor: impl Display,
        what: &str,
        subject: impl Display,
        detail: impl Into<String>,
        now: Timestamp,
    ) -> Result<(), RowsError> {
        self.change(Change::Audit(AuditEntry {
            at: now,
            actor: actor.to_string(),
            what: what.to_owned(),
            subject: subject.to_string(),
            detail: detail.into(),
        }))
    }

    /// Tells watchers that rows of a message changed.
    pub(super) fn announce(&mut self, message_id: &MessageId) {
        self.act(Action::Announce {
            message_id: message_id.clone(),
        });
    }

    /// Wakes the lane of a conversation.
    pub(super) fn deliver(&mut self, conversation_id: &ConversationId) {
        self.act(Action::Deliver {
            conversation_id: conversation_id.clone(),
        });
    }
}
