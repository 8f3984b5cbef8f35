//! Where people want to be told that a task is finished, and the webhooks that tell them. When it is told, how often it
//! is tried and what is kept of it is the daemon's and the core's business; only `host` starts programs.

mod sign;
mod target;
mod webhook;

pub use sign::{SecretError, Signer};
pub use target::{Target, TargetError, is_command_name};
pub use webhook::{Delivery, Webhook};
