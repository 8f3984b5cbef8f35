//! The command line: names, flags and help. What a command does is in its own module.

mod codex;
mod console;
mod control;
mod init;
mod ledger;
mod loans;
mod nodes;
#[cfg(test)]
mod tests;

pub(crate) use codex::{RehearseArgs, UpgradeCodexArgs};
pub(crate) use console::ConsoleArgs;
pub(crate) use control::{
    ControlCommand, DecideArgs, ListArgs, NotifyArgs, PeersCommand, RequestsArgs, RespondArgs,
    StartTaskArgs, SteerArgs, TokenCommand, WatchArgs,
};

pub(crate) use init::InitArgs;
pub(crate) use ledger::{CopyArgs, LedgerCommand};
pub(crate) use loans::{LendArgs, ReturnArgs};
pub(crate) use nodes::{MoveArgs, NodeArgs, NodeCommand};

use crate::audit::AuditArgs;
use crate::policy::PolicyCommand;
use bridge_daemon::config::{ConfigError, Environment};
use bridge_daemon::ledger_key::KeyLocation;
use bridge_daemon::state::StateDir;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A daemon between people and agents on one side and the OpenAI Codex CLI on the other.
///
/// Messages become Codex turns on the thread of their conversation; answers go back where the message came from.
/// Try `codex-bridge demo` first: it needs no account and no network.
#[derive(Debug, Parser)]
#[command(
    name = "codex-bridge",
    version,
    propagate_version = true,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Where the database, the sockets and the working directories live
    /// [default: $CODEX_BRIDGE_STATE_DIR, or codex-bridge in the XDG state directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// The configuration file [default: codex-bridge/codex-bridge.toml in the XDG config directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

// How a command prints its result. No doc comment: clap would take it for the help of the command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CodexBinArg {
    /// The Codex binary [default: $CODEX_BRIDGE_CODEX_BIN, or `codex` on the PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) codex_bin: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct WorkdirArg {
    /// A directory that all conversations work in together, instead of one each
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TaskArg {
    /// A task or message: its id, the end or beginning of it, the name of a conversation, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

// The dead letters that a command is about, beside its own flag `--all`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeadIds {
    /// Messages or tasks: ids, their ends or beginnings, names of conversations, or `last`
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub(crate) ids: Vec<String>,
}

