//! `run`: the daemon in the foreground, its log on stderr, its end by signal; and what every process with a daemon does.

use crate::cli::{Common, RunArgs};
use crate::client;
use anyhow::{Context, bail};
use bridge_daemon::Notifier;
use bridge_daemon::config::Environment;
use bridge_daemon::telemetry::{self, LogOptions};
use bridge_daemon::term;
use bridge_daemon::{ConfigSource, Ready, RunOptions, Stop, run as run_daemon};
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Exit code when the ledger is damaged (EX_DATAERR): starting again can't help, so a supervisor should not try.
const EXIT_DAMAGED: u8 = 65;

pub(crate) async fn run(
    args: RunArgs,
    common: &Common,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let Err(error) = try_run(args, common, environment).await else {
        return Ok(ExitCode::SUCCESS);
    };
    match error.downcast_ref::<bridge_store::OpenError>() {
        Some(damage) if damage.is_damage() => {
            client::say(&format!("{error:#}"));
            Ok(ExitCode::from(EXIT_DAMAGED))
        }
        Some(_) | None => Err(error),
    }
}

async fn try_run(args: RunArgs, common: &Common, environment: Environment) -> anyhow::Result<()> {
    let environment = match args.allow_http {
        true => environment.allowing_http(),
        false => environment,
    };
    let state_dir = environment.state_dir(common.state_dir.as_deref())?;
    let started_in = args.work_here.then(std::env::current_dir).transpose();
    let source = ConfigSource {
        file: common.config.clone(),
        environment: environment.clone(),
        state_dir: state_dir.clone(),
        codex_bin: args.codex.codex_bin,
        workdir: args.workdir.workdir,
        listen: args.listen,
        started_in: started_in.context("find the directory that this was started in")?,
    };
    let loaded = source.load()?;
    if args.work_here && loaded.molecule.is_empty() {
        bail!(
            "there is no workspace to serve: set WORKSPACE_ID, PLATFORM_URL and MOLECULE_WORKSPACE_TOKEN, or name one in codex-bridge.toml; `codex-bridge run` runs without"
        );
    }
    let filter = environment.log_filter().unwrap_or(&loaded.config.log.level);
    telemetry::start(LogOptions {
        filter,
        format: loaded.config.log.format,
        no_color: environment.no_color(),
        journal: environment.journal_stream(),
    });
    for warning in &loaded.warnings {
        tracing::warn!("{}", term::escape_line(warning));
    }
    #[cfg(debug_assertions)]
    if let Some(plan) = environment.fail_point() {
        bridge_daemon::failpoint::arm(plan);
    }
    let stop = Stop::default();
    watch_signals(stop.clone())?;
    let (ready, serving) = oneshot::channel();
    tokio::spawn(announce(serving));
    let mut options = RunOptions::of(state_dir, loaded, &environment);
    options.handover = args.handover;
    options.source = Some(source);
    options.notifier = Notifier::new(environment.service_manager(), std::process::id());
    run_daemon(options, ready, stop).await?;
    tracing::info!(name: "daemon.stopped", "stopped");
    Ok(())
}

async fn announce(serving: oneshot::Receiver<Ready>) {
    if let Ok(ready) = serving.await {
        tracing::info!(
            name: "daemon.ready",
            codex = %ready.codex.display(),
            version = ready.codex_version,
            api = %ready.api_socket.display(),
            listen = ready.listen.map(tracing::field::display),
            resumed = ready.resumed,
            "ready"
        );
        if ready.is_first {
            tracing::info!("send something from another terminal: `codex-bridge send \"hello\"`");
        }
    }
}

/// Keeps the memory of a process that holds tokens and keys to itself. Other processes of the user can neither trace it
/// nor read its memory or environment, and a crash leaves no core file. What it starts can be traced again, and leaves no
/// core file either.
pub(crate) fn harden() -> io::Result<()> {
    set_dumpable(false)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    Ok(())
}

/// The first signal stops gently, the second one at once; SIGHUP reads the configuration again.
pub(crate) fn watch_signals(stop: Stop) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let reload = Arc::clone(&stop.reload);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reload.notify_one();
        }
    });
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!(name: "daemon.stopping", "stopping");
        stop.gently.cancel();
        either(&mut terminate, &mut interrupt).await;
        stop.now.cancel();
    });
    Ok(())
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
