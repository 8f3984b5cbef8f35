//! Control: what people and programs may do to tasks and messages, as one interface for every front.
//!
//! HTTP, MCP and the command line speak it; the daemon answers it from rows. Who may do what is the caller's scopes;
//! what a decision leads to is the core's.

mod action;
mod caller;
mod envelope;
mod interrupt;
mod notify;
mod respond;
mod rows;
mod service;
mod start;
#[cfg(test)]
mod tests;

pub use action::{Control, ControlAction, ControlError, ControlErrorKind, StartArgs, TaskWatch};
pub use caller::{ANONYMOUS, Caller, Grants, LocalProgram, Scope, Via};
pub use notify::NotificationPayload;
pub(crate) use rows::{NotFound, Subject};
pub use service::{ServiceTaskWatch, TaskService};
pub use start::prompt_summary;
