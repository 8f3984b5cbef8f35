//! Known secrets are taken out of everything that Codex says.

pub(crate) mod agent;
pub(crate) mod registry;
