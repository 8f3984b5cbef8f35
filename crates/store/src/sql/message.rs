//! The `message` table and its texts, row by row: column mapping, insert and the guarded rewrite of a life.
//!
//! Lists and queues over it are in `queue`, the derived column `queue` in `place`.

use super::fields::{Fields, failure_columns};
use super::place::{self, QueueMoves, QueueRole};
use super::{attached, conversation, sums, task};
use crate::sql::{self, Conn, Row, params};
use bridge_core::port::RowsError;
use bridge_core::value::{
    ChannelId, ConversationId, ExternalId, Failure, Hold, Life, Message, MessageId, MessageState,
    Round, Seq, StateName, Timestamp, TurnId,
};
use rusqlite::ToSql;

/// All columns of a message, in the order [`read`] takes them, `FROM` what follows.
macro_rules! select_message {
    ($tail:literal) => {
        concat!(
            "SELECT message_id, conversation_id, seq, channel, external_id, kind, sender, tier, \
             body, body_sum, files, sent_at, hops, round, received_at, traceparent, state, turn_id, reason, leader, hold_until, hold_class, \
             hold_class_until, hold_reason, attempt, spent, continues, suspect, input, stopped_by, \
             failure_class, failure_until, failure_reason, updated_at FROM message ",
            $tail
        )
    };
}
pub(crate) use select_message;

pub(crate) const BY_ID: &str =
    select_message!("JOIN message_text USING (row) WHERE message_id = ?1");

pub(crate) const BY_EXTERNAL: &str =
    select_message!("JOIN message_text USING (row) WHERE channel = ?1 AND external_id = ?2");

const INSERT: &str = "INSERT INTO message (message_id, conversation_id, seq, channel, external_id, kind, \
     sender, tier, sent_at, hops, round, received_at, traceparent, queue, state, turn_id, reason, leader, hold_until, hold_class, \
     hold_class_until, hold_reason, attempt, spent, continues, suspect, input, stopped_by, failure_class, \
     failure_until, failure_reason, updated_at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
     ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32)";

/// A life whose place in the queues stays.
pub(crate) const LIVE: &str = "UPDATE message SET state = ?3, turn_id = ?4, reason = ?5, attempt = ?11, \
     spent = ?12, continues = ?13, suspect = ?14, input = ?15, stopped_by = ?16, failure_class = ?17, \
     failure_until = ?18, failure_reason = ?19, updated_at = ?20 \
     WHERE message_id = ?1 AND state = ?2";

/// A life whose place in the queues changes.
pub(crate) const LIVE_ELSEWHERE: &str = "UPDATE message SET queue = ?3, state = ?4, turn_id = ?5, reason = ?6, \
     leader = ?7, hold_until = ?8, hold_class = ?9, hold_class_until = ?10, hold_reason = ?11, \
     attempt = ?12, spent = ?13, continues = ?14, suspect = ?15, input = ?16, stopped_by = ?17, \
     failure_class = ?18, failure_until = ?19, failure_reason = ?20, updated_at = ?21 \
     WHERE message_id = ?1 AND state = ?2";

pub(crate) fn read(row: &Row<'_>) -> Result<Message, RowsError> {
    let mut fields = Fields::of("message", row);
    Ok(Message {
        message_id: fields.id(MessageId::new)?,
        conversation_id: fields.id(ConversationId::new)?,
        seq: fields.next().map(Seq)?,
        channel: fields.id(ChannelId::new)?,
        external_id: fields.id(ExternalId::new)?,
        kind: fields.word()?,
        sender: fields.next()?,
        tier: fields.word()?,
        body: fields.text()?,
        attachments: attached::read(&mut fields)?,
        said_at: fields.time()?,
        hops: fields.next()?,
        round: fields.next().map(Round)?,
        received_at: fields.time()?,
        trace: fields.maybe_word()?,
        life: Life {
            state: read_state(&mut fields)?,
            attempt: fields.next()?,
            spent: fields.next()?,
            continues: fields.next()?,
            suspect: fields.next()?,
            input: fields.word()?,
            stop: fields.next()?,
            failure: fields.maybe_failure()?,
            updated_at: fields.time()?,
        },
    })
}

pub(crate) fn read_id(row: &Row<'_>) -> Result<MessageId, RowsError> {
    Fields::of("message", row).id(MessageId::new)
}

