//! The table `quota`: what Codex reported of accounts' limits; and who waits for them.

use super::fields::Fields;
use super::message::{read as read_message, select_message};
use super::queue;
use super::rows::SqlRows;
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::QUOTAS_MAX;
use bridge_core::port::{CapacityWaiters, Head, QueuePosition, QuotaRead, RowsError};
use bridge_core::value::{
    Message, NodeId, Quota, QuotaReport, QuotaSource, QuotaWindow, SlowedSince, Timestamp,
};

/// Read by every claim; there are as many rows as CODEX_HOMEs that reported a limit.
pub(crate) const ALL: &str = "SELECT node_id, codex_home, account, primary_used, primary_minutes, primary_resets_at, \
     primary_slowed_at, primary_slowed_used, secondary_used, secondary_minutes, secondary_resets_at, secondary_slowed_at, \
     secondary_slowed_used, has_credits, refused_until, reported_at FROM quota ORDER BY node_id, codex_home LIMIT ?1";

const HELD_FOR_CAPACITY: &str = select_message!(
    "INDEXED BY message_held JOIN message_text USING (row) \
     WHERE queue = 'held' AND hold_until > ?2 AND hold_class = 'capacity' \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

/// How many wait, and how many of them go first, in the order that claims are made in.
macro_rules! position {
    ($index:literal, $queue:literal) => {
        concat!(
            "SELECT count(*), count(CASE WHEN kind > ?1 OR kind = ?1 \
             AND (round, received_at, message_id) < (?2, ?3, ?4) THEN 1 END) FROM message INDEXED BY ",
            $index,
            " WHERE queue = '",
            $queue,
            "'"
        )
    };
}

pub(crate) const AMONG_READY: &str = position!("message_ready", "ready");
pub(crate) const AMONG_HELD: &str = position!("message_held", "held");

fn read(row: &Row<'_>) -> Result<Quota, RowsError> {
    let mut fields = Fields::of("quota of node", row);
    let some = |text: String| (!text.is_empty()).then_some(text);
    let source = QuotaSource {
        node_id: some(fields.next()?).map(NodeId::new),
        codex_home: some(fields.next()?),
    };
    let account = fields.next()?;
    let (primary, primary_slowed) = read_window(&mut fields)?;
    let (secondary, secondary_slowed) = read_window(&mut fields)?;
    Ok(Quota {
        source,
        report: QuotaReport {
            account,
            primary,
            secondary,
            has_credits: fields.next()?,
            refused_until: fields.maybe_time()?,
        },
        primary_slowed,
        secondary_slowed,
        reported_at: fields.time()?,
    })
}

fn read_window(
    fields: &mut Fields<'_>,
) -> Result<(Option<QuotaWindow>, Option<SlowedSince>), RowsError> {
    let (used, minutes, resets_at) = (fields.next()?, fields.next()?, fields.maybe_time()?);
    let window = Option::<u32>::map(used, |used_percent| QuotaWindow {
        used_percent,
        minutes,
        resets_at,
    });
    let (at, used) = (fields.maybe_time()?, fields.next()?);
    let slowed = at
        .zip(used)
        .map(|(at, used_percent)| SlowedSince { at, used_percent });
    Ok((window, slowed))
}

pub(crate) fn put(conn: Conn<'_>, quota: &Quota) -> Result<(), RowsError> {
    let Quota { source, report, .. } = quota;
    let window = |of: Option<QuotaWindow>, slowed: Option<SlowedSince>| {
        (
            of.map(|it| it.used_percent),
            of.and_then(|it| it.minutes),
            of.and_then(|it| it.resets_at).map(|at| at.0),
            slowed.map(|it| it.at.0),
            slowed.map(|it| it.used_percent),
        )
    };
    let primary = window(report.primary, quota.primary_slowed);
    let secondary = window(report.secondary, quota.secondary_slowed);
    sql::write(
        conn,
        "INSERT INTO quota (node_id, codex_home, account, primary_used, primary_minutes, primary_resets_at, \
         primary_slowed_at, primary_slowed_used, secondary_used, secondary_minutes, secondary_resets_at, \
         secondary_slowed_at, secondary_slowed_used, has_credits, refused_until, reported_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (node_id, codex_home) DO UPDATE SET account = ?3, primary_used = ?4, primary_minutes = ?5, \
         primary_resets_at = ?6, primary_slowed_at = ?7, primary_slowed_used = ?8, secondary_used = ?9, \
         secondary_minutes = ?10, secondary_resets_at = ?11, secondary_slowed_at = ?12, secondary_slowed_used = ?13, \
         has_credits = ?14, refused_until = ?15, reported_at = ?16",
        params![
            source.node_id.as_ref().map_or("", NodeId::as_str),
            source.codex_home.as_deref().unwrap_or_default(),
            report.account,
            primary.0,
            primary.1,
            primary.2,
            primary.3,
            primary.4,
            secondary.0,
            secondary.1,
            secondary.2,
            secondary.3,
            secondary.4,
            report.has_credits,
            report.refused_until.map(|at| at.0),
            quota.reported_at.0,
        ],
        || "report of an account's limit".to_owned(),
    )
}

pub(crate) fn forget(conn: Conn<'_>, before: Timestamp) -> Result<(), RowsError> {
    sql::run(conn, "DELETE FROM quota WHERE reported_at < ?1", [before.0])
}

impl QuotaRead for SqlRows<'_> {
    fn quotas(&self) -> Result<Vec<Quota>, RowsError> {
        sql::many_readable(self.conn(), ALL, [sql::reach(QUOTAS_MAX)], QUOTAS_MAX, read)
    }

    fn held_for_capacity(&self, now: Timestamp, limit: u32) -> Result<Vec<Head>, RowsError> {
        let conn = self.conn();
        let limit = page(limit);
        let of = (sql::reach(limit), now.0);
        let held = sql::many_readable(conn, HELD_FOR_CAPACITY, of, limit, read_message)?;
        let heads = held.into_iter().map(|message| queue::head(conn, message));
        heads.filter_map(Result::transpose).collect()
    }

    fn capacity_waiters(&self, now: Timestamp) -> Result<CapacityWaiters, RowsError> {
        let query = "SELECT count(CASE WHEN kind = 'person' THEN 1 END), count(CASE WHEN kind = 'agent' THEN 1 END) \
             FROM message INDEXED BY message_held WHERE queue = 'held' AND hold_until > ?1 AND hold_class = 'capacity'";
        let counted = sql::one(self.conn(), query, [now.0], |row| {
            let mut fields = Fields::of("messages that wait", row);
            Ok((fields.next::<i64>()?, fields.next::<i64>()?))
        })?;
        let (people, agents) = counted.unwrap_or_default();
        Ok(CapacityWaiters {
            people: people.unsigned_abs(),
            agents: agents.unsigned_abs(),
        })
    }

    fn queue_position(&self, message: &Message) -> Result<QueuePosition, RowsError> {
        let mut position = QueuePosition::default();
        for query in [AMONG_READY, AMONG_HELD] {
            let of = params![
                message.kind.as_str(),
                message.round.0,
                message.received_at.0,
                message.message_id.as_str()
            ];
            let counted = sql::one(self.conn(), query, of, |row| {
                let mut fields = Fields::of("place in the queue", row);
                Ok((fields.next::<i64>()?, fields.next::<i64>()?))
            })?;
            let (waiting, ahead) = counted.unwrap_or_default();
            position.waiting = position.waiting.saturating_add(waiting.unsigned_abs());
            position.ahead = position.ahead.saturating_add(ahead.unsigned_abs());
        }
        Ok(position)
    }
}
