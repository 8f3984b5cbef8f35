//! A check of every text of a ledger's file against its checksum.

use crate::sql::{self, sums};
use bridge_core::port::RowsError;
use rusqlite::Connection;
use rusqlite::types::Value;

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
            if text.as_str().is_ok_and(|text| sums::holds(text, stored)) {
                continue;
            }
            let id = row.get::<_, Value>(0).map_err(sql::failed)?;
            findings.push(format!("the {what} {} is not what was stored", name(id)));
            if findings.len() == max {
                return Ok(findings);
            }
        }
    }
    Ok(findings)
}

fn name(id: Value) -> String {
    match id {
        Value::Text(id) => id,
        other => format!("in row {other:?}"),
    }
}
