//! Keeps the memory of a process that runs a daemon to itself: it holds tokens and keys.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};
use std::io;

/// Other processes of the user can neither trace this one nor read its memory or environment, and a crash leaves no
/// core file. What it starts can be traced again, and leaves no core file either.
pub(crate) fn harden() -> io::Result<()> {
    set_dumpable(false)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    Ok(())
}
