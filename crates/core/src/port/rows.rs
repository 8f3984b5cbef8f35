//! The inside of one transaction: what a transition may read, and how it writes (`change` lists what).
//!
//! Only a [`crate::step::Transition`] uses these, through [`crate::step::Transition::run`]; everything outside the core
//! talks to the [`super::Ledger`]. Each store implements both traits over one open transaction.

use super::alerts::AlertRead;
use super::change::Change;
use super::fleet::{FleetRead, NodeFilter};
use super::lists::ListRead;
use super::loans::LoanRead;
use super::quota::QuotaRead;
use crate::budget::DayBudget;
use crate::quota::of_person;
use crate::storage::StoredHour;
use crate::value::{
    Answer, AuditEntry, ChannelId, Class, Conversation, ConversationId, ExternalId, FileDigest,
    Incarnation, IncarnationId, ItemEvent, ItemId, Message, MessageId, NodeId, Reply, Request,
    RequestId, RequestState, Round, Sandbox, SenderKind, Seq, StateName, Subscription, Task,
    TaskId, TaskInput, Tier, Timestamp, Token, Turn, Twin,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Why a read or a write inside a transaction failed. The whole transaction is rolled back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// A guarded write met another state than it expected: somebody else was here, or a bug.
    #[error("write {what}: the row is not in the expected state")]
    Conflict {
        /// The row and the write.
        what: String,
    },
    /// One row holds a value that this program does not understand. The others are not concerned.
    #[error("read {what}: its row can't be read ({why})")]
    Unreadable {
        /// The row.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// What is stored is not what was stored.
    #[error("read {what}: stored value is damaged ({why})")]
    Damaged {
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The database failed.
    #[error("use the database: {what}")]
    Backend {
        /// The database's own words.
        what: String,
    },
}

/// What was read, or nothing where its row can't be read: one row keeps the others of a list from nobody. Every other
/// error is one.
pub fn readable<T>(read: Result<T, RowsError>) -> Result<Option<T>, RowsError> {
    match read {
        Err(RowsError::Unreadable { .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// A message that could be claimed: the first unfinished one of a conversation with no turn in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The message, whole.
    pub message: Message,
    pub conversation: Conversation,
    /// What it may touch, if it is of a task.
    pub given: Option<Sandbox>,
    /// CODEX_HOME, if it is of a task that has another one than the default.
    pub codex_home: Option<String>,
}

/// Messages of one sender that take the place of a turn, as far as the scheduler looks at them. One that works in a
/// directory that was asked about stands alone, all others of a sender are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The channel they came from.
    pub channel: ChannelId,
    /// Who sent them.
    pub sender: String,
    /// What their sender may do.
    pub tier: Tier,
    /// Who waits for their answers.
    pub kind: SenderKind,
    /// How many they are.
    pub turns: u32,
    /// So many of them wait for a person, because Codex asks something.
    pub waiting: u32,
    /// Codex died under an earlier attempt of so many of them.
    pub suspects: u32,
    /// Where it works, if that is one of the directories that were asked about.
    pub at: Option<Workplace>,
    /// The node they run on, in a fleet.
    pub node: Option<NodeId>,
}

impl Flight {
    /// Counts together what needs not stand alone, by sender.
    #[must_use]
    pub fn gather(each: impl IntoIterator<Item = Flight>) -> Vec<Flight> {
        let (mut alone, mut together) = (Vec::new(), BTreeMap::new());
        for flight in each {
            if flight.at.is_some() {
                alone.push(flight);
                continue;
            }
            let Flight {
                channel,
                sender,
                tier,
                kind,
                node,
                ..
            } = flight.clone();
            match together.entry((channel, sender, tier.as_str(), kind, node)) {
                Entry::Occupied(mut sum) => {
                    let sum: &mut Flight = sum.get_mut();
                    sum.turns = sum.turns.saturating_add(flight.turns);
                    sum.waiting = sum.waiting.saturating_add(flight.waiting);
                    sum.suspects = sum.suspects.saturating_add(flight.suspects);
                }
                Entry::Vacant(first) => {
                    first.insert(flight);
                }
            }
        }
        alone.extend(together.into_values());
        alone
    }
}

/// A directory with a turn at work, and what that turn may do there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workplace {
    pub workdir: String,
    /// What the turn's sender may do.
    pub tier: Tier,
    /// What the turn may touch, if it is of a task.
    pub given: Option<Sandbox>,
}

/// Heads that must not be claimed now, whatever their place in the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadFilter {
    /// Channels that have as many turns as they may.
    pub full_channels: Vec<ChannelId>,
    /// Senders that have as many turns as they may; what they send as the owner goes on.
    pub full_senders: Vec<(ChannelId, String)>,
    /// The places that are left are kept for the owner.
    pub owner_only: bool,
    /// Senders who are the owner whatever their tier.
    pub owners: Vec<(ChannelId, String)>,
    /// A suspect is at work: no other one beside it.
    pub no_suspects: bool,
    /// Directories with a writer at work, where writing turns take turns.
    pub busy_workdirs: Vec<String>,
    /// Tiers that only read and so may work beside a writer; a task goes by what it was given.
    pub readers: Vec<Tier>,
    /// In a fleet: only conversations of this node, and those that no living node has.
    pub node: Option<NodeFilter>,
    /// CODEX_HOMEs in which only people's turns may begin; the default one is the empty text.
    pub people_only: Vec<String>,
}

/// Whether the owner waits for the answer. Programs with a token and people whom a channel does not call the owner have
/// the place of people in the order of service, but not the places that are kept for the owner.
pub(crate) fn from_owner(
    owners: &[(ChannelId, String)],
    kind: SenderKind,
    tier: Tier,
    channel: &ChannelId,
    sender: &str,
) -> bool {
    kind == SenderKind::Person && (tier == Tier::Owner || is_among(owners, channel, sender))
}

pub(crate) fn is_among(senders: &[(ChannelId, String)], channel: &ChannelId, sender: &str) -> bool {
    senders
        .iter()
        .any(|(on, name)| on == channel && name == sender)
}

/// Whether a turn can't write: a task's by what the task was given, every other by its tier.
pub(crate) fn only_reads(readers: &[Tier], tier: Tier, given: Option<Sandbox>) -> bool {
    match given {
        Some(sandbox) => !sandbox.can_write(),
        None => readers.contains(&tier),
    }
}

/// Why a message that waits for nothing of its own is not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// As many turns run as may.
    Slots,
    /// The places that are left are kept for the owner.
    Reserved,
    /// Its channel has as many turns as it may have.
    Channel,
    /// Its sender has as many turns as it may have.
    Sender,
    /// Codex died under it before, and another one like it is being tried.
    Suspect,
    /// Another turn writes in its directory, where writing turns take turns.
    Writer,
    /// The node that has its conversation is gone, and so are the files that it wrote there.
    NodeGone,
    /// Its conversation is lent to a Codex terminal.
    Lent,
    /// Agents and programs are slowed down before the account's limit is reached.
    Quota,
}

impl Kept {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Lent,
        Self::Quota,
        Self::NodeGone,
        Self::Slots,
        Self::Reserved,
        Self::Channel,
        Self::Sender,
        Self::Suspect,
        Self::Writer,
    ];
}

