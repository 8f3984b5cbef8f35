//! The arguments of `demo` and `drill`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Longest drill: the platform remembers everything that it saw.
const DRILL_MAX_MINUTES: f64 = 240.0;
/// Most nodes of a drill: each runs a Codex.
const DRILL_MAX_NODES: u64 = 16;
/// Most messages of a drill, for the same reason.
const DRILL_MAX_MESSAGES: usize = 50_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Everything is private to the demo and removed afterwards. --fleet starts a PostgreSQL server of its own, which must be installed; CODEX_BRIDGE_DEMO_LEDGER_URL names an empty database to use instead, as `postgres://bridge:…@db.example/demo?sslmode=verify-full`. It is empty again afterwards. Its address may hold a password, so it is no argument."
)]
pub struct DemoArgs {
    /// Show a fleet instead: three nodes over one PostgreSQL, of which one dies with its disk
    #[arg(long)]
    pub fleet: bool,
    /// Stay at the end, with questions, failures and work in progress to look at in the console, until Ctrl-C
    #[arg(long, conflicts_with = "fleet")]
    pub keep: bool,
    /// Use this Codex binary instead of finding or installing one
    #[arg(long, value_name = "PATH")]
    pub codex_bin: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Everything is private to the drill and removed afterwards: a daemon, a scripted model, a platform, a CODEX_HOME; with --nodes also a PostgreSQL server, which must be installed.\nExit codes: 0 every promise was kept; 1 one was broken, and the seed and a directory with the logs are printed"
)]
pub struct DrillArgs {
    /// How long things go wrong; afterwards everything must become quiet
    #[arg(long, value_name = "MINUTES", default_value_t = 1.0, value_parser = minutes)]
    pub minutes: f64,
    /// Play this many messages instead, with kills and outages by their progress: another run then meets the same
    #[arg(long, value_name = "NUMBER", conflicts_with = "minutes", value_parser = messages)]
    pub messages: Option<usize>,
    /// Where chance comes from; the same seed gives the same kills and faults, as far as a real machine can
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Drill a fleet of so many daemons over one PostgreSQL, each with a Codex of its own: whole nodes are killed, a third
    /// of them with their disk, or stand still until their lease has ended
    #[arg(long, value_name = "NUMBER", conflicts_with = "messages", value_parser = clap::value_parser!(u64).range(2..=DRILL_MAX_NODES))]
    pub nodes: Option<u64>,
    /// How long a node of the fleet may be silent, in seconds
    #[arg(long, value_name = "SECONDS", requires = "nodes", default_value_t = 4, value_parser = clap::value_parser!(u64).range(3..=60))]
    pub lease_secs: u64,
    /// Also end PostgreSQL every 30 s as in a crash, and start it again
    #[arg(long, requires = "nodes")]
    pub restart_database: bool,
    /// How the daemon talks to Codex
    #[arg(long, value_enum, default_value_t = DrillTransport::Socket)]
    pub transport: DrillTransport,
    /// What the platform does with a reply that comes twice
    #[arg(long, value_enum, default_value_t = DrillSink::Probeable)]
    pub sink: DrillSink,
    /// Use this Codex binary instead of finding or installing one
    #[arg(long, value_name = "PATH")]
    pub codex_bin: Option<PathBuf>,
    /// Keep the logs and the history also when every promise was kept
    #[arg(long)]
    pub keep: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How the daemon of a drill talks to Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DrillTransport {
    /// The unix socket: Codex outlives the daemon
    Socket,
    /// Pipes: Codex ends with the daemon
    Stdio,
}

/// What the platform of a drill does with a reply that comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DrillSink {
    /// It shows it once
    Idempotent,
    /// It shows it twice, but can be asked whether it arrived
    Probeable,
}

fn messages(text: &str) -> Result<usize, String> {
    let messages: usize = text.parse().map_err(|_| "not a whole number".to_owned())?;
    if (1..=DRILL_MAX_MESSAGES).contains(&messages) {
        Ok(messages)
    } else {
        Err(format!("choose from 1 to {DRILL_MAX_MESSAGES}"))
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if minutes > 0.0 && minutes <= DRILL_MAX_MINUTES {
        Ok(minutes)
    } else {
        Err(format!(
            "choose more than 0 and at most {DRILL_MAX_MINUTES}"
        ))
    }
}
