//! The daemon as a process: its clock, its ids, its heartbeat, and tasks that panic.

pub(crate) mod alive;
pub(crate) mod clock;
pub(crate) mod ids;
pub(crate) mod panics;
