//! Plots as SVG, in one style that reads on light and on dark pages. One file for each kind of plot.

mod canvas;
mod columns;
mod curves;
mod pieces;
mod scale;
mod spreads;

use crate::section::{Plot, Whose};

impl Plot {
    /// The name of its file, which ends with `.svg`.
    pub(crate) fn file(&self) -> &'static str {
        match self {
            Self::Spreads { file, .. }
            | Self::Pieces { file, .. }
            | Self::Curves { file, .. }
            | Self::Columns { file, .. } => file,
        }
    }

    pub(super) fn title(&self) -> &str {
        match self {
            Self::Spreads { title, .. }
            | Self::Pieces { title, .. }
            | Self::Curves { title, .. }
            | Self::Columns { title, .. } => title,
        }
    }
}

/// The whole file.
pub(super) fn draw(plot: &Plot) -> String {
    match plot {
        Plot::Spreads {
            title, unit, rows, ..
        } => spreads::draw(title, unit, rows),
        Plot::Pieces {
            title,
            unit,
            pieces,
            ..
        } => pieces::draw(title, unit, pieces),
        Plot::Curves {
            title,
            x,
            y,
            curves,
            bar,
            ..
        } => curves::draw(title, (x, y), curves, bar.as_ref()),
        Plot::Columns {
            title,
            unit,
            rows,
            bar,
            ..
        } => columns::draw(title, unit, rows, bar.as_ref()),
    }
}

/// The colour of whose it is, as a class of the style sheet.
fn class(whose: Whose) -> &'static str {
    match whose {
        Whose::Ours => "ours",
        Whose::Codex => "codex",
        Whose::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::{Axis, Column, Curve, Piece, SpreadRow};
    use crate::stats::Spread;

    fn axis(label: &str, logarithmic: bool) -> Axis {
        Axis {
            label: label.to_owned(),
            logarithmic,
        }
    }

    fn spread(p50: f64) -> Spread {
        Spread {
            samples: 9,
            p50,
            p95: p50 * 1.2,
            p99: p50 * 1.4,
            max: p50 * 1.5,
        }
    }

    fn one_of_each() -> Vec<Plot> {
        let (label, title) = ("a <label>".to_owned(), "A title".to_owned());
        let (file, unit, whose) = ("one.svg", "ms", Whose::Ours);
        vec![
            Plot::Spreads {
                file,
                title: title.clone(),
                unit,
                rows: vec![SpreadRow {
                    label: label.clone(),
                    spread: spread(70.0),
                    whose,
                }],
            },
            Plot::Pieces {
                file,
                title: title.clone(),
                unit,
                pieces: vec![Piece {
                    label: label.clone(),
                    value: 0.0,
                    whose,
                }],
            },
            Plot::Curves {
                file,
                title: title.clone(),
                x: axis("rows", true),
                y: axis("messages/s", false),
                curves: vec![Curve {
                    label: label.clone(),
                    points: vec![(0.0, 3_000.0), (1e6, 2_900.0)],
                    whose,
                }],
                bar: Some((3_000.0, "the bar".to_owned())),
            },
            Plot::Columns {
                file,
                title,
                unit,
                rows: vec![Column {
                    label,
                    value: 0.0,
                    whose,
                }],
                bar: None,
            },
        ]
    }

    #[test]
    fn every_plot_renders_labels_and_valid_numbers() {
        for plot in one_of_each() {
            let drawn = draw(&plot);
            assert!(drawn.contains("a &lt;label&gt;"), "{drawn}");
            assert!(drawn.contains(">A title</text>"), "{drawn}");
            for nonsense in ["NaN", "inf", "=\"-"] {
                assert!(!drawn.contains(nonsense), "{nonsense} in {drawn}");
            }
        }
    }
}
