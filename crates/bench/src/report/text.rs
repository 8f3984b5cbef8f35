//! Tables as text: aligned for a terminal, and the words for numbers that the page uses too.

use crate::agreement::{Compared, MOST};
use crate::section::{Bar, Limit, Section, Table};
use std::fmt::Write;

/// Everything on the terminal; the bars last, because they are what one looks for.
pub(crate) fn terminal(sections: &[Section], compared: Option<&[Compared]>) -> String {
    let mut text = String::new();
    for section in sections {
        let _never = writeln!(
            text,
            "\n{}\n{}",
            section.title,
            "=".repeat(section.title.chars().count())
        );
        for table in &section.tables {
            let _never = write!(text, "\n{}\n{}", table.title, aligned(table));
        }
    }
    if let Some(compared) = compared {
        let _never = write!(
            text,
            "\nThis run and the earlier one\n{}",
            aligned(&agreement(compared))
        );
    }
    let bars: Vec<&Bar> = sections.iter().flat_map(|section| &section.bars).collect();
    let _never = write!(text, "\nBars\n{}", aligned(&table_of_bars(&bars)));
    text
}

/// What must hold, and whether it does.
pub(super) fn table_of_bars(bars: &[&Bar]) -> Table {
    let rows = bars.iter().map(|bar| {
        let limit = match bar.limit {
            Limit::AtMost(most) => format!("at most {}", number(most)),
            Limit::AtLeast(least) => format!("at least {}", number(least)),
        };
        let met = if bar.is_met() { "met" } else { "MISSED" };
        vec![
            bar.words.clone(),
            format!("{limit} {}", bar.unit),
            format!("{} {}", number(bar.measured), bar.unit),
            met.to_owned(),
        ]
    });
    Table {
        title: String::new(),
        head: ["what", "bar", "measured", ""].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// How two runs agree.
pub(super) fn agreement(compared: &[Compared]) -> Table {
    let rows = compared.iter().map(|one| {
        let apart = one.apart().map(|apart| format!("{:.1} %", apart * 100.0));
        let word = if one.agrees() { "" } else { "DIFFERS" };
        vec![
            one.words.clone(),
            number(one.before),
            one.now.map_or_else(|| "not measured".to_owned(), number),
            format!("{} {word}", apart.unwrap_or_default())
                .trim()
                .to_owned(),
        ]
    });
    Table {
        title: String::new(),
        head: vec![
            "ratio".to_owned(),
            "before".to_owned(),
            "now".to_owned(),
            format!("apart (at most {:.0} %)", MOST * 100.0),
        ],
        rows: rows.collect(),
    }
}

/// A number with as many digits as one reads.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A round number beside an axis: no more digits than it needs.
pub(crate) fn tick(value: f64) -> String {
    if value.fract() == 0.0 {
        thousands(value)
    } else {
        format!("{value}")
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

fn aligned(table: &Table) -> String {
    let lines: Vec<&Vec<String>> = std::iter::once(&table.head).chain(&table.rows).collect();
    let columns = lines
        .iter()
        .map(|line| line.len())
        .max()
        .unwrap_or_default();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let cells: Vec<String> = cells.collect();
        let _never = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_one_reads() {
        let shown = [0.1234, 12.34, 123.4, 1_234_567.8, -4_321.0].map(number);
        assert_eq!(shown, ["0.12", "12.3", "123", "1,234,568", "-4,321"]);
        let beside = [0.0, 0.5, 20.0, 100_000.0].map(tick);
        assert_eq!(beside, ["0", "0.5", "20", "100,000"]);
    }

    #[test]
    fn report_marks_bars_met_or_missed() {
        let bar = |measured| Bar {
            words: "speed".to_owned(),
            measured,
            limit: Limit::AtLeast(2.5),
            unit: "x",
        };
        let section = Section {
            title: "One".to_owned(),
            bars: vec![bar(2.5), bar(2.4)],
            ..Section::default()
        };
        let text = terminal(&[section], None);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("speed")).collect();
        assert!(lines[0].ends_with("2.50 x     met"), "{text}");
        assert!(lines[1].ends_with("2.40 x  MISSED"), "{text}");
    }
}
