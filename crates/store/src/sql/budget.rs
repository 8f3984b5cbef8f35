//! What a sender has used: the cost of its turns, and the bytes that it stored by the hour.
//!
//! Costs are read newest first from an index over the column `spender` of `turn`, so that other senders' turns are not
//! visited.

use super::fields::Fields;
use crate::sql::{self, Conn, Row, params};
use bridge_core::budget::{DayBudget, Meter};
use bridge_core::limits::STORED_HOURS_READ;
use bridge_core::port::{RowsError, StoredBytes, TurnsUsed};
use bridge_core::storage::StoredHour;
use bridge_core::value::{ChannelId, Timestamp};
use rusqlite::ToSql;

/// Claimed messages count already: their turns begin at once.
pub(crate) const CLAIMED: &str = "SELECT updated_at, 0, 0 FROM message \
     WHERE queue = 'in_flight' AND state = 'claimed' AND channel = ?1 AND sender = ?2 AND updated_at > ?3 \
     ORDER BY updated_at DESC";

pub(crate) const TURNS: &str = "SELECT started_at, input_tokens, output_tokens FROM turn \
     WHERE spender = ?1 AND started_at > ?2 ORDER BY started_at DESC";

/// The stored word for a sender of a channel; what [`super::turn`] writes.
fn spender(channel: &ChannelId, sender: &str) -> String {
    format!("{channel}\n{sender}")
}

/// Passes each cost, newest first, to `take` until it returns a value.
fn costs<T>(
    conn: Conn<'_>,
    (channel, sender): (&ChannelId, &str),
    since: Timestamp,
    mut take: impl FnMut(Timestamp, u64) -> Option<T>,
) -> Result<Option<T>, RowsError> {
    let claimed = params![channel.as_str(), sender, since.0];
    if let Some(enough) = first(conn, CLAIMED, claimed, &mut take)? {
        return Ok(Some(enough));
    }
    let turns = params![spender(channel, sender), since.0];
    first(conn, TURNS, turns, &mut take)
}

fn first<T>(
    conn: Conn<'_>,
    query: &str,
    params: &[&dyn ToSql],
    take: &mut impl FnMut(Timestamp, u64) -> Option<T>,
) -> Result<Option<T>, RowsError> {
    sql::find(conn, query, params, |row| {
        let (at, tokens) = read(row)?;
        Ok(take(at, tokens))
    })
}

fn read(row: &Row<'_>) -> Result<(Timestamp, u64), RowsError> {
    let mut fields = Fields::of("turn", row);
    let at = fields.time()?;
    let read: i64 = fields.next()?;
    let written: i64 = fields.next()?;
    let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
    Ok((at, tokens(read).saturating_add(tokens(written))))
}

pub(crate) fn reached(
    conn: Conn<'_>,
    channel: &ChannelId,
    sender: &str,
    since: Timestamp,
    budget: DayBudget,
) -> Result<Option<Timestamp>, RowsError> {
    let mut meter = Meter::new(budget);
    costs(conn, (channel, sender), since, |at, tokens| {
        meter.add(at, tokens)
    })
}

pub(crate) fn used(
    conn: Conn<'_>,
    channel: &ChannelId,
    sender: &str,
    since: Timestamp,
) -> Result<TurnsUsed, RowsError> {
    let mut used = TurnsUsed::default();
    costs(conn, (channel, sender), since, |_, tokens| {
        used.turns = used.turns.saturating_add(1);
        used.tokens = used.tokens.saturating_add(tokens);
        None::<()>
    })?;
    Ok(used)
}

pub(crate) const STORED_HOURS: &str = "SELECT hour, bytes FROM stored_bytes WHERE channel = ?1 AND sender = ?2 \
     ORDER BY hour DESC LIMIT ?3";

pub(crate) fn stored_hours(
    conn: Conn<'_>,
    channel: &ChannelId,
    sender: &str,
) -> Result<Vec<StoredHour>, RowsError> {
    let of = (channel.as_str(), sender, STORED_HOURS_READ);
    let mut newest = sql::many(conn, STORED_HOURS, of, |row| {
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

pub(crate) fn add_stored(conn: Conn<'_>, stored: &StoredBytes) -> Result<(), RowsError> {
    let (channel, sender) = (stored.channel.as_str(), &stored.sender);
    let bytes = i64::try_from(stored.bytes).unwrap_or(i64::MAX);
    sql::write(
        conn,
        "INSERT INTO stored_bytes (channel, sender, hour, bytes) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (channel, sender, hour) DO UPDATE SET bytes = stored_bytes.bytes + ?4",
        params![channel, sender, stored.hour.0, bytes],
        || format!("what {sender} stored"),
    )
}

pub(crate) fn forget_stored(conn: Conn<'_>, before: Timestamp) -> Result<(), RowsError> {
    sql::run(conn, "DELETE FROM stored_bytes WHERE hour < ?1", [before.0])
}
