//! How commands print: JSON for programs, words for people.

use super::api::ClientError;
use super::find::short;
use super::page::wrap;
use super::screen::{stderr_width, stdout_width};
use crate::cli::OutputArgs;
use anyhow::Context;
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
    /// What may be meant, where a name means several things.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<CandidateView>,
}

impl ErrorReport {
    /// A failure that no daemon told us.
    pub(crate) fn new(title: &str, detail: impl Into<String>) -> Self {
        Self {
            error: ErrorView {
                title: title.to_owned(),
                detail: detail.into(),
                status: None,
                candidates: Vec::new(),
            },
        }
    }

    /// A failed call.
    pub(crate) fn of(error: &ClientError) -> Self {
        let mut report = Self::new(error.title(), error.to_string());
        match error {
            ClientError::Refused(problem) | ClientError::NotNow(problem) => {
                report.error.title.clone_from(&problem.title);
                report.error.status = Some(problem.status);
            }
            ClientError::Several { candidates, .. } => {
                report.error.candidates.clone_from(candidates);
            }
            _ => {}
        }
        report
    }
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
