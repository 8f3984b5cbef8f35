//! The keeper: a small mode of our own binary around one Codex process.
//!
//! It starts Codex in a session of its own, keeps the tail of its stderr, and ends it with everything it
//! started: on request, on SIGTERM, or when no daemon has been attached for a while. So a daemon that never
//! comes back leaves no orphan and no writer lock. It holds no state worth keeping and knows no JSON-RPC.
//! With a lease it ends Codex when that was not renewed, whether a daemon is attached or not, and never lingers.

mod codex;
mod control;
pub(crate) mod launch;
pub(crate) mod lease;
mod pipes;

pub use codex::exec_codex;
pub use control::{KeeperAttachment, attach};
pub use lease::{BootInstant, KeeperLease};

use bridge_core::deadline::after;
use bridge_core::value::Transport;
use lease::Lease;
use nix::sys::signal::{SigSet, Signal};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Events that wait for the keeper's loop; more are never outstanding than threads that send them.
const EVENTS_MAX: usize = 64;
/// How long Codex may take until its socket answers.
const SOCKET_DEADLINE: Duration = Duration::from_secs(10);
/// How often the socket is tried until then.
const SOCKET_PAUSE: Duration = Duration::from_millis(5);
/// How long Codex may drain after a SIGTERM to the keeper.
const SIGNAL_GRACE: Duration = Duration::from_secs(5);

/// What the keeper says on stdout about Codex's socket, before Codex's pid: it answers,
pub(crate) const READY: &str = "ready";
/// it does not although Codex runs,
pub(crate) const SILENT: &str = "silent";
/// or Codex has ended.
pub(crate) const EXITED: &str = "exited";

/// Name of Codex's socket in the incarnation's directory.
pub const CODEX_SOCKET: &str = "c.sock";
/// Name of the keeper's socket beside it.
pub const KEEPER_SOCKET: &str = "k.sock";
/// Name of the file with the tail of Codex's stderr.
pub const STDERR_FILE: &str = "stderr.log";

/// Command line of the keeper.
#[derive(Clone, Debug)]
pub struct KeeperOptions {
    /// The incarnation's directory.
    pub directory: PathBuf,
    /// How the daemon talks to Codex.
    pub transport: Transport,
    /// How long Codex may live without a daemon.
    pub linger: Duration,
    /// How long Codex may live unless that is renewed; without it a daemon's end decides.
    pub lease: Option<BootInstant>,
    /// Set for one run of `codex exec`: so many bytes of our stdin are its prompt, and the end of our stdin ends it.
    pub prompt_bytes: Option<u64>,
    /// The Codex binary.
    pub codex: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Wakes the keeper's loop.
enum KeeperEvent {
    Joined,
    Left,
    Stop(Duration),
    Exited,
    /// Codex was killed.
    LeaseEnded,
}

/// Runs until Codex and everything it started is gone. Returns Codex's exit code where it had one.
pub fn keep(options: &KeeperOptions) -> io::Result<i32> {
    // A session of its own: a Ctrl-C at the daemon's terminal is not for Codex.
    nix::unistd::setsid()
        .map(drop)
        .or_else(|errno| match errno {
            nix::errno::Errno::EPERM => Ok(()),
            other => Err(io::Error::from(other)),
        })?;
    nix::sys::prctl::set_child_subreaper(true)?;
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block()?;

    let (events, inbox) = mpsc::sync_channel(EVENTS_MAX);
    let lease = options.lease.map(Lease::begin).transpose()?.map(Arc::new);
    if options.transport == Transport::Socket || lease.is_some() {
        let socket = options.directory.join(KEEPER_SOCKET);
        control::listen(&socket, lease.as_ref(), events.clone())?;
    }
    let (mut codex, stderr) = spawn(options)?;
    let codex_pid = i32::try_from(codex.id()).map_err(io::Error::other)?;
    let exit = codex::watch(codex_pid, events.clone());
    if let Some(lease) = &lease {
        lease.watch(codex_pid, events.clone());
    }
    if let (Some(bytes), Some(stdin)) = (options.prompt_bytes, codex.stdin.take()) {
        pipes::give_prompt(stdin, bytes, events.clone());
    }
    watch_signals(signals, events);
    if options.transport == Transport::Socket {
        announce(options, codex_pid)?;
    }
    serve(options, codex_pid, &inbox);
    codex::sweep(codex_pid, &exit);
    if let Some(stderr) = stderr {
        stderr.finish();
    }
    if let Some(lease) = lease {
        lease.leave_word(&options.directory);
    }
    Ok(exit.code())
}

fn spawn(options: &KeeperOptions) -> io::Result<(Child, Option<pipes::StderrDrain>)> {
    let (stdin, stdout) = match (options.transport, options.prompt_bytes) {
        (Transport::Socket, _) => (Stdio::null(), Stdio::null()),
        (Transport::Stdio, None) => (Stdio::inherit(), Stdio::inherit()),
        (Transport::Stdio, Some(_)) => (Stdio::piped(), Stdio::inherit()),
    };
    let mut child = Command::new(std::env::current_exe()?)
        .arg("keeper-exec")
        .arg("--")
        .arg(&options.codex)
        .args(&options.args)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()?;
    let drain = child
        .stderr
        .take()
        .map(|pipe| pipes::drain_stderr(pipe, options.directory.join(STDERR_FILE)));
    Ok((child, drain))
}

fn watch_signals(signals: SigSet, events: mpsc::SyncSender<KeeperEvent>) {
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            if events.send(KeeperEvent::Stop(SIGNAL_GRACE)).is_err() {
                return;
            }
        }
    });
}

