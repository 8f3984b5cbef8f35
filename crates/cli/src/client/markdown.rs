//! Markdown as a terminal shows it: headings, lists, code and emphasis, folded to its width. Pure.
//!
//! Nothing of a text is left out: addresses of links are shown, HTML is text, and control characters are escaped.

use bridge_daemon::term::{Paint, cells, escape_line, fold};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Narrowest column that a text is folded into.
const ROOM_MIN: usize = 20;
/// Deepest list or quote that is indented further.
const DEPTH_MAX: usize = 8;

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    bold: bool,
    code: bool,
    dim: bool,
}

impl Look {
    fn paint(self, text: &str, paint: Paint) -> String {
        match self {
            Self { code: true, .. } => paint.cyan(text),
            Self { bold: true, .. } => paint.bold(text),
            Self { dim: true, .. } => paint.dim(text),
            Self { .. } => text.to_owned(),
        }
    }
}

/// One open list or quote.
#[derive(Clone, Debug)]
enum Block {
    List(Option<u64>),
    /// An item, with the mark that its first line has.
    Item(Option<String>),
    Quote,
}

struct Renderer {
    paint: Paint,
    width: usize,
    lines: Vec<String>,
    blocks: Vec<Block>,
    /// The text of the present paragraph, heading or cell.
    runs: Vec<(String, Look)>,
    look: Look,
    /// Addresses of the links that are open.
    links: Vec<String>,
    in_code: bool,
}

/// Renders a text for a terminal of this width.
pub(crate) fn render(text: &str, width: usize, paint: Paint) -> String {
    let mut renderer = Renderer {
        paint,
        width,
        lines: Vec::new(),
        blocks: Vec::new(),
        runs: Vec::new(),
        look: Look::default(),
        links: Vec::new(),
        in_code: false,
    };
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for event in Parser::new_ext(text, options) {
        renderer.event(event);
    }
    renderer.flush();
    renderer.lines.join("\n").trim_end().to_owned()
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code => self.code(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.run(&text, self.look);
            }
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let look = Look {
                    code: true,
                    ..self.look
                };
                self.run(&text, look);
            }
            Event::SoftBreak => self.run(" ", self.look),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(self.width.min(40));
                self.lines.push(self.paint.dim(&rule));
            }
            Event::TaskListMarker(done) => {
                self.run(if done { "[x] " } else { "[ ] " }, self.look);
            }
            Event::FootnoteReference(name) => self.run(&format!("[^{name}]"), self.look),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { .. } => {
                self.gap();
                self.look.bold = true;
            }
            Tag::List(first) => {
                self.flush();
                if self.blocks.is_empty() {
                    self.gap();
                }
                self.blocks.push(Block::List(first));
            }
            Tag::Item => {
                let mark = self.mark();
                self.blocks.push(Block::Item(Some(mark)));
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.blocks.push(Block::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.gap();
                if let CodeBlockKind::Fenced(name) = kind
                    && !name.is_empty()
                {
                    let name = self.paint.dim(&escape_line(&name));
                    let line = format!("{}{name}", self.indent());
                    self.lines.push(line);
                }
                self.in_code = true;
            }
            Tag::Table(_) => self.gap(),
            Tag::TableHead => self.look.bold = true,
            Tag::Strong => self.look.bold = true,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::TableRow => self.flush(),
            TagEnd::Heading(_) | TagEnd::TableHead => {
                self.flush();
                self.look.bold = false;
            }
            TagEnd::Strong => self.look.bold = false,
            TagEnd::TableCell => self.run("  │  ", Look::default()),
            TagEnd::Item | TagEnd::List(_) | TagEnd::BlockQuote(_) => {
                self.flush();
                self.blocks.pop();
            }
            TagEnd::CodeBlock => self.in_code = false,
            TagEnd::Link | TagEnd::Image => {
                let Some(url) = self.links.pop() else { return };
                let shown = self.runs.last().is_some_and(|(text, _)| *text == url);
                if !shown && !url.is_empty() {
                    let look = Look {
                        dim: true,
                        ..Look::default()
                    };
                    self.run(&format!(" ({url})"), look);
                }
            }
            _ => {}
        }
    }

    fn run(&mut self, text: &str, look: Look) {
        self.runs.push((text.to_owned(), look));
    }

    /// An empty line between blocks, but not at the beginning of a list item.
    fn gap(&mut self) {
        self.flush();
        let at_mark = matches!(self.blocks.last(), Some(Block::Item(Some(_))));
        if !at_mark && self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    fn mark(&mut self) -> String {
        match self.blocks.last_mut() {
            Some(Block::List(Some(number))) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "• ".to_owned(),
        }
    }

    /// What a line begins with, without marks.
    fn indent(&self) -> String {
        let blocks = self.blocks.iter().take(DEPTH_MAX);
        let parts = blocks.map(|block| match block {
            Block::List(_) => "",
            Block::Item(_) => "  ",
            Block::Quote => "│ ",
        });
        parts.collect()
    }

    /// A line of code stays as it is: folding it would change it for whoever copies it.
    fn code(&mut self, text: &str) {
        let indent = self.indent();
        for line in text.lines() {
            let line = line.replace('\t', "    ");
            let line = self.paint.cyan(&escape_line(&line));
            self.lines.push(format!("{indent}    {line}"));
        }
    }

    /// Ends the present paragraph.
    fn flush(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        if runs.iter().all(|(text, _)| text.trim().is_empty()) {
            return;
        }
        let rest = self.indent();
        let mut first = rest.clone();
        if let Some(Block::Item(mark)) = self.blocks.last_mut()
            && let Some(mark) = mark.take()
        {
            let outer = first.len().saturating_sub(2);
            first.truncate(outer);
            first.push_str(&mark);
        }
        let room = self.width.saturating_sub(cells(&first)).max(ROOM_MIN);
        for (at, line) in flow(&runs, room, self.paint).into_iter().enumerate() {
            let indent = if at == 0 { &first } else { &rest };
            self.lines.push(format!("{indent}{line}"));
        }
    }
}

