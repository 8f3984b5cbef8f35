//! What was measured (docs/benchmarks.md, part fleet; ADR 0071), and what is assumed.

/// Costs of one message's life, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Processor time of Codex and the daemon for one turn.
    pub(crate) turn_us: u64,
    /// How long the model thinks on average, which costs no processor here.
    pub(crate) model_us: u64,
    /// Transitions before Codex has the turn, and after it.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// A batch, whatever is in it: the writers' lock, the fence, the commit with its sync.
    pub(crate) batch_us: u64,
    /// A transition in it.
    pub(crate) transition_us: u64,
    /// Round trips that a transition waits for.
    pub(crate) trips: f64,
    /// What one takes on the network; that on one machine is in the figures above.
    pub(crate) round_trip_us: u64,
}

/// Measured on 2 cores that nodes, PostgreSQL and the model shared.
pub(crate) const COSTS: Costs = Costs {
    turn_us: 52_000,
    model_us: 5_000_000,
    before: 4,
    after: 6,
    batch_us: 320,
    transition_us: 350,
    trips: 2.8,
    round_trip_us: 0,
};

/// Processors of a node.
pub(crate) const PROCESSORS: usize = 2;
/// How much of them turns take: more, and people wait for processors.
const LOAD: f64 = 0.7;

/// The turns that so many nodes are given.
pub(crate) fn turns_per_second(nodes: usize) -> f64 {
    (nodes * PROCESSORS) as f64 * LOAD * 1e6 / COSTS.turn_us as f64
}

impl Costs {
    /// How long a batch holds the writers' lock.
    pub(crate) fn batch(&self, transitions: usize) -> u64 {
        let each = self.transition_us as f64 + self.trips * self.round_trip_us as f64;
        self.batch_us + self.round_trip_us + (transitions as f64 * each) as u64
    }
}
