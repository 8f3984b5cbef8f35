//! The settings in force: the configuration, what is derived from it, and what the daemon was started with.

mod tasks;

use crate::config::{Config, ProtectedPaths, TierConfig};
use crate::delivery::notify_targets::NotifySettings;
use crate::delivery::push_client::{HttpPushClient, PushClient};
use crate::fleet::NodeSettings;
use crate::process::ids;
use crate::redaction::registry::SecretRegistry;
use crate::turn::follow::TurnTimeouts;
use crate::turn::progress::ProgressTimes;
use bridge_channel::files::{FileStore, MESSAGE_MAX_FILES, outbox_of};
use bridge_core::budget::{Budgets, QuotaRules};
use bridge_core::port::{Reads, ThreadSpec, TurnTransport};
use bridge_core::prompt::{STANDING_INSTRUCTIONS, outbox_instructions, task_instructions};
use bridge_core::rules::Policy;
use bridge_core::step::{Claim, LoopLimits, MidTurn, Pace, TurnsPerSender};
use bridge_core::storage::StorageBudget;
use bridge_core::value::{
    ApprovalPolicy, BootId, ChannelId, Conversation, ConversationId, CutPolicy, ReadAccess,
    Sandbox, Tier, Timestamp,
};
use bridge_front::{Caller, Via};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One version of the settings. A reload makes the next one; a turn keeps the version it began with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) config: Arc<Config>,
    per_sender: Arc<TurnsPerSender>,
    owner: TierSettings,
    peer: TierSettings,
    tool: TierSettings,
    budgets: Arc<Budgets>,
    pub(crate) policy: Policy,
    pub(crate) push_client: Arc<dyn PushClient>,
    pub(crate) start: Arc<StartSettings>,
}

/// What the daemon was started with; a reload changes none of it.
#[derive(Clone, Debug)]
pub(crate) struct StartSettings {
    pub(crate) boot_id: BootId,
    pub(crate) work_root: PathBuf,
    pub(crate) file_store: FileStore,
    /// Values that no file may carry out.
    pub(crate) secret_registry: Arc<SecretRegistry>,
    /// Directories that a task must not work in.
    pub(crate) protected_paths: ProtectedPaths,
    pub(crate) notify: NotifySettings,
    /// Channels over `codex exec`, by their ids or by the kind before the `:`.
    pub(crate) exec_channels: Vec<String>,
    /// Paths that no isolated turn may read.
    pub(crate) hidden: Vec<String>,
    /// This daemon as a node of a fleet.
    pub(crate) node: Option<NodeSettings>,
}

#[cfg(test)]
impl StartSettings {
    pub(crate) fn new(boot_id: BootId, work_root: PathBuf, file_store: FileStore) -> Self {
        Self {
            boot_id,
            work_root,
            file_store,
            secret_registry: Arc::default(),
            protected_paths: ProtectedPaths::default(),
            notify: NotifySettings::default(),
            exec_channels: Vec::new(),
            hidden: Vec::new(),
            node: None,
        }
    }
}

/// What one tier's turns may do, after its profile.
#[derive(Clone, Debug)]
pub(crate) struct TierSettings {
    pub(crate) sandbox: Sandbox,
    reads: ReadAccess,
    /// What its isolated turns may read beside their working directory, by its real place.
    reads_also: Vec<PathBuf>,
    approval_policy: ApprovalPolicy,
    model: Option<String>,
    instructions: Option<String>,
    workdir: Option<PathBuf>,
    one_writer: bool,
    pub(crate) on_cut: CutPolicy,
    mid_turn: MidTurn,
}

impl Settings {
    pub(crate) fn new(config: &Config, start: Arc<StartSettings>) -> Self {
        Self {
            config: Arc::new(config.clone()),
            per_sender: Arc::new(TurnsPerSender {
                max: config.turns_per_sender(),
                owners: owner_tasks(),
            }),
            owner: TierSettings::new(&config.tiers.owner),
            peer: TierSettings::new(&config.tiers.peer),
            tool: TierSettings::new(&config.tiers.tool),
            budgets: Arc::new(config.budgets()),
            policy: config.policy(),
            push_client: Arc::new(HttpPushClient::new(config)),
            start,
        }
    }

    /// How soon a message without an answer is tried again.
    pub(crate) fn pace(&self) -> Pace {
        let turn = &self.config.turn;
        Pace {
            backoff_base_ms: milliseconds(turn.backoff_base_ms),
            config_probe_ms: milliseconds(turn.config_probe_secs.saturating_mul(1000)),
            jitter: ids::jitter(),
        }
    }

    pub(crate) fn progress_times(&self) -> ProgressTimes {
        let turn = &self.config.turn;
        ProgressTimes {
            after: (turn.progress_after_secs > 0)
                .then(|| Duration::from_secs(turn.progress_after_secs)),
            every: Duration::from_secs(turn.progress_every_secs),
        }
    }

    /// When an approval request that nobody decided is declined.
    pub(crate) fn approval_deadline_ms(&self) -> i64 {
        milliseconds(self.config.approvals.deadline_secs.saturating_mul(1000))
    }

