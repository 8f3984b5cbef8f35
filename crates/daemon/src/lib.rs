//! The daemon: composition only. It opens the ledger, hosts Codex, serves the API, and performs what the
//! core's transitions ask for, after their commit.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod a2a_tasks;
mod acks;
mod act;
mod activity;
mod agents;
mod alive;
mod clock;
pub mod config;
mod descriptors;
mod exec;
pub mod failpoint;
mod files;
mod follow;
mod ids;
mod import;
pub mod key;
mod lane;
mod listeners;
mod notifier;
pub mod notify;
mod notify_targets;
mod panics;
mod progress;
mod prune;
mod push_client;
mod questions;
mod reads_also;
mod reconcile;
mod recover;
mod redact;
mod reload;
mod rescue;
mod run;
mod schedule;
mod secret_registry;
mod service;
pub mod state;
mod steer;
mod stop_sender;
mod tally;
mod task_files;
mod tasks;
pub mod telemetry;
pub mod term;
mod terms;
#[cfg(test)]
mod tests;
mod wants;
mod watchdog;
mod work;

pub use exec::ExecSettings;
pub use listeners::{print_openapi, routes};
pub use progress::Pace as ProgressPace;
pub use reload::Source;
pub use run::{Ready, RunOptions, Stop, run};

use self::a2a_tasks::A2aSettings;
use self::follow::Running;
use self::notify_targets::NotifySettings;
use self::push_client::{HttpPushClient, PushClient};
use self::secret_registry::SecretRegistry;
use self::terms::TaskSettings;
use crate::config::{Config, Places, ReadsKey, TierConfig};
use bridge_channel::files::{FileStore, MESSAGE_MAX_FILES, outbox_of};
use bridge_core::budget::Budgets;
use bridge_core::port::{Agent, Ledger, Reads, Sink, ThreadSpec};
use bridge_core::prompt::{STANDING_INSTRUCTIONS, outbox_instructions, task_instructions};
use bridge_core::rules::Policy;
use bridge_core::step::{Claim, Keep, MidTurn, Pace, TurnsPerSender};
use bridge_core::storage::StorageBudget;
use bridge_core::value::{
    ApprovalPolicy, BootId, ChannelId, Conversation, ConversationId, CutPolicy, MessageId,
    ReadAccess, Sandbox, Tier, Timestamp,
};
use bridge_front::{Caller, Hub, Via};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Everything the daemon's tasks share.
pub(crate) struct Daemon<L, A, S> {
    pub(crate) ledger: L,
    pub(crate) agent: A,
    pub(crate) sink: S,
    pub(crate) hub: Hub,
    /// The version in force; see [`Daemon::settings`].
    settings: RwLock<Arc<Settings>>,
    /// How the configuration is read again; set once the daemon is whole.
    reloads: OnceLock<reload::Reloads>,
    /// Wakes the scheduler.
    wake: Notify,
    /// Wakes the ack lane.
    ack_wake: Notify,
    /// Deliveries to the subscribers of tasks.
    slots: Arc<notifier::Slots>,
    /// The ledger failed under a transition: what it asks for may have been swallowed.
    doubt: Notify,
    /// Whoever gives a text to a running turn: in one conversation they go one after the other.
    joining: steer::Order,
    /// Messages that a task works on.
    hands: rescue::Hands,
    /// Set: nothing more is claimed or taken in.
    stopping: CancellationToken,
    /// Set: tasks let go of what they do, rows stay as they are.
    halt: CancellationToken,
    /// Set: a newer daemon has the ledger, and this one must go.
    fenced: CancellationToken,
    /// Set: the ledger is damaged. Nothing more is claimed or taken in; what runs is finished and written down.
    damaged: CancellationToken,
    /// What was committed.
    tally: tally::Tally,
    /// Moves as long as the scheduler does.
    pulse: alive::Pulse,
    tasks: TaskTracker,
    /// Tasks that panicked.
    panics: panics::Panics,
    /// Lanes that are being worked on; `true` when somebody asked again meanwhile.
    lanes: Mutex<HashMap<ConversationId, bool>>,
    /// Turns that run now, for whoever wants them to end.
    running: Mutex<HashMap<MessageId, Running>>,
    /// What turns asked other agents that are out of sight now.
    adrift: agents::Adrift,
}

