//! Tries Codex's own sandbox on this machine: do commands run in it, and does it hold.
//!
//! In many containers it does neither, and that must be known before the first message. The facts are the
//! files that are there afterwards, never what a command says. Nothing here chooses a sandbox, and no
//! model, login or configuration of Codex takes part: the probe has a `CODEX_HOME` of its own.

pub mod isolation_probe;
pub(crate) mod read_isolation;

use crate::process::oneshot::{self, End};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A command in the sandbox takes about 150 ms; what needs longer than this hangs.
const DEADLINE: Duration = Duration::from_secs(20);

/// Lines of what Codex said that a report shows.
const TAIL_LINES: usize = 4;

/// Exit code of the probe's script: anything else means that the script did not run to its end.
const RAN: i32 = 42;

/// Writes to both its arguments, whether or not it may, and says that it ran.
const SCRIPT: &str = r#"printf x > "$1"; printf x > "$2"; exit 42"#;

/// Where `workspace-write` lets commands write wherever they work.
const TEMPORARY: &str = "/tmp";

/// Codex always prints this under a home in a temporary directory, as the probe's may be.
const NOISE: &str = "could not create PATH aliases";

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxReport {
    /// Commands that may only read.
    pub read_only: Finding,
    /// Commands that may write where they work.
    pub workspace_write: Finding,
    /// Whether it was tried that `workspace-write` refuses a write elsewhere. Below `/tmp` it refuses none,
    /// so a scratch directory there proves nothing.
    pub elsewhere_tried: bool,
}

/// How one sandbox did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Commands run, and write only what they may.
    Holds,
    /// A command wrote what it may not.
    Leaks,
    /// Commands do not run, or may not write where they must; with the last words of Codex.
    Broken { tail: String },
    /// No end within the deadline.
    Hangs,
}

/// The sandbox that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    ReadOnly,
    WorkspaceWrite,
}

impl Mode {
    /// Codex's built-in permission profile that stands for the sandbox of the same meaning.
    fn profile(self) -> &'static str {
        match self {
            Self::ReadOnly => ":read-only",
            Self::WorkspaceWrite => ":workspace",
        }
    }
}

/// The files and directories of one try.
struct Room {
    home: PathBuf,
    tmp: PathBuf,
    work: PathBuf,
    inside: PathBuf,
    elsewhere: PathBuf,
}

/// Runs a command in each sandbox of `codex`. `scratch` is an existing private directory of the caller's,
/// best outside `/tmp`; what is left in it is the caller's to remove. Takes a second, and blocks.
///
/// # Errors
///
/// The scratch directory can't be used, or Codex can't be started at all.
pub fn probe(
    codex: &Path,
    env: &[(OsString, OsString)],
    scratch: &Path,
) -> io::Result<SandboxReport> {
    probe_beside(Path::new(TEMPORARY), codex, env, scratch)
}

fn probe_beside(
    temporary: &Path,
    codex: &Path,
    env: &[(OsString, OsString)],
    scratch: &Path,
) -> io::Result<SandboxReport> {
    let scratch = &scratch.canonicalize()?;
    let elsewhere_tried = !scratch.starts_with(temporary.canonicalize()?);
    let try_mode = |mode, name| -> io::Result<Finding> {
        let room = Room::make(&scratch.join(name))?;
        let (end, said) = run(codex, env, mode, &room)?;
        Ok(judge(mode, &end, &said, &room, elsewhere_tried))
    };
    Ok(SandboxReport {
        read_only: try_mode(Mode::ReadOnly, "read-only")?,
        workspace_write: try_mode(Mode::WorkspaceWrite, "workspace-write")?,
        elsewhere_tried,
    })
}

impl Room {
    fn make(root: &Path) -> io::Result<Self> {
        let room = Self {
            home: root.join("home"),
            tmp: root.join("tmp"),
            work: root.join("work"),
            inside: root.join("work/inside"),
            elsewhere: root.join("elsewhere"),
        };
        for directory in [&room.home, &room.tmp, &room.work] {
            fs::create_dir_all(directory)?;
        }
        Ok(room)
    }
}

