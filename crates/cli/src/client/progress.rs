//! What `send` shows while Codex works.

use super::event_lines::{EventLines, StateLine, diff_lines};
use super::screen::{OutputStream, Screen};
use bridge_daemon::term::escape_line;
use bridge_front::{EventView, MessageView};

/// Shows progress; silent when asked to be.
#[derive(Debug)]
pub(crate) struct SendProgress {
    screen: Screen,
    quiet: bool,
    /// A line that is overwritten by the next one; only on a terminal.
    live: bool,
    lines: EventLines,
    prefix: String,
}

impl SendProgress {
    pub(crate) fn new(quiet: bool, no_color: bool) -> Self {
        Self::on(OutputStream::Stderr, quiet, no_color)
    }

    /// On this stream.
    pub(crate) fn on(to: OutputStream, quiet: bool, no_color: bool) -> Self {
        Self {
            screen: Screen::new(to, no_color),
            quiet,
            live: true,
            lines: EventLines::default(),
            prefix: String::new(),
        }
    }

    /// For several messages at the same time: each line begins with a name, and none is overwritten.
    #[cfg(feature = "demo")]
    pub(crate) fn named(name: &str, no_color: bool) -> Self {
        let prefix = format!("{name} ");
        Self {
            prefix,
            live: false,
            ..Self::new(false, no_color)
        }
    }

    /// Where the lines go.
    pub(crate) fn screen(&mut self) -> &mut Screen {
        &mut self.screen
    }

    /// Something that stays.
    pub(crate) fn line(&mut self, mark: &str, text: &str) {
        if self.quiet {
            return;
        }
        let paint = self.screen.paint();
        let line = format!(
            "{}{} {}",
            self.prefix,
            paint.cyan(mark),
            paint.dim(&escape_line(text))
        );
        self.screen.lines(&[line]);
    }

    /// A warning that stays, also when quiet.
    pub(crate) fn warn(&mut self, text: &str) {
        let line = self.screen.paint().yellow(&escape_line(text));
        self.screen.lines(&[line]);
    }

    /// An item-level event.
    pub(crate) fn event(&mut self, event: &EventView) {
        if self.quiet {
            return;
        }
        let lines = self.lines.event(
            event,
            &self.prefix,
            self.screen.paint(),
            self.screen.width(),
        );
        self.screen.lines(&lines);
    }

    /// The state of the message, if it changed.
    pub(crate) fn state(&mut self, message: &MessageView) {
        match self.lines.state(message) {
            Some(StateLine::Lasting(text)) => self.line("…", &text),
            Some(StateLine::Passing(text)) => self.live(&text),
            None => {}
        }
    }

    /// The text Codex is writing: its end, on a line that is overwritten.
    pub(crate) fn text(&mut self, text: &str) {
        self.live(text);
    }

    /// What Codex changed in files.
    pub(crate) fn diff(&mut self, text: &str) {
        if !self.quiet {
            let (paint, width) = (self.screen.paint(), self.screen.width());
            let lines = diff_lines(text, &self.prefix, paint, width);
            self.screen.lines(&lines);
        }
    }

    fn live(&mut self, text: &str) {
        if !self.quiet && self.live {
            self.screen.live(text);
        }
    }

    /// Removes the live line.
    pub(crate) fn clear(&mut self) {
        self.screen.clear();
    }
}
