//! One lying bar for each value, and a line that must not be crossed.

use super::canvas::{Anchor, Canvas, MARGIN, TITLE, WIDTH};
use super::class;
use super::scale::Scale;
use crate::report::text::number;
use crate::section::Column;

const ROW: f64 = 32.0;
const LABELS: f64 = 300.0;
const NUMBERS: f64 = 90.0;

pub(super) fn draw(
    title: &str,
    unit: &str,
    rows: &[Column],
    bar: Option<&(f64, String)>,
) -> String {
    let bottom = TITLE + ROW * rows.len() as f64;
    let mut canvas = Canvas::new(title, bottom + 44.0);
    let values = rows.iter().map(|row| row.value);
    let largest = values
        .chain(bar.map(|(value, _)| *value))
        .fold(0.0, f64::max);
    let scale = Scale::linear(largest, (LABELS, WIDTH - MARGIN - NUMBERS));
    canvas.grid(&scale, bottom, "");
    for (place, row) in rows.iter().enumerate() {
        let top = TITLE + ROW * place as f64;
        let middle = top + ROW / 2.0;
        canvas.text((LABELS - 10.0, middle + 4.0), Anchor::End, "", &row.label);
        let end = scale.place(row.value);
        let size = (end - LABELS, ROW - 12.0);
        canvas.rect((LABELS, top + 6.0), size, class(row.whose));
        let words = format!("{} {unit}", number(row.value));
        canvas.text((end + 8.0, middle + 4.0), Anchor::Start, "small", &words);
    }
    if let Some((value, words)) = bar {
        let x = scale.place(*value);
        canvas.line((x, TITLE - 4.0), (x, bottom), "bar");
        canvas.text((x, bottom + 34.0), Anchor::Middle, "barword", words);
    }
    canvas.finish()
}