impl Common {
    /// The place of the ledger's key, for commands beside the daemon.
    pub(crate) fn find_key(
        &self,
        environment: &Environment,
        state: &StateDir,
    ) -> Result<KeyLocation, ConfigError> {
        let (file, state_dir) = (self.config.as_deref(), self.state_dir.as_deref());
        KeyLocation::find(file, state_dir, environment, state)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Ask what is needed, write the first configuration, and check everything
    Init(InitArgs),
    /// Run the daemon in the foreground, with its log on stderr
    Run(RunArgs),
    /// Show everything on this machine: a scripted model, a private Codex, two conversations
    #[cfg(feature = "demo")]
    Demo(bridge_demo::DemoArgs),
    /// Prove delivery: kill the daemon and Codex again and again, break replies, count what was seen outside
    #[cfg(feature = "demo")]
    Drill(bridge_demo::DrillArgs),
    /// Send a message, watch Codex work, print the answer
    Send(SendArgs),
    /// Ask another agent over A2A, and print its answer; needs no daemon
    Call(CallArgs),
    /// List conversations: what needs you first, then the newest
    Ls(LsArgs),
    /// Print what was said, both sides, newest last; -f goes on with what comes
    Log(LogArgs),
    /// Print a message or task and its answer
    Show(ShowArgs),
    /// Explain where a message or task is, and what happens next
    Why(IdArgs),
    #[command(flatten)]
    Control(ControlCommand),
    /// Stop a message or a task, waiting or at work; or all of one sender
    #[command(aliases = ["interrupt", "cancel"])]
    Stop(StopArgs),
    /// Open a conversation in Codex's own terminal; its messages wait, and know afterwards what was said there
    #[command(visible_alias = "open")]
    Lend(LendArgs),
    /// End the loan of a conversation
    Return(ReturnArgs),
    /// List messages that only you can move on: failed, or waiting for you
    #[command(after_help = "Example: codex-bridge failed --limit 5")]
    Failed(DeadListArgs),
    /// Send failed messages again: to the end of their conversations, or on from where they were cut
    #[command(
        after_help = "One that has an answer is only delivered again. At most 100 go at once and 8 are under way at a time; after 3 failures in a row the rest is left.\n\nExit codes: 0 all were sent again; 1 some were not, it says which\n\nExamples:\n  codex-bridge retry last\n  codex-bridge retry --all --per-second 2"
    )]
    Retry(RedriveArgs),
    /// Give failed messages up for good; their texts stay readable until retention removes them
    #[command(
        after_help = "Exit codes: 0 all were given up; 1 some were not, it says which\n\nExample: codex-bridge discard a8945be2"
    )]
    Discard(DropArgs),
    /// Older names: list, show, redrive, drop
    #[command(subcommand, hide = true)]
    Dead(DeadCommand),
    /// Show what needs you, and how the daemon is; or how one message or task is
    Status(StatusArgs),
    /// Open the console in the browser: see everything and decide; --phone for a phone
    Console(ConsoleArgs),
    /// Serve MCP on standard input and output, for agents that start it themselves
    Mcp(McpArgs),
    /// Check Codex, its login and sandbox, and this machine; say what to do
    Doctor(DoctorArgs),
    /// Install another Codex and let the daemon change to it while it works
    UpgradeCodex(UpgradeCodexArgs),
    /// Try another Codex on the shape of your conversations, beside the present one; nothing is changed
    Rehearse(RehearseArgs),
    /// Copy the database to a file, also while the daemon runs
    Backup(BackupArgs),
    /// Make a sound database from a damaged one; nothing that may have run is run again
    Recover(RecoverArgs),
    /// Move the database between a file and PostgreSQL
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Check or describe the configuration file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Say what would happen to something that Codex asks, and by which rule
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Let the running daemon read its configuration again, as SIGHUP does
    #[command(
        after_help = "Rules, approvals, tiers, turns, retention and the log take effect for what begins afterwards; other keys are named and wait for a restart.\n\nExit codes: 0 the file is in force; 1 it can't be used, and nothing changed"
    )]
    Reload(OutputArgs),
    /// Daemons that share the database: list them, drain one
    #[command(subcommand)]
    Node(NodeCommand),
    /// Give a conversation to another node
    Move(MoveArgs),
    /// List what people did by hand, and check that nobody changed the record
    Audit(AuditArgs),
    /// Describe the HTTP API
    #[command(subcommand)]
    Api(ApiCommand),
    /// Run the daemon as a systemd service
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Print this help, that of a command, or with --all every command
    Help(HelpArgs),
    /// Writes manual pages, one per command (used by packages)
    #[command(hide = true)]
    Man { directory: PathBuf },
    /// Prints names that shells complete (used by their scripts)
    #[command(hide = true)]
    Complete { kind: CompleteKind },
    /// Keeps one Codex process (used by the daemon)
    #[command(hide = true)]
    Keeper(KeeperArgs),
    /// Becomes Codex (used by the keeper)
    #[command(hide = true)]
    KeeperExec(KeeperExecArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 stopped as told; 1 it could not start or go on; 65 the database is damaged, see `recover`"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) codex: CodexBinArg,
    #[command(flatten)]
    pub(crate) workdir: WorkdirArg,
    /// Serve the HTTP API over TCP as well, for holders of a token; port 0 picks a free one [default: $CODEX_BRIDGE_LISTEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Use platforms on plain http, where anyone on the way can read the token [default: $CODEX_BRIDGE_ALLOW_HTTP]
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// Work in the directory that it was started in, as `codex-channel-molecule` did
    #[arg(long, hide = true)]
    pub(crate) work_here: bool,
    /// On SIGTERM, leave Codex working behind its socket for the next daemon
    #[arg(long)]
    pub(crate) handover: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Started by an MCP client, with `codex-bridge` as command and `mcp` as argument. It talks to the daemon of the state directory; where none runs, it runs one while it lives. Its log is on stderr."
)]
pub(crate) struct McpArgs {
    /// The Codex binary of a daemon that it runs itself [default: $CODEX_BRIDGE_CODEX_BIN, or `codex` on the PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) codex_bin: Option<PathBuf>,
}

