//! Who sent messages lately, and how messages ended, for people.

use super::fields::Fields;
use crate::sql::{self, Conn};
use bridge_core::limits::{BACKLOG_MAX, FIGURES_SCAN_MAX, SENDERS_SCAN_MAX};
use bridge_core::port::{FinishedMessage, RecentSender, RowsError};
use bridge_core::step::{REDRIVE_REASON, RedriveOutcome};
use bridge_core::value::{ChannelId, MessageId, StateName, Timestamp};
use std::collections::BTreeMap;

pub(crate) const SENDERS: &str = "SELECT message_id, channel, sender, tier, received_at FROM message \
     ORDER BY row DESC LIMIT ?1";

pub(crate) fn recent_senders(
    conn: Conn<'_>,
    since: Timestamp,
) -> Result<Vec<RecentSender>, RowsError> {
    let mut senders: BTreeMap<(ChannelId, String), RecentSender> = BTreeMap::new();
    sql::find(conn, SENDERS, [SENDERS_SCAN_MAX], |row| {
        let mut fields = Fields::of("message", row);
        let _id: String = fields.next()?;
        let channel = fields.id(ChannelId::new)?;
        let sender: String = fields.next()?;
        let tier = fields.word()?;
        let at = fields.time()?;
        if at >= since {
            let known = senders.entry((channel.clone(), sender.clone()));
            let known = known.or_insert_with(|| RecentSender {
                channel,
                sender,
                tier,
                messages: 0,
                newest_at: at,
            });
            known.messages = known.messages.saturating_add(1);
        }
        Ok(None::<()>)
    })?;
    Ok(senders.into_values().collect())
}

pub(crate) const FINISHED: &str = "SELECT message_id, channel, sender, received_at, updated_at, failure_class, \
     (SELECT created_at FROM answer WHERE answer.message_id = message.message_id), \
     (SELECT CAST(coalesce(sum(input_tokens + output_tokens), 0) AS BIGINT) FROM turn \
      WHERE turn.message_id = message.message_id) \
     FROM message INDEXED BY message_finished WHERE queue IS NULL AND state = ?1 AND updated_at >= ?2 \
     ORDER BY updated_at DESC, message_id DESC LIMIT ?3";

pub(crate) fn finished_since(
    conn: Conn<'_>,
    state: StateName,
    since: Timestamp,
) -> Result<Vec<FinishedMessage>, RowsError> {
    let of = (state.as_str(), since.0, FIGURES_SCAN_MAX);
    sql::many(conn, FINISHED, of, |row| {
        let mut fields = Fields::of("message", row);
        Ok(FinishedMessage {
            message_id: fields.id(MessageId::new)?,
            channel: fields.id(ChannelId::new)?,
            sender: fields.next()?,
            received_at: fields.time()?,
            ended_at: fields.time()?,
            class: fields.next()?,
            answered_at: fields.maybe_time()?,
            tokens: u64::try_from(fields.next::<i64>()?).unwrap_or(0),
        })
    })
}

macro_rules! failed {
    ($of:literal) => {
        concat!(
            "SELECT message_id, attempt, failure_class, \
             EXISTS (SELECT 1 FROM answer WHERE answer.message_id = message.message_id) \
             FROM message INDEXED BY ",
            $of,
            " ORDER BY message_id LIMIT ?1"
        )
    };
}

const DEAD: &str = failed!("message_dead WHERE state = 'dead'");
const PARKED: &str = failed!("message_parked WHERE state = 'parked'");

/// Without the texts: there may be as many as wait at most.
pub(crate) fn failed(conn: Conn<'_>) -> Result<Vec<(MessageId, RedriveOutcome)>, RowsError> {
    let mut found = Vec::new();
    for (state, query) in [(StateName::Dead, DEAD), (StateName::Parked, PARKED)] {
        let of_state = sql::many(conn, query, [BACKLOG_MAX], |row| {
            let mut fields = Fields::of("message", row);
            let id = fields.id(MessageId::new)?;
            let (attempt, class) = (fields.next()?, fields.next::<Option<String>>()?);
            Ok((id, attempt, class, fields.next::<bool>()?))
        })?;
        found.extend(of_state.into_iter().map(|(id, attempt, class, answered)| {
            let outcome = RedriveOutcome::of_columns(state, attempt, class.as_deref(), answered);
            (id, outcome)
        }));
    }
    found.sort_by(|(one, _), (two, _)| one.cmp(two));
    Ok(found)
}

/// Also behind another message of its conversation. Asked once for each call: walks the bounded index of open messages.
const LAST_REDRIVE: &str = "SELECT max(hold_until) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL AND state = 'received' AND hold_reason = ?1";

pub(crate) fn last_redrive(conn: Conn<'_>) -> Result<Option<Timestamp>, RowsError> {
    Ok(sql::number(conn, LAST_REDRIVE, [REDRIVE_REASON])?.map(Timestamp))
}
