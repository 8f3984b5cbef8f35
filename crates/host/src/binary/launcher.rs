//! Finds the native executable behind a launcher: a script, or a version manager's shim, that ends up running Codex.
//!
//! The sandbox of an isolated turn runs Codex's own executable once more inside, so that file must be granted there. What
//! a launcher does can't be read from it: it is started once, and the kernel says which program it runs then.

use crate::binary::{Vars, version_of};
use crate::process;
use crate::process::oneshot::kill_group;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A launcher that has not become Codex by then is not going to. Version managers take a second or two.
const DEADLINE: Duration = Duration::from_secs(20);

/// How often its processes are looked at.
const TICK: Duration = Duration::from_millis(20);

/// What Codex is asked to be while we look: it waits for its standard input, and needs neither login nor model.
const WAITS: &str = "app-server";

/// Why the executable is not known, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is a script or a version manager's shim, and the native codex that it runs could not be found ({why}); name the \
     native executable with --codex-bin or codex.bin",
    launcher.display()
)]
pub struct Unresolved {
    launcher: PathBuf,
    why: String,
}

/// The native executable of `codex`, which may be a launcher. `scratch` is made anew and removed again, in a private
/// directory. Blocks; at once for a native executable.
///
/// # Errors
///
/// It is a launcher, and it did not become Codex.
pub fn native_of(
    codex: &Path,
    env: &[(OsString, OsString)],
    scratch: &Path,
) -> Result<PathBuf, Unresolved> {
    // Elsewhere the sandbox does not run Codex again.
    if !cfg!(target_os = "linux") || !is_launcher(codex) {
        return Ok(codex.to_owned());
    }
    let _left = fs::remove_dir_all(scratch);
    let found = watch(codex, env, scratch);
    let _left = fs::remove_dir_all(scratch);
    found.map_err(|error| Unresolved {
        launcher: codex.to_owned(),
        why: error.to_string(),
    })
}

/// Links to executables were resolved before, unless what they lead to goes by the name it is called with.
fn is_launcher(path: &Path) -> bool {
    let mut head = [0; 2];
    let script = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    (script.is_ok() && head == *b"#!") || path.is_symlink()
}

fn watch(codex: &Path, env: &[(OsString, OsString)], scratch: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().mode(0o700).create(scratch)?;
    let mut child = Command::new(codex)
        .arg(WAITS)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .env("CODEX_HOME", scratch)
        .current_dir(scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let found = look(&mut child, env);
    kill_group(&mut child)?;
    found
}

fn look(child: &mut Child, env: &[(OsString, OsString)]) -> io::Result<PathBuf> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let started = Instant::now();
    let mut tried = BTreeSet::new();
    while started.elapsed() < DEADLINE {
        for pid in std::iter::once(pid).chain(process::descendants(pid)) {
            if let Some(program) = program_of(pid)
                && tried.insert(program.clone())
                && version_of(&program, Vars::of(env)).is_ok()
            {
                return Ok(program);
            }
        }
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it ended: {status}")));
        }
        std::thread::sleep(TICK);
    }
    let seconds = DEADLINE.as_secs();
    Err(io::Error::other(format!(
        "it had not become codex after {seconds} s"
    )))
}

/// The program of a process that was given our argument: helpers of the launcher are not run.
fn program_of(pid: i32) -> Option<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0);
    words.find(|word| *word == WAITS.as_bytes())?;
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::tests::Tree;

    fn env() -> Vec<(OsString, OsString)> {
        let path = std::env::var_os("PATH").unwrap();
        vec![("PATH".into(), path)]
    }

    #[test]
    fn f1_native_executable_stands_for_itself() {
        let tree = Tree::new();
        let native = tree.file("codex", "755", "\u{7f}ELF");
        let found = native_of(&native, &env(), &tree.root.join("scratch"));
        assert_eq!(found.unwrap(), native);
    }

    #[test]
    fn f1_launcher_exit_suggests_codex_bin() {
        let tree = Tree::new();
        let script = tree.file("codex", "755", "#!/bin/sh\nexit 3\n");
        let scratch = tree.root.join("scratch");
        let why = native_of(&script, &env(), &scratch)
            .unwrap_err()
            .to_string();
        assert!(why.contains("exit status: 3"), "{why}");
        assert!(why.contains("--codex-bin"), "{why}");
        assert!(!scratch.exists());
    }
}
