//! What Codex reports of an account's rate limits, as it is kept.

use super::{NodeId, Timestamp};

/// Whose Codex reports: one CODEX_HOME of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaSource {
    /// Absent where one daemon has the ledger for itself.
    pub node_id: Option<NodeId>,
    /// CODEX_HOME as an absolute path; the default one when absent.
    pub codex_home: Option<String>,
}

/// One window of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaWindow {
    pub used_percent: u32,
    pub minutes: Option<u32>,
    /// Without it the window can't be waited for, and limits nothing.
    pub resets_at: Option<Timestamp>,
}

/// What Codex said last about an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaReport {
    /// Sources of the same account share its limit; one that does not know its account shares with nobody.
    pub account: Option<String>,
    pub primary: Option<QuotaWindow>,
    pub secondary: Option<QuotaWindow>,
    /// Credits pay for what goes beyond the windows.
    pub has_credits: bool,
    /// The provider refused a turn for the limit until then, whatever the windows say.
    pub refused_until: Option<Timestamp>,
}

/// Where agents began to be slowed down in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowedSince {
    pub at: Timestamp,
    pub used_percent: u32,
}

/// A report as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub source: QuotaSource,
    pub report: QuotaReport,
    /// Of the primary window.
    pub primary_slowed: Option<SlowedSince>,
    /// Of the secondary window.
    pub secondary_slowed: Option<SlowedSince>,
    pub reported_at: Timestamp,
}

impl QuotaWindow {
    /// "5-hour", "7-day"; empty when the length is not known.
    #[must_use]
    pub fn name(&self) -> String {
        match self.minutes {
            None | Some(0) => String::new(),
            Some(minutes) if minutes.is_multiple_of(1_440) => format!("{}-day ", minutes / 1_440),
            Some(minutes) if minutes.is_multiple_of(60) => format!("{}-hour ", minutes / 60),
            Some(minutes) => format!("{minutes}-minute "),
        }
    }
}

impl Quota {
    /// Its windows, each with where agents began to be slowed down.
    pub fn windows(&self) -> impl Iterator<Item = (QuotaWindow, Option<SlowedSince>)> {
        let primary = self.report.primary.map(|it| (it, self.primary_slowed));
        let secondary = self.report.secondary.map(|it| (it, self.secondary_slowed));
        primary.into_iter().chain(secondary)
    }
}
