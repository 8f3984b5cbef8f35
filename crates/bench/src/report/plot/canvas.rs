//! The shapes that plots are made of, and the one style sheet. Whatever is text is escaped here.

use super::scale::Scale;
use crate::report::text;
use std::fmt::Write;

/// Room around everything.
pub(super) const MARGIN: f64 = 20.0;
/// Every plot is so wide.
pub(super) const WIDTH: f64 = 860.0;
/// The room that the title takes.
pub(super) const TITLE: f64 = 46.0;

const STYLE: &str = "text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#24292f}\
.title{font-size:16px;font-weight:600}.small{font-size:11.5px;fill:#6e7781}.paper{fill:#fff}\
.grid{stroke:#d8dee4;stroke-width:1}.ours{fill:#2f6fde;stroke:#2f6fde}.codex{fill:#97a3b4;stroke:#97a3b4}\
.other{fill:#d9822b;stroke:#d9822b}.line{fill:none;stroke-width:2.5}.pale{opacity:.35}\
.bar{stroke:#c62f3b;stroke-width:1.5;stroke-dasharray:6 4}.barword{font-size:11.5px;fill:#c62f3b}\
.whisker{stroke:#57606a;stroke-width:1.5}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.paper{fill:#0d1117}.grid{stroke:#30363d}\
.whisker{stroke:#b7bfc8}.ours{fill:#5b93f5;stroke:#5b93f5}.bar{stroke:#ff7b81}.barword{fill:#ff7b81}}";

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under way.
#[derive(Debug)]
pub(super) struct Canvas {
    body: String,
    height: f64,
}

impl Canvas {
    pub(super) fn new(title: &str, height: f64) -> Self {
        let mut canvas = Self {
            body: String::new(),
            height,
        };
        canvas.text((MARGIN, 28.0), Anchor::Start, "title", title);
        canvas
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = escaped(words);
        let _never = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{words}</text>"#
        );
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        let _never = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2" stroke="none" class="{class}" style="stroke:none"/>"#
        );
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _never = writeln!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        );
    }

    /// Upright lines at the round values of a scale, from the title down, with their numbers below.
    pub(super) fn grid(&mut self, scale: &Scale, bottom: f64, unit: &str) {
        for tick in scale.ticks() {
            let x = scale.place(tick);
            self.line((x, TITLE), (x, bottom), "grid");
            let words = format!("{} {unit}", text::tick(tick));
            self.text(
                (x, bottom + 16.0),
                Anchor::Middle,
                "small",
                words.trim_end(),
            );
        }
    }

    /// A curve with a dot at every point.
    pub(super) fn curve(&mut self, points: &[(f64, f64)], class: &str) {
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _never = writeln!(
            self.body,
            r#"<polyline points="{}" class="{class} line" style="fill:none"/>"#,
            path.join(" ")
        );
        for (x, y) in points {
            let _never = writeln!(
                self.body,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" class="{class}"/>"#
            );
        }
    }

    pub(super) fn finish(self) -> String {
        let Self { body, height } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" role=\"img\">\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\n{body}</svg>\n"
        )
    }
}

fn escaped(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_become_marks() {
        let drawn = Canvas::new("a <b> & c", 50.0).finish();
        assert!(drawn.contains("a &lt;b&gt; &amp; c"), "{drawn}");
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
    }
}
