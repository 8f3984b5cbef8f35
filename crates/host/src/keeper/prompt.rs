//! The keeper's stdin around one run of `codex exec`: first the prompt, then nothing for as long as the daemon wants
//! the run. Its end is the stdin guard: a daemon that dies, whatever way, ends the run with everything it started.

use super::KeeperEvent;
use std::io::{self, Read, Write};
use std::process::ChildStdin;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// How long Codex may take to end after a SIGTERM; it takes milliseconds, and nothing of a run is worth waiting for.
const RUN_GRACE: Duration = Duration::from_secs(1);

/// Hands the prompt over, and asks for the end of the run when our own stdin ends.
pub(super) fn hand_over(codex: ChildStdin, bytes: u64, events: SyncSender<KeeperEvent>) {
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
        drain(stdin_guard);
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

fn drain(stdin: &mut impl Read) {
    let mut rest = [0_u8; 64];
    while stdin.read(&mut rest).is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;

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
}
