//! The daemon as the fronts see it: the service behind every API, its listeners, and reloading the configuration.

pub(crate) mod console;
pub(crate) mod group;
pub(crate) mod listeners;
mod loans;
pub(crate) mod reload;
pub(crate) mod service;
