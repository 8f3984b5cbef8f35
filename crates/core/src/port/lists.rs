//! What fronts list and count for people, beyond what decisions are made from. Nothing is concluded from these, and each
//! looks at a bounded number of rows.

use super::rows::RowsError;
use crate::value::{AuditEnds, AuditEntry, AuditLink, Timestamp};

/// Queries of fronts.
pub trait ListRead {
    /// The record of acts, newest first.
    fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, RowsError>;
}

/// Which acts are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Rows below this one.
    pub before: Option<i64>,
    pub filter: AuditFilter,
    pub limit: u32,
}

/// Conditions that an act meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// A name, with or without a program behind it.
    pub actor: Option<String>,
    pub what: Option<String>,
    /// What its subject begins with.
    pub subject: Option<String>,
    /// At this time or later.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Whether every act meets it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this act meets it.
    #[must_use]
    pub fn matches(&self, entry: &AuditEntry) -> bool {
        let is = |wanted: &Option<String>, test: &dyn Fn(&str) -> bool| {
            wanted.as_deref().is_none_or(test)
        };
        is(&self.actor, &|name| is_actor(&entry.actor, name))
            && is(&self.what, &|what| entry.what == what)
            && is(&self.subject, &|begin| entry.subject.starts_with(begin))
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

/// Records have the program of an actor in brackets behind its name.
fn is_actor(recorded: &str, name: &str) -> bool {
    match recorded.strip_prefix(name) {
        Some(rest) => rest.is_empty() || rest.starts_with(" ("),
        None => false,
    }
}

/// A part of the record of acts, with what verifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// Newest first.
    pub links: Vec<AuditLink>,
    /// What the oldest of them is summed with; only without a filter, else rows are missing between them.
    pub before: Option<String>,
    /// Older rows than this one were not looked at; absent when there are none.
    pub next: Option<i64>,
    pub ends: AuditEnds,
    pub signature: Option<String>,
    /// The key that the ledger itself names as the signer.
    pub public_key: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_matches_with_and_without_program() {
        assert!(is_actor("ann", "ann"));
        assert!(is_actor("ann (codex-bridge 0.1)", "ann"));
        assert!(is_actor("ann (codex-bridge 0.1)", "ann (codex-bridge 0.1)"));
        assert!(!is_actor("anna", "ann"));
        assert!(!is_actor("ann", "anna"));
    }
}