/// Words laid out in lines of `room` cells.
fn flow(runs: &[(String, Look)], room: usize, paint: Paint) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0_usize);
    let mut word: Vec<(String, Look)> = Vec::new();
    let mut place = |word: &mut Vec<(String, Look)>| {
        let wide = word.iter().map(|(text, _)| cells(text)).sum::<usize>();
        if wide == 0 {
            return;
        }
        if used > 0 && used.saturating_add(wide).saturating_add(1) > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used = used.saturating_add(1);
        }
        for (text, look) in word.drain(..) {
            let pieces = fold(&text, room);
            for (at, piece) in pieces.iter().enumerate() {
                if at > 0 {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push_str(&look.paint(piece, paint));
                used = used.saturating_add(cells(piece));
            }
        }
    };
    for (text, look) in runs {
        let mut parts = text.split([' ', '\n', '\t']);
        if let Some(first) = parts.next()
            && !first.is_empty()
        {
            word.push((escape_line(first).into_owned(), *look));
        }
        for part in parts {
            place(&mut word);
            if !part.is_empty() {
                word.push((escape_line(part).into_owned(), *look));
            }
        }
    }
    place(&mut word);
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, width: usize) -> String {
        render(text, width, Paint::plain())
    }

    #[test]
    fn markdown_reads_well_without_colour() {
        let text = "# Title\n\nSome **bold** text, `code` and a [link](https://a.example/x).\n\n- one\n- two\n  - inner\n\n1. first\n2. second\n\n```rust\nfn main() {}\n```\n\n> said\n\n| a | b |\n| - | - |\n| 1 | 2 |\n";
        let shown = plain(text, 60);
        let expected = "Title\n\nSome bold text, code and a link (https://a.example/x).\n\n• one\n• two\n  • inner\n\n1. first\n2. second\n\nrust\n    fn main() {}\n\n│ said\n\na │ b │\n1 │ 2 │";
        assert_eq!(shown, expected);
    }

    #[test]
    fn markdown_folds_to_the_width() {
        let text = format!(
            "{} `{}`\n\n* {}",
            "word ".repeat(40),
            "x".repeat(200),
            "item ".repeat(30)
        );
        for line in plain(&text, 40).lines() {
            assert!(cells(line) <= 40, "{line:?}");
        }
    }

    #[test]
    fn markdown_obeys_nothing() {
        let text = "\u{1b}[2J `\u{1b}]0;t\u{7}` <b>x</b>\n\n```\n\u{202e}\n```\n";
        let shown = plain(text, 60);
        let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!shown.contains(hidden), "{shown:?}");
        assert!(shown.contains("<b>x</b>"), "{shown:?}");
        let colours = render("**b** `c`", 60, Paint::always());
        assert_eq!(colours.matches("\u{1b}[").count(), 4, "{colours:?}");
    }
}
