//! What `send` shows on stderr while Codex works: what it is doing, not only that it does something.

use crate::term::{Paint, escape_line};
use bridge_front::{EventView, MessageView};
use std::io::{IsTerminal, Write};

/// Longest live line, so that it stays on one line of most terminals.
const LIVE_MAX_CHARS: usize = 90;

/// Shows progress; silent when asked to be.
#[derive(Debug)]
pub(crate) struct Progress {
    paint: Paint,
    quiet: bool,
    /// A line that is overwritten by the next one; only on a terminal.
    live: bool,
    open: bool,
    last: String,
    /// The newest event, which a state need not repeat.
    last_event: String,
    prefix: String,
}

impl Progress {
    pub(crate) fn new(quiet: bool, no_color: bool) -> Self {
        let live = std::io::stderr().is_terminal();
        Self {
            paint: Paint::stderr(no_color),
            quiet,
            live,
            open: false,
            last: String::new(),
            last_event: String::new(),
            prefix: String::new(),
        }
    }

    /// For several messages at the same time: each line begins with a name, and none is overwritten.
    pub(crate) fn named(name: &str, no_color: bool) -> Self {
        let prefix = format!("{name} ");
        Self {
            prefix,
            live: false,
            ..Self::new(false, no_color)
        }
    }

    /// Something that stays.
    pub(crate) fn line(&mut self, mark: &str, text: &str) {
        if self.quiet {
            return;
        }
        self.clear();
        let text = escape_line(text);
        let (prefix, mark) = (&self.prefix, self.paint.cyan(mark));
        write_stderr(&format!("{prefix}{mark} {}\n", self.paint.dim(&text)));
    }

    /// A warning that stays, also when quiet.
    pub(crate) fn warn(&mut self, text: &str) {
        self.clear();
        write_stderr(&format!("{}\n", self.paint.yellow(&escape_line(text))));
    }

    /// An item-level event.
    pub(crate) fn event(&mut self, event: &EventView) {
        let mark = match event.kind.as_str() {
            "item/started" => "•",
            "item/completed" => "✓",
            "turn/retrying" => "↻",
            "request" => "?",
            _ => "!",
        };
        self.line(mark, &event.text);
        self.last_event.clone_from(&event.text);
    }

    /// Where the message is; said only when it changed.
    pub(crate) fn state(&mut self, message: &MessageView) {
        if self.last != message.why.now {
            self.last.clone_from(&message.why.now);
            let waits = message.hold.is_some()
                || matches!(message.state.as_str(), "unclear" | "parked" | "steered");
            let reason = message
                .hold
                .as_ref()
                .map(|hold| hold.failure.reason.as_str());
            match waits {
                true if reason == Some(&self.last_event) => self.line("…", &message.why.next),
                true => self.line("…", &format!("{}; {}", message.why.now, message.why.next)),
                false => self.live(&message.why.now),
            }
        }
    }

    /// The text Codex is writing: its end, on a line that is overwritten.
    pub(crate) fn text(&mut self, text: &str) {
        let tail: Vec<char> = text.chars().rev().take(LIVE_MAX_CHARS).collect();
        let tail: String = tail.into_iter().rev().collect();
        self.live(&tail);
    }

    fn live(&mut self, text: &str) {
        if self.quiet || !self.live {
            return;
        }
        let text: String = escape_line(text).chars().take(LIVE_MAX_CHARS).collect();
        write_stderr(&format!(
            "\r\u{1b}[2K{} {}",
            self.paint.cyan("⋯"),
            self.paint.dim(&text)
        ));
        self.open = true;
    }

    /// Removes the live line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.open) {
            write_stderr("\r\u{1b}[2K");
        }
    }
}

fn write_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A closed stderr must not stop the message.
    let _closed = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}
