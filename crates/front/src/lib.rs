//! What others call: the HTTP API on `api.sock` for the local owner, and on TCP for holders of tokens.
//!
//! Fronts read the ledger and hand what comes in to the [`BridgeService`]; they never decide about a message and never
//! talk to Codex. JSON forms live here and nowhere else.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod a2a;
pub mod api;
mod control;
mod hub;
pub mod mcp;
mod service;
mod story;
mod task_input;
mod view;

pub use api::changes::{ItemNews, MarkView, RequestNews, StateNews};
pub use api::conversations::{ConversationList, ConversationStory, ConversationView};
pub use api::operator::{
    ActView, DeadList, DeadView, ReloadView, StopSenderRequest, StopSenderView,
};
pub use api::requests::{DecisionRequest, DecisionView, RequestEntry, RequestList, RequestView};
pub use api::status::{ChannelView, HealthView, StatusView, SummaryView};
pub use api::tokens::{NewToken, TokenHash, TokenList, TokenMade, TokenRevoked, TokenView};
pub use control::{
    ANONYMOUS, Act, Caller, Control, ControlError, ControlErrorKind, Grants, LocalProgram, News,
    NotificationPayload, Scope, ServiceNews, StartArgs, TaskService, Via, prompt_summary,
};
pub use hub::{AllChanges, Hub, Live, Subscription};
pub use service::{
    BridgeService, Health, NewTask, Notified, StartError, Steering, StopRequest, Stopped,
    SubmitError, Submitted, TaskBegun,
};
pub use story::{AckView, ActEntryView, AttemptView, ReplyView, StoryView};
pub use task_input::{A2aAuth, A2aProfile, A2aSkill, NewAnswer, NewFile, NewTaskInput, PushPut};
pub use view::{
    AnswerView, EventView, FailureView, FileView, HoldView, LedgerView, MessageList, MessageView,
    Problem, SubmitRequest, SubmitResponse, TextView, WhyView,
};
