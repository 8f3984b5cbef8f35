//! The daemon's log: one line per event on stderr, foreign text escaped, secrets never.

use crate::config::Environment;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging at this level; `CODEX_BRIDGE_LOG` goes before it.
pub(crate) fn start(level: &str, environment: &Environment) {
    let directive = environment.log_filter().unwrap_or(level);
    let filter = EnvFilter::try_new(directive).unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal() && !environment.no_color();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .finish();
    // A second start (tests, demo) keeps the first one.
    let _already = tracing::subscriber::set_global_default(log);
}
