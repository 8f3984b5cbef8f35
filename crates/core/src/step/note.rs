//! Note: what happens inside a running turn (T5). The first effect is journaled at once, so that a turn which
//! may have touched the world is never mistaken for one that did not.

use super::{RunError, Transition, Tx};
use crate::limits;
use crate::port::Change;
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

impl Transition for Note {
    type Outcome = ();
    const NAME: &'static str = "note";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        if self.effect
            && let Some(turn) = tx.turn_of(&message)?
            && !turn.touched
        {
            tx.change(Change::Turn(Turn {
                touched: true,
                ..turn
            }))?;
        }
        tx.event(&message, self.kind, &self.text, now)?;
        tx.announce(&self.message_id);
        Ok(())
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