    /// When a reminder of an open approval request is sent; `None` for never.
    pub(crate) fn approval_reminder_ms(&self) -> Option<i64> {
        let approvals = &self.config.approvals;
        let before_deadline = (1..approvals.deadline_secs).contains(&approvals.reminder_secs);
        before_deadline.then(|| milliseconds(approvals.reminder_secs.saturating_mul(1000)))
    }

    /// A sender's permissions come from the tier, and the tier from the channel; never from a text.
    pub(crate) fn tier(&self, tier: Tier) -> &TierSettings {
        match tier {
            Tier::Owner => &self.owner,
            Tier::Peer => &self.peer,
            Tier::Tool => &self.tool,
        }
    }

    /// What commands of a tier with this access may read.
    fn reads(&self, access: ReadAccess, of: Tier) -> Reads {
        match access {
            ReadAccess::Disk => Reads::Disk,
            ReadAccess::Isolated => Reads::Shielded {
                also: still_there(&self.tier(of).reads_also),
                hidden: self.start.hidden.clone(),
            },
        }
    }

    /// What the scheduler asks the ledger for at `now`.
    pub(crate) fn claim(&self, now: Timestamp) -> Claim {
        Claim {
            turns_max: self.config.daemon.turns_max,
            turns_reserved: self.config.turns_reserved(),
            turns_per_channel: self.config.turns_per_channel(),
            per_sender: Arc::clone(&self.per_sender),
            one_writer: self.one_writer(),
            readers: self.readers(),
            budgets: Arc::clone(&self.budgets),
            leave_written: self.leave_written(),
            now,
        }
    }

    /// How the account's limit is shared out.
    pub(crate) fn quota_rules(&self) -> &QuotaRules {
        &self.budgets.quota
    }

    /// Senders who are the owner whatever their tier.
    pub(crate) fn owners(&self) -> &[(ChannelId, String)] {
        &self.per_sender.owners
    }

    /// Whether a conversation that wrote files waits for a node that is gone.
    pub(crate) fn leave_written(&self) -> bool {
        self.config.fleet.leaves_written()
    }

    /// What a sender may store. The owner may store what they like, also as tasks.
    pub(crate) fn storage(&self, channel: &ChannelId, sender: &str, tier: Tier) -> StorageBudget {
        let budget = if self.per_sender.is_owner(channel, sender) {
            None
        } else {
            self.budgets.of_sender(channel, sender, tier)
        };
        StorageBudget {
            bytes_per_day: budget.and_then(|budget| budget.bytes),
            refusable: true,
            beside: 0,
        }
    }

    /// How much agents may say.
    pub(crate) fn loop_limits(&self) -> LoopLimits {
        self.config.loop_guard.limits()
    }

    /// Shared directories in which only one writing turn runs at a time.
    fn one_writer(&self) -> Vec<String> {
        Tier::ALL
            .into_iter()
            .map(|tier| self.tier(tier))
            .filter(|tier| tier.one_writer)
            .filter_map(|tier| tier.workdir.as_ref())
            // A task that names it works in its real place.
            .flat_map(|workdir| [Some(workdir.clone()), workdir.canonicalize().ok()])
            .flatten()
            .map(|workdir| workdir.display().to_string())
            .collect()
    }

    /// Tiers whose turns can't write.
    fn readers(&self) -> Vec<Tier> {
        Tier::ALL
            .into_iter()
            .filter(|tier| !self.tier(*tier).sandbox.can_write())
            .collect()
    }

    /// Where a new conversation works.
    pub(crate) fn workdir(&self, tier: Tier, conversation_id: &ConversationId) -> String {
        match &self.tier(tier).workdir {
            Some(shared) => shared.display().to_string(),
            None => self
                .start
                .work_root
                .join(conversation_id.as_str())
                .display()
                .to_string(),
        }
    }

    pub(crate) fn thread_spec(&self, of: Tier, conversation: &Conversation) -> ThreadSpec {
        let tier = self.tier(of);
        let mut instructions = STANDING_INSTRUCTIONS.to_owned();
        // Nobody takes files from a task: its directory is the caller's own.
        let is_task = conversation.channel.as_str() == bridge_channel::task::CHANNEL;
        let sandbox = conversation.sandbox.unwrap_or(tier.sandbox);
        if sandbox.can_write() && !is_task {
            let outbox = outbox_of(&conversation.workdir, &conversation.conversation_id);
            let bytes_max = self.start.file_store.max_bytes();
            instructions.push(' ');
            instructions.push_str(&outbox_instructions(&outbox, MESSAGE_MAX_FILES, bytes_max));
        }
        if conversation.channel.as_str() == bridge_channel::a2a::CHANNEL {
            instructions.push(' ');
            instructions.push_str(&task_instructions());
        }
        if let Some(more) = &tier.instructions {
            instructions.push_str("\n\n");
            instructions.push_str(more);
        }
        ThreadSpec {
            workdir: conversation.workdir.clone(),
            sandbox,
            approval_policy: tier.approval_policy,
            model: conversation.model.clone().or_else(|| tier.model.clone()),
            instructions,
            reads: self.reads(tier.reads, of),
            transport: self.transport(&conversation.channel, &conversation.external_key),
            codex_home: None,
            agents: self.agent_names(of),
        }
    }
}

