//! The commands that control tasks, questions and tokens: names, flags and help. What they do is in `client::control`.

use super::{OutputArgs, TaskArg, WorkArgs};
use bridge_front::Scope;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum ControlCommand {
    /// Start a task: Codex works on it by itself, and asks when it must
    Start(StartTaskArgs),
    /// List tasks, newest first
    List(ListArgs),
    /// Give a running task or message another instruction
    Steer(SteerArgs),
    /// Answer what Codex asks
    Respond(RespondArgs),
    /// What Codex asks and nobody has answered yet
    Requests(RequestsArgs),
    /// Accept what Codex asks, once
    #[command(
        after_help = "`requests` and `watch` show what is asked, with its code. The first valid answer counts.\n\nExit codes: 0 Codex was answered; 1 it was not, it says why\n\nExample: codex-bridge approve k3x9qz"
    )]
    Approve(DecideArgs),
    /// Decline what Codex asks; its turn goes on without it
    #[command(
        after_help = "`requests` and `watch` show what is asked, with its code. The first valid answer counts.\n\nExit codes: 0 Codex was answered; 1 it was not, it says why\n\nExample: codex-bridge decline k3x9qz"
    )]
    Decline(DecideArgs),
    /// Send the notifications of finished tasks that were not sent yet
    #[command(alias = "notify_completed")]
    NotifyCompleted(NotifyArgs),
    /// Watch Codex work, and answer what it asks right there
    Watch(WatchArgs),
    /// Tokens for other programs, each with what it may do
    #[command(subcommand)]
    Token(TokenCommand),
    /// Other agents that may give Codex tasks over A2A, and nothing else
    #[command(subcommand)]
    Peers(PeersCommand),
    /// Print the completion script of a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// Which shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

const COMPLETIONS_HELP: &str = "\
Ids, conversations and codes are completed as well, as the daemon knows them.

bash, in ~/.bashrc:  source <(codex-bridge completions bash)
zsh:   codex-bridge completions zsh > \"${fpath[1]}/_codex-bridge\"
fish:  codex-bridge completions fish > ~/.config/fish/completions/codex-bridge.fish";

#[derive(Debug, Args)]
#[command(
    after_help = "`start` is a task of its own with an id, in this directory; `send` is a message in a conversation that remembers what was said.\n\nThe task's id is printed alone on stdout; with --wait its answer is. With --conversation it is a message there and has a message's id, as `send --no-wait` gives it.\n\nExit codes: 0 it was started, with --wait it was answered; 1 refused, or finished without an answer; 3 somebody stopped it; 75 with --wait: it goes on, see `watch`; 130 you left with Ctrl-C, it goes on\n\nExamples:\n  codex-bridge start 'Which tests are slow, and why?'\n  codex-bridge start --sandbox workspace-write --wait 'Fix the failing test'\n  git diff | codex-bridge start --notify-target local -"
)]
pub(crate) struct StartTaskArgs {
    /// What to do; `-` reads it from standard input. Put `--` before a text that begins with `-`
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,
    /// Work on in this conversation, with its memory, directory and rights; a new one begins here, read-only
    #[arg(
        long,
        short,
        value_name = "KEY",
        conflicts_with_all = ["approval_policy", "codex_home", "notify_target"]
    )]
    pub(crate) conversation: Option<String>,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// `on-request`, or `untrusted`: then Codex asks before every command, and what you accept may run outside the
    /// sandbox [default: on-request]
    #[arg(long, value_name = "POLICY")]
    pub(crate) approval_policy: Option<String>,
    /// Another CODEX_HOME, one that `codex.homes` of the configuration lists
    #[arg(long, value_name = "DIR")]
    pub(crate) codex_home: Option<PathBuf>,
    /// Who is notified when it is finished: `local` (whoever asks with `notify-completed`, once), `webhook:URL`,
    /// `molecule:WORKSPACE`, `command:NAME`, or a scheme that `notify.schemes` maps
    #[arg(long, value_name = "TARGET")]
    pub(crate) notify_target: Option<String>,
    /// Wait for the answer, so long at most, show what Codex does, and answer what it asks
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "3600",
        conflicts_with = "no_wait"
    )]
    pub(crate) wait: Option<u64>,
    /// Only start it and print its id; this is the default
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: codex-bridge list --limit 5")]
pub(crate) struct ListArgs {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=200))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "It says what became of it: steered (the running turn has it), queued (the next turn begins with it), or refused and why.\n\nExit codes: 0 steered or queued; 1 refused\n\nExample: codex-bridge steer codex-3f2a 'Leave the tests alone'"
)]
pub(crate) struct SteerArgs {
    #[command(flatten)]
    pub(crate) task: TaskArg,
    /// The instruction; `-` reads it from standard input. Put `--` before a text that begins with `-`
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A decision about an approval request, in Codex's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DecisionArg {
    /// Do it, once
    #[value(name = "accept")]
    Accept,
    /// Do it, and the same again while this Codex lives
    #[value(name = "acceptForSession", alias = "accept-for-session")]
    AcceptForSession,
    /// Do not; the turn goes on
    #[value(name = "decline")]
    Decline,
    /// Do not, and end the turn
    #[value(name = "cancel")]
    Cancel,
}

