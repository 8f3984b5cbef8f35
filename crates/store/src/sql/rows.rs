//! One open transaction as the core sees it: runs the statement of a table for every read; `apply` has the writes.
//!
//! No SQL here: statements and the mapping of columns are in the tables' files. Where one job of a batch must be undoable
//! alone, its first write opens a savepoint.

use super::fields::Fields;
use super::{
    attached, audit, budget, conversation, incarnation, message, queue, reply, request,
    subscription, task, token, turn,
};
use crate::key::LedgerKey;
use crate::page;
use crate::sql::{self, Conn};
use bridge_core::budget::DayBudget;
use bridge_core::limits::LOOKED_BACK_MAX;
use bridge_core::port::{
    AgentMessage, Exchange, Figures, FleetRead, Flight, Head, HeadFilter, Read, RowsError,
    Standing, StateCount, TaskQuery,
};
use bridge_core::storage::StoredHour;
use bridge_core::value::{
    Answer, AuditEntry, ChannelId, Conversation, ConversationId, ExternalId, FileDigest,
    Incarnation, IncarnationId, ItemEvent, Message, MessageId, Reply, Request, RequestId, Round,
    SenderKind, Seq, StateName, Subscription, Task, TaskId, TaskInput, Timestamp, Token, Turn,
    Twin,
};

/// How a job of a batch is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// With the whole transaction. A savepoint would copy every changed page and is hardly ever needed.
    Transaction,
    /// Alone, by a savepoint.
    Savepoint,
}

/// The rows inside one transaction of one connection, for one job.
#[derive(Debug)]
pub(crate) struct SqlRows<'c> {
    conn: Conn<'c>,
    key: &'c LedgerKey,
    undo: Undo,
    wrote: bool,
}

impl<'c> SqlRows<'c> {
    /// Over a connection with an open transaction.
    pub(crate) fn new(conn: Conn<'c>, key: &'c LedgerKey, undo: Undo) -> Self {
        Self {
            conn,
            key,
            undo,
            wrote: false,
        }
    }

    /// Runs SQL as a change would, to break things in tests.
    #[cfg(test)]
    pub(crate) fn execute_batch(&mut self, statements: &str) -> Result<(), RowsError> {
        match self.writes()? {
            Conn::Sqlite(conn) => conn.execute_batch(statements).map_err(sql::failed),
            Conn::Postgres(session) => session.control(statements),
        }
    }

    /// The key that opens what is encrypted.
    pub(super) fn key(&self) -> &'c LedgerKey {
        self.key
    }

    /// The connection for a read.
    pub(super) fn conn(&self) -> Conn<'c> {
        self.conn
    }

    /// Before every write.
    fn writes(&mut self) -> Result<Conn<'c>, RowsError> {
        if !self.wrote && self.undo == Undo::Savepoint {
            sql::control(self.conn, "SAVEPOINT job")?;
        }
        self.wrote = true;
        Ok(self.conn)
    }

    /// The connection for a write, and the key that seals secrets.
    pub(crate) fn writer(&mut self) -> Result<(Conn<'c>, &'c LedgerKey), RowsError> {
        Ok((self.writes()?, self.key))
    }

    /// Whether it wrote anything.
    pub(crate) fn wrote(&self) -> bool {
        self.wrote
    }

    /// Keeps the writes.
    pub(crate) fn keep(self) -> Result<(), RowsError> {
        match (self.wrote, self.undo) {
            (true, Undo::Savepoint) => sql::control(self.conn, "RELEASE job"),
            (true, Undo::Transaction) | (false, _) => Ok(()),
        }
    }

    /// Undoes the writes of this job alone, or reports that only the whole transaction can be undone.
    pub(crate) fn undo(self) -> Result<Undone, RowsError> {
        match (self.wrote, self.undo) {
            (false, _) => Ok(Undone::Alone),
            (true, Undo::Savepoint) => {
                sql::control(self.conn, "ROLLBACK TO job")?;
                sql::control(self.conn, "RELEASE job")?;
                Ok(Undone::Alone)
            }
            (true, Undo::Transaction) => Ok(Undone::NotYet),
        }
    }
}

/// Whether a failed job's writes are undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// They are gone, and the transaction goes on.
    Alone,
    /// They are in the transaction, which must be rolled back.
    NotYet,
}

