//! Every key of `codex-bridge.toml`, with its default and its bounds.
//!
//! The doc comments are what an operator reads: they become the descriptions of the JSON Schema. What the
//! file says about them together (a directory that must exist, say) is judged in [`super::validate`].

use super::a2a::A2aConfig;
use super::fleet::{FleetConfig, LedgerConfig};
use super::http::{ConsoleConfig, HttpConfig};
use super::loop_guard::LoopGuardConfig;
use super::molecule::MoleculeConfig;
use super::quota::QuotaConfig;
use super::rules::{ApprovalsConfig, RuleConfig};
use super::tasks::{NotifyConfig, TasksConfig};
use super::telemetry::TelemetryConfig;
use super::tiers::Tiers;
use bridge_channel::files::{FILE_MAX_BYTES, MESSAGE_MAX_BYTES};
use bridge_core::budget::Budgets;
use bridge_core::limits;
use bridge_core::step::Keep;
use bridge_core::value::{Sandbox, Transport};
use bridge_host::{NewThreads, TransportChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most turns at a time that can be asked for; beyond it one Codex process is not the way to go.
const TURNS_MAX: u32 = 512;
/// A day: longer waits are mistakes.
pub(super) const DAY_SECS: u64 = 24 * 3_600;
/// The longest time that finished messages can be kept.
const RETENTION_MAX_DAYS: u32 = 3_650;
/// A day in the ledger's milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;
/// Ten starts a second is a loop, not a recovery.
const RESTARTS_MAX: u32 = 600;
/// A terabyte: more is a mistake of units.
const MEMORY_MAX_MIB: u64 = 1024 * 1024;
/// The longest time a stop may take.
const DRAIN_MAX_SECS: u64 = 3_600;

/// The configuration of codex-bridge. Every key may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The daemon itself.
    pub daemon: DaemonConfig,
    /// Where the database is.
    pub ledger: LedgerConfig,
    /// Daemons that share one database.
    pub fleet: FleetConfig,
    /// The Codex that is started.
    pub codex: CodexConfig,
    /// How the account's rate limits are shared out between people and agents.
    pub quota: QuotaConfig,
    /// What senders may do, by who they are. No message can change it.
    pub tiers: Tiers,
    /// Tasks that callers start.
    pub tasks: TasksConfig,
    /// Who may be notified when a task has finished.
    pub notify: NotifyConfig,
    /// How long what Codex asks waits for a person.
    pub approvals: ApprovalsConfig,
    /// What is decided beforehand about what Codex asks; the first rule that matches counts.
    pub rules: Vec<RuleConfig>,
    /// How long turns may take, and when they are tried again.
    pub turn: TurnConfig,
    /// Turns over `codex exec`.
    pub exec: ExecConfig,
    /// How long finished messages are kept.
    pub retention: RetentionConfig,
    /// Workspaces of a Molecule platform.
    pub molecule: MoleculeConfig,
    /// Files that come with messages and go with answers.
    pub files: FilesConfig,
    /// The HTTP API over TCP, for holders of a token.
    pub http: HttpConfig,
    /// The console, a page in the browser.
    pub console: ConsoleConfig,
    /// Other agents that call this one, and those that it may call, over A2A.
    pub a2a: A2aConfig,
    /// How much agents may say before they are stopped or wait.
    pub loop_guard: LoopGuardConfig,
    /// What is logged.
    pub log: LogConfig,
    /// Traces of messages, for a receiver that speaks OpenTelemetry.
    pub telemetry: TelemetryConfig,
}

/// The daemon itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DaemonConfig {
    /// How many turns run at the same time, over all conversations.
    #[schemars(range(min = 1, max = TURNS_MAX))]
    pub turns_max: u32,
    /// How many of them are kept for the owner: messages of agents, of programs with a token and of other people never
    /// take the last ones. Less than `turns_max`. Without it 2, or half of `turns_max` where that is less.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 0, max = TURNS_MAX))]
    pub turns_reserved: Option<u32>,
    /// How many turns one sender may have at the same time; the owner may have all of them. Without it half of those
    /// that are not kept for the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = TURNS_MAX))]
    pub turns_per_sender: Option<u32>,
    /// How many of them one channel may have at the same time. Without it a channel may have all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = TURNS_MAX))]
    pub turns_per_channel: Option<u32>,
    /// How long running turns may go on after SIGTERM, in seconds, before they are interrupted.
    #[schemars(range(min = 0, max = DRAIN_MAX_SECS))]
    pub drain_secs: u64,
    /// The file of the database's key, by its absolute path; it is made where there is none. Without it the credential
    /// `codex-bridge.key` of the service counts, else `key` in the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub key_file: Option<PathBuf>,
    /// A unix group whose members may send messages over a socket of their own, each as `user NAME`, in conversations of
    /// their own and never as the owner. The daemon's user must be in it. Without it nobody but the daemon's user can.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub group: Option<String>,
    /// What members of the group may do, each with what is their own.
    pub group_scopes: Vec<GroupScope>,
    /// The socket of the group, by its absolute path, in a directory that only the daemon's user or root may write to.
    /// Without it `group.sock` in the runtime directory of the service, else `/run/codex-bridge/group.sock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub group_socket: Option<PathBuf>,
}

