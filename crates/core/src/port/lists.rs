//! What fronts list and count for people, beyond what decisions are made from. Nothing is concluded from these, and each
//! looks at a bounded number of rows.

use super::rows::RowsError;
use crate::step::RedriveOutcome;
use crate::value::{
    AuditEnds, AuditEntry, AuditLink, ChannelId, MessageId, StateName, Tier, Timestamp,
};

/// Queries of fronts.
pub trait ListRead {
    /// The record of acts, newest first.
    fn audit_page(&self, query: &AuditQuery) -> Result<AuditPage, RowsError>;
    /// Failed messages and those that wait for a person, oldest first, and with each what sending it again comes to; of
    /// each state at most [`BACKLOG_MAX`](crate::limits::BACKLOG_MAX).
    fn failed(&self) -> Result<Vec<(MessageId, RedriveOutcome)>, RowsError>;
    /// Until when the last of many failed messages that are sent again is held.
    fn last_redrive(&self) -> Result<Option<Timestamp>, RowsError>;
    /// Messages with this text in them or in their answer, among the newest
    /// [`SEARCH_LOOKED_AT`](crate::limits::SEARCH_LOOKED_AT) before a place.
    fn search(&self, query: &SearchQuery) -> Result<SearchPage, RowsError>;
    /// Who sent messages since then, among the newest [`SENDERS_LOOKED_AT`](crate::limits::SENDERS_LOOKED_AT), by channel
    /// and name.
    fn recent_senders(&self, since: Timestamp) -> Result<Vec<RecentSender>, RowsError>;
    /// What a sender's turns after a time used; claimed messages count already.
    fn turns_used(
        &self,
        channel: &ChannelId,
        sender: &str,
        since: Timestamp,
    ) -> Result<TurnsUsed, RowsError>;
    /// Finished messages in this state that ended since then, newest first, at most
    /// [`FIGURES_LOOKED_AT`](crate::limits::FIGURES_LOOKED_AT).
    fn finished_since(
        &self,
        state: StateName,
        since: Timestamp,
    ) -> Result<Vec<FinishedMessage>, RowsError>;
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

/// A part of the newest messages, looked through for a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    /// What is looked for, as it is; ASCII letters are the same in both cases.
    pub text: String,
    /// Messages that came before the one with this number.
    pub before: Option<i64>,
    /// How many messages are found at most.
    pub limit: u32,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// Newest first.
    pub found: Vec<Found>,
    /// How many messages were looked through.
    pub looked_at: u32,
    /// Where to go on; absent when all were looked through.
    pub next: Option<i64>,
}

/// A message in which a text was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub message_id: MessageId,
    pub place: FoundIn,
}

/// Where it stands first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundIn {
    Text,
    Answer,
}

/// Who sent messages lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentSender {
    pub channel: ChannelId,
    pub sender: String,
    /// With the newest of them.
    pub tier: Tier,
    pub messages: u64,
    /// When the newest came.
    pub newest_at: Timestamp,
}

/// What a sender's turns used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnsUsed {
    pub turns: u64,
    pub tokens: u64,
}

/// How a message ended, in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedMessage {
    pub message_id: MessageId,
    pub channel: ChannelId,
    pub sender: String,
    pub received_at: Timestamp,
    pub ended_at: Timestamp,
    pub answered_at: Option<Timestamp>,
    /// The word for the class of its last failure.
    pub class: Option<String>,
    /// Of all its turns.
    pub tokens: u64,
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
