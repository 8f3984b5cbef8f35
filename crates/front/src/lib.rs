//! The servers: HTTP API, MCP and A2A, on `api.sock` for the local owner and on TCP for holders of tokens.
//!
//! Fronts read the ledger and pass requests to the [`BridgeService`]; they never decide about a message and never talk to
//! Codex. JSON forms of the API live here and nowhere else.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod a2a;
pub mod api;
mod console;
mod control;
mod live;
pub mod mcp;
mod measured;
mod message_view;
mod policy;
mod service;
mod task_view;
mod time;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use api::all_events::{ItemChange, MarkView, RequestChange, StateChange};
pub use api::audit::{AuditEndsView, AuditEntryView, AuditList, AuditPartView};
pub use api::conversations::{
    ActiveConversation, ConversationList, ConversationStory, ConversationView,
};
pub use api::dead::{DeadActs, DeadRequest, RefusedAct};
pub use api::figures::{FailureFigures, HourView, OutcomeCounts, OutcomesView, SenderFigures};
pub use api::find::{CandidateView, FoundView};
pub use api::loans::{
    LendRequest, LendView, LentConversation, LoanView, ReturnRequest, ReturnView, TerminalView,
};
pub use api::nodes::{MoveRequest, MoveView, NodeActView, NodeList, NodeView};
pub use api::operator::{
    ActView, DeadList, DeadView, ReloadView, StopSenderRequest, StopSenderView,
};
pub use api::policy::{ExplainRequest, ExplainView, ReplayEntry, ReplayList, RuleView};
pub use api::quota::{QuotaView, QuotaWindowView, QuotasView};
pub use api::requests::{DecisionRequest, DecisionView, RequestEntry, RequestList, RequestView};
pub use api::search::{FoundMessage, SearchList};
pub use api::senders::{BudgetView, ChannelEntry, ChannelList, SenderList, SenderView};
pub use api::status::{ChannelView, CodexMemoryView, HealthView, StatusView, SummaryView};
pub use api::tokens::{NewToken, TokenHash, TokenList, TokenMade, TokenRevoked, TokenView};
pub use api::{LoginMade, NewLogin};
pub use control::{
    ANONYMOUS, Caller, Control, ControlAction, ControlError, ControlErrorKind, Grants,
    LocalProgram, NotificationPayload, Scope, ServiceTaskWatch, StartArgs, TaskService, TaskWatch,
    Via, prompt_summary,
};
pub use live::{AllChanges, Hub, LiveSubscription, LiveUpdate};
pub use measured::{HistogramView, Measured};
pub use message_view::{
    AckView, ActEntryView, AnswerView, AttemptView, EventView, FailureView, FileUpload, FileView,
    HoldView, LedgerView, MessageList, MessageView, Problem, ReplyView, StoryView, SubmitRequest,
    SubmitResponse, TextView, WhyView,
};
pub use policy::{PolicyInForce, TierTerms};
pub use service::{
    A2aAuth, A2aProfile, A2aSkill, BridgeService, ConsolePlace, Lending, LoanReturned, NewAnswer,
    NewFile, NewLoan, NewTask, NewTaskInput, Notified, PlatformAnswer, PushPut, StartError,
    StopRequest, Stopped, SubmitError, Submitted, TaskBegun,
};
pub use task_view::{
    NotificationReport, NotifyReply, TaskEvent, TaskPageView, TaskReply, TaskRequest, TaskShape,
};
pub use time::Time;

/// Whether the files of the console are in this program.
pub const CONSOLE_IS_BUILT: bool = cfg!(feature = "console");
/// Why it is not served.
pub const NO_CONSOLE: &str = "this daemon serves no console: it was built without, or `console.enabled` is false in its configuration";

/// Locks a mutex, also after a panic of another holder: what these mutexes guard is whole after each statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
