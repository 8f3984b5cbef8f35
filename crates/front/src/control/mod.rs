//! Control: what people and programs may do to tasks and messages, as one interface for every front.
//!
//! HTTP, MCP and the command line speak it; the daemon answers it from rows. Who may do what is the caller's scopes;
//! what a decision leads to is the core's.

mod act;
mod caller;
mod envelope;
mod interrupt;
mod news;
mod notify;
mod payload;
mod respond;
mod rows;
mod service;
mod start;
#[cfg(test)]
mod tests;

pub use act::{Act, Control, ControlError, ControlErrorKind, News, StartArgs};
pub use caller::{ANONYMOUS, Caller, Grants, LocalProgram, Scope, Via};
pub(crate) use envelope::{NotifyEnvelope, TaskEnvelope, TaskListEnvelope};
pub use news::ServiceNews;
pub use payload::NotificationPayload;
pub(crate) use rows::{NotFound, Subject};
pub use service::TaskService;
pub use start::prompt_summary;
