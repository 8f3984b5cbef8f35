//! The keys of `[tiers]`: what senders may do, by who they are. The same keys for every tier, with other defaults.
//!
//! What they become for a turn is in the daemon's settings; what must not stand together is judged in `validate`.

use bridge_core::budget::DayBudget;
use bridge_core::limits;
use bridge_core::step::MidTurn;
use bridge_core::value::{ApprovalPolicy, CutPolicy, ReadAccess, Sandbox, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::path::PathBuf;

/// More turns a day than this are no budget.
pub(super) const TURNS_PER_DAY_MAX: u32 = 1_000_000;
/// More tokens a day than this are no budget.
pub(super) const TOKENS_PER_DAY_MAX: u64 = 1_000_000_000_000;

/// More bytes a day than this are no budget.
pub(super) const BYTES_PER_DAY_MAX: u64 = 1 << 40;

/// A tier whose defaults are its own.
pub trait Defaults {
    /// What its commands may touch.
    const SANDBOX: Sandbox;
    /// What they may read.
    const READS: ReadAccess;
    /// What each of its senders may store within a day.
    const BYTES_PER_DAY: Option<u64>;
}

/// Stands for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
pub struct OwnerDefaults;

/// Stands for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
pub struct PeerDefaults;

/// Stands for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
pub struct ToolDefaults;

impl Defaults for OwnerDefaults {
    const SANDBOX: Sandbox = Sandbox::WorkspaceWrite;
    const READS: ReadAccess = ReadAccess::Disk;
    const BYTES_PER_DAY: Option<u64> = None;
}

impl Defaults for PeerDefaults {
    const SANDBOX: Sandbox = Sandbox::ReadOnly;
    const READS: ReadAccess = ReadAccess::Isolated;
    const BYTES_PER_DAY: Option<u64> = Some(limits::BYTES_PER_DAY_DEFAULT);
}

impl Defaults for ToolDefaults {
    const SANDBOX: Sandbox = Sandbox::ReadOnly;
    const READS: ReadAccess = ReadAccess::Isolated;
    const BYTES_PER_DAY: Option<u64> = Some(limits::BYTES_PER_DAY_DEFAULT);
}

/// What senders may do, by who they are. No message can change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tiers {
    /// The local command line, and channels whose senders are the owner of this machine.
    pub owner: TierConfig<OwnerDefaults>,
    /// Other agents, and people whom the channel can't tell from strangers.
    pub peer: TierConfig<PeerDefaults>,
    /// Tasks, and messages of whoever holds a token without `admin`. What a task asks for goes before these keys; a task
    /// that the owner starts reads what the owner's turns read.
    pub tool: TierConfig<ToolDefaults>,
}

/// What the turns of one tier may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, bound = "T: Defaults")]
#[schemars(bound = "T: Defaults + JsonSchema")]
pub struct TierConfig<T> {
    /// Whose defaults count.
    #[serde(skip)]
    tier: PhantomData<T>,
    /// A ready-made choice of `sandbox` and `approval_policy`, which are then left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ProfileKey")]
    pub profile: Option<ProfileKey>,
    /// What the commands of a turn may touch.
    pub sandbox: Sandbox,
    /// What the commands of a turn may read.
    pub reads: ReadAccess,
    /// What commands may read beside that where `reads` is `shielded`: absolute paths that exist. None may hold or lie in
    /// the state directory, a CODEX_HOME or a file with a token.
    pub reads_also: Vec<PathBuf>,
    /// When Codex asks before it acts.
    pub approval_policy: ApprovalPolicy,
    /// The model. Without it Codex chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub model: Option<String>,
    /// Instructions that the model gets in every conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub instructions: Option<String>,
    /// A directory in which all conversations work together; absolute, and it must exist. Without it each
    /// conversation has a directory of its own below the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub workdir: Option<PathBuf>,
    /// Whether turns that can write take turns in `workdir`, so that no two change it at the same time.
    pub one_writer: bool,
    /// What follows when a turn is cut after it may have changed something. A turn that can't write is simply
    /// run again.
    pub on_cut: CutPolicy,
    /// What happens to a message that arrives while a turn of its conversation runs.
    pub mid_turn: MidTurn,
    /// How many turns the messages of one sender may begin within 24 hours; then they wait. Without it there is no
    /// such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = TURNS_PER_DAY_MAX))]
    pub turns_per_day: Option<u32>,
    /// How many tokens, read and written, they may use within 24 hours; looked at before the next turn begins. Without
    /// it there is no such limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1, max = TOKENS_PER_DAY_MAX))]
    pub tokens_per_day: Option<u64>,
    /// How many bytes the messages of one sender may take on disk within 24 hours, with their files; more is refused.
    /// Without it 256 MiB, and no such limit for the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1, max = BYTES_PER_DAY_MAX))]
    pub bytes_per_day: Option<u64>,
}

