//! What the daemon tells of itself: its log, and traces of its messages.

mod log;
mod traces;

pub use log::{filter, start};
pub(crate) use traces::Traces;
