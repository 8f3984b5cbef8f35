//! What a part of the bench found, in the form that the report shows: tables, plots, ratios that a second run must
//! agree with, and bars that must hold.

use serde::{Deserialize, Serialize};

/// One part's findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// What was measured and how, for a reader of the page; paragraphs of Markdown.
    pub(crate) words: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) plots: Vec<Plot>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) bars: Vec<Bar>,
}

/// Shown on the terminal and on the page. The first column is words, the others are numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A figure that a second run must repeat within [`crate::agreement::MOST`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    /// Known again by this in another run, e.g. `latency.inbox_to_floor`.
    pub(crate) key: String,
    pub(crate) words: String,
    pub(crate) value: f64,
}

/// A figure of the design, and whether it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) words: String,
    pub(crate) measured: f64,
    pub(crate) limit: Limit,
    /// `ms`, `MiB`, `x`, `messages/s`.
    pub(crate) unit: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    /// The number, for a line in a plot.
    pub(crate) fn number(self) -> f64 {
        match self {
            Self::AtMost(number) | Self::AtLeast(number) => number,
        }
    }
}

impl Bar {
    pub(crate) fn is_met(&self) -> bool {
        match self.limit {
            Limit::AtMost(most) => self.measured <= most,
            Limit::AtLeast(least) => self.measured >= least,
        }
    }
}

/// A picture. All of them are drawn by `report::plot`, in one style.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// One bar to the median for each way, with whiskers to p95 and p99.
    Spreads {
        file: &'static str,
        title: String,
        unit: &'static str,
        rows: Vec<SpreadRow>,
    },
    /// One line cut in pieces, in the order in which they follow each other.
    Pieces {
        file: &'static str,
        title: String,
        unit: &'static str,
        pieces: Vec<Piece>,
    },
    /// Curves over x.
    Curves {
        file: &'static str,
        title: String,
        x: Axis,
        y: Axis,
        curves: Vec<Curve>,
        /// A horizontal line that must not be crossed, with its words.
        bar: Option<(f64, String)>,
    },
    /// One bar for each value.
    Columns {
        file: &'static str,
        title: String,
        unit: &'static str,
        rows: Vec<Column>,
        bar: Option<(f64, String)>,
    },
}

/// Whose time or memory it is; decides the colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Ours,
    Codex,
    /// The way of the ancestor, or of one process per task.
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct SpreadRow {
    pub(crate) label: String,
    pub(crate) spread: crate::stats::Spread,
    pub(crate) whose: Whose,
}

#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) whose: Whose,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) logarithmic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) whose: Whose,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) label: String,
    pub(crate) value: f64,
    pub(crate) whose: Whose,
}
