//! Where the ledger's key is. It is never in the ledger or in a backup; what it does is the store's business.

use crate::config::{self, ConfigError, Environment};
use crate::state::StateDir;
use bridge_store::key::{Guard, KeyError};
use bridge_store::{AuditPublicKey, LedgerKey};
use std::fmt;
use std::path::{Path, PathBuf};

/// The key's name among the credentials of a service.
const CREDENTIAL: &str = "codex-bridge.key";

/// The file of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLocation {
    path: PathBuf,
    guard: Guard,
}

/// The key of a ledger is not where it was looked for. A credential of a service is visible inside the service only, so
/// that says nothing about what the daemon has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyNotFound {
    pub signer: Option<AuditPublicKey>,
    pub why: String,
}

impl fmt::Display for KeyNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = &self.why;
        match self.signer {
            Some(signer) => write!(
                f,
                "the audit is signed by {signer}, whose key is not here ({why})"
            ),
            None => f.write_str(why),
        }
    }
}

impl KeyLocation {
    /// What the configuration names, else a credential of the service, else a file in the state directory.
    pub fn of(configured: Option<&Path>, credentials: Option<&Path>, state: &StateDir) -> Self {
        let credential = credentials.map(|directory| directory.join(CREDENTIAL));
        let credential = credential.filter(|path| path.exists());
        let path = match (configured, credential) {
            (Some(path), _) => path.to_owned(),
            (None, Some(path)) => path,
            (None, None) => state.key_file(),
        };
        let guard = if credentials.is_some_and(|directory| path.starts_with(directory)) {
            Guard::ServiceManager
        } else {
            Guard::Mode
        };
        Self { path, guard }
    }

    /// For commands beside the daemon. With a configuration that can't be used nobody knows where the key is.
    pub fn find(
        config_file: Option<&Path>,
        state_dir: Option<&Path>,
        environment: &Environment,
        state: &StateDir,
    ) -> Result<Self, ConfigError> {
        let loaded = config::load(config_file, environment, state_dir)?;
        let configured = loaded.config.daemon.key_file;
        let credentials = environment.credentials_dir();
        Ok(Self::of(configured.as_deref(), credentials, state))
    }

    /// The file that somebody named on the command line.
    pub fn named(path: &Path) -> Self {
        let (path, guard) = (path.to_owned(), Guard::Mode);
        Self { path, guard }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn load(&self) -> Result<LedgerKey, KeyError> {
        LedgerKey::load(&self.path, self.guard)
    }

    /// The key that signed a ledger's record; any key where nobody did.
    pub fn load_signer(&self, signer: Option<AuditPublicKey>) -> Result<LedgerKey, KeyNotFound> {
        let not_here = |why| KeyNotFound { signer, why };
        let key = self.load().map_err(|error| not_here(error.to_string()))?;
        if signer.is_none_or(|signer| signer == key.public()) {
            Ok(key)
        } else {
            let (path, found) = (self.path.display(), key.public());
            Err(not_here(format!("{path} is {found}")))
        }
    }

    pub fn load_or_create(&self) -> Result<LedgerKey, KeyError> {
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
        let place = |configured| KeyLocation::of(configured, Some(&credentials), &state);
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
