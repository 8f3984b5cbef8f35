//! Runs a short helper program (`codex --version`, `npm install`, a notification command) to its end, in a
//! process group of its own, within a deadline and with bounded memory.
//!
//! Long-lived Codex processes do not belong here: they have links, supervision and
//! a grace period. What runs here is killed without one.

use bridge_core::deadline::after;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How much of each stream is kept, counted from its end: what a program says last
/// is what explains a failure.
pub(crate) const KEPT_BYTES: usize = 16 * 1024;

/// Largest single read from a pipe.
const CHUNK_BYTES: usize = 4 * 1024;

/// Chunks that may wait between the reader threads and the caller; a program that
/// writes faster than that is slowed down by its own pipe.
const CHUNKS_WAITING: usize = 16;

/// How often an exit or the deadline is looked for while the program is silent.
const TICK: Duration = Duration::from_millis(10);

/// How long output is still collected after the exit. A grandchild that inherited
/// the pipe may hold it open for ever; it must not hold us.
const DRAIN: Duration = Duration::from_secs(1);

/// The end of what a program wrote.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// How the program ended.
#[derive(Debug)]
pub(crate) enum End {
    Exited(ExitStatus),
    /// It passed the deadline; its whole process group was killed.
    Overrun,
}

#[derive(Clone, Copy)]
enum OutputStream {
    Stdout,
    Stderr,
}

struct Chunk {
    stream: OutputStream,
    bytes: Vec<u8>,
}

/// Runs `command` with these bytes on its standard input; see [`run`]. A program that does not read them is no failure.
pub(crate) fn run_with_input(
    mut command: Command,
    input: Vec<u8>,
    deadline: Duration,
) -> io::Result<(End, Output)> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // On a thread of its own: a program that does not read must not hold us beyond its deadline.
        thread::spawn(move || pipe.write_all(&input));
    }
    to_the_end(child, deadline, &mut |_| {})
}

/// Runs `command` without standard input. `waiting` is called about every [`TICK`]
/// with the time passed, so that a caller can show that something is happening.
///
/// # Errors
///
/// The program could not be started, or waiting for it failed.
pub(crate) fn run(
    mut command: Command,
    deadline: Duration,
    waiting: &mut dyn FnMut(Duration),
) -> io::Result<(End, Output)> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    to_the_end(child, deadline, waiting)
}

fn to_the_end(
    mut child: Child,
    deadline: Duration,
    waiting: &mut dyn FnMut(Duration),
) -> io::Result<(End, Output)> {
    let started = Instant::now();
    let chunks = read_streams(&mut child);
    let mut output = Output::default();
    loop {
        match chunks.recv_timeout(TICK) {
            Ok(chunk) => output.keep(&chunk),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
        }
        if let Some(status) = child.try_wait()? {
            drain(&chunks, &mut output);
            return Ok((End::Exited(status), output));
        }
        let passed = started.elapsed();
        if passed >= deadline {
            kill_group(&mut child)?;
            drain(&chunks, &mut output);
            return Ok((End::Overrun, output));
        }
        waiting(passed);
    }
}

impl Output {
    fn keep(&mut self, chunk: &Chunk) {
        let kept = match chunk.stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        kept.extend_from_slice(&chunk.bytes);
        let surplus = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..surplus);
    }
}

fn read_streams(child: &mut Child) -> Receiver<Chunk> {
    let (sender, receiver) = sync_channel(CHUNKS_WAITING);
    if let Some(stdout) = child.stdout.take() {
        read_stream(stdout, OutputStream::Stdout, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        read_stream(stderr, OutputStream::Stderr, sender);
    }
    receiver
}

fn read_stream(
    mut pipe: impl Read + Send + 'static,
    stream: OutputStream,
    sender: SyncSender<Chunk>,
) {
    thread::spawn(move || {
        let mut buffer = [0; CHUNK_BYTES];
        loop {
            let bytes = match pipe.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => buffer.iter().take(read).copied().collect(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if sender.send(Chunk { stream, bytes }).is_err() {
                return;
            }
        }
    });
}

fn drain(chunks: &Receiver<Chunk>, output: &mut Output) {
    let until = after(Instant::now(), DRAIN);
    while let Ok(chunk) = chunks.recv_timeout(until.saturating_duration_since(Instant::now())) {
        output.keep(&chunk);
    }
}

/// The child is not reaped yet, so its number still names its group and no other.
pub(crate) fn kill_group(child: &mut Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    if killpg(Pid::from_raw(group), Signal::SIGKILL).is_err() {
        child.kill()?;
    }
    child.wait().map(drop)
}

/// The end of `bytes` as text for a terminal or a log: at most `lines` lines, with
/// control characters written out, because a program's output may carry escape
/// sequences.
pub(crate) fn tail(bytes: &[u8], lines: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let kept: Vec<String> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(lines)
        .map(|line| line.trim_end().chars().map(visible).collect())
        .collect();
    kept.into_iter().rev().collect::<Vec<_>>().join("\n")
}

fn visible(character: char) -> String {
    if character.is_control() && character != '\t' {
        character.escape_default().to_string()
    } else {
        character.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_status_come_back() {
        let (end, output) =
            run(shell("echo out; echo err >&2; exit 3"), LONG, &mut |_| {}).unwrap();
        assert!(matches!(end, End::Exited(status) if status.code() == Some(3)));
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
    }

    #[test]
    fn a_flood_is_cut_to_its_end() {
        let script = "head -c 1000000 /dev/zero; printf END";
        let (_, output) = run(shell(script), LONG, &mut |_| {}).unwrap();
        assert_eq!(output.stdout.len(), KEPT_BYTES);
        assert!(output.stdout.ends_with(b"END"));
    }

    #[test]
    fn the_deadline_kills_the_whole_group() {
        let script = "sleep 1000 & echo $!; wait";
        let (end, output) = run(shell(script), Duration::from_millis(300), &mut |_| {}).unwrap();
        assert!(matches!(end, End::Overrun));
        let grandchild: i32 = tail(&output.stdout, 1).parse().unwrap();
        let asked = Instant::now();
        while runs(grandchild) {
            assert!(asked.elapsed() < LONG, "the grandchild outlived its group");
            thread::yield_now();
        }
    }

    fn runs(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn grandchild_holding_pipe_does_not_block() {
        let (end, output) = run(shell("sleep 5 & echo done"), LONG, &mut |_| {}).unwrap();
        assert!(matches!(end, End::Exited(status) if status.success()));
        assert_eq!(output.stdout, b"done\n");
    }

    #[test]
    fn tail_escapes_control_characters() {
        assert_eq!(
            tail(b"one\n\ntwo\x1b[31m\nthree\r\n", 2),
            "two\\u{1b}[31m\nthree"
        );
        assert_eq!(tail(b"", 2), "");
    }
}
