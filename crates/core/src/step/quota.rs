//! An account's rate limit: what Codex reports is written down, and who waited in vain is let go of. Whom a claim lets
//! wait is in [`crate::quota`].

use super::{Action, RunError, Transition, Tx};
use crate::budget::QuotaRules;
use crate::limits::QUOTA_FREED_AT_ONCE;
use crate::port::Change;
use crate::quota::{QuotaGates, is_known, opens, slowed_since};
use crate::value::{ChannelId, MessageState, Quota, QuotaReport, QuotaSource, Timestamp};

/// Writes down what the Codex of one CODEX_HOME reported.
#[derive(Clone, Debug)]
pub struct NoteQuota {
    /// The default one when absent.
    pub codex_home: Option<String>,
    pub report: QuotaReport,
    pub rules: QuotaRules,
}

/// Result of [`NoteQuota`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaNoted {
    /// The row says it already.
    Known,
    Noted {
        /// Somebody who was held until the reset may begin now: [`FreeHeld`] lets them.
        opens: bool,
    },
}

impl Transition for NoteQuota {
    type Outcome = QuotaNoted;
    const NAME: &'static str = "note_quota";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<QuotaNoted, RunError> {
        let source = QuotaSource {
            node_id: tx.this_node(),
            codex_home: self.codex_home,
        };
        let known = tx.quotas()?.into_iter().find(|it| it.source == source);
        let unknown = QuotaReport::default();
        let before = known.as_ref().map_or(&unknown, |known| &known.report);
        // Whose login it is, and nothing of its limit: what the row says of it still holds.
        let is_named = self.report.account.is_some() && self.report.account == before.account;
        let says_nothing = QuotaReport {
            account: None,
            ..self.report.clone()
        } == unknown;
        if is_known(&self.report, before) || is_named && says_nothing {
            return Ok(QuotaNoted::Known);
        }
        let primary_slowed = known.as_ref().and_then(|known| known.primary_slowed);
        let secondary_slowed = known.as_ref().and_then(|known| known.secondary_slowed);
        let (rules, report) = (&self.rules, &self.report);
        let slowed = |new, old, since| slowed_since(new, old, since, rules, now);
        let quota = Quota {
            source,
            primary_slowed: slowed(report.primary, before.primary, primary_slowed),
            secondary_slowed: slowed(report.secondary, before.secondary, secondary_slowed),
            reported_at: now,
            report: self.report,
        };
        let opens = known.is_some_and(|known| opens(&quota, &known, &self.rules, now));
        tx.change(Change::Quota(quota))?;
        tx.act(Action::Schedule);
        Ok(QuotaNoted::Noted { opens })
    }
}

/// Lets go of messages that are held for capacity and that no account's limit holds any more. Whoever waits for
/// something else is held again by the next claim, and hears nothing of it.
#[derive(Clone, Debug)]
pub struct FreeHeld {
    pub rules: QuotaRules,
    /// Senders who are the owner whatever their tier.
    pub owners: Vec<(ChannelId, String)>,
}

impl Transition for FreeHeld {
    /// Whether there may be more.
    type Outcome = bool;
    const NAME: &'static str = "free_held";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<bool, RunError> {
        let node = tx.this_node();
        let quotas = tx.quotas()?;
        if quotas.is_empty() {
            return Ok(false);
        }
        let gates = QuotaGates::of(&quotas, node.as_ref(), &self.rules, now);
        let mut freed = 0;
        for head in tx.held_for_capacity(now, QUOTA_FREED_AT_ONCE)? {
            let message = head.message;
            let home = head.codex_home.as_deref();
            if gates.holds(&message, home, &self.owners).is_some() {
                continue;
            }
            let life = message
                .life
                .moved(MessageState::Received { hold: None }, now);
            tx.set_life(&message, life)?;
            tx.announce(&message.message_id);
            freed += 1;
        }
        if freed > 0 {
            tx.act(Action::Schedule);
        }
        Ok(freed == QUOTA_FREED_AT_ONCE)
    }
}
