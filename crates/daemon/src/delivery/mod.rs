//! Everything that leaves the daemon: replies to channels, and events of tasks to their subscribers.

mod alert_text;
mod alerts;
mod lane;
mod notification;
mod notifier;
pub(crate) mod notify_targets;
pub(crate) mod push_client;

pub(crate) use self::lane::Lanes;
pub(crate) use self::notifier::Slots;
