//! Where lines appear for a person: lines that stay, one line that changes, and a prompt below them.
//!
//! What the lines say is made elsewhere; text that comes in here is escaped already.

use super::page::{Look, YELLOW, hang};
use bridge_daemon::term::{Paint, cells, escape_line, span, tail};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Width where the terminal does not say.
const WIDTH_DEFAULT: usize = 90;
/// How often the line that changes is drawn anew.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// It moves, so that a person sees that something goes on.
const FRAMES: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

/// Cells of a line on stdout; `None` where it is no terminal.
pub(crate) fn stdout_width() -> Option<usize> {
    width_of(io::stdout())
}

/// Cells of a line on stderr; `None` where it is no terminal.
pub(crate) fn stderr_width() -> Option<usize> {
    width_of(io::stderr())
}

fn width_of(stream: impl IsTerminal + AsFd) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = terminal_size::terminal_size_of(stream);
    let cells = size.map(|(width, _)| usize::from(width.0));
    Some(cells.filter(|cells| *cells > 0).unwrap_or(WIDTH_DEFAULT))
}

impl OutputStream {
    /// Cells in a line of the terminal; `None` where there is none.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            Self::Stdout => stdout_width(),
            Self::Stderr => stderr_width(),
        }
    }
}

/// One stream with at most one unfinished line at its end.
#[derive(Debug)]
pub(crate) struct Screen {
    to: OutputStream,
    paint: Paint,
    terminal: bool,
    /// Whether the unfinished line is there.
    open: bool,
    prompt: Option<String>,
    /// The text of the line that changes.
    live: Option<String>,
    /// Nothing is overwritten: others write on the same terminal.
    still: bool,
    since: Instant,
}

impl Screen {
    pub(crate) fn new(to: OutputStream, no_color: bool) -> Self {
        let (paint, terminal) = match to {
            OutputStream::Stdout => (Paint::stdout(no_color), io::stdout().is_terminal()),
            OutputStream::Stderr => (Paint::stderr(no_color), io::stderr().is_terminal()),
        };
        Self {
            to,
            paint,
            terminal,
            open: false,
            prompt: None,
            live: None,
            still: false,
            since: Instant::now(),
        }
    }

    /// Shows no line that changes.
    #[cfg(feature = "demo")]
    pub(crate) fn keep_still(&mut self) {
        self.still = true;
    }

    /// How long it has been there.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// Whether a person may be reading.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Cells in a line; nothing is folded where there is no terminal. It is asked for anew: windows change.
    pub(crate) fn width(&self) -> Option<usize> {
        self.to.width().filter(|_| self.terminal)
    }

    /// Lines that stay, above whatever is unfinished.
    pub(crate) fn lines<T: AsRef<str>>(&mut self, lines: &[T]) {
        let mut text = self.erased();
        for line in lines {
            text.push_str(line.as_ref());
            text.push('\n');
        }
        text.push_str(&self.unfinished());
        self.write(&text);
    }

    /// A sentence that stays, folded to the width.
    pub(crate) fn say(&mut self, text: &str, look: Look) {
        let paint = self.paint;
        let lines = hang("", "", text, self.width(), |piece| look(paint, piece));
        self.lines(&lines);
    }

    /// A warning, which stays.
    pub(crate) fn warn(&mut self, text: &str) {
        self.say(text, YELLOW);
    }

    /// A line that the next one replaces, with the time that went by; only on a terminal, and not while a prompt is
    /// open.
    pub(crate) fn live(&mut self, text: &str) {
        if self.terminal && !self.still {
            self.live = Some(escape_line(text).into_owned());
            self.tick();
        }
    }

    /// Draws the line that changes anew.
    pub(crate) fn tick(&mut self) {
        if self.live.is_some() && self.prompt.is_none() {
            let mut text = self.erased();
            text.push_str(&self.unfinished());
            self.write(&text);
        }
    }

    /// What belongs below the lines that stay: the prompt, or the line that changes.
    fn unfinished(&mut self) -> String {
        let text = match (&self.prompt, &self.live, self.width()) {
            (Some(prompt), _, _) => prompt.clone(),
            (None, Some(live), Some(width)) => self.clocked(live, width),
            (None, _, _) => return String::new(),
        };
        self.open = true;
        text
    }

    fn clocked(&self, text: &str, width: usize) -> String {
        let gone = self.since.elapsed().as_millis();
        let frame = usize::try_from(gone / TICK.as_millis()).unwrap_or(0) % FRAMES.len();
        let mark = self.paint.cyan(FRAMES.get(frame).unwrap_or(&"⋯"));
        let clock = span(i64::try_from(gone).unwrap_or(i64::MAX));
        let room = width.saturating_sub(cells(&clock).saturating_add(6));
        let text = self.paint.dim(&tail(text, room));
        format!("{mark} {clock}  {text}")
    }

    /// Asks for a line of input; it stays below everything until it is taken away.
    pub(crate) fn ask(&mut self, prompt: &str) {
        let erased = self.erased();
        let prompt = self.paint.bold(&escape_line(prompt));
        self.write(&format!("{erased}{prompt}"));
        self.prompt = Some(prompt);
        self.open = true;
    }

    /// A line was typed: the terminal showed it and its end, unless it was secret.
    pub(crate) fn typed(&mut self, hidden: bool) {
        self.prompt = None;
        self.open = false;
        if hidden {
            self.write("\n");
        }
    }

    /// Nothing is asked any more.
    pub(crate) fn retract(&mut self) {
        self.prompt = None;
        self.lines::<&str>(&[]);
    }

    /// Removes whatever is unfinished, for good.
    pub(crate) fn clear(&mut self) {
        self.prompt = None;
        self.live = None;
        let erased = self.erased();
        if !erased.is_empty() {
            self.write(&erased);
        }
    }

    fn erased(&mut self) -> String {
        if std::mem::take(&mut self.open) {
            "\r\u{1b}[2K".to_owned()
        } else {
            String::new()
        }
    }

    /// A closed stream must not stop the message.
    fn write(&self, text: &str) {
        fn all(mut to: impl Write, text: &str) -> io::Result<()> {
            to.write_all(text.as_bytes())?;
            to.flush()
        }
        let _closed = match self.to {
            OutputStream::Stdout => all(io::stdout().lock(), text),
            OutputStream::Stderr => all(io::stderr().lock(), text),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_line_fits_the_terminal() {
        let screen = Screen::new(OutputStream::Stderr, true);
        let line = screen.clocked(&"x".repeat(300), 80);
        assert!(line.contains(" 0 s  x"), "{line}");
        assert!(cells(&line) < 80, "{line}");
    }
}
