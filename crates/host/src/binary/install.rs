//! Installs one version of Codex into a directory of our own, by npm, beside
//! whatever the machine has: never globally, and never half.
//!
//! Which directory and which version is the caller's rule. Choosing between this
//! Codex and one on `PATH` does not belong here either: that is `binary` and the
//! configuration.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use bridge_codex::version::Version;
use uuid::Uuid;

use crate::binary;
use crate::process::oneshot::{self, End};

/// The installer, found on `PATH`.
const NPM: &str = "npm";

/// The package is about 100 MB; over a slow line that takes minutes, but a registry
/// that does not answer must not hold us for ever.
const NPM_DEADLINE: Duration = Duration::from_secs(10 * 60);

/// How often the caller hears that npm is still at work.
const SAY_EVERY: Duration = Duration::from_secs(15);

/// Lines of npm's output that an error shows.
const TAIL_LINES: usize = 12;

/// A temporary directory older than this belongs to an installation that was killed:
/// a living one ends by [`NPM_DEADLINE`].
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

/// Held, by the kernel's file lock, while an installation is moved to its place.
const LOCK: &str = ".codex.lock";

/// Begins the name of every temporary directory of ours.
const SCRATCH_PREFIX: &str = ".installing-codex-";

/// Why the installation failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("npm was not found on PATH; install Node.js, or name a codex with --codex-bin")]
    NpmMissing,
    #[error("cannot start npm; check the Node.js installation, or name a codex with --codex-bin")]
    NpmCannotStart { source: io::Error },
    #[error(
        "npm could not install @openai/codex@{version}; mend what it says \
         (registry, proxy, disk), or name a codex with --codex-bin:\n{tail}"
    )]
    NpmFailed { version: Version, tail: String },
    #[error(
        "npm did not finish within {} min; check the way to the registry (`npm ping`), \
         or name a codex with --codex-bin:\n{tail}",
        NPM_DEADLINE.as_secs() / 60
    )]
    NpmOverrun { tail: String },
    #[error(
        "@openai/codex@{version} has no executable for {}-{}; name a codex with --codex-bin",
        std::env::consts::OS,
        std::env::consts::ARCH
    )]
    NoNative { version: Version },
    #[error("the installed codex does not run")]
    Broken(#[from] binary::BinaryError),
    #[error(
        "npm installed codex {found} where {wanted} was asked for; check which registry npm uses \
         (`npm config get registry`)"
    )]
    OtherVersion { found: Version, wanted: Version },
    #[error("cannot {doing} {}; check permissions and free space", path.display())]
    Disk {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// The native executable of `version` below `tools`, if it is installed there.
///
/// The directory is named after the version and appears in one step, so what is there
/// is whole; that it is what its name says is read from npm's own record.
pub fn installed(tools: &Path, version: &Version) -> Option<PathBuf> {
    let modules = place(tools, version).join("node_modules");
    let record = fs::read(modules.join("@openai/codex/package.json")).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&record).ok()?;
    if record.get("version")?.as_str()? != version.to_string() {
        return None;
    }
    binary::check_file(&binary::native_in(&modules)?).ok()
}