fn read_state(fields: &mut Fields<'_>) -> Result<MessageState, RowsError> {
    let name = fields.word()?;
    let turn_id = fields.maybe_id(TurnId::new)?;
    let reason: Option<String> = fields.next()?;
    let leader = fields.maybe_id(MessageId::new)?;
    let until = fields.maybe_time()?;
    let failure = fields.maybe_failure()?;
    Ok(match name {
        StateName::Received => MessageState::Received {
            hold: read_hold(fields, until, failure)?,
        },
        StateName::Claimed => MessageState::Claimed,
        StateName::Starting => MessageState::Starting,
        StateName::Running => MessageState::Running {
            turn_id: fields.required("it runs without a turn", turn_id)?,
        },
        StateName::Unclear => MessageState::Unclear {
            hold: read_hold(fields, until, failure)?,
        },
        StateName::Steered => MessageState::Steered {
            leader: fields.required("it was given to no turn", leader)?,
        },
        StateName::Parked => MessageState::Parked {
            until: fields.required("it waits for a person without an end", until)?,
            reason: fields.required("it waits for a person without a reason", reason)?,
        },
        StateName::Answered => MessageState::Answered,
        StateName::Sending => MessageState::Sending,
        StateName::Done => MessageState::Done,
        StateName::Dead => MessageState::Dead {
            reason: fields.required("it is dead without a reason", reason)?,
        },
        StateName::Cancelled => MessageState::Cancelled {
            reason: fields.required("it is cancelled without a reason", reason)?,
        },
    })
}

fn read_hold(
    fields: &Fields<'_>,
    until: Option<Timestamp>,
    failure: Option<Failure>,
) -> Result<Option<Hold>, RowsError> {
    let Some(until) = until else {
        return Ok(None);
    };
    let failure = fields.required("it is held without a reason", failure)?;
    Ok(Some(Hold { until, failure }))
}

/// The columns of a life that depend on its state.
#[derive(Default)]
struct LifeColumns<'a> {
    turn_id: Option<&'a str>,
    reason: Option<&'a str>,
    leader: Option<&'a str>,
    until: Option<i64>,
    hold: Option<&'a Failure>,
}

fn state_columns(state: &MessageState) -> LifeColumns<'_> {
    let mut columns = LifeColumns::default();
    match state {
        MessageState::Received { hold } | MessageState::Unclear { hold } => {
            columns.until = hold.as_ref().map(|hold| hold.until.0);
            columns.hold = hold.as_ref().map(|hold| &hold.failure);
        }
        MessageState::Steered { leader } => columns.leader = Some(leader.as_str()),
        MessageState::Parked { until, reason } => {
            columns.until = Some(until.0);
            columns.reason = Some(reason);
        }
        MessageState::Running { turn_id } => columns.turn_id = Some(turn_id.as_str()),
        MessageState::Dead { reason } | MessageState::Cancelled { reason } => {
            columns.reason = Some(reason);
        }
        MessageState::Claimed
        | MessageState::Starting
        | MessageState::Answered
        | MessageState::Sending
        | MessageState::Done => {}
    }
    columns
}

fn held(state: &MessageState) -> bool {
    state.hold().is_some()
}

/// Binds a life to the parameters after `first`, the statement's own ones.
fn with_life<R>(first: &[&dyn ToSql], life: &Life, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
    let state = life.state.name().as_str();
    let LifeColumns {
        turn_id,
        reason,
        leader,
        until,
        hold,
    } = state_columns(&life.state);
    let (hold_class, hold_class_until, hold_reason) = failure_columns(hold);
    let input = life.input.as_str();
    let (class, class_until, class_reason) = failure_columns(life.failure.as_ref());
    let life: [&dyn ToSql; 18] = [
        &state,
        &turn_id,
        &reason,
        &leader,
        &until,
        &hold_class,
        &hold_class_until,
        &hold_reason,
        &life.attempt,
        &life.spent,
        &life.continues,
        &life.suspect,
        &input,
        &life.stop,
        &class,
        &class_until,
        &class_reason,
        &life.updated_at.0,
    ];
    then(&[first, &life].concat())
}

pub(crate) fn by_external(
    conn: Conn<'_>,
    channel: &ChannelId,
    external_id: &ExternalId,
) -> Result<Option<Message>, RowsError> {
    sql::one(
        conn,
        BY_EXTERNAL,
        [channel.as_str(), external_id.as_str()],
        read,
    )
}

