//! What a command prints for people on stdout: lines folded at the width of the terminal, as they are in a pipe.

use super::markdown::render;
use super::screen::stdout_width;
use bridge_daemon::term::{Paint, cells, escape, escape_line, fold};

/// Narrowest column that a text is folded into.
const ROOM_MIN: usize = 20;

/// Ends all colours.
const RESET: &str = "\u{1b}[0m";

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

/// A line behind `first`, folded at its spaces to the terminal's width; what does not fit goes on behind `next`. Both
/// are painted already. Every line for people is folded here; where there is no width it stays whole.
pub(crate) fn hang(
    first: &str,
    next: &str,
    text: &str,
    width: Option<usize>,
    look: impl Fn(&str) -> String,
) -> Vec<String> {
    folded(first, next, &escape_line(text), width, look)
}

/// The same for a text that is escaped already, and may be painted.
fn folded(
    first: &str,
    next: &str,
    text: &str,
    width: Option<usize>,
    look: impl Fn(&str) -> String,
) -> Vec<String> {
    let Some(width) = width else {
        return match text.trim_end() {
            "" => vec![first.trim_end().to_owned()],
            text => vec![format!("{first}{}", look(text))],
        };
    };
    let indent = painted_cells(next);
    let room = width.saturating_sub(indent).max(ROOM_MIN);
    let more = painted_cells(first).saturating_sub(indent);
    let (plain, marks) = unpainted(text);
    let lines = painted(&pieces(&plain, room, more), marks);
    let line = |(at, piece): (usize, String)| {
        let head = if at == 0 { first } else { next };
        match piece.as_str() {
            "" => head.trim_end().to_owned(),
            piece => format!("{head}{}", look(piece)),
        }
    };
    lines.into_iter().enumerate().map(line).collect()
}

/// A text cut into lines of `room` cells, each with its place; the first has `more` cells less. A word that does not fit
/// into the first begins the next.
fn pieces(text: &str, room: usize, more: usize) -> Vec<(usize, String)> {
    let mut pieces = Vec::new();
    let mut at = 0_usize;
    if more > 0 {
        let first = beginning(text, room.saturating_sub(more));
        pieces.push((0, first.to_owned()));
        let rest = text.get(first.len()..).unwrap_or_default();
        if rest.trim_end().is_empty() {
            return pieces;
        }
        at = text.len().saturating_sub(rest.trim_start().len());
    }
    for piece in fold(text.get(at..).unwrap_or_default(), room) {
        let next = at.saturating_add(piece.len());
        pieces.push((at, piece));
        at = next;
    }
    pieces
}

/// As many whole words from the beginning of a text as `room` cells show.
fn beginning(text: &str, room: usize) -> &str {
    if cells(text) <= room {
        return text;
    }
    let ends = text.match_indices(' ').map(|(at, _)| at);
    let heads = ends.filter_map(|at| text.get(..at));
    let fitting = heads.take_while(|head| cells(head) <= room);
    let last = fitting.last().unwrap_or_default();
    // Spaces alone are no beginning.
    if last.trim().is_empty() { "" } else { last }
}

/// A text without its sequences of colours, and those with their places in it.
fn unpainted(text: &str) -> (String, Vec<(usize, String)>) {
    let (mut plain, mut marks) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let (mark, behind) = behind.split_once('m').unwrap_or((behind, ""));
        marks.push((plain.len(), format!("\u{1b}{mark}m")));
        rest = behind;
    }
    plain.push_str(rest);
    (plain, marks)
}

/// The pieces in their colours again, without spaces at their ends; a colour ends with its line and goes on in the next.
fn painted(pieces: &[(usize, String)], marks: Vec<(usize, String)>) -> Vec<String> {
    let mut marks = marks.into_iter().peekable();
    let mut colours = String::new();
    let turn = |colours: &mut String, mark: &str| match mark {
        RESET => colours.clear(),
        mark => colours.push_str(mark),
    };
    let mut lines = Vec::new();
    for (start, piece) in pieces {
        while let Some((_, mark)) = marks.next_if(|(place, _)| place <= start) {
            turn(&mut colours, &mark);
        }
        let shown = piece.trim_end();
        let mut line = if shown.is_empty() {
            String::new()
        } else {
            colours.clone()
        };
        let mut written = 0;
        let end = start.saturating_add(shown.len());
        while let Some((place, mark)) = marks.next_if(|(place, _)| *place < end) {
            let to = place.saturating_sub(*start);
            line.push_str(shown.get(written..to).unwrap_or_default());
            line.push_str(&mark);
            turn(&mut colours, &mark);
            written = to;
        }
        line.push_str(shown.get(written..).unwrap_or_default());
        if !line.is_empty() && !colours.is_empty() {
            line.push_str(RESET);
        }
        lines.push(line);
    }
    lines
}