/// What members of the group may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroupScope {
    /// See their own messages, answers and conversations.
    Read,
    /// Send messages.
    Send,
}

/// The Codex that is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodexConfig {
    /// The Codex executable: a path, or a name that is looked for on PATH. Without it `codex` is looked for.
    /// CODEX_BRIDGE_CODEX_BIN and --codex-bin go before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub bin: Option<PathBuf>,
    /// CODEX_HOME for Codex: where it keeps its login, configuration and threads. An absolute directory
    /// that exists. Without it the CODEX_HOME of the environment counts, else `~/.codex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf", length(min = 1))]
    pub home: Option<PathBuf>,
    /// Other directories that a task may ask for as its CODEX_HOME; absolute, and they must exist. Each has a Codex
    /// of its own while it is used.
    pub homes: Vec<PathBuf>,
    /// How the daemon talks to Codex.
    pub transport: TransportKey,
    /// How Codex keeps new threads; those that exist stay as they are.
    pub history: HistoryKey,
    /// Names of environment variables that Codex may see beside the usual ones, such as the key of a model
    /// provider. The commands that Codex runs do not get them.
    pub env_pass: Vec<String>,
    /// How long Codex lives on behind its socket without a daemon, in seconds, before it ends by itself.
    #[schemars(range(min = 1, max = DAY_SECS))]
    pub linger_secs: u64,
    /// How much memory Codex and what it started may have, in MiB; 0 is no budget. Conversations that nobody used for the
    /// longest time are unloaded for it, and loaded again by their next message. Each CODEX_HOME has a Codex of its own.
    #[schemars(range(min = 0, max = MEMORY_MAX_MIB))]
    pub memory_mib: u64,
    /// How often Codex may be started within a minute before it is left alone for a while.
    #[schemars(range(min = 1, max = RESTARTS_MAX))]
    pub restarts_per_minute: u32,
}

/// How the daemon talks to Codex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKey {
    /// The unix socket where this Codex has one, otherwise pipes. Pipes as well where a tier has no
    /// sandbox: its commands could reach the socket.
    #[default]
    Auto,
    /// Only the unix socket: turns survive a crash of the daemon.
    Socket,
    /// Only pipes: Codex ends with the daemon.
    Stdio,
}

/// How Codex keeps new threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryKey {
    /// As Codex does by itself: every item, with an index.
    #[default]
    Paginated,
    /// Less work for Codex in each turn. The commands that it ran are not shown in the thread later, it takes longer
    /// to load a long one, and work that failed unseen counts as cut (`on_cut`) where it might have begun again.
    Legacy,
}

/// How long turns may take, and when they are tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TurnConfig {
    /// How long one turn may take, in seconds, before it is interrupted.
    #[schemars(range(min = 1, max = DAY_SECS))]
    pub timeout_secs: u64,
    /// How long a turn may be silent, in seconds, before it is interrupted. The time that a command
    /// runs does not count.
    #[schemars(range(min = 1, max = DAY_SECS))]
    pub idle_secs: u64,
    /// After how many seconds a long turn sends its first progress message to a chat; 0 is never.
    #[schemars(range(min = 0, max = DAY_SECS))]
    pub progress_after_secs: u64,
    /// How many seconds later the next one follows.
    #[schemars(range(min = 10, max = DAY_SECS))]
    pub progress_every_secs: u64,
    /// The first wait before a failed turn is tried again, in milliseconds; it doubles each time.
    #[schemars(range(min = 1, max = limits::TURN_BACKOFF_MAX_MS))]
    pub backoff_base_ms: u64,
    /// How soon a message that waits for you (no login, broken configuration) is tried again, in seconds.
    #[schemars(range(min = 1, max = DAY_SECS))]
    pub config_probe_secs: u64,
}

