//! Control: what people and programs may do to tasks and messages, as one interface for every front.
//!
//! HTTP, MCP and the command line speak it; the daemon answers it from rows. Who may do what is the caller's scopes;
//! what a decision leads to is the core's.

mod act;
mod caller;

pub use act::{Act, Control, ControlError, ControlFault, StartArgs};
pub use caller::{Caller, Grants, Scope, Via};
