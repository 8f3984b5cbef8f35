//! How the Codex of a home is, for people: whether it can take turns, what runs, and what would be started now.

use crate::app_server::{Host, Session};
use crate::binary::stamp::BinaryStamp;
use crate::binary::{self, Vars};
use crate::self_check::is_unknown;
use bridge_codex::version::TESTED_UP_TO;
use bridge_core::port::Ledger;
use std::path::Path;

/// How the host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodexHealth {
    /// Whether Codex can take turns.
    pub ready: bool,
    /// A line for people.
    pub detail: String,
}

impl CodexHealth {
    pub(super) fn not_ready(detail: impl Into<String>) -> Self {
        Self {
            ready: false,
            detail: detail.into(),
        }
    }
}

impl<L: Ledger> Host<L> {
    /// How the host is, without waiting for a start that is under way; with what is said of a change to another Codex.
    pub(crate) async fn health(&self, changing: Option<String>) -> CodexHealth {
        let mut health = self.current_health();
        if let Some(session) = self.present()
            && health.ready
            && let Some(verdict) = self.verdict_of(&session)
        {
            health.detail = format!("{}; {verdict}", health.detail);
        }
        let change = match (changing, self.present()) {
            (None, Some(session)) if health.ready => self.change_since(&session).await,
            (changing, _) => changing,
        };
        if let Some(change) = change {
            health.detail = format!("{}; {change}", health.detail);
        }
        health
    }

    /// What its check says of a living Codex that is newer than the tested ones.
    fn verdict_of(&self, session: &Session) -> Option<String> {
        let version = session.incarnation.codex_version.parse().ok()?;
        let checks = self.options.checks.as_ref()?;
        let verdict = checks.verdict_of(&self.options.launch.of(&session.program));
        let summary = verdict.map_or("is not checked".to_owned(), |verdict| verdict.summary());
        is_unknown(&version)
            .then(|| format!("newer than {TESTED_UP_TO}, the newest tested one, and {summary}"))
    }

    /// What happened to the file that a living Codex was started from.
    async fn change_since(&self, session: &Session) -> Option<String> {
        let started_from = BinaryStamp::read(Path::new(&session.incarnation.directory))?;
        let path = started_from.path.display();
        let Ok(now) = BinaryStamp::of(&started_from.path) else {
            return Some(format!(
                "{path} is gone since it was started, and no other can be"
            ));
        };
        if now == started_from {
            return None;
        }
        let version = match self.version_of(now).await {
            Some(version) => format!("is {version} now"),
            None => "does not say its version".to_owned(),
        };
        Some(format!(
            "{path} has changed since it was started and {version}: it is checked, and then takes new turns"
        ))
    }

    /// The version of a file, which is asked once.
    async fn version_of(&self, stamp: BinaryStamp) -> Option<String> {
        let mut installed = self.installed.lock().await;
        if let Some((known, version)) = &*installed
            && *known == stamp
        {
            return version.clone();
        }
        let (path, env) = (stamp.path.clone(), self.options.launch.env.clone());
        let asked = move || binary::version_of(&path, Vars::of(&env)).ok();
        let version = tokio::task::spawn_blocking(asked).await.ok().flatten();
        let version = version.map(|version| version.to_string());
        *installed = Some((stamp, version.clone()));
        version
    }

    fn current_health(&self) -> CodexHealth {
        let starting = || CodexHealth::not_ready("codex is being started");
        match self.state.try_lock() {
            Ok(state) => match (&state.current, &state.health) {
                (Some((session, _)), _) if !session.connection.is_open() => {
                    CodexHealth::not_ready("codex is gone and starts again with the next message")
                }
                (Some((session, _)), Some(health)) if health.ready => {
                    state.ready(&session.incarnation)
                }
                (_, Some(health)) => health.clone(),
                (Some((session, _)), None) => state.ready(&session.incarnation),
                (None, None) => starting(),
            },
            Err(_busy) => starting(),
        }
    }
}
