//! `mcp`: an MCP server on standard input and output, for the local owner.
//!
//! It only carries acts to the daemon of the state directory; where none runs, it runs one for its own lifetime.

mod control;
mod house;
mod news;

use crate::cli::{Common, McpArgs};
use crate::serve;
use anyhow::Context;
use bridge_daemon::config::Environment;
use bridge_daemon::{Source, Stop};
use bridge_daemon::{telemetry, term};
use bridge_front::mcp::serve_stdio;
use bridge_front::{Caller, Via};
use control::ApiControl;
use house::House;
use std::process::ExitCode;
use std::sync::Arc;

/// What is logged where nothing else is said: stderr is the client's log.
const LOG_FILTER: &str = "info,rmcp=warn";

pub(crate) async fn run(args: McpArgs, common: Common, environment: Environment) -> ExitCode {
    match try_run(args, common, environment).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            term::complain(&term::escape(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

async fn try_run(args: McpArgs, common: Common, environment: Environment) -> anyhow::Result<()> {
    let filter = environment.log_filter().unwrap_or(LOG_FILTER);
    telemetry::start(filter, environment.no_color(), environment.journal_stream());
    let stop = Stop::default();
    serve::watch_signals(stop.clone())?;
    let source = Source {
        state_dir: environment.state_dir(common.state_dir.as_deref())?,
        file: common.config,
        codex_bin: args.codex_bin,
        workdir: None,
        listen: None,
        environment,
    };
    let house = Arc::new(House::new(source, stop.clone()));
    // Unfinished tasks go on at once; whoever calls meanwhile waits for it, and is told if it fails.
    let early = tokio::spawn({
        let house = Arc::clone(&house);
        async move {
            if let Err(error) = house.client().await {
                tracing::warn!("{}", term::escape_line(&error.message));
            }
        }
    });
    let control = ApiControl::new(Arc::clone(&house));
    let served = serve_stdio(control, Caller::local_owner(Via::Mcp), stop.gently.clone()).await;
    stop.gently.cancel();
    let _ended = early.await;
    house.leave().await;
    served.context(
        "speak MCP on standard input and output: `codex-bridge mcp` is started by an MCP client",
    )
}
