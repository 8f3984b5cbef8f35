//! Which Codex is started: one of a version that this bridge was tested with, or one that passed the check.

use super::{CheckError, Verdict, Verdicts, blocking, check_as};
use crate::binary::{self, Vars};
use crate::keeper::launch::LaunchOptions;
use bridge_codex::version::{TESTED_UP_TO, Version};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Where verdicts are remembered, and where checks are made. Its copies share one lock: one check at a time.
#[derive(Clone, Debug)]
pub struct Checks {
    pub verdicts: Verdicts,
    /// A private directory.
    pub scratch: PathBuf,
    one_at_a_time: Arc<Mutex<()>>,
}

/// Why a Codex is not started.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    #[error(
        "Codex {version} is newer than {TESTED_UP_TO}, the newest that this bridge was tested with, and {summary}. Install `npm install -g @openai/codex@{TESTED_UP_TO}` or a newer codex-bridge, and the messages are answered; `codex-bridge doctor --deep` shows all of it and checks again"
    )]
    Failed { version: String, summary: String },
    #[error(
        "Codex {version} is newer than {TESTED_UP_TO}, the newest that this bridge was tested with, and {source}; it is tried again"
    )]
    Unchecked { version: String, source: CheckError },
}

impl Checks {
    #[must_use]
    pub fn new(file: PathBuf, scratch: PathBuf) -> Self {
        Self {
            verdicts: Verdicts::at(file),
            scratch,
            one_at_a_time: Arc::default(),
        }
    }

    /// Whether this Codex may be started. One that is newer than the tested versions is checked before its first start.
    ///
    /// # Errors
    ///
    /// It failed its check, or could not be checked.
    pub async fn admit(&self, launch: &LaunchOptions) -> Result<(), NotAdmitted> {
        if let Some(verdict) = self.verdict_of(launch) {
            return judge(&verdict);
        }
        let executable = executable(launch).to_owned();
        let Some(version) = present_version(launch).await.filter(is_unknown) else {
            return Ok(());
        };
        let _turn = self.one_at_a_time.lock().await;
        let launch = LaunchOptions {
            codex_version: version.to_string(),
            ..launch.clone()
        };
        match self.remembered_or_checked(&launch, executable).await {
            Ok(verdict) => judge(&verdict),
            Err(source) => Err(NotAdmitted::Unchecked {
                version: version.to_string(),
                source,
            }),
        }
    }

    /// What is remembered of the file that it would be started from now.
    #[must_use]
    pub fn verdict_of(&self, launch: &LaunchOptions) -> Option<Verdict> {
        self.verdicts.of_file(executable(launch))
    }

    /// Checks it whatever is remembered, and remembers what is found.
    ///
    /// # Errors
    ///
    /// Nothing could be found out.
    pub async fn check_again(&self, launch: &LaunchOptions) -> Result<Verdict, CheckError> {
        let _turn = self.one_at_a_time.lock().await;
        let (verdicts, executable) = (self.verdicts.clone(), executable(launch).to_owned());
        let digest = blocking(move || verdicts.digest(&executable)).await?;
        let verdict = check_as(digest, launch, &self.scratch).await?;
        self.put(&verdict);
        Ok(verdict)
    }

    async fn remembered_or_checked(
        &self,
        launch: &LaunchOptions,
        executable: PathBuf,
    ) -> Result<Verdict, CheckError> {
        let verdicts = self.verdicts.clone();
        let digest = blocking(move || verdicts.digest(&executable)).await?;
        if let Some(verdict) = self.verdicts.get(&digest) {
            return Ok(verdict);
        }
        tracing::info!(version = %launch.codex_version, "this codex is newer than the tested ones and is checked before its first turn");
        let verdict = check_as(digest, launch, &self.scratch).await?;
        let summary = verdict.summary();
        if verdict.passed() {
            tracing::info!(version = %launch.codex_version, summary, "codex was checked");
        } else {
            tracing::error!(version = %launch.codex_version, summary, "codex was checked and is not used");
        }
        self.put(&verdict);
        Ok(verdict)
    }

    fn put(&self, verdict: &Verdict) {
        if let Err(error) = self.verdicts.put(verdict) {
            tracing::warn!(%error, "the check of codex is not remembered, and is made again at its next start");
        }
    }
}

/// The file that counts: the launcher of an operator stays the same while what it runs changes.
fn executable(launch: &LaunchOptions) -> &Path {
    launch.native.as_ref().unwrap_or(&launch.codex)
}

/// Whether a version is newer than those that the bridge was tested with.
#[must_use]
pub fn is_unknown(version: &Version) -> bool {
    *version > TESTED_UP_TO
}

fn judge(verdict: &Verdict) -> Result<(), NotAdmitted> {
    if verdict.passed() {
        return Ok(());
    }
    Err(NotAdmitted::Failed {
        version: verdict.version.clone(),
        summary: verdict.summary(),
    })
}

/// What the file says now: npm may have replaced it since the daemon looked. One that does not say it fails at its start,
/// with better words.
async fn present_version(launch: &LaunchOptions) -> Option<Version> {
    let (path, env) = (launch.codex.clone(), launch.env.clone());
    let asked = move || Ok(binary::version_of(&path, Vars::of(&env)).ok());
    blocking(asked).await.ok().flatten()
}
