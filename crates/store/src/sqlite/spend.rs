//! What a sender's turns cost, newest first, from an index over the column `spender` of turns. It is derived from the
//! turn's message and written only here, so that nobody has to look at other senders' turns.

use super::fields::Fields;
use super::sql;
use bridge_core::budget::{DayBudget, Meter};
use bridge_core::port::{RowsError, Spent};
use bridge_core::value::{ChannelId, Timestamp};
use rusqlite::{Connection, Row, params};

/// Claimed messages count already: their turns begin at once.
pub(super) const CLAIMED: &str = "SELECT updated_at, 0, 0 FROM message \
     WHERE queue = 'in_flight' AND state = 'claimed' AND channel = ?1 AND sender = ?2 AND updated_at > ?3 \
     ORDER BY updated_at DESC";

pub(super) const TURNS: &str = "SELECT started_at, input_tokens, output_tokens FROM turn \
     WHERE spender = ?1 AND started_at > ?2 ORDER BY started_at DESC";

/// The stored word for a sender of a channel; what [`super::turn`] writes.
fn spender(channel: &ChannelId, sender: &str) -> String {
    format!("{channel}\n{sender}")
}

/// Gives each cost, newest first, until `take` has enough.
fn costs<T>(
    conn: &Connection,
    (channel, sender): (&ChannelId, &str),
    since: Timestamp,
    mut take: impl FnMut(Timestamp, u64) -> Option<T>,
) -> Result<Option<T>, RowsError> {
    let mut claimed = conn.prepare_cached(CLAIMED).map_err(sql::failed)?;
    let mut rows = claimed
        .query(params![channel.as_str(), sender, since.0])
        .map_err(sql::failed)?;
    while let Some(row) = rows.next().map_err(sql::failed)? {
        let (at, tokens) = read(row)?;
        if let Some(enough) = take(at, tokens) {
            return Ok(Some(enough));
        }
    }
    let mut turns = conn.prepare_cached(TURNS).map_err(sql::failed)?;
    let mut rows = turns
        .query(params![spender(channel, sender), since.0])
        .map_err(sql::failed)?;
    while let Some(row) = rows.next().map_err(sql::failed)? {
        let (at, tokens) = read(row)?;
        if let Some(enough) = take(at, tokens) {
            return Ok(Some(enough));
        }
    }
    Ok(None)
}

fn read(row: &Row<'_>) -> Result<(Timestamp, u64), RowsError> {
    let mut fields = Fields::of("turn", row);
    let at = fields.time()?;
    let read: i64 = fields.next()?;
    let written: i64 = fields.next()?;
    let tokens = |count: i64| u64::try_from(count).unwrap_or(0);
    Ok((at, tokens(read).saturating_add(tokens(written))))
}

pub(super) fn spent(
    conn: &Connection,
    channel: &ChannelId,
    sender: &str,
    since: Timestamp,
) -> Result<Spent, RowsError> {
    let mut spent = Spent::default();
    costs(conn, (channel, sender), since, |at, tokens| {
        spent.add(at, tokens);
        None::<()>
    })?;
    Ok(spent)
}

pub(super) fn reached(
    conn: &Connection,
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
