//! A drill: messages, kills, bad weather and outages that a seed decides, and a verdict that comes from outside.
//! Which daemon is drilled, and how it is started and killed, is behind [`Stage`]: `codex-bridge drill` plays it with
//! our own, the bench also with the ancestor's way, so that both meet the same. Several daemons over one ledger are a
//! [`FleetStage`]: there whole machines die, lose their disks or stand still.

mod by_clock;
mod by_messages;
mod by_nodes;
mod course;
mod outcome;
mod outside;
mod play;
mod traffic;

use crate::{Options, ScriptedModel, SinkKind, Talks, TalksOptions};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use by_nodes::FleetRhythm;
pub use outcome::{Cost, Kills, NodeFaults, Outcome};
pub use play::Play;

/// What is drilled: daemons that read the scene's platform, and the Codex below each that asks the scene's model.
pub trait Stage {
    /// Starts what should run and does not.
    fn start(&mut self) -> io::Result<()>;

    /// Waits until a daemon does what it never should, such as ending by itself; says what, for the report.
    fn ended(&mut self) -> impl Future<Output = io::Result<String>>;

    /// The directory whose directories turns work in.
    fn work(&self) -> PathBuf;

    /// Tells whoever watches how it goes.
    fn tell(&self, words: &str);
}

/// One daemon, that has its ledger for itself.
pub trait DaemonStage: Stage {
    /// Ends the daemon without a warning, and it alone.
    fn kill(&mut self) -> impl Future<Output = io::Result<()>>;

    /// Kills one Codex process; false when none is there.
    fn kill_codex(&mut self) -> bool;
}

/// Several daemons over one ledger, each with its own Codex. A daemon that lost its lease ends by itself and is started
/// again, as a service manager would; that is the stage's business.
pub trait FleetStage: Stage {
    /// How many machines there are. They are counted from 0; a machine that is replaced keeps its place.
    fn nodes(&self) -> usize;

    /// The name of the node on a machine.
    fn name(&self, node: usize) -> String;

    /// Whether a machine serves: started, neither dead nor frozen.
    fn serves(&self, node: usize) -> bool;

    /// A machine dies with everything that runs on it.
    fn kill_node(&mut self, node: usize, loss: Loss) -> impl Future<Output = io::Result<()>>;

    /// Starts the daemon of a machine that is dead.
    fn start_node(&mut self, node: usize) -> io::Result<()>;

    /// Stops a daemon, or everything that runs on its machine, where it stands.
    fn freeze(&mut self, node: usize, what: Frozen) -> io::Result<()>;

    /// Lets it go on. Its lease has ended meanwhile, so the daemon must end by itself.
    fn thaw(&mut self, node: usize);

    /// The database's server dies and starts again, beside everything else.
    fn restart_database(&mut self);

    /// What the stage counted: daemons that ended because their lease had, and restarts of the database.
    fn counted(&self) -> (usize, usize);
}

/// What is lost with a machine that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing but what ran.
    Nothing,
    /// CODEX_HOME and state directory, for good.
    Disk,
    /// The same, and what takes its place has another name.
    DiskAndName,
}

/// What of a machine stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// The daemon alone.
    Daemon,
    /// The daemon with keepers, Codex and its commands.
    Machine,
}

/// What stands around a drilled daemon.
#[derive(Debug)]
pub struct Scene {
    /// What Codex asks.
    pub model: ScriptedModel,
    /// Where messages come from and replies go to.
    pub talks: Talks,
}

impl Scene {
    /// Sets it up for this seed.
    pub async fn set(kind: SinkKind, seed: u64) -> io::Result<Self> {
        // Asked once and not again by itself, so that calls can be counted.
        let model = ScriptedModel::start(Options {
            request_max_retries: 0,
            stream_max_retries: 0,
            ..Options::default()
        })
        .await?;
        let talks = Talks::start(TalksOptions {
            kind,
            canvases: traffic::LANES,
            seed,
            ..TalksOptions::default()
        })
        .await?;
        Ok(Self { model, talks })
    }
}

/// What decides when things go wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rhythm {
    /// The clock, for so long.
    Clock(Duration),
    /// The progress of so many messages: every daemon, however fast, is told the same and meets as many faults.
    Messages(usize),
}
