//! Lists over messages: claimable ones, unfinished ones, and those that people look for.
//!
//! Every hot query names the partial index it rests on, so its cost does not grow with finished rows, and
//! SQLite refuses it instead of scanning should an index go.

use super::fields::Fields;
use super::message::{read, select_message};
use super::{conversation, request, task};
use crate::page;
use crate::sql::{self, Conn, Row, params};
use bridge_core::limits::LOOKED_BACK_MAX;
use bridge_core::port::{
    AgentMessage, Exchange, Figures, Flight, Head, HeadFilter, RowsError, StateCount, Workplace,
};
use bridge_core::value::{
    ChannelId, ConversationId, Message, MessageId, NodeId, Round, Seq, StateName, Timestamp,
};

pub(crate) const READY: &str = select_message!(
    "INDEXED BY message_ready JOIN message_text USING (row) WHERE queue = 'ready' \
     AND NOT EXISTS (SELECT 1 FROM loan WHERE loan.conversation_id = message.conversation_id) \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

pub(crate) const HELD: &str = select_message!(
    "INDEXED BY message_held JOIN message_text USING (row) \
     WHERE queue = 'held' AND hold_until <= ?2 \
     AND NOT EXISTS (SELECT 1 FROM loan WHERE loan.conversation_id = message.conversation_id) \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

/// The same, past those that a filter stops: lists are JSON arrays.
pub(crate) const READY_FILTERED: &str = select_message!(
    "INDEXED BY message_ready JOIN message_text USING (row) WHERE queue = 'ready' \
     AND NOT EXISTS (SELECT 1 FROM loan WHERE loan.conversation_id = message.conversation_id) \
     AND (?3 = 0 OR suspect = 0) AND channel NOT IN (SELECT value FROM json_each(?4)) \
     AND (?8 = 0 OR kind = 'person' AND (tier = 'owner' \
         OR channel || '\n' || sender IN (SELECT value FROM json_each(?9)))) \
     AND (?12 = 0 OR kind = 'person' AND (tier = 'owner' OR sender LIKE '% %' \
         OR channel <> 'local' AND channel <> 'task' AND channel <> 'a2a' OR sender = 'anonymous' \
         OR channel || '\n' || sender IN (SELECT value FROM json_each(?9))) \
         OR coalesce((SELECT codex_home FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL), '') \
         NOT IN (SELECT value FROM json_each(?13))) \
     AND (tier = 'owner' OR channel || '\n' || sender NOT IN (SELECT value FROM json_each(?7))) \
     AND (coalesce(coalesce((SELECT sandbox FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL), \
         (SELECT sandbox FROM conversation WHERE conversation_id = message.conversation_id)) = 'read-only', \
         tier IN (SELECT value FROM json_each(?6))) OR NOT EXISTS (\
         SELECT 1 FROM conversation WHERE conversation_id = message.conversation_id \
         AND workdir IN (SELECT value FROM json_each(?5)))) \
     AND NOT EXISTS (SELECT 1 FROM home JOIN node USING (node_id) \
         WHERE home.conversation_id = message.conversation_id AND home.node_id <> ?10 \
         AND (node.state <> 'left' AND node.lease_until > unixepoch() * 1000 OR ?11 = 1 AND EXISTS (\
         SELECT 1 FROM message AS its JOIN turn ON turn.message_id = its.message_id \
         WHERE its.conversation_id = message.conversation_id \
         AND turn.touched = 1 AND turn.sandbox <> 'read-only'))) \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

pub(crate) const HELD_FILTERED: &str = select_message!(
    "INDEXED BY message_held JOIN message_text USING (row) \
     WHERE queue = 'held' AND hold_until <= ?2 \
     AND NOT EXISTS (SELECT 1 FROM loan WHERE loan.conversation_id = message.conversation_id) \
     AND (?3 = 0 OR suspect = 0) AND channel NOT IN (SELECT value FROM json_each(?4)) \
     AND (?8 = 0 OR kind = 'person' AND (tier = 'owner' \
         OR channel || '\n' || sender IN (SELECT value FROM json_each(?9)))) \
     AND (?12 = 0 OR kind = 'person' AND (tier = 'owner' OR sender LIKE '% %' \
         OR channel <> 'local' AND channel <> 'task' AND channel <> 'a2a' OR sender = 'anonymous' \
         OR channel || '\n' || sender IN (SELECT value FROM json_each(?9))) \
         OR coalesce((SELECT codex_home FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL), '') \
         NOT IN (SELECT value FROM json_each(?13))) \
     AND (tier = 'owner' OR channel || '\n' || sender NOT IN (SELECT value FROM json_each(?7))) \
     AND (coalesce(coalesce((SELECT sandbox FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL), \
         (SELECT sandbox FROM conversation WHERE conversation_id = message.conversation_id)) = 'read-only', \
         tier IN (SELECT value FROM json_each(?6))) OR NOT EXISTS (\
         SELECT 1 FROM conversation WHERE conversation_id = message.conversation_id \
         AND workdir IN (SELECT value FROM json_each(?5)))) \
     AND NOT EXISTS (SELECT 1 FROM home JOIN node USING (node_id) \
         WHERE home.conversation_id = message.conversation_id AND home.node_id <> ?10 \
         AND (node.state <> 'left' AND node.lease_until > unixepoch() * 1000 OR ?11 = 1 AND EXISTS (\
         SELECT 1 FROM message AS its JOIN turn ON turn.message_id = its.message_id \
         WHERE its.conversation_id = message.conversation_id \
         AND turn.touched = 1 AND turn.sandbox <> 'read-only'))) \
     ORDER BY kind DESC, round, received_at, message_id LIMIT ?1"
);

pub(crate) const NEXT_HELD: &str = "SELECT min(hold_until) FROM message INDEXED BY message_due \
     WHERE queue = 'held' AND hold_until > ?1";

pub(crate) const NEXT_PARKED: &str = "SELECT min(hold_until) FROM message INDEXED BY message_parked \
     WHERE state = 'parked' AND hold_until > ?1";

pub(crate) const OVERDUE: &str = select_message!(
    "INDEXED BY message_parked JOIN message_text USING (row) \
     WHERE state = 'parked' AND hold_until <= ?1 ORDER BY hold_until, message_id LIMIT ?2"
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
pub(crate) const FLIGHT: &str = concat!(
    "SELECT channel, sender, tier, kind, count(*), count(CASE WHEN ",
    is_asked!(),
    " THEN 1 END), count(CASE WHEN suspect = 1 THEN 1 END) FROM message INDEXED BY message_in_flight WHERE queue = 'in_flight' \
     GROUP BY channel, sender, tier, kind"
);

/// Asked only while a Codex process is to go.
pub(crate) const TURNS_ON: &str = "SELECT count(*) FROM message INDEXED BY message_queue JOIN turn \
     ON turn.message_id = message.message_id AND turn.attempt = message.attempt \
     WHERE queue IN ('in_flight', 'blocking') AND message.state IN ('starting', 'running', 'unclear') \
     AND turn.incarnation = ?1";

/// Each of them with where it works, which two more tables know.
pub(crate) const FLIGHT_AT: &str = concat!(
    "SELECT message.channel, sender, tier, kind, 1, ",
    is_asked!(),
    ", suspect, workdir, tier, \
     coalesce((SELECT sandbox FROM task WHERE conversation_id = message.conversation_id AND cwd IS NOT NULL), \
     conversation.sandbox), \
     (SELECT node_id FROM home WHERE home.conversation_id = message.conversation_id) FROM message INDEXED BY message_queue JOIN conversation USING (conversation_id) \
     WHERE queue = 'in_flight'"
);

pub(crate) const IN_FLIGHT_OF: &str = select_message!(
    "INDEXED BY message_queue JOIN message_text USING (row) \
     WHERE queue IN ('in_flight', 'blocking') AND conversation_id = ?1 \
     AND state <> 'parked' AND state <> 'steered' LIMIT 1"
);

pub(crate) const FOLLOWERS: &str = select_message!(
    "INDEXED BY message_leader JOIN message_text USING (row) WHERE leader = ?1 ORDER BY seq"
);

pub(crate) const LAST_ROUND: &str = "SELECT max(round) FROM message INDEXED BY message_sender \
     WHERE queue IS NOT NULL AND queue <> 'outbox' AND channel = ?1 AND sender = ?2";

/// Of those that are open there are few.
pub(crate) const OPEN_IN_STATE: &str = select_message!(
    "INDEXED BY message_open JOIN message_text USING (row) \
     WHERE queue IS NOT NULL AND state = ?1 AND message_id < ?2 ORDER BY message_id DESC LIMIT ?3"
);

/// Dead letters are looked for among the dead, not among all that is finished; the first parameter is not used.
pub(crate) const DEAD: &str = select_message!(
    "INDEXED BY message_dead JOIN message_text USING (row) \
     WHERE state = 'dead' AND message_id < ?2 ORDER BY message_id DESC LIMIT ?3"
);

const FINISHED_IN_STATE: &str = select_message!(
    "JOIN message_text USING (row) WHERE state = ?1 AND message_id < ?2 \
     ORDER BY message_id DESC LIMIT ?3"
);

/// A task stands as its newest message does, so that one goes last: never before an earlier one that is kept longer.
pub(crate) const FORGETTABLE: &str = "SELECT message_id FROM message INDEXED BY message_finished \
     WHERE queue IS NULL AND state = ?1 AND updated_at < ?2 \
     AND NOT EXISTS (SELECT 1 FROM reply WHERE reply.message_id = message.message_id \
         AND state IN ('queued', 'sending')) \
     AND NOT EXISTS (SELECT 1 FROM task_input AS its JOIN task_input AS earlier USING (task_id) \
         JOIN message AS older ON older.message_id = earlier.message_id \
         WHERE its.message_id = message.message_id AND earlier.ordinal < its.ordinal \
         AND NOT (older.queue IS NULL AND (older.state = 'dead') = (?1 = 'dead') AND older.updated_at < ?2)) \
     ORDER BY updated_at, message_id LIMIT ?3";

/// One arm per finished state: each is the end of an index.
pub(crate) const NEWEST_TIME: &str = "SELECT max(at) FROM (\
     SELECT max(updated_at) AS at FROM message INDEXED BY message_finished WHERE queue IS NULL AND state = 'done' \
     UNION ALL SELECT max(updated_at) FROM message INDEXED BY message_finished WHERE queue IS NULL AND state = 'dead' \
     UNION ALL SELECT max(updated_at) FROM message INDEXED BY message_finished WHERE queue IS NULL AND state = 'cancelled' \
     UNION ALL SELECT max(updated_at) FROM message INDEXED BY message_open WHERE queue IS NOT NULL) AS newest";

pub(crate) const EXCHANGES: &str = "SELECT message.message_id, body, body_sum, text, text_sum \
     FROM message JOIN message_text USING (row) JOIN answer USING (message_id) \
     WHERE conversation_id = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";

pub(crate) const BACKLOG: &str =
    "SELECT count(*) FROM message INDEXED BY message_open WHERE queue IS NOT NULL";

pub(crate) const UNFINISHED: &str = select_message!(
    "INDEXED BY message_open JOIN message_text USING (row) \
     WHERE queue IS NOT NULL AND message_id > ?1 ORDER BY message_id LIMIT ?2"
);

pub(crate) const UNANSWERED_BEFORE: &str = "SELECT message_id FROM message INDEXED BY message_queue \
     WHERE queue IN ('ready', 'held', 'queued', 'in_flight', 'blocking') \
     AND conversation_id = ?1 AND seq < ?2 ORDER BY seq LIMIT 1";

pub(crate) const UNANSWERED_OF: &str = select_message!(
    "INDEXED BY message_queue JOIN message_text USING (row) \
     WHERE queue IN ('ready', 'held', 'queued', 'in_flight', 'blocking') \
     AND conversation_id = ?1 ORDER BY seq LIMIT ?2"
);

/// Run by operators only: walks the bounded index of unanswered messages, and sorts.
pub(crate) const UNANSWERED_OF_SENDER: &str = select_message!(
    "INDEXED BY message_sender JOIN message_text USING (row) \
     WHERE queue IS NOT NULL AND queue <> 'outbox' AND sender = ?1 \
     AND (NOT EXISTS (SELECT 1 FROM json_each(?2)) OR channel IN (SELECT value FROM json_each(?2))) AND message_id > ?3 \
     ORDER BY message_id LIMIT ?4"
);

pub(crate) const OF_AGENT: &str = "SELECT sent_at, sent_at > received_at, state = 'dead' AND attempt = 0 \
     AND coalesce(failure_class, '') = 'capacity' FROM message INDEXED BY message_agent \
     WHERE kind = 'agent' AND channel = ?1 AND sender = ?2 ORDER BY sent_at DESC, row DESC LIMIT ?3";

/// By place in the conversation: what others said elsewhere is not looked at.
pub(crate) const OF_AGENT_IN: &str = "SELECT sent_at, sent_at > received_at, state = 'dead' AND attempt = 0 \
     AND coalesce(failure_class, '') = 'capacity' FROM message \
     WHERE conversation_id = ?1 AND kind = 'agent' AND sender = ?2 ORDER BY seq DESC LIMIT ?3";

/// Reads the index alone.
pub(crate) const SAID_NTH_NEWEST: &str = "SELECT sent_at FROM message INDEXED BY message_agent \
     WHERE kind = 'agent' AND channel = ?1 AND sender = ?2 ORDER BY sent_at DESC LIMIT 1 OFFSET ?3";

const COUNTS: &str = "SELECT state, count(*) FROM message INDEXED BY message_finished \
     WHERE queue IS NULL GROUP BY state \
     UNION ALL SELECT state, count(*) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL GROUP BY state";

pub(crate) const NEWEST: &str =
    select_message!("JOIN message_text USING (row) ORDER BY row DESC LIMIT ?1");

pub(crate) const LAST_SEQ: &str = "SELECT max(seq) FROM message WHERE conversation_id = ?1";

/// Walks the index of ids from the newest one, and nothing else.
pub(crate) const BY_END: &str = "SELECT message_id FROM (SELECT message_id FROM message INDEXED BY sqlite_autoindex_message_1 \
     ORDER BY message_id DESC LIMIT ?3) AS newest \
     WHERE substr(message_id, length(message_id) - length(?1) + 1) = ?1 LIMIT ?2";

/// Walks back from the newest row.
pub(crate) const OF_SENDER: &str = select_message!(
    "JOIN message_text USING (row) WHERE row > (SELECT max(row) FROM message) - ?3 AND sender = ?1 \
     AND +channel IN (SELECT value FROM json_each(?2)) ORDER BY row DESC LIMIT ?4"
);

/// Walks back from another one.
pub(crate) const OF_SENDER_BEFORE: &str = select_message!(
    "JOIN message_text USING (row) WHERE row < (SELECT row FROM message WHERE message_id = ?5) \
     AND row >= (SELECT row FROM message WHERE message_id = ?5) - ?3 AND sender = ?1 \
     AND +channel IN (SELECT value FROM json_each(?2)) ORDER BY row DESC LIMIT ?4"
);

pub(crate) const BY_PREFIX: &str = "SELECT message_id FROM message \
     WHERE message_id >= ?1 AND message_id < ?2 ORDER BY message_id LIMIT ?3";

pub(crate) const OLDER: &str = select_message!(
    "JOIN message_text USING (row) \
     WHERE row < (SELECT row FROM message WHERE message_id = ?1) ORDER BY row DESC LIMIT ?2"
);

pub(crate) const OF_CONVERSATION: &str = select_message!(
    "JOIN message_text USING (row) WHERE conversation_id = ?1 AND seq < ?2 \
     ORDER BY seq DESC LIMIT ?3"
);

pub(crate) const OF_CONVERSATION_FROM: &str = select_message!(
    "JOIN message_text USING (row) WHERE conversation_id = ?1 AND seq > ?2 \
     ORDER BY seq LIMIT ?3"
);

/// What has something new. Those in flight are always among them: what Codex asks them changes without them.
pub(crate) const CHANGED: &str = "SELECT message_id FROM message INDEXED BY message_open \
         WHERE queue IS NOT NULL AND (updated_at >= ?1 OR queue = 'in_flight' OR state = 'unclear') \
     UNION SELECT message_id FROM message INDEXED BY message_finished \
         WHERE queue IS NULL AND state = 'done' AND updated_at >= ?1 \
     UNION SELECT message_id FROM message INDEXED BY message_finished \
         WHERE queue IS NULL AND state = 'dead' AND updated_at >= ?1 \
     UNION SELECT message_id FROM message INDEXED BY message_finished \
         WHERE queue IS NULL AND state = 'cancelled' AND updated_at >= ?1 \
     UNION SELECT message_id FROM event INDEXED BY event_at WHERE at >= ?1 \
     ORDER BY message_id LIMIT ?2";

const ANSWERED: &str = "SELECT count(*) FROM message INDEXED BY message_finished \
     WHERE queue IS NULL AND state = 'done' AND updated_at >= ?1";

const OLDEST: &str = "SELECT min(received_at) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL AND queue <> 'outbox'";

const SUSPECTS: &str = "SELECT count(*) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL AND queue <> 'outbox' AND suspect = 1";

const OPERATOR: &str = "SELECT count(*) FROM message INDEXED BY message_open \
     WHERE queue IS NOT NULL AND state = 'received' AND hold_class = 'config'";

/// A first send that is under way is no retry.
const RETRIED: &str = "SELECT count(*) FROM reply INDEXED BY reply_lane \
     WHERE state IN ('queued', 'sending') AND tries > (CASE state WHEN 'sending' THEN 1 ELSE 0 END)";

/// One that can't be read is gone past: it stays the first of its conversation, so nothing behind it is claimed before it,
/// and the other conversations go on.
pub(crate) fn heads(
    conn: Conn<'_>,
    now: Timestamp,
    filter: &HeadFilter,
    limit: u32,
) -> Result<Vec<Head>, RowsError> {
    let limit = page(limit);
    let mut skipped = 0;
    loop {
        let (reach, before) = (limit.saturating_add(skipped), skipped);
        let mut heads = Vec::new();
        skipped = 0;
        for message in due(conn, now, filter, reach)? {
            match head(conn, message) {
                Ok(head) => heads.extend(head),
                Err(error) => sql::skip(error, &mut skipped)?,
            }
        }
        if skipped == before {
            return Ok(heads);
        }
    }
}

pub(crate) fn head(conn: Conn<'_>, message: Message) -> Result<Option<Head>, RowsError> {
    let Some(conversation) = conversation::by_id(conn, &message.conversation_id)? else {
        return Ok(None);
    };
    let task = task::started(conn, &message.conversation_id)?;
    let terms = task.as_ref().and_then(|task| task.terms());
    let given = terms.map(|terms| terms.sandbox);
    Ok(Some(Head {
        given: given.or(conversation.sandbox),
        codex_home: terms.and_then(|terms| terms.codex_home.clone()),
        message,
        conversation,
    }))
}

/// Held messages are looked at only when one of them is due.
fn due(
    conn: Conn<'_>,
    now: Timestamp,
    filter: &HeadFilter,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let late = next_held(conn, Timestamp(i64::MIN))?.is_some_and(|due| due <= now);
    let mut due = if stops_nothing(filter) {
        sql::many_readable(conn, READY, [sql::reach(limit)], limit, read)?
    } else {
        filtered(conn, READY_FILTERED, now, filter, limit)?
    };
    if late {
        due.extend(if stops_nothing(filter) {
            sql::many_readable(conn, HELD, (sql::reach(limit), now.0), limit, read)?
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
    due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(due)
}

fn stops_nothing(filter: &HeadFilter) -> bool {
    filter.full_channels.is_empty()
        && filter.full_senders.is_empty()
        && !filter.owner_only
        && !filter.no_suspects
        && filter.busy_workdirs.is_empty()
        && filter.node.is_none()
        && filter.people_only.is_empty()
}

fn filtered(
    conn: Conn<'_>,
    query: &str,
    now: Timestamp,
    filter: &HeadFilter,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let channels = json(filter.full_channels.iter().map(ChannelId::as_str));
    let workdirs = json(filter.busy_workdirs.iter().map(String::as_str));
    let readers = json(filter.readers.iter().map(|tier| tier.as_str()));
    let params = params![
        sql::reach(limit),
        now.0,
        filter.no_suspects,
        channels,
        workdirs,
        readers,
        json_of_senders(&filter.full_senders),
        filter.owner_only,
        json_of_senders(&filter.owners),
        filter.node.as_ref().map(|node| node.node_id.as_str()),
        filter.node.as_ref().is_some_and(|node| node.leave_written),
        !filter.people_only.is_empty(),
        json(filter.people_only.iter().map(String::as_str)),
    ];
    sql::many_readable(conn, query, params, limit, read)
}

/// Each as one text, which no other channel and sender make.
fn json_of_senders(senders: &[(ChannelId, String)]) -> String {
    let senders = senders.iter();
    let joined = senders.map(|(channel, sender)| format!("{channel}\n{sender}"));
    let joined: Vec<String> = joined.collect();
    json(joined.iter().map(String::as_str))
}

/// A JSON array of texts.
pub(crate) fn json<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<serde_json::Value>().to_string()
}

pub(crate) fn next_held(conn: Conn<'_>, after: Timestamp) -> Result<Option<Timestamp>, RowsError> {
    Ok(sql::number(conn, NEXT_HELD, [after.0])?.map(Timestamp))
}

/// In a fleet with the node of each.
pub(crate) fn flight(
    conn: Conn<'_>,
    workdirs: &[String],
    in_fleet: bool,
) -> Result<Vec<Flight>, RowsError> {
    if workdirs.is_empty() && !in_fleet {
        return sql::many(conn, FLIGHT, [], |row| {
            read_flight(&mut Fields::of("message on channel", row))
        });
    }
    let mut flight = sql::many(conn, FLIGHT_AT, [], |row| {
        let mut fields = Fields::of("message on channel", row);
        let flight = read_flight(&mut fields)?;
        let at = Workplace {
            workdir: fields.next()?,
            tier: fields.word()?,
            given: fields.maybe_word()?,
        };
        Ok(Flight {
            at: Some(at),
            node: fields.maybe_id(NodeId::new)?,
            ..flight
        })
    })?;
    for one in &mut flight {
        one.at = one.at.take().filter(|at| workdirs.contains(&at.workdir));
    }
    Ok(Flight::gather(flight))
}

fn read_flight(fields: &mut Fields<'_>) -> Result<Flight, RowsError> {
    Ok(Flight {
        channel: fields.id(ChannelId::new)?,
        sender: fields.next()?,
        tier: fields.word()?,
        kind: fields.word()?,
        turns: fields.next()?,
        waiting: fields.next()?,
        suspects: fields.next()?,
        at: None,
        node: None,
    })
}

pub(crate) fn round(conn: Conn<'_>) -> Result<Round, RowsError> {
    let round = sql::number(conn, "SELECT round FROM instance", [])?;
    Ok(Round(round.unwrap_or(0)))
}

pub(crate) fn set_round(conn: Conn<'_>, round: Round) -> Result<(), RowsError> {
    let set = "UPDATE instance SET round = ?1";
    sql::write(conn, set, [round.0], || "round of service".to_owned())
}

pub(crate) fn in_state(
    conn: Conn<'_>,
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
    let params = (state.as_str(), before, sql::reach(limit));
    sql::many_readable(conn, query, params, limit, read)
}

pub(crate) fn exchanges(
    conn: Conn<'_>,
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

pub(crate) fn of_sender(
    conn: Conn<'_>,
    sender: &str,
    channels: &[ChannelId],
    before: Option<&MessageId>,
    limit: u32,
) -> Result<Vec<Message>, RowsError> {
    let (channels, reach) = (
        json(channels.iter().map(ChannelId::as_str)),
        sql::reach(limit),
    );
    match before {
        None => {
            let of = (sender, channels, LOOKED_BACK_MAX, reach);
            sql::many_readable(conn, OF_SENDER, of, limit, read)
        }
        Some(before) => {
            let of = (sender, channels, LOOKED_BACK_MAX, reach, before.as_str());
            sql::many_readable(conn, OF_SENDER_BEFORE, of, limit, read)
        }
    }
}

pub(crate) fn read_agent_message(row: &Row<'_>) -> Result<AgentMessage, RowsError> {
    let mut fields = Fields::of("message of an agent at", row);
    Ok(AgentMessage {
        said_at: fields.time()?,
        waited: fields.next()?,
        stopped: fields.next()?,
    })
}

pub(crate) fn counts(conn: Conn<'_>) -> Result<Vec<StateCount>, RowsError> {
    let mut counts = sql::many(conn, COUNTS, [], |row| {
        let mut fields = Fields::of("messages in state", row);
        Ok(StateCount {
            state: fields.word()?,
            count: u64::from(fields.next::<u32>()?),
        })
    })?;
    counts.sort_by_key(|count| count.state);
    Ok(counts)
}

pub(crate) fn figures(conn: Conn<'_>, since: Timestamp) -> Result<Figures, RowsError> {
    Ok(Figures {
        answered: sql::count(conn, ANSWERED, [since.0])?,
        oldest_unanswered: sql::number(conn, OLDEST, [])?.map(Timestamp),
        suspects: sql::count(conn, SUSPECTS, [])?,
        operator: sql::count(conn, OPERATOR, [])?,
        replies_retried: sql::count(conn, RETRIED, [])?,
        requests_waiting: sql::count(conn, request::WAITING, [])?,
    })
}
