//! What follows what: one step down for each piece, each beginning where the one before it ended.

use super::canvas::{Anchor, Canvas, MARGIN, TITLE, WIDTH};
use super::class;
use super::scale::Scale;
use crate::report::text::number;
use crate::section::Piece;

const ROW: f64 = 24.0;
const LABELS: f64 = 330.0;
const NUMBERS: f64 = 80.0;
/// A piece is never thinner than this, or it could not be seen.
const THIN: f64 = 1.5;

pub(super) fn draw(title: &str, unit: &str, pieces: &[Piece]) -> String {
    let bottom = TITLE + ROW * pieces.len() as f64;
    let mut canvas = Canvas::new(title, bottom + 32.0);
    let whole: f64 = pieces.iter().map(|piece| piece.value).sum();
    let scale = Scale::linear(whole, (LABELS, WIDTH - MARGIN - NUMBERS));
    canvas.grid(&scale, bottom, unit);
    let mut begins = 0.0;
    for (place, piece) in pieces.iter().enumerate() {
        let top = TITLE + ROW * place as f64;
        canvas.text((LABELS - 10.0, top + 16.0), Anchor::End, "", &piece.label);
        let (from, to) = (scale.place(begins), scale.place(begins + piece.value));
        let size = ((to - from).max(THIN), ROW - 8.0);
        canvas.rect((from, top + 4.0), size, class(piece.whose));
        let end = (to + 6.0, top + 16.0);
        canvas.text(end, Anchor::Start, "small", &number(piece.value));
        begins += piece.value;
    }
    canvas.finish()
}