impl Read for SqlRows<'_> {
    fn message(&self, message_id: &MessageId) -> Result<Option<Message>, RowsError> {
        sql::one(
            self.conn,
            message::BY_ID,
            [message_id.as_str()],
            message::read,
        )
    }

    fn message_by_external(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<Option<Message>, RowsError> {
        message::by_external(self.conn, channel, external_id)
    }

    fn message_ids_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<MessageId>, RowsError> {
        let end = format!("{prefix}{}", char::MAX);
        sql::many(
            self.conn,
            queue::BY_PREFIX,
            (prefix, end, page(limit)),
            message::read_id,
        )
    }

    fn message_ids_by_end(&self, end: &str, limit: u32) -> Result<Vec<MessageId>, RowsError> {
        sql::many(
            self.conn,
            queue::BY_END,
            (end, page(limit), LOOKED_BACK_MAX),
            message::read_id,
        )
    }

    fn messages_of_sender(
        &self,
        sender: &str,
        channels: &[ChannelId],
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        queue::of_sender(self.conn, sender, channels, before, limit)
    }

    fn newest_messages(&self, limit: u32) -> Result<Vec<Message>, RowsError> {
        sql::many_readable(
            self.conn,
            queue::NEWEST,
            [sql::reach(limit)],
            limit,
            message::read,
        )
    }

    fn older_messages(&self, before: &MessageId, limit: u32) -> Result<Vec<Message>, RowsError> {
        sql::many_readable(
            self.conn,
            queue::OLDER,
            (before.as_str(), sql::reach(limit)),
            limit,
            message::read,
        )
    }

    fn changed_since(&self, since: Timestamp, limit: u32) -> Result<Vec<MessageId>, RowsError> {
        sql::many(
            self.conn,
            queue::CHANGED,
            (since.0, page(limit)),
            message::read_id,
        )
    }

    fn last_messages(&self, id: &ConversationId, limit: u32) -> Result<Vec<Message>, RowsError> {
        let params = (id.as_str(), i64::MAX, page(limit));
        sql::many(self.conn, queue::OF_CONVERSATION, params, message::read)
    }

    fn messages_before(
        &self,
        id: &ConversationId,
        before: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        let before = before.map_or(i64::MAX, |seq| seq.0);
        let params = (id.as_str(), before, sql::reach(limit));
        let query = queue::OF_CONVERSATION;
        sql::many_readable(self.conn, query, params, limit, message::read)
    }

    fn messages_after(
        &self,
        id: &ConversationId,
        after: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        let after = after.map_or(i64::MIN, |seq| seq.0);
        let params = (id.as_str(), after, sql::reach(limit));
        let query = queue::OF_CONVERSATION_FROM;
        sql::many_readable(self.conn, query, params, limit, message::read)
    }

    fn conversations(
        &self,
        before: Option<(Timestamp, &ConversationId)>,
        limit: u32,
    ) -> Result<Vec<(Conversation, Timestamp)>, RowsError> {
        conversation::by_activity(self.conn, before, limit)
    }

    fn conversations_under(
        &self,
        channel: &ChannelId,
        prefix: &str,
        before: Option<(Timestamp, &ConversationId)>,
        limit: u32,
    ) -> Result<Vec<(Conversation, Timestamp)>, RowsError> {
        conversation::under(self.conn, channel, prefix, before, limit)
    }

    fn conversations_by_key(&self, key: &str, limit: u32) -> Result<Vec<Conversation>, RowsError> {
        conversation::all_by_key(self.conn, key, limit)
    }

    fn prunable(&self, before: Timestamp, limit: u32) -> Result<Vec<Conversation>, RowsError> {
        conversation::prunable(self.conn, before, limit)
    }

    fn pruned(&self, limit: u32) -> Result<Vec<Conversation>, RowsError> {
        conversation::pruned(self.conn, limit)
    }

    fn tokens(&self) -> Result<Vec<Token>, RowsError> {
        token::all(self.conn)
    }

    fn token(&self, name: &str) -> Result<Option<Token>, RowsError> {
        sql::one(self.conn, token::BY_NAME, [name], token::read)
    }

    fn messages_in(
        &self,
        state: StateName,
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        queue::in_state(self.conn, state, before, limit)
    }

    fn in_flight_of(&self, id: &ConversationId) -> Result<Option<Message>, RowsError> {
        sql::one(self.conn, queue::IN_FLIGHT_OF, [id.as_str()], message::read)
    }

    fn followers(&self, leader: &MessageId) -> Result<Vec<Message>, RowsError> {
        sql::many(
            self.conn,
            queue::FOLLOWERS,
            [leader.as_str()],
            message::read,
        )
    }

    fn exchanges(
        &self,
        id: &ConversationId,
        before: Seq,
        limit: u32,
    ) -> Result<Vec<Exchange>, RowsError> {
        queue::exchanges(self.conn, id, before, limit)
    }

    fn round(&self) -> Result<Round, RowsError> {
        queue::round(self.conn)
    }

    fn last_round(&self, channel: &ChannelId, sender: &str) -> Result<Option<Round>, RowsError> {
        Ok(sql::number(self.conn, queue::LAST_ROUND, [channel.as_str(), sender])?.map(Round))
    }

    fn conversation(&self, id: &ConversationId) -> Result<Option<Conversation>, RowsError> {
        conversation::by_id(self.conn, id)
    }

    fn conversation_by_key(
        &self,
        channel: &ChannelId,
        external_key: &str,
    ) -> Result<Option<Conversation>, RowsError> {
        conversation::by_key(self.conn, channel, external_key)
    }

    fn unanswered_of(&self, id: &ConversationId, limit: u32) -> Result<Vec<Message>, RowsError> {
        sql::many(
            self.conn,
            queue::UNANSWERED_OF,
            (id.as_str(), page(limit)),
            message::read,
        )
    }

    fn agent_messages(
        &self,
        channel: &ChannelId,
        sender: &str,
        limit: u32,
    ) -> Result<Vec<AgentMessage>, RowsError> {
        let of = (channel.as_str(), sender, page(limit));
        sql::many(self.conn, queue::OF_AGENT, of, queue::read_agent_message)
    }

    fn agent_messages_in(
        &self,
        id: &ConversationId,
        sender: &str,
        limit: u32,
    ) -> Result<Vec<AgentMessage>, RowsError> {
        let of = (id.as_str(), sender, page(limit));
        sql::many(self.conn, queue::OF_AGENT_IN, of, queue::read_agent_message)
    }

    fn said_nth_newest(
        &self,
        channel: &ChannelId,
        sender: &str,
        nth: u32,
    ) -> Result<Option<Timestamp>, RowsError> {
        let of = (channel.as_str(), sender, nth.saturating_sub(1));
        Ok(sql::number(self.conn, queue::SAID_NTH_NEWEST, of)?.map(Timestamp))
    }

    fn cursor(&self, channel: &ChannelId) -> Result<Option<String>, RowsError> {
        conversation::cursor(self.conn, channel)
    }

    fn last_seq(&self, id: &ConversationId) -> Result<Option<Seq>, RowsError> {
        Ok(sql::number(self.conn, queue::LAST_SEQ, [id.as_str()])?.map(Seq))
    }

    fn unanswered_before(
        &self,
        id: &ConversationId,
        seq: Seq,
    ) -> Result<Option<MessageId>, RowsError> {
        sql::one(
            self.conn,
            queue::UNANSWERED_BEFORE,
            (id.as_str(), seq.0),
            message::read_id,
        )
    }

    fn turn(&self, message_id: &MessageId, attempt: u32) -> Result<Option<Turn>, RowsError> {
        turn::of_attempt(self.conn, message_id, attempt)
    }

    fn answer(&self, message_id: &MessageId) -> Result<Option<Answer>, RowsError> {
        turn::answer(self.conn, message_id)
    }

    fn replies(&self, message_id: &MessageId) -> Result<Vec<Reply>, RowsError> {
        sql::many(
            self.conn,
            reply::OF_MESSAGE,
            [message_id.as_str()],
            reply::read,
        )
    }

    fn next_reply(&self, id: &ConversationId) -> Result<Option<Reply>, RowsError> {
        sql::one(self.conn, reply::NEXT, [id.as_str()], reply::read)
    }

    fn twins(
        &self,
        channel: &ChannelId,
        kind: SenderKind,
        body: &str,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<Twin>, RowsError> {
        reply::twins(self.conn, channel, kind, body, since, limit)
    }

    fn lanes(
        &self,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Result<Vec<ConversationId>, RowsError> {
        let after = after.map_or("", ConversationId::as_str);
        sql::many(self.conn, reply::LANES, (after, page(limit)), |row| {
            Fields::of("lane", row).id(ConversationId::new)
        })
    }

    fn heads(
        &self,
        now: Timestamp,
        filter: &HeadFilter,
        limit: u32,
    ) -> Result<Vec<Head>, RowsError> {
        queue::heads(self.conn, now, filter, limit)
    }

    fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, RowsError> {
        let parked = sql::number(self.conn, queue::NEXT_PARKED, [now.0])?.map(Timestamp);
        Ok(queue::next_held(self.conn, now)?
            .into_iter()
            .chain(parked)
            .min())
    }

    fn overdue(&self, now: Timestamp) -> Result<Option<Message>, RowsError> {
        // One that can't be read is given up by nobody, and keeps no other one back.
        let of = (now.0, sql::reach(1));
        let found = sql::many_readable(self.conn, queue::OVERDUE, of, 1, message::read)?;
        Ok(found.into_iter().next())
    }

    fn flight(&self, workdirs: &[String]) -> Result<Vec<Flight>, RowsError> {
        queue::flight(self.conn, workdirs, self.this_node().is_some())
    }

    fn forgettable(
        &self,
        state: StateName,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<MessageId>, RowsError> {
        let params = (state.as_str(), before.0, page(limit));
        sql::many(self.conn, queue::FORGETTABLE, params, message::read_id)
    }

    fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, RowsError> {
        audit::newest(self.conn, limit)
    }

    fn audit_of(&self, message_id: &MessageId, limit: u32) -> Result<Vec<AuditEntry>, RowsError> {
        audit::of_message(self.conn, message_id, limit)
    }

    fn figures(&self, since: Timestamp) -> Result<Figures, RowsError> {
        queue::figures(self.conn, since)
    }

    fn newest_time(&self) -> Result<Option<Timestamp>, RowsError> {
        Ok(sql::number(self.conn, queue::NEWEST_TIME, [])?.map(Timestamp))
    }

    fn unnamed_files(&self, files: &[FileDigest]) -> Result<Vec<FileDigest>, RowsError> {
        attached::unnamed(self.conn, files)
    }

    fn backlog(&self) -> Result<u32, RowsError> {
        let backlog = sql::count(self.conn, queue::BACKLOG, [])?;
        Ok(u32::try_from(backlog).unwrap_or(u32::MAX))
    }

    fn unfinished(&self, after: Option<&MessageId>, limit: u32) -> Result<Vec<Message>, RowsError> {
        let after = after.map_or("", MessageId::as_str);
        sql::many_readable(
            self.conn,
            queue::UNFINISHED,
            (after, sql::reach(limit)),
            limit,
            message::read,
        )
    }

    fn counts(&self) -> Result<Vec<StateCount>, RowsError> {
        queue::counts(self.conn)
    }

    fn events(
        &self,
        message_id: &MessageId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<ItemEvent>, RowsError> {
        turn::events(self.conn, message_id, after, limit)
    }

    fn last_event(&self, message_id: &MessageId) -> Result<u32, RowsError> {
        turn::last_event(self.conn, message_id)
    }

    fn request(&self, request_id: &RequestId) -> Result<Option<Request>, RowsError> {
        request::one(self.conn, self.key, request::BY_ID, [request_id.as_str()])
    }

    fn requests(&self, message_id: &MessageId) -> Result<Vec<Request>, RowsError> {
        let of = [message_id.as_str()];
        request::many(self.conn, self.key, request::OF_MESSAGE, of)
    }

    fn standings(&self, message_id: &MessageId) -> Result<Vec<Standing>, RowsError> {
        request::standings(self.conn, self.key, message_id)
    }

    fn requests_named(
        &self,
        message_id: &MessageId,
        incarnation: &IncarnationId,
        rpc_id: &str,
    ) -> Result<Vec<Request>, RowsError> {
        let of = (message_id.as_str(), incarnation.as_str(), rpc_id);
        request::many(self.conn, self.key, request::NAMED, of)
    }

    fn live_requests(&self, message_id: &MessageId) -> Result<Vec<Request>, RowsError> {
        request::many(self.conn, self.key, request::LIVE, [message_id.as_str()])
    }

    fn requests_asked(&self, message_id: &MessageId) -> Result<u32, RowsError> {
        request::asked(self.conn, message_id)
    }

    fn requests_by_code(&self, id: &ConversationId, code: &str) -> Result<Vec<Request>, RowsError> {
        let of = (id.as_str(), code);
        request::many(self.conn, self.key, request::BY_CODE, of)
    }

    fn newest_requests(
        &self,
        waiting: bool,
        before: Option<&RequestId>,
        limit: u32,
    ) -> Result<Vec<Request>, RowsError> {
        let query = if waiting {
            request::NEWEST_WAITING
        } else {
            request::NEWEST
        };
        let of = (before.map_or("", RequestId::as_str), sql::reach(limit));
        request::list(self.conn, self.key, query, of, limit)
    }

    fn overdue_requests(&self, now: Timestamp, limit: u32) -> Result<Vec<Request>, RowsError> {
        let params = (now.0, sql::reach(limit));
        request::list(self.conn, self.key, request::OVERDUE, params, limit)
    }

    fn next_deadline(&self, now: Timestamp) -> Result<Option<Timestamp>, RowsError> {
        Ok(sql::number(self.conn, request::NEXT_DEADLINE, [now.0])?.map(Timestamp))
    }

    fn unreminded_requests(
        &self,
        asked_by: Timestamp,
        limit: u32,
    ) -> Result<Vec<Request>, RowsError> {
        let params = (asked_by.0, sql::reach(limit));
        request::list(self.conn, self.key, request::UNREMINDED, params, limit)
    }

    fn next_unreminded(&self, asked_by: Timestamp) -> Result<Option<Timestamp>, RowsError> {
        let next = sql::number(self.conn, request::NEXT_UNREMINDED, [asked_by.0])?;
        Ok(next.map(Timestamp))
    }

    fn live_incarnations(&self) -> Result<Vec<Incarnation>, RowsError> {
        incarnation::live(self.conn, self.this_node().as_ref())
    }

    fn turns_on(&self, incarnation_id: &IncarnationId) -> Result<u32, RowsError> {
        let turns = sql::number(self.conn, queue::TURNS_ON, [incarnation_id.as_str()])?;
        Ok(turns.map_or(0, |turns| u32::try_from(turns).unwrap_or(u32::MAX)))
    }

    fn task(&self, task_id: &TaskId) -> Result<Option<Task>, RowsError> {
        Ok(task::with_change(self.conn, task_id)?.map(|(task, _)| task))
    }

    fn started_task(&self, id: &ConversationId) -> Result<Option<Task>, RowsError> {
        task::started(self.conn, id)
    }

    fn started_tasks(&self, before: Option<&TaskId>, limit: u32) -> Result<Vec<Task>, RowsError> {
        task::newest_started(self.conn, before, limit)
    }

    fn started_tasks_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<Task>, RowsError> {
        task::started_by_prefix(self.conn, prefix, limit)
    }

    fn agent_tasks(&self, query: &TaskQuery) -> Result<Vec<(Task, Timestamp)>, RowsError> {
        task::list(self.conn, query)
    }

    fn agent_tasks_count(&self, query: &TaskQuery) -> Result<u64, RowsError> {
        task::count(self.conn, query)
    }

    fn task_inputs(&self, task_id: &TaskId) -> Result<Vec<TaskInput>, RowsError> {
        sql::many(
            self.conn,
            task::INPUTS,
            [task_id.as_str()],
            task::read_input,
        )
    }

    fn task_changed(&self, task_id: &TaskId) -> Result<Option<Timestamp>, RowsError> {
        Ok(task::with_change(self.conn, task_id)?.map(|(_, at)| at))
    }

    fn task_of_message(&self, message_id: &MessageId) -> Result<Option<TaskId>, RowsError> {
        task::of(self.conn, message_id)
    }

    fn stored(&self, channel: &ChannelId, sender: &str) -> Result<Vec<StoredHour>, RowsError> {
        budget::stored_hours(self.conn, channel, sender)
    }

    fn unanswered_of_sender(
        &self,
        sender: &str,
        channels: &[ChannelId],
        after: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        let channels = queue::json(channels.iter().map(ChannelId::as_str));
        let after = after.map_or("", MessageId::as_str);
        let of = (sender, channels, after, page(limit));
        sql::many(self.conn, queue::UNANSWERED_OF_SENDER, of, message::read)
    }

    fn budget_reached(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
        budget: DayBudget,
    ) -> Result<Option<Timestamp>, RowsError> {
        budget::reached(self.conn, channel, sender, since, budget)
    }

    fn subscription(
        &self,
        task_id: &TaskId,
        subscription_id: &str,
    ) -> Result<Option<Subscription>, RowsError> {
        let of = (task_id.as_str(), subscription_id);
        Ok(subscription::many(self.conn, self.key, subscription::BY_ID, of)?.pop())
    }

    fn subscriptions_of(&self, task_id: &TaskId) -> Result<Vec<Subscription>, RowsError> {
        let of = [task_id.as_str()];
        subscription::many(self.conn, self.key, subscription::OF_TASK, of)
    }

    fn subscriptions_open(
        &self,
        after: Option<(&TaskId, &str)>,
        limit: u32,
    ) -> Result<Vec<Subscription>, RowsError> {
        let (task_id, subscription_id) = after.unzip();
        let task_id = task_id.map(TaskId::as_str);
        let of = (task_id, subscription_id.unwrap_or(""), sql::reach(limit));
        subscription::list(self.conn, self.key, subscription::OPEN, of, limit)
    }

    fn pushes_held(&self, owner: &str) -> Result<u64, RowsError> {
        sql::count(self.conn, subscription::HELD, [owner])
    }
}
