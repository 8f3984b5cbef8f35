//! Shows what was found: on the terminal, and as a page with plots. It measures nothing and judges nothing.

mod machine;
mod page;
mod plot;
mod text;

use crate::agreement::Compared;
use crate::ground::Ground;
use crate::section::Section;
use anyhow::Context;
use std::path::Path;
use std::time::Duration;

pub(crate) use text::{number, terminal};

/// The folder of the plots, beside the page.
const PLOTS: &str = "benchmarks";

/// On what, and in which time.
struct Measured {
    machine: String,
    took: Duration,
}

/// The pictures of these sections.
pub(crate) fn draw(plots: &Path, sections: &[Section]) -> anyhow::Result<()> {
    std::fs::create_dir_all(plots).with_context(|| format!("make {}", plots.display()))?;
    for plot in sections.iter().flat_map(|section| &section.plots) {
        let path = plots.join(plot.file());
        std::fs::write(&path, plot::draw(plot))
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Writes `benchmarks.md` and its plots below `docs`.
pub(crate) fn write(
    docs: &Path,
    ground: &Ground,
    took: Duration,
    sections: &[Section],
    compared: Option<&[Compared]>,
) -> anyhow::Result<()> {
    draw(&docs.join(PLOTS), sections)?;
    let path = docs.join("benchmarks.md");
    let measured = Measured {
        machine: machine::read(ground, docs),
        took,
    };
    let page = page::page(&measured, sections, compared);
    std::fs::write(&path, page).with_context(|| format!("write {}", path.display()))
}
