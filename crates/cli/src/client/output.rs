//! How commands print: JSON for programs, words for people.

use super::control::is_task;
use crate::cli::OutputArgs;
use anyhow::Context;
use bridge_daemon::term;
use serde::Serialize;
use std::process::ExitCode;

/// Exit code when somebody stopped the work.
pub(crate) const EXIT_STOPPED: u8 = 3;
/// Exit code when the answer may still come (EX_TEMPFAIL).
pub(crate) const EXIT_LATER: u8 = 75;
/// Exit code after Ctrl-C, as shells have it: we left, the work goes on.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Characters at the end of a message's id, which people see and type: its beginning is the time.
const SHORT_ID_CHARS: usize = 8;

/// An id as it is shown: short for people at a terminal, whole for programs. Ids of tasks are short already.
pub(crate) fn shown_id(id: &str, for_people: bool) -> &str {
    let from = id.len().saturating_sub(SHORT_ID_CHARS);
    match id.get(from..) {
        Some(end) if for_people && !is_task(id) => end,
        Some(_) | None => id,
    }
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
            print(words(value).trim_end(), code)
        }
    }
}

/// Prints a value for programs.
pub(crate) fn print_json(value: &impl Serialize, code: ExitCode) -> anyhow::Result<ExitCode> {
    let json = serde_json::to_string_pretty(value).context("this can't be written as JSON")?;
    print(&json, code)
}

/// Prints a text; gives `code` if that works. Callers rely on the text, so an error of stdout is a failure.
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
