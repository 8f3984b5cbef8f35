//! The commands that lend a conversation to Codex's own terminal: names, flags and help. What they do is in `client::lend`.

use super::OutputArgs;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

#[derive(Debug, Args)]
#[command(
    after_help = "The terminal works in the conversation's directory, with the sandbox of whoever wrote in it. While it is open, messages of the conversation wait, and `why` says who has it. When it ends, what was said there is part of the conversation, and the messages go on. A running turn is waited for. `/new`, `/fork` and editing an earlier message begin another Codex session, which the conversation does not know.\n\nOnly the owner at this machine can do this. Where somebody else wrote in the conversation it asks first.\n\nExit codes: 0 the terminal has ended and the conversation is back; 1 refused, or Codex failed; 75 a turn ran longer than --wait; 130 you left with Ctrl-C\n\nExamples:\n  codex-bridge open review\n  codex-bridge lend review --print    for another terminal; end it with `codex-bridge return review`"
)]
pub(crate) struct LendArgs {
    /// A conversation by its name or id, or by a message or task of it
    #[arg(value_name = "CONVERSATION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) conversation: String,
    /// When the loan ends by itself, if the terminal is not open any more
    #[arg(long = "for", value_name = "MINUTES", default_value_t = 240, value_parser = clap::value_parser!(u32).range(1..=1440))]
    pub(crate) minutes: u32,
    /// Only print the command, for another terminal
    #[arg(long)]
    pub(crate) print: bool,
    /// How long to wait for a running turn; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) wait: u64,
    /// Do not ask, although somebody else wrote in it
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print the loan and the command as JSON; the terminal is not started
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "It is for loans of `lend --print`, and for terminals that were left open elsewhere. While a terminal still has the thread open, messages go on waiting.\n\nExit codes: 0 it is back; 1 it was not lent; 75 a terminal still has it open\n\nExample: codex-bridge return review"
)]
pub(crate) struct ReturnArgs {
    /// A conversation by its name or id, or by a message or task of it
    #[arg(value_name = "CONVERSATION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) conversation: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
