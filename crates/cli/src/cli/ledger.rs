//! The commands about the database as a whole: names, flags and help. What they do is in `crate::ledger`.

use super::OutputArgs;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Copy the database to PostgreSQL, or from PostgreSQL to a file, and compare both
    Copy(CopyArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "What is copied is the database that the configuration names: the file in the state directory, or `[ledger] url`. No daemon may run on it or on the destination, and the destination must be empty. It is copied as a whole or not at all: what failed or was killed can be run again. Every table is read from the copy again, and its SHA-256 compared with that of what was read.\n\nThe address of a database may hold a password, so it is not given here: `--to postgres` reads it from CODEX_BRIDGE_LEDGER_COPY_URL. An address without a password may be given as it is.\n\nNot in the database, and to be brought along by hand: the database's key, working directories (`work/`), and Codex's threads (`sessions/` in CODEX_HOME). Files of messages and answers are in `files/` where one daemon has the database for itself, and in the database where several share it: this machine's daemon stores them there when it starts. The command names all of it. Nodes and homes of conversations stay behind. From a file to PostgreSQL, this machine's daemon becomes a node, and has every conversation with a thread: start it first. Use one of the two databases from then on: daemons on both would answer everything twice.\n\nExit codes: 0 it is copied, and equal; 1 refused or failed, and the destination is empty\n\nExamples:\n  CODEX_BRIDGE_LEDGER_COPY_URL=... codex-bridge ledger copy --to postgres\n  codex-bridge ledger copy --to /var/lib/codex-bridge-single/ledger.db"
)]
pub(crate) struct CopyArgs {
    /// `postgres` for the database that CODEX_BRIDGE_LEDGER_COPY_URL names, or a new file
    #[arg(long, value_name = "postgres|FILE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
