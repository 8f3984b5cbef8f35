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

/// What is stored beside a text.
pub(super) fn sum(text: &str) -> i64 {
    let sum = text.bytes().fold(START, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    sum.cast_signed()
}

/// Whether a text is what was stored; one from before there were sums is believed.
pub(super) fn holds(text: &str, stored: Option<i64>) -> bool {
    stored.is_none_or(|stored| stored == sum(text))
}

/// What has a text, since which version of the schema, and how to read what names its row, the text and its sum.
const TEXTS: [(&str, i64, &str); 4] = [
    (
        "text of message",
        3,
        "SELECT coalesce(message_id, row), body, body_sum FROM message_text LEFT JOIN message USING (row)",
    ),
    (
        "text of a reply to",
        3,
        "SELECT coalesce(message_id, row), body, body_sum FROM reply_text LEFT JOIN reply USING (row)",
    ),
    (
        "answer to",
        3,
        "SELECT message_id, text, text_sum FROM answer",
    ),
    (
        "word",
        6,
        "SELECT errand_id || '/' || ordinal, original, original_sum FROM word",
    ),
];

/// Reads every text that this version of the schema has a sum of; gives what is wrong, at most `max`. A ledger that is
/// about to be migrated may be of an older one.
pub(super) fn check(conn: &Connection, max: usize) -> Result<Vec<String>, RowsError> {
    let version: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(sql::failed)?;
    let mut findings = Vec::new();
    for (what, _, query) in TEXTS.into_iter().filter(|(_, since, _)| *since <= version) {
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
        let stored = Some(sum(&text));
        assert!(holds(&text, stored) && holds(&text, None));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 1;
            let other = String::from_utf8(other).unwrap();
            assert!(!holds(&other, stored), "{at}");
        }
        assert_eq!(sum(""), START.cast_signed());
    }
}
