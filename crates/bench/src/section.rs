//! What a part of the bench found, in the form that the report shows: tables, plots, ratios that a second run must
//! agree with, and bars that must hold.

use crate::stats::{Spread, Tail};
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

/// One row of a table of spreads.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) label: String,
    pub(crate) spread: Spread,
    /// What stands behind the ranks.
    pub(crate) more: Vec<String>,
}

impl Table {
    /// Spreads with their numbers of samples. A row that has too few for a rank does not show it, or shows its largest
    /// sample and says so. `head` is the words over the first column, then those over what is behind the ranks.
    pub(crate) fn of_spreads(title: &str, head: &[&str], digits: usize, rows: &[Ranked]) -> Self {
        let most = rows.iter().map(|row| row.spread.samples).max();
        let tails = Tail::of(most.unwrap_or_default());
        let number = |value: f64| format!("{value:.digits$}");
        let rank = |spread: &Spread, tail: Tail| match tail {
            tail if Tail::of(spread.samples).contains(&tail) => number(spread.at(tail)),
            Tail::P95 => "-".to_owned(),
            Tail::P99 | Tail::Max => format!("max {}", number(spread.max)),
        };
        let row = |row: &Ranked| {
            let ranks = tails.iter().map(|tail| rank(&row.spread, *tail));
            let samples = row.spread.samples.to_string();
            [row.label.clone(), samples, number(row.spread.p50)]
                .into_iter()
                .chain(ranks)
                .chain(row.more.iter().cloned())
                .collect()
        };
        let (first, more) = head.split_at(head.len().min(1));
        let ranks = tails.iter().map(|tail| tail.as_str());
        let words = first.iter().copied().chain(["samples", "p50"]);
        let words = words.chain(ranks).chain(more.iter().copied());
        Self {
            title: title.to_owned(),
            head: words.map(str::to_owned).collect(),
            rows: rows.iter().map(row).collect(),
        }
    }
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

/// A picture. All of them are drawn by `report::plot`, in one style. `file` is the whole name, with `.svg`.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// One bar to the median for each way, with whiskers to the slow end, as far as the samples tell of it.
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
    pub(crate) spread: Spread,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn table(samples: &[u64]) -> Table {
        let row = |samples: &u64| {
            let times: Vec<Duration> = (1..=*samples).map(Duration::from_millis).collect();
            Ranked {
                label: "way".to_owned(),
                spread: Spread::of(&times),
                more: vec!["more".to_owned()],
            }
        };
        let rows: Vec<Ranked> = samples.iter().map(row).collect();
        Table::of_spreads("title", &["what", "behind"], 1, &rows)
    }

    #[test]
    fn spread_table_shows_sample_counts() {
        let shown = table(&[100, 60, 8]);
        assert_eq!(
            shown.head,
            ["what", "samples", "p50", "p95", "p99", "behind"]
        );
        assert_eq!(
            shown.rows,
            [
                ["way", "100", "50.0", "95.0", "99.0", "more"],
                ["way", "60", "30.0", "57.0", "max 60.0", "more"],
                ["way", "8", "4.0", "-", "max 8.0", "more"],
            ]
        );
    }

    #[test]
    fn small_sample_table_header_shows_max() {
        assert_eq!(
            table(&[60]).head,
            ["what", "samples", "p50", "p95", "max", "behind"]
        );
        let few = table(&[8, 6]);
        assert_eq!(few.head, ["what", "samples", "p50", "max", "behind"]);
        assert_eq!(few.rows[1], ["way", "6", "3.0", "6.0", "more"]);
    }
}
