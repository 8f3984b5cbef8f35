//! The daemon's log: one line per event on stderr, foreign text escaped, secrets never.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging what this filter lets through.
pub(crate) fn start(filter: &str, no_color: bool) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal() && !no_color;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        // What can't be logged (a full disk, a reader that went away) is dropped: complaining about it on the
        // same stderr would panic, and the work must go on.
        .log_internal_errors(false)
        .finish();
    // A second start (tests, demo) keeps the first one.
    let _already = tracing::subscriber::set_global_default(log);
}
