//! `upgrade-codex`: installs another Codex beside the one in use, and lets the daemon change to it while turns run.
//!
//! It writes into the state directory, which only its owner may do; the daemon sees what was chosen there and says what
//! came of it in the same place.

use crate::cli::{Common, UpgradeCodexArgs};
use anyhow::{Context, bail};
use bridge_daemon::config::{self, Environment};
use bridge_daemon::state::StateDir;
use bridge_daemon::term::escape_line;
use bridge_host::binary::{install, integrity};
use bridge_host::upgrade::UpgradeOptions;
use bridge_host::upgrade::record::{Choice, Record, Stage};
use bridge_host::version::Version;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked what the daemon made of it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long the daemon may take to change. An older process that still ends its turns makes it wait; it goes on then.
const PATIENCE: Duration = Duration::from_secs(120);

/// What `upgrade-codex --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UpgradeReport {
    /// The version that was chosen.
    version: String,
    /// Its executable.
    codex: PathBuf,
    outcome: UpgradeOutcome,
    /// Why it was refused, or what it waits for.
    detail: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UpgradeOutcome {
    /// New turns go to it.
    Changed,
    /// No daemon runs: the next one starts with it.
    AtNextStart,
    /// The daemon had not changed to it in time; it does when it can.
    Waiting,
    /// The daemon refuses it, and goes on with the one of before.
    Refused,
}

pub(crate) async fn run(
    args: UpgradeCodexArgs,
    common: &Common,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let state = environment.state_dir(common.state_dir.as_deref())?;
    let state = StateDir::existing(&state);
    let loaded = config::load(
        common.config.as_deref(),
        environment,
        common.state_dir.as_deref(),
    )?;
    let options = UpgradeOptions {
        directory: state.codex(),
        configured: loaded.config.codex.bin.clone(),
        search_path: environment.program_vars().path.map(ToOwned::to_owned),
        env: environment.all().to_vec(),
        snapshot: bridge_store::sqlite::snapshot,
    };
    let env = environment.all().to_vec();
    let rollback = args.rollback;
    let wanted = args.codex_version.clone();
    let chosen = tokio::task::spawn_blocking(move || match wanted {
        Some(version) => install_and_choose(&options, &version, &env),
        None if rollback => choose_former(&options),
        None => bail!("name a version, or give --rollback"),
    });
    let choice = chosen.await??;
    let report = match state.holder() {
        Some(_) => wait_for_daemon(&state, &choice).await?,
        None => UpgradeReport::of(&choice, UpgradeOutcome::AtNextStart, None),
    };
    let code = match report.outcome {
        UpgradeOutcome::Changed | UpgradeOutcome::AtNextStart => ExitCode::SUCCESS,
        UpgradeOutcome::Waiting => ExitCode::from(75),
        UpgradeOutcome::Refused => ExitCode::FAILURE,
    };
    args.output.show(&report, code, |_| report.words())
}

impl UpgradeReport {
    fn of(choice: &Choice, outcome: UpgradeOutcome, detail: Option<String>) -> Self {
        Self {
            version: choice.version.clone(),
            codex: choice.codex.clone(),
            outcome,
            detail,
        }
    }

    fn words(&self) -> String {
        let version = &self.version;
        let detail = escape_line(self.detail.as_deref().unwrap_or_default());
        match self.outcome {
            UpgradeOutcome::Changed => format!(
                "Codex {version} takes new turns; those that run end on the one of before. If its first turns fail, the daemon goes back by itself: see `codex-bridge status`."
            ),
            UpgradeOutcome::AtNextStart => {
                format!("No daemon runs; the next one starts with Codex {version}.")
            }
            UpgradeOutcome::Waiting => format!(
                "Codex {version} is chosen, and the daemon has not changed to it yet: see `codex-bridge status`."
            ),
            UpgradeOutcome::Refused => {
                format!("Codex {version} is refused, and the one of before goes on: {detail}")
            }
        }
    }
}

/// Installs a version into the state directory, and chooses it. Progress goes to stderr.
fn install_and_choose(
    options: &UpgradeOptions,
    version: &str,
    env: &[(std::ffi::OsString, std::ffi::OsString)],
) -> anyhow::Result<Choice> {
    let version: Version = version
        .parse()
        .with_context(|| format!("`{version}` is no version of Codex; say it like 0.166.0"))?;
    let mut say = |line: &str| eprintln!("{}", escape_line(line));
    let codex = install::install(&options.directory, &version, env, &mut say)?;
    say("comparing the package with the registry's digest");
    integrity::verify(&options.directory, &version, env)?;
    choose(options, &version.to_string(), codex)
}

/// Chooses the newest copy that is not what runs now.
fn choose_former(options: &UpgradeOptions) -> anyhow::Result<Choice> {
    let record = Record::read(&options.directory);
    let running = record
        .running
        .as_ref()
        .map(|running| running.digest.as_str());
    let kept = record.last_good(running).context(
        "no copy of an earlier Codex is kept; name a version: `codex-bridge upgrade-codex VERSION`",
    )?;
    choose(options, &kept.version, kept.codex.clone())
}

fn choose(options: &UpgradeOptions, version: &str, codex: PathBuf) -> anyhow::Result<Choice> {
    let choice = options.choose(version, &codex, now_ms());
    choice.with_context(|| format!("write to {}", options.directory.display()))
}

/// Waits until the daemon runs it, or refuses it.
async fn wait_for_daemon(state: &StateDir, choice: &Choice) -> anyhow::Result<UpgradeReport> {
    let directory = state.codex();
    let began = Instant::now();
    let mut look = tokio::time::interval(LOOK_EVERY);
    while began.elapsed() < PATIENCE && state.holder().is_some() {
        look.tick().await;
        let record = Record::read(&directory);
        if let Some(refused) = record.refusal(&choice.digest, Some(choice)) {
            let why = Some(refused.why.clone());
            return Ok(UpgradeReport::of(choice, UpgradeOutcome::Refused, why));
        }
        let running = record.running.filter(|it| it.digest == choice.digest);
        let runs = running.is_some_and(|it| it.stage != Stage::Starting);
        if runs {
            return Ok(UpgradeReport::of(choice, UpgradeOutcome::Changed, None));
        }
    }
    Ok(UpgradeReport::of(choice, UpgradeOutcome::Waiting, None))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
