//! Reading in memory. Written to be obviously right: other stores are compared with it.
//!
//! Nothing is cached or indexed beyond the sorted tables; the cost of a claim grows with what is unfinished.

use super::derived::{page, parked_until};
use super::request::standing;
use super::{MemoryRows, derived};
use bridge_core::budget::DayBudget;
use bridge_core::limits::LOOKED_BACK_MAX;
use bridge_core::port::{
    AgentMessage, Exchange, Figures, Flight, Head, HeadFilter, Read, RowsError, Standing,
    StateCount, TaskQuery,
};
use bridge_core::storage::StoredHour;
use bridge_core::value::{
    Answer, AuditEntry, ChannelId, Conversation, ConversationId, ExternalId, FileDigest,
    Incarnation, IncarnationId, ItemEvent, Message, MessageId, Reply, Request, RequestId, Round,
    SenderKind, Seq, StateName, Subscription, Task, TaskId, TaskInput, Timestamp, Token, Turn,
    Twin,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

impl Read for MemoryRows {
    fn message(&self, message_id: &MessageId) -> Result<Option<Message>, RowsError> {
        Ok(self.messages.get(message_id).cloned())
    }

    fn message_by_external(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<Option<Message>, RowsError> {
        let key = (channel.clone(), external_id.clone());
        let id = self.externals.get(&key);
        Ok(id.and_then(|id| self.messages.get(id)).cloned())
    }

    fn message_ids_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<MessageId>, RowsError> {
        Ok(self
            .messages
            .range(MessageId::new(prefix)..)
            .map(|(id, _)| id)
            .take_while(|id| id.as_str().starts_with(prefix))
            .take(page(limit))
            .cloned()
            .collect())
    }

    fn message_ids_by_end(&self, end: &str, limit: u32) -> Result<Vec<MessageId>, RowsError> {
        let ids: BTreeSet<_> = self.messages.iter().map(|(id, _)| id).collect();
        let found = ids.into_iter().rev().take(LOOKED_BACK_MAX as usize);
        let found = found.filter(|id| id.as_str().ends_with(end));
        Ok(found.take(page(limit)).cloned().collect())
    }

    fn messages_of_sender(
        &self,
        sender: &str,
        channels: &[ChannelId],
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        let of = |one: &Message| one.sender == sender && channels.contains(&one.channel);
        Ok(self.arrived_of(of, before, page(limit)))
    }

    fn newest_messages(&self, limit: u32) -> Result<Vec<Message>, RowsError> {
        Ok(self.arrived_of(|_| true, None, page(limit)))
    }

    fn older_messages(&self, before: &MessageId, limit: u32) -> Result<Vec<Message>, RowsError> {
        Ok(self.arrived_of(|_| true, Some(before), page(limit)))
    }

    fn changed_since(&self, since: Timestamp, limit: u32) -> Result<Vec<MessageId>, RowsError> {
        Ok(self.changed(since, page(limit)))
    }

    fn last_messages(&self, id: &ConversationId, limit: u32) -> Result<Vec<Message>, RowsError> {
        self.messages_before(id, None, limit)
    }

    fn messages_before(
        &self,
        id: &ConversationId,
        before: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        let end = (id.clone(), before.unwrap_or(Seq(i64::MAX)));
        let older = self.seqs.range((id.clone(), Seq(i64::MIN))..end).rev();
        let older = older.filter_map(|(_, id)| self.messages.get(id));
        Ok(older.take(page(limit)).cloned().collect())
    }

    fn messages_after(
        &self,
        id: &ConversationId,
        after: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        Ok(self.newer_in(id, after, page(limit)))
    }

    fn conversations(
        &self,
        before: Option<(Timestamp, &ConversationId)>,
        limit: u32,
    ) -> Result<Vec<(Conversation, Timestamp)>, RowsError> {
        Ok(self.conversations_by_activity(|_| true, before, page(limit)))
    }

    fn conversations_under(
        &self,
        channel: &ChannelId,
        prefix: &str,
        before: Option<(Timestamp, &ConversationId)>,
        limit: u32,
    ) -> Result<Vec<(Conversation, Timestamp)>, RowsError> {
        let key = |one: &Conversation| one.external_key.starts_with(prefix);
        let under = |one: &Conversation| one.channel == *channel && key(one);
        Ok(self.conversations_by_activity(under, before, page(limit)))
    }

    fn conversations_by_key(&self, key: &str, limit: u32) -> Result<Vec<Conversation>, RowsError> {
        Ok(self.conversations_of_key(key, page(limit)))
    }

    fn prunable(&self, before: Timestamp, limit: u32) -> Result<Vec<Conversation>, RowsError> {
        Ok(self.quiet_conversations(before, page(limit)))
    }

    fn pruned(&self, limit: u32) -> Result<Vec<Conversation>, RowsError> {
        Ok(self.pruned_conversations(page(limit)))
    }

    fn tokens(&self) -> Result<Vec<Token>, RowsError> {
        Ok(self.all_tokens())
    }

    fn token(&self, name: &str) -> Result<Option<Token>, RowsError> {
        Ok(self.tokens.get(&name.to_owned()).cloned())
    }

    fn messages_in(
        &self,
        state: StateName,
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        let end = before.cloned().map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self
            .messages
            .range((Bound::Unbounded, end))
            .rev()
            .map(|(_, message)| message)
            .filter(|message| message.life.state.name() == state)
            .take(page(limit))
            .cloned()
            .collect())
    }

    fn in_flight_of(&self, id: &ConversationId) -> Result<Option<Message>, RowsError> {
        Ok(self
            .open_messages()
            .find(|message| message.conversation_id == *id && message.life.state.name().in_flight())
            .cloned())
    }

    fn followers(&self, leader: &MessageId) -> Result<Vec<Message>, RowsError> {
        let mut followers: Vec<Message> = self
            .open_messages()
            .filter(|message| message.life.state.leader() == Some(leader))
            .cloned()
            .collect();
        followers.sort_by_key(|message| message.seq);
        Ok(followers)
    }

    fn exchanges(
        &self,
        id: &ConversationId,
        before: Seq,
        limit: u32,
    ) -> Result<Vec<Exchange>, RowsError> {
        let earlier = (id.clone(), Seq(i64::MIN))..(id.clone(), before);
        let mut newest: Vec<Exchange> = self
            .seqs
            .range(earlier)
            .rev()
            .filter_map(|(_, id)| {
                let (message, answer) = (self.messages.get(id)?, self.answers.get(id)?);
                Some(Exchange {
                    body: message.body.clone(),
                    answer: answer.text.clone(),
                })
            })
            .take(page(limit))
            .collect();
        newest.reverse();
        Ok(newest)
    }

    fn round(&self) -> Result<Round, RowsError> {
        Ok(self.rounds.get(&()).copied().unwrap_or(Round(0)))
    }

    fn last_round(&self, channel: &ChannelId, sender: &str) -> Result<Option<Round>, RowsError> {
        Ok(self
            .open_messages()
            .filter(|message| message.life.state.name().awaits_answer())
            .filter(|message| message.channel == *channel && message.sender == sender)
            .map(|message| message.round)
            .max())
    }

    fn conversation(&self, id: &ConversationId) -> Result<Option<Conversation>, RowsError> {
        Ok(self.conversations.get(id).cloned())
    }

    fn conversation_by_key(
        &self,
        channel: &ChannelId,
        external_key: &str,
    ) -> Result<Option<Conversation>, RowsError> {
        let key = (channel.clone(), external_key.to_owned());
        let id = self.conversation_keys.get(&key);
        Ok(id.and_then(|id| self.conversations.get(id)).cloned())
    }

    fn last_seq(&self, id: &ConversationId) -> Result<Option<Seq>, RowsError> {
        let all = (id.clone(), Seq(i64::MIN))..=(id.clone(), Seq(i64::MAX));
        Ok(self.seqs.range(all).next_back().map(|((_, seq), _)| *seq))
    }

    fn unanswered_of(&self, id: &ConversationId, limit: u32) -> Result<Vec<Message>, RowsError> {
        let mut waiting: Vec<Message> = self
            .open_messages()
            .filter(|message| message.conversation_id == *id)
            .filter(|message| message.life.state.name().awaits_answer())
            .cloned()
            .collect();
        waiting.sort_by_key(|message| message.seq);
        waiting.truncate(page(limit));
        Ok(waiting)
    }

    fn agent_messages(
        &self,
        channel: &ChannelId,
        sender: &str,
        limit: u32,
    ) -> Result<Vec<AgentMessage>, RowsError> {
        Ok(self.sent_by_agent(channel, sender, page(limit)))
    }

    fn agent_messages_in(
        &self,
        id: &ConversationId,
        sender: &str,
        limit: u32,
    ) -> Result<Vec<AgentMessage>, RowsError> {
        Ok(self.sent_by_agent_in(id, sender, page(limit)))
    }

    fn said_nth_newest(
        &self,
        channel: &ChannelId,
        sender: &str,
        nth: u32,
    ) -> Result<Option<Timestamp>, RowsError> {
        Ok(self.nth_said(channel, sender, nth))
    }

    fn cursor(&self, channel: &ChannelId) -> Result<Option<String>, RowsError> {
        Ok(self.cursors.get(channel).cloned())
    }

    fn unanswered_before(
        &self,
        id: &ConversationId,
        seq: Seq,
    ) -> Result<Option<MessageId>, RowsError> {
        let before = (id.clone(), Seq(i64::MIN))..(id.clone(), seq);
        Ok(self
            .seqs
            .range(before)
            .map(|(_, id)| id)
            .find(|id| {
                self.messages
                    .get(id)
                    .is_some_and(|message| message.life.state.name().awaits_answer())
            })
            .cloned())
    }

    fn turn(&self, message_id: &MessageId, attempt: u32) -> Result<Option<Turn>, RowsError> {
        Ok(self.turns.get(&(message_id.clone(), attempt)).cloned())
    }

    fn answer(&self, message_id: &MessageId) -> Result<Option<Answer>, RowsError> {
        Ok(self.answers.get(message_id).cloned())
    }

    fn replies(&self, message_id: &MessageId) -> Result<Vec<Reply>, RowsError> {
        let all = (message_id.clone(), 0)..=(message_id.clone(), u32::MAX);
        let replies = self.replies.range(all);
        Ok(replies.map(|(_, reply)| reply.clone()).collect())
    }

    fn next_reply(&self, id: &ConversationId) -> Result<Option<Reply>, RowsError> {
        let lane = (id.clone(), Seq(i64::MIN), 0)..=(id.clone(), Seq(i64::MAX), u32::MAX);
        let first = self.lanes.range(lane).next();
        Ok(first
            .and_then(|((_, _, ordinal), id)| self.replies.get(&(id.clone(), *ordinal)))
            .cloned())
    }

    fn twins(
        &self,
        channel: &ChannelId,
        kind: SenderKind,
        body: &str,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<Twin>, RowsError> {
        Ok(self.twins_of((channel, kind), body, since, limit))
    }

    fn lanes(
        &self,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Result<Vec<ConversationId>, RowsError> {
        let lanes: BTreeSet<_> = self
            .lanes
            .iter()
            .map(|((id, _, _), _)| id)
            .filter(|id| after.is_none_or(|after| *id > after))
            .collect();
        Ok(lanes.into_iter().take(page(limit)).cloned().collect())
    }

    fn heads(
        &self,
        now: Timestamp,
        filter: &HeadFilter,
        limit: u32,
    ) -> Result<Vec<Head>, RowsError> {
        let mut due: Vec<&Message> = self
            .first_waiting()
            .into_iter()
            .filter(|(_, hold)| hold.is_none_or(|hold| hold.until <= now))
            .map(|(message, _)| message)
            .collect();
        due.sort_by_key(|message| {
            let Message {
                kind,
                round,
                received_at,
                message_id,
                ..
            } = message;
            (*kind, *round, *received_at, message_id)
        });
        Ok(due
            .into_iter()
            .filter_map(|message| {
                let conversation = self.conversations.get(&message.conversation_id)?;
                Some(self.head(message, conversation))
            })
            .filter(|head| filter.lets(head))
            .filter(|head| !self.loans.contains(&head.message.conversation_id))
            .filter(|head| self.lets_node(filter.node.as_ref(), &head.message.conversation_id))
            .take(page(limit))
            .collect())
    }

    fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, RowsError> {
        let held = self.first_waiting();
        let parked = self.open_messages().filter_map(parked_until);
        Ok(held
            .into_iter()
            .filter_map(|(_, hold)| hold.map(|hold| hold.until))
            .chain(parked)
            .filter(|due| *due > now)
            .min())
    }

    fn overdue(&self, now: Timestamp) -> Result<Option<Message>, RowsError> {
        let mut parked: Vec<_> = self
            .open_messages()
            .filter_map(|message| Some((parked_until(message)?, message)))
            .filter(|(until, _)| *until <= now)
            .collect();
        parked.sort_by_key(|(until, message)| (*until, &message.message_id));
        Ok(parked.first().map(|(_, message)| (*message).clone()))
    }

    fn flight(&self, workdirs: &[String]) -> Result<Vec<Flight>, RowsError> {
        Ok(self.turns_at_work(workdirs))
    }

    fn forgettable(
        &self,
        state: StateName,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<MessageId>, RowsError> {
        let mut old: Vec<&Message> = self
            .messages
            .iter()
            .map(|(_, message)| message)
            .filter(|message| state.finished() && message.life.state.name() == state)
            .filter(|message| message.life.updated_at < before)
            .filter(|message| self.settled(&message.message_id))
            .filter(|message| self.may_leave_its_task(&message.message_id, state, before))
            .collect();
        old.sort_by_key(|message| (message.life.updated_at, &message.message_id));
        Ok(old
            .into_iter()
            .take(page(limit))
            .map(|message| message.message_id.clone())
            .collect())
    }

    fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, RowsError> {
        let newest = self.audits.iter().rev().map(|(_, entry)| entry.clone());
        Ok(newest.take(page(limit)).collect())
    }

    fn audit_of(&self, message_id: &MessageId, limit: u32) -> Result<Vec<AuditEntry>, RowsError> {
        let newest = self.audits.iter().rev().map(|(_, entry)| entry);
        let about = newest.filter(|entry| entry.subject == message_id.as_str());
        Ok(about.take(page(limit)).cloned().collect())
    }

    fn figures(&self, since: Timestamp) -> Result<Figures, RowsError> {
        Ok(derived::figures(self, since))
    }

    fn newest_time(&self) -> Result<Option<Timestamp>, RowsError> {
        let times = self
            .messages
            .iter()
            .map(|(_, message)| message.life.updated_at);
        Ok(times.max())
    }

    fn unnamed_files(&self, files: &[FileDigest]) -> Result<Vec<FileDigest>, RowsError> {
        Ok(self.files_without_rows(files))
    }

    fn backlog(&self) -> Result<u32, RowsError> {
        Ok(u32::try_from(self.open.len()).unwrap_or(u32::MAX))
    }

    fn unfinished(&self, after: Option<&MessageId>, limit: u32) -> Result<Vec<Message>, RowsError> {
        let start = after.cloned().map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self
            .open
            .range((start, Bound::Unbounded))
            .filter_map(|(id, ())| self.messages.get(id))
            .take(page(limit))
            .cloned()
            .collect())
    }

    fn counts(&self) -> Result<Vec<StateCount>, RowsError> {
        let mut counts: BTreeMap<StateName, u64> = BTreeMap::new();
        for (_, message) in self.messages.iter() {
            *counts.entry(message.life.state.name()).or_default() += 1;
        }
        Ok(counts
            .into_iter()
            .map(|(state, count)| StateCount { state, count })
            .collect())
    }

    fn events(
        &self,
        message_id: &MessageId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<ItemEvent>, RowsError> {
        let start = Bound::Excluded((message_id.clone(), after));
        let end = Bound::Included((message_id.clone(), u32::MAX));
        Ok(self
            .events
            .range((start, end))
            .take(page(limit))
            .map(|(_, event)| event.clone())
            .collect())
    }

    fn last_event(&self, message_id: &MessageId) -> Result<u32, RowsError> {
        let all = (message_id.clone(), 0)..=(message_id.clone(), u32::MAX);
        let last = self.events.range(all).next_back();
        Ok(last.map_or(0, |((_, ordinal), _)| *ordinal))
    }

    fn request(&self, request_id: &RequestId) -> Result<Option<Request>, RowsError> {
        Ok(self.requests.get(request_id).cloned())
    }

    fn requests(&self, message_id: &MessageId) -> Result<Vec<Request>, RowsError> {
        Ok(self.requests_of(message_id).cloned().collect())
    }

    fn standings(&self, message_id: &MessageId) -> Result<Vec<Standing>, RowsError> {
        Ok(self.requests_of(message_id).map(standing).collect())
    }

    fn requests_named(
        &self,
        message_id: &MessageId,
        incarnation: &IncarnationId,
        rpc_id: &str,
    ) -> Result<Vec<Request>, RowsError> {
        let named =
            |request: &&Request| request.incarnation == *incarnation && request.rpc_id == rpc_id;
        Ok(self
            .requests_of(message_id)
            .filter(named)
            .cloned()
            .collect())
    }

    fn live_requests(&self, message_id: &MessageId) -> Result<Vec<Request>, RowsError> {
        let live = self
            .requests_of(message_id)
            .filter(|request| request.state.lives());
        Ok(live.cloned().collect())
    }

    fn requests_asked(&self, message_id: &MessageId) -> Result<u32, RowsError> {
        let asked = self.requests_of(message_id).count();
        Ok(u32::try_from(asked).unwrap_or(u32::MAX))
    }

    fn requests_by_code(&self, id: &ConversationId, code: &str) -> Result<Vec<Request>, RowsError> {
        Ok(self.with_code(id, code))
    }

    fn newest_requests(
        &self,
        waiting: bool,
        before: Option<&RequestId>,
        limit: u32,
    ) -> Result<Vec<Request>, RowsError> {
        Ok(self.newest(waiting, before, page(limit)))
    }

    fn overdue_requests(&self, now: Timestamp, limit: u32) -> Result<Vec<Request>, RowsError> {
        Ok(self.overdue_questions(now, page(limit)))
    }

    fn next_deadline(&self, now: Timestamp) -> Result<Option<Timestamp>, RowsError> {
        Ok(self.deadline_after(now))
    }

    fn unreminded_requests(&self, by: Timestamp, limit: u32) -> Result<Vec<Request>, RowsError> {
        Ok(self.unreminded_by(by, page(limit)))
    }

    fn next_unreminded(&self, asked_by: Timestamp) -> Result<Option<Timestamp>, RowsError> {
        Ok(self.unreminded_after(asked_by))
    }

    fn turns_on(&self, incarnation_id: &IncarnationId) -> Result<u32, RowsError> {
        let runs = |message: &Message| {
            let state = message.life.state.name();
            let turn = (message.message_id.clone(), message.life.attempt);
            let turn = self.turns.get(&turn);
            state.in_flight()
                && state != StateName::Claimed
                && turn.is_some_and(|turn| turn.incarnation == *incarnation_id)
        };
        let turns = self.messages.iter().filter(|(_, message)| runs(message));
        Ok(u32::try_from(turns.count()).unwrap_or(u32::MAX))
    }

    fn live_incarnations(&self) -> Result<Vec<Incarnation>, RowsError> {
        let mut live: Vec<Incarnation> = self
            .incarnations
            .iter()
            .map(|(_, incarnation)| incarnation)
            .filter(|incarnation| incarnation.ended_at.is_none())
            .cloned()
            .collect();
        live.sort_by(|a, b| {
            (a.started_at, &a.incarnation_id).cmp(&(b.started_at, &b.incarnation_id))
        });
        Ok(live)
    }

    fn task(&self, task_id: &TaskId) -> Result<Option<Task>, RowsError> {
        Ok(self.find_task(task_id))
    }

    fn started_task(&self, id: &ConversationId) -> Result<Option<Task>, RowsError> {
        Ok(self.task_of_conversation(id))
    }

    fn started_tasks(&self, before: Option<&TaskId>, limit: u32) -> Result<Vec<Task>, RowsError> {
        Ok(self.newest_started(before, page(limit)))
    }

    fn started_tasks_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<Task>, RowsError> {
        Ok(self.started_by_prefix(prefix, page(limit)))
    }

    fn agent_tasks(&self, query: &TaskQuery) -> Result<Vec<(Task, Timestamp)>, RowsError> {
        Ok(self.list_agent_tasks(query))
    }

    fn agent_tasks_count(&self, query: &TaskQuery) -> Result<u64, RowsError> {
        Ok(self.count_agent_tasks(query))
    }

    fn task_inputs(&self, task_id: &TaskId) -> Result<Vec<TaskInput>, RowsError> {
        Ok(self.inputs_of(task_id))
    }

    fn task_changed(&self, task_id: &TaskId) -> Result<Option<Timestamp>, RowsError> {
        Ok(self.task_changed_at(task_id))
    }

    fn task_of_message(&self, message_id: &MessageId) -> Result<Option<TaskId>, RowsError> {
        Ok(self.task_with(message_id))
    }

    fn stored(&self, channel: &ChannelId, sender: &str) -> Result<Vec<StoredHour>, RowsError> {
        Ok(self.hours_stored(channel, sender))
    }

    fn unanswered_of_sender(
        &self,
        sender: &str,
        channels: &[ChannelId],
        after: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        let theirs = self
            .open_messages()
            .filter(|message| message.sender == sender)
            .filter(|message| channels.is_empty() || channels.contains(&message.channel))
            .filter(|message| message.life.state.name().awaits_answer())
            .filter(|message| after.is_none_or(|after| message.message_id > *after));
        Ok(theirs.take(page(limit)).cloned().collect())
    }

    fn budget_reached(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
        budget: DayBudget,
    ) -> Result<Option<Timestamp>, RowsError> {
        Ok(self.reached_by(channel, sender, since, budget))
    }

    fn subscription(
        &self,
        task_id: &TaskId,
        subscription_id: &str,
    ) -> Result<Option<Subscription>, RowsError> {
        Ok(self.find_subscription(task_id, subscription_id))
    }

    fn subscriptions_of(&self, task_id: &TaskId) -> Result<Vec<Subscription>, RowsError> {
        Ok(self.list_subscriptions(task_id))
    }

    fn subscriptions_open(
        &self,
        after: Option<(&TaskId, &str)>,
        limit: u32,
    ) -> Result<Vec<Subscription>, RowsError> {
        Ok(self.open_subscriptions(after, limit))
    }

    fn pushes_held(&self, owner: &str) -> Result<u64, RowsError> {
        Ok(self.held_pushes(owner))
    }
}
