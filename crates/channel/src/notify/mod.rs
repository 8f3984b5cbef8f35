//! Targets of task notifications, and the webhooks that deliver them. When a notification is sent, how often it
//! is tried and what is kept of it is the daemon's and the core's business; only `host` starts programs.

mod sign;
mod target;
mod webhook;

pub use sign::{SecretError, Signer};
pub use target::{Target, TargetError, is_command_name};
pub use webhook::Webhook;
