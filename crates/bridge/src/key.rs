//! Where the ledger's key is. It is never in the ledger or in a backup; what it does is the store's business.

use crate::cli::Common;
use crate::config::{self, Environment};
use crate::state::StateDir;
use bridge_store::LedgerKey;
use bridge_store::key::{Guard, KeyError};
use std::path::{Path, PathBuf};

/// The key's name among the credentials of a service.
const CREDENTIAL: &str = "codex-bridge.key";

/// The file of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    path: PathBuf,
    guard: Guard,
}

impl KeyPlace {
    /// What the configuration names, else a credential of the service, else a file in the state directory.
    pub(crate) fn of(
        configured: Option<&Path>,
        credentials: Option<&Path>,
        state: &StateDir,
    ) -> Self {
        let credential = credentials.map(|directory| directory.join(CREDENTIAL));
        let credential = credential.filter(|path| path.exists());
        let path = match (configured, credential) {
            (Some(path), _) => path.to_owned(),
            (None, Some(path)) => path,
            (None, None) => state.key_file(),
        };
        let guard = match credentials.is_some_and(|directory| path.starts_with(directory)) {
            true => Guard::ServiceManager,
            false => Guard::Mode,
        };
        Self { path, guard }
    }

    /// For commands beside the daemon. A configuration that can't be used names no key; other commands tell of it.
    pub(crate) fn find(common: &Common, environment: &Environment, state: &StateDir) -> Self {
        let state_dir = common.state_dir.as_deref();
        let loaded = config::load(common.config.as_deref(), environment, state_dir);
        let configured = loaded.ok().and_then(|loaded| loaded.config.daemon.key_file);
        Self::of(configured.as_deref(), environment.credentials_dir(), state)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn load(&self) -> Result<LedgerKey, KeyError> {
        LedgerKey::load(&self.path, self.guard)
    }

    pub(crate) fn load_or_create(&self) -> Result<LedgerKey, KeyError> {
        LedgerKey::load_or_create(&self.path, self.guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_key_place_prefers_what_is_configured() {
        let directory = tempfile::tempdir().unwrap();
        let credentials = directory.path().join("credentials");
        std::fs::create_dir(&credentials).unwrap();
        let state = StateDir::existing(&directory.path().join("state"));
        let place = |configured| KeyPlace::of(configured, Some(&credentials), &state);
        assert_eq!(place(None).path(), state.key_file());
        let credential = credentials.join(CREDENTIAL);
        std::fs::write(&credential, [1; 32]).unwrap();
        assert_eq!(place(None).path(), credential);
        assert_eq!(place(None).guard, Guard::ServiceManager);
        let named = place(Some(Path::new("/srv/key")));
        assert_eq!(
            (named.path(), named.guard),
            (Path::new("/srv/key"), Guard::Mode)
        );
    }
}
