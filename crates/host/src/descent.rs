//! Whether a process was started by a Codex of ours: such a one must not control the bridge that controls it.
//!
//! A keeper takes in whatever below it loses its parent, so that nothing that Codex starts gets out from under it by
//! forking. Reading `/proc` only; where there is none, nobody is known to descend from us.

use crate::process;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Ancestors that are looked at; nobody nests processes deeper.
const ANCESTORS_MAX: usize = 256;
/// What is read of an argument vector; ours begin with what we look for.
const ARGS_MAX_BYTES: usize = 8 * 1024;

/// Whether `pid` or one of its ancestors is a keeper whose directory is below `run_dir`.
#[must_use]
pub fn is_kept(pid: i32, run_dir: &Path) -> bool {
    let mut next = Some(pid);
    for _ in 0..ANCESTORS_MAX {
        let Some(pid) = next.filter(|pid| *pid > 1) else {
            return false;
        };
        if is_keeper(pid, run_dir) {
            return true;
        }
        next = process::parent(pid);
    }
    // Whoever hides behind so many is not the operator.
    true
}

fn is_keeper(pid: i32, run_dir: &Path) -> bool {
    let Ok(mut args) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    args.truncate(ARGS_MAX_BYTES);
    keeps(&args, run_dir)
}

/// As `launch` starts it: `PROGRAM keeper --directory DIR …`.
fn keeps(args: &[u8], run_dir: &Path) -> bool {
    let mut args = args.split(|byte| *byte == 0).skip(1);
    let (mode, flag, directory) = (args.next(), args.next(), args.next());
    mode == Some(b"keeper")
        && flag == Some(b"--directory")
        && directory.is_some_and(|directory| {
            Path::new(std::ffi::OsStr::from_bytes(directory)).starts_with(run_dir)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_25_a_keeper_of_ours_is_known_by_its_arguments() {
        let ours = Path::new("/state/run");
        let line = |text: &str| text.replace(' ', "\0").into_bytes();
        assert!(keeps(
            &line("/usr/bin/codex-bridge keeper --directory /state/run/x -- codex"),
            ours
        ));
        for other in [
            "codex-bridge keeper --directory /other/run/x",
            "codex-bridge keeper --directory /state/running",
            "codex-bridge run --directory /state/run/x",
            "codex-bridge",
            "",
        ] {
            assert!(!keeps(&line(other), ours), "{other}");
        }
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!is_kept(own, ours));
        assert!(!is_kept(i32::MAX, ours));
    }
}
