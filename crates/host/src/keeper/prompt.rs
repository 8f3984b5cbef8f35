//! The keeper's stdin around one run of `codex exec`: first the prompt, then nothing for as long as the daemon wants
//! the run. Its end is the leash: a daemon that dies, whatever way, ends the run with everything it started.

use super::Event;
use std::io::{self, Read, Write};
use std::process::ChildStdin;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// How long Codex may take to end after a SIGTERM; it takes milliseconds, and nothing of a run is worth waiting for.
const RUN_GRACE: Duration = Duration::from_secs(1);

/// Hands the prompt over, and asks for the end of the run when our own stdin ends.
pub(super) fn hand_over(codex: ChildStdin, bytes: u64, events: SyncSender<Event>) {
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut prompt = Vec::new();
        let whole = match stdin.by_ref().take(bytes).read_to_end(&mut prompt) {
            Ok(read) => u64::try_from(read) == Ok(bytes),
            Err(_) => false,
        };
        // Half a prompt is not a prompt: Codex would begin at the end of its stdin, so that stays open until it is gone.
        let _kept_open = match whole {
            true => {
                give(codex, &prompt);
                drain(&mut stdin);
                None
            }
            false => Some(codex),
        };
        let _closed = events.send(Event::Stop(RUN_GRACE));
        loop {
            std::thread::park();
        }
    });
}

/// Gives Codex the prompt and closes its stdin: with an open one it waits for ever. One that has ended needs none.
fn give(mut codex: ChildStdin, prompt: &[u8]) {
    let _ended = codex.write_all(prompt).and_then(|()| codex.flush());
}

fn drain(stdin: &mut impl Read) {
    let mut rest = [0_u8; 64];
    while stdin.read(&mut rest).is_ok_and(|read| read > 0) {}
}
