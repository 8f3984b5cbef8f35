//! The daemon: composition only. It opens the ledger, hosts Codex, serves the API, and performs what the
//! core's transitions ask for, after their commit.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod a2a_tasks;
mod acks;
mod act;
mod api;
pub mod config;
mod delivery;
pub mod failpoint;
mod intake;
pub mod key;
mod notifier;
pub mod notify;
mod notify_targets;
mod process;
mod prune;
mod push_client;
mod redaction;
mod run;
mod settings;
pub mod state;
mod tally;
mod tasks;
pub mod telemetry;
pub mod term;
#[cfg(test)]
mod tests;
mod turn;

pub use api::listeners::{print_openapi, routes};
pub use api::reload::Source;
pub use run::{Ready, RunOptions, Stop, run};

use self::settings::Settings;
use self::turn::follow::Running;
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::value::{ConversationId, MessageId};
use bridge_front::Hub;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use tokio::sync::Notify;
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
    /// Wakes the scheduler.
    wake: Notify,
    /// Wakes the ack lane.
    ack_wake: Notify,
    /// Deliveries to the subscribers of tasks.
    slots: Arc<notifier::Slots>,
    /// The ledger failed under a transition: what it asks for may have been swallowed.
    doubt: Notify,
    /// Whoever gives a text to a running turn: in one conversation they go one after the other.
    joining: turn::steer::Order,
    /// Messages that a task works on.
    hands: turn::rescue::Hands,
    /// Set: nothing more is claimed or taken in.
    stopping: CancellationToken,
    /// Set: tasks let go of what they do, rows stay as they are.
    halt: CancellationToken,
    /// Set: a newer daemon has the ledger, and this one must go.
    fenced: CancellationToken,
    /// Set: the ledger is damaged. Nothing more is claimed or taken in; what runs is finished and written down.
    damaged: CancellationToken,
    /// What was committed.
    tally: tally::Tally,
    /// Moves as long as the scheduler does.
    pulse: process::alive::Pulse,
    tasks: TaskTracker,
    /// Tasks that panicked.
    panics: process::panics::Panics,
    /// Lanes that are being worked on; `true` when somebody asked again meanwhile.
    lanes: Mutex<HashMap<ConversationId, bool>>,
    /// Turns that run now, for whoever wants them to end.
    running: Mutex<HashMap<MessageId, Running>>,
    /// What turns asked other agents that are out of sight now.
    adrift: turn::agents::Adrift,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) fn new(ledger: L, agent: A, sink: S, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            agent,
            sink,
            hub: Hub::default(),
            settings: RwLock::new(Arc::new(settings)),
            reloads: OnceLock::new(),
            wake: Notify::new(),
            ack_wake: Notify::new(),
            slots: Arc::default(),
            doubt: Notify::new(),
            joining: turn::steer::Order::default(),
            hands: turn::rescue::Hands::default(),
            stopping: CancellationToken::new(),
            halt: CancellationToken::new(),
            fenced: CancellationToken::new(),
            damaged: CancellationToken::new(),
            tally: tally::Tally::default(),
            pulse: process::alive::Pulse::default(),
            tasks: TaskTracker::new(),
            panics: process::panics::Panics::default(),
            lanes: Mutex::default(),
            running: Mutex::default(),
            adrift: turn::agents::Adrift::default(),
        })
    }
}
