//! The secret values that this daemon knows, as they are now: some were given at its start, others change while it
//! runs. Redacting them is `redact`'s job.

use bridge_core::limits::{SESSIONS_MAX, TOKENS_MAX};
use bridge_core::secrets::Secrets;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Codex's file of logins, below CODEX_HOME.
const LOGIN_FILE: &str = "auth.json";
/// Largest such file that is read; real ones have a few thousand bytes.
const LOGIN_FILE_MAX_BYTES: u64 = 256 * 1024;

/// Values of one source that stay secret after it changed them; Codex has three at a time. A login that was refreshed is
/// good for a while yet, and a turn may have read it before.
const FORMER_MAX: usize = 12;

/// Values that were learned while the daemon runs and are still looked for: tokens of the API that were made, and the code
/// and both halves of sessions. More than are good at a time, so that none of those is pushed out by making others.
const LEARNED_MAX: usize = 2 * (TOKENS_MAX + 3 * SESSIONS_MAX);

/// Reads secret values that may change.
pub(crate) type Source = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// The values that must not leave: those of the configuration, of files that change, and of tokens made meanwhile.
#[derive(Default)]
pub(crate) struct SecretRegistry {
    fixed: Vec<String>,
    sources: Vec<Source>,
    /// Oldest first.
    learned: Mutex<VecDeque<String>>,
    made: Mutex<Made>,
}

/// The search for all values, rebuilt only when they change.
#[derive(Default)]
struct Made {
    /// The values of each source, oldest first.
    by_source: Vec<Vec<String>>,
    /// All of them at that time.
    known: Vec<String>,
    secrets: Arc<Secrets>,
}

impl std::fmt::Debug for SecretRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretRegistry").finish_non_exhaustive()
    }
}

impl SecretRegistry {
    pub(crate) fn new(fixed: Vec<String>) -> Self {
        Self {
            fixed,
            ..Self::default()
        }
    }

    /// And what this source tells whenever it is asked.
    pub(crate) fn add(&mut self, source: Source) {
        self.sources.push(source);
    }

    /// And this value, until many others were learned after it.
    pub(crate) fn learn(&self, value: &str) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.len() >= LEARNED_MAX {
            learned.pop_front();
        }
        learned.push_back(value.to_owned());
    }

    /// All of them, as of now.
    pub(crate) fn secrets(&self) -> Arc<Secrets> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let Made {
            by_source,
            known,
            secrets,
        } = &mut *made;
        by_source.resize_with(self.sources.len(), Vec::new);
        let mut values = self.fixed.clone();
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        values.extend(learned.iter().cloned());
        drop(learned);
        for (source, by_source) in self.sources.iter().zip(by_source) {
            remember(by_source, source());
            values.extend_from_slice(by_source);
        }
        if *known != values {
            *secrets = Arc::new(Secrets::new(&values));
            *known = values;
        }
        Arc::clone(secrets)
    }
}

/// Appends the present values to the former ones.
fn remember(by_source: &mut Vec<String>, mut now: Vec<String>) {
    by_source.retain(|value| !now.contains(value));
    let forgotten = by_source.len().saturating_sub(FORMER_MAX);
    by_source.drain(..forgotten);
    by_source.append(&mut now);
}

/// The logins that Codex keeps. They are refreshed while it runs, so the file is looked at again when it changed.
pub(crate) fn codex_logins(codex_home: &Path) -> Source {
    let path = codex_home.join(LOGIN_FILE);
    let seen: Mutex<(Option<SystemTime>, Vec<String>)> = Mutex::default();
    Box::new(move || {
        let changed = path.metadata().and_then(|found| found.modified()).ok();
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if changed.is_some() && seen.0 != changed {
            *seen = (changed, logins(&path));
        }
        seen.1.clone()
    })
}

/// The keys and tokens in a file of logins; nothing where it can't be read.
fn logins(path: &PathBuf) -> Vec<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(LOGIN_FILE_MAX_BYTES).read_to_string(&mut text));
    let Ok(Value::Object(login)) = read.map(|_| serde_json::from_str(&text).unwrap_or_default())
    else {
        return Vec::new();
    };
    let key = login.get("OPENAI_API_KEY").into_iter();
    let tokens = login.get("tokens").and_then(Value::as_object);
    let tokens = tokens
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.ends_with("_token"));
    key.chain(tokens.map(|(_, token)| token))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_change_while_it_runs() {
        let current = Arc::new(Mutex::new("first-token".to_owned()));
        let source = Arc::clone(&current);
        let source: Source = Box::new(move || vec![source.lock().unwrap().clone()]);
        let mut secret_registry = SecretRegistry::new(vec!["fixed-value".to_owned()]);
        secret_registry.add(source);
        let said = "fixed-value first-token second-token";
        let redacted = secret_registry.secrets().redact(said);
        assert_eq!(redacted.text, "[withheld] [withheld] second-token");
        "second-token".clone_into(&mut current.lock().unwrap());
        let redacted = secret_registry.secrets().redact(said);
        assert_eq!(redacted.text, "[withheld] [withheld] [withheld]");
    }

    #[test]
    fn f1_made_tokens_are_redacted() {
        let secret_registry = SecretRegistry::default();
        secret_registry.learn("cbt_first");
        let redacted = |text: &str| secret_registry.secrets().redact(text).text;
        assert_eq!(redacted("it is cbt_first"), "it is [withheld]");
        for other in 0..LEARNED_MAX {
            secret_registry.learn(&format!("cbt_other_{other}"));
        }
        assert_eq!(redacted("cbt_first"), "cbt_first", "bounded");
    }

    #[test]
    fn secret_registry_bounds_former_values() {
        let mut by_source = Vec::new();
        for round in 0..100 {
            remember(&mut by_source, vec![format!("value-{round}")]);
            remember(&mut by_source, vec![format!("value-{round}")]);
        }
        assert_eq!(by_source.len(), FORMER_MAX + 1);
        assert_eq!(by_source.last().map(String::as_str), Some("value-99"));
        remember(&mut by_source, Vec::new());
        assert!(by_source.contains(&"value-99".to_owned()));
    }

    #[test]
    fn the_logins_of_codex_are_known() {
        let home = tempfile::tempdir().unwrap();
        let source = codex_logins(home.path());
        assert!(source().is_empty());
        let login = r#"{"OPENAI_API_KEY": "sk-one", "tokens": {"access_token": "at", "account_id": "public", "refresh_token": "rt"}}"#;
        std::fs::write(home.path().join(LOGIN_FILE), login).unwrap();
        assert_eq!(source(), ["sk-one", "at", "rt"]);
    }
}