pub(crate) fn insert(conn: Conn<'_>, message: &Message) -> Result<(), RowsError> {
    let what = || format!("new message {}", message.message_id);
    let of = message.conversation_id.as_str();
    let role = QueueRole::of(&message.life.state);
    let moves =
        place::neighbours(conn, of, 0)?.settle(role, message.seq.0, held(&message.life.state));
    let trace = message.trace.map(|parent| parent.to_string());
    let own: [&dyn ToSql; 14] = [
        &message.message_id.as_str(),
        &of,
        &message.seq.0,
        &message.channel.as_str(),
        &message.external_id.as_str(),
        &message.kind.as_str(),
        &message.sender,
        &message.tier.as_str(),
        &message.said_at.0,
        &message.hops,
        &message.round.0,
        &message.received_at.0,
        &trace,
        &moves.mine.map(place::QueuePlace::as_str),
    ];
    with_life(&own, &message.life, |columns| {
        sql::write(conn, INSERT, columns, what)
    })?;
    sql::write(
        conn,
        "INSERT INTO message_text (row, of_message, body, body_sum, files) VALUES (last_insert_rowid(), ?1, ?2, ?3, ?4)",
        params![
            message.message_id.as_str(),
            message.body,
            sums::sum(&message.body),
            attached::text(&message.attachments),
        ],
        what,
    )?;
    if !message.is_imported() {
        conversation::touch(conn, of, message.life.updated_at)?;
    }
    moves.write(conn)
}

/// Rewrites a life that must be in `from`. The queues are touched only when its role changes, and the columns
/// of a state only where one can have them.
pub(crate) fn live(
    conn: Conn<'_>,
    id: &MessageId,
    from: StateName,
    life: &Life,
) -> Result<(), RowsError> {
    let what = || format!("life of message {id}");
    if from.stands_still() || life.state.name().stands_still() {
        conversation::touch_by_message(conn, id, life.updated_at)?;
    }
    let own: [&dyn ToSql; 2] = [&id.as_str(), &from.as_str()];
    if place::same_spot(from, life.state.name()) {
        with_life(&own, life, |columns| sql::write(conn, LIVE, columns, what))?;
        return task::touch(conn, id, life.updated_at);
    }
    let role = QueueRole::of(&life.state);
    let Some(moves) = moves(conn, id, role, held(&life.state))? else {
        return Err(RowsError::Conflict { what: what() });
    };
    let place = moves.mine.map(place::QueuePlace::as_str);
    let own: [&dyn ToSql; 3] = [&id.as_str(), &from.as_str(), &place];
    with_life(&own, life, |columns| {
        sql::write(conn, LIVE_ELSEWHERE, columns, what)
    })?;
    task::touch(conn, id, life.updated_at)?;
    moves.write(conn)
}

/// What a new role of this message means for its conversation.
fn moves(
    conn: Conn<'_>,
    id: &MessageId,
    role: QueueRole,
    held: bool,
) -> Result<Option<QueueMoves>, RowsError> {
    let query = "SELECT message_id, row, conversation_id, seq FROM message WHERE message_id = ?1";
    let spot = sql::one(conn, query, [id.as_str()], |row| {
        let mut fields = Fields::of("message", row);
        let _message_id: String = fields.next()?;
        Ok((fields.next()?, fields.next::<String>()?, fields.next()?))
    })?;
    let Some((row, conversation, seq)) = spot else {
        return Ok(None);
    };
    let neighbours = place::neighbours(conn, &conversation, row)?;
    Ok(Some(neighbours.settle(role, seq, held)))
}

/// Moves a message that is finished, or waits, to another place of its conversation. The queues know nothing of finished
/// ones; those that wait are moved all together, in their order, so that the first stays the first.
pub(crate) fn tail(
    conn: Conn<'_>,
    id: &MessageId,
    seq: Seq,
    at: Timestamp,
) -> Result<(), RowsError> {
    sql::write(
        conn,
        "UPDATE message SET seq = ?2, received_at = ?3 WHERE message_id = ?1 AND (queue IS NULL OR state = 'received')",
        params![id.as_str(), seq.0, at.0],
        || format!("place of message {id}"),
    )
}

/// Deletes the dependent rows of a message, children before parents.
const OF_MESSAGE: [&str; 7] = [
    "DELETE FROM reply_text WHERE row IN (SELECT row FROM reply WHERE message_id = ?1)",
    "DELETE FROM reply WHERE message_id = ?1",
    "DELETE FROM event WHERE message_id = ?1",
    "DELETE FROM request WHERE message_id = ?1",
    "DELETE FROM answer WHERE message_id = ?1",
    "DELETE FROM turn WHERE message_id = ?1",
    "DELETE FROM message_text WHERE row = (SELECT row FROM message WHERE message_id = ?1)",
];

/// Deletes a finished message; the core decides which one may go.
pub(crate) fn forget(conn: Conn<'_>, id: &MessageId, from: StateName) -> Result<(), RowsError> {
    task::forget(conn, id)?;
    for statement in OF_MESSAGE {
        sql::run(conn, statement, [id.as_str()])?;
    }
    sql::write(
        conn,
        "DELETE FROM message WHERE message_id = ?1 AND state = ?2 AND queue IS NULL",
        [id.as_str(), from.as_str()],
        || format!("forgetting message {id}"),
    )
}
