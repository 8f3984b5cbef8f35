//! The page `docs/benchmarks.md`: what must hold first, then part by part what was found.

use super::text::{agreement, table_of_bars};
use super::{Measured, PLOTS};
use crate::agreement::Compared;
use crate::section::{Bar, Section, Table};
use std::fmt::Write;

/// What measuring changed in the code, with before and after; written by hand.
const CHANGES: &str = include_str!("changes.md");

pub(super) fn page(
    measured: &Measured,
    sections: &[Section],
    compared: Option<&[Compared]>,
) -> String {
    let machine = &measured.machine;
    let took = format!("{} minutes here", measured.took.as_secs().div_ceil(60));
    let mut text = format!(
        "# Benchmarks\n\n\
         Written by `cargo xtask bench`; repeat it with that one command (Rust, Node.js and PostgreSQL; a build with profile \
         `dist`, about 10 minutes on 2 cores, then the run, {took}), or see that it works with `--quick`.\n\
         Everything is measured in one run on one machine, side by side, with the real Codex and a scripted model on \
         loopback that answers at once, so that what remains is Codex and us. Times are this machine's; the ratios are \
         what to compare.\n\n\
         Measured on {machine}.\n\n## What must hold\n\n"
    );
    let bars: Vec<&Bar> = sections.iter().flat_map(|section| &section.bars).collect();
    text.push_str(&markdown(&table_of_bars(&bars)));
    for section in sections {
        show(&mut text, section);
    }
    let _never = write!(text, "\n## What measuring changed\n\n{CHANGES}");
    if let Some(compared) = compared {
        text.push_str("\n## Two runs\n\nEvery ratio of this run and of the one before it:\n\n");
        text.push_str(&markdown(&agreement(compared)));
    }
    text
}

fn show(text: &mut String, section: &Section) {
    let _never = writeln!(text, "\n## {}", section.title);
    for words in &section.words {
        let _never = writeln!(text, "\n{words}");
    }
    for plot in &section.plots {
        let _never = writeln!(text, "\n![{}]({PLOTS}/{})", plot.title(), plot.file());
    }
    for table in &section.tables {
        if !table.title.is_empty() {
            let _never = writeln!(text, "\n**{}**", table.title);
        }
        let _never = write!(text, "\n{}", markdown(table));
    }
}

fn markdown(table: &Table) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> = (0..table.head.len())
        .map(|column| if column == 0 { "---" } else { "--:" }.to_owned())
        .collect();
    let mut text = row(&table.head) + &row(&rule);
    for cells in &table.rows {
        text.push_str(&row(cells));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn page_renders_text_and_tables() {
        let section = Section {
            title: "Latency".to_owned(),
            words: vec!["How it was measured.".to_owned()],
            tables: vec![Table {
                title: "Ways".to_owned(),
                head: vec!["way".to_owned(), "p50".to_owned()],
                rows: vec![vec!["send".to_owned(), "7".to_owned()]],
            }],
            ..Section::default()
        };
        let measured = Measured {
            machine: "a machine".to_owned(),
            took: Duration::from_secs(17 * 60 - 20),
        };
        let page = page(&measured, &[section], None);
        assert!(
            page.contains("\n## Latency\n\nHow it was measured.\n"),
            "{page}"
        );
        assert!(
            page.contains("**Ways**\n\n| way | p50 |\n| --- | --: |\n| send | 7 |\n"),
            "{page}"
        );
        assert!(page.contains("Measured on a machine."), "{page}");
        assert!(page.contains("then the run, 17 minutes here"), "{page}");
    }
}
