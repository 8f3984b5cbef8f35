//! Turns: how one is started, given more text, and how it ends.

mod end;
mod followers;
mod reconcile;
mod retry;
mod start;
mod steer;

pub use end::{Answered, Fail, Lose, Note, Pace, Resume, Suspend};
pub use reconcile::{DeferReconcile, Reconcile};
pub use start::{Attach, Begin, Begun, Bind, Name, Unbind};
pub use steer::{Join, JoinUnknown, Leave, Tell, TellOutcome};

pub(super) use end::resume;
pub(super) use retry::{AttemptCost, Retry, given_up};
