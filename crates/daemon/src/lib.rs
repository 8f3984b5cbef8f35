//! The daemon: composition only. It opens the ledger, hosts Codex, serves the API, and performs what the
//! core's transitions ask for, after their commit.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod actions;
mod api;
pub mod config;
mod delivery;
pub mod failpoint;
mod fleet;
mod intake;
pub mod ledger_key;
mod one_at_a_time;
mod process;
mod redaction;
mod run;
mod settings;
pub mod state;
pub mod telemetry;
pub mod term;
#[cfg(test)]
mod tests;
mod turn;

pub use api::group::usual_group_socket;
pub use api::listeners::{print_openapi, routes};
pub use api::reload::ConfigSource;
pub use fleet::{database_url, node_id};
pub use process::service_manager::Notifier;
pub use run::{Ready, RunOptions, Stop, run};

use self::process::counted::Counted;
use self::settings::Settings;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::value::FileDigest;
use bridge_front::Hub;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Everything the daemon's tasks share.
pub(crate) struct Daemon<L, A, S> {
    pub(crate) ledger: L,
    pub(crate) agent: A,
    pub(crate) sink: S,
    pub(crate) hub: Hub,
    /// The version in force; see [`Daemon::settings`].
    settings: RwLock<Arc<Settings>>,
    /// How the configuration is read again; set once the daemon is whole.
    reloads: OnceLock<api::reload::Reloads>,
    pub(crate) turns: turn::Turns,
    /// Deliveries to the subscribers of tasks.
    slots: Arc<delivery::Slots>,
    /// Cancelled when a stop begins: nothing more is claimed or taken in.
    stopping: CancellationToken,
    /// Cancelled at the end of a stop: tasks return at once and leave their rows as they are.
    halt: CancellationToken,
    /// Cancelled when a newer daemon has taken the ledger over: this one must stop.
    fenced: CancellationToken,
    /// This node is drained: load balancers send nothing more here.
    drained: AtomicBool,
    /// Cancelled when the ledger is damaged: nothing more is claimed or taken in; running turns finish.
    damaged: CancellationToken,
    /// Commits through its ledger, its own and the host's.
    counters: Arc<process::counted::CommitCounters>,
    work_log: process::work_log::WorkLog,
    pub(crate) traces: telemetry::Traces,
    measures: process::measures::Measures,
    tasks: TaskTracker,
    panics: process::panics::Panics,
    lanes: delivery::Lanes,
    /// Files that are on their way to this node.
    bringing: one_at_a_time::OneAtATime<FileDigest>,
    relay: fleet::Relay,
    steers: fleet::RemoteSteers,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<Counted<L>, A, S> {
    pub(crate) fn new(ledger: Counted<L>, agent: A, sink: S, settings: Settings) -> Arc<Self> {
        // A lease is held, and can be lost, from before there is a daemon.
        let fenced = settings.start.node.as_ref();
        let fenced = fenced.map(|node| node.fenced.clone()).unwrap_or_default();
        let traces = telemetry::Traces::new(&settings.config.telemetry);
        Arc::new(Self {
            counters: ledger.counters(),
            ledger,
            agent,
            sink,
            hub: Hub::default(),
            settings: RwLock::new(Arc::new(settings)),
            reloads: OnceLock::new(),
            turns: turn::Turns::default(),
            slots: Arc::default(),
            stopping: CancellationToken::new(),
            halt: CancellationToken::new(),
            fenced,
            drained: AtomicBool::new(false),
            damaged: CancellationToken::new(),
            work_log: process::work_log::WorkLog::default(),
            traces,
            measures: process::measures::Measures::default(),
            tasks: TaskTracker::new(),
            panics: process::panics::Panics::default(),
            lanes: delivery::Lanes::default(),
            bringing: one_at_a_time::OneAtATime::default(),
            relay: fleet::Relay::default(),
            steers: fleet::RemoteSteers::default(),
        })
    }
}
