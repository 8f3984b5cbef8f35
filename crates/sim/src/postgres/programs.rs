//! PostgreSQL's programs on this machine, and the user that may run them.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{User, geteuid};

use super::{PostgresError, bare, text};

/// Debian keeps each major version in a directory of its own, which is not on `PATH`.
pub(super) const DEBIAN: &str = "/usr/lib/postgresql";

/// Where Debian is told to make no cluster when it installs a server.
pub(super) const NO_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/codex-bridge.conf";

/// What we run.
const PROGRAMS: [&str; 4] = ["postgres", "initdb", "psql", "pg_isready"];

/// Who runs the server where we are root, the first that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// PostgreSQL's programs, and whom to run the server as.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) directory: PathBuf,
    /// Nobody else than us, if none.
    user: Option<User>,
}

impl Programs {
    /// Runs a program as the user that may run the server.
    pub(super) fn as_user(&self, program: impl AsRef<OsStr>) -> Command {
        let Some(user) = &self.user else {
            return bare(program);
        };
        let mut command = bare("setpriv");
        command
            .arg(format!("--reuid={}", user.uid))
            .arg(format!("--regid={}", user.gid))
            .args(["--clear-groups", "--"])
            .arg(program);
        command
    }
}

/// Debian's newest PostgreSQL, or the one on `PATH`.
pub(super) fn find() -> Result<Programs, PostgresError> {
    let found = newest(Path::new(DEBIAN)).or_else(on_path);
    let directory = found.ok_or_else(|| PostgresError::Missing {
        looked: PROGRAMS.join(", "),
    })?;
    let programs = Programs {
        directory,
        user: user(),
    };
    try_user(&programs)?;
    Ok(programs)
}

fn newest(versions: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(versions).ok()?.flatten();
    let complete = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let directory = entry.path().join("bin");
        is_complete(&directory).then_some((version, directory))
    });
    let (_, directory) = complete.max_by_key(|(version, _)| *version)?;
    Some(directory)
}

/// The link that is on `PATH` may be the only one of the four.
fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter_map(|directory| fs::canonicalize(directory.join("postgres")).ok())
        .filter_map(|postgres| postgres.parent().map(Path::to_owned))
        .find(|directory| is_complete(directory))
}

fn is_complete(directory: &Path) -> bool {
    PROGRAMS
        .iter()
        .all(|program| directory.join(program).is_file())
}

fn user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let known = |name| User::from_name(name).ok().flatten();
    USERS
        .into_iter()
        .filter_map(known)
        .find(|user| !user.uid.is_root())
}

/// Shows at once, with the reason, that we can't become that user or that it can't run PostgreSQL.
fn try_user(programs: &Programs) -> Result<(), PostgresError> {
    let Some(user) = &programs.user else {
        return Ok(());
    };
    let mut command = programs.as_user(programs.directory.join("postgres"));
    let said = match command.arg("--version").current_dir("/").output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => text(&output.stderr),
        Err(error) => error.to_string(),
    };
    Err(PostgresError::NoUser {
        user: user.name.clone(),
        said,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_version_is_found() {
        let versions = tempfile::tempdir().unwrap();
        for (version, programs) in [("9", &PROGRAMS[..]), ("15", &PROGRAMS), ("17", &["psql"])] {
            let directory = versions.path().join(version).join("bin");
            fs::create_dir_all(&directory).unwrap();
            for program in programs {
                fs::write(directory.join(program), "").unwrap();
            }
        }
        fs::create_dir(versions.path().join("common")).unwrap();
        let found = newest(versions.path()).unwrap();
        assert_eq!(found, versions.path().join("15/bin"));
    }
}
