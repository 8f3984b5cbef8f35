//! Reads the configuration again while the daemon runs. What can change takes effect for what begins afterwards; what
//! can't is named; a file that can't be used changes nothing.
//!
//! One version of the settings is one `Arc`: a turn keeps the version it began with.

use crate::Daemon;
use crate::config::{
    A2aConfig, Config, ConfigError, DaemonConfig, Environment, Loaded, differing, load,
};
use crate::process::ids;
use crate::settings::Settings;
use crate::{telemetry, term};
use bridge_core::port::{Agent, Ledger, Sink};
use bridge_core::step::Record;
use bridge_core::value::{AuditEntry, Timestamp};
use bridge_front::ReloadView;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How the configuration was read at the start, to be read in the same way again.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    pub file: Option<PathBuf>,
    pub environment: Environment,
    pub state_dir: PathBuf,
    /// Flags go before the file each time.
    pub codex_bin: Option<PathBuf>,
    pub workdir: Option<PathBuf>,
    pub listen: Option<String>,
    /// Where the owner's conversations work if nothing else names a directory, under the legacy program's name.
    pub started_in: Option<PathBuf>,
}

impl ConfigSource {
    /// Reads and judges all of it.
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        let mut loaded = load(
            self.file.as_deref(),
            &self.environment,
            Some(&self.state_dir),
        )?;
        loaded.listen_on(self.listen.clone());
        loaded.override_with(self.codex_bin.clone(), self.workdir.clone())?;
        if let Some(directory) = &self.started_in {
            loaded.work_in(directory);
        }
        Ok(loaded)
    }
}

/// What is needed to read the configuration again.
#[derive(Debug)]
pub(crate) struct Reloads {
    source: Option<ConfigSource>,
    state: Mutex<ReloadState>,
}

#[derive(Debug)]
struct ReloadState {
    in_force: Config,
    /// How the last attempt went.
    last: Option<ReloadView>,
}

impl Reloads {
    pub(crate) fn new(source: Option<ConfigSource>, in_force: Config) -> Self {
        Self {
            source,
            state: Mutex::new(ReloadState {
                in_force,
                last: None,
            }),
        }
    }

    /// How the last attempt went; `None` when there was none.
    pub(crate) fn last(&self) -> Option<ReloadView> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.last.clone()
    }

    /// Reads the file, and puts into force what of it can be: `install` does that, and may add warnings.
    fn again(&self, at: Timestamp, install: impl FnOnce(&Config) -> Vec<String>) -> ReloadView {
        let Some(source) = &self.source else {
            let error = "this daemon was not started from a configuration file".to_owned();
            return ReloadView::failed(at, error);
        };
        // Held until it is in force: two reloads must not overtake each other.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let view = match source.load() {
            Err(error) => ReloadView::failed(at, error.to_string()),
            Ok(loaded) => {
                let next = taken(&state.in_force, &loaded.config);
                let mut view = ReloadView {
                    ok: true,
                    at: at.into(),
                    error: None,
                    changed: differing(&state.in_force, &next),
                    needs_restart: differing(&next, &loaded.config),
                    warnings: loaded.warnings,
                };
                view.warnings.extend(install(&next));
                state.in_force = next;
                view
            }
        };
        state.last = Some(view.clone());
        view
    }
}

/// What of a new configuration can be in force without a restart. The rest is opened or handed on at the start.
fn taken(old: &Config, new: &Config) -> Config {
    let next = Config {
        daemon: DaemonConfig {
            drain_secs: old.daemon.drain_secs,
            key_file: old.daemon.key_file.clone(),
            ..new.daemon.clone()
        },
        quota: new.quota.clone(),
        tiers: new.tiers.clone(),
        approvals: new.approvals.clone(),
        rules: new.rules.clone(),
        a2a: A2aConfig {
            // Judged beside where we listen, and what is hidden from turns: both are as they were at the start.
            auth: old.a2a.auth,
            agents: old.a2a.agents.clone(),
            ..new.a2a.clone()
        },
        tasks: new.tasks.clone(),
        turn: new.turn.clone(),
        retention: new.retention.clone(),
        loop_guard: new.loop_guard.clone(),
        log: new.log.clone(),
        ..old.clone()
    };
    // Codex must not stand behind a socket beside a tier without a sandbox, and how it stands is chosen at its start.
    if next.transport_choice() == old.transport_choice() {
        next
    } else {
        Config {
            tiers: old.tiers.clone(),
            ..next
        }
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// The settings for turns that begin now. A running turn keeps its own.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&settings)
    }

    /// Reads the configuration again, for `by`.
    pub(crate) async fn reload(self: &Arc<Self>, by: &str) -> ReloadView {
        let at = ids::now();
        let daemon = Arc::clone(self);
        // Files are read and names looked up.
        let read = tokio::task::spawn_blocking(move || daemon.reload_now(at)).await;
        let view =
            read.unwrap_or_else(|_| ReloadView::failed(at, "the daemon is stopping".to_owned()));
        tell(&view);
        let entry = AuditEntry {
            at,
            actor: by.to_owned(),
            what: "reload".to_owned(),
            subject: "configuration".to_owned(),
            detail: view.in_a_line(),
        };
        if let Err(error) = self.commit(Record { entry }).await {
            tracing::warn!(%error, "the reload could not be recorded");
        }
        // Less may be kept for people now.
        self.free_held().await;
        view
    }

    /// How the last attempt went.
    pub(crate) fn last_reload(&self) -> Option<ReloadView> {
        self.reloads.get()?.last()
    }

    fn reload_now(&self, at: Timestamp) -> ReloadView {
        let Some(reloads) = self.reloads.get() else {
            return ReloadView::failed(at, "the daemon is still starting".to_owned());
        };
        let view = reloads.again(at, |next| {
            let start = Arc::clone(&self.settings().start);
            let settings = Arc::new(Settings::new(next, start));
            *self
                .settings
                .write()
                .unwrap_or_else(PoisonError::into_inner) = settings;
            let logged = telemetry::filter(&next.log.level);
            let refused = logged.err().map(|why| format!("log.level: {why}"));
            refused.into_iter().collect()
        });
        // More may be claimed now.
        self.turns.wake();
        view
    }
}

