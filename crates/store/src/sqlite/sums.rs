//! Checksums of texts: what people wrote and Codex answered is stored once, and SQLite can't tell a changed text from
//! another one.
//!
//! The sum is FNV-1a of 64 bits: any single changed byte changes it, and it costs about a nanosecond per byte. It
//! guards against decay, not against somebody who means harm.

use super::sql;
use bridge_core::port::RowsError;
use rusqlite::Connection;

const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// The checksum that is stored beside a text.
pub(super) fn sum(text: &str) -> i64 {
    let sum = text.bytes().fold(START, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    sum.cast_signed()
}

pub(super) fn holds(text: &str, stored: i64) -> bool {
    stored == sum(text)
}

/// Each stored text: its name in a finding, and a query for the id of its row, the text and its checksum.
const TEXTS: [(&str, &str); 4] = [
    (
        "text of message",
        "SELECT coalesce(message_id, row), body, body_sum FROM message_text LEFT JOIN message USING (row)",
    ),
    (
        "text of a reply to",
        "SELECT coalesce(message_id, row), body, body_sum FROM reply_text LEFT JOIN reply USING (row)",
    ),
    ("answer to", "SELECT message_id, text, text_sum FROM answer"),
    (
        "task_input",
        "SELECT task_id || '/' || ordinal, original, original_sum FROM task_input",
    ),
];

/// Compares every text with its checksum; returns at most `max` findings.
pub(super) fn check(conn: &Connection, max: usize) -> Result<Vec<String>, RowsError> {
    let mut findings = Vec::new();
    for (what, query) in TEXTS {
        let mut statement = conn.prepare(query).map_err(sql::failed)?;
        let mut rows = statement.query([]).map_err(sql::failed)?;
        while let Some(row) = rows.next().map_err(sql::failed)? {
            let text = row.get_ref(1).map_err(sql::failed)?;
            let stored = row.get(2).map_err(sql::failed)?;
            if text.as_str().is_ok_and(|text| holds(text, stored)) {
                continue;
            }
            let id = row
                .get::<_, rusqlite::types::Value>(0)
                .map_err(sql::failed)?;
            findings.push(format!("the {what} {} is not what was stored", name(id)));
            if findings.len() == max {
                return Ok(findings);
            }
        }
    }
    Ok(findings)
}

fn name(id: rusqlite::types::Value) -> String {
    match id {
        rusqlite::types::Value::Text(id) => id,
        other => format!("in row {other:?}"),
    }
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
