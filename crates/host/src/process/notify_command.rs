//! Runs the notification commands of the configuration: the payload on standard input, an exit status back.
//!
//! The payload is never in arguments or environment. The caller decides about failures.

use crate::process::oneshot::{End, run_with_input, tail};
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// Lines of its last words that are kept when it failed.
const LAST_WORDS_LINES: usize = 3;

/// A command that receives notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyProgram {
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
pub enum NotifyProgramError {
    /// It did not start.
    #[error("the command {program} could not be started ({why})")]
    NotStarted {
        program: String,
        /// Why not.
        why: String,
    },
    /// It ended, and does not have it.
    #[error("the command {program} ended with {how}: {said}")]
    Failed {
        program: String,
        /// Its exit status.
        how: String,
        /// Its last words.
        said: String,
    },
    /// It took too long, and was killed.
    #[error("the command {program} took longer than {seconds} s and was killed")]
    Overrun {
        program: String,
        /// Its deadline.
        seconds: u64,
    },
}

impl NotifyProgram {
    /// Runs it once with these bytes; an exit status of 0 means that it has them.
    pub async fn tell(&self, input: Vec<u8>) -> Result<(), NotifyProgramError> {
        let (command, program) = (self.clone(), self.program.clone());
        let ran = tokio::task::spawn_blocking(move || command.run(input)).await;
        ran.unwrap_or_else(|error| {
            Err(NotifyProgramError::NotStarted {
                program,
                why: error.to_string(),
            })
        })
    }

    fn run(self, input: Vec<u8>) -> Result<(), NotifyProgramError> {
        let program = self.program;
        let mut command = Command::new(&program);
        command.args(self.args).env_clear().envs(self.env);
        // Its own files are its business; ours are not.
        command.current_dir("/");
        let ran = run_with_input(command, input, self.deadline);
        match ran {
            Ok((End::Exited(status), _)) if status.success() => Ok(()),
            Ok((End::Exited(status), output)) => Err(NotifyProgramError::Failed {
                program,
                how: status.to_string(),
                said: tail(&output.stderr, LAST_WORDS_LINES),
            }),
            Ok((End::Overrun, _)) => Err(NotifyProgramError::Overrun {
                program,
                seconds: self.deadline.as_secs(),
            }),
            Err(error) => Err(NotifyProgramError::NotStarted {
                program,
                why: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> NotifyProgram {
        NotifyProgram {
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
        let file = directory.path().join("received");
        let script = format!("cat > {0}; env | sort >> {0}", file.display());
        shell(&script, LONG).tell(b"{}\n".to_vec()).await.unwrap();
        let command = std::fs::read_to_string(&file).unwrap();
        let names = command.lines().map(|line| line.split('=').next().unwrap());
        let mut names: Vec<_> = names.collect();
        names.retain(|name| !matches!(*name, "PWD" | "SHLVL" | "_" | "OLDPWD"));
        assert_eq!(names, ["{}", "PATH"]);
    }

    #[tokio::test]
    async fn command_failures_report_cause() {
        let failing = shell("echo no room >&2; exit 3", LONG);
        let command = failing.tell(vec![b'x'; 1 << 20]);
        let error = command.await.unwrap_err().to_string();
        assert!(
            error.contains("status: 3") && error.ends_with("no room"),
            "{error}"
        );
        let slow = shell("exec sleep 1000", Duration::from_millis(100));
        assert!(matches!(
            slow.tell(Vec::new()).await,
            Err(NotifyProgramError::Overrun { .. })
        ));
        let missing = NotifyProgram {
            program: "/nonexistent/program".to_owned(),
            ..shell("", LONG)
        };
        let missing = missing.tell(Vec::new()).await;
        assert!(matches!(
            missing,
            Err(NotifyProgramError::NotStarted { .. })
        ));
    }
}
