//! The commands about daemons that share a database: names, flags and help. What they do is in `client::nodes`.

use super::OutputArgs;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List them: how each is, its turns and conversations
    #[command(
        after_help = "A node is active, draining (it takes nothing new), left (its daemon ended), or gone: its lease has ended although it did not leave. Others take over what a node that is gone or has left did not finish.\n\nExample: codex-bridge node list"
    )]
    List(OutputArgs),
    /// Let one take nothing new, finish what runs, hand its conversations over and leave
    #[command(
        after_help = "Do this before an upgrade or a reboot. It ends by itself; `node list` shows how far it is.\n\nExit codes: 0 it is draining; 1 refused: it is gone, has left, or there is no such node\n\nExample: codex-bridge node drain host-2"
    )]
    Drain(NodeArgs),
    /// Let a draining one take work again, as long as it has not left
    #[command(
        after_help = "Exit codes: 0 it is active; 1 refused: it is gone, has left, or there is no such node\n\nExample: codex-bridge node activate host-2"
    )]
    Activate(NodeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The node, as `node list` names it
    #[arg(value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Conversations find a node by themselves; this is for one that shall be elsewhere, or whose node is gone for good. It is refused while a turn runs in it or a reply is being sent, unless its node is gone: then what became of its turn is read from the thread. Files go with it only where the nodes share its working directory.\n\nExit codes: 0 it is there; 1 refused, and it stays where it was\n\nExample: codex-bridge move review --to host-2"
)]
pub(crate) struct MoveArgs {
    /// A conversation by its name or id, or by a message or task of it
    #[arg(value_name = "CONVERSATION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) conversation: String,
    /// The node that gets it, as `node list` names it
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
