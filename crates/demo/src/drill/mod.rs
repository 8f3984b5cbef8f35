//! `drill`: a user's own proof of delivery. The real daemon and the real Codex are killed again and again while
//! messages come in, replies are refused or their receipts lost, and old rows are shown again; then everything must
//! become quiet, and what was seen from outside is counted; the ledger is not consulted. `bridge_sim::drill` decides
//! what happens when; here are the daemon, the report and the exit code.

mod daemon;
mod report;

use crate::args::DrillArgs;
use crate::demo::codex::find_or_install;
use crate::demo::interrupted;
use anyhow::Context;
use bridge_daemon::config::Environment;
use bridge_daemon::term::{self, Paint};
use bridge_sim::drill::{Play, Rhythm};
use daemon::DrillDaemon;
pub use report::DrillView;
use report::{DrillReport, DrillSettings};
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
    let (rhythm, words) = match args.messages {
        Some(messages) => (Rhythm::Messages(messages), format!("{messages} messages")),
        None => {
            let duration = Duration::from_secs_f64(args.minutes * 60.0);
            (Rhythm::Clock(duration), format!("{} min", args.minutes))
        }
    };
    term::complain(&format!(
        "Drilling for {words} with seed {seed}, then until everything is quiet. Ctrl-C stops it."
    ));
    let (stage, scene) = DrillDaemon::prepare(codex, &args, seed)
        .await
        .context("set up")?;
    let mut play = Play::new(stage, scene, seed);
    let played = tokio::select! {
        played = play.run(rhythm) => played.map_err(anyhow::Error::from),
        () = interrupted() => Err(anyhow::anyhow!("interrupted")),
    };
    match played {
        Ok(()) => close(play, DrillSettings::new(&args, seed)).await,
        Err(error) => {
            abandon(play).await;
            Err(error)
        }
    }
}

/// Clears up, and counts what was seen; the directory is kept if a promise was broken.
async fn close(
    mut play: Play<DrillDaemon>,
    settings: DrillSettings,
) -> anyhow::Result<DrillReport> {
    if let Err(error) = play.stage.stop_daemon().await {
        play.add_problem(error.to_string());
    }
    play.stage.clear().await;
    let (stage, outcome) = play.close()?;
    let mut report = DrillReport::new(settings, outcome);
    if !report.keeps() {
        stage.remove()?;
    } else {
        let history = stage.path().join("history.txt");
        std::fs::write(history, report.history()).context("write the history")?;
        report.kept = Some(stage.keep());
    }
    Ok(report)
}

/// Ends everything without counting.
async fn abandon(mut play: Play<DrillDaemon>) {
    play.stage.clear().await;
    if let Err(error) = play.stage.remove() {
        term::complain(&format!("{error:#}"));
    }
}

/// A random seed, short enough to type.
fn any_seed() -> u64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    high % 1_000_000
}
