//! One life of one Codex process, recorded so that the next daemon finds it, attaches to it or ends it.

use super::{BootId, IncarnationId, NodeId, Timestamp};

/// One life of one Codex process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// Ours, new for every start.
    pub incarnation_id: IncarnationId,
    /// How we talk to it.
    pub transport: Transport,
    /// The keeper process around it: our own binary, which ends it when nobody attaches.
    pub keeper: ProcessStamp,
    /// Directory with its sockets and its stderr; a path kept as text.
    pub directory: String,
    /// What the binary said it is.
    pub codex_version: String,
    /// Which CODEX_HOME it has; absent for the usual one. An absolute path kept as text.
    pub codex_home: Option<String>,
    /// The machine's boot it lives in.
    pub boot_id: BootId,
    /// When it was started.
    pub started_at: Timestamp,
    /// When we learned that it is gone.
    pub ended_at: Option<Timestamp>,
    /// The node of the fleet that it runs on.
    pub node_id: Option<NodeId>,
}

/// A process that can be distinguished from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStamp {
    /// The pid.
    pub pid: i32,
    /// Start time in clock ticks since boot, as the kernel reports it.
    pub start_ticks: u64,
}

/// How we talk to a Codex process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Its unix socket: it works on when we die, and we attach again.
    Socket,
    /// Pipes: it dies with us.
    Stdio,
}

words!(Transport {
    Socket => "socket",
    Stdio => "stdio",
});