/// A ready-made choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileKey {
    /// Unattended work in the working directory: `workspace-write`, and nobody is asked.
    WorkspaceAgent,
}

impl<T: Defaults> Default for TierConfig<T> {
    fn default() -> Self {
        Self {
            tier: PhantomData,
            profile: None,
            sandbox: T::SANDBOX,
            reads: T::READS,
            reads_also: Vec::new(),
            approval_policy: ApprovalPolicy::OnRequest,
            model: None,
            instructions: None,
            workdir: None,
            one_writer: false,
            on_cut: CutPolicy::Continue,
            mid_turn: MidTurn::Queue,
            turns_per_day: None,
            tokens_per_day: None,
            bytes_per_day: T::BYTES_PER_DAY,
        }
    }
}

impl Tiers {
    /// The sandboxes of all tiers.
    pub fn sandboxes(&self) -> [Sandbox; 3] {
        [
            self.owner.sandbox(),
            self.peer.sandbox(),
            self.tool.sandbox(),
        ]
    }

    /// What each sender of a tier may use within a day.
    pub fn budgets(&self) -> [(Tier, DayBudget); 3] {
        [
            (Tier::Owner, self.owner.budget()),
            (Tier::Peer, self.peer.budget()),
            (Tier::Tool, self.tool.budget()),
        ]
    }
}

impl<T> TierConfig<T> {
    /// The sandbox in force: the profile's, where one is chosen.
    pub fn sandbox(&self) -> Sandbox {
        match self.profile {
            Some(ProfileKey::WorkspaceAgent) => Sandbox::WorkspaceWrite,
            None => self.sandbox,
        }
    }

    /// What each of its senders may use within a day.
    fn budget(&self) -> DayBudget {
        DayBudget {
            turns: self.turns_per_day.map(u64::from),
            tokens: self.tokens_per_day,
            bytes: self.bytes_per_day,
        }
    }

    /// The approval policy in force: the profile's, where one is chosen.
    pub fn approval_policy(&self) -> ApprovalPolicy {
        match self.profile {
            Some(ProfileKey::WorkspaceAgent) => ApprovalPolicy::Never,
            None => self.approval_policy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn tiers(text: &str) -> Tiers {
        toml::from_str::<Config>(text).unwrap().tiers
    }

    #[test]
    fn tier_defaults_survive_partial_settings() {
        let found =
            tiers("tiers.peer.model = 'm'\ntiers.tool.model = 'm'\ntiers.owner.model = 'm'");
        assert_eq!(
            found.sandboxes(),
            [
                Sandbox::WorkspaceWrite,
                Sandbox::ReadOnly,
                Sandbox::ReadOnly
            ]
        );
        let reads = (found.owner.reads, found.peer.reads, found.tool.reads);
        assert_eq!(
            reads,
            (ReadAccess::Disk, ReadAccess::Isolated, ReadAccess::Isolated)
        );
    }

    #[test]
    fn the_words_are_codex_s_own() {
        for sandbox in [
            Sandbox::ReadOnly,
            Sandbox::WorkspaceWrite,
            Sandbox::DangerFullAccess,
        ] {
            let read = tiers(&format!("tiers.peer.sandbox = '{}'", sandbox.as_str()));
            assert_eq!(read.peer.sandbox(), sandbox);
        }
        for policy in [
            ApprovalPolicy::OnRequest,
            ApprovalPolicy::Untrusted,
            ApprovalPolicy::Never,
        ] {
            let read = tiers(&format!(
                "tiers.tool.approval_policy = '{}'",
                policy.as_str()
            ));
            assert_eq!(read.tool.approval_policy(), policy);
        }
    }

    #[test]
    fn what_is_chosen_reaches_the_core() {
        for (word, chosen) in [
            ("continue", CutPolicy::Continue),
            ("ask", CutPolicy::Ask),
            ("bury", CutPolicy::Bury),
        ] {
            let read = tiers(&format!("tiers.owner.on_cut = '{word}'"));
            assert_eq!(read.owner.on_cut, chosen);
        }
        for (word, chosen) in [("queue", MidTurn::Queue), ("steer", MidTurn::Steer)] {
            let read = tiers(&format!("tiers.owner.mid_turn = '{word}'"));
            assert_eq!(read.owner.mid_turn, chosen);
        }
    }

    #[test]
    fn a_ready_made_choice_is_unattended_work() {
        let read = tiers("tiers.peer.profile = 'workspace-agent'");
        assert_eq!(read.peer.sandbox(), Sandbox::WorkspaceWrite);
        assert_eq!(read.peer.approval_policy(), ApprovalPolicy::Never);
        assert_eq!(read.peer.reads, ReadAccess::Isolated);
    }
}
