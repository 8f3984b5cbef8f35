//! Codex's stderr: always drained, only its tail kept.
//!
//! A full pipe would stop Codex, and the daemon may be dead, so the keeper reads it into a bounded file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ChildStderr;
use std::sync::mpsc;
use std::time::Duration;

/// The part that is certainly kept. The file may hold up to twice as much before it is cut back.
pub(super) const STDERR_KEPT: u64 = 64 * 1024;

/// How long the last words may take to reach the file once Codex and everything it started is gone.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// The draining of one Codex's stderr.
pub(super) struct Drain(mpsc::Receiver<()>);

impl Drain {
    /// Waits until the tail is in the file: the daemon reads it after our end.
    pub(super) fn finish(self) {
        // Ends by disconnection; nothing is ever sent.
        let _ended = self.0.recv_timeout(LAST_WORDS_MAX);
    }
}

pub(super) fn drain(mut pipe: ChildStderr, path: PathBuf) -> Drain {
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
    Drain(drained)
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
