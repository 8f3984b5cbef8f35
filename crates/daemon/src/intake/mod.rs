//! How messages and tasks come in: from channels, from the API, from other agents, and from older programs.

pub(crate) mod a2a_tasks;
pub(crate) mod files;
pub(crate) mod import;
mod import_tasks;
mod inbox;
mod local;
pub(crate) mod tasks;