fn run(
    codex: &Path,
    env: &[(OsString, OsString)],
    mode: Mode,
    room: &Room,
) -> io::Result<(End, String)> {
    let mut command = Command::new(codex);
    command
        .args(["sandbox", "--permission-profile", mode.profile(), "--cd"])
        .arg(&room.work)
        .args(["--", "/bin/sh", "-c", SCRIPT, "probe"])
        .args([&room.inside, &room.elsewhere])
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .env("CODEX_HOME", &room.home)
        .env("TMPDIR", &room.tmp)
        .current_dir(&room.work);
    let (end, output) = oneshot::run(command, DEADLINE, &mut |_| {})?;
    let stderr: Vec<u8> = output
        .stderr
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !String::from_utf8_lossy(line).contains(NOISE))
        .flatten()
        .copied()
        .collect();
    Ok((end, oneshot::tail(&stderr, TAIL_LINES)))
}

fn judge(mode: Mode, end: &End, said: &str, room: &Room, elsewhere_tried: bool) -> Finding {
    let inside = room.inside.exists();
    let elsewhere = room.elsewhere.exists();
    let (may_write_inside, may_write_elsewhere) = match mode {
        Mode::ReadOnly => (false, false),
        Mode::WorkspaceWrite => (true, !elsewhere_tried),
    };
    if (inside && !may_write_inside) || (elsewhere && !may_write_elsewhere) {
        return Finding::Leaks;
    }
    let ran = match end {
        End::Overrun => return Finding::Hangs,
        End::Exited(status) => status.code() == Some(RAN),
    };
    if ran && inside == may_write_inside {
        return Finding::Holds;
    }
    let tail = match (said.is_empty(), end) {
        (false, _) => said.to_owned(),
        (true, End::Exited(status)) => format!("(it said nothing; {status})"),
        (true, End::Overrun) => "(it said nothing)".to_owned(),
    };
    Finding::Broken { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::tests::Tree;

    /// What is found of a program that is called as Codex is; `body` has the sandboxed command as arguments.
    fn report(body: &str) -> SandboxReport {
        let tree = Tree::new();
        let script = format!("#!/bin/sh\nprofile=$3; cd \"$5\"; shift 6\n{body}\n");
        let codex = tree.file("codex", "755", &script);
        let path = std::env::var_os("PATH").unwrap();
        let temporary = tree.dir("temporary");
        let env = [("PATH".into(), path)];
        probe_beside(&temporary, &codex, &env, &tree.dir("scratch")).unwrap()
    }

    #[test]
    fn a_sandbox_that_is_none_leaks() {
        let found = report("\"$@\"");
        assert!(found.elsewhere_tried);
        assert_eq!(found.read_only, Finding::Leaks);
        assert_eq!(found.workspace_write, Finding::Leaks);
    }

    #[test]
    fn probe_in_temp_dir_skips_outside_write() {
        let tree = Tree::new();
        let codex = tree.file("codex", "755", "#!/bin/sh\ncd \"$5\"; shift 6\n\"$@\"\n");
        let scratch = tree.dir("temporary/scratch");
        let found = probe_beside(&tree.dir("temporary"), &codex, &[], &scratch).unwrap();
        assert!(!found.elsewhere_tried);
        assert_eq!(found.read_only, Finding::Leaks);
        assert_eq!(found.workspace_write, Finding::Holds);
    }

    #[test]
    fn probe_passes_working_sandbox() {
        let found = report("if [ $profile = :workspace ]; then printf x > \"$5\"; fi; exit 42");
        assert_eq!(found.read_only, Finding::Holds);
        assert_eq!(found.workspace_write, Finding::Holds);
    }

    #[test]
    fn probe_reports_unwritable_workspace_as_broken() {
        let found = report("echo 'read-only file system' >&2; exit 42");
        assert_eq!(found.read_only, Finding::Holds);
        let tail = "read-only file system".to_owned();
        assert_eq!(found.workspace_write, Finding::Broken { tail });
    }

    #[test]
    fn probe_reports_sandbox_start_failure() {
        let found = report(
            "echo 'WARNING: proceeding, even though we could not create PATH aliases' >&2; \
             echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
        );
        let tail = "bwrap: No permissions to create new namespace".to_owned();
        assert_eq!(found.read_only, Finding::Broken { tail });
        let silent = report("exit 1").read_only;
        assert!(matches!(silent, Finding::Broken { tail } if tail.contains("exit status: 1")));
    }

    #[test]
    fn probe_fails_without_codex_executable() {
        let tree = Tree::new();
        assert!(probe(Path::new("/nonexistent/codex"), &[], &tree.root).is_err());
    }
}