// What `send` and `start` share: where the work is done, and what comes with it. No doc comment: see `OutputArgs`.
#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Where Codex works [default: `send`: a directory of the conversation's own; `start`: this directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The model [default: what Codex is configured with]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// `read-only`, or `workspace-write` to change files in the directory [default: what the configuration says]
    #[arg(long, value_name = "SANDBOX")]
    pub(crate) sandbox: Option<String>,
    /// A file for Codex; may be given more than once
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,
    /// Print the answer as it came, also on a terminal
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "`send` is a message in a conversation that remembers what was said; `start` is a task of its own with an id, in this directory. --cwd, --model and --sandbox are fixed by the first message of a conversation.\n\nExit codes: 0 the answer was printed; 1 refused, or finished without an answer; 3 somebody stopped it; 75 the message is kept and answered later, see `show`, or waits for you; 130 you left with Ctrl-C, it goes on\n\nOn a terminal, what Codex asks is answered right there.\n\nExample: codex-bridge send -c review 'Look at the last commit'"
)]
pub(crate) struct SendArgs {
    /// The message; `-` reads it from standard input. Put `--` before a text that begins with `-`
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    /// Which conversation it belongs to; each has its own memory and working directory
    #[arg(long, short, value_name = "KEY", default_value = bridge_channel::local::DEFAULT_CONVERSATION)]
    pub(crate) conversation: String,
    /// How long to wait for the answer; the message is worked on all the same
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 3600,
        conflicts_with = "no_wait"
    )]
    pub(crate) wait: u64,
    /// Only see that the daemon has it, and print its id
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// Print the message and its answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 the answer was printed; 1 it could not be asked, refused, or failed; 3 somebody stopped it there; 75 its task goes on, or asks for something; 130 you left with Ctrl-C, it goes on\n\nOnly https to public addresses is called, and redirects are not followed.\n\nExample: codex-bridge call https://planner.example 'Which of these is due first?' --token-file planner-token"
)]
pub(crate) struct CallArgs {
    /// Where the agent is, or its agent card
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// What to ask; `-` reads it from standard input. Put `--` before a text that begins with `-`
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    /// A file of mode 0600 with the token that the agent gave us
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Go on with this context, which an earlier answer named
    #[arg(long, value_name = "ID")]
    pub(crate) context: Option<String>,
    /// Tell this task what it asked for
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// The address may be one of this machine or network, and need not be https; a token goes over https or to this
    /// machine all the same
    #[arg(long)]
    pub(crate) allow_private: bool,
    /// Only see that the agent has it; do not wait for the answer
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait for the answer; the agent works on it all the same
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 3600,
        conflicts_with = "no_wait"
    )]
    pub(crate) wait: u64,
    /// Print the outcome as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// A message or task: its id, the end or beginning of it, the name of a conversation, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A message or task: its id, the end or beginning of it, the name of a conversation, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Also all that is on record: attempts, events, replies, Codex's thread
    #[arg(long, short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Conversations that wait for you come first, then the newest. `log`, `show`, `why` and `watch` take their names.\n\nExample: codex-bridge ls --limit 5"
)]
pub(crate) struct LsArgs {
    /// How many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 it was printed; 1 there is no such conversation; 130 you left -f\n\nExamples:\n  codex-bridge log              all conversations\n  codex-bridge log review -f    one, and what comes"
)]
pub(crate) struct LogArgs {
    /// A conversation by its name, or by a message or task of it; without it all of them
    #[arg(value_name = "CONVERSATION")]
    pub(crate) conversation: Option<String>,
    /// Go on with what is said from now on, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many messages, the newest ones
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With --sender everything of one sender is stopped: what waits, and what runs. It can be said again: what is over stays as it is. A sender that may still send is stopped for good by `peers revoke` or `token revoke`, which leaves what runs.\n\nExit codes: 0 it is stopped, or there was nothing of the sender; 1 it is not: too late, or given to the turn of another message; 75 its turn has not ended yet\n\nExamples:\n  codex-bridge stop last\n  codex-bridge stop codex-3f2a\n  codex-bridge stop --sender mallory"
)]
pub(crate) struct StopArgs {
    /// A message or task: its id, the end or beginning of it, the name of a conversation, or `last`
    #[arg(
        value_name = "ID",
        required_unless_present = "sender",
        conflicts_with = "sender"
    )]
    pub(crate) id: Option<String>,
    /// How long to wait for the end of its turn; it is interrupted all the same
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) wait: u64,
    /// Whose messages: the name of a token or peer, or the channel's own name for a sender
    #[arg(long, value_name = "NAME")]
    pub(crate) sender: Option<String>,
    /// Only on this channel, such as `a2a`, `local` or `task`
    #[arg(long, value_name = "CHANNEL", requires = "sender")]
    pub(crate) channel: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The older names of `failed`, `show -v`, `retry` and `discard`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List them, newest first, with the reason
    List(DeadListArgs),
    /// Print one with its whole story
    Show(IdArgs),
    /// Send them again: to the end of their conversations, or on from where they were cut
    #[command(alias = "retry")]
    Redrive(RedriveArgs),
    /// Give them up for good; their texts stay readable until retention removes them
    #[command(alias = "discard")]
    Drop(DropArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: u32,
    /// Only those older than this one
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    pub(crate) dead: DeadIds,
    /// All of them, oldest first
    #[arg(long)]
    pub(crate) all: bool,
    /// How many are sent in a second
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) per_second: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    #[command(flatten)]
    pub(crate) dead: DeadIds,
    /// All of them; asks first
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  codex-bridge status                what needs you, and the daemon\n  codex-bridge status --watch        the same, whenever it changes\n  codex-bridge status codex-3f2a     one task: what it did last, and what it asks"
)]
pub(crate) struct StatusArgs {
    /// A message or task: its id, the end or beginning of it, the name of a conversation, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Print it again whenever it changes, until Ctrl-C
    #[arg(long, short, conflicts_with = "id")]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) codex: CodexBinArg,
    /// Also try this Codex with scripted turns, in about 5 s: no login is used, and the verdict is remembered
    #[arg(long)]
    pub(crate) deep: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The copy holds messages, answers and their states. Codex's own threads are not in it: they are in CODEX_HOME."
)]
pub(crate) struct BackupArgs {
    /// Where to [default: backups/ledger-<time>.db in the state directory]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The damaged database is kept beside the new one. A message that may have run after what can be read of it counts as failed; `retry` runs it again if you know that it did not."
)]
pub(crate) struct RecoverArgs {
    /// Fill the holes from this backup
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// The database's key, where the configuration does not name it (a credential of the service, for example)
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Go on under another key than the one that signed the audit; where there is none, one is made
    #[arg(long)]
    pub(crate) new_key: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read the configuration and print what is in force
    Check(OutputArgs),
    /// Print the JSON Schema of codex-bridge.toml
    Schema,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApiCommand {
    /// Print the OpenAPI document, as `GET /v1/openapi.json` gives it
    Schema,
    /// Print the JSON Schemas of what `--json` prints, by command
    Json,
    /// Print what holders of each scope may call and what turns of each tier may do, as Markdown
    Permissions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the unit, and say the commands that start it
    #[command(
        after_help = "It does not talk to systemd. A unit that was changed by hand is left as it is without --force.\n\nExample: codex-bridge service install --user --workdir ~/project"
    )]
    Install(ServiceInstall),
    /// Remove the unit; state and secrets stay
    Uninstall(ServicePlace),
    /// Print the installed unit, and whether it was changed by hand
    Show(ServicePlace),
    /// Start the installed service
    Start(ServiceWhere),
    /// Stop it; running turns finish first
    Stop(ServiceWhere),
    /// Stop and start it
    Restart(ServiceWhere),
    /// Say how the service is (`codex-bridge status` says how the work is)
    Status(ServiceWhere),
    /// Print its log
    Logs(ServiceLogs),
}

