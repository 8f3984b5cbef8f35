//! What the daemon measured since its start and no row has, for `/metrics`.

/// Durations and counts since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Of transitions, waiting for the writer included.
    pub commit_seconds: HistogramView,
    /// From a turn's beginning to its end.
    pub turn_seconds: HistogramView,
    /// From the arrival of a message to its answer.
    pub answer_seconds: HistogramView,
    /// From a question of Codex to its decision.
    pub approval_seconds: HistogramView,
    /// Decisions by what was decided.
    pub approvals: Vec<(&'static str, u64)>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Spans that a receiver of traces took.
    pub spans_exported: u64,
    /// Spans that found no room, or that no receiver took.
    pub spans_dropped: u64,
}

/// A histogram, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramView {
    /// Upper bounds and how many values are at or below each.
    pub buckets: Vec<(f64, u64)>,
    pub sum: f64,
    pub count: u64,
}
