//! What the configuration in force decides, as the loops use it.

pub(crate) mod exec;
pub(crate) mod reads_also;
pub(crate) mod tasks;
