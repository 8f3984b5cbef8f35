//! `drill`: a user's own proof of delivery. The real daemon and the real Codex are killed again and again while
//! messages come in, replies are refused or their receipts lost, and old rows are shown again; then everything must
//! become quiet, and what was seen from outside is counted; the ledger is not consulted. `bridge_sim::drill` decides
//! what happens when; here are the daemon or the fleet, the report and the exit code.

mod config;
mod daemon;
mod fleet;
mod report;

use crate::args::DrillArgs;
use crate::demo::codex::find_or_install;
use crate::demo::interrupted;
use anyhow::{Context, bail};
use bridge_daemon::config::Environment;
use bridge_daemon::term::{self, Paint};
use bridge_sim::drill::{FleetRhythm, Play, Rhythm, Stage};
use daemon::DrillDaemon;
pub(crate) use daemon::NOT_FOR_THE_DAEMON;
use fleet::DrillFleet;
pub use report::DrillView;
use report::{DrillReport, DrillSettings};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs `drill`.
///
/// # Errors
///
/// It could not be played to its end.
pub async fn run(args: DrillArgs, environment: Environment) -> anyhow::Result<ExitCode> {
    let paint = Paint::stdout(environment.no_color());
    let json = args.json;
    let drilled = drill(args, &environment).await;
    let report = drilled.context("the drill stopped")?;
    let text = if json {
        serde_json::to_string_pretty(&report.view())?
    } else {
        report.table(paint)
    };
    term::print(&text).context("print the report")?;
    Ok(match report.passed() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn drill(args: DrillArgs, environment: &Environment) -> anyhow::Result<DrillReport> {
    let paint = Paint::stderr(environment.no_color());
    let explicit = args.codex_bin.as_deref();
    let codex = find_or_install(explicit, environment, paint, term::complain).await?;
    let seed = args.seed.unwrap_or_else(any_seed);
    let duration = Duration::from_secs_f64(args.minutes * 60.0);
    let words = match (args.messages, args.nodes) {
        (Some(messages), _) => format!("{messages} messages"),
        (None, None) => format!("{} min", args.minutes),
        (None, Some(nodes)) => format!("{} min on {nodes} nodes", args.minutes),
    };
    term::complain(&format!(
        "Drilling for {words} with seed {seed}, then until everything is quiet. Ctrl-C stops it."
    ));
    let settings = DrillSettings::new(&args, seed);
    let Some(nodes) = args.nodes else {
        let rhythm = args
            .messages
            .map_or(Rhythm::Clock(duration), Rhythm::Messages);
        let prepared = DrillDaemon::prepare(codex, &args, seed).await;
        let (stage, scene) = prepared.context("set up")?;
        let mut play = Play::new(stage, scene, seed);
        let played = unless_interrupted(play.run(rhythm)).await;
        return finish(play, settings, played).await;
    };
    let rhythm = FleetRhythm {
        duration,
        lease: Duration::from_secs(args.lease_secs),
        restart_database: args.restart_database,
    };
    let prepared = DrillFleet::prepare(codex, &args, usize::try_from(nodes)?, seed).await;
    let (stage, scene) = prepared.context("set up")?;
    let mut play = Play::new(stage, scene, seed);
    let played = unless_interrupted(play.run_fleet(rhythm)).await;
    finish(play, settings, played).await
}

async fn unless_interrupted(
    played: impl Future<Output = Result<(), bridge_sim::Error>>,
) -> anyhow::Result<()> {
    tokio::select! {
        played = played => Ok(played?),
        () = interrupted() => bail!("interrupted"),
    }
}

/// What is drilled, as far as it must be cleared up.
trait Ground: Stage {
    /// Stops what runs in order, and looks that nothing is left of it.
    async fn stop_daemons(&mut self) -> anyhow::Result<()>;

    /// Ends everything that still runs, however it is.
    async fn clear(&mut self);

    /// Writes `history.txt` and whatever else an investigation needs, and keeps the directory.
    fn keep(self, history: &str) -> anyhow::Result<PathBuf>;

    fn remove(self) -> anyhow::Result<()>;
}

async fn finish<S: Ground>(
    mut play: Play<S>,
    settings: DrillSettings,
    played: anyhow::Result<()>,
) -> anyhow::Result<DrillReport> {
    match played {
        Ok(()) => close(play, settings).await,
        Err(error) => {
            play.stage.clear().await;
            if let Err(error) = play.stage.remove() {
                term::complain(&format!("{error:#}"));
            }
            Err(error)
        }
    }
}

/// Clears up, and counts what was seen; the directory is kept if a promise was broken.
async fn close<S: Ground>(
    mut play: Play<S>,
    settings: DrillSettings,
) -> anyhow::Result<DrillReport> {
    if let Err(error) = play.stage.stop_daemons().await {
        play.add_problem(error.to_string());
    }
    play.stage.clear().await;
    let (stage, outcome) = play.close()?;
    let mut report = DrillReport::new(settings, outcome);
    if report.keeps() {
        report.kept = Some(stage.keep(report.history())?);
    } else {
        stage.remove()?;
    }
    Ok(report)
}

/// A random seed, short enough to type.
fn any_seed() -> u64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    high % 1_000_000
}
