//! What the end of a run of `codex exec` means for its turn: an answer, a failure that says the exit code and the last
//! words, or a turn that was stopped.

use crate::error;
use bridge_codex::exec::{ExecEnd, ExecFold, ExecUsage};
use bridge_codex::wire::error_info::ErrorInfo;
use bridge_codex::wire::turn::TurnError;
use bridge_core::port::{TurnEnd, TurnStatus};
use bridge_core::value::{Class, Failure, TurnId, Usage};

/// The exit code of a program that does not know its arguments.
const USAGE_ERROR: i32 = 2;

/// All that is known when the process and everything it started is gone.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) fold: ExecFold,
    /// Whether we ended it.
    pub(super) stopped: bool,
    /// Its exit code; for a signal 128 and its number.
    pub(super) code: i32,
    /// The last 2 KiB of its stderr.
    pub(super) tail: String,
}

impl RunEnd {
    /// Whether the turn came to its own end, with or without words.
    pub(super) fn completed(&self) -> bool {
        self.fold.end == Some(ExecEnd::Completed)
    }

    /// The turn's end. `before` is what the thread had cost before this run, if that is known.
    pub(super) fn turn_end(self, turn_id: TurnId, before: Option<ExecUsage>) -> TurnEnd {
        let (status, failure) = match (&self.fold.end, self.stopped) {
            (Some(ExecEnd::Completed), _) => (TurnStatus::Completed, None),
            (_, true) => (TurnStatus::Interrupted, None),
            (Some(ExecEnd::Failed { message }), false) => {
                (TurnStatus::Failed, Some(self.failed(message)))
            }
            (None, false) => (TurnStatus::Failed, Some(self.died())),
        };
        // A process that died may have done more than it reported.
        let died = self.fold.end.is_none() && !self.stopped && self.fold.began;
        let answer = self.fold.answer.filter(|_| status == TurnStatus::Completed);
        TurnEnd {
            turn_id,
            status,
            answer,
            touched: self.fold.effects || died,
            received: Vec::new(),
            failure,
            usage: usage(self.fold.usage, before),
        }
    }

    /// The turn failed and Codex said why.
    fn failed(&self, message: &str) -> Failure {
        let error = TurnError {
            message: message.to_owned(),
            info: ErrorInfo::default(),
            details: None,
        };
        let failure = error.failure(None);
        let class = failure.class;
        Failure::new(class, self.words(&failure.reason))
    }

    /// The process ended and no turn did.
    fn died(&self) -> Failure {
        let refused = if self.fold.began {
            None
        } else {
            error::of_words(&self.tail)
        };
        let (class, what) = match (refused, self.code) {
            (Some(error), _) => (error.failure.class, error.failure.reason),
            (None, USAGE_ERROR) if !self.fold.began => (
                Class::Bug,
                "this Codex does not know the arguments it was started with; `codex-bridge doctor` says which versions work".to_owned(),
            ),
            (None, _) => (Class::Transient, "`codex exec` ended without an answer".to_owned()),
        };
        Failure::new(class, self.words(&what))
    }

    /// The words that operators know: the exit code, and what was said last.
    fn words(&self, what: &str) -> String {
        let code = self.code;
        if self.tail.contains(what) {
            format!("exit={code}: {}", self.tail)
        } else {
            format!("exit={code}: {what}; its last words: {}", self.tail)
        }
    }
}

/// The usage of this run alone. Zero if the usage before it is unknown: the sum of the thread would be wrong.
fn usage(thread: Option<ExecUsage>, before: Option<ExecUsage>) -> Usage {
    let (Some(thread), Some(before)) = (thread, before) else {
        return Usage::default();
    };
    Usage {
        input_tokens: thread
            .input_tokens
            .saturating_sub(before.input_tokens)
            .max(0),
        output_tokens: thread
            .output_tokens
            .saturating_sub(before.output_tokens)
            .max(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_end(lines: &[&str], code: i32, tail: &str) -> RunEnd {
        let mut fold = ExecFold::default();
        for line in lines {
            fold.line(line);
        }
        RunEnd {
            fold,
            stopped: false,
            code,
            tail: tail.to_owned(),
        }
    }

    fn failure(lines: &[&str], code: i32, tail: &str) -> Failure {
        let end = run_end(lines, code, tail).turn_end(TurnId::new("u"), None);
        assert_eq!(end.status, TurnStatus::Failed);
        end.failure.unwrap()
    }

    const BEGAN: &str = r#"{"type":"turn.started"}"#;
    const SAID: &str =
        r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"half"}}"#;

    #[test]
    fn failure_reports_exit_code_and_stderr() {
        let died = failure(&[], 7, "boom");
        assert_eq!(died.class, Class::Transient);
        assert!(died.reason.starts_with("exit=7: "), "{}", died.reason);
        assert!(died.reason.ends_with("boom"), "{}", died.reason);
        let usage = failure(&[], 2, "error: unexpected argument '--json'");
        assert_eq!(usage.class, Class::Bug);
        let busy = failure(&[], 1, "Error: thread t already has an active writer");
        assert_eq!(busy.class, Class::Capacity { until: None });
        let limited = r#"{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429 Too Many Requests"}}"#;
        let limited = failure(&[BEGAN, limited], 1, "x");
        assert_eq!(limited.class, Class::Capacity { until: None });
        assert!(limited.reason.starts_with("exit=1: "), "{}", limited.reason);
    }

    #[test]
    fn only_completed_runs_have_answers() {
        let end = |run_end: RunEnd| run_end.turn_end(TurnId::new("u"), None);
        let died = end(run_end(&[BEGAN, SAID], 137, ""));
        assert_eq!((died.answer, died.touched), (None, true));
        let mut stopped = run_end(&[BEGAN, SAID], 143, "");
        stopped.stopped = true;
        let stopped = end(stopped);
        assert_eq!(stopped.status, TurnStatus::Interrupted);
        assert_eq!((stopped.answer, stopped.touched), (None, false));
        let done = end(run_end(
            &[BEGAN, SAID, r#"{"type":"turn.completed"}"#],
            0,
            "",
        ));
        assert_eq!(done.answer.as_deref(), Some("half"));
    }

    #[test]
    fn usage_excludes_earlier_turns() {
        let count = |input_tokens, output_tokens| ExecUsage {
            input_tokens,
            output_tokens,
        };
        let paid = usage(Some(count(300, 30)), Some(count(200, 20)));
        assert_eq!((paid.input_tokens, paid.output_tokens), (100, 10));
        assert_eq!(usage(Some(count(300, 30)), None), Usage::default());
    }
}
