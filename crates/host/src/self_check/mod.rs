//! Whether a Codex that this bridge was not tested with can be given messages.
//!
//! Its schema is compared with our types, our settings are shown to it in its strict mode, and scripted turns run on it: in
//! a CODEX_HOME of its own, with a model on the loopback interface, with no account and none of the operator's files. What
//! is found is remembered by the digest of the executable.

mod admission;
pub(crate) mod private_codex;
pub(crate) mod responder;
mod room;
mod schema;
pub(crate) mod thread;
pub(crate) mod turn_record;
mod turns;
mod verdict;

use crate::app_server::connection::CallError;
use crate::app_server::wall_now;
use crate::binary::settings::{SettingsResult, probe_settings};
use crate::keeper::launch::LaunchOptions;
pub use admission::{Checks, NotAdmitted, is_unknown};
pub use bridge_codex::schema::{Finding, Severity};
use bridge_codex::schema::{LiveComparison, compare};
use responder::Responder;
pub(crate) use room::Room;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
pub use turn_record::Decision;
pub use verdict::{BinaryDigest, VERDICTS_MAX, Verdict, Verdicts};

/// A check takes 5 s, on a machine that is busy with others 30 s.
const CHECK_DEADLINE: Duration = Duration::from_secs(180);

/// Why nothing can be said of a Codex. It is not remembered: the next start tries again.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(
        "the check of this Codex could not use its scratch directory: {0}; check free space and permissions of the state directory"
    )]
    Io(#[from] io::Error),
    #[error("{0}")]
    Schema(String),
    #[error("the check of this Codex did not get through: {0}")]
    Unusable(String),
    #[error(
        "a scripted turn of the check did not end in time: this machine is too busy, or this Codex does not work on it"
    )]
    Slow,
    #[error("the check of this Codex did not end within {} s: this machine is too busy, or this Codex does not work on it", CHECK_DEADLINE.as_secs())]
    Overrun,
}

impl From<CallError> for CheckError {
    fn from(error: CallError) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// Checks the Codex of these options, in a directory below `scratch` that is removed again. It takes about 5 s, and ends
/// everything that it started, also when it is dropped.
///
/// # Errors
///
/// Nothing could be found out, which says nothing about this Codex.
pub async fn check(launch: &LaunchOptions, scratch: &Path) -> Result<Verdict, CheckError> {
    let executable = launch.native.as_ref().unwrap_or(&launch.codex).clone();
    let digest = blocking(move || BinaryDigest::of(&executable)).await?;
    check_as(digest, launch, scratch).await
}

/// The same where the digest is known.
async fn check_as(
    digest: BinaryDigest,
    launch: &LaunchOptions,
    scratch: &Path,
) -> Result<Verdict, CheckError> {
    let found = tokio::time::timeout(CHECK_DEADLINE, findings(launch, scratch)).await;
    let findings = found.map_err(|_elapsed| CheckError::Overrun)??;
    let version = launch.codex_version.clone();
    Ok(Verdict::new(digest, version, wall_now(), findings))
}

async fn findings(launch: &LaunchOptions, scratch: &Path) -> Result<Vec<Finding>, CheckError> {
    let responder = Responder::start().await?;
    let room = Room::make(launch, scratch, &responder)?;
    let mut findings = settings(room.launch.clone(), &room).await?;
    let schema = schema::generate(&room).await?;
    findings.extend(compare(&schema));
    let room = room.comparing(Arc::new(LiveComparison::new(schema)));
    let codex = match room.start().await {
        Ok(codex) => codex,
        Err(error @ (CallError::Refused { .. } | CallError::Unreadable { .. })) => {
            findings.push(Finding {
                severity: Severity::Breaks,
                what: error.to_string(),
            });
            return Ok(findings);
        }
        Err(error) => return Err(error.into()),
    };
    let turns = turns::ScriptedTurns::new(&room, &responder, codex);
    findings.extend(turns.run().await?);
    let unscripted = responder.requests().unscripted;
    if unscripted > 0 {
        findings.push(Finding {
            severity: Severity::BlindSpot,
            what: format!("it asks the model by itself, {unscripted} times in the check"),
        });
    }
    Ok(findings)
}

/// Settings that it ignores without a word.
async fn settings(launch: LaunchOptions, room: &Room) -> io::Result<Vec<Finding>> {
    let scratch = room.path("strict");
    let found = blocking(move || probe_settings(&launch, &scratch)).await?;
    let finding = |severity, what: String| vec![Finding { severity, what }];
    Ok(match found {
        SettingsResult::Known => Vec::new(),
        SettingsResult::Unknown(words) => finding(
            Severity::Breaks,
            format!("it ignores a setting that it is started with: {words}"),
        ),
        SettingsResult::Unclear(words) => finding(
            Severity::BlindSpot,
            format!(
                "whether it knows the settings that it is started with could not be asked: {words}"
            ),
        ),
    })
}

/// Runs what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}