impl HeadFilter {
    /// Whether it lets a head through.
    #[must_use]
    pub fn lets(&self, head: &Head) -> bool {
        let home = head.codex_home.as_deref();
        self.keeps(&head.message, &head.conversation, head.given, home)
            .is_none()
    }

    /// What keeps a message back, if anything does.
    #[must_use]
    pub fn keeps(
        &self,
        message: &Message,
        conversation: &Conversation,
        given: Option<Sandbox>,
        codex_home: Option<&str>,
    ) -> Option<Kept> {
        let home = codex_home.unwrap_or_default();
        let slowed = self.people_only.iter().any(|slowed| slowed == home);
        let busy = self.busy_workdirs.contains(&conversation.workdir)
            && !only_reads(&self.readers, message.tier, given);
        let Message {
            kind,
            tier,
            channel,
            sender,
            ..
        } = message;
        if self.owner_only && !from_owner(&self.owners, *kind, *tier, channel, sender) {
            Some(Kept::Reserved)
        } else if slowed && !of_person(message, &self.owners) {
            Some(Kept::Quota)
        } else if self.full_channels.contains(&message.channel) {
            Some(Kept::Channel)
        } else if *tier != Tier::Owner && is_among(&self.full_senders, channel, sender) {
            Some(Kept::Sender)
        } else if self.no_suspects && message.life.suspect {
            Some(Kept::Suspect)
        } else {
            busy.then_some(Kept::Writer)
        }
    }
}

