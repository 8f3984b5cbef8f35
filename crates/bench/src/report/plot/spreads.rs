//! One bar to the median for each way, with whiskers to the slow end: p95, and p99 or the largest one.

use super::canvas::{Anchor, Canvas, MARGIN, TITLE, WIDTH};
use super::class;
use super::scale::Scale;
use crate::report::text::number;
use crate::section::SpreadRow;
use crate::stats::{Spread, Tail};

const ROW: f64 = 30.0;
const LABELS: f64 = 270.0;
/// Room behind the bars for their numbers.
const NUMBERS: f64 = 80.0;
/// Half the height of the first whisker's end, and how much each further one is smaller.
const WHISKER: f64 = 6.0;
const SMALLER: f64 = 2.5;

pub(super) fn draw(title: &str, unit: &str, rows: &[SpreadRow]) -> String {
    let bottom = TITLE + ROW * rows.len() as f64;
    let mut canvas = Canvas::new(title, bottom + 52.0);
    let spreads: Vec<Spread> = rows.iter().map(|row| row.spread).collect();
    // All of them are drawn alike, so the one with the fewest samples decides.
    let fewest = spreads.iter().map(|spread| spread.samples).min();
    let tails = Tail::of(fewest.unwrap_or_default());
    let furthest = |spread: &Spread| {
        let ends = tails.iter().map(|tail| spread.at(*tail));
        ends.fold(spread.p50, f64::max)
    };
    let largest = spreads.iter().map(furthest).fold(0.0, f64::max);
    let scale = Scale::linear(largest, (LABELS, WIDTH - MARGIN - NUMBERS));
    canvas.grid(&scale, bottom, "");
    for (place, row) in rows.iter().enumerate() {
        let top = TITLE + ROW * place as f64;
        let middle = top + ROW / 2.0;
        canvas.text((LABELS - 10.0, middle + 4.0), Anchor::End, "", &row.label);
        let p50 = row.spread.p50;
        let width = scale.place(p50) - LABELS;
        canvas.rect((LABELS, top + 6.0), (width, ROW - 12.0), class(row.whose));
        let (from, to) = (scale.place(p50), scale.place(furthest(&row.spread)));
        canvas.line((from, middle), (to, middle), "whisker");
        for (number, tail) in tails.iter().enumerate() {
            let (x, half) = (
                scale.place(row.spread.at(*tail)),
                WHISKER - SMALLER * number as f64,
            );
            canvas.line((x, middle - half), (x, middle + half), "whisker");
        }
        let words = format!("{} {unit}", number(p50));
        canvas.text((to + 8.0, middle + 4.0), Anchor::Start, "small", &words);
    }
    let words: Vec<&str> = tails.iter().map(|tail| tail.as_str()).collect();
    let words = format!("{unit}; bar: median, whiskers: {}", words.join(" and "));
    canvas.text((LABELS, bottom + 38.0), Anchor::Start, "small", &words);
    canvas.finish()
}