/// Installs `version` below `tools` unless it is there, and gives the path of its
/// native executable. Two processes may do this at once: each works in a directory of
/// its own, and the first to finish provides for both. npm gets `env` beside our own
/// environment, and `say` hears what is happening, one line at a time.
///
/// # Errors
///
/// Every [`InstallError`] says what to do about it; nothing is left behind.
pub fn install(
    tools: &Path,
    version: &Version,
    env: &[(OsString, OsString)],
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, InstallError> {
    install_by(Path::new(NPM), tools, version, env, say)
}

fn install_by(
    npm: &Path,
    tools: &Path,
    version: &Version,
    env: &[(OsString, OsString)],
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, InstallError> {
    let tools = &std::path::absolute(tools).map_err(|source| disk("find", tools, source))?;
    if let Some(path) = installed(tools, version) {
        return Ok(path);
    }
    fs::create_dir_all(tools).map_err(|source| disk("create", tools, source))?;
    sweep(tools);
    let scratch = Scratch::create(tools, version)?;
    say(&format!(
        "installing @openai/codex@{version} into {} (about 100 MB, once)",
        tools.display()
    ));
    npm_install(npm, &scratch.path, version, env, say)?;
    check(&scratch.path, version)?;
    put_in_place(&scratch.path, tools, version)
}

fn place(tools: &Path, version: &Version) -> PathBuf {
    tools.join(format!("codex-{version}"))
}

/// Flags beside the obvious ones undo what a user's `.npmrc` may say: `global` would
/// leave our directory, and `omit=optional` would leave out the executable. Scripts
/// of packages have no business here.
fn npm_install(
    npm: &Path,
    prefix: &Path,
    version: &Version,
    env: &[(OsString, OsString)],
    say: &mut dyn FnMut(&str),
) -> Result<(), InstallError> {
    let mut command = Command::new(npm);
    command
        .args(["install", "--no-audit", "--no-fund", "--no-progress"])
        .args(["--no-global", "--include=optional", "--ignore-scripts"])
        .arg("--prefix")
        .arg(prefix)
        .arg(format!("@openai/codex@{version}"))
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(prefix);
    let mut said = Duration::ZERO;
    let mut waiting = |passed: Duration| {
        if passed >= said.saturating_add(SAY_EVERY) {
            said = passed;
            say(&format!("npm is still at work ({} s)", passed.as_secs()));
        }
    };
    let (end, output) = oneshot::run(command, NPM_DEADLINE, &mut waiting).map_err(|source| {
        if source.kind() == io::ErrorKind::NotFound {
            InstallError::NpmMissing
        } else {
            InstallError::NpmCannotStart { source }
        }
    })?;
    let tail = || {
        oneshot::tail(
            &[output.stdout.as_slice(), &output.stderr].concat(),
            TAIL_LINES,
        )
    };
    match end {
        End::Exited(status) if status.success() => Ok(()),
        End::Exited(_) => Err(InstallError::NpmFailed {
            version: version.clone(),
            tail: tail(),
        }),
        End::Overrun => Err(InstallError::NpmOverrun { tail: tail() }),
    }
}

/// Runs what was installed before anybody can see it.
fn check(prefix: &Path, version: &Version) -> Result<(), InstallError> {
    let native = binary::native_in(&prefix.join("node_modules"))
        .filter(|path| path.exists())
        .ok_or_else(|| InstallError::NoNative {
            version: version.clone(),
        })?;
    let found = binary::version_of(&native, binary::Vars::default())?;
    if found == *version {
        Ok(())
    } else {
        Err(InstallError::OtherVersion {
            found,
            wanted: version.clone(),
        })
    }
}

/// Moves the finished directory to its final name, unless another installation was
/// first. The lock is held for two renames only, and the kernel frees it when its
/// holder dies; it keeps us from moving away what another one just put there.
fn put_in_place(scratch: &Path, tools: &Path, version: &Version) -> Result<PathBuf, InstallError> {
    let target = place(tools, version);
    let aside = Scratch::reserve(tools, version);
    let lock_path = tools.join(LOCK);
    let lock = File::create(&lock_path).map_err(|source| disk("create", &lock_path, source))?;
    lock.lock()
        .map_err(|source| disk("lock", &lock_path, source))?;
    if let Some(path) = installed(tools, version) {
        return Ok(path);
    }
    if let Err(source) = fs::rename(&target, &aside.path)
        && source.kind() != io::ErrorKind::NotFound
    {
        return Err(disk("move aside", &target, source));
    }
    fs::rename(scratch, &target).map_err(|source| disk("create", &target, source))?;
    drop(lock);
    installed(tools, version).ok_or_else(|| InstallError::NoNative {
        version: version.clone(),
    })
}

/// Removes what killed installations left. Failing to do so costs disk, nothing else.
fn sweep(tools: &Path) {
    let Ok(entries) = fs::read_dir(tools) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_string_lossy().starts_with(SCRATCH_PREFIX);
        let age = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if ours && age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory that only we use and that is gone when we are done, however we end.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A name that no other installation has; no directory yet.
    fn reserve(tools: &Path, version: &Version) -> Self {
        let name = format!("{SCRATCH_PREFIX}{version}.{}", Uuid::now_v7());
        Self {
            path: tools.join(name),
        }
    }

    fn create(tools: &Path, version: &Version) -> Result<Self, InstallError> {
        let scratch = Self::reserve(tools, version);
        let path = &scratch.path;
        fs::create_dir(path).map_err(|source| disk("create", path, source))?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn disk(doing: &'static str, path: &Path, source: io::Error) -> InstallError {
    InstallError::Disk {
        doing,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
