//! What a drill showed, in numbers. Whether that is good, and how it is shown, is for whoever drilled.

use crate::history::Verdict;
use std::time::Duration;

/// Bytes that are taken for one token: the model is scripted and has no tokens of its own.
const BYTES_PER_TOKEN: u64 = 4;

/// Who was killed how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kills {
    /// The daemon.
    pub daemon: usize,
    /// A Codex.
    pub codex: usize,
}

/// What the nodes of a fleet met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFaults {
    /// Nodes that died with everything they ran.
    pub deaths: usize,
    /// Of these, with their CODEX_HOME and state directory gone for good.
    pub disks_lost: usize,
    /// Of those, replaced by a node of another name.
    pub renamed: usize,
    /// Daemons that stood still until their lease had ended.
    pub daemons_frozen: usize,
    /// Whole machines that did.
    pub machines_frozen: usize,
    /// Daemons that ended because their lease had.
    pub leases_lost: usize,
    /// Restarts of the database's server, each as after a crash.
    pub database_restarts: usize,
    /// Milliseconds from a node's death to the first model request of another node for a message whose turn it cut,
    /// shortest first.
    pub elsewhere_ms: Vec<u64>,
}

impl NodeFaults {
    /// The median and the longest time until a cut turn went on elsewhere.
    #[must_use]
    pub fn elsewhere(&self) -> Option<(u64, u64)> {
        let median = self.elsewhere_ms.get(self.elsewhere_ms.len() / 2)?;
        Some((*median, *self.elsewhere_ms.last()?))
    }
}

/// What the model was asked in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Every request that it got.
    pub calls: usize,
    /// Requests that the messages need when each is worked on once and nothing goes wrong.
    pub needed: usize,
    /// The size of all request bodies.
    pub bytes: u64,
}

impl Cost {
    /// What was sent, in tokens: the bytes of the requests (instructions, tools, history, message) divided by four.
    #[must_use]
    pub fn input_tokens(&self) -> u64 {
        self.bytes / BYTES_PER_TOKEN
    }

    /// Calls for each answered message; none where nothing was answered.
    #[must_use]
    pub fn calls_each(&self, answered: usize) -> Option<f64> {
        (answered > 0).then(|| self.calls as f64 / answered as f64)
    }

    /// Input tokens for each answered message; none where nothing was answered.
    #[must_use]
    pub fn tokens_each(&self, answered: usize) -> Option<f64> {
        (answered > 0).then(|| self.input_tokens() as f64 / answered as f64)
    }
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Which promises were kept.
    pub verdict: Verdict,
    /// What went wrong with the drill or its daemon, beside that.
    pub problems: Vec<String>,
    /// What was done to them.
    pub kills: Kills,
    /// What the nodes met, where there were several.
    pub nodes: Option<NodeFaults>,
    /// How soon all was quiet; none if it never was.
    pub quiet_after: Option<Duration>,
    /// What it cost.
    pub cost: Cost,
    /// The history as lines, one fact each in the order of time, for whoever looks what went wrong.
    pub history: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_per_answer_includes_all_calls() {
        let cost = Cost {
            calls: 30,
            needed: 20,
            bytes: 8_000,
        };
        assert_eq!(cost.calls_each(10), Some(3.0));
        assert_eq!(cost.tokens_each(10), Some(200.0));
        assert_eq!((cost.calls_each(0), cost.tokens_each(0)), (None, None));
    }
}
