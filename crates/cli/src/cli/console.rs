//! `console`: flags and help. What it does is in `client::console`.

use super::OutputArgs;
use bridge_front::Scope;
use clap::Args;
use clap::builder::PossibleValuesParser;

#[derive(Debug, Args)]
#[command(
    after_help = "The address holds a code that is good once, for 5 minutes. Then the browser is signed in for 30 days, or 7 without use; `token list` shows it, and `token revoke` ends it. The daemon listens on 127.0.0.1:4141 for it, unless http.listen says where.\n\nExit codes: 0 the address was printed; 1 refused\n\nExamples:\n  codex-bridge console\n  codex-bridge console --scopes read     look, touch nothing\n  codex-bridge console --phone           a QR code: see and decide what Codex asks"
)]
pub(crate) struct ConsoleArgs {
    /// For a phone: print a QR code of `http.public_url`, with the scopes `read` and `approve`
    #[arg(long)]
    pub(crate) phone: bool,
    /// Print the address, and open no browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// What the session may do; may be given more than once [default: everything; with --phone read,approve]
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', value_parser = PossibleValuesParser::new(Scope::OWNER.map(Scope::as_str)))]
    pub(crate) scopes: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
