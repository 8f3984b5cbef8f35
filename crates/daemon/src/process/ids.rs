//! Randomness and new ids: the things the pure core is given as arguments, beside the [`super::clock`].

use bridge_core::value::{ConversationId, MessageId, RequestId, TaskId};
use uuid::Uuid;

pub(crate) use crate::process::clock::now;

/// A random number in 0..=1000 for backoff.
pub(crate) fn jitter() -> u16 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    u16::try_from(high % 1001).unwrap_or(0)
}

pub(crate) fn message_id() -> MessageId {
    MessageId::new(Uuid::now_v7().to_string())
}

pub(crate) fn conversation_id() -> ConversationId {
    ConversationId::new(Uuid::now_v7().to_string())
}

/// As other agents know the tasks that they give.
pub(crate) fn a2a_task_id() -> TaskId {
    TaskId::new(Uuid::now_v7().to_string())
}

/// As other agents know them: twelve random hexadecimal digits behind a word.
pub(crate) fn task_id() -> TaskId {
    let random = Uuid::new_v4().simple().to_string();
    let digits: String = random.chars().take(12).collect();
    TaskId::new(format!("codex-{digits}"))
}

/// A word that nothing else has.
pub(crate) fn mark() -> String {
    Uuid::new_v4().simple().to_string()
}

/// Crockford's alphabet: no letter in it looks like another sign.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// As many as hold 128 bits.
const REQUEST_ID_CHARS: u32 = 26;

/// Unguessable, and short enough in its beginning for people to type: 244 random bits go into 130 of its signs.
pub(crate) fn request_id() -> RequestId {
    let random = Uuid::new_v4().as_u128() ^ Uuid::new_v4().as_u128().rotate_left(64);
    let sign = |place: u32| {
        let index = usize::try_from((random >> (5 * place).min(127)) & 31).unwrap_or(0);
        ALPHABET.get(index).map_or('0', |sign| char::from(*sign))
    };
    RequestId::new((0..REQUEST_ID_CHARS).map(sign).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_use_unambiguous_alphabet() {
        let (one, other) = (request_id(), request_id());
        assert_ne!(one.code(), other.code());
        for id in [one, other] {
            assert_eq!(id.as_str().len(), 26);
            assert!(
                id.as_str().bytes().all(|sign| ALPHABET.contains(&sign)),
                "{id}"
            );
        }
    }
}
