//! The `message` table and its texts, row by row: column mapping, insert and the guarded rewrite of a life.
//!
//! Lists and queues over it are in `queue`, the derived column `place` in `place`.

use super::fields::{Fields, failure_columns};
use super::place::{self, Moves, Standing};
use super::{ack, sql};
use bridge_core::port::RowsError;
use bridge_core::value::{
    Ack, ChannelId, ConversationId, ExternalId, Hold, Life, Message, MessageId, MessageState,
    NextInput, SenderKind, Seq, StateName, Tier, TurnId,
};
use rusqlite::{Connection, Row, ToSql, params};

/// All columns of a message, in the order [`read`] takes them, `FROM` what follows.
macro_rules! select_message {
    ($tail:literal) => {
        concat!(
            "SELECT message_id, conversation_id, seq, channel, external_id, kind, sender, tier, \
             body, received_at, state, turn_id, reason, hold_until, hold_class, hold_class_until, \
             hold_reason, attempt, spent, continues, input, failure_class, failure_until, \
             failure_reason, updated_at FROM message ",
            $tail
        )
    };
}
pub(super) use select_message;

pub(super) const BY_ID: &str =
    select_message!("JOIN message_text USING (row) WHERE message_id = ?1");

pub(super) const BY_EXTERNAL: &str =
    select_message!("JOIN message_text USING (row) WHERE channel = ?1 AND external_id = ?2");

const INSERT: &str = "INSERT INTO message (message_id, conversation_id, seq, channel, external_id, kind, \
     sender, tier, received_at, place, state, turn_id, reason, hold_until, hold_class, \
     hold_class_until, hold_reason, attempt, spent, continues, input, failure_class, \
     failure_until, failure_reason, updated_at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
     ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)";

/// A life whose place in the queues stays.
pub(super) const LIVE: &str = "UPDATE message SET state = ?3, turn_id = ?4, reason = ?5, attempt = ?10, \
     spent = ?11, continues = ?12, input = ?13, failure_class = ?14, \
     failure_until = ?15, failure_reason = ?16, updated_at = ?17 \
     WHERE message_id = ?1 AND state = ?2";

/// A life whose place in the queues changes.
pub(super) const LIVE_ELSEWHERE: &str = "UPDATE message SET place = ?3, state = ?4, turn_id = ?5, reason = ?6, \
     hold_until = ?7, hold_class = ?8, hold_class_until = ?9, hold_reason = ?10, \
     attempt = ?11, spent = ?12, continues = ?13, input = ?14, failure_class = ?15, \
     failure_until = ?16, failure_reason = ?17, updated_at = ?18 \
     WHERE message_id = ?1 AND state = ?2";

pub(super) fn read(row: &Row<'_>) -> Result<Message, RowsError> {
    let mut fields = Fields::of("message", row);
    Ok(Message {
        message_id: fields.id(MessageId::new)?,
        conversation_id: fields.id(ConversationId::new)?,
        seq: fields.next().map(Seq)?,
        channel: fields.id(ChannelId::new)?,
        external_id: fields.id(ExternalId::new)?,
        kind: fields.word(SenderKind::from_word)?,
        sender: fields.next()?,
        tier: fields.word(Tier::from_word)?,
        body: fields.next()?,
        received_at: fields.time()?,
        life: Life {
            state: read_state(&mut fields)?,
            attempt: fields.next()?,
            spent: fields.next()?,
            continues: fields.next()?,
            input: fields.word(input_from_word)?,
            failure: fields.maybe_failure()?,
            updated_at: fields.time()?,
        },
    })
}

fn read_state(fields: &mut Fields<'_, '_>) -> Result<MessageState, RowsError> {
    let name = fields.word(StateName::from_word)?;
    let turn_id = fields.maybe_id(TurnId::new)?;
    let reason: Option<String> = fields.next()?;
    let until = fields.maybe_time()?;
    let failure = fields.maybe_failure()?;
    Ok(match name {
        StateName::Received => MessageState::Received {
            hold: match until {
                None => None,
                Some(until) => Some(Hold {
                    until,
                    failure: fields.required("it is held without a reason", failure)?,
                }),
            },
        },
        StateName::Claimed => MessageState::Claimed,
        StateName::Starting => MessageState::Starting,
        StateName::Running => MessageState::Running {
            turn_id: fields.required("it runs without a turn", turn_id)?,
        },
        StateName::Unclear => MessageState::Unclear,
        StateName::Answered => MessageState::Answered,
        StateName::Sending => MessageState::Sending,
        StateName::Replied => MessageState::Replied,
        StateName::Done => MessageState::Done,
        StateName::Dead => MessageState::Dead {
            reason: fields.required("it is dead without a reason", reason)?,
        },
        StateName::Cancelled => MessageState::Cancelled {
            reason: fields.required("it is cancelled without a reason", reason)?,
        },
    })
}

fn input_word(input: NextInput) -> &'static str {
    match input {
        NextInput::Message => "message",
        NextInput::Continue => "continue",
    }
}

fn input_from_word(word: &str) -> Option<NextInput> {
    [NextInput::Message, NextInput::Continue]
        .into_iter()
        .find(|input| input_word(*input) == word)
}

