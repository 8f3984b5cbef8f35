//! What a command prints for people on stdout: lines folded at the width of the terminal, as they are in a pipe.

use super::screen::stdout_width;
use bridge_daemon::term::{Paint, cells, escape, escape_line, fold};

/// Narrowest column that a text is folded into.
const ROOM_MIN: usize = 20;

/// How a piece of a line looks.
pub(crate) type Look = fn(Paint, &str) -> String;

/// As it is.
pub(crate) const PLAIN: Look = |_, text| text.to_owned();
pub(crate) const DIM: Look = |paint, text| paint.dim(text);
pub(crate) const BOLD: Look = |paint, text| paint.bold(text);
pub(crate) const YELLOW: Look = |paint, text| paint.yellow(text);

/// The colour of a state, in the words of people.
pub(crate) fn phase_look(phase: &str) -> Look {
    match phase {
        "done" => |paint, text| paint.green(text),
        "failed" => |paint, text| paint.red(text),
        "working" => |paint, text| paint.cyan(text),
        "waiting for you" => YELLOW,
        _ => PLAIN,
    }
}

/// Cells of a text that may be painted: sequences of colours take none.
fn painted_cells(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, cells);
    let painted = parts.filter_map(|part| part.split_once('m'));
    painted.fold(first, |sum, (_, rest)| sum + cells(rest))
}

/// Lines that are collected and printed once.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) paint: Paint,
    width: Option<usize>,
    text: String,
}

impl Page {
    /// For stdout as it is now.
    pub(crate) fn stdout(no_color: bool) -> Self {
        Self::new(Paint::stdout(no_color), stdout_width())
    }

    pub(crate) fn new(paint: Paint, width: Option<usize>) -> Self {
        let text = String::new();
        Self { paint, width, text }
    }

    /// Cells of a line; `None` in a pipe.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// A line behind `head`, which is painted already; a folded line goes on at `indent`.
    pub(crate) fn hang(&mut self, head: &str, indent: usize, text: &str, look: Look) {
        let text = escape_line(text);
        // What the head takes more than the indent stands before the text while it is folded.
        let more = "-".repeat(painted_cells(head).saturating_sub(indent));
        let pieces = match self.width {
            None => vec![format!("{more}{text}")],
            Some(width) => fold(
                &format!("{more}{text}"),
                width.saturating_sub(indent).max(ROOM_MIN),
            ),
        };
        for (at, piece) in pieces.iter().enumerate() {
            let piece = match at {
                0 => {
                    self.text.push_str(head);
                    piece.strip_prefix(&more).unwrap_or("")
                }
                _ => {
                    self.text.extend(std::iter::repeat_n(' ', indent));
                    piece
                }
            };
            self.text.push_str(&look(self.paint, piece.trim_end()));
            self.text.push('\n');
        }
    }

    /// A line, folded to the same indent.
    pub(crate) fn line(&mut self, indent: usize, text: &str, look: Look) {
        self.hang(&" ".repeat(indent), indent, text, look);
    }

    /// A value behind its name.
    pub(crate) fn field(&mut self, name: &str, width: usize, text: &str) {
        let head = self.paint.dim(&format!("{name:<width$}"));
        self.hang(&head, width.max(cells(name)), text, PLAIN);
    }

    /// A text of several lines, each folded.
    pub(crate) fn block(&mut self, indent: usize, text: &str, look: Look) {
        for line in escape(text).replace('\t', "    ").lines() {
            self.line(indent, line, look);
        }
    }

    /// Lines that are made elsewhere.
    pub(crate) fn raw(&mut self, lines: &[String]) {
        for line in lines {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    pub(crate) fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_lines_hang_below_their_text() {
        let mut page = Page::new(Paint::plain(), Some(30));
        page.hang("name  ", 6, "one two three four five six seven", PLAIN);
        page.hang(
            &Paint::always().bold("a8945be2"),
            2,
            " is done in main today",
            PLAIN,
        );
        page.block(2, "a\n\u{1b}[2J", PLAIN);
        page.gap();
        page.gap();
        assert_eq!(
            page.into_text(),
            "name  one two three four five \n      six seven\n\u{1b}[1ma8945be2\u{1b}[0m is done in main today\n  a\n  \\e[2J\n\n"
                .replace("five \n", "five\n")
        );
    }
}
