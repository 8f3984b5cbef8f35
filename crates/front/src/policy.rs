//! The rules in force, as the service hands them to the fronts.

use bridge_core::rules::Policy;
use bridge_core::value::{ApprovalPolicy, Sandbox, Tier};

/// The rules of the configuration, and the terms that questions come up under.
#[derive(Clone, Debug)]
pub struct PolicyInForce {
    pub policy: Policy,
    pub owner: TierTerms,
    pub peer: TierTerms,
    pub tool: TierTerms,
    /// When silence becomes a decline.
    pub deadline_secs: u64,
}

/// What turns of a tier may do without asking, and when Codex asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierTerms {
    pub sandbox: Sandbox,
    pub approval_policy: ApprovalPolicy,
}

impl PolicyInForce {
    #[must_use]
    pub fn terms(&self, tier: Tier) -> TierTerms {
        match tier {
            Tier::Owner => self.owner,
            Tier::Peer => self.peer,
            Tier::Tool => self.tool,
        }
    }
}
