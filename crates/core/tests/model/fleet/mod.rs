//! Two nodes over one ledger: each has a daemon, a Codex and a CODEX_HOME of its own.
//!
//! A state shows one node at a time, so the driver of one daemon drives both: what it does on the other node is what it
//! does on this one, in a world that was turned. Leases end as a step of the world and not by a time; a node that is
//! frozen or cut off is one that takes no step until its lease has ended, so it has no state of its own. It wakes when it
//! takes its next step, which may be never.
//!
//! The keeper ends Codex before the lease ends, by its own clock, whatever the daemon does: here both are one step. Only
//! where daemon, keeper and Codex are frozen together does Codex outlive the lease. What turns that were begun before do
//! between its waking and its end by the keeper is outside of any ledger, so it is counted apart and not held against the
//! rule that nothing is done twice; everything else about such a node is held against the rules. A daemon looks at its own
//! lease before it gives something to Codex or to a platform; being frozen between that look and the act is the same gap,
//! and is not modelled.
//!
//! A machine's clock may be ahead of the database's, or behind it: what transitions take for the present follows it, and
//! no lease does.
//!
//! Both nodes have the same boot id, as two nodes on one machine have: a boot of another machine alone would already make
//! every lost turn count as touched.

mod mutants;
mod rules;
mod steps;
mod tests;
mod thread;

pub(crate) use rules::broken;
pub(crate) use steps::all;
pub(crate) use thread::{Stored, restores, stores, stores_early};

use crate::codex::{Codex, CodexTurn, Heard, Lost, Stage, Thread, Why};
use crate::setup::{MESSAGES_MAX, Mutant, NodeFaults, Setup};
use crate::world::{Memory, World, conversation_id};
use bridge_core::port::FleetRead;
use bridge_core::value::{Epoch, Home, NodeId, NodeInfo, NodeState, Timestamp};
use bridge_testkit::MemoryRows;
use std::sync::Arc;

/// How long a lease is; only that it ends counts.
const LEASE_MS: i64 = 10_000;

/// What only a fleet has, and the node that the world does not show.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    /// The node whose daemon and Codex the world shows.
    pub(crate) at: u8,
    other_daemon: Option<Memory>,
    other_codex: Codex,
    nodes: [Side; 2],
    pub(crate) faults: NodeFaults,
    /// The ledger's clock.
    clock_ms: i64,
    /// What the stored segments say.
    pub(crate) stored: Arc<Stored>,
    /// Effects of a Codex that outlived its lease.
    pub(crate) unfenced: [u8; MESSAGES_MAX],
    /// The node on which files were written first.
    pub(crate) wrote_at: Option<u8>,
    mutant: Option<Mutant>,
}

/// What a node has beside its daemon and its Codex.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side {
    epoch: i64,
    /// The generation of the conversation's home that the thread in its CODEX_HOME is of; kept beside that directory.
    pub(crate) generation: u32,
    /// Its host is gone for good.
    pub(crate) lost: bool,
    /// It was frozen with its keeper and its Codex, which is still there.
    pub(crate) whole: bool,
    /// How many turns there were when its lease ended.
    turns: usize,
    /// How far its machine's clock is ahead of the database's.
    ahead_ms: i64,
}

pub(crate) fn node_id(node: u8) -> NodeId {
    NodeId::new(if node == 0 { "a" } else { "b" })
}

impl Side {
    /// Whether the clocks of its machine and of the database differ.
    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead_ms != 0
    }
}

/// A turn or a thread of the other node's Codex, of which this one knows nothing.
const NOT_HERE: CodexTurn = CodexTurn {
    message: u8::MAX,
    attempt: 0,
    thread: u8::MAX,
    continues: false,
    stage: Stage::Asked,
    heard: [Heard::Nothing; MESSAGES_MAX],
    touched: false,
    why: Why::Passing,
    cut: false,
    gone: true,
    lost: Lost::Nothing,
};

impl Fleet {
    pub(crate) fn new(rows: &mut MemoryRows, setup: &Setup) -> Self {
        let about = setup.fleet.unwrap_or_default();
        let mut fleet = Self {
            at: 0,
            other_daemon: Some(Memory::new()),
            other_codex: Codex::default(),
            nodes: about.ahead_ms.map(|ahead_ms| Side {
                ahead_ms,
                ..Side::default()
            }),
            faults: about.faults,
            clock_ms: 0,
            stored: Arc::default(),
            unfenced: [0; MESSAGES_MAX],
            wrote_at: None,
            mutant: setup.mutant,
        };
        for node in [0, 1] {
            fleet.join(rows, node);
        }
        fleet
    }

    /// A daemon joins, with a new opening of the ledger.
    fn join(&mut self, rows: &mut MemoryRows, node: u8) {
        rows.set_clock(self.lease_clock(node));
        let side = self.nodes.get_mut(usize::from(node)).unwrap();
        side.epoch += 1;
        let (epoch, about) = (Epoch(side.epoch), NodeInfo::default());
        rows.join(&node_id(node), epoch, about, LEASE_MS);
        rows.set_clock(Timestamp(self.clock_ms));
    }

    /// The clock that a node writes and compares leases with: the database's, whatever its machine says.
    fn lease_clock(&self, node: u8) -> Timestamp {
        let ahead_ms = match self.mutant {
            Some(Mutant::MachineClock) => self.nodes.get(usize::from(node)).unwrap().ahead_ms,
            Some(_) | None => 0,
        };
        Timestamp(self.clock_ms + ahead_ms)
    }

