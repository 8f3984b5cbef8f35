//! Commands of the configuration that are told of something: a few bytes on their standard input, an exit status back.
//!
//! Nothing of what is told is in their arguments or environment. What it means that one failed is the caller's business.

use crate::oneshot::{End, run_with_input, tail};
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// Lines of its last words that are kept when it failed.
const LAST_WORDS_LINES: usize = 3;

/// A command that is told of things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TellCommand {
    /// The program by its absolute path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// All of its environment.
    pub env: Vec<(OsString, OsString)>,
    /// When it is killed with its whole group.
    pub deadline: Duration,
}

/// How telling went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TellError {
    /// It did not start.
    #[error("the command {program} could not be started ({why})")]
    NotStarted {
        /// Which.
        program: String,
        /// Why not.
        why: String,
    },
    /// It ended, and does not have it.
    #[error("the command {program} ended with {how}: {said}")]
    Failed {
        /// Which.
        program: String,
        /// Its exit status.
        how: String,
        /// Its last words.
        said: String,
    },
    /// It took too long, and was killed.
    #[error("the command {program} took longer than {seconds} s and was killed")]
    Overrun {
        /// Which.
        program: String,
        /// Its deadline.
        seconds: u64,
    },
}

impl TellCommand {
    /// Runs it once with these bytes; an exit status of 0 means that it has them.
    pub async fn tell(&self, input: Vec<u8>) -> Result<(), TellError> {
        let (told, program) = (self.clone(), self.program.clone());
        let ran = tokio::task::spawn_blocking(move || told.run(input)).await;
        ran.unwrap_or_else(|error| {
            Err(TellError::NotStarted {
                program,
                why: error.to_string(),
            })
        })
    }

    fn run(self, input: Vec<u8>) -> Result<(), TellError> {
        let program = self.program;
        let mut command = Command::new(&program);
        command.args(self.args).env_clear().envs(self.env);
        // Its own files are its business; ours are not.
        command.current_dir("/");
        let ran = run_with_input(command, input, self.deadline);
        match ran {
            Ok((End::Exited(status), _)) if status.success() => Ok(()),
            Ok((End::Exited(status), output)) => Err(TellError::Failed {
                program,
                how: status.to_string(),
                said: tail(&output.stderr, LAST_WORDS_LINES),
            }),
            Ok((End::Overrun, _)) => Err(TellError::Overrun {
                program,
                seconds: self.deadline.as_secs(),
            }),
            Err(error) => Err(TellError::NotStarted {
                program,
                why: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> TellCommand {
        TellCommand {
            program: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            deadline,
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn command_gets_stdin_and_clean_environment() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("told");
        let script = format!("cat > {0}; env | sort >> {0}", file.display());
        shell(&script, LONG).tell(b"{}\n".to_vec()).await.unwrap();
        let told = std::fs::read_to_string(&file).unwrap();
        let names = told.lines().map(|line| line.split('=').next().unwrap());
        let mut names: Vec<_> = names.collect();
        names.retain(|name| !matches!(*name, "PWD" | "SHLVL" | "_" | "OLDPWD"));
        assert_eq!(names, ["{}", "PATH"]);
    }

    #[tokio::test]
    async fn command_failures_report_cause() {
        let failing = shell("echo no room >&2; exit 3", LONG);
        let told = failing.tell(vec![b'x'; 1 << 20]);
        let error = told.await.unwrap_err().to_string();
        assert!(
            error.contains("status: 3") && error.ends_with("no room"),
            "{error}"
        );
        let slow = shell("exec sleep 1000", Duration::from_millis(100));
        assert!(matches!(
            slow.tell(Vec::new()).await,
            Err(TellError::Overrun { .. })
        ));
        let missing = TellCommand {
            program: "/nonexistent/program".to_owned(),
            ..shell("", LONG)
        };
        let missing = missing.tell(Vec::new()).await;
        assert!(matches!(missing, Err(TellError::NotStarted { .. })));
    }
}
