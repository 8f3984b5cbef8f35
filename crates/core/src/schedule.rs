//! Who goes next: people before agents, then the message that waits longest.
//!
//! Order inside a conversation is kept by what counts as a head; this only chooses between conversations.

use crate::port::Head;

/// The head to claim, if there is one. Ties go to the smaller id, so the choice is the same every time.
#[must_use]
pub fn pick(heads: &[Head]) -> Option<&Head> {
    heads.iter().min_by(|a, b| {
        let key = |head: &Head| (head.message.kind, head.message.received_at);
        key(a)
            .cmp(&key(b))
            .then_with(|| a.message.message_id.cmp(&b.message.message_id))
    })
}
