//! The closed list of what a transaction may write. What it may read is in `rows`; nothing else is ever written.

use super::alerts::AlertChange;
use super::fleet::FleetChange;
use super::loans::LoanChange;
use crate::value::{
    Answer, AuditEntry, ChannelId, ConsoleAccess, Conversation, ConversationId, Incarnation,
    IncarnationId, ItemEvent, Life, Message, MessageId, Quota, Reply, ReplyState, ReplyStateName,
    Request, RequestId, RequestState, RequestStateName, Round, Seq, StateName, Subscription, Task,
    TaskId, TaskInput, ThreadId, Timestamp, Token, Turn, TurnId,
};

/// Which requests a change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestsOf {
    /// Those of a message.
    Message(MessageId),
    /// Those that one life of Codex asked.
    Incarnation(IncarnationId),
}

/// Until when records are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldRecords {
    /// Codex processes that ended before this.
    pub incarnations: Timestamp,
    /// Acts of people before this.
    pub audit: Timestamp,
    /// Hours of what senders stored before this.
    pub stored: Timestamp,
    /// Alerts that were noticed before this, and of which nothing more is sent.
    pub alerts: Timestamp,
    /// Reports of accounts' limits from before this.
    pub quotas: Timestamp,
    /// Nodes whose lease ended before this and that no conversation waits for.
    pub nodes: Timestamp,
}

/// Bytes that a sender stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBytes {
    pub channel: ChannelId,
    pub sender: String,
    pub hour: Timestamp,
    pub bytes: u64,
}

/// The closed list of writes. Each is guarded by what it expects to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Inserts a conversation.
    NewConversation(Conversation),
    /// Gives a conversation another key, and the talk it stands for.
    Rekey {
        conversation_id: ConversationId,
        /// Unique on its channel.
        external_key: String,
        /// The talk.
        context: Option<String>,
    },
    /// Records how far a source was read; what that means is its own business.
    Cursor {
        channel: ChannelId,
        /// How far.
        position: String,
        at: Timestamp,
    },
    /// Binds a conversation to a thread (or unbinds it), expecting the present binding. The last turn is
    /// forgotten when the thread changes, because it was a turn of the other thread.
    Bind {
        conversation_id: ConversationId,
        /// What it is bound to now.
        from: Option<ThreadId>,
        /// What it will be bound to.
        to: Option<ThreadId>,
    },
    /// Records the newest turn of a conversation's thread.
    LastTurn {
        conversation_id: ConversationId,
        turn_id: TurnId,
        /// When it was seen.
        at: Timestamp,
    },
    /// Something happened in a conversation, if nothing has since.
    Active(ConversationId, Timestamp),
    /// Inserts a message. Its conversation is active now, unless it was taken over: then [`Change::Active`] says when.
    NewMessage(Message),
    /// Rewrites a message's life, expecting its present state.
    UpdateState {
        message_id: MessageId,
        /// The state it must be in.
        from: StateName,
        life: Life,
    },
    /// Moves a message that is finished, or waits, to the end of its conversation, as if it had been received again.
    /// Replies that it has keep their place in the lane: what they say was said before what others were answered since.
    Tail {
        message_id: MessageId,
        /// Its new place; the old one if that is the end.
        seq: Seq,
        /// Its age counts from now.
        at: Timestamp,
    },
    /// Records the round that is served now.
    Round(Round),
    /// Removes a finished message with everything that hangs on it.
    Forget {
        message_id: MessageId,
        /// The state it must be in.
        from: StateName,
    },
    /// Removes records from before these times.
    ForgetRecords(OldRecords),
    /// Counts what a sender stored, with what it stored before in that hour.
    Stored(StoredBytes),
    /// Adds an act of a person.
    Audit(AuditEntry),
    /// Tokens and sessions.
    Token(TokenChange),
    /// Inserts the turn of a new attempt.
    NewTurn(Turn),
    /// Rewrites a turn.
    Turn(Turn),
    /// Inserts the answer; a second one is a conflict.
    NewAnswer(Answer),
    /// Inserts a reply.
    NewReply(Reply),
    /// Moves a reply, expecting its present state.
    Reply {
        message_id: MessageId,
        ordinal: u32,
        /// The state it must be in.
        from: ReplyStateName,
        to: ReplyState,
        tries: u32,
        /// When the first one began.
        first_try_at: Option<Timestamp>,
    },
    /// Inserts an item-level event.
    NewEvent(ItemEvent),
    /// Inserts a request.
    NewRequest(Request),
    /// Moves a request, expecting its present state.
    Request {
        request_id: RequestId,
        /// The state it must be in.
        from: RequestStateName,
        to: RequestState,
    },
    /// Records that those who may decide an open request were reminded.
    Reminded { request_id: RequestId },
    /// Records that Codex asked a decided request again and is sent the decision once more.
    AnswerResent { request_id: RequestId },
    /// The life of Codex that asked is over: what was open is orphaned.
    Orphan(RequestsOf),
    /// Nobody needs an answer any more: what waits or is granted is withdrawn.
    Withdraw {
        /// Whose.
        message_id: MessageId,
        /// Why.
        why: String,
    },
    /// Inserts a task; its conversation is there.
    NewTask(Task),
    /// Inserts an input of a task.
    NewTaskInput(TaskInput),
    /// Reserves event numbers of a task; the highest only grows.
    TaskSequence {
        /// The task.
        task_id: TaskId,
        /// The highest number.
        sequence: u64,
    },
    /// Inserts or replaces a subscription.
    PutSubscription(Subscription),
    /// Removes a subscription.
    DropSubscription {
        /// The task.
        task_id: TaskId,
        /// The subscription.
        subscription_id: String,
    },
    /// Removes all push configurations of an agent's tasks; there may be none.
    DropPushesOf {
        /// Whose.
        owner: String,
    },
    /// Inserts a Codex process.
    NewIncarnation(Incarnation),
    /// Records that a Codex process is gone.
    IncarnationEnded {
        incarnation_id: IncarnationId,
        /// When we learned it.
        at: Timestamp,
    },
    /// Inserts or replaces the report of a source.
    Quota(Quota),
    /// What is written of alerts.
    Alert(AlertChange),
    /// What daemons that share a ledger write beside all this.
    Fleet(FleetChange),
    /// What is written of loans.
    Loan(LoanChange),
}

/// A change of tokens, and of the logins and sessions of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenChange {
    /// Inserts a token; one of the same name must be revoked.
    New(Token),
    /// Makes a login that is not revoked a session.
    OpenSession {
        name: String,
        hash: String,
        access: ConsoleAccess,
        at: Timestamp,
    },
    /// Removes a login or session.
    DropSession { name: String },
    /// Revokes a token that is good.
    Revoke { name: String, at: Timestamp },
    /// Records that a good token was used.
    Used { name: String, at: Timestamp },
}