/// What configuration decides about turns.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) turns_max: u32,
    pub(crate) turns_reserved: u32,
    pub(crate) turns_per_channel: u32,
    pub(crate) per_sender: Arc<TurnsPerSender>,
    pub(crate) turn_timeout: Duration,
    pub(crate) turn_idle: Duration,
    pub(crate) progress: progress::Pace,
    pub(crate) exec: ExecSettings,
    pub(crate) keep: Keep,
    backoff_base_ms: i64,
    config_probe_ms: i64,
    pub(crate) boot_id: BootId,
    pub(crate) work_root: PathBuf,
    pub(crate) file_store: FileStore,
    /// What no file that is sent may hold.
    pub(crate) secret_registry: Arc<SecretRegistry>,
    /// What tasks may be.
    pub(crate) tasks: TaskSettings,
    /// Who can be told of them.
    pub(crate) notify: NotifySettings,
    /// Tells the owners of tasks.
    pub(crate) push_client: Arc<dyn PushClient>,
    pub(crate) owner: TierSettings,
    pub(crate) peer: TierSettings,
    pub(crate) tool: TierSettings,
    /// What senders may use within a day.
    pub(crate) budgets: Arc<Budgets>,
    /// What is decided beforehand about what Codex asks.
    pub(crate) policy: Policy,
    pub(crate) approvals: Approvals,
    /// Other agents.
    pub(crate) a2a: A2aSettings,
    /// What no isolated turn may read, wherever it works.
    hidden: Vec<String>,
}

/// How long what Codex asks waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Approvals {
    /// When silence becomes a decline.
    pub(crate) deadline: Duration,
    /// When whoever may decide is told again; never when absent.
    pub(crate) reminder: Option<Duration>,
}

/// What one tier's turns may do.
#[derive(Clone, Debug)]
pub(crate) struct TierSettings {
    pub(crate) sandbox: Sandbox,
    pub(crate) reads: ReadAccess,
    /// What its isolated turns may read beside their working directory, by its real place.
    reads_also: Vec<PathBuf>,
    pub(crate) approval_policy: ApprovalPolicy,
    pub(crate) model: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) workdir: Option<PathBuf>,
    pub(crate) one_writer: bool,
    pub(crate) on_cut: CutPolicy,
    pub(crate) mid_turn: MidTurn,
}

impl Settings {
    pub(crate) fn new(
        config: &Config,
        boot_id: BootId,
        work_root: PathBuf,
        file_store: FileStore,
    ) -> Self {
        Self {
            turns_max: config.daemon.turns_max,
            turns_reserved: config.turns_reserved(),
            turns_per_channel: config.turns_per_channel(),
            per_sender: Arc::new(TurnsPerSender {
                max: config.turns_per_sender(),
                owners: owner_tasks(),
            }),
            turn_timeout: Duration::from_secs(config.turn.timeout_secs),
            turn_idle: Duration::from_secs(config.turn.idle_secs),
            progress: config.turn.progress(),
            exec: config.exec_settings(),
            keep: config.keep(),
            backoff_base_ms: milliseconds(config.turn.backoff_base_ms),
            config_probe_ms: milliseconds(config.turn.config_probe_secs.saturating_mul(1000)),
            boot_id,
            work_root,
            file_store,
            secret_registry: Arc::default(),
            tasks: TaskSettings {
                roots: config.tasks.roots.clone(),
                homes: config.codex.homes.clone(),
                places: Places::default(),
            },
            notify: NotifySettings::default(),
            push_client: Arc::new(HttpPushClient::new(config)),
            owner: TierSettings::new(&config.tiers.owner),
            peer: TierSettings::new(&config.tiers.peer),
            tool: TierSettings::new(&config.tiers.tool),
            budgets: Arc::new(config.budgets()),
            policy: config.policy(),
            approvals: config.approvals.approvals(),
            a2a: A2aSettings::new(config),
            hidden: Vec::new(),
        }
    }

    /// The values that must not leave.
    #[must_use]
    pub(crate) fn guarding(mut self, secret_registry: &Arc<SecretRegistry>) -> Self {
        self.secret_registry = Arc::clone(secret_registry);
        self
    }

    /// What no isolated turn may read, wherever it works.
    #[must_use]
    pub(crate) fn hiding(mut self, places: &[PathBuf]) -> Self {
        let places = places.iter().map(|place| place.display().to_string());
        self.hidden = places.collect();
        self
    }

