//! The nouns: ids, states and rows as plain values.
//!
//! Values carry data and small questions about themselves; decisions live in [`crate::step`], stored and
//! wire forms live with the edges that write them, so nothing here is serialisable.

#[macro_use]
mod words;

mod actor;
mod alert;
mod audit;
mod class;
mod command;
mod conversation;
mod file;
mod ids;
mod incarnation;
mod loan;
mod message;
mod node;
mod quota;
mod reply;
mod request;
mod subscription;
mod task;
mod time;
mod trace;
mod turn;

pub use actor::{Actor, ConsoleAccess, Token, TokenKind};
pub use alert::{
    Alert, AlertDetail, AlertKind, AlertState, AlertStateName, AlertSubject, PushDevice, PushKey,
    Receiver,
};
pub use audit::{
    AuditCheck, AuditEnds, AuditEntry, AuditFound, AuditLink, KEY_BEGAN, RECORD_UNSIGNED,
};
pub use class::{Class, Failure};
pub use command::Command;
pub use conversation::{ApprovalPolicy, Conversation, Sandbox, Tier};
pub use file::{Attachment, FileDigest, KeptFile};
pub use ids::{
    BootId, ChannelId, ClientId, ConversationId, Epoch, ExternalId, IncarnationId, ItemId, LoanId,
    MessageId, NodeId, ReceiverId, ReplyKey, RequestId, Round, Seq, TaskId, ThreadId, TurnId,
};
pub use incarnation::{Incarnation, ProcessStamp, Transport};
pub use loan::Loan;
pub use message::{Hold, Life, Message, MessageState, NextInput, SenderKind, StateName};
pub use node::{Home, Node, NodeInfo, NodeState, Segment, ThreadFile, reader_of};
pub use quota::{Quota, QuotaReport, QuotaSource, QuotaWindow, SlowedSince};
pub use reply::{
    Answer, AnswerSource, Reply, ReplyKind, ReplyState, ReplyStateName, Twin, split_reply,
};
pub use request::{
    DecidedBy, Deciders, EffectDigest, Request, RequestDecision, RequestKind, RequestState,
    RequestStateName, RequestVerdict, Wants,
};
pub use subscription::{PushTarget, Subscription, SubscriptionState, SubscriptionTarget};
pub use task::{AskedDigest, ReadAccess, Task, TaskInput, TaskInputKind, TaskStart, TaskTerms};
pub use time::Timestamp;
pub use trace::{NoTraceParent, SpanId, TraceId, TraceParent};
pub use turn::{CutPolicy, EventKind, ItemEvent, Turn, TurnState, Usage};
pub use words::UnknownWord;
pub(crate) use words::words;
