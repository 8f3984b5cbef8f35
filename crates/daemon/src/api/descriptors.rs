//! How many file descriptors the daemon may have: raised as far as it needs and the system allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Enough for all connections with room to spare. Not more: what Codex runs inherits it, and some programs close every
/// descriptor up to the limit one by one.
const DESCRIPTORS_WANTED: u64 = 4096;
/// Taken as the limit where it can't be read; the least that systems give.
const DESCRIPTORS_UNKNOWN: u64 = 256;

/// Raises the soft limit and gives what holds then.
pub(crate) fn raise() -> usize {
    let limit = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => {
            let wanted = hard.min(DESCRIPTORS_WANTED).max(soft);
            match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
                Ok(()) => wanted,
                Err(_) => soft,
            }
        }
        Err(_) => DESCRIPTORS_UNKNOWN,
    };
    usize::try_from(limit).unwrap_or(usize::MAX)
}
