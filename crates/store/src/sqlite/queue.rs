//! Lists over messages: claimable ones, unfinished ones, and those that people look for.
//!
//! Every hot query names the partial index it rests on, so its cost does not grow with finished rows, and
//! SQLite refuses it instead of scanning should an index go.

use super::fields::Fields;
use super::message::{read, select_message};
use super::{conversation, sql, task};
use crate::page;
use bridge_core::limits::LOOKED_BACK_MAX;
use bridge_core::port::{
    Exchange, Flight, Head, HeadFilter, Heard, RowsError, StateCount, Workplace,
};
use bridge_core::value::{
    ChannelId, ConversationId, Message, MessageId, Round, Sandbox, SenderKind, Seq, StateName,
    Tier, Timestamp,
};
use rusqlite::{Connection, Row, params};

pub(super) const READY: &str = select_message!(
    "INDEXED BY message_ready JOIN message_text USING (row) WHERE queue = 'ready' \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

pub(super) const HELD: &str = select_message!(
    "INDEXED BY message_held JOIN message_text USING (row) \
     WHERE queue = 'held' AND hold_until <= ?2 \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

/// The same, past those that a filter stops: lists are JSON arrays.
pub(super) const READY_FILTERED: &str = select_message!(
    "INDEXED BY message_ready JOIN message_text USING (row) WHERE queue = 'ready' \
     AND (?3 = 0 OR suspect = 0) AND channel NOT IN (SELECT value FROM json_each(?4)) \
     AND (?8 = 0 OR kind = 'person' AND (tier = 'owner' \
         OR channel || char(10) || sender IN (SELECT value FROM json_each(?9)))) \
     AND (tier = 'owner' OR channel || char(10) || sender NOT IN (SELECT value FROM json_each(?7))) \
     AND (coalesce((SELECT sandbox = 'read-only' FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL), \
         tier IN (SELECT value FROM json_each(?6))) OR NOT EXISTS (\
         SELECT 1 FROM conversation WHERE conversation_id = message.conversation_id \
         AND workdir IN (SELECT value FROM json_each(?5)))) \
     AND ?2 IS NOT NULL ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

pub(super) const HELD_FILTERED: &str = select_message!(
    "INDEXED BY message_held JOIN message_text USING (row) \
     WHERE queue = 'held' AND hold_until <= ?2 \
     AND (?3 = 0 OR suspect = 0) AND channel NOT IN (SELECT value FROM json_each(?4)) \
     AND (?8 = 0 OR kind = 'person' AND (tier = 'owner' \
         OR channel || char(10) || sender IN (SELECT value FROM json_each(?9)))) \
     AND (tier = 'owner' OR channel || char(10) || sender NOT IN (SELECT value FROM json_each(?7))) \
     AND (coalesce((SELECT sandbox = 'read-only' FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL), \
         tier IN (SELECT value FROM json_each(?6))) OR NOT EXISTS (\
         SELECT 1 FROM conversation WHERE conversation_id = message.conversation_id \
         AND workdir IN (SELECT value FROM json_each(?5)))) \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

pub(super) const NEXT_HELD: &str = "SELECT min(hold_until) FROM message INDEXED BY message_due \
     WHERE queue = 'held' AND hold_until > ?1";

pub(super) const NEXT_PARKED: &str = "SELECT min(hold_until) FROM message INDEXED BY message_parked \
     WHERE state = 'parked' AND hold_until > ?1";

pub(super) const OVERDUE: &str = select_message!(
    "INDEXED BY message_parked JOIN message_text USING (row) \
     WHERE state = 'parked' AND hold_until <= ?1 ORDER BY hold_until, message_id LIMIT 1"
);

/// Nearly always no question is open at all: that is looked up once, and each turn's own only then.
macro_rules! is_asked {
    () => {
        "EXISTS (SELECT 1 FROM request INDEXED BY request_open WHERE request.state = 'open') \
         AND EXISTS (SELECT 1 FROM request INDEXED BY request_open \
             WHERE request.message_id = message.message_id AND request.state = 'open')"
    };
}

/// Runs once per claim over all turns at work, so it must find all it needs in its index.
pub(super) const FLIGHT: &str = concat!(
    "SELECT channel, sender, tier, kind, count(*), sum(",
    is_asked!(),
    "), sum(suspect) FROM message INDEXED BY message_in_flight WHERE queue = 'in_flight' \
     GROUP BY channel, sender, tier, kind"
);

/// Each of them with where it works, which two more tables know.
pub(super) const FLIGHT_AT: &str = concat!(
    "SELECT message.channel, sender, tier, kind, 1, ",
    is_asked!(),
    ", suspect, workdir, tier, \
     (SELECT sandbox FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL) \
     FROM message INDEXED BY message_queue JOIN conversation USING (conversation_id) \
     WHERE queue = 'in_flight'"
);

pub(super) const IN_FLIGHT_OF: &str = select_message!(
    "INDEXED BY message_queue JOIN message_text USING (row) \
     WHERE queue IN ('in_flight', 'blocking') AND conversation_id = ?1 \
     AND state <> 'parked' AND state <> 'steered' LIMIT 1"
);

pub(super) const FOLLOWERS: &str = select_message!(
    "INDEXED BY message_leader JOIN message_text USING (row) WHERE leader = ?1 ORDER BY seq"
);

pub(super) const LAST_ROUND: &str = "SELECT max(round) FROM message INDEXED BY message_sender \
     WHERE queue IS NOT NULL AND queue <> 'outbox' AND channel = ?1 AND sender = ?2";

/// Of those that are open there are few.
pub(super) const OPEN_IN_STATE: &str = select_message!(
    "INDEXED BY message_open JOIN message_text USING (row) \
     WHERE queue IS NOT NULL AND state = ?1 AND message_id < ?2 ORDER BY message_id DESC LIMIT ?3"
);

/// Dead letters are looked for among the dead, not among all that is finished; the first parameter is not used.
pub(super) const DEAD: &str = select_message!(
    "INDEXED BY message_dead JOIN message_text USING (row) \
     WHERE state = 'dead' AND ?1 IS NOT NULL AND message_id < ?2 ORDER BY message_id DESC LIMIT ?3"
);

const FINISHED_IN_STATE: &str = select_message!(
    "JOIN message_text USING (row) WHERE state = ?1 AND message_id < ?2 \
     ORDER BY message_id DESC LIMIT ?3"
);

/// A task stands as its newest message does, so that one goes last: never before an earlier one that is kept longer.
pub(super) const FORGETTABLE: &str = "SELECT message_id FROM message INDEXED BY message_finished \
     WHERE queue IS NULL AND state = ?1 AND updated_at < ?2 \
     AND NOT EXISTS (SELECT 1 FROM reply WHERE reply.message_id = message.message_id \
         AND state IN ('queued', 'sending')) \
     AND NOT EXISTS (SELECT 1 FROM task_input AS its JOIN task_input AS earlier USING (task_id) \
         JOIN message AS older ON older.message_id = earlier.message_id \
         WHERE its.message_id = message.message_id AND earlier.ordinal < its.ordinal \
         AND NOT (older.queue IS NULL AND (older.state = 'dead') = (?1 = 'dead') AND older.updated_at < ?2)) \
     ORDER BY updated_at, message_id LIMIT ?3";

/// One arm per finished state: each is the end of an index.
const NEWEST_TIME: &str = "SELECT max(at) FROM (\
     SELECT max(updated_at) AS at FROM message INDEXED BY message_finished WHERE queue IS NULL AND state = 'done' \
     UNION ALL SELECT max(updated_at) FROM message INDEXED BY message_finished WHERE queue IS NULL AND state = 'dead' \
     UNION ALL SELECT max(updated_at) FROM message INDEXED BY message_finished WHERE queue IS NULL AND state = 'cancelled' \
     UNION ALL SELECT max(updated_at) FROM message INDEXED BY message_open WHERE queue IS NOT NULL)";

pub(super) const EXCHANGES: &str = "SELECT message.message_id, body, body_sum, text, text_sum \
     FROM message JOIN message_text USING (row) JOIN answer USING (message_id) \
     WHERE conversation_id = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";

pub(super) const BACKLOG: &str =
    "SELECT count(*) FROM message INDEXED BY message_open WHERE queue IS NOT NULL";

pub(super) const UNFINISHED: &str = select_message!(
    "INDEXED BY message_open JOIN message_text USING (row) \
     WHERE queue IS NOT NULL AND message_id > ?1 ORDER BY message_id LIMIT ?2"
);

pub(super) const UNANSWERED_BEFORE: &str = "SELECT message_id FROM message INDEXED BY message_queue \
     WHERE queue IN ('ready', 'held', 'queued', 'in_flight', 'blocking') \
     AND conversation_id = ?1 AND seq < ?2 ORDER BY seq LIMIT 1";

pub(super) const MESSAGES_OF: &str = select_message!(
    "JOIN message_text USING (row) WHERE conversation_id = ?1 ORDER BY seq DESC LIMIT ?2"
);

pub(super) const UNANSWERED_OF: &str = select_message!(
    "INDEXED BY message_queue JOIN message_text USING (row) \
     WHERE queue IN ('ready', 'held', 'queued', 'in_flight', 'blocking') \
     AND conversation_id = ?1 ORDER BY seq LIMIT ?2"
);

/// Run by operators only: walks the bounded index of unanswered messages, and sorts.
pub(super) const UNANSWERED_OF_SENDER: &str = select_message!(
    "INDEXED BY message_sender JOIN message_text USING (row) \
     WHERE queue IS NOT NULL AND queue <> 'outbox' AND sender = ?1 \
     AND (?2 = '[]' OR channel IN (SELECT value FROM json_each(?2))) AND message_id > ?3 \
     ORDER BY message_id LIMIT ?4"
);

pub(super) const HEARD_OF_AGENT: &str = "SELECT sent_at, sent_at > received_at, state = 'dead' AND attempt = 0 \
     AND coalesce(failure_class = 'capacity', 0) FROM message INDEXED BY message_agent \
     WHERE kind = 'agent' AND channel = ?1 AND sender = ?2 ORDER BY sent_at DESC, row DESC LIMIT ?3";

/// By place in the conversation: what others said elsewhere is not looked at.
pub(super) const HEARD_IN_TALK: &str = "SELECT sent_at, sent_at > received_at, state = 'dead' AND attempt = 0 \
     AND coalesce(failure_class = 'capacity', 0) FROM message \
     WHERE conversation_id = ?1 AND kind = 'agent' AND sender = ?2 ORDER BY seq DESC LIMIT ?3";

/// Reads the index alone.
pub(super) const SAID_NTH_NEWEST: &str = "SELECT sent_at FROM message INDEXED BY message_agent \
     WHERE kind = 'agent' AND channel = ?1 AND sender = ?2 ORDER BY sent_at DESC LIMIT 1 OFFSET ?3";

const COUNTS: &str = "SELECT state, count(*) FROM message INDEXED BY message_finished \
     WHERE queue IS NULL GROUP BY state \
     UNION ALL SELECT state, count(*) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL GROUP BY state";

const NEWEST: &str = select_message!("JOIN message_text USING (row) ORDER BY row DESC LIMIT ?1");

pub(super) const LAST_SEQ: &str = "SELECT max(seq) FROM message WHERE conversation_id = ?1";

/// Walks the whole index of ids, newest first, and nothing else.
const BY_END: &str = "SELECT message_id FROM message INDEXED BY sqlite_autoindex_message_1 \
     WHERE substr(message_id, -length(?1)) = ?1 ORDER BY message_id DESC LIMIT ?2";

/// Walks back from the newest row.
const NEWEST_OF_SENDER: &str = "SELECT message_id FROM message \
     WHERE row > (SELECT max(row) FROM message) - ?3 AND sender = ?1 \
     AND channel IN (SELECT value FROM json_each(?2)) ORDER BY row DESC LIMIT 1";

pub(super) const BY_PREFIX: &str = "SELECT message_id FROM message \
     WHERE message_id >= ?1 AND message_id < ?2 ORDER BY message_id LIMIT ?3";

/// Held messages are looked at only when one of them is due.
pub(super) fn heads(
    conn: &Connection,
    now: Timestamp,
    filter: &HeadFilter,
    limit: u32,
) -> Result<Vec<Head>, RowsError> {
    let limit = page(limit);
    let late = next_held(conn, Timestamp(i64::MIN))?.is_some_and(|due| due <= now);
    let mut due = if stops_nothing(filter) {
        sql::many(conn, READY, [limit], read)?
    } else {
        filtered(conn, READY_FILTERED, now, filter, limit)?
    };
    if late {
        due.extend(if stops_nothing(filter) {
            sql::many(conn, HELD, (limit, now.0), read)?
        } else {
            filtered(conn, HELD_FILTERED, now, filter, limit)?
        });
        due.sort_by(|a, b| {
            let key = |m: &Message| (m.kind, m.round, m.received_at);
            key(a)
                .cmp(&key(b))
                .then_with(|| a.message_id.cmp(&b.message_id))
        });
    }
    let mut heads = Vec::new();
    for message in due
        .into_iter()
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
    {
        if let Some(conversation) = conversation::by_id(conn, &message.conversation_id)? {
            heads.push(Head {
                given: task::started(conn, &message.conversation_id)?
                    .and_then(|task| Some(task.terms()?.sandbox)),
                message,
                conversation,
            });
        }
    }
    Ok(heads)
}

fn stops_nothing(filter: &HeadFilter) -> bool {
    filter.full_channels.is_empty()
        && filter.full_senders.is_empty()
        && !filter.owner_only
        && !filter.no_suspects
        && filter.busy_workdirs.is_empty()
}

fn filtered(
    conn: &Connection,
    query: &str,
    now: Timestamp,
    filter: &HeadFilter,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let channels = json(filter.full_channels.iter().map(ChannelId::as_str));
    let workdirs = json(filter.busy_workdirs.iter().map(String::as_str));
    let readers = json(filter.readers.iter().map(|tier| tier.as_str()));
    let params = params![
        limit,
        now.0,
        filter.no_suspects,
        channels,
        workdirs,
        readers,
        json_of_senders(&filter.full_senders),
        filter.owner_only,
        json_of_senders(&filter.owners),
    ];
    sql::many(conn, query, params, read)
}

/// Each as one text, which no other channel and sender make.
fn json_of_senders(senders: &[(ChannelId, String)]) -> String {
    let senders = senders.iter();
    let joined = senders.map(|(channel, sender)| format!("{channel}\n{sender}"));
    let joined: Vec<String> = joined.collect();
    json(joined.iter().map(String::as_str))
}

/// A JSON array of texts.
fn json<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<serde_json::Value>().to_string()
}

fn next_held(conn: &Connection, after: Timestamp) -> Result<Option<Timestamp>, RowsError> {
    Ok(sql::number(conn, NEXT_HELD, [after.0])?.map(Timestamp))
}

pub(super) fn next_due(conn: &Connection, now: Timestamp) -> Result<Option<Timestamp>, RowsError> {
    let parked = sql::number(conn, NEXT_PARKED, [now.0])?.map(Timestamp);
    Ok(next_held(conn, now)?.into_iter().chain(parked).min())
}

pub(super) fn overdue(conn: &Connection, now: Timestamp) -> Result<Option<Message>, RowsError> {
    sql::one(conn, OVERDUE, [now.0], read)
}

pub(super) fn flight(conn: &Connection, workdirs: &[String]) -> Result<Vec<Flight>, RowsError> {
    if workdirs.is_empty() {
        return sql::many(conn, FLIGHT, [], |row| {
            read_flight(&mut Fields::of("message on channel", row))
        });
    }
    let mut flight = sql::many(conn, FLIGHT_AT, [], |row| {
        let mut fields = Fields::of("message on channel", row);
        let flight = read_flight(&mut fields)?;
        let at = Workplace {
            workdir: fields.next()?,
            tier: fields.word(Tier::from_word)?,
            given: fields.maybe_word(Sandbox::from_word)?,
        };
        Ok(Flight {
            at: Some(at),
            ..flight
        })
    })?;
    for one in &mut flight {
        one.at = one.at.take().filter(|at| workdirs.contains(&at.workdir));
    }
    Ok(Flight::gather(flight))
}

fn read_flight(fields: &mut Fields<'_, '_>) -> Result<Flight, RowsError> {
    Ok(Flight {
        channel: fields.id(ChannelId::new)?,
        sender: fields.next()?,
        tier: fields.word(Tier::from_word)?,
        kind: fields.word(SenderKind::from_word)?,
        turns: fields.next()?,
        waiting: fields.next()?,
        suspects: fields.next()?,
        at: None,
    })
}

pub(super) fn in_flight_of(
    conn: &Connection,
    id: &ConversationId,
) -> Result<Option<Message>, RowsError> {
    sql::one(conn, IN_FLIGHT_OF, [id.as_str()], read)
}

pub(super) fn followers(conn: &Connection, leader: &MessageId) -> Result<Vec<Message>, RowsError> {
    sql::many(conn, FOLLOWERS, [leader.as_str()], read)
}

pub(super) fn round(conn: &Connection) -> Result<Round, RowsError> {
    let round = sql::number(conn, "SELECT round FROM instance", [])?;
    Ok(Round(round.unwrap_or(0)))
}

pub(super) fn set_round(conn: &Connection, round: Round) -> Result<(), RowsError> {
    let set = "UPDATE instance SET round = ?1";
    sql::write(conn, set, [round.0], || "round of service".to_owned())
}

pub(super) fn last_round(
    conn: &Connection,
    channel: &ChannelId,
    sender: &str,
) -> Result<Option<Round>, RowsError> {
    Ok(sql::number(conn, LAST_ROUND, [channel.as_str(), sender])?.map(Round))
}

pub(super) fn in_state(
    conn: &Connection,
    state: StateName,
    before: Option<&MessageId>,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let end = char::MAX.to_string();
    let before = before.map_or(end.as_str(), MessageId::as_str);
    let query = match state {
        StateName::Dead => DEAD,
        StateName::Done | StateName::Cancelled => FINISHED_IN_STATE,
        StateName::Received
        | StateName::Claimed
        | StateName::Starting
        | StateName::Running
        | StateName::Unclear
        | StateName::Steered
        | StateName::Parked
        | StateName::Answered
        | StateName::Sending => OPEN_IN_STATE,
    };
    sql::many(conn, query, (state.as_str(), before, page(limit)), read)
}

pub(super) fn forgettable(
    conn: &Connection,
    state: StateName,
    before: Timestamp,
    limit: u32,
) -> Result<Vec<MessageId>, RowsError> {
    let params = (state.as_str(), before.0, page(limit));
    sql::many(conn, FORGETTABLE, params, |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

pub(super) fn newest_time(conn: &Connection) -> Result<Option<Timestamp>, RowsError> {
    Ok(sql::number(conn, NEWEST_TIME, [])?.map(Timestamp))
}

pub(super) fn exchanges(
    conn: &Connection,
    id: &ConversationId,
    before: Seq,
    limit: u32,
) -> Result<Vec<Exchange>, RowsError> {
    let params = (id.as_str(), before.0, page(limit));
    let mut newest = sql::many(conn, EXCHANGES, params, |row| {
        let mut fields = Fields::of("message", row);
        let _message_id: String = fields.next()?;
        Ok(Exchange {
            body: fields.text()?,
            answer: fields.text()?,
        })
    })?;
    newest.reverse();
    Ok(newest)
}

pub(super) fn backlog(conn: &Connection) -> Result<u32, RowsError> {
    count(conn, BACKLOG)
}

fn count(conn: &Connection, query: &str) -> Result<u32, RowsError> {
    let count = sql::number(conn, query, [])?.unwrap_or(0);
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(super) fn unfinished(
    conn: &Connection,
    after: Option<&MessageId>,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let after = after.map_or("", MessageId::as_str);
    sql::many(conn, UNFINISHED, (after, page(limit)), read)
}

pub(super) fn newest(conn: &Connection, limit: u32) -> Result<Vec<Message>, RowsError> {
    sql::many(conn, NEWEST, [page(limit)], read)
}

pub(super) fn ids_by_prefix(
    conn: &Connection,
    prefix: &str,
    limit: u32,
) -> Result<Vec<MessageId>, RowsError> {
    let end = format!("{prefix}{}", char::MAX);
    sql::many(conn, BY_PREFIX, (prefix, end, page(limit)), |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

pub(super) fn ids_by_end(
    conn: &Connection,
    end: &str,
    limit: u32,
) -> Result<Vec<MessageId>, RowsError> {
    sql::many(conn, BY_END, (end, page(limit)), |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

pub(super) fn newest_of_sender(
    conn: &Connection,
    sender: &str,
    channels: &[ChannelId],
) -> Result<Option<MessageId>, RowsError> {
    let channels = json(channels.iter().map(ChannelId::as_str));
    let of = (sender, channels, LOOKED_BACK_MAX);
    sql::one(conn, NEWEST_OF_SENDER, of, |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

pub(super) fn last_seq(conn: &Connection, id: &ConversationId) -> Result<Option<Seq>, RowsError> {
    Ok(sql::number(conn, LAST_SEQ, [id.as_str()])?.map(Seq))
}

pub(super) fn unanswered_before(
    conn: &Connection,
    id: &ConversationId,
    seq: Seq,
) -> Result<Option<MessageId>, RowsError> {
    sql::one(conn, UNANSWERED_BEFORE, (id.as_str(), seq.0), |row| {
        Fields::of("message", row).id(MessageId::new)
    })
}

pub(super) fn unanswered_of(
    conn: &Connection,
    id: &ConversationId,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    sql::many(conn, UNANSWERED_OF, (id.as_str(), page(limit)), read)
}

pub(super) fn unanswered_of_sender(
    conn: &Connection,
    sender: &str,
    channels: &[ChannelId],
    after: Option<&MessageId>,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let channels = json(channels.iter().map(ChannelId::as_str));
    let after = after.map_or("", MessageId::as_str);
    let of = (sender, channels, after, page(limit));
    sql::many(conn, UNANSWERED_OF_SENDER, of, read)
}

pub(super) fn messages_of(
    conn: &Connection,
    id: &ConversationId,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    sql::many(conn, MESSAGES_OF, (id.as_str(), page(limit)), read)
}

pub(super) fn heard_of_agent(
    conn: &Connection,
    channel: &ChannelId,
    sender: &str,
    limit: u32,
) -> Result<Vec<Heard>, RowsError> {
    let of = (channel.as_str(), sender, page(limit));
    sql::many(conn, HEARD_OF_AGENT, of, heard)
}

pub(super) fn heard_in_talk(
    conn: &Connection,
    id: &ConversationId,
    sender: &str,
    limit: u32,
) -> Result<Vec<Heard>, RowsError> {
    let of = (id.as_str(), sender, page(limit));
    sql::many(conn, HEARD_IN_TALK, of, heard)
}

fn heard(row: &Row<'_>) -> Result<Heard, RowsError> {
    let mut fields = Fields::of("agent heard at", row);
    Ok(Heard {
        said_at: fields.time()?,
        waited: fields.next()?,
        stopped: fields.next()?,
    })
}

pub(super) fn said_nth_newest(
    conn: &Connection,
    channel: &ChannelId,
    sender: &str,
    nth: u32,
) -> Result<Option<Timestamp>, RowsError> {
    let of = (channel.as_str(), sender, nth.saturating_sub(1));
    Ok(sql::number(conn, SAID_NTH_NEWEST, of)?.map(Timestamp))
}

pub(super) fn counts(conn: &Connection) -> Result<Vec<StateCount>, RowsError> {
    let mut counts = sql::many(conn, COUNTS, [], |row| {
        let mut fields = Fields::of("messages in state", row);
        Ok(StateCount {
            state: fields.word(StateName::from_word)?,
            count: u64::from(fields.next::<u32>()?),
        })
    })?;
    counts.sort_by_key(|count| count.state);
    Ok(counts)
}
