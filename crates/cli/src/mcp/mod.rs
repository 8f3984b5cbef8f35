//! `mcp`: an MCP server on standard input and output, for the local owner.
//!
//! A proxy to the daemon of the state directory; where none runs, it runs one for its own lifetime.

mod daemon;
mod directory;
mod proxy;

use crate::cli::{Common, McpArgs};
use crate::serve;
use anyhow::Context;
use bridge_daemon::config::{Environment, LogFormat};
use bridge_daemon::telemetry::{self, LogOptions};
use bridge_daemon::term;
use bridge_daemon::{ConfigSource, Stop};
use bridge_front::mcp::serve_stdio;
use daemon::DaemonHandle;
use proxy::Proxy;
use std::process::ExitCode;
use std::sync::Arc;

/// Default log filter: stderr is the client's log.
const LOG_FILTER: &str = "info,rmcp=warn";

pub(crate) async fn run(
    args: McpArgs,
    common: Common,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let filter = environment.log_filter().unwrap_or(LOG_FILTER);
    telemetry::start(LogOptions {
        filter,
        format: LogFormat::Text,
        no_color: environment.no_color(),
        journal: environment.journal_stream(),
    });
    let stop = Stop::default();
    serve::watch_signals(stop.clone())?;
    let source = ConfigSource {
        state_dir: environment.state_dir(common.state_dir.as_deref())?,
        file: common.config,
        codex_bin: args.codex_bin,
        workdir: None,
        listen: None,
        started_in: None,
        environment,
    };
    let daemon = Arc::new(DaemonHandle::new(source, stop.clone()));
    // Unfinished tasks go on at once. Calls meanwhile wait for the same start, and report it if it fails.
    let early = tokio::spawn({
        let daemon = Arc::clone(&daemon);
        async move {
            if let Err(error) = daemon.client().await {
                tracing::warn!("{}", term::escape_line(&error.to_string()));
            }
        }
    });
    let served = serve_stdio(Proxy(Arc::clone(&daemon)), stop.gently.clone()).await;
    stop.gently.cancel();
    let _ended = early.await;
    daemon.leave().await;
    served.context(
        "speak MCP on standard input and output: `codex-bridge mcp` is started by an MCP client",
    )?;
    Ok(ExitCode::SUCCESS)
}
