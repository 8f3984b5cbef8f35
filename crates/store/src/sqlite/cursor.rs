//! The `cursor` table: how far each source was read. The position is the channel's own text.

use super::fields::Fields;
use super::sql;
use bridge_core::port::RowsError;
use bridge_core::value::{ChannelId, Timestamp};
use rusqlite::{Connection, params};

pub(super) fn read(conn: &Connection, channel: &ChannelId) -> Result<Option<String>, RowsError> {
    let query = "SELECT channel, position FROM cursor WHERE channel = ?1";
    sql::one(conn, query, [channel.as_str()], |row| {
        let mut fields = Fields::of("cursor of", row);
        let _channel: String = fields.next()?;
        fields.next()
    })
}

pub(super) fn write(
    conn: &Connection,
    channel: &ChannelId,
    position: &str,
    at: Timestamp,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "INSERT INTO cursor (channel, position, updated_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (channel) DO UPDATE SET position = ?2, updated_at = ?3",
        params![channel.as_str(), position, at.0],
        || format!("cursor of {channel}"),
    )
}