/// How long finished messages are kept. A message is also what tells a repeated one apart, so nothing goes
/// while its source may show it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// Answered and cancelled messages, in days.
    #[schemars(range(min = 1, max = RETENTION_MAX_DAYS))]
    pub done_days: u32,
    /// Failed messages, in days.
    #[schemars(range(min = 1, max = RETENTION_MAX_DAYS))]
    pub dead_days: u32,
    /// After how many days without use a conversation loses its history in Codex and its own working directory: its
    /// next message begins a new thread, which is told what was said last. A directory that you named is never touched.
    /// Without it, and over PostgreSQL, nothing of a conversation goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = RETENTION_MAX_DAYS))]
    pub conversations_days: Option<u32>,
    /// The record of what people did by hand, in days.
    #[schemars(range(min = 1, max = RETENTION_MAX_DAYS))]
    pub audit_days: u32,
}

/// Files that come with messages and go with answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// The longest file that is taken in or sent, in bytes. A message has at most 10 files and 100 MiB.
    #[schemars(range(min = 1, max = MESSAGE_MAX_BYTES))]
    pub max_bytes: u64,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or levels by module such as
    /// `info,bridge_host=debug`. CODEX_BRIDGE_LOG goes before it.
    pub level: String,
    /// How events are written. Changes need a restart.
    pub format: LogFormat,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line of text on standard error for each, for people.
    #[default]
    Text,
    /// A JSON object on standard error for each, with its fields.
    Json,
    /// An entry of systemd's journal for each, with its fields.
    Journald,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            turns_max: limits::TURNS_IN_FLIGHT_DEFAULT,
            turns_reserved: None,
            turns_per_sender: None,
            turns_per_channel: None,
            drain_secs: 60,
            key_file: None,
            group: None,
            group_scopes: vec![GroupScope::Read, GroupScope::Send],
            group_socket: None,
        }
    }
}

impl Default for CodexConfig {
    fn default() -> Self {
        Self {
            bin: None,
            home: None,
            homes: Vec::new(),
            transport: TransportKey::Auto,
            history: HistoryKey::Paginated,
            env_pass: Vec::new(),
            linger_secs: 600,
            memory_mib: 512,
            restarts_per_minute: 5,
        }
    }
}

impl Default for TurnConfig {
    fn default() -> Self {
        Self {
            timeout_secs: 1_800,
            idle_secs: 300,
            progress_after_secs: 180,
            progress_every_secs: 300,
            backoff_base_ms: limits::TURN_BACKOFF_BASE_MS.unsigned_abs(),
            config_probe_secs: limits::CONFIG_PROBE_MS.unsigned_abs() / 1000,
        }
    }
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            done_days: 30,
            dead_days: 90,
            conversations_days: None,
            audit_days: 400,
        }
    }
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self {
            max_bytes: FILE_MAX_BYTES,
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Text,
        }
    }
}

impl Config {
    /// What senders may use within a day.
    pub fn budgets(&self) -> Budgets {
        let tiers = self.tiers.budgets();
        Budgets {
            senders: self.a2a.budgets(&tiers),
            tiers: tiers.to_vec(),
            quota: self.quota.rules(),
        }
    }

    /// How the daemon talks to Codex. A command without a sandbox could reach Codex's control socket and
    /// answer what Codex asks, so there is no socket where a tier has no sandbox.
    pub fn transport_choice(&self) -> TransportChoice {
        match self.codex.transport {
            TransportKey::Auto if self.has_unsandboxed_tier() => {
                TransportChoice::Only(Transport::Stdio)
            }
            TransportKey::Auto => TransportChoice::Auto,
            TransportKey::Socket => TransportChoice::Only(Transport::Socket),
            TransportKey::Stdio => TransportChoice::Only(Transport::Stdio),
        }
    }

    /// How Codex is to keep new threads.
    pub fn new_threads(&self) -> NewThreads {
        match self.codex.history {
            HistoryKey::Paginated => NewThreads::Usual,
            HistoryKey::Legacy => NewThreads::Legacy,
        }
    }

    /// How long a conversation keeps its history and its directory without use, in milliseconds; `None` is for good.
    pub fn conversations_kept(&self) -> Option<i64> {
        let days = self.retention.conversations_days?;
        Some(i64::from(days).saturating_mul(DAY_MS))
    }

    /// How many bytes each Codex may have; `None` without a budget.
    pub fn memory_budget(&self) -> Option<u64> {
        let mib = Some(self.codex.memory_mib).filter(|mib| *mib > 0)?;
        mib.checked_mul(1024 * 1024)
    }

    /// How many turns are kept for the owner. A single place is shared by all senders.
    pub fn turns_reserved(&self) -> u32 {
        let usual = limits::TURNS_RESERVED_DEFAULT.min(self.daemon.turns_max / 2);
        self.daemon.turns_reserved.unwrap_or(usual)
    }

