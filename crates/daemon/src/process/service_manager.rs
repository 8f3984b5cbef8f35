//! What the service manager learns of the daemon over `NOTIFY_SOCKET`: that it serves, how it is, that it lives, that it
//! stops. Nothing is sent where no manager asked.
//!
//! The watchdog is fed only while the scheduler moves: everything else hangs on it.

use crate::Daemon;
use crate::config::ServiceManagerVars;
use bridge_core::port::{Agent, Ledger, Sink};
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// Beats per watchdog period: two may be lost before the manager acts.
const BEATS: u32 = 3;
/// Longest line of status; the manager cuts longer ones itself, but a datagram has a limit too.
const STATUS_MAX_CHARS: usize = 200;

/// The way to the service manager; silent where there is none.
#[derive(Clone, Debug, Default)]
pub struct Notifier {
    to: Option<Arc<(UnixDatagram, SocketAddr)>>,
    /// How often the manager wants to hear that we live.
    beat: Option<Duration>,
}

impl Notifier {
    /// Opens the way. One that can't be opened is logged and left: the manager will say so in its own way.
    pub fn new(vars: ServiceManagerVars<'_>, pid: u32) -> Self {
        let Some(name) = vars.socket else {
            return Self::default();
        };
        match open(name) {
            Ok(to) => Self {
                to: Some(Arc::new(to)),
                beat: beat(vars, pid),
            },
            Err(error) => {
                tracing::warn!(%error, "the service manager's NOTIFY_SOCKET can't be used");
                Self::default()
            }
        }
    }

    /// The daemon serves.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// The daemon reads its configuration again; [`Notifier::ready`] ends that.
    pub fn reloading(&self) {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
        if let Ok(now) = now {
            let microseconds = Duration::from(now).as_micros();
            self.say(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
        }
    }

    /// One line for people, shown by `systemctl status`.
    pub fn status(&self, status: &str) {
        self.say(&format!("STATUS={}", line(status)));
    }

    /// The daemon ends; `status` says what it still waits for.
    pub fn stopping(&self, status: &str) {
        self.say(&format!("STOPPING=1\nSTATUS={}", line(status)));
    }

    /// The daemon lives.
    pub fn alive(&self) {
        self.say("WATCHDOG=1");
    }

    /// How often [`Notifier::alive`] is wanted; `None` where no watchdog is set.
    pub fn beat(&self) -> Option<Duration> {
        self.beat
    }

    fn say(&self, words: &str) {
        let Some(to) = &self.to else { return };
        let (socket, address) = &**to;
        if let Err(error) = socket.send_to_addr(words.as_bytes(), address) {
            tracing::debug!(%error, "the service manager does not listen");
        }
    }
}

fn open(name: &OsStr) -> std::io::Result<(UnixDatagram, SocketAddr)> {
    let bytes = name.as_bytes();
    let address = match bytes.split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        Some((b'/', _)) => SocketAddr::from_pathname(name)?,
        Some(_) | None => {
            return Err(std::io::Error::other(
                "it is neither a path nor an abstract name",
            ));
        }
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold us up.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

fn beat(vars: ServiceManagerVars<'_>, pid: u32) -> Option<Duration> {
    let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
    if let Some(other) = vars.watchdog_pid
        && number(other) != Some(u64::from(pid))
    {
        return None;
    }
    let period = Duration::from_micros(number(vars.watchdog_usec?)?);
    (!period.is_zero()).then(|| period / BEATS)
}

/// A status is one line: a second one would be a second word to the manager.
fn line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(STATUS_MAX_CHARS).collect()
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Tells the service manager that the daemon lives, until it is dropped; at once where nobody asked for it.
    pub(crate) async fn keep_alive(self: Arc<Self>, notifier: Notifier) {
        let Some(every) = notifier.beat() else { return };
        let mut tick = tokio::time::interval(every);
        // Beats that were missed are not made up for: they would hide that they were missed.
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen = None;
        loop {
            tick.tick().await;
            let rounds = self.turns.rounds();
            if self.scheduler_rests() || seen != Some(rounds) {
                notifier.alive();
                notifier.status(&self.in_a_line());
            } else {
                tracing::error!(
                    seconds = every.as_secs(),
                    "the scheduler does not move; the service manager gets no watchdog signal"
                );
            }
            seen = Some(rounds);
            self.turns.wake();
        }
    }

    /// Whether the scheduler has ended because it should: a stop lets turns finish, a damaged ledger is only read.
    fn scheduler_rests(&self) -> bool {
        self.stopping.is_cancelled() || self.damaged.is_cancelled()
    }

    fn in_a_line(&self) -> String {
        let turns = self.turns.running.lock().len();
        let doing = match (self.damaged.is_cancelled(), self.stopping.is_cancelled()) {
            (true, _) => "the database is damaged, run `codex-bridge recover`",
            (false, true) => "stopping",
            (false, false) => "serving",
        };
        format!("{doing}; turns at work: {turns}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars<'a>(socket: &'a str, usec: &'a str, pid: &'a str) -> ServiceManagerVars<'a> {
        let set = |text: &'a str| (!text.is_empty()).then(|| OsStr::new(text));
        ServiceManagerVars {
            socket: set(socket),
            watchdog_usec: set(usec),
            watchdog_pid: set(pid),
        }
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn notifies_path_and_abstract_sockets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::new(vars(path.to_str().unwrap(), "", ""), 1);
        notifier.ready("serving\nEVIL=1");
        assert_eq!(received(&by_path), "READY=1\nSTATUS=serving");

        let name = format!("codex-bridge-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        let notifier = Notifier::new(vars(&format!("@{name}"), "", ""), 1);
        notifier.alive();
        notifier.stopping("bye");
        assert_eq!(received(&by_name), "WATCHDOG=1");
        assert_eq!(received(&by_name), "STOPPING=1\nSTATUS=bye");
    }

    #[test]
    fn watchdog_beat_is_third_of_period() {
        let beat = |usec, pid| super::beat(vars("/x", usec, pid), 7);
        assert_eq!(beat("30000000", ""), Some(Duration::from_secs(10)));
        assert_eq!(beat("30000000", "7"), Some(Duration::from_secs(10)));
        assert_eq!(beat("30000000", "8"), None);
        assert_eq!(beat("0", ""), None);
        assert_eq!(beat("soon", ""), None);
        assert_eq!(beat("", ""), None);
    }

    #[test]
    fn notifier_without_socket_does_nothing() {
        Notifier::new(ServiceManagerVars::default(), 1).ready("x");
        Notifier::new(vars("relative", "30000000", ""), 1).alive();
        let gone = Notifier::new(vars("/nonexistent/notify", "", ""), 1);
        gone.ready("x");
        assert_eq!(gone.beat(), None);
    }
}