impl DecisionArg {
    /// The API's name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::AcceptForSession => "acceptForSession",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "`status TASK` and `requests` show what is asked. The first valid answer counts; a later one is refused and says who decided.\n\nExit codes: 0 Codex was answered; 1 it was not, it says why\n\nExamples:\n  codex-bridge respond codex-3f2a k3x9qz accept\n  codex-bridge respond codex-3f2a k3x9qz accept --answers '{\"colour\":\"red\"}'"
)]
pub(crate) struct RespondArgs {
    #[command(flatten)]
    pub(crate) task: TaskArg,
    /// The request's id or code
    #[arg(value_name = "REQUEST")]
    pub(crate) request: String,
    /// What is decided
    #[arg(value_name = "DECISION")]
    pub(crate) decision: DecisionArg,
    /// Answers to questions by their names, or a form's fields, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) answers: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: codex-bridge requests --json")]
pub(crate) struct RequestsArgs {
    /// Also those that are decided, newest first
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DecideArgs {
    /// The request's code or id
    #[arg(value_name = "CODE")]
    pub(crate) code: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Notifications go out by themselves; this sends what is still unsent, each once.\n\nExit codes: 0 done; 1 some could not be sent, it says which\n\nExample: codex-bridge notify-completed --dry-run"
)]
pub(crate) struct NotifyArgs {
    /// Only say what would be sent
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "On a terminal, what Codex asks is answered right there; elsewhere the command that answers it is printed. A restart of the daemon is waited for, and nothing is missed. Ctrl-C leaves; the work goes on.\n\nExit codes: 0 it was answered; 1 it ended without an answer, or is not known; 3 somebody stopped it; 75 it waits for you; 130 you left\n\nExamples:\n  codex-bridge watch                 everything\n  codex-bridge watch codex-3f2a      one task\n  codex-bridge watch --json | jq .   one event per line"
)]
pub(crate) struct WatchArgs {
    /// A message or task: its id, the end or beginning of it, the name of a conversation, or `last`; without it
    /// everything is watched
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Print one JSON event per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PeersCommand {
    /// Make the token of an agent; it is shown once
    #[command(
        after_help = "The token goes alone to stdout. What its turns may do says [tiers.peer] of the configuration, or a [[a2a.peers]] table with its name.\n\nExit codes: 0 it was made; 1 refused\n\nExample: (umask 077; codex-bridge peers add reviewer > reviewer.token)"
    )]
    Add {
        /// What the agent is called
        #[arg(value_name = "NAME")]
        name: String,
        /// It is for the agent that had this name before it was revoked, with the tasks from then
        #[arg(long)]
        rotate: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List them; never with their tokens
    List(OutputArgs),
    /// Refuse one from now on, and cancel what it sent and nobody has begun; its streams end
    Revoke {
        /// What the agent is called
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown once
    #[command(
        after_help = "Scopes: read (look at everything), send (messages), control (tasks: start, steer, stop, decline), approve (accept what Codex asks), admin (tokens, reload, nodes), a2a (tasks of another agent; see `peers`)\n\nExample: codex-bridge token add ci --scope read,control\nFor yourself, with all of them but a2a: codex-bridge token add laptop --owner"
    )]
    Add {
        /// What it is called
        #[arg(value_name = "NAME")]
        name: String,
        /// What it may do; may be given more than once
        #[arg(long, value_name = "SCOPE", value_delimiter = ',', required_unless_present = "owner", value_parser = PossibleValuesParser::new(Scope::ALL.map(Scope::as_str)))]
        scope: Vec<String>,
        /// For yourself: everything but `a2a`. Whoever has it is the owner of this bridge
        #[arg(long, conflicts_with = "scope")]
        owner: bool,
        /// It is for whoever had this name before it was revoked, with the tasks from then
        #[arg(long)]
        rotate: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List them; never with the token itself
    List(OutputArgs),
    /// Revoke one: it is refused from now on, and what its holder sent and nobody has begun is cancelled
    Revoke {
        /// What it is called
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}