/// A message and its answer, for the recap of a new thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What was said.
    pub body: String,
    /// What Codex answered.
    pub answer: String,
}

/// A message of an agent, as far as its budget goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentMessage {
    /// When it was said, or when it goes on if it had to wait.
    pub said_at: Timestamp,
    /// Whether it had to wait for room when it came.
    pub waited: bool,
    /// Whether it was stopped at the door because the agent had said too much.
    pub stopped: bool,
}

impl AgentMessage {
    /// A message as it is kept.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let failure = message.life.failure.as_ref();
        let capacity =
            failure.is_some_and(|failure| matches!(failure.class, Class::Capacity { .. }));
        Self {
            said_at: message.said_at,
            waited: message.said_at > message.received_at,
            stopped: message.life.state.name() == StateName::Dead
                && message.life.attempt == 0
                && capacity,
        }
    }
}

/// How many messages are in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCount {
    pub state: StateName,
    pub count: u64,
}

/// What people ask for beside the number of messages per state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages that were finished with an answer since the time asked for.
    pub answered: u64,
    /// When the oldest message that has no answer and may get one was received.
    pub oldest_unanswered: Option<Timestamp>,
    /// Such messages under which Codex died before.
    pub suspects: u64,
    /// Waiting messages for which an operator must mend something first.
    pub operator: u64,
    /// Replies that were tried before and are not delivered yet.
    pub replies_retried: u64,
    /// Approval requests of Codex that wait for somebody.
    pub requests_waiting: u64,
}

