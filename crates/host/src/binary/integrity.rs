//! Whether the package that npm installed is the one that the registry names.
//!
//! npm compares what it downloads with the digest that the registry gives, where that gives one, and writes down the
//! digest of what it got. Here the registry is asked itself, and what npm wrote down must be the same.

use super::install::installed;
use crate::process::oneshot::{self, End};
use bridge_codex::version::Version;
use serde_json::Value;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const NPM: &str = "npm";
/// A registry that does not answer must not hold us for ever.
const DEADLINE: Duration = Duration::from_secs(60);
/// Lines of npm's output that an error shows.
const TAIL_LINES: usize = 5;
/// What npm writes of what it installed, beside the packages.
const LOCK_FILE: &str = ".package-lock.json";
const SHA512: &str = "sha512-";

/// Why a package is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum IntegrityError {
    #[error("codex {version} is not installed in this directory")]
    NotInstalled { version: Version },
    #[error("npm did not write down what it installed; install it again with a newer npm")]
    NoLock { source: io::Error },
    #[error(
        "the digest of {package} is not known ({why}); mend the way to the registry (`npm ping`), and try again"
    )]
    Unknown { package: String, why: String },
    #[error(
        "{package} is not what the registry names: npm got {found}, the registry has {wanted}. It is not used; look at the registry that npm is configured with (`npm config get registry`)"
    )]
    Different {
        package: String,
        found: String,
        wanted: String,
    },
}

/// Compares the native package of an installed version with what the registry says of it.
///
/// # Errors
///
/// It is another one, or that could not be found out.
pub fn verify(
    tools: &Path,
    version: &Version,
    env: &[(OsString, OsString)],
) -> Result<(), IntegrityError> {
    let missing = || IntegrityError::NotInstalled {
        version: version.clone(),
    };
    let codex = installed(tools, version).ok_or_else(missing)?;
    let modules = codex
        .ancestors()
        .find(|place| place.ends_with("node_modules"))
        .ok_or_else(missing)?;
    let lock = std::fs::read(modules.join(LOCK_FILE))
        .map_err(|source| IntegrityError::NoLock { source })?;
    let name = codex.strip_prefix(modules).ok();
    let name = name.map(|path| path.iter().take(2).collect::<std::path::PathBuf>());
    let name = name.ok_or_else(missing)?.display().to_string();
    let (package, found) = locked_digest(&lock, &name).ok_or_else(|| IntegrityError::Unknown {
        package: name.clone(),
        why: "npm did not write it down".to_owned(),
    })?;
    let wanted = named_digest(&package, env)?;
    if found == wanted && wanted.starts_with(SHA512) {
        return Ok(());
    }
    Err(IntegrityError::Different {
        package,
        found,
        wanted,
    })
}

/// What npm got as this package: its name and version at the registry, and its digest.
fn locked_digest(lock: &[u8], name: &str) -> Option<(String, String)> {
    let lock: Value = serde_json::from_slice(lock).ok()?;
    let entry = lock.get("packages")?.get(format!("node_modules/{name}"))?;
    let version = entry.get("version")?.as_str()?;
    // The package of a platform is published as a version of the whole one.
    let published = entry.get("name").and_then(Value::as_str).unwrap_or(name);
    let digest = entry.get("integrity")?.as_str()?;
    Some((format!("{published}@{version}"), digest.to_owned()))
}

/// What the registry says of a package.
fn named_digest(package: &str, env: &[(OsString, OsString)]) -> Result<String, IntegrityError> {
    let unknown = |why: String| IntegrityError::Unknown {
        package: package.to_owned(),
        why,
    };
    let mut command = Command::new(NPM);
    command
        .args(["view", package, "dist.integrity", "--json"])
        .envs(env.iter().map(|(name, value)| (name, value)));
    let (end, output) =
        oneshot::run(command, DEADLINE, &mut |_| {}).map_err(|error| unknown(error.to_string()))?;
    match end {
        End::Exited(status) if status.success() => {
            let digest = serde_json::from_slice(&output.stdout);
            digest.map_err(|error| unknown(error.to_string()))
        }
        End::Exited(_) => Err(unknown(oneshot::tail(&output.stderr, TAIL_LINES))),
        End::Overrun => Err(unknown("npm did not answer in time".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_names_what_was_published() {
        let lock = br#"{"packages": {
            "node_modules/@openai/codex": {"version": "0.166.0", "integrity": "sha512-a"},
            "node_modules/@openai/codex-linux-x64": {"name": "@openai/codex",
                "version": "0.166.0-linux-x64", "integrity": "sha512-b"}}}"#;
        let found = locked_digest(lock, "@openai/codex-linux-x64").unwrap();
        let wanted = (
            "@openai/codex@0.166.0-linux-x64".to_owned(),
            "sha512-b".to_owned(),
        );
        assert_eq!(found, wanted);
        assert_eq!(locked_digest(lock, "@openai/other"), None);
        assert_eq!(locked_digest(b"{torn", "@openai/codex"), None);
    }
}
