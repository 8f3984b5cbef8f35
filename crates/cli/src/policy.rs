//! `policy explain`: what would happen to something that Codex asks, by the configuration as it is now.
//!
//! It reads the file as `run` would and needs no daemon.

use crate::cli::{Common, OutputArgs};
use bridge_core::rules::{RuleDecision, quote};
use bridge_core::show;
use bridge_core::value::{Deciders, Tier};
use bridge_daemon::config::{Environment, KindKey, Loaded, load};
use bridge_daemon::term;
use bridge_front::{ExplainRequest, ExplainView};
use clap::{Args, Subcommand, ValueEnum};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what would happen to a command, a change of files or a question: allowed, asked or denied, and by which rule
    #[command(
        after_help = "Exit codes: 0 it was explained, whatever would happen; 1 the configuration can't be used, or there is no such channel\n\nExamples:\n  codex-bridge policy explain --tier tool -- git push --force\n  codex-bridge policy explain --channel molecule:3132147e --sender canvas -- 'make && git push'\n  codex-bridge policy explain --tier owner --kind file-change --path /srv/work/.git/config\n  codex-bridge policy explain --tier owner --server molecule --tool delegate_task"
    )]
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Whose turn asks
    #[arg(long, value_enum, required_unless_present = "channel", conflicts_with_all = ["channel", "sender"])]
    tier: Option<TierArg>,
    /// The channel that the message came from: `local`, `task`, `a2a`, `molecule:ID`
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Who sent it: on `molecule:ID` `canvas` or the id of an agent, on `local` a token without `admin` [default there: you], on `a2a` a peer
    #[arg(long, value_name = "WHO", requires = "channel")]
    sender: Option<String>,
    /// What is asked [default: command, file-change where only paths are given, mcp-tool where a server is]
    #[arg(long, value_enum)]
    kind: Option<KindKey>,
    /// A file that would be changed or opened
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// An MCP server, by its name in Codex's configuration
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "command"])]
    server: Option<String>,
    /// The tool of that server that would run
    #[arg(long, value_name = "NAME", requires = "server")]
    tool: Option<String>,
    /// Where the command runs and relative paths begin
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Codex says that it wants out of the sandbox
    #[arg(long)]
    escalated: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// The command: as words, or as one quoted line for a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A tier, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TierArg {
    /// The owner of this machine
    Owner,
    /// Other agents and strangers
    Peer,
    /// Programs that start tasks
    Tool,
}

impl TierArg {
    fn tier(self) -> Tier {
        match self {
            Self::Owner => Tier::Owner,
            Self::Peer => Tier::Peer,
            Self::Tool => Tier::Tool,
        }
    }
}

/// Explains, by the configuration as it is on disk.
pub(crate) fn run(
    command: PolicyCommand,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let PolicyCommand::Explain(args) = command;
    let output = args.output;
    let (file, state_dir) = (common.config.as_deref(), common.state_dir.as_deref());
    let loaded = load(file, environment, state_dir)?;
    let explained = explain(args, &loaded).map_err(anyhow::Error::msg)?;
    output.show(&explained, ExitCode::SUCCESS, in_words)
}

fn explain(args: ExplainArgs, loaded: &Loaded) -> Result<ExplainView, String> {
    let request = ExplainRequest {
        tier: args.tier.map(|tier| tier.tier().as_str().to_owned()),
        channel: args.channel,
        sender: args.sender,
        kind: args.kind.map(|kind| kind.kind().as_str().to_owned()),
        command: match args.command.as_slice() {
            [] => None,
            [line] => Some(line.clone()),
            words => Some(quote(words)),
        },
        cwd: args.cwd,
        paths: args.path,
        server: args.server,
        tool: args.tool,
        escalated: args.escalated,
    };
    let of_workspace = |id: &str, sender: &str| {
        let mut known = loaded.molecule.iter().map(|workspace| &workspace.settings);
        let own = known.find(|settings| settings.workspace.starts_with(id))?;
        Some(own.origins.tier_of_sender(sender))
    };
    let config = &loaded.config;
    request.explain(&config.policy_in_force(), |channel, sender| {
        config.tier_of(channel, sender, of_workspace)
    })
}

fn in_words(said: &ExplainView) -> String {
    let decides = match (said.decision.as_str(), said.who.as_deref()) {
        ("ask", Some(who)) if who == Deciders::Sender.as_str() => {
            "ask: whoever sent the message decides, or the owner of this machine"
        }
        ("ask", _) => "ask: the owner of this machine decides",
        ("allow", _) => "allow: accepted without asking anybody",
        _ => "deny: declined without asking anybody",
    };
    let mut lines = vec![
        decides.to_owned(),
        format!("  because    {}", term::escape_line(&said.why)),
    ];
    let mut say = |name: &str, text: String| lines.push(format!("  {name:10} {text}"));
    say("tier", said.tier.clone());
    say("kind", said.kind.replace('_', " "));
    if let Some(command) = &said.command {
        say("command", show::effect_line(command));
    }
    if let Some(cwd) = &said.cwd {
        say("directory", show::effect_line(cwd));
    }
    for path in &said.paths {
        say("path", show::effect_line(path));
    }
    if let Some(server) = &said.server {
        say("MCP server", show::effect_line(server));
    }
    if let Some(tool) = &said.tool {
        say("tool", show::effect_line(tool));
    }
    say(
        "sandbox",
        format!("{}, approval policy {}", said.sandbox, said.approval_policy),
    );
    say("asked", said.asked.clone());
    if said.decision != RuleDecision::Deny.as_str() {
        say("an accept", said.accept_means.clone());
    }
    if said.decision == RuleDecision::Ask.as_str() {
        say(
            "silence",
            format!("is a decline after {} s", said.deadline_secs),
        );
    }
    lines.join("\n")
}
