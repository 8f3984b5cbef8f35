//! The life of a turn: claimed, started, followed to its end, and found again when its end was not seen.

pub(crate) mod activity;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod progress;
mod reconcile;
mod recover;
pub(crate) mod rescue;
mod schedule;
pub(crate) mod steer;
mod wants;
mod watchdog;
mod work;
