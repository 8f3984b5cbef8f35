//! `drill`: a user's own proof of delivery. The real daemon and the real Codex are killed again and again while
//! messages come in, replies are refused or their receipts lost, and old rows are shown again; then everything must
//! become quiet, and what was seen from outside is counted. Our own tables are never asked.

mod outside;
mod play;
mod report;
mod stage;
mod traffic;

use crate::cli::DrillArgs;
use crate::config::Environment;
use crate::demo::codex::find_or_install;
use crate::demo::interrupted;
use crate::term::{self, Paint, escape};
use anyhow::Context;
use play::Play;
use report::Report;
use stage::Stage;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) async fn run(args: DrillArgs, environment: Environment) -> ExitCode {
    let paint = Paint::stdout(environment.no_color());
    let json = args.json;
    let report = match drill(args, &environment).await {
        Ok(report) => report,
        Err(error) => {
            let error = format!("{error:#}");
            term::complain(&format!("the drill stopped: {}", escape(&error)));
            return ExitCode::FAILURE;
        }
    };
    let printed = match json {
        true => term::print(&report.json()),
        false => term::print(&report.table(paint)),
    };
    match (printed, report.passed()) {
        (Ok(()), true) => ExitCode::SUCCESS,
        (Ok(()), false) => ExitCode::FAILURE,
        (Err(error), _) => {
            term::complain(&format!("print the report: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn drill(args: DrillArgs, environment: &Environment) -> anyhow::Result<Report> {
    let paint = Paint::stderr(environment.no_color());
    let explicit = args.codex_bin.as_deref();
    let codex = find_or_install(explicit, environment, paint, term::complain).await?;
    let seed = args.seed.unwrap_or_else(any_seed);
    term::complain(&format!(
        "Drilling for {} min with seed {seed}, then until everything is quiet. Ctrl-C stops it.",
        args.minutes
    ));
    let stage = Stage::set(codex, &args, seed).await.context("set up")?;
    let duration = Duration::from_secs_f64(args.minutes * 60.0);
    let mut play = Play::new(stage, seed);
    let played = tokio::select! {
        played = play.run(duration) => played,
        () = interrupted() => Err(anyhow::anyhow!("interrupted")),
    };
    let figures = play.figures(&args, seed);
    match played {
        Ok(()) => play.close(figures).await,
        Err(error) => {
            play.abandon().await;
            Err(error)
        }
    }
}

/// A seed that nobody chose, short enough to type.
fn any_seed() -> u64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    high % 1_000_000
}
