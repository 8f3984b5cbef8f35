//! Control of tasks and messages: one interface for HTTP, MCP and the command line.
//!
//! The caller's scopes decide what it may do; answers are derived from rows.

mod action;
mod caller;
mod envelope;
mod interrupt;
mod notify;
mod respond;
mod rows;
mod service;
mod shape;
mod start;
#[cfg(test)]
mod tests;

pub use action::{Control, ControlAction, ControlError, ControlErrorKind, StartArgs, TaskWatch};
pub use caller::{ANONYMOUS, Caller, Grants, LocalProgram, Scope, Via};
pub use notify::NotificationPayload;
pub(crate) use rows::{NotFound, TaskSubject};
pub(crate) use service::ActionResult;
pub use service::{ServiceTaskWatch, TaskService};
pub use start::prompt_summary;