    /// What commands of a tier with this access may read.
    fn reads(&self, access: ReadAccess, of: Tier) -> Reads {
        match access {
            ReadAccess::Disk => Reads::Disk,
            ReadAccess::Isolated => Reads::Shielded {
                also: reads_also::still_there(&self.tier(of).reads_also),
                hidden: self.hidden.clone(),
            },
        }
    }

    /// What a directory that turns write in must not hold.
    #[must_use]
    pub(crate) fn keeping_out_of(mut self, places: Places) -> Self {
        self.tasks.places = places;
        self
    }

    /// Who can be told of tasks.
    #[must_use]
    pub(crate) fn telling(mut self, notify: NotifySettings) -> Self {
        self.notify = notify;
        self
    }

    /// How soon a message without an answer is tried again.
    fn pace(&self) -> Pace {
        Pace {
            backoff_base_ms: self.backoff_base_ms,
            config_probe_ms: self.config_probe_ms,
            jitter: ids::jitter(),
        }
    }

    /// A sender's power comes from the tier, and the tier from the channel; never from a text.
    fn tier(&self, tier: Tier) -> &TierSettings {
        match tier {
            Tier::Owner => &self.owner,
            Tier::Peer => &self.peer,
            Tier::Tool => &self.tool,
        }
    }

    /// What the scheduler asks the ledger for at `now`.
    fn claim(&self, now: Timestamp) -> Claim {
        Claim {
            turns_max: self.turns_max,
            turns_reserved: self.turns_reserved,
            turns_per_channel: self.turns_per_channel,
            per_sender: Arc::clone(&self.per_sender),
            one_writer: self.one_writer(),
            readers: self.readers(),
            budgets: Arc::clone(&self.budgets),
            now,
        }
    }

    /// What a sender may store. The owner may store what they like, also as tasks.
    fn storage(&self, channel: &ChannelId, sender: &str, tier: Tier) -> StorageBudget {
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

    /// Shared directories in which writing turns take turns.
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
    fn workdir(&self, tier: Tier, conversation_id: &ConversationId) -> String {
        match &self.tier(tier).workdir {
            Some(shared) => shared.display().to_string(),
            None => self
                .work_root
                .join(conversation_id.as_str())
                .display()
                .to_string(),
        }
    }

    fn thread_spec(&self, of: Tier, conversation: &Conversation) -> ThreadSpec {
        let tier = self.tier(of);
        let mut instructions = STANDING_INSTRUCTIONS.to_owned();
        // Nobody takes files from a task: its directory is the caller's own.
        let is_task = conversation.channel.as_str() == bridge_channel::task::CHANNEL;
        if tier.sandbox.can_write() && !is_task {
            let outbox = outbox_of(&conversation.workdir, &conversation.conversation_id);
            let bytes_max = self.file_store.max_bytes();
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
            sandbox: tier.sandbox,
            approval_policy: tier.approval_policy,
            model: tier.model.clone(),
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
            reads: match tier.reads {
                ReadsKey::Disk => ReadAccess::Disk,
                ReadsKey::Shielded => ReadAccess::Isolated,
            },
            reads_also: reads_also::real_places(&tier.reads_also),
            approval_policy: tier.approval_policy(),
            model: tier.model.clone(),
            instructions: tier.instructions.clone(),
            workdir: tier.workdir.clone(),
            one_writer: tier.one_writer,
            on_cut: tier.on_cut(),
            mid_turn: tier.mid_turn(),
        }
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) fn new(ledger: L, agent: A, sink: S, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            agent,
            sink,
            hub: Hub::default(),
            settings: RwLock::new(Arc::new(settings)),
            reloads: OnceLock::new(),
            wake: Notify::new(),
            ack_wake: Notify::new(),
            slots: Arc::default(),
            doubt: Notify::new(),
            joining: steer::Order::default(),
            hands: rescue::Hands::default(),
            stopping: CancellationToken::new(),
            halt: CancellationToken::new(),
            fenced: CancellationToken::new(),
            damaged: CancellationToken::new(),
            tally: tally::Tally::default(),
            pulse: alive::Pulse::default(),
            tasks: TaskTracker::new(),
            panics: panics::Panics::default(),
            lanes: Mutex::default(),
            running: Mutex::default(),
            adrift: agents::Adrift::default(),
        })
    }
}
