//! Note: what happens inside a running turn (T5). The first effect is journaled at once, so that a turn which
//! may have touched the world is never mistaken for one that did not.

use super::{Action, Decision, Refused, Transition};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::value::{EventKind, ItemEvent, Message, MessageId, Timestamp, Turn};

/// Journals one thing that happened while a message was worked on.
#[derive(Clone, Debug)]
pub struct Note {
    /// For which message.
    pub message_id: MessageId,
    /// What kind of thing.
    pub kind: EventKind,
    /// One line for people.
    pub text: String,
    /// Whether it may touch the world.
    pub effect: bool,
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    turn: Option<Turn>,
    last_event: u32,
}

impl Transition for Note {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "note";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let (message, turn) = super::touched::message_and_turn(rows, &self.message_id)?;
        Ok(View {
            message,
            turn,
            last_event: rows.last_event(&self.message_id)?,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let Some(message) = view.message else {
            return Err(Refused::new(Self::NAME, &self.message_id, None));
        };
        let mut changes = Vec::with_capacity(2);
        if let Some(turn) = view.turn.filter(|turn| self.effect && !turn.touched) {
            changes.push(Change::Turn(Turn {
                touched: true,
                ..turn
            }));
        }
        if let Some(change) = event(&message, view.last_event, self.kind, &self.text, now) {
            changes.push(change);
        }
        Ok(Decision {
            changes,
            actions: vec![Action::Announce {
                message_id: self.message_id,
            }],
            outcome: (),
        })
    }
}

/// The event row, unless the message has as many as are kept.
pub(super) fn event(
    message: &Message,
    last_event: u32,
    kind: EventKind,
    text: &str,
    now: Timestamp,
) -> Option<Change> {
    (last_event < limits::EVENTS_PER_MESSAGE_MAX).then(|| {
        Change::NewEvent(ItemEvent {
            message_id: message.message_id.clone(),
            ordinal: last_event + 1,
            attempt: message.life.attempt,
            kind,
            text: limits::clip(text, limits::EVENT_TEXT_MAX_CHARS),
            at: now,
        })
    })
}
