//! How commands print: JSON for programs, words for people.

use super::api::ClientError;
use super::find::short;
use super::page::wrap;
use super::screen::{stderr_width, stdout_width};
use crate::cli::OutputArgs;
use anyhow::Context;
use bridge_daemon::config::{ConfigError, ConfigProblem};
use bridge_daemon::state::StateError;
use bridge_daemon::term::{self, escape};
use bridge_front::CandidateView;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Exit code when somebody stopped the work.
pub(crate) const EXIT_STOPPED: u8 = 3;
/// Exit code when the answer may still come (EX_TEMPFAIL).
pub(crate) const EXIT_LATER: u8 = 75;
/// Exit code after Ctrl-C, as shells have it: we left, the work goes on.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// An id as it is shown: short for people at a terminal, whole for programs.
pub(crate) fn shown_id(id: &str, for_people: bool) -> &str {
    if for_people { short(id) } else { id }
}

impl OutputArgs {
    /// Prints a value: as it is for programs, in words for people; gives `code` if that works.
    pub(crate) fn show<T: Serialize>(
        self,
        value: &T,
        code: ExitCode,
        words: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            print_json(value, code)
        } else {
            tell(words(value).trim_end(), code)
        }
    }
}

/// What `--json` prints where a command failed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorReport {
    pub(crate) error: ErrorView,
}

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorView {
    /// What kind of problem.
    pub(crate) title: String,
    /// What happened and what to do.
    pub(crate) detail: String,
    /// The status of HTTP, where the daemon answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The message or task that goes on all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// What may be meant, where a name means several things.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<CandidateView>,
    /// What is wrong with the configuration, one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<ConfigProblem>,
}

/// A failure with a title of its own; its words are for people and programs alike.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Failed {
    title: &'static str,
    detail: String,
    id: Option<String>,
    code: u8,
}

impl Failed {
    pub(crate) fn new(title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            title,
            detail: detail.into(),
            id: None,
            code: 1,
        }
    }

    /// We go, and what was begun goes on without us.
    pub(crate) fn going_on(mut self, id: Option<&str>, code: u8) -> Self {
        self.id = id.map(ToOwned::to_owned);
        self.code = code;
        self
    }
}

/// The exit code of a failure.
pub(crate) fn failure_code(error: &anyhow::Error) -> ExitCode {
    let failed = error.downcast_ref::<Failed>();
    ExitCode::from(failed.map_or(1, |failed| failed.code))
}

/// The words of a failure and its causes; a cause that is in them already is left out.
pub(crate) fn failure_words(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| {
        let cause = cause.to_string();
        match said.as_str() {
            "" => cause,
            text if text.contains(&cause) => said,
            _ => format!("{said}: {cause}"),
        }
    })
}

impl ErrorReport {
    /// A failure found without a daemon.
    pub(crate) fn new(title: &str, detail: impl Into<String>) -> Self {
        Self {
            error: ErrorView {
                title: title.to_owned(),
                detail: detail.into(),
                status: None,
                id: None,
                candidates: Vec::new(),
                problems: Vec::new(),
            },
        }
    }

    /// A failure of any kind.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let mut report = Self::new("failed", failure_words(error));
        if let Some(failed) = error.downcast_ref::<Failed>() {
            report.error.title = failed.title.to_owned();
            report.error.id.clone_from(&failed.id);
        } else if let Some(error) = error.downcast_ref::<ClientError>() {
            report.of_client(error);
        } else if let Some(error) = error.downcast_ref::<StateError>() {
            report.error.title = state_title(error).to_owned();
        } else if let Some(error) = error.downcast_ref::<ConfigError>() {
            report.error.title = CONFIGURATION.to_owned();
            report.error.problems = error.problems().to_vec();
        }
        report
    }

    fn of_client(&mut self, error: &ClientError) {
        let view = &mut self.error;
        error.title().clone_into(&mut view.title);
        match error {
            ClientError::Refused(problem) | ClientError::NotNow(problem) => {
                view.title = problem.title.to_lowercase();
                view.status = Some(problem.status);
            }
            ClientError::Several { candidates, .. } => view.candidates.clone_from(candidates),
            _ => {}
        }
    }
}

/// The title of a configuration that can't be used.
pub(crate) const CONFIGURATION: &str = "configuration";

/// What kind of problem a state directory has.
pub(crate) fn state_title(error: &StateError) -> &'static str {
    match error {
        StateError::Forbidden { .. } => "not permitted",
        StateError::NoDaemon { .. } => "no daemon",
        StateError::InUse { .. } => "in use",
        StateError::Create { .. } | StateError::Unfit { .. } | StateError::NotWritable { .. } => {
            "state directory"
        }
    }
}

/// Prints a failure for programs, on one line: it may be the last one of a stream.
pub(crate) fn print_error(report: &ErrorReport, code: ExitCode) -> anyhow::Result<ExitCode> {
    print_line(report)?;
    Ok(code)
}

/// Prints one value of a stream, on one line.
pub(crate) fn print_line(value: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string(value).context("this can't be written as JSON")?;
    term::print(&json).context("this could not be printed")
}

/// Prints a value for programs.
pub(crate) fn print_json(value: &impl Serialize, code: ExitCode) -> anyhow::Result<ExitCode> {
    let json = serde_json::to_string_pretty(value).context("this can't be written as JSON")?;
    print(&json, code)
}

/// Prints words for people on stdout, folded to the terminal's width; gives `code` if that works.
pub(crate) fn tell(words: &str, code: ExitCode) -> anyhow::Result<ExitCode> {
    print(&wrap("", words, stdout_width()), code)
}

/// Says something to people on stderr, folded to the terminal's width.
pub(crate) fn say(text: &str) {
    say_titled("", text);
}

/// The same behind a title, which is painted already.
pub(crate) fn say_titled(title: &str, text: &str) {
    let title = match title {
        "" => String::new(),
        title => format!("{title} "),
    };
    term::complain(&wrap(&title, &escape(text), stderr_width()));
}

/// Prints a text as it is; gives `code` if that works. Callers rely on the text, so an error of stdout is a failure.
pub(crate) fn print(text: &str, code: ExitCode) -> anyhow::Result<ExitCode> {
    term::print(text).context("this could not be printed")?;
    Ok(code)
}

/// The code of something that was done, or was not.
pub(crate) fn exit_code(done: bool) -> ExitCode {
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
