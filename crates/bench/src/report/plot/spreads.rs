//! One bar to the median for each way, with whiskers to p95 and p99.

use super::canvas::{Anchor, Canvas, MARGIN, TITLE, WIDTH};
use super::class;
use super::scale::Scale;
use crate::report::text::number;
use crate::section::SpreadRow;

const ROW: f64 = 30.0;
const LABELS: f64 = 270.0;
/// Room behind the bars for their numbers.
const NUMBERS: f64 = 80.0;

pub(super) fn draw(title: &str, unit: &str, rows: &[SpreadRow]) -> String {
    let bottom = TITLE + ROW * rows.len() as f64;
    let mut canvas = Canvas::new(title, bottom + 52.0);
    let largest = rows.iter().map(|row| row.spread.p99).fold(0.0, f64::max);
    let scale = Scale::linear(largest, (LABELS, WIDTH - MARGIN - NUMBERS));
    canvas.grid(&scale, bottom, "");
    for (place, row) in rows.iter().enumerate() {
        let top = TITLE + ROW * place as f64;
        let middle = top + ROW / 2.0;
        canvas.text((LABELS - 10.0, middle + 4.0), Anchor::End, "", &row.label);
        let (p50, p95, p99) = (row.spread.p50, row.spread.p95, row.spread.p99);
        let width = scale.place(p50) - LABELS;
        canvas.rect((LABELS, top + 6.0), (width, ROW - 12.0), class(row.whose));
        let (from, to) = (scale.place(p50), scale.place(p99));
        canvas.line((from, middle), (to, middle), "whisker");
        for (value, half) in [(p95, 6.0), (p99, 3.5)] {
            let x = scale.place(value);
            canvas.line((x, middle - half), (x, middle + half), "whisker");
        }
        let words = format!("{} {unit}", number(p50));
        canvas.text((to + 8.0, middle + 4.0), Anchor::Start, "small", &words);
    }
    let words = format!("{unit}; bar: median, whiskers: p95 and p99");
    canvas.text((LABELS, bottom + 38.0), Anchor::Start, "small", &words);
    canvas.finish()
}
