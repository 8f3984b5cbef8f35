//! What others call: the HTTP API on `api.sock` for the local owner, and on TCP for holders of tokens.
//!
//! Fronts read the ledger and hand what comes in to the [`BridgeService`]; they never decide about a message and never
//! talk to Codex. JSON forms live here and nowhere else.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod a2a;
pub mod api;
mod control;
mod live;
pub mod mcp;
mod message_view;
mod service;
mod time;

pub use api::all_events::{ItemChange, MarkView, RequestChange, StateChange};
pub use api::conversations::{
    ActiveConversation, ConversationList, ConversationStory, ConversationView,
};
pub use api::find::{CandidateView, FoundView};
pub use api::operator::{
    ActView, DeadList, DeadView, ReloadView, StopSenderRequest, StopSenderView,
};
pub use api::requests::{DecisionRequest, DecisionView, RequestEntry, RequestList, RequestView};
pub use api::status::{ChannelView, HealthView, StatusView, SummaryView};
pub use api::task_view::{
    NotificationReport, NotifyReply, TaskEvent, TaskPageView, TaskReply, TaskRequest, TaskShape,
};
pub use api::tokens::{NewToken, TokenHash, TokenList, TokenMade, TokenRevoked, TokenView};
pub use control::{
    ANONYMOUS, Caller, Control, ControlAction, ControlError, ControlErrorKind, Grants,
    LocalProgram, NotificationPayload, Scope, ServiceTaskWatch, StartArgs, TaskService, TaskWatch,
    Via, prompt_summary,
};
pub use live::{AllChanges, Hub, LiveSubscription, LiveUpdate};
pub use message_view::{
    AckView, ActEntryView, AnswerView, AttemptView, EventView, FailureView, FileView, HoldView,
    LedgerView, MessageList, MessageView, Problem, ReplyView, StoryView, SubmitRequest,
    SubmitResponse, TextView, WhyView,
};
pub use service::{
    A2aAuth, A2aProfile, A2aSkill, BridgeService, NewAnswer, NewFile, NewTask, NewTaskInput,
    Notified, PushPut, StartError, Steering, StopRequest, Stopped, SubmitError, Submitted,
    TaskBegun,
};
pub use time::Time;
