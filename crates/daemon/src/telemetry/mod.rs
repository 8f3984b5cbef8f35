//! What the daemon tells of itself: its log, and traces of its messages.

mod log;
mod structured;
mod traces;

pub use log::{LogOptions, filter, start};
pub(crate) use traces::Traces;
