//! Curves over x, with a line that must not be crossed.

use super::canvas::{Anchor, Canvas, MARGIN, TITLE, WIDTH};
use super::class;
use super::scale::Scale;
use crate::report::text;
use crate::section::{Axis, Curve};

const HEIGHT: f64 = 330.0;
const LEFT: f64 = 80.0;
const BOTTOM: f64 = HEIGHT - 70.0;
/// Room on the right for the names of the curves.
const NAMES: f64 = 190.0;
/// Names that would touch are moved so far apart.
const APART: f64 = 16.0;

pub(super) fn draw(
    title: &str,
    (x, y): (&Axis, &Axis),
    curves: &[Curve],
    bar: Option<&(f64, String)>,
) -> String {
    let mut canvas = Canvas::new(title, HEIGHT);
    let right = WIDTH - MARGIN - NAMES;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let across = scale(x, points().map(|point| point.0), (LEFT, right));
    let bars = bar.map(|(value, _)| *value);
    let up = scale(
        y,
        points().map(|point| point.1).chain(bars),
        (BOTTOM, TITLE),
    );
    for tick in across.ticks() {
        let place = across.place(tick);
        canvas.line((place, TITLE), (place, BOTTOM), "grid");
        canvas.text(
            (place, BOTTOM + 18.0),
            Anchor::Middle,
            "small",
            &text::tick(tick),
        );
    }
    for tick in up.ticks() {
        let place = up.place(tick);
        canvas.line((LEFT, place), (right, place), "grid");
        canvas.text(
            (LEFT - 8.0, place + 4.0),
            Anchor::End,
            "small",
            &text::tick(tick),
        );
    }
    if let Some((value, words)) = bar {
        let place = up.place(*value);
        canvas.line((LEFT, place), (right, place), "bar");
        canvas.text((LEFT + 6.0, place - 6.0), Anchor::Start, "barword", words);
    }
    names(&mut canvas, curves, &up, right);
    for curve in curves {
        let placed = curve
            .points
            .iter()
            .map(|(a, b)| (across.place(*a), up.place(*b)));
        let placed: Vec<(f64, f64)> = placed.collect();
        canvas.curve(&placed, class(curve.whose));
    }
    let below = BOTTOM + 40.0;
    canvas.text(
        ((LEFT + right) / 2.0, below),
        Anchor::Middle,
        "small",
        &x.label,
    );
    canvas.text((MARGIN, TITLE - 4.0), Anchor::Start, "small", &y.label);
    canvas.finish()
}

fn scale(axis: &Axis, values: impl Iterator<Item = f64>, paper: (f64, f64)) -> Scale {
    let values: Vec<f64> = values.collect();
    let largest = values.iter().copied().fold(0.0, f64::max);
    if axis.logarithmic {
        let positive = values.into_iter().filter(|value| *value > 0.0);
        Scale::logarithmic((positive.fold(largest, f64::min), largest), paper)
    } else {
        Scale::linear(largest, paper)
    }
}

/// Each name stands beside the end of its curve.
fn names(canvas: &mut Canvas, curves: &[Curve], up: &Scale, right: f64) {
    let mut ends: Vec<(f64, &Curve)> = curves
        .iter()
        .filter_map(|curve| Some((up.place(curve.points.last()?.1), curve)))
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = TITLE;
    for (end, curve) in ends {
        let place = end.max(free);
        free = place + APART;
        canvas.rect(
            (right + 12.0, place - 5.0),
            (10.0, 10.0),
            class(curve.whose),
        );
        canvas.text((right + 28.0, place + 4.5), Anchor::Start, "", &curve.label);
    }
}
