//! Reads that are derived from several tables: queues, turns in flight, what agents sent, and the counts of `status`.

use super::MemoryRows;
use bridge_core::limits::{LOOKED_BACK_MAX, PAGE_MAX};
use bridge_core::port::{AgentMessage, Figures, Flight, Workplace};
use bridge_core::value::{
    ChannelId, Class, Conversation, ConversationId, FileDigest, Hold, Message, MessageId,
    MessageState, Reply, ReplyState, SenderKind, Seq, StateName, Timestamp, Twin,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn page(limit: u32) -> usize {
    usize::try_from(limit.min(PAGE_MAX)).unwrap_or(usize::MAX)
}

impl MemoryRows {
    /// Replies with this text to senders of this kind, the oldest first.
    pub(super) fn twins_of(
        &self,
        (channel, kind): (&ChannelId, SenderKind),
        body: &str,
        since: Timestamp,
        limit: u32,
    ) -> Vec<Twin> {
        let shown_there = |reply: &&Reply| {
            let message = self.messages.get(&reply.message_id);
            message.is_some_and(|message| message.channel == *channel && message.kind == kind)
        };
        let replies = self.replies.iter().map(|(_, reply)| reply);
        let said = replies.filter(|reply| reply.body == body);
        let mut twins: Vec<Twin> = said
            .filter(shown_there)
            .filter_map(|reply| {
                Some(Twin {
                    key: reply.key.clone(),
                    first_try_at: reply.first_try_at?,
                    sent_at: sent_at(reply).filter(|at| *at >= since)?,
                })
            })
            .collect();
        twins.sort_by(|a, b| (a.sent_at, &a.key).cmp(&(b.sent_at, &b.key)));
        twins.truncate(page(limit));
        twins
    }

    pub(super) fn open_messages(&self) -> impl Iterator<Item = &Message> {
        self.open
            .iter()
            .filter_map(|(id, ())| self.messages.get(id))
    }

    /// The first waiting message of each conversation with nothing in flight, and why it is held.
    pub(super) fn first_waiting(&self) -> Vec<(&Message, Option<&Hold>)> {
        let mut busy = BTreeSet::new();
        let mut first: BTreeMap<&ConversationId, (&Message, Option<&Hold>)> = BTreeMap::new();
        for message in self.open_messages() {
            let conversation = &message.conversation_id;
            if let MessageState::Received { hold } = &message.life.state {
                let entry = first
                    .entry(conversation)
                    .or_insert((message, hold.as_ref()));
                if message.seq < entry.0.seq {
                    *entry = (message, hold.as_ref());
                }
            } else if message.life.state.name().awaits_answer() {
                busy.insert(conversation);
            }
        }
        first.retain(|conversation, _| !busy.contains(conversation));
        first.into_values().collect()
    }

    pub(super) fn settled(&self, id: &MessageId) -> bool {
        let all = (id.clone(), 0)..=(id.clone(), u32::MAX);
        self.replies
            .range(all)
            .all(|(_, reply)| reply.state.settled())
    }

    pub(super) fn changed(&self, since: Timestamp, limit: usize) -> Vec<MessageId> {
        let lately = |id: &MessageId| {
            let message = self.messages.get(id);
            let of_message = message.is_some_and(|message| {
                message.life.updated_at >= since || message.life.state.name().in_flight()
            });
            let mut events = self.events.range((id.clone(), 0)..=(id.clone(), u32::MAX));
            of_message || events.any(|(_, event)| event.at >= since)
        };
        let ids: BTreeSet<_> = self.messages.iter().map(|(id, _)| id).collect();
        let changed = ids.into_iter().filter(|id| lately(id));
        changed.take(limit).cloned().collect()
    }

    /// Messages as they arrived, newest first, from the one before this one on.
    pub(super) fn arrived_of(
        &self,
        of: impl Fn(&Message) -> bool,
        before: Option<&MessageId>,
        limit: usize,
    ) -> Vec<Message> {
        let newest = self.arrivals.iter().rev().map(|(_, id)| id);
        let newest: Vec<_> = match before {
            Some(before) => newest.skip_while(|id| *id != before).skip(1).collect(),
            None => newest.collect(),
        };
        let newest = newest.into_iter().take(LOOKED_BACK_MAX as usize);
        let newest = newest.filter_map(|id| self.messages.get(id));
        newest.filter(|one| of(one)).take(limit).cloned().collect()
    }

    pub(super) fn turns_at_work(&self, workdirs: &[String]) -> Vec<Flight> {
        let each = self
            .open_messages()
            .filter(|message| message.life.state.takes_place())
            .filter_map(|message| {
                let conversation = self.conversations.get(&message.conversation_id)?;
                let at = workdirs.contains(&conversation.workdir).then(|| Workplace {
                    workdir: conversation.workdir.clone(),
                    tier: message.tier,
                    given: self.given(&message.conversation_id),
                });
                Some(Flight {
                    channel: message.channel.clone(),
                    sender: message.sender.clone(),
                    tier: message.tier,
                    kind: message.kind,
                    turns: 1,
                    waiting: self.is_asked(&message.message_id).into(),
                    suspects: message.life.suspect.into(),
                    at,
                    node: self.this_node.as_ref().and_then(|_| {
                        let home = self.homes.get(&message.conversation_id)?;
                        home.node_id.clone()
                    }),
                })
            });
        Flight::gather(each)
    }

    pub(super) fn conversations_by_activity(
        &self,
        of: impl Fn(&Conversation) -> bool,
        before: Option<(Timestamp, &ConversationId)>,
        limit: usize,
    ) -> Vec<(Conversation, Timestamp)> {
        let all = self.active.iter();
        let all = all.filter_map(|(id, at)| Some((self.conversations.get(id)?.clone(), *at)));
        let mut all: Vec<_> = all.filter(|(one, _)| of(one)).collect();
        if let Some((at, id)) = before {
            all.retain(|(one, active)| (*active, &one.conversation_id) < (at, id));
        }
        all.sort_by(|(a, one), (b, other)| {
            (other, &b.conversation_id).cmp(&(one, &a.conversation_id))
        });
        all.truncate(limit);
        all
    }

    /// With a thread, quiet since `before` and with nothing unfinished; the quietest first.
    pub(super) fn quiet_conversations(&self, before: Timestamp, limit: usize) -> Vec<Conversation> {
        let open: BTreeSet<&ConversationId> = self
            .open_messages()
            .map(|message| &message.conversation_id)
            .collect();
        let is_kept = |one: &Conversation| {
            let thread = one.thread.as_ref();
            thread.is_some_and(|thread| !thread.is_pruned())
                && !open.contains(&one.conversation_id)
                && !self.loans.contains(&one.conversation_id)
        };
        let mut old = self.conversations_by_activity(is_kept, None, usize::MAX);
        old.retain(|(_, active_at)| *active_at < before);
        old.reverse();
        let old = old.into_iter().map(|(conversation, _)| conversation);
        old.take(limit).collect()
    }

    pub(super) fn pruned_conversations(&self, limit: usize) -> Vec<Conversation> {
        let is_pruned = |one: &Conversation| {
            let thread = one.thread.as_ref();
            thread.is_some_and(|thread| thread.of_pruned().is_some())
        };
        let found = self.conversations_by_activity(is_pruned, None, usize::MAX);
        let mut found: Vec<Conversation> = found.into_iter().map(|(one, _)| one).collect();
        found.sort_by(|one, other| one.conversation_id.cmp(&other.conversation_id));
        found.truncate(limit);
        found
    }

    pub(super) fn files_without_rows(&self, files: &[FileDigest]) -> Vec<FileDigest> {
        let of_messages = self
            .messages
            .iter()
            .map(|(_, message)| &message.attachments);
        let of_replies = self.replies.iter().map(|(_, reply)| &reply.attachments);
        let named: BTreeSet<FileDigest> = of_messages
            .chain(of_replies)
            .flatten()
            .map(|file| file.digest)
            .collect();
        let unnamed = files.iter().filter(|digest| !named.contains(digest));
        unnamed.copied().collect()
    }

    pub(super) fn newer_in(
        &self,
        id: &ConversationId,
        after: Option<Seq>,
        limit: usize,
    ) -> Vec<Message> {
        let all = (id.clone(), Seq(i64::MIN))..=(id.clone(), Seq(i64::MAX));
        let newer = self.seqs.range(all);
        let newer = newer.filter(|((_, seq), _)| after.is_none_or(|after| *seq > after));
        let newer = newer.filter_map(|(_, id)| self.messages.get(id));
        newer.take(limit).cloned().collect()
    }

    pub(super) fn conversations_of_key(&self, key: &str, limit: usize) -> Vec<Conversation> {
        let all = self.conversations.iter().map(|(_, one)| one);
        let mut found: Vec<_> = all.filter(|one| one.external_key == key).cloned().collect();
        found.sort_by(|a, b| b.conversation_id.cmp(&a.conversation_id));
        found.truncate(limit);
        found
    }

    pub(super) fn sent_by_agent(
        &self,
        channel: &ChannelId,
        sender: &str,
        most: usize,
    ) -> Vec<AgentMessage> {
        let newest = self.arrivals.iter().rev();
        let mut sent: Vec<AgentMessage> = newest
            .filter_map(|(_, id)| self.messages.get(id))
            .filter(|message| is_of(message, channel, sender))
            .map(AgentMessage::of)
            .collect();
        sent.sort_by_key(|sent| Reverse(sent.said_at));
        sent.truncate(most);
        sent
    }

    pub(super) fn sent_by_agent_in(
        &self,
        id: &ConversationId,
        sender: &str,
        most: usize,
    ) -> Vec<AgentMessage> {
        let all = (id.clone(), Seq(i64::MIN))..=(id.clone(), Seq(i64::MAX));
        let said = self.seqs.range(all).rev();
        said.filter_map(|(_, id)| self.messages.get(id))
            .filter(|message| message.kind == SenderKind::Agent && message.sender == sender)
            .map(AgentMessage::of)
            .take(most)
            .collect()
    }

    pub(super) fn nth_said(
        &self,
        channel: &ChannelId,
        sender: &str,
        nth: u32,
    ) -> Option<Timestamp> {
        let messages = self.messages.iter().map(|(_, message)| message);
        let mut said: Vec<Timestamp> = messages
            .filter(|message| is_of(message, channel, sender))
            .map(|message| message.said_at)
            .collect();
        said.sort_by_key(|at| Reverse(*at));
        let nth = usize::try_from(nth.saturating_sub(1)).unwrap_or(usize::MAX);
        said.get(nth).copied()
    }
}

pub(super) fn sent_at(reply: &Reply) -> Option<Timestamp> {
    match reply.state {
        ReplyState::Sent { at, .. } => at,
        ReplyState::Queued { .. } | ReplyState::Sending | ReplyState::Dead { .. } => None,
    }
}

pub(super) fn parked_until(message: &Message) -> Option<Timestamp> {
    match &message.life.state {
        MessageState::Parked { until, .. } => Some(*until),
        _ => None,
    }
}

fn is_of(message: &Message, channel: &ChannelId, sender: &str) -> bool {
    message.kind == SenderKind::Agent && message.channel == *channel && message.sender == sender
}

pub(super) fn figures(rows: &MemoryRows, since: Timestamp) -> Figures {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let unanswered = || {
        rows.open_messages()
            .filter(|message| message.life.state.name().awaits_answer())
    };
    let answered = rows.messages.iter().filter(|(_, message)| {
        message.life.state.name() == StateName::Done && message.life.updated_at >= since
    });
    let retried = rows.replies.iter().filter(|(_, reply)| is_retried(reply));
    let waiting = rows
        .requests
        .iter()
        .filter(|(_, request)| request.state.waits());
    Figures {
        answered: count(answered.count()),
        oldest_unanswered: unanswered().map(|message| message.received_at).min(),
        suspects: count(unanswered().filter(|message| message.life.suspect).count()),
        operator: count(
            unanswered()
                .filter(|message| needs_operator(message))
                .count(),
        ),
        replies_retried: count(retried.count()),
        requests_waiting: count(waiting.count()),
    }
}

fn needs_operator(message: &Message) -> bool {
    match &message.life.state {
        MessageState::Received { hold: Some(hold) } => hold.failure.class == Class::Config,
        _ => false,
    }
}

/// A first send that is under way is no retry.
fn is_retried(reply: &Reply) -> bool {
    match reply.state {
        ReplyState::Queued { .. } => reply.tries > 0,
        ReplyState::Sending => reply.tries > 1,
        ReplyState::Sent { .. } | ReplyState::Dead { .. } => false,
    }
}
