//! The daemon as a process: its clock, its ids, its heartbeat, and tasks that panic.

pub(crate) mod clock;
pub(crate) mod counted;
mod drain;
pub(crate) mod ids;
pub(crate) mod measures;
pub(crate) mod panics;
mod pruning;
pub(crate) mod retention;
pub(crate) mod service_manager;
pub(crate) mod work_log;
