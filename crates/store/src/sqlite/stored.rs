//! The `stored` table: what senders stored, by the hour.

use super::fields::Fields;
use super::sql;
use bridge_core::limits::STORED_HOURS_READ;
use bridge_core::port::{RowsError, StoredBytes};
use bridge_core::storage::StoredHour;
use bridge_core::value::{ChannelId, Timestamp};
use rusqlite::{Connection, params};

pub(super) const HOURS: &str = "SELECT hour, bytes FROM stored_bytes WHERE channel = ?1 AND sender = ?2 \
     ORDER BY hour DESC LIMIT ?3";

pub(super) fn hours(
    conn: &Connection,
    channel: &ChannelId,
    sender: &str,
) -> Result<Vec<StoredHour>, RowsError> {
    let of = (channel.as_str(), sender, STORED_HOURS_READ);
    let mut newest = sql::many(conn, HOURS, of, |row| {
        let mut fields = Fields::of("hour of a sender", row);
        let hour = fields.time()?;
        let bytes: i64 = fields.next()?;
        Ok(StoredHour {
            hour,
            bytes: u64::try_from(bytes).unwrap_or(0),
        })
    })?;
    newest.reverse();
    Ok(newest)
}

pub(super) fn add(conn: &Connection, stored: &StoredBytes) -> Result<(), RowsError> {
    let (channel, sender) = (stored.channel.as_str(), &stored.sender);
    let bytes = i64::try_from(stored.bytes).unwrap_or(i64::MAX);
    sql::write(
        conn,
        "INSERT INTO stored_bytes (channel, sender, hour, bytes) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (channel, sender, hour) DO UPDATE SET bytes = bytes + ?4",
        params![channel, sender, stored.hour.0, bytes],
        || format!("what {sender} stored"),
    )
}

pub(super) fn forget(conn: &Connection, before: Timestamp) -> Result<(), RowsError> {
    sql::run(conn, "DELETE FROM stored_bytes WHERE hour < ?1", [before.0])
}