/// Tells the daemon, on our stdout, that Codex's socket answers; then lets go of stdout.
fn announce(options: &KeeperOptions, codex_pid: i32) -> io::Result<()> {
    let socket = options.directory.join(CODEX_SOCKET);
    let deadline = after(Instant::now(), SOCKET_DEADLINE);
    while !connects(&socket) && crate::process::stamp(codex_pid).is_some() {
        if Instant::now() > deadline {
            break;
        }
        std::thread::sleep(SOCKET_PAUSE);
    }
    let word = match (connects(&socket), crate::process::stamp(codex_pid)) {
        (true, _) => READY,
        (false, Some(_)) => SILENT,
        (false, None) => EXITED,
    };
    let mut stdout = io::stdout().lock();
    // The daemon may be gone already; Codex is kept all the same until the linger ends.
    let _gone = writeln!(stdout, "{word} {codex_pid}").and_then(|()| stdout.flush());
    Ok(())
}

fn connects(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

/// Waits for a reason to end, and ends Codex.
fn serve(options: &KeeperOptions, codex_pid: i32, inbox: &mpsc::Receiver<KeeperEvent>) {
    let mut attached: u32 = 0;
    let mut alone_since = Instant::now();
    let lingers = options.transport == Transport::Socket && options.lease.is_none();
    loop {
        let wait = if lingers && attached == 0 {
            options.linger.saturating_sub(alone_since.elapsed())
        } else {
            Duration::from_secs(3600)
        };
        match inbox.recv_timeout(wait) {
            Ok(KeeperEvent::Joined) => attached = attached.saturating_add(1),
            Ok(KeeperEvent::Left) => {
                attached = attached.saturating_sub(1);
                alone_since = Instant::now();
            }
            Ok(KeeperEvent::Stop(grace)) => return stop(codex_pid, grace, inbox),
            Ok(KeeperEvent::Exited | KeeperEvent::LeaseEnded)
            | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let lingered = alone_since.elapsed() >= options.linger;
                if lingers && attached == 0 && lingered {
                    return stop(codex_pid, SIGNAL_GRACE, inbox);
                }
            }
        }
    }
}

/// SIGTERM, then as long as `grace` says, then what [`codex::sweep`] does.
fn stop(codex_pid: i32, grace: Duration, inbox: &mpsc::Receiver<KeeperEvent>) {
    codex::signal(codex_pid, Signal::SIGTERM);
    let deadline = after(Instant::now(), grace);
    loop {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(KeeperEvent::Exited | KeeperEvent::LeaseEnded) | Err(_) => return,
            Ok(KeeperEvent::Joined | KeeperEvent::Left | KeeperEvent::Stop(_)) => {}
        }
    }
}