fn tell(view: &ReloadView) {
    match &view.error {
        None => tracing::info!(
            changed = (!view.changed.is_empty()).then(|| view.changed.join(" ")),
            "the configuration was read again"
        ),
        Some(error) => tracing::error!(
            error = %term::escape_line(error),
            "the configuration can't be used; the old one stays in force"
        ),
    }
    if !view.needs_restart.is_empty() {
        tracing::warn!(
            keys = view.needs_restart.join(" "),
            "these keys take effect at the next start"
        );
    }
    for warning in &view.warnings {
        tracing::warn!("{}", term::escape_line(warning));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn reload_splits_applied_and_held_keys() {
        let old = config("daemon.drain_secs = 5\ncodex.linger_secs = 7");
        let new = config(
            "[daemon]\ndrain_secs = 6\nturns_max = 3\n[codex]\nlinger_secs = 8\n[turn]\nidle_secs = 9\n\
             [log]\nlevel = 'debug'\n[tiers.owner]\nsandbox = 'read-only'\n[approvals]\ndeadline_secs = 60\n\
             [loop_guard]\nhops = 3\n[[rules]]\nname = 'a'\nthen = 'deny'\n",
        );
        let next = taken(&old, &new);
        let changed = differing(&old, &next);
        let expected = [
            "approvals.deadline_secs",
            "daemon.turns_max",
            "log.level",
            "loop_guard.hops",
            "rules",
            "tiers.owner.sandbox",
            "turn.idle_secs",
        ];
        assert_eq!(changed, expected);
        let held = differing(&next, &new);
        assert_eq!(held, ["codex.linger_secs", "daemon.drain_secs"]);
        assert_eq!(differing(&new, &new), Vec::<String>::new());
    }

    fn over(file: &std::path::Path, directory: &std::path::Path) -> Reloads {
        let home = directory.to_str().unwrap();
        let source = ConfigSource {
            file: Some(file.to_owned()),
            environment: Environment::of([("HOME", home)]),
            state_dir: directory.join("state"),
            codex_bin: None,
            workdir: None,
            listen: None,
            started_in: None,
        };
        Reloads::new(Some(source), Config::default())
    }

    #[test]
    fn reload_installs_before_next_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("codex-bridge.toml");
        std::fs::write(&file, "turn.idle_secs = 9\n").unwrap();
        let reloads = over(&file, directory.path());
        let mut installed = 0;
        let view = reloads.again(Timestamp(1), |next| {
            installed = next.turn.idle_secs;
            assert!(reloads.state.try_lock().is_err(), "another one may read");
            vec!["log.level: no".to_owned()]
        });
        assert_eq!((view.error.as_deref(), installed), (None, 9));
        assert_eq!(view.changed, ["turn.idle_secs"]);
        assert!(view.warnings.contains(&"log.level: no".to_owned()));
        assert_eq!(reloads.last(), Some(view), "what was said is what is shown");
        std::fs::write(&file, "turn.idle_secs = 'x'\n").unwrap();
        let view = reloads.again(Timestamp(2), |_| panic!("nothing of it counts"));
        assert!(view.error.is_some());
    }

    #[test]
    fn reload_keeps_sandbox_with_socket_transport() {
        let old = Config::default();
        let new = config("tiers.tool.sandbox = 'danger-full-access'\nturn.idle_secs = 9");
        let next = taken(&old, &new);
        assert_eq!(next.tiers, old.tiers);
        assert_eq!(differing(&next, &new), ["tiers.tool.sandbox"]);
        assert_eq!(differing(&old, &next), ["turn.idle_secs"]);
    }
}
