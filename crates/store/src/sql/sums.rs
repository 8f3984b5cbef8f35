//! Checksums of texts: what people wrote and Codex answered is stored once, and SQLite can't tell a changed text from
//! another one.
//!
//! The sum is FNV-1a of 64 bits: any single changed byte changes it, and it costs about a nanosecond per byte. It
//! guards against decay, not against somebody who means harm.

const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// The checksum that is stored beside a text.
pub(crate) fn sum(text: &str) -> i64 {
    let sum = text.bytes().fold(START, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    sum.cast_signed()
}

pub(crate) fn holds(text: &str, stored: i64) -> bool {
    stored == sum(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_byte_changes_the_sum() {
        let text = "an answer of some length".repeat(20);
        let stored = sum(&text);
        assert!(holds(&text, stored));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 1;
            let other = String::from_utf8(other).unwrap();
            assert!(!holds(&other, stored), "{at}");
        }
        assert_eq!(sum(""), START.cast_signed());
    }
}
