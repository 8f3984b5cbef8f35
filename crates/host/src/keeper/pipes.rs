//! The keeper's ends of Codex's pipes: the prompt of one run of `codex exec` in, and stderr out.
//!
//! The keeper's own stdin first has the prompt, then nothing for as long as the daemon wants the run. Its end is the
//! stdin guard: a daemon that dies, whatever way, ends the run with everything it started. Stderr is always drained and
//! only its tail is kept: a full pipe would stop Codex, and the daemon may be dead, so the keeper writes a bounded file.

use super::KeeperEvent;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin};
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

/// How long Codex may take to end after a SIGTERM; it takes milliseconds, and nothing of a run is worth waiting for.
const RUN_GRACE: Duration = Duration::from_secs(1);
/// The part that is certainly kept. The file may hold up to twice as much before it is cut back.
pub(super) const STDERR_KEPT: u64 = 64 * 1024;
/// How long the last words may take to reach the file once Codex and everything it started is gone.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// Passes the prompt on to Codex, and asks for the end of the run when our own stdin ends.
pub(super) fn give_prompt(codex: ChildStdin, bytes: u64, events: SyncSender<KeeperEvent>) {
    std::thread::spawn(move || watch(&mut io::stdin().lock(), codex, bytes, &events));
}

/// The stdin guard is watched also while Codex takes its prompt: one that hangs may never take it.
fn watch(
    stdin_guard: &mut impl Read,
    codex: ChildStdin,
    bytes: u64,
    events: &SyncSender<KeeperEvent>,
) {
    let mut prompt = Vec::new();
    let whole = match stdin_guard.by_ref().take(bytes).read_to_end(&mut prompt) {
        Ok(read) => u64::try_from(read) == Ok(bytes),
        Err(_) => false,
    };
    // Half a prompt is not a prompt: Codex would begin at the end of its stdin, so that stays open until it is gone.
    let _kept_open = if whole {
        std::thread::spawn(move || give(codex, &prompt));
        wait_for_end(stdin_guard);
        None
    } else {
        Some(codex)
    };
    let _closed = events.send(KeeperEvent::Stop(RUN_GRACE));
    loop {
        std::thread::park();
    }
}

/// Gives Codex the prompt and closes its stdin: with an open one it waits for ever. One that has ended needs none.
fn give(mut codex: ChildStdin, prompt: &[u8]) {
    let _ended = codex.write_all(prompt).and_then(|()| codex.flush());
}

fn wait_for_end(stdin: &mut impl Read) {
    let mut rest = [0_u8; 64];
    while stdin.read(&mut rest).is_ok_and(|read| read > 0) {}
}

/// The draining of one Codex's stderr.
pub(super) struct StderrDrain(mpsc::Receiver<()>);

impl StderrDrain {
    /// Waits until the tail is in the file: the daemon reads it after our end.
    pub(super) fn finish(self) {
        // Ends by disconnection; nothing is ever sent.
        let _ended = self.0.recv_timeout(LAST_WORDS_MAX);
    }
}

pub(super) fn drain_stderr(mut pipe: ChildStderr, path: PathBuf) -> StderrDrain {
    let (open_until_the_end, drained) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let _end: mpsc::SyncSender<()> = open_until_the_end;
        let mut file = open(&path).ok();
        let mut buffer = [0_u8; 8192];
        loop {
            let read = match pipe.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => read,
            };
            // Losing log text is better than stopping Codex on a full disk.
            if let (Some(out), Some(bytes)) = (&mut file, buffer.get(..read))
                && append(out, bytes).is_err()
            {
                file = None;
            }
        }
    });
    StderrDrain(drained)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    let length = file.stream_position()?;
    if length < 2 * STDERR_KEPT {
        return Ok(());
    }
    file.seek(SeekFrom::Start(length - STDERR_KEPT))?;
    let mut tail = Vec::with_capacity(usize::try_from(STDERR_KEPT).unwrap_or(0));
    file.read_to_end(&mut tail)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    /// More than a pipe takes without a reader.
    const LONG: usize = 1 << 20;
    /// It takes milliseconds.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn closing_stdin_guard_stops_blocked_prompt() {
        let mut hung = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let codex = hung.stdin.take().unwrap();
        let (mut daemon, mut stdin_guard) = UnixStream::pair().unwrap();
        let (events, inbox) = mpsc::sync_channel(1);
        let bytes = u64::try_from(LONG).unwrap();
        std::thread::spawn(move || watch(&mut stdin_guard, codex, bytes, &events));
        daemon.write_all(&vec![b'x'; LONG]).unwrap();
        drop(daemon);
        let event = inbox.recv_timeout(PATIENCE);
        hung.kill().unwrap();
        hung.wait().unwrap();
        assert!(matches!(event, Ok(KeeperEvent::Stop(_))));
    }

    #[test]
    fn stderr_log_keeps_only_tail() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stderr.log");
        let mut file = open(&path).unwrap();
        for line in 0..40_000 {
            append(&mut file, format!("line {line}\n").as_bytes()).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() as u64 <= 2 * STDERR_KEPT, "{}", text.len());
        assert!(text.len() as u64 >= STDERR_KEPT, "{}", text.len());
        assert!(text.ends_with("line 39999\n"));
    }
}