/// The owner as the sender of tasks, which run with the tier of tools.
fn owner_tasks() -> Vec<(ChannelId, String)> {
    let owner = Caller::local_owner(Via::Cli).name;
    vec![(ChannelId::new(bridge_channel::task::CHANNEL), owner)]
}

fn milliseconds(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

impl TierSettings {
    fn new<T>(tier: &TierConfig<T>) -> Self {
        Self {
            sandbox: tier.sandbox(),
            reads: tier.reads,
            reads_also: real_paths(&tier.reads_also),
            approval_policy: tier.approval_policy(),
            model: tier.model.clone(),
            instructions: tier.instructions.clone(),
            workdir: tier.workdir.clone(),
            one_writer: tier.one_writer,
            on_cut: tier.on_cut,
            mid_turn: tier.mid_turn,
        }
    }
}

/// Whether a conversation is named by `exec.conversations` or its channel by `channels`.
fn runs_over_exec(channels: &[String], keys: &[String], channel: &ChannelId, key: &str) -> bool {
    let kind = channel.as_str().split(':').next().unwrap_or_default();
    let whole = |exec: &String| exec == kind || exec == channel.as_str();
    // A `*` at the end stands for any rest.
    let matches = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => key == pattern,
    };
    channels.iter().any(whole) || keys.iter().any(matches)
}

impl Settings {
    /// Which program of Codex runs the turns of a conversation.
    pub(crate) fn transport(&self, channel: &ChannelId, key: &str) -> TurnTransport {
        let keys = &self.config.exec.conversations;
        if runs_over_exec(&self.start.exec_channels, keys, channel, key) {
            TurnTransport::Exec
        } else {
            TurnTransport::AppServer
        }
    }

    /// How long a turn may take. A run says nothing while its model writes, so its silence means nothing.
    pub(crate) fn patience(&self, transport: TurnTransport) -> TurnTimeouts {
        match transport {
            TurnTransport::AppServer => TurnTimeouts {
                timeout: Duration::from_secs(self.config.turn.timeout_secs),
                idle: Duration::from_secs(self.config.turn.idle_secs),
                transport,
            },
            TurnTransport::Exec => {
                let timeout = Duration::from_secs(self.config.exec.timeout_secs);
                TurnTimeouts {
                    timeout,
                    idle: timeout.saturating_mul(2),
                    transport,
                }
            }
        }
    }

    /// What happens to a message that arrives mid-turn. A run takes no more text, so there it waits.
    pub(crate) fn mid_turn(&self, tier: Tier, channel: &ChannelId, key: &str) -> MidTurn {
        match self.transport(channel, key) {
            TurnTransport::AppServer => self.tier(tier).mid_turn,
            TurnTransport::Exec => MidTurn::Queue,
        }
    }
}

/// The paths without symbolic links, taken when the configuration is read. One that is not there is granted to nobody.
fn real_paths(paths: &[PathBuf]) -> Vec<PathBuf> {
    let real = paths.iter().filter_map(|path| path.canonicalize().ok());
    real.collect()
}

/// Those that are still the same place. Turns write in directories that others may read: a path that was replaced by a link since
/// then leads where nobody granted anything.
fn still_there(paths: &[PathBuf]) -> Vec<String> {
    let same = |path: &&PathBuf| path.canonicalize().is_ok_and(|real| real == **path);
    let paths = paths.iter().filter(same);
    paths.map(|path| path.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn exec_matches_channel_or_conversation_key() {
        let channels = ["molecule".to_owned()];
        let keys = ["nightly".to_owned(), "ops/*".to_owned()];
        let holds = |channel: &str, key: &str| {
            runs_over_exec(&channels, &keys, &ChannelId::new(channel), key)
        };
        assert!(holds("molecule:ws-1", "anything"));
        assert!(!holds("molecules", "anything"));
        assert!(holds("local", "nightly") && holds("local", "ops/disk"));
        assert!(!holds("local", "nightly2") && !holds("local", "op"));
        let all = ["*".to_owned()];
        assert!(runs_over_exec(&[], &all, &ChannelId::new("local"), "main"));
    }

    #[test]
    fn f1_symlinked_grant_is_dropped() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["shared", "secret"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        symlink(at("shared"), at("link")).unwrap();
        let granted = real_paths(&[at("link"), at("missing")]);
        assert_eq!(granted, [at("shared")]);
        assert_eq!(still_there(&granted), [at("shared").display().to_string()]);
        std::fs::remove_dir(at("shared")).unwrap();
        symlink(at("secret"), at("shared")).unwrap();
        assert_eq!(still_there(&granted), Vec::<String>::new());
    }
}
