//! A terminal with nobody but the test at it: a pseudo-terminal that the built binary runs on.

use crate::world::{Lines, within};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// How wide it is.
pub(crate) const COLUMNS: u16 = 100;

/// A command on a terminal.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    pub(crate) screen: Lines,
}

impl Terminal {
    /// Runs a command with standard input, output and error on a terminal of its own.
    pub(crate) fn run(mut command: Command) -> Self {
        command.env_remove("NO_COLOR");
        Self::wide(command, COLUMNS)
    }

    /// The same, so many columns wide.
    pub(crate) fn wide(mut command: Command, columns: u16) -> Self {
        let size = Winsize {
            ws_row: 40,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).unwrap();
        for end in [&pty.master, &pty.slave] {
            // A process that the command leaves behind must not keep the terminal open.
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        }
        let end = |fd: &std::os::fd::OwnedFd| Stdio::from(fd.try_clone().unwrap());
        command
            .stdin(end(&pty.slave))
            .stdout(end(&pty.slave))
            .stderr(end(&pty.slave));
        let child = command.spawn().unwrap();
        // Its own copies keep the terminal open; ours would keep its end from being seen.
        drop((command, pty.slave));
        let screen = listen(File::from(pty.master.try_clone().unwrap()));
        Self {
            child,
            keys: File::from(pty.master),
            screen,
        }
    }

    /// Types.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }

    /// Waits for its end; gives the exit code and all that was on the screen.
    pub(crate) async fn ended(mut self) -> (Option<i32>, String) {
        let status = within("a command on a terminal", self.child.wait())
            .await
            .unwrap();
        self.screen.closed().await;
        (status.code(), self.screen.text())
    }
}

/// Reads a terminal's other end, in a thread because it can't be waited for otherwise.
fn listen(mut master: File) -> Lines {
    let (said, heard) = watch::channel(String::new());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // The end is an error where the last one on the terminal has gone.
        while let Ok(count @ 1..) = master.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            said.send_modify(|all| all.push_str(&text));
        }
    });
    Lines::heard(heard)
}

/// A text of a terminal without its colours and what else it only obeys.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once(['m', 'K']).map_or(part, |(_, rest)| rest)
    })
}