/// Lines folded to a width, each to its own indent; those that fit stay as they are, painted or not. A title that is
/// painted already stands before the first one.
pub(crate) fn wrap(title: &str, text: &str, width: Option<usize>) -> String {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let title = if at == 0 { title } else { "" };
        let cells = painted_cells(title).saturating_add(painted_cells(line));
        if width.is_none_or(|width| cells <= width) {
            lines.push(format!("{title}{line}"));
            continue;
        }
        let (indent, line) = line.split_at(line.len() - line.trim_start_matches(' ').len());
        let line = line.replace('\t', "    ");
        let first = format!("{title}{indent}");
        lines.extend(folded(&first, indent, &line, width, ToOwned::to_owned));
    }
    lines.join("\n")
}

/// The beginning of a line, as much of it as `room` cells show.
pub(crate) fn cut(line: &str, room: usize) -> String {
    if cells(line) <= room {
        return line.to_owned();
    }
    let mut kept = String::new();
    for c in line.chars() {
        kept.push(c);
        if cells(&kept) >= room {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
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
        let paint = self.paint;
        let lines = hang(head, &" ".repeat(indent), text, self.width, |piece| {
            look(paint, piece)
        });
        self.raw(&lines);
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

    /// Who said something, and when.
    pub(crate) fn head(&mut self, at: &str, who: &str, about: &str) {
        let who = self.paint.bold(&escape_line(who));
        let head = format!("{}  {who}", self.paint.dim(at));
        self.hang(&head, 2, &format!("  {about}"), DIM);
    }

    /// A text of several lines, each folded.
    pub(crate) fn block(&mut self, indent: usize, text: &str, look: Look) {
        for line in escape(text).replace('\t', "    ").lines() {
            self.line(indent, line, look);
        }
    }

    /// An answer of Codex: its Markdown is rendered on a terminal, and stays as it is in a pipe.
    pub(crate) fn answer(&mut self, indent: usize, text: &str) {
        let Some(width) = self.width else {
            return self.block(indent, text, PLAIN);
        };
        let room = width.saturating_sub(indent).max(ROOM_MIN);
        for line in render(text, room, self.paint).lines() {
            self.raw(&[format!("{:indent$}{line}", "").trim_end().to_owned()]);
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
    fn text_wraps_at_terminal_width() {
        let text = "one two three four five\nsix";
        assert_eq!(wrap("", text, Some(20)), "one two three four\nfive\nsix");
        assert_eq!(wrap("", text, None), text);
        let painted = Paint::always().bold("one two three four");
        assert_eq!(wrap("", &painted, Some(20)), painted);
        let red = Paint::always().red("not so:");
        assert_eq!(
            wrap(
                &format!("{red} "),
                "a b\n  one two three four five",
                Some(20)
            ),
            format!("{red} a b\n  one two three four\n  five")
        );
    }

    #[test]
    fn answers_are_rendered_on_terminals_only() {
        let said = |width| {
            let mut page = Page::new(Paint::plain(), width);
            page.answer(2, "# Title\n\nSome **bold** text\n\n- one");
            page.into_text()
        };
        assert_eq!(said(Some(40)), "  Title\n\n  Some bold text\n\n  • one\n");
        assert!(
            said(None).contains("  Some **bold** text"),
            "{}",
            said(None)
        );
    }

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

    #[test]
    fn wide_heads_stand_alone() {
        let hung =
            |head: &str, text: &str, width| hang(head, "  ", text, Some(width), str::to_owned);
        let head = "a8945be2 waiting for you ";
        assert_eq!(
            hung(head, "nobody has answered", 24),
            ["a8945be2 waiting for you", "  nobody has answered"]
        );
        assert_eq!(
            hung(head, "  so far nobody has answered it", 32),
            [
                "a8945be2 waiting for you   so",
                "  far nobody has answered it"
            ]
        );
        assert_eq!(
            hung("0123456789: ", "a bcdefghijklmnop", 22),
            ["0123456789: a", "  bcdefghijklmnop"]
        );
        assert_eq!(hung(head, "", 10), ["a8945be2 waiting for you"]);
        assert_eq!(
            hung("0123456789: ", "abcdefghij ", 22),
            ["0123456789: abcdefghij"]
        );
        let long = "x".repeat(25);
        assert_eq!(
            hung("0123456789: ", &long, 22),
            ["0123456789:", &format!("  {}", &long[..20]), "  xxxxx"]
        );
    }

    #[test]
    fn painted_lines_fold_by_their_cells() {
        let paint = Paint::always();
        let text = format!("{} three {} five", paint.bold("one two"), paint.red("four"));
        assert_eq!(
            wrap("", &text, Some(20)),
            format!(
                "{} three {}\nfive",
                paint.bold("one two"),
                paint.red("four")
            )
        );
        let text = format!("  {} seven", paint.green("one two three four five six"));
        let folded = wrap("", &text, Some(22));
        assert_eq!(
            folded,
            format!(
                "  {}\n  {} seven",
                paint.green("one two three four"),
                paint.green("five six")
            )
        );
        assert!(folded.lines().all(|line| painted_cells(line) <= 22));
    }
}
