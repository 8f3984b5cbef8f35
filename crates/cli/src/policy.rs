//! `policy explain`: what would happen to something that Codex asks, by the configuration as it is now.
//!
//! It reads the file as `run` would and needs no daemon.

use crate::cli::{Common, OutputArgs};
use bridge_channel::{local, task};
use bridge_core::rules::{
    Effect, McpTool, RuleDecision, RuleEvaluation, RuleQuery, accept_means, quote,
};
use bridge_core::show;
use bridge_core::value::{ApprovalPolicy, Deciders, RequestKind, Sandbox, Tier};
use bridge_daemon::config::{Config, Environment, KindKey, Loaded, TierConfig, load};
use bridge_daemon::term;
use clap::{Args, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// The name for people at the canvas in `--sender`.
const CANVAS: &str = "canvas";

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
    /// The channel that the message came from: `local`, `task`, `molecule:ID`
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Who sent it: on `molecule:ID` `canvas` or the id of an agent, on `local` a token without `admin` [default there: you]
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

/// What would happen, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Explained {
    /// `allow`, `ask` or `deny`.
    ruling: &'static str,
    /// Who decides a request: `owner` or `sender`.
    who: Option<&'static str>,
    /// The rule that decided.
    rule: Option<String>,
    why: String,
    tier: &'static str,
    kind: String,
    command: Option<String>,
    cwd: Option<String>,
    paths: Vec<String>,
    server: Option<String>,
    tool: Option<String>,
    sandbox: &'static str,
    approval_policy: &'static str,
    /// When Codex asks such a thing at all.
    asked: &'static str,
    /// What an accept would mean.
    accept_means: &'static str,
    /// After how many seconds silence is a decline.
    deadline_secs: u64,
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

fn explain(args: ExplainArgs, loaded: &Loaded) -> Result<Explained, String> {
    let tier = match (args.tier, &args.channel) {
        (Some(tier), _) => tier.tier(),
        (None, Some(channel)) => tier_of(loaded, channel, args.sender.as_deref())?,
        (None, None) => return Err("name a tier or a channel".to_owned()),
    };
    let kind = match (args.kind, args.command.is_empty(), args.path.is_empty()) {
        (Some(kind), ..) => kind.kind(),
        (None, ..) if args.server.is_some() => RequestKind::McpTool,
        (None, true, false) => RequestKind::FileChange,
        (None, ..) => RequestKind::Command,
    };
    if kind == RequestKind::Command && args.command.is_empty() {
        return Err("name the command behind `--`, or another --kind".to_owned());
    }
    if (kind == RequestKind::McpTool) != args.server.is_some() {
        return Err("--kind mcp-tool and --server go together".to_owned());
    }
    let effect = Effect {
        command: match args.command.as_slice() {
            [] => None,
            [line] => Some(line.clone()),
            words => Some(quote(words)),
        },
        cwd: args.cwd,
        paths: args.path,
        escalated: args.escalated,
        mcp_tool: args.server.map(|server| {
            Box::new(McpTool {
                server,
                tool: args.tool,
            })
        }),
        beyond: None,
    };
    let case = RuleQuery {
        tier,
        kind: &kind,
        effect: &effect,
    };
    let judged = loaded.config.policy().judge(case);
    Ok(explained(&loaded.config, tier, kind, effect, judged))
}

fn explained(
    config: &Config,
    tier: Tier,
    kind: RequestKind,
    effect: Effect,
    judged: RuleEvaluation,
) -> Explained {
    let (sandbox, policy) = power(config, tier);
    let (server, tool) = match effect.mcp_tool.map(|asked| *asked) {
        Some(McpTool { server, tool }) => (Some(server), tool),
        None => (None, None),
    };
    Explained {
        ruling: judged.ruling.as_str(),
        who: (judged.ruling == RuleDecision::Ask).then(|| judged.who.as_str()),
        rule: judged.because,
        why: judged.why,
        tier: tier.as_str(),
        sandbox: sandbox.as_str(),
        approval_policy: policy.as_str(),
        asked: asked(&kind, policy),
        accept_means: accept_means(&kind, effect.escalated, sandbox, policy),
        kind: kind.as_str().to_owned(),
        command: effect.command,
        cwd: effect.cwd,
        paths: effect.paths,
        server,
        tool,
        deadline_secs: config.approvals.deadline_secs,
    }
}

fn power(config: &Config, tier: Tier) -> (Sandbox, ApprovalPolicy) {
    fn of<T>(tier: &TierConfig<T>) -> (Sandbox, ApprovalPolicy) {
        (tier.sandbox(), tier.approval_policy())
    }
    match tier {
        Tier::Owner => of(&config.tiers.owner),
        Tier::Peer => of(&config.tiers.peer),
        Tier::Tool => of(&config.tiers.tool),
    }
}

/// The tier of a sender, as the channel derives it.
fn tier_of(loaded: &Loaded, channel: &str, sender: Option<&str>) -> Result<Tier, String> {
    let workspaces = || loaded.molecule.iter().map(|workspace| &workspace.settings);
    let of_workspace = |id: &str| workspaces().find(|settings| settings.workspace.starts_with(id));
    if sender.is_some() && channel == task::CHANNEL {
        return Err(format!(
            "on the channel {channel} it does not matter who sends; leave --sender out"
        ));
    }
    match channel.split_once(':') {
        // A name is a token's; the socket's user has none.
        None if channel == local::CHANNEL => Ok(match sender {
            None => Tier::Owner,
            Some(_) => Tier::Tool,
        }),
        None if channel == task::CHANNEL => Ok(Tier::Tool),
        Some(("molecule", id)) if !id.is_empty() => match of_workspace(id) {
            Some(settings) => Ok(settings.origins.tier_of_sender(sender.unwrap_or(CANVAS))),
            None => Err(format!("no Molecule workspace `{id}` is configured")),
        },
        None | Some(_) => Err(format!(
            "there is no channel `{channel}`; channels are local, task and molecule:ID"
        )),
    }
}

fn asked(kind: &RequestKind, policy: ApprovalPolicy) -> &'static str {
    match (kind, policy) {
        (RequestKind::UserInput, _) => {
            "whenever the model has a question, under every approval policy"
        }
        (RequestKind::ToolCall | RequestKind::Other(_), _) => "this is not asked",
        (RequestKind::McpTool, ApprovalPolicy::Never) => {
            "never under this approval policy: Codex refuses tools that are not marked as read-only"
        }
        (RequestKind::McpTool, _) => {
            "for every tool that its server does not mark as read-only; isolated turns have no MCP servers at all"
        }
        (_, ApprovalPolicy::Never) => {
            "never under this approval policy: what the sandbox forbids fails"
        }
        (RequestKind::Command, ApprovalPolicy::Untrusted) => "for nearly every command",
        (RequestKind::Command, ApprovalPolicy::OnRequest) => {
            "only where the model wants the command to leave the sandbox; everything else runs inside without asking"
        }
        (RequestKind::FileChange, _) => {
            "where the sandbox would not let the files change, or under `untrusted`"
        }
        (RequestKind::Permissions, _) => "where the model wants more than its sandbox gives",
        (RequestKind::Elicitation, _) => "whenever an MCP server has a form or a link",
    }
}

fn in_words(said: &Explained) -> String {
    let decides = match (said.ruling, said.who) {
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
    say("tier", said.tier.to_owned());
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
    say("asked", said.asked.to_owned());
    if said.ruling != RuleDecision::Deny.as_str() {
        say("an accept", said.accept_means.to_owned());
    }
    if said.ruling == RuleDecision::Ask.as_str() {
        say(
            "silence",
            format!("is a decline after {} s", said.deadline_secs),
        );
    }
    lines.join("\n")
}
