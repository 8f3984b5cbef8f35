//! Where lines appear for a person: lines that stay, one line that changes, and a prompt below them.
//!
//! What the lines say is made elsewhere; text that comes in here is escaped already.

use bridge_daemon::term::{Paint, escape_line, tail};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

/// Width where the terminal does not say.
const WIDTH_DEFAULT: usize = 90;

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

/// One stream with at most one unfinished line at its end.
#[derive(Debug)]
pub(crate) struct Screen {
    to: OutputStream,
    paint: Paint,
    terminal: bool,
    /// Whether the unfinished line is there.
    open: bool,
    prompt: Option<String>,
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
        }
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
        match self.to {
            OutputStream::Stdout => stdout_width(),
            OutputStream::Stderr => stderr_width(),
        }
    }

    /// Lines that stay, above whatever is unfinished.
    pub(crate) fn lines<T: AsRef<str>>(&mut self, lines: &[T]) {
        let mut text = self.erased();
        for line in lines {
            text.push_str(line.as_ref());
            text.push('\n');
        }
        if let Some(prompt) = &self.prompt {
            text.push_str(prompt);
            self.open = true;
        }
        self.write(&text);
    }

    /// A warning, which stays.
    pub(crate) fn warn(&mut self, text: &str) {
        let line = self.paint.yellow(&escape_line(text));
        self.lines(&[line]);
    }

    /// A line that the next one replaces; only on a terminal, and not while a prompt is open.
    pub(crate) fn live(&mut self, text: &str) {
        let Some(width) = self.width().filter(|_| self.prompt.is_none()) else {
            return;
        };
        let text = tail(&escape_line(text), width.saturating_sub(3));
        let erased = self.erased();
        let (mark, text) = (self.paint.cyan("⋯"), self.paint.dim(&text));
        self.write(&format!("{erased}{mark} {text}"));
        self.open = true;
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
        self.clear();
    }

    /// Removes the unfinished line.
    pub(crate) fn clear(&mut self) {
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
