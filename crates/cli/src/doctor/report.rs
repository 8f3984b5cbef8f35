//! What the doctor found, for people line by line as it is found, or for programs as one JSON at the end.

use bridge_daemon::term::{Paint, escape};
use schemars::JsonSchema;
use serde::Serialize;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Check {
    /// A name that programs can rely on.
    id: &'static str,
    /// A name for people.
    #[serde(skip)]
    title: &'static str,
    status: CheckStatus,
    /// What was seen.
    detail: String,
    /// What to do about it.
    fix: Option<String>,
}

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckStatus {
    /// As it should be.
    Ok,
    /// It works, with a remark.
    Warn,
    /// It does not work.
    Fail,
}

/// What `doctor --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoctorView {
    /// Whether nothing failed.
    ok: bool,
    checks: Vec<Check>,
}

/// The subject of a check: a name that programs can rely on, and one for people.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topic(pub(super) &'static str, pub(super) &'static str);

impl Topic {
    fn check(self, status: CheckStatus, detail: impl Into<String>, fix: Option<String>) -> Check {
        Check {
            id: self.0,
            title: self.1,
            status,
            detail: detail.into(),
            fix,
        }
    }

    pub(super) fn ok(self, detail: impl Into<String>) -> Check {
        self.check(CheckStatus::Ok, detail, None)
    }

    pub(super) fn warn(self, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        self.check(CheckStatus::Warn, detail, Some(fix.into()))
    }

    pub(super) fn fail(self, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        self.check(CheckStatus::Fail, detail, Some(fix.into()))
    }

    /// A failure whose message says what happened and, behind the first semicolon, what to do.
    pub(super) fn of_error(self, error: &dyn Error) -> Check {
        let mut words = error.to_string();
        if let Some(source) = error.source() {
            words = match words.split_once("; ") {
                Some((what, fix)) => format!("{what}: {source}; {fix}"),
                None => format!("{words}: {source}"),
            };
        }
        match words.split_once("; ") {
            Some((what, fix)) => self.fail(what, fix),
            None => self.check(CheckStatus::Fail, words, None),
        }
    }
}

impl Check {
    pub(super) fn status(&self) -> CheckStatus {
        self.status
    }

    #[cfg(test)]
    pub(super) fn words(&self) -> String {
        format!(
            "{} -> {}",
            self.detail,
            self.fix.as_deref().unwrap_or_default()
        )
    }

    fn lines(&self, paint: Paint) -> String {
        let status = match self.status {
            CheckStatus::Ok => paint.green("ok  "),
            CheckStatus::Warn => paint.yellow("warn"),
            CheckStatus::Fail => paint.red("FAIL"),
        };
        let title = paint.bold(self.title);
        let mut lines = format!("{status}  {title}: {}\n", indented(&self.detail));
        if let Some(fix) = &self.fix {
            lines.push_str(&format!("      -> {}\n", indented(fix)));
        }
        lines
    }
}

/// Foreign text for a terminal, with further lines below the first.
fn indented(text: &str) -> String {
    escape(text).trim_end().replace('\n', "\n      ")
}

/// All checks so far.
#[derive(Debug)]
pub(super) struct DoctorReport {
    json: bool,
    paint: Paint,
    checks: Vec<Check>,
}

impl DoctorReport {
    pub(super) fn start(json: bool, no_color: bool) -> Self {
        Self {
            json,
            paint: Paint::stdout(no_color),
            checks: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, check: Check) {
        if !self.json {
            print(&check.lines(self.paint));
        }
        self.checks.push(check);
    }

    /// Prints what is left to print; the exit code says whether anything failed.
    pub(super) fn finish(self) -> ExitCode {
        let failed = self.count(CheckStatus::Fail);
        if self.json {
            let view = serde_json::to_string_pretty(&self.view());
            print(&format!("{}\n", view.unwrap_or_default()));
        } else {
            print(&self.summary());
        }
        if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    fn count(&self, status: CheckStatus) -> usize {
        let has = |check: &&Check| check.status == status;
        self.checks.iter().filter(has).count()
    }

    fn view(&self) -> DoctorView {
        DoctorView {
            ok: self.count(CheckStatus::Fail) == 0,
            checks: self.checks.clone(),
        }
    }

    fn summary(&self) -> String {
        let (failed, warned) = (self.count(CheckStatus::Fail), self.count(CheckStatus::Warn));
        let of = self.checks.len();
        match (failed, warned) {
            (0, 0) => format!("\nAll {of} checks are fine.\n"),
            (0, warned) => format!("\nNothing failed; {warned} of {of} checks have a warning.\n"),
            (failed, _) => format!("\n{failed} of {of} checks failed.\n"),
        }
    }
}

/// A closed stream does not end the checks: the exit code still reports failures.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(checks: &[Check]) -> DoctorReport {
        DoctorReport {
            json: true,
            paint: Paint::stdout(true),
            checks: checks.to_vec(),
        }
    }

    #[test]
    fn check_prints_line_and_remedy() {
        let paint = Paint::stdout(true);
        let fine = Topic("disk", "disk").ok("10 GiB free");
        assert_eq!(fine.lines(paint), "ok    disk: 10 GiB free\n");
        let bad = Topic("x", "login").fail("none\nat all\u{1b}[2J", "run `codex login`");
        assert_eq!(
            bad.lines(paint),
            "FAIL  login: none\n      at all\\e[2J\n      -> run `codex login`\n"
        );
    }

    #[test]
    fn only_a_failure_fails() {
        let fine = Topic("a", "a").ok("");
        let warn = Topic("b", "b").warn("", "");
        let fail = Topic("c", "c").fail("seen", "do");
        for (checks, ok) in [
            (vec![], true),
            (vec![fine.clone(), warn.clone()], true),
            (vec![fine, warn, fail.clone()], false),
        ] {
            let report = report(&checks);
            assert_eq!(report.view().ok, ok);
            assert_eq!(report.finish() == ExitCode::SUCCESS, ok);
        }
        assert_eq!(
            serde_json::to_value(&report(&[fail]).view().checks[0]).unwrap(),
            json!({"id": "c", "status": "fail", "detail": "seen", "fix": "do"})
        );
    }

    #[test]
    fn error_splits_into_message_and_remedy() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read it; check it; twice")]
        struct Sample(#[source] std::io::Error);
        let error = Sample(std::io::Error::other("broken disk"));
        assert_eq!(
            Topic("x", "x").of_error(&error),
            Topic("x", "x").fail("cannot read it: broken disk", "check it; twice")
        );
    }
}
