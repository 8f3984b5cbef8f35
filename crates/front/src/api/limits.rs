//! All limits of the API.

use std::time::Duration;

/// Longest body: Codex's longest input as JSON, with every character escaped.
pub(crate) const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// How long a body may take to arrive.
pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// Bodies of all token holders in memory at the same time; the owner at this machine has as much apart.
pub(super) const BODIES_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Bodies of one caller in memory at the same time: two of the longest.
pub(super) const BODIES_PER_CALLER_BYTES: usize = 2 * BODY_MAX_BYTES;
/// Bodies up to this size are not counted, so that short calls pass while long bodies wait. No more than a connection
/// buffers anyway.
pub(super) const BODY_UNCOUNTED_BYTES: usize = 32 * 1024;
/// How long a body waits for room before it is refused.
pub(super) const BODY_ROOM_DEADLINE: Duration = Duration::from_secs(15);
/// Deadline of a call that does not stream; its effects are completed all the same.
pub(super) const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// How long the head of a request may take to arrive. Counts while the connection is idle as well.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(15);
/// Longest head of a request.
pub(super) const HEAD_MAX_BYTES: usize = 32 * 1024;
/// Header lines of a request.
pub(super) const HEADERS_MAX: usize = 64;
/// How long a client may read nothing.
pub(super) const STALL_DEADLINE: Duration = Duration::from_secs(60);

/// Connections of `api.sock`, separate from TCP's, so that a flood there does not lock the owner out.
const CONNECTIONS_LOCAL: usize = 512;
/// Connections over TCP.
const CONNECTIONS_TCP: usize = 256;
/// Fewest connections of a listener, however few descriptors there are.
const CONNECTIONS_MIN: usize = 4;
/// File descriptors reserved for the ledger, Codex, files and outgoing calls. An idle daemon has about 25.
const DESCRIPTORS_RESERVED: usize = 48;
/// Fraction of the connections that one address may hold idle without a valid token.
pub(super) const CONNECTIONS_UNKNOWN_DIVISOR: usize = 4;
/// Fraction of the connections that one caller may hold.
pub(super) const CONNECTIONS_PER_CALLER_DIVISOR: usize = 2;
/// How long a connection must be idle before it can be closed for another: a new one is about to send a request.
pub(super) const CONNECTION_QUIET: Duration = Duration::from_millis(250);
/// How long a new TCP connection waits for room when all others have a request in progress.
pub(super) const CONNECTION_PATIENCE: Duration = Duration::from_secs(1);
/// How long a connection over TCP or of a group may stay open before it sends its first byte.
pub(super) const FIRST_BYTE_DEADLINE: Duration = Duration::from_secs(5);
/// Connections being refused at the same time; more are closed without an answer.
pub(super) const REFUSALS_MAX: usize = 8;
/// How long a refused connection may take to read why.
pub(super) const REFUSAL_DEADLINE: Duration = Duration::from_secs(1);
/// Longest answer to a refused connection.
pub(super) const REFUSAL_MAX_BYTES: usize = 16 * 1024;
/// Interval at which a refused process on `api.sock` is logged.
pub(super) const REFUSAL_LOGGED_EVERY: Duration = Duration::from_secs(10);
/// Event streams of all token holders.
pub(super) const STREAMS_MAX: usize = 192;
/// Event streams of one caller.
pub(super) const STREAMS_PER_CALLER: usize = 64;
/// Pause after a failed accept, usually for lack of file descriptors.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Burst of calls of one caller.
pub(super) const CALLS_BURST: u32 = 200;
/// Calls of one caller per second.
pub(super) const CALLS_PER_SECOND: f64 = 50.0;
/// Burst of refused tokens of one address.
pub(super) const FAILURES_BURST: u32 = 10;
/// Refused tokens of one address per second after that.
pub(super) const FAILURES_PER_SECOND: f64 = 0.2;
/// Callers and addresses with a rate bucket; the fullest are evicted first.
pub(super) const RATED_MAX: usize = 4096;

/// Longest body that opens a session, before anybody is known.
pub(super) const LOGIN_BODY_MAX_BYTES: usize = 4 * 1024;
/// How long such a body may take to arrive.
pub(super) const LOGIN_BODY_DEADLINE: Duration = Duration::from_secs(5);
/// Longest bearer token that is hashed.
pub(super) const TOKEN_MAX_BYTES: usize = 512;

/// Connections of each listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionCounts {
    pub(super) local: usize,
    pub(super) tcp: usize,
}

impl ConnectionCounts {
    /// As many as this number of file descriptors allows.
    pub(super) fn within(descriptors: usize) -> Self {
        let free = descriptors.saturating_sub(DESCRIPTORS_RESERVED);
        let tcp = (free / 2).clamp(CONNECTIONS_MIN, CONNECTIONS_TCP);
        let local = free
            .saturating_sub(tcp)
            .clamp(CONNECTIONS_MIN, CONNECTIONS_LOCAL);
        Self { local, tcp }
    }
}

impl Default for ConnectionCounts {
    fn default() -> Self {
        Self {
            local: CONNECTIONS_LOCAL,
            tcp: CONNECTIONS_TCP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_connections_leave_descriptors_for_others() {
        assert_eq!(ConnectionCounts::within(1024), ConnectionCounts::default());
        for descriptors in [64, 100, 256, 512] {
            let counts = ConnectionCounts::within(descriptors);
            let taken = counts.local + counts.tcp;
            assert!(taken + DESCRIPTORS_RESERVED <= descriptors, "{counts:?}");
            assert!(counts.tcp <= counts.local, "{counts:?}");
        }
        let least = ConnectionCounts::within(16);
        assert_eq!((least.local, least.tcp), (CONNECTIONS_MIN, CONNECTIONS_MIN));
    }
}
