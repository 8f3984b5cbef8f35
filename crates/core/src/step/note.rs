//! The event row of a message.

use crate::limits;
use crate::port::Change;
use crate::value::{EventKind, ItemEvent, Message, Timestamp};

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
