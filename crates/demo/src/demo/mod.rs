//! `demo`: the main job on this machine alone. A scripted model, a Molecule platform, a private CODEX_HOME and a daemon
//! are started, messages of people and of an agent go through the real Codex, Codex is killed once, and nothing is left.
//! With `--fleet`: three nodes over one PostgreSQL, of which one dies.

mod chapters;
pub(crate) mod codex;
mod fleet;
mod keep;
mod setup;

use crate::{DemoArgs, DemoClient};
use bridge_daemon::config::Environment;
use bridge_daemon::term::{self, Paint, escape};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Runs `demo`.
pub async fn run<C: DemoClient>(args: DemoArgs, environment: Environment) -> ExitCode {
    let paint = Paint::stdout(environment.no_color());
    match play::<C>(args, environment, paint).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = format!("{error:#}");
            term::complain(&format!(
                "{} {}",
                paint.red("the demo stopped:"),
                escape(&error)
            ));
            ExitCode::FAILURE
        }
    }
}

async fn play<C: DemoClient>(
    args: DemoArgs,
    environment: Environment,
    paint: Paint,
) -> anyhow::Result<()> {
    say(&paint.bold("codex-bridge demo: no account, no network, nothing kept"));
    say("");
    let codex = codex::find_or_install(args.codex_bin.as_deref(), &environment, paint, say).await?;
    if args.fleet {
        fleet::play::<C>(codex, &environment, paint).await?;
        say(&paint.green("Everything is stopped and removed again."));
        return Ok(());
    }
    let setup = setup::DemoSetup::<C>::start(codex, &environment, paint).await?;
    let mut played = unless_interrupted(chapters::play(&setup, paint)).await;
    if args.keep && played.is_ok() {
        played = unless_interrupted(keep::fill(&setup, paint)).await;
        if played.is_ok() {
            interrupted().await;
            setup.end_turns();
        }
    }
    // Whatever happened, nothing may be left behind.
    let stopped = setup.stop().await;
    played?;
    stopped?;
    say(&paint.green("Everything is stopped and removed again."));
    say("");
    where_next(paint);
    Ok(())
}

/// Runs `part` until it ends or somebody interrupts it.
async fn unless_interrupted(part: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        played = part => played,
        () = interrupted() => Err(anyhow::anyhow!("interrupted")),
    }
}

/// Says something on stdout. A reader that went away must not keep the demo from cleaning up.
fn say(text: &str) {
    let _closed = term::print(text);
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn interrupted() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

fn where_next(paint: Paint) {
    say(&paint.bold("Where to go next"));
    say("  codex login                     log Codex in, once");
    say("  codex-bridge doctor             check Codex, its sandbox and this machine");
    say("  codex-bridge run                start the daemon");
    say("  codex-bridge console            see everything and decide, in the browser");
    say("  codex-bridge send \"Hello\"       talk to it from another terminal");
    say("  codex-bridge start \"Do it\"      start a task; `watch` shows it and asks what it asks");
}