/// Which installed service; the one that is installed where only one is.
#[derive(Debug, Args)]
#[group(required = false, multiple = false)]
pub(crate) struct ServiceWhere {
    /// Of this user
    #[arg(long)]
    pub(crate) user: bool,
    /// Of this machine
    #[arg(long)]
    pub(crate) system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServiceLogs {
    #[command(flatten)]
    pub(crate) place: ServiceWhere,
    /// Go on printing what comes
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the newest lines
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 100)]
    pub(crate) lines: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ServiceInstall {
    #[command(flatten)]
    pub(crate) place: ServicePlace,
    /// Print the unit instead of writing it
    #[arg(long)]
    pub(crate) print: bool,
    /// Replace a unit that was changed by hand
    #[arg(long)]
    pub(crate) force: bool,
    /// Whom a machine's service runs as [default: codex-bridge]
    #[arg(long, value_name = "USER", requires = "system")]
    pub(crate) run_as: Option<String>,
    #[command(flatten)]
    pub(crate) workdir: WorkdirArg,
    /// The Codex binary [default: `codex` on the PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) codex_bin: Option<PathBuf>,
    /// Leave Codex working behind its socket when the service is stopped or restarted
    #[arg(long)]
    pub(crate) handover: bool,
}

/// Whose manager.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ServicePlace {
    /// Of this user
    #[arg(long)]
    pub(crate) user: bool,
    /// Of this machine, as a user of its own; needs root to write
    #[arg(long)]
    pub(crate) system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// Every command, also the rare ones
    #[arg(long, conflicts_with = "command")]
    pub(crate) all: bool,
    /// Which command
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What a shell completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompleteKind {
    /// Messages, tasks and conversations
    Ids,
    Conversations,
    /// What Codex asks
    Codes,
}

#[derive(Debug, Args)]
pub(crate) struct KeeperArgs {
    #[arg(long)]
    pub(crate) directory: PathBuf,
    #[arg(long)]
    pub(crate) transport: String,
    #[arg(long)]
    pub(crate) linger_ms: u64,
    #[arg(long)]
    pub(crate) lease_until_ms: Option<u64>,
    #[arg(long)]
    pub(crate) prompt_bytes: Option<u64>,
    #[arg(last = true, required = true)]
    pub(crate) codex: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KeeperExecArgs {
    #[arg(last = true, required = true)]
    pub(crate) codex: Vec<String>,
}