    /// How many turns one sender may have at the same time.
    pub fn turns_per_sender(&self) -> u32 {
        let shared = self.daemon.turns_max.saturating_sub(self.turns_reserved());
        self.daemon.turns_per_sender.unwrap_or((shared / 2).max(1))
    }

    /// How many turns one channel may have at the same time. No limit is not `turns_max`: people have places of their
    /// own also while turns that waited for a person go on all at once.
    pub fn turns_per_channel(&self) -> u32 {
        self.daemon.turns_per_channel.unwrap_or(u32::MAX)
    }

    /// How long rows are kept. No channel shows a row again after [`limits::REDELIVERY_MS`].
    pub fn keep(&self) -> Keep {
        let days = |days: u32| i64::from(days).saturating_mul(DAY_MS);
        Keep {
            done_ms: days(self.retention.done_days),
            dead_ms: days(self.retention.dead_days),
            audit_ms: days(self.retention.audit_days),
            redelivery_ms: limits::REDELIVERY_MS,
        }
    }

    /// Variables that Codex may see and its commands may not: what is passed on purpose is mostly a key.
    pub fn hidden_from_commands(&self) -> Vec<String> {
        self.codex.env_pass.clone()
    }

    /// Whether the commands of any tier run without a sandbox.
    pub(super) fn has_unsandboxed_tier(&self) -> bool {
        self.tiers.sandboxes().contains(&Sandbox::DangerFullAccess)
    }
}

/// Turns over `codex exec`: a process for every turn. It can't be steered, asks nobody and is stopped by its end; what
/// leaves the sandbox fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecConfig {
    /// Conversations that run over `codex exec`, by their key, on any channel. A `*` at the end stands for whatever
    /// follows. A channel as a whole has a key `transport`.
    pub conversations: Vec<String>,
    /// How long one run may take, in seconds, before it is ended with everything it started.
    #[schemars(range(min = 1, max = DAY_SECS))]
    pub timeout_secs: u64,
}

impl Default for ExecConfig {
    fn default() -> Self {
        Self {
            conversations: Vec::new(),
            timeout_secs: 600,
        }
    }
}

impl Config {
    /// Whether anything runs over `codex exec`.
    pub(super) fn uses_exec(&self) -> bool {
        !self.exec.conversations.is_empty() || self.molecule.uses_exec()
    }
}

impl ExecConfig {
    /// What is wrong with the values.
    pub(super) fn problem(&self) -> Option<String> {
        let empty = self.conversations.iter().any(|key| key.is_empty());
        empty.then(|| {
            "holds an empty key; write the key of a conversation, or `*` for all".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn without_a_sandbox_there_is_no_socket() {
        assert_eq!(Config::default().transport_choice(), TransportChoice::Auto);
        let danger = config("tiers.owner.sandbox = 'danger-full-access'");
        assert_eq!(
            danger.transport_choice(),
            TransportChoice::Only(Transport::Stdio)
        );
        let socket = config("codex.transport = 'socket'");
        assert_eq!(
            socket.transport_choice(),
            TransportChoice::Only(Transport::Socket)
        );
    }

    #[test]
    fn new_threads_follow_history_setting() {
        assert_eq!(Config::default().new_threads(), NewThreads::Usual);
        let legacy = config("codex.history = 'legacy'");
        assert_eq!(legacy.new_threads(), NewThreads::Legacy);
    }

    #[test]
    fn what_is_chosen_reaches_the_core() {
        let keep = config("retention.done_days = 2\nretention.dead_days = 3").keep();
        assert_eq!((keep.done_ms, keep.dead_ms), (2 * DAY_MS, 3 * DAY_MS));
        let all = config("daemon.turns_max = 5");
        assert_eq!(all.turns_per_channel(), u32::MAX);
        let some = config("[daemon]\nturns_max = 5\nturns_per_channel = 2");
        assert_eq!(some.turns_per_channel(), 2);
    }

    #[test]
    fn f3_shares_of_turns_follow_their_number() {
        for (text, reserved, per_sender) in [
            ("", 2, 7),
            ("daemon.turns_max = 1", 0, 1),
            ("daemon.turns_max = 2", 1, 1),
            ("daemon.turns_max = 3", 1, 1),
            ("daemon.turns_max = 8", 2, 3),
            ("daemon.turns_reserved = 0", 0, 8),
            ("[daemon]\nturns_max = 9\nturns_reserved = 8", 8, 1),
            ("daemon.turns_per_sender = 16", 2, 16),
        ] {
            let config = config(text);
            let found = (config.turns_reserved(), config.turns_per_sender());
            assert_eq!(found, (reserved, per_sender), "{text}");
        }
    }
}
