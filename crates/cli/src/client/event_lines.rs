//! Events of a message as lines for people. Pure: events in, lines out.

use bridge_daemon::term::{Paint, escape_line, fold};
use bridge_front::{EventView, MessageView};

/// Lines of a diff that are shown while Codex works; the file has the rest.
const DIFF_MAX_LINES: usize = 200;
/// Narrowest column that a text is folded into.
const ROOM_MIN: usize = 20;

/// Makes lines of events, and remembers the last ones, so that nothing is shown twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLines {
    now: String,
    /// The newest event, which a state need not repeat.
    event: String,
}

/// The state of a message as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateLine {
    /// Worth a line of its own: it waits for something.
    Lasting(String),
    /// On the way to the next thing.
    Passing(String),
}

impl EventLines {
    /// An item-level event: one line, folded to the width of the terminal.
    pub(crate) fn event(
        &mut self,
        event: &EventView,
        prefix: &str,
        paint: Paint,
        width: Option<usize>,
    ) -> Vec<String> {
        self.event.clone_from(&event.text);
        let mark = match (event.kind.as_str(), ended_badly(&event.text)) {
            ("item/started", _) => paint.cyan("•"),
            ("item/completed", false) => paint.green("✓"),
            ("item/completed", true) => paint.red("✗"),
            ("turn/retrying", _) => paint.yellow("↻"),
            ("request", _) => paint.yellow("?"),
            _ => paint.cyan("!"),
        };
        let indent = bridge_daemon::term::cells(prefix) + 2;
        let text = escape_line(&event.text);
        let pieces = match width {
            Some(width) => fold(&text, width.saturating_sub(indent + 1).max(ROOM_MIN)),
            None => vec![text.into_owned()],
        };
        let line = |(at, piece): (usize, &String)| match at {
            0 => format!("{prefix}{mark} {}", paint.dim(piece)),
            _ => format!("{:indent$}{}", "", paint.dim(piece)),
        };
        pieces.iter().enumerate().map(line).collect()
    }

    /// Where the message is; nothing when it is where it was.
    pub(crate) fn state(&mut self, message: &MessageView) -> Option<StateLine> {
        if self.now == message.why.now {
            return None;
        }
        self.now.clone_from(&message.why.now);
        let waits = message.hold.is_some()
            || matches!(message.state.as_str(), "unclear" | "parked" | "steered");
        let hold = message.hold.as_ref();
        let reason = hold.map(|hold| hold.failure.reason.as_str());
        Some(match waits {
            true if reason == Some(&self.event) => StateLine::Lasting(message.why.next.clone()),
            true => StateLine::Lasting(format!("{}; {}", message.why.now, message.why.next)),
            false => StateLine::Passing(message.why.now.clone()),
        })
    }
}

/// What was changed in files, in the usual colours, below the line that names it.
pub(crate) fn diff_lines(
    text: &str,
    prefix: &str,
    paint: Paint,
    width: Option<usize>,
) -> Vec<String> {
    let indent = bridge_daemon::term::cells(prefix) + 2;
    let mut lines = Vec::new();
    for line in text.lines().take(DIFF_MAX_LINES) {
        let inner = line
            .strip_prefix("  ")
            .and_then(|inner| inner.chars().next());
        let shown = escape_line(line).replace("\\t", "    ");
        let pieces = match width {
            Some(width) => fold(&shown, width.saturating_sub(indent + 1).max(ROOM_MIN)),
            None => vec![shown],
        };
        let tint = |piece: &String| match inner {
            Some('+') => paint.green(piece),
            Some('-') => paint.red(piece),
            Some('@') => paint.cyan(piece),
            Some(_) | None => paint.dim(piece),
        };
        lines.extend(
            pieces
                .iter()
                .map(|piece| format!("{:indent$}{}", "", tint(piece))),
        );
    }
    let more = text.lines().count().saturating_sub(DIFF_MAX_LINES);
    if more > 0 {
        lines.push(format!(
            "{:indent$}{}",
            "",
            paint.dim(&format!("… {more} more lines"))
        ));
    }
    lines
}

/// Headlines of commands say how they ended, if it was not well.
fn ended_badly(text: &str) -> bool {
    text.ends_with(')') && (text.contains(" (exit code ") || text.contains(" (failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, text: &str) -> EventView {
        EventView {
            ordinal: 1,
            attempt: 1,
            kind: kind.to_owned(),
            text: text.to_owned(),
            at: 0,
        }
    }

    #[test]
    fn events_get_marks_and_escaped_text() {
        let mut lines = EventLines::default();
        let mut said = |kind: &str, text: &str| {
            let lines = lines.event(&event(kind, text), "a ", Paint::plain(), None);
            lines.join("\n")
        };
        for (kind, text, shown) in [
            ("item/started", "running `ls`", "a • running `ls`"),
            ("item/completed", "running `ls`", "a ✓ running `ls`"),
            (
                "item/completed",
                "running `false` (exit code 1)",
                "a ✗ running `false` (exit code 1)",
            ),
            ("turn/retrying", "again", "a ↻ again"),
            ("request", "may it?", "a ? may it?"),
            ("bridge", "\u{1b}[2J\n", "a ! \\e[2J\\n"),
            ("what a later version says", "x", "a ! x"),
        ] {
            assert_eq!(said(kind, text), shown);
        }
    }

    #[test]
    fn diff_is_coloured_and_truncated() {
        let text = "update a.rs:\n  @@ -1 +1 @@\n  -old\u{1b}\n  +new";
        let lines = diff_lines(text, "", Paint::plain(), None);
        assert_eq!(
            lines,
            [
                "  update a.rs:",
                "    @@ -1 +1 @@",
                "    -old\\e",
                "    +new"
            ]
        );
        let lines = diff_lines(text, "", Paint::always(), None);
        assert!(lines[2].contains("\u{1b}[31m"), "{lines:?}");
        assert!(lines[3].contains("\u{1b}[32m"), "{lines:?}");
        let long = "x\n".repeat(DIFF_MAX_LINES + 5);
        let lines = diff_lines(&long, "", Paint::plain(), None);
        assert_eq!(lines.last().unwrap(), "  … 5 more lines");
    }

    #[test]
    fn long_line_wraps_with_indent() {
        let text = "running `printf aaaaaaaaaaaaaaaa`";
        let lines =
            EventLines::default().event(&event("item/started", text), "", Paint::plain(), Some(30));
        assert_eq!(lines, ["• running `printf ", "  aaaaaaaaaaaaaaaa`"]);
    }
}
