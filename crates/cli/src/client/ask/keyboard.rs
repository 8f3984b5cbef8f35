//! Lines that a person types, without stopping what else goes on.
//!
//! The terminal is read only from the first question on, so that nothing is taken from the shell behind us, and what
//! was typed before a question was shown is thrown away: it can't have been meant for it.

use nix::sys::termios::{FlushArg, LocalFlags, SetArg, Termios, tcflush, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal};
use tokio::sync::mpsc;

/// Lines that may wait to be looked at; a terminal is read no faster than that.
const AHEAD_MAX: usize = 8;

/// Lines from the terminal.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    lines: Option<mpsc::Receiver<String>>,
    /// How the terminal was before its echo was turned off.
    shown: Option<Termios>,
}

impl Keyboard {
    /// Whether stdin is a terminal.
    pub(crate) fn are_there() -> bool {
        io::stdin().is_terminal()
    }

    /// Forgets what was typed so far.
    pub(crate) fn forget(&mut self) {
        let _not_a_terminal = tcflush(io::stdin(), FlushArg::TCIFLUSH);
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
    }

    /// Listens from now on; `hidden`: what is typed is not shown.
    pub(crate) fn listen(&mut self, hidden: bool) {
        self.lines.get_or_insert_with(read);
        if hidden { self.hide() } else { self.show() }
    }

    /// The next line; `None` when there will be no more.
    pub(crate) async fn line(&mut self) -> Option<String> {
        match &mut self.lines {
            Some(lines) => lines.recv().await,
            None => std::future::pending().await,
        }
    }

    fn hide(&mut self) {
        let Ok(now) = tcgetattr(io::stdin()) else {
            return;
        };
        let mut hidden = now.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        let _not_a_terminal = tcsetattr(io::stdin(), SetArg::TCSANOW, &hidden);
        self.shown.get_or_insert(now);
    }

    /// The terminal shows again what is typed.
    pub(crate) fn show(&mut self) {
        if let Some(shown) = self.shown.take() {
            let _not_a_terminal = tcsetattr(io::stdin(), SetArg::TCSANOW, &shown);
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.show();
    }
}

/// A thread, because a terminal can't be read otherwise; it ends with the process.
fn read() -> mpsc::Receiver<String> {
    let (typed, lines) = mpsc::channel(AHEAD_MAX);
    std::thread::spawn(move || {
        let mut line = String::new();
        // A terminal gives lines of at most 4096 bytes.
        while matches!(io::stdin().read_line(&mut line), Ok(1..)) {
            if typed.blocking_send(std::mem::take(&mut line)).is_err() {
                break;
            }
        }
    });
    lines
}
