//! How much is measured: every number of samples and every size is here, whole and quick.

use clap::ValueEnum;
use std::time::Duration;

/// A part of the bench that can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Latency,
    Pickup,
    Traces,
    Ledger,
    Fleet,
    Flood,
    Footprint,
    Budget,
    Console,
    Cost,
}

impl Part {
    pub(crate) const ALL: [Self; 10] = [
        Self::Latency,
        Self::Pickup,
        Self::Traces,
        Self::Ledger,
        Self::Fleet,
        Self::Flood,
        Self::Footprint,
        Self::Budget,
        Self::Console,
        Self::Cost,
    ];

    /// How the keys of its ratios begin.
    pub(crate) fn key(self) -> String {
        format!("{self:?}.").to_lowercase()
    }
}

/// The numbers of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Samples of each way of a message; one of each in turn, so that a slow minute of the machine slows all of them.
    pub(crate) rounds: usize,
    /// Rounds before them that are not counted.
    pub(crate) warm_rounds: usize,
    /// The pause before every message of every way: a client that writes at once after the last answer finds Codex
    /// still busy with it.
    pub(crate) gap: Duration,
    /// Messages after a silence, and how long that is.
    pub(crate) silences: usize,
    pub(crate) silence: Duration,
    /// Messages that are heard of by polling alone.
    pub(crate) polled: usize,
    /// Starts of everything from nothing.
    pub(crate) cold_starts: usize,
    /// Messages of one sender whose pick-up is timed, and how many senders write at once then.
    pub(crate) picked_up: usize,
    pub(crate) senders: usize,
    /// Messages whose traces are broken down.
    pub(crate) traced: usize,
    /// Whole lives of messages per measured point of the ledger.
    pub(crate) lives: u64,
    /// Rounds into which they are cut; each figure is a median of rounds.
    pub(crate) ledger_rounds: usize,
    /// Finished messages behind the ledger, point by point.
    pub(crate) behind: Vec<u64>,
    /// Conversations that write to the ledger at the same time, point by point.
    pub(crate) writers: Vec<u64>,
    /// Nodes over one server, fleet by fleet.
    pub(crate) nodes: Vec<u64>,
    /// Rounds of each fleet, and how long `pgbench` and the lives beside it take in each.
    pub(crate) fleet_rounds: usize,
    pub(crate) fleet_round: Duration,
    /// Turns whose threads are stored, and as many whose are not.
    pub(crate) shipped: usize,
    /// Nodes that are killed in the middle of a turn.
    pub(crate) deaths: usize,
    /// How long nodes are watched that have nothing to do.
    pub(crate) idle: Duration,
    /// Deltas of one flooded turn.
    pub(crate) deltas: u64,
    /// Threads of the real Codex at the same time, point by point.
    pub(crate) threads: Vec<usize>,
    /// Turns of each of these points.
    pub(crate) thread_turns: usize,
    /// Floods that fill SQLite's page caches before anything counts; each leaves about 0.4 MiB there, of 12 in all.
    pub(crate) filling_floods: usize,
    /// Floods of each way.
    pub(crate) floods: usize,
    /// Conversations that are known and idle.
    pub(crate) known: usize,
    /// Conversations that are active at the same time.
    pub(crate) active: usize,
    /// Conversations on a budget, what it is in MiB, and messages of each kind that are timed then.
    pub(crate) budgeted: usize,
    pub(crate) budget_mib: u64,
    pub(crate) budget_samples: usize,
    /// Unfinished rows that a start finds.
    pub(crate) unfinished: u64,
    /// How many of them have a turn; as many turns may run at the same time.
    pub(crate) in_flight: u64,
    /// Starts that are timed for each number of rows.
    pub(crate) starts: usize,
    /// Messages that are played under faults, for what one costs then.
    pub(crate) drilled: usize,
}

impl Plan {
    pub(crate) fn whole() -> Self {
        Self {
            rounds: 110,
            warm_rounds: 3,
            gap: Duration::from_millis(30),
            silences: 8,
            silence: Duration::from_millis(1_500),
            polled: 6,
            cold_starts: 8,
            picked_up: 60,
            senders: 20,
            traced: 60,
            lives: 27_000,
            ledger_rounds: 9,
            behind: vec![0, 1_000, 100_000, 1_000_000],
            writers: vec![1, 4, 16, 64],
            nodes: vec![1, 2, 4],
            fleet_rounds: 7,
            fleet_round: Duration::from_secs(2),
            shipped: 80,
            deaths: 7,
            idle: Duration::from_secs(30),
            deltas: 20_000,
            threads: vec![1, 10, 50],
            thread_turns: 100,
            filling_floods: 30,
            floods: 5,
            known: 1_000,
            active: 50,
            budgeted: 1_000,
            budget_mib: 400,
            budget_samples: 100,
            unfinished: 10_000,
            in_flight: 16,
            starts: 7,
            drilled: 120,
        }
    }

    pub(crate) fn quick() -> Self {
        Self {
            rounds: 8,
            warm_rounds: 2,
            gap: Duration::from_millis(30),
            silences: 2,
            silence: Duration::from_millis(500),
            polled: 2,
            cold_starts: 2,
            picked_up: 8,
            senders: 20,
            traced: 8,
            lives: 3_000,
            ledger_rounds: 3,
            behind: vec![0, 1_000, 10_000],
            writers: vec![1, 64],
            nodes: vec![1, 2],
            fleet_rounds: 2,
            fleet_round: Duration::from_secs(1),
            shipped: 8,
            deaths: 2,
            idle: Duration::from_secs(5),
            deltas: 2_000,
            threads: vec![1, 10],
            thread_turns: 10,
            filling_floods: 30,
            floods: 2,
            known: 50,
            active: 10,
            budgeted: 120,
            budget_mib: 256,
            budget_samples: 10,
            unfinished: 1_000,
            in_flight: 16,
            starts: 2,
            drilled: 24,
        }
    }
}