    /// Makes the lease of a node longer.
    fn renew(&self, rows: &mut MemoryRows, node: u8) -> bool {
        let epoch = self.nodes.get(usize::from(node)).unwrap().epoch;
        rows.set_clock(self.lease_clock(node));
        rows.renew(&node_id(node), Epoch(epoch), LEASE_MS)
    }

    pub(crate) fn side(&self) -> &Side {
        self.nodes.get(usize::from(self.at)).unwrap()
    }

    fn side_mut(&mut self) -> &mut Side {
        self.nodes.get_mut(usize::from(self.at)).unwrap()
    }

    fn other(&self) -> u8 {
        1 - self.at
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl World {
    /// What only a fleet has.
    pub(crate) fn fleet(&self) -> &Fleet {
        self.fleet.as_ref().unwrap()
    }

    fn fleet_mut(&mut self) -> &mut Fleet {
        self.fleet.as_mut().unwrap()
    }

    /// The same state, seen from the other node.
    pub(crate) fn turned(mut self) -> Self {
        let Some(fleet) = &mut self.fleet else {
            return self;
        };
        std::mem::swap(&mut self.daemon, &mut fleet.other_daemon);
        std::mem::swap(&mut self.codex, &mut fleet.other_codex);
        fleet.at = fleet.other();
        let (codex, other) = (&mut self.codex, &fleet.other_codex);
        // The world is one, and so are the numbers of threads and turns.
        (codex.effects, codex.said) = (other.effects, other.said);
        let (turns, threads) = (other.turns.len(), other.threads.len());
        codex.turns.resize(turns.max(codex.turns.len()), NOT_HERE);
        let threads = threads.max(codex.threads.len());
        codex.threads.resize(threads, Thread::Missing);
        self
    }

    pub(crate) fn node_state(&self, node: u8) -> NodeState {
        self.rows.node(&node_id(node)).unwrap().unwrap().state
    }

    /// Whether the lease of a node lasts.
    pub(crate) fn leased(&self, node: u8) -> bool {
        let row = self.rows.node(&node_id(node)).unwrap().unwrap();
        row.state != NodeState::Left && row.lease_until > self.fleet().lease_clock(node)
    }

    /// Whether the lease of the node that the world shows lasts.
    pub(crate) fn has_lease(&self) -> bool {
        self.fleet
            .as_ref()
            .is_none_or(|fleet| self.leased(fleet.at))
    }

    /// Whether the daemon may do what no ledger can refuse: its lease lasts, by the time that has passed on its machine
    /// since it asked for it. It began to count before the ledger did, and counts while the machine sleeps, so the lease
    /// never lasts longer here than there.
    pub(crate) fn may_act(&self) -> bool {
        let fooled = |fleet: &Fleet| fleet.has(Mutant::SleepingClock) && fleet.side().whole;
        self.has_lease() || self.fleet.as_ref().is_some_and(fooled)
    }

    /// What the machine of the node says when the database says `now`.
    pub(crate) fn machine_clock(&self, now: Timestamp) -> Timestamp {
        let fleet = self.fleet.as_ref();
        now.plus_ms(fleet.map_or(0, |fleet| fleet.side().ahead_ms))
    }

    pub(crate) fn home(&self) -> Option<Home> {
        self.rows.home(&conversation_id()).unwrap()
    }

    /// Which node has the conversation.
    pub(crate) fn home_node(&self) -> Option<u8> {
        let holder = self.home()?.node_id?;
        Some(u8::from(holder == node_id(1)))
    }

    pub(crate) fn is_home(&self) -> bool {
        self.home_node() == Some(self.fleet().at)
    }

    /// Whether the thread in this node's CODEX_HOME is the one that the ledger knows.
    pub(crate) fn is_current(&self) -> bool {
        let generation = self.home().map_or(0, |home| home.generation);
        self.is_home() && self.fleet().side().generation == generation
    }

    /// The daemon ends, and ends its Codex.
    fn stops(&mut self) {
        self.daemon_ends();
        self.codex.die();
        self.fleet_mut().side_mut().whole = false;
    }
}

/// Before a transition of the node that the world shows: its lease is made longer, or it is refused and the node stops.
pub(crate) fn enter(world: &mut World, transition: &str) -> bool {
    let Some(fleet) = &world.fleet else {
        return true;
    };
    let at = fleet.at;
    let fenced = !fleet.has(Mutant::NoFencing);
    let anywhere = match transition {
        "claim" => fleet.has(Mutant::ClaimAnywhere),
        "send" => fleet.has(Mutant::SendAnywhere),
        "resume" | "reconcile" => fleet.has(Mutant::StartTakesAll),
        _ => false,
    };
    let renewed = fleet.renew(&mut world.rows, at);
    if !renewed && fenced {
        world.rows.set_clock(Timestamp(fleet.clock_ms));
        world.stops();
        return false;
    }
    world.rows.set_node((!anywhere).then(|| node_id(at)));
    true
}

/// After a transition.
pub(crate) fn leave(world: &mut World) {
    let Some(fleet) = &world.fleet else {
        return;
    };
    let clock = Timestamp(fleet.clock_ms);
    world.rows.set_clock(clock);
    let wrote = world.rows.wrote_files(&conversation_id()).unwrap();
    if fleet.wrote_at.is_none() && wrote {
        let home = world.home_node();
        world.fleet_mut().wrote_at = home;
    }
}
