//! Every bound of the API, in one place: what one caller may cost the others.

use std::time::Duration;

/// A message of Codex's longest input, as JSON with every character escaped, fits.
pub(crate) const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// How long a body may take to arrive.
pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// Bodies of all token holders in memory at the same time; the owner at this machine has as much apart.
pub(super) const BODIES_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Bodies of one caller in memory at the same time: two of the longest, so no single caller keeps others waiting.
pub(super) const BODIES_PER_CALLER_BYTES: usize = 2 * BODY_MAX_BYTES;
/// A body up to here is not counted, so that short calls go through whatever long bodies wait for. No more than what a
/// connection buffers anyway; the number of connections bounds it.
pub(super) const BODY_UNCOUNTED_BYTES: usize = 32 * 1024;
/// How long a body may wait for room before its sender is asked to come again.
pub(super) const BODY_ROOM_DEADLINE: Duration = Duration::from_secs(15);
/// How long a call that does not stream may take; what it began is finished all the same.
pub(super) const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// How long the head of a request may take to arrive, counted from when the connection could have sent one: idle
/// connections end by it too.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(15);
/// Longest head of a request.
pub(super) const HEAD_MAX_BYTES: usize = 32 * 1024;
/// Most header lines of a request.
pub(super) const HEADERS_MAX: usize = 64;
/// How long a client may take nothing of what is sent to it.
pub(super) const STALL_DEADLINE: Duration = Duration::from_secs(60);

/// Connections of `api.sock` at the same time, apart from those of TCP: a flood there takes no place here.
const CONNECTIONS_LOCAL: usize = 512;
/// Connections over TCP at the same time.
const CONNECTIONS_TCP: usize = 256;
/// Fewest connections of a listener, however few descriptors there are.
const CONNECTIONS_MIN: usize = 4;
/// Descriptors that no connection gets: the ledger, Codex, files and calls to others need them. An idle daemon has
/// about 25.
const DESCRIPTORS_RESERVED: usize = 48;
/// Which part of the connections one address may have idle without a valid token.
pub(super) const CONNECTIONS_UNKNOWN_DIVISOR: usize = 4;
/// Which part of the connections one caller may have.
pub(super) const CONNECTIONS_PER_CALLER_DIVISOR: usize = 2;
/// How long a connection must have been idle before it can be closed for another: whoever just came is about to speak.
pub(super) const CONNECTION_QUIET: Duration = Duration::from_millis(250);
/// How long a new connection over TCP waits for room when all others have a request under way.
pub(super) const CONNECTION_PATIENCE: Duration = Duration::from_secs(1);
/// How long a connection over TCP may stay open before it sends its first byte.
pub(super) const FIRST_BYTE_DEADLINE: Duration = Duration::from_secs(5);
/// Connections that are being refused at the same time; more are closed without a word.
pub(super) const REFUSALS_MAX: usize = 8;
/// How long a refused connection may take to read why.
pub(super) const REFUSAL_DEADLINE: Duration = Duration::from_secs(1);
/// Longest word to a refused connection; all of ours are a sentence or two.
pub(super) const REFUSAL_MAX_BYTES: usize = 16 * 1024;
/// How often a process that is refused on `api.sock` is logged: it may try without end.
pub(super) const REFUSAL_LOGGED_EVERY: Duration = Duration::from_secs(10);
/// Event streams of tokens at the same time.
pub(super) const STREAMS_MAX: usize = 192;
/// Event streams of one caller at the same time.
pub(super) const STREAMS_PER_CALLER: usize = 64;
/// Pause after an accept that failed: out of descriptors, most likely.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Calls that one caller may make at once before the rate counts.
pub(super) const CALLS_BURST: u32 = 200;
/// Calls of one caller per second.
pub(super) const CALLS_PER_SECOND: f64 = 50.0;
/// Refused tokens of one address before it is told to wait.
pub(super) const FAILURES_BURST: u32 = 10;
/// Refused tokens of one address per second after that.
pub(super) const FAILURES_PER_SECOND: f64 = 0.2;
/// Callers and addresses whose rates are remembered; the fullest are forgotten first.
pub(super) const RATED_MAX: usize = 4096;

/// Longest bearer token that is looked at.
pub(super) const TOKEN_MAX_BYTES: usize = 512;

/// How many connections each listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionCounts {
    pub(super) local: usize,
    pub(super) tcp: usize,
}

impl ConnectionCounts {
    /// As many as this number of descriptors allows, with enough left for everything else.
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
