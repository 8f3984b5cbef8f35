//! Every bound of the API, in one place: what one caller may cost the others.

use std::time::Duration;

/// A message of Codex's longest input, as JSON with every character escaped, fits.
pub(crate) const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;
/// How long a body may take to arrive.
pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(30);
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
pub(super) const CONNECTIONS_LOCAL: usize = 512;
/// Connections over TCP at the same time.
pub(super) const CONNECTIONS_TCP: usize = 256;
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
