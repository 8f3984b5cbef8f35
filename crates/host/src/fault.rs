//! What Codex's errors mean for a message: every refusal, silence and failed turn gets a class and a sentence.

use crate::connection::CallError;
use bridge_codex::rpc::{INTERNAL_ERROR, INVALID_REQUEST, Refusal, RpcError};
use bridge_core::port::{AgentError, ThreadFailure};
use bridge_core::value::{Class, Failure};

/// What a request was about to do: it decides what silence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Reading, loading, connecting: repeating it does no harm.
    Harmless,
    /// Starting a turn: it may have happened.
    StartTurn,
}

/// The fault that a request's error amounts to.
pub(crate) fn of_call(error: &CallError, deed: Deed) -> AgentError {
    let lost = match deed {
        Deed::Harmless => Class::Transient,
        Deed::StartTurn => Class::Ambiguous,
    };
    match error {
        CallError::Closed { .. } | CallError::Silent { .. } => fault(lost, error.to_string()),
        // Codex answered, so what was asked was done.
        CallError::Unreadable { .. } => {
            let class = match deed {
                Deed::Harmless => Class::Config,
                Deed::StartTurn => Class::Ambiguous,
            };
            fault(class, error.to_string())
        }
        CallError::Refused { error: refused, .. } => {
            of_refusal(refused.refusal(), refused.code, &error.to_string())
        }
    }
}

fn of_refusal(refusal: Refusal, code: i64, words: &str) -> AgentError {
    match refusal {
        // Codex's queues are full: nothing is wrong with the message.
        Refusal::Overloaded => fault(Class::Capacity { until: None }, words),
        Refusal::Draining | Refusal::ThreadClosing => fault(Class::Transient, words),
        Refusal::ActiveWriter => fault(
            Class::Capacity { until: None },
            "another program has this conversation's thread open (a Codex terminal?): close it there, and the message is answered here",
        ),
        Refusal::NoRollout
        | Refusal::ThreadNotFound
        | Refusal::InvalidThreadId
        | Refusal::Archived => lost(ThreadFailure::Missing, words),
        Refusal::DamagedRollout => lost(ThreadFailure::Damaged, words),
        Refusal::InputTooLarge { .. } => fault(Class::Permanent, words),
        Refusal::BadConfig => fault(
            Class::Config,
            format!(
                "Codex can't read its configuration: {words}. Mend config.toml in CODEX_HOME; `codex-bridge doctor` checks it"
            ),
        ),
        Refusal::NotInitialized | Refusal::NeedsExperimental => fault(Class::Bug, words),
        Refusal::NoActiveTurn | Refusal::OtherTurnActive => fault(Class::Transient, words),
        Refusal::Other if code == INTERNAL_ERROR => fault(Class::Transient, words),
        Refusal::Other => fault(Class::Permanent, words),
    }
}

/// What Codex refused, where only its words are there: a run of `codex exec` says them on stderr.
pub(crate) fn of_words(words: &str) -> Option<AgentError> {
    match RpcError::new(INVALID_REQUEST, words).refusal() {
        Refusal::Other => None,
        refusal => Some(of_refusal(refusal, INVALID_REQUEST, words)),
    }
}

/// The thread itself is the problem; a new one may work.
pub(crate) fn lost(thread: ThreadFailure, words: &str) -> AgentError {
    AgentError {
        failure: Failure::new(Class::Transient, words),
        thread: Some(thread),
    }
}

/// A fault of this class.
pub(crate) fn fault(class: Class, reason: impl AsRef<str>) -> AgentError {
    AgentError::new(Failure::new(class, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> CallError {
        CallError::Refused {
            method: "thread/resume",
            error: RpcError::new(-32600, message),
        }
    }

    #[test]
    fn silent_turn_start_is_ambiguous() {
        let unreadable = CallError::Unreadable {
            method: "turn/start",
            why: "no turn".to_owned(),
        };
        let class = |deed| of_call(&unreadable, deed).failure.class;
        assert_eq!(class(Deed::StartTurn), Class::Ambiguous, "it runs");
        assert_eq!(class(Deed::Harmless), Class::Config);
        let silent = CallError::Silent {
            method: "turn/start",
        };
        assert_eq!(
            of_call(&silent, Deed::StartTurn).failure.class,
            Class::Ambiguous
        );
        assert_eq!(
            of_call(&silent, Deed::Harmless).failure.class,
            Class::Transient
        );
    }

    #[test]
    fn refusals_are_never_ambiguous() {
        let gone = of_call(
            &refused("no rollout found for thread id x"),
            Deed::StartTurn,
        );
        assert_eq!(gone.thread, Some(ThreadFailure::Missing));
        let writer = of_call(
            &refused("thread x already has an active writer"),
            Deed::Harmless,
        );
        assert_eq!(writer.failure.class, Class::Capacity { until: None });
        let busy = CallError::Refused {
            method: "turn/start",
            error: RpcError::new(-32001, "Server overloaded; retry later."),
        };
        let busy = of_call(&busy, Deed::StartTurn);
        assert_eq!(busy.failure.class, Class::Capacity { until: None });
        let closing =
            refused("thread x is closing; retry thread/resume after the thread is closed");
        let closing = of_call(&closing, Deed::Harmless);
        assert_eq!(closing.failure.class, Class::Transient);
        assert_eq!(closing.thread, None);
        let config = of_call(&refused("failed to load configuration: x"), Deed::Harmless);
        assert_eq!(config.failure.class, Class::Config);
    }
}
