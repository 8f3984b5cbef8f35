//! Plots as SVG, in one style that reads on light and on dark pages. One file for each kind of plot.

mod canvas;
mod columns;
mod curves;
mod pieces;
mod scale;
mod spreads;

use crate::section::{Plot, Whose};

impl Plot {
    /// The name of its file.
    pub(super) fn file(&self) -> &'static str {
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
