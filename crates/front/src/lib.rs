//! What others call: the HTTP API on `api.sock` for the local owner, and on TCP for holders of tokens.
//!
//! Fronts read the ledger and hand what comes in to the [`BridgeService`]; they never decide about a message and never
//! talk to Codex. JSON forms live here and nowhere else.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod a2a;
pub mod api;
mod control;
mod conversation;
mod dead;
mod hub;
pub mod mcp;
mod news;
mod reload;
mod request;
mod service;
mod status;
mod stop;
mod story;
mod task_input;
mod token;
mod view;

pub use control::{
    ANONYMOUS, Act, Caller, Control, ControlError, ControlFault, Grants, LocalProgram, News,
    NotificationPayload, Scope, ServiceNews, StartArgs, TaskService, Via, prompt_summary,
};
pub use conversation::{ConversationList, ConversationStory, ConversationView};
pub use dead::{ActView, DeadList, DeadView};
pub use hub::{Everything, Hub, Live, Subscription};
pub use news::{ItemNews, MarkView, RequestNews, StateNews};
pub use reload::ReloadView;
pub use request::{
    DecisionRequest, DecisionView, RequestEntry, RequestList, RequestView, wants_secret,
};
pub use service::{
    BridgeService, Health, NewMessage, NewTask, Notified, StartError, Steering, StopRequest,
    Stopped, SubmitError, Submitted, TaskBegun,
};
pub use status::{ChannelView, HealthView, StatusView, SummaryView};
pub use stop::{StopSenderRequest, StopSenderView};
pub use story::{AckView, ActEntryView, AttemptView, ReplyView, StoryView};
pub use task_input::{A2aAuth, A2aProfile, A2aSkill, NewAnswer, NewFile, NewTaskInput, PushPut};
pub use token::{NewToken, TokenHash, TokenList, TokenMade, TokenRevoked, TokenView};
pub use view::{
    AnswerView, EventView, FailureView, FileView, HoldView, LedgerView, MessageList, MessageView,
    Problem, SubmitRequest, SubmitResponse, TextView, WhyView,
};
