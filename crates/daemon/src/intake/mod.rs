//! How messages come in beside the channels' own way.

pub(crate) mod files;
pub(crate) mod import;
