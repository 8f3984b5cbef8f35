//! The schema's versions, for both engines.

/// The SQL that leads to version 1, 2, and so on. A file that has shipped is never edited.
pub(crate) const MIGRATIONS: &[&str] = &[include_str!("../../schema/0001_ledger.sql")];