/// What a transition, and whoever explains rows to people, may read.
pub trait Read: AlertRead + FleetRead + ListRead + LoanRead + QuotaRead {
    /// A message by its id.
    fn message(&self, message_id: &MessageId) -> Result<Option<Message>, RowsError>;
    /// A message by the platform's id: how a row shown twice is recognised.
    fn message_by_external(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<Option<Message>, RowsError>;
    /// Message ids that start with `prefix`, at most `limit`: people type the beginning.
    fn message_ids_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<MessageId>, RowsError>;
    /// Message ids that end with `end`, newest id first, at most `limit`: people type the short id. Looked at are the
    /// newest [`limits::LOOKED_BACK_MAX`] ids, so it is for people alone.
    ///
    /// [`limits::LOOKED_BACK_MAX`]: crate::limits::LOOKED_BACK_MAX
    fn message_ids_by_end(&self, end: &str, limit: u32) -> Result<Vec<MessageId>, RowsError>;
    /// The messages of a sender on these channels that arrived before `before`, newest first, at most `limit`. Looked at
    /// are the [`limits::LOOKED_BACK_MAX`] messages of all before that one.
    ///
    /// [`limits::LOOKED_BACK_MAX`]: crate::limits::LOOKED_BACK_MAX
    fn messages_of_sender(
        &self,
        sender: &str,
        channels: &[ChannelId],
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError>;
    /// The newest messages, newest first.
    fn newest_messages(&self, limit: u32) -> Result<Vec<Message>, RowsError>;
    /// Messages that arrived before `before`, newest first: the next page.
    fn older_messages(&self, before: &MessageId, limit: u32) -> Result<Vec<Message>, RowsError>;
    /// Messages with something new since then, and those in flight, in id order, at most `limit`.
    fn changed_since(&self, since: Timestamp, limit: u32) -> Result<Vec<MessageId>, RowsError>;
    /// The newest messages of a conversation, newest first. An error if one of them can't be read: what became of a
    /// task is concluded from these, and lists go past such a row.
    fn last_messages(&self, id: &ConversationId, limit: u32) -> Result<Vec<Message>, RowsError>;
    /// Messages of a conversation before `before`, newest first.
    fn messages_before(
        &self,
        id: &ConversationId,
        before: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError>;
    /// Messages of a conversation after `after`, oldest first.
    fn messages_after(
        &self,
        id: &ConversationId,
        after: Option<Seq>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError>;
    /// Conversations with when something last happened in them, newest first, before that of `before`: a message came, was
    /// answered, failed, was stopped, parked or sent again.
    fn conversations(
        &self,
        before: Option<(Timestamp, &ConversationId)>,
        limit: u32,
    ) -> Result<Vec<(Conversation, Timestamp)>, RowsError>;
    /// The same, of those of a channel whose key begins so. It looks at all of these.
    fn conversations_under(
        &self,
        channel: &ChannelId,
        prefix: &str,
        before: Option<(Timestamp, &ConversationId)>,
        limit: u32,
    ) -> Result<Vec<(Conversation, Timestamp)>, RowsError>;
    /// Conversations of any channel with this key, newest first.
    fn conversations_by_key(&self, key: &str, limit: u32) -> Result<Vec<Conversation>, RowsError>;
    /// Conversations with a thread in which nothing happened since `before` and nothing is unfinished, the one that was
    /// quiet for the longest time first.
    fn prunable(&self, before: Timestamp, limit: u32) -> Result<Vec<Conversation>, RowsError>;
    /// Conversations whose thread retention took and Codex has not deleted yet.
    fn pruned(&self, limit: u32) -> Result<Vec<Conversation>, RowsError>;
    /// Tokens of the API: all good ones, then revoked ones, each by name.
    fn tokens(&self) -> Result<Vec<Token>, RowsError>;
    /// The token of this name, good or revoked.
    fn token(&self, name: &str) -> Result<Option<Token>, RowsError>;
    /// Messages in one state, newest first, at most `limit`, older than `before`.
    fn messages_in(
        &self,
        state: StateName,
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError>;
    /// The message of a conversation whose turn may be alive at Codex.
    fn in_flight_of(&self, id: &ConversationId) -> Result<Option<Message>, RowsError>;
    /// Messages that were given to the running turn of `leader`, in the order of their conversation.
    fn followers(&self, leader: &MessageId) -> Result<Vec<Message>, RowsError>;
    /// The last answered messages of a conversation before `seq`, oldest first, at most `limit`.
    fn exchanges(
        &self,
        id: &ConversationId,
        before: Seq,
        limit: u32,
    ) -> Result<Vec<Exchange>, RowsError>;
    /// The round that is served now.
    fn round(&self) -> Result<Round, RowsError>;
    /// The highest round that an unanswered message of this sender has.
    fn last_round(&self, channel: &ChannelId, sender: &str) -> Result<Option<Round>, RowsError>;
    /// A conversation by its id.
    fn conversation(&self, id: &ConversationId) -> Result<Option<Conversation>, RowsError>;
    /// A conversation by the platform's name for it.
    fn conversation_by_key(
        &self,
        channel: &ChannelId,
        external_key: &str,
    ) -> Result<Option<Conversation>, RowsError>;
    /// Messages of a conversation that have no answer yet and may get one, in order, at most `limit`.
    fn unanswered_of(&self, id: &ConversationId, limit: u32) -> Result<Vec<Message>, RowsError>;
    /// The last messages of an agent on a channel by when they were said, newest first, at most `limit`.
    fn agent_messages(
        &self,
        channel: &ChannelId,
        sender: &str,
        limit: u32,
    ) -> Result<Vec<AgentMessage>, RowsError>;
    /// The last messages of an agent in a conversation, newest first, at most `limit`.
    fn agent_messages_in(
        &self,
        id: &ConversationId,
        sender: &str,
        limit: u32,
    ) -> Result<Vec<AgentMessage>, RowsError>;
    /// When an agent said its `nth` newest message on a channel, counted from 1; nothing when it said fewer.
    fn said_nth_newest(
        &self,
        channel: &ChannelId,
        sender: &str,
        nth: u32,
    ) -> Result<Option<Timestamp>, RowsError>;
    /// How far a source was read.
    fn cursor(&self, channel: &ChannelId) -> Result<Option<String>, RowsError>;
    /// The highest sequence number given in a conversation.
    fn last_seq(&self, id: &ConversationId) -> Result<Option<Seq>, RowsError>;
    /// The first message before `seq` in a conversation that has no answer yet and may get one: what a waiting
    /// message waits behind.
    fn unanswered_before(
        &self,
        id: &ConversationId,
        seq: Seq,
    ) -> Result<Option<MessageId>, RowsError>;
    /// The turn of one attempt.
    fn turn(&self, message_id: &MessageId, attempt: u32) -> Result<Option<Turn>, RowsError>;
    /// The answer, if there is one.
    fn answer(&self, message_id: &MessageId) -> Result<Option<Answer>, RowsError>;
    /// All replies of a message in order.
    fn replies(&self, message_id: &MessageId) -> Result<Vec<Reply>, RowsError>;
    /// The first reply of a conversation's lane that is not settled.
    fn next_reply(&self, id: &ConversationId) -> Result<Option<Reply>, RowsError>;
    /// Replies to senders of this kind on a channel that say exactly this and were taken since then, in that order.
    /// People and agents are shown replies in different places, so those never hide each other.
    fn twins(
        &self,
        channel: &ChannelId,
        kind: SenderKind,
        body: &str,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<Twin>, RowsError>;
    /// Conversations whose lane has an unsettled reply, at most `limit`, after `after` in id order.
    fn lanes(
        &self,
        after: Option<&ConversationId>,
        limit: u32,
    ) -> Result<Vec<ConversationId>, RowsError>;
    /// Messages that could be claimed at `now` and that `filter` lets through: people first, then by round, then
    /// oldest first, at most `limit`. None of a conversation that is lent.
    fn heads(
        &self,
        now: Timestamp,
        filter: &HeadFilter,
        limit: u32,
    ) -> Result<Vec<Head>, RowsError>;
    /// When, after `now`, the next held message that could then be claimed, or parked one, becomes due. What is due
    /// already is not waited for by time.
    fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, RowsError>;
    /// A parked message whose time is up.
    fn overdue(&self, now: Timestamp) -> Result<Option<Message>, RowsError>;
    /// The messages that take the place of a turn. The directory is looked up only for turns in one of
    /// these.
    fn flight(&self, workdirs: &[String]) -> Result<Vec<Flight>, RowsError>;
    /// Finished messages in this state that last changed before `before`, settled in every way, at most `limit`.
    fn forgettable(
        &self,
        state: StateName,
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<MessageId>, RowsError>;
    /// The newest acts of people, newest first.
    fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, RowsError>;
    /// The newest acts of people on one message, newest first.
    fn audit_of(&self, message_id: &MessageId, limit: u32) -> Result<Vec<AuditEntry>, RowsError>;
    /// What `status` says beside the counts; messages count as answered from `since` on.
    fn figures(&self, since: Timestamp) -> Result<Figures, RowsError>;
    /// The newest time that any row of a message carries: a clock that went back does not go behind it.
    fn newest_time(&self) -> Result<Option<Timestamp>, RowsError>;
    /// Of these files, those that no message and no reply names.
    fn unnamed_files(&self, files: &[FileDigest]) -> Result<Vec<FileDigest>, RowsError>;
    /// How many messages are not finished.
    fn backlog(&self) -> Result<u32, RowsError>;
    /// Unfinished messages in id order, at most `limit`, after `after`: what recovery walks through.
    fn unfinished(&self, after: Option<&MessageId>, limit: u32) -> Result<Vec<Message>, RowsError>;
    /// Messages per state.
    fn counts(&self) -> Result<Vec<StateCount>, RowsError>;
    /// Events of a message with an ordinal above `after`, at most `limit`.
    fn events(
        &self,
        message_id: &MessageId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<ItemEvent>, RowsError>;
    /// The ordinal of the newest event of a message; 0 when it has none.
    fn last_event(&self, message_id: &MessageId) -> Result<u32, RowsError>;
    /// A request by its outside id.
    fn request(&self, request_id: &RequestId) -> Result<Option<Request>, RowsError>;
    /// All requests of a message, oldest first.
    fn requests(&self, message_id: &MessageId) -> Result<Vec<Request>, RowsError>;
    /// How all requests of a message stand, oldest first.
    fn standings(&self, message_id: &MessageId) -> Result<Vec<Standing>, RowsError>;
    /// Requests of a message by Codex's own name for them, oldest first: the name of one life may come again.
    fn requests_named(
        &self,
        message_id: &MessageId,
        incarnation: &IncarnationId,
        rpc_id: &str,
    ) -> Result<Vec<Request>, RowsError>;
    /// Requests of a message that wait or are granted, oldest first.
    fn live_requests(&self, message_id: &MessageId) -> Result<Vec<Request>, RowsError>;
    /// How many requests a message has.
    fn requests_asked(&self, message_id: &MessageId) -> Result<u32, RowsError>;
    /// Waiting requests of a conversation whose id begins with this code.
    fn requests_by_code(&self, id: &ConversationId, code: &str) -> Result<Vec<Request>, RowsError>;
    /// Requests, newest first, asked before `before`, at most `limit`; only waiting ones where that is asked for.
    fn newest_requests(
        &self,
        waiting: bool,
        before: Option<&RequestId>,
        limit: u32,
    ) -> Result<Vec<Request>, RowsError>;
    /// Waiting or granted requests past their deadline, first those that are for the longest time, at most `limit`.
    fn overdue_requests(&self, now: Timestamp, limit: u32) -> Result<Vec<Request>, RowsError>;
    /// The next deadline of a waiting or granted request after `now`.
    fn next_deadline(&self, now: Timestamp) -> Result<Option<Timestamp>, RowsError>;
    /// Open requests that were asked at `asked_by` or before and of which nobody was reminded, oldest first, at most
    /// `limit`.
    fn unreminded_requests(
        &self,
        asked_by: Timestamp,
        limit: u32,
    ) -> Result<Vec<Request>, RowsError>;
    /// When the first open request after `asked_by` of which nobody was reminded was asked.
    fn next_unreminded(&self, asked_by: Timestamp) -> Result<Option<Timestamp>, RowsError>;
    /// Codex processes of this node that are not known to have ended.
    fn live_incarnations(&self) -> Result<Vec<Incarnation>, RowsError>;
    /// How many unfinished turns run on this Codex process, as far as is known.
    fn turns_on(&self, incarnation_id: &IncarnationId) -> Result<u32, RowsError>;
    /// A task by its id.
    fn task(&self, task_id: &TaskId) -> Result<Option<Task>, RowsError>;
    /// The started task whose conversation this is.
    fn started_task(&self, id: &ConversationId) -> Result<Option<Task>, RowsError>;
    /// Started tasks, newest first, older than `before`, at most `limit`.
    fn started_tasks(&self, before: Option<&TaskId>, limit: u32) -> Result<Vec<Task>, RowsError>;
    /// Started tasks whose ids begin with `prefix`, in id order, at most `limit`.
    fn started_tasks_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<Task>, RowsError>;
    /// Tasks of an agent with the time of their newest change, newest first.
    fn agent_tasks(&self, query: &TaskQuery) -> Result<Vec<(Task, Timestamp)>, RowsError>;
    /// How many such tasks there are, whatever `before` and `limit` say.
    fn agent_tasks_count(&self, query: &TaskQuery) -> Result<u64, RowsError>;
    /// The inputs of a task, in order.
    fn task_inputs(&self, task_id: &TaskId) -> Result<Vec<TaskInput>, RowsError>;
    /// When a row of a task or its messages last changed.
    fn task_changed(&self, task_id: &TaskId) -> Result<Option<Timestamp>, RowsError>;
    /// The task that a message is an input of.
    fn task_of_message(&self, message_id: &MessageId) -> Result<Option<TaskId>, RowsError>;
    /// What a sender stored, by the hour, oldest first: at most the newest [`limits::STORED_HOURS_READ`].
    ///
    /// [`limits::STORED_HOURS_READ`]: crate::limits::STORED_HOURS_READ
    fn stored(&self, channel: &ChannelId, sender: &str) -> Result<Vec<StoredHour>, RowsError>;
    /// Messages of a sender that have no answer yet and may get one, on any of these channels (all of them if none is
    /// named), in id order after `after`, at most `limit`.
    fn unanswered_of_sender(
        &self,
        sender: &str,
        channels: &[ChannelId],
        after: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError>;
    /// Whether a sender's turns after a time reach a budget; claimed messages count already. If so, when that one began
    /// that must be forgotten before there is room again.
    fn budget_reached(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
        budget: DayBudget,
    ) -> Result<Option<Timestamp>, RowsError>;
    /// One subscription.
    fn subscription(
        &self,
        task_id: &TaskId,
        subscription_id: &str,
    ) -> Result<Option<Subscription>, RowsError>;
    /// The subscriptions of a task, by id.
    fn subscriptions_of(&self, task_id: &TaskId) -> Result<Vec<Subscription>, RowsError>;
    /// Subscriptions that are neither closed nor dead, behind this one.
    fn subscriptions_open(
        &self,
        after: Option<(&TaskId, &str)>,
        limit: u32,
    ) -> Result<Vec<Subscription>, RowsError>;
    /// How many push configurations of this agent's tasks are neither closed nor dead.
    fn pushes_held(&self, owner: &str) -> Result<u64, RowsError>;
}

/// How a request stands, without what was shown and sent: those may be long, and a message may have many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Known outside by this.
    pub request_id: RequestId,
    /// The attempt whose turn asks.
    pub attempt: u32,
    /// The process that asks.
    pub incarnation: IncarnationId,
    /// Codex's own name for it.
    pub rpc_id: String,
    /// The item it is about.
    pub item_id: Option<ItemId>,
    /// How far it is.
    pub state: RequestState,
    /// When it was asked.
    pub created_at: Timestamp,
    /// How often Codex asked again after it was decided, and was sent the decision once more.
    pub resends: u32,
}

/// One transaction: reads, and writes that are applied in order or not at all.
pub trait Rows: Read {
    /// Applies one change. A guard that does not hold is a [`RowsError::Conflict`].
    fn apply(&mut self, change: &Change) -> Result<(), RowsError>;
}

/// Which tasks of an agent are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskQuery {
    pub owner: String,
    /// Of this conversation only.
    pub conversation: Option<ConversationId>,
    /// Changed at this time or later.
    pub since: Option<Timestamp>,
    /// Behind this one in the list.
    pub before: Option<(Timestamp, TaskId)>,
    /// At most so many.
    pub limit: u32,
}