/// The columns of a life that depend on its state.
#[derive(Default)]
struct StateColumns<'a> {
    turn_id: Option<&'a str>,
    reason: Option<&'a str>,
    hold: Option<&'a Hold>,
}

fn state_columns(state: &MessageState) -> StateColumns<'_> {
    let mut columns = StateColumns::default();
    match state {
        MessageState::Received { hold } => columns.hold = hold.as_ref(),
        MessageState::Running { turn_id } => columns.turn_id = Some(turn_id.as_str()),
        MessageState::Dead { reason } | MessageState::Cancelled { reason } => {
            columns.reason = Some(reason);
        }
        MessageState::Claimed
        | MessageState::Starting
        | MessageState::Unclear
        | MessageState::Answered
        | MessageState::Sending
        | MessageState::Replied
        | MessageState::Done => {}
    }
    columns
}

fn held(state: &MessageState) -> bool {
    state_columns(state).hold.is_some()
}

/// Binds a life to the parameters after `first`, which are the statement's own.
fn with_life<R>(first: &[&dyn ToSql], life: &Life, then: impl FnOnce(&[&dyn ToSql]) -> R) -> R {
    let state = life.state.name().word();
    let StateColumns {
        turn_id,
        reason,
        hold,
    } = state_columns(&life.state);
    let hold_until = hold.map(|hold| hold.until.0);
    let (hold_class, hold_class_until, hold_reason) = failure_columns(hold.map(|h| &h.failure));
    let input = input_word(life.input);
    let (class, class_until, class_reason) = failure_columns(life.failure.as_ref());
    let life: [&dyn ToSql; 15] = [
        &state,
        &turn_id,
        &reason,
        &hold_until,
        &hold_class,
        &hold_class_until,
        &hold_reason,
        &life.attempt,
        &life.spent,
        &life.continues,
        &input,
        &class,
        &class_until,
        &class_reason,
        &life.updated_at.0,
    ];
    then(&[first, &life].concat())
}

pub(super) fn by_id(conn: &Connection, id: &MessageId) -> Result<Option<Message>, RowsError> {
    sql::one(conn, BY_ID, [id.as_str()], read)
}

pub(super) fn by_external(
    conn: &Connection,
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

pub(super) fn insert(conn: &Connection, message: &Message, owed: Ack) -> Result<(), RowsError> {
    let what = || format!("new message {}", message.message_id);
    let conversation = message.conversation_id.as_str();
    let standing = Standing::of(message.life.state.name());
    let moves = place::others(conn, conversation, 0)?.settle(
        standing,
        message.seq.0,
        held(&message.life.state),
    );
    let own: [&dyn ToSql; 10] = [
        &message.message_id.as_str(),
        &conversation,
        &message.seq.0,
        &message.channel.as_str(),
        &message.external_id.as_str(),
        &message.kind.word(),
        &message.sender,
        &message.tier.word(),
        &message.received_at.0,
        &moves.mine.map(place::Place::word),
    ];
    with_life(&own, &message.life, |columns| {
        sql::write(conn, INSERT, columns, what)
    })?;
    sql::write(
        conn,
        "INSERT INTO message_text (row, body) VALUES (?1, ?2)",
        params![conn.last_insert_rowid(), message.body],
        what,
    )?;
    ack::insert(conn, &message.message_id, owed)?;
    moves.write(conn)
}

/// Rewrites a life that must be in `from`. The queues are touched only when its standing changes, and the hold
/// only where there can be one: among those that wait.
pub(super) fn live(
    conn: &Connection,
    id: &MessageId,
    from: StateName,
    life: &Life,
) -> Result<(), RowsError> {
    let what = || format!("life of message {id}");
    let own: [&dyn ToSql; 2] = [&id.as_str(), &from.word()];
    let standing = Standing::of(life.state.name());
    if standing == Standing::of(from) && standing != Standing::Waiting {
        return with_life(&own, life, |columns| sql::write(conn, LIVE, columns, what));
    }
    let Some(moves) = moves(conn, id, standing, held(&life.state))? else {
        return Err(RowsError::Conflict { what: what() });
    };
    let place = moves.mine.map(place::Place::word);
    let own: [&dyn ToSql; 3] = [&id.as_str(), &from.word(), &place];
    with_life(&own, life, |columns| {
        sql::write(conn, LIVE_ELSEWHERE, columns, what)
    })?;
    moves.write(conn)
}

/// What a new standing of this message means for its conversation.
fn moves(
    conn: &Connection,
    id: &MessageId,
    standing: Standing,
    held: bool,
) -> Result<Option<Moves>, RowsError> {
    let query = "SELECT message_id, row, conversation_id, seq FROM message WHERE message_id = ?1";
    let spot = sql::one(conn, query, [id.as_str()], |row| {
        let mut fields = Fields::of("message", row);
        let _message_id: String = fields.next()?;
        Ok((fields.next()?, fields.next::<String>()?, fields.next()?))
    })?;
    let Some((row, conversation, seq)) = spot else {
        return Ok(None);
    };
    let others = place::others(conn, &conversation, row)?;
    Ok(Some(others.settle(standing, seq, held)))
}
