//! The `reply` table and its texts, in the order of their lane.
//!
//! Column mapping, guarded moves and the lane queries; when a reply is sent again is decided by the core.

use super::fields::Fields;
use super::{attached, sums};
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::port::RowsError;
use bridge_core::value::{
    ChannelId, ConversationId, MessageId, Reply, ReplyKey, ReplyState, ReplyStateName, SenderKind,
    Seq, Timestamp, Twin,
};

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT message_id, ordinal, conversation_id, seq, reply_key, kind, body, body_sum, files, state, \
             not_before, receipt, sent_at, reason, tries, first_try_at, created_at FROM ",
            $tail
        )
    };
}

pub(crate) const OF_MESSAGE: &str =
    select!("reply JOIN reply_text USING (row) WHERE message_id = ?1 ORDER BY ordinal");

pub(crate) const NEXT: &str = select!(
    "reply INDEXED BY reply_lane JOIN reply_text USING (row) \
     WHERE state IN ('queued', 'sending') AND conversation_id = ?1 ORDER BY seq, ordinal LIMIT 1"
);

pub(crate) const LANES: &str = "SELECT DISTINCT conversation_id FROM reply INDEXED BY reply_lane \
     WHERE state IN ('queued', 'sending') AND conversation_id > ?1 \
     ORDER BY conversation_id LIMIT ?2";

/// Checksums are compared before texts.
pub(crate) const TWINS: &str = "SELECT reply_key, first_try_at, reply.sent_at \
     FROM reply INDEXED BY reply_sent CROSS JOIN reply_text USING (row) CROSS JOIN message USING (message_id) \
     WHERE reply.sent_at >= ?4 AND body_sum = ?3 AND channel = ?1 AND message.kind = ?2 \
     AND reply_text.body = ?5 ORDER BY reply.sent_at, reply_key LIMIT ?6";

pub(crate) fn read(row: &Row<'_>) -> Result<Reply, RowsError> {
    let mut fields = Fields::of("reply to", row);
    Ok(Reply {
        message_id: fields.id(MessageId::new)?,
        ordinal: fields.next()?,
        conversation_id: fields.id(ConversationId::new)?,
        seq: fields.next().map(Seq)?,
        key: fields.id(ReplyKey::new)?,
        kind: fields.word()?,
        body: fields.text()?,
        attachments: attached::read(&mut fields)?,
        state: read_state(&mut fields)?,
        tries: fields.next()?,
        first_try_at: fields.maybe_time()?,
        created_at: fields.time()?,
    })
}

fn read_state(fields: &mut Fields<'_>) -> Result<ReplyState, RowsError> {
    let name = fields.word()?;
    let not_before = fields.maybe_time()?;
    let receipt = fields.next()?;
    let sent_at = fields.maybe_time()?;
    let reason = fields.next()?;
    Ok(match name {
        ReplyStateName::Queued => ReplyState::Queued { not_before },
        ReplyStateName::Sending => ReplyState::Sending,
        ReplyStateName::Sent => ReplyState::Sent {
            receipt: fields.required("it is sent without a receipt", receipt)?,
            at: sent_at,
        },
        ReplyStateName::Dead => ReplyState::Dead {
            reason: fields.required("it is dead without a reason", reason)?,
        },
    })
}

/// A state as its columns.
#[derive(Default)]
struct ReplyColumns<'a> {
    not_before: Option<i64>,
    receipt: Option<&'a String>,
    sent_at: Option<i64>,
    reason: Option<&'a String>,
}

fn state_columns(state: &ReplyState) -> ReplyColumns<'_> {
    let none = ReplyColumns::default();
    match state {
        ReplyState::Queued { not_before } => ReplyColumns {
            not_before: not_before.map(|at| at.0),
            ..none
        },
        ReplyState::Sending => none,
        ReplyState::Sent { receipt, at } => ReplyColumns {
            receipt: Some(receipt),
            sent_at: at.map(|at| at.0),
            ..none
        },
        ReplyState::Dead { reason } => ReplyColumns {
            reason: Some(reason),
            ..none
        },
    }
}

pub(crate) fn twins(
    conn: Conn<'_>,
    channel: &ChannelId,
    kind: SenderKind,
    body: &str,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<Twin>, RowsError> {
    let said = sums::sum(body);
    let of = (
        channel.as_str(),
        kind.as_str(),
        said,
        since.0,
        body,
        page(limit),
    );
    sql::many(conn, TWINS, of, |row| {
        let mut fields = Fields::of("a taken reply", row);
        Ok(Twin {
            key: fields.id(ReplyKey::new)?,
            first_try_at: fields.time()?,
            sent_at: fields.time()?,
        })
    })
}

pub(crate) fn insert(conn: Conn<'_>, reply: &Reply) -> Result<(), RowsError> {
    let state = state_columns(&reply.state);
    let what = || format!("new reply {}/{}", reply.message_id, reply.ordinal);
    sql::write(
        conn,
        "INSERT INTO reply (message_id, ordinal, conversation_id, seq, reply_key, kind, state, \
         not_before, receipt, sent_at, reason, tries, first_try_at, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            reply.message_id.as_str(),
            reply.ordinal,
            reply.conversation_id.as_str(),
            reply.seq.0,
            reply.key.as_str(),
            reply.kind.as_str(),
            reply.state.name().as_str(),
            state.not_before,
            state.receipt,
            state.sent_at,
            state.reason,
            reply.tries,
            reply.first_try_at.map(|at| at.0),
            reply.created_at.0,
        ],
        what,
    )?;
    sql::write(
        conn,
        "INSERT INTO reply_text (row, body, body_sum, files) VALUES (last_insert_rowid(), ?1, ?2, ?3)",
        (
            &reply.body,
            sums::sum(&reply.body),
            attached::text(&reply.attachments),
        ),
        what,
    )
}

/// Where a reply goes next.
pub(crate) struct ReplyMove<'a> {
    pub(crate) from: ReplyStateName,
    pub(crate) to: &'a ReplyState,
    pub(crate) tries: u32,
    pub(crate) first_try_at: Option<Timestamp>,
}

pub(crate) fn update(
    conn: Conn<'_>,
    message_id: &MessageId,
    ordinal: u32,
    step: &ReplyMove<'_>,
) -> Result<(), RowsError> {
    let state = state_columns(step.to);
    sql::write(
        conn,
        "UPDATE reply SET state = ?4, not_before = ?5, receipt = ?6, reason = ?7, tries = ?8, \
         first_try_at = ?9, sent_at = ?10 WHERE message_id = ?1 AND ordinal = ?2 AND state = ?3",
        params![
            message_id.as_str(),
            ordinal,
            step.from.as_str(),
            step.to.name().as_str(),
            state.not_before,
            state.receipt,
            state.reason,
            step.tries,
            step.first_try_at.map(|at| at.0),
            state.sent_at,
        ],
        || format!("reply {message_id}/{ordinal}"),
    )
}
