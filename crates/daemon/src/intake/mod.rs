//! How messages and tasks come in beside the channels' own way.

pub(crate) mod a2a_tasks;
pub(crate) mod files;
pub(crate) mod import;
mod import_tasks;
mod tasks;
