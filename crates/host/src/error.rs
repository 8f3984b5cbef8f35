//! Classifies Codex's errors: every refusal and every silence gets a class and a sentence.

use crate::app_server::connection::CallError;
use bridge_codex::rpc::{INTERNAL_ERROR, INVALID_REQUEST, RpcError, RpcRefusal};
use bridge_core::port::{AgentError, ThreadFailure};
use bridge_core::value::{Class, Failure};

/// What to do about a Codex that speaks otherwise.
const OTHER_VERSION: &str = "install one that `codex-bridge doctor` passes, or a newer codex-bridge, and the message is answered";

/// Whether a request may be repeated; decides the class of a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEffect {
    /// Reading, loading, connecting: repeating it does no harm.
    Repeatable,
    /// Starting a turn: it may have happened.
    StartsTurn,
}

/// The error that a request's error amounts to.
pub(crate) fn of_call(error: &CallError, effect: CallEffect) -> AgentError {
    let lost = match effect {
        CallEffect::Repeatable => Class::Transient,
        CallEffect::StartsTurn => Class::Ambiguous,
    };
    match error {
        CallError::Closed { .. } | CallError::Silent { .. } => agent_error(lost, error.to_string()),
        // Codex answered, so what was asked was done.
        CallError::Unreadable { .. } => {
            let class = match effect {
                CallEffect::Repeatable => Class::Config,
                CallEffect::StartsTurn => Class::Ambiguous,
            };
            agent_error(class, error.to_string())
        }
        CallError::Refused {
            method,
            error: refused,
        } if refused.is_unknown_method(method) => agent_error(
            Class::Config,
            format!("this Codex has no `{method}`, which the bridge needs: {OTHER_VERSION}"),
        ),
        CallError::Refused { error: refused, .. } => {
            of_refusal(refused.refusal(), refused.code, &error.to_string())
        }
    }
}

fn of_refusal(refusal: RpcRefusal, code: i64, words: &str) -> AgentError {
    match refusal {
        // Codex's queues are full: nothing is wrong with the message.
        RpcRefusal::Overloaded => agent_error(Class::Capacity { until: None }, words),
        RpcRefusal::Draining | RpcRefusal::ThreadClosing => agent_error(Class::Transient, words),
        RpcRefusal::ActiveWriter => agent_error(
            Class::Capacity { until: None },
            "another program has this conversation's thread open (a Codex terminal?): close it there, and the message is answered here",
        ),
        RpcRefusal::NoRollout
        | RpcRefusal::ThreadNotFound
        | RpcRefusal::InvalidThreadId
        | RpcRefusal::Archived => lost(ThreadFailure::Missing, words),
        RpcRefusal::DamagedRollout => lost(ThreadFailure::Damaged, words),
        RpcRefusal::InputTooLarge { .. } => agent_error(Class::Permanent, words),
        RpcRefusal::BadConfig => agent_error(
            Class::Config,
            format!(
                "Codex can't read its configuration: {words}. Mend config.toml in CODEX_HOME; `codex-bridge doctor` checks it"
            ),
        ),
        RpcRefusal::NotInitialized => agent_error(Class::Bug, words),
        // The same request to another Codex may be fine, so it is the operator's and not the message's.
        RpcRefusal::UnknownForm | RpcRefusal::NeedsExperimental => agent_error(
            Class::Config,
            format!(
                "this Codex does not take what the bridge asks of it: {OTHER_VERSION} ({words})"
            ),
        ),
        RpcRefusal::NoActiveTurn | RpcRefusal::OtherTurnActive => {
            agent_error(Class::Transient, words)
        }
        RpcRefusal::Other if code == INTERNAL_ERROR => agent_error(Class::Transient, words),
        RpcRefusal::Other => agent_error(Class::Permanent, words),
    }
}

/// Recognizes a refusal by its text alone: `codex exec` writes it to stderr.
pub(crate) fn of_words(words: &str) -> Option<AgentError> {
    match RpcError::new(INVALID_REQUEST, words).refusal() {
        RpcRefusal::Other => None,
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

/// An error of this class.
pub(crate) fn agent_error(class: Class, reason: impl AsRef<str>) -> AgentError {
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
        let class = |effect| of_call(&unreadable, effect).failure.class;
        assert_eq!(class(CallEffect::StartsTurn), Class::Ambiguous, "it runs");
        assert_eq!(class(CallEffect::Repeatable), Class::Config);
        let silent = CallError::Silent {
            method: "turn/start",
        };
        assert_eq!(
            of_call(&silent, CallEffect::StartsTurn).failure.class,
            Class::Ambiguous
        );
        assert_eq!(
            of_call(&silent, CallEffect::Repeatable).failure.class,
            Class::Transient
        );
    }

    #[test]
    fn unknown_methods_wait_for_the_operator() {
        let missing = "Invalid request: unknown variant `turn/start`, expected one of `initialize`";
        let missing = CallError::Refused {
            method: "turn/start",
            error: RpcError::new(-32600, missing),
        };
        let failure = of_call(&missing, CallEffect::StartsTurn).failure;
        assert_eq!(failure.class, Class::Config);
        assert!(failure.reason.starts_with("this Codex has no `turn/start`"));
        for words in [
            "Invalid request: missing field `toolOutput`",
            "thread/resume requires experimentalApi capability",
        ] {
            let failure = of_call(&refused(words), CallEffect::StartsTurn).failure;
            assert_eq!(failure.class, Class::Config, "{words}");
            assert!(failure.reason.contains(words), "{}", failure.reason);
        }
        let bad = of_call(&refused("cwd is not a directory"), CallEffect::StartsTurn);
        assert_eq!(bad.failure.class, Class::Permanent);
    }

    #[test]
    fn refusals_are_never_ambiguous() {
        let gone = of_call(
            &refused("no rollout found for thread id x"),
            CallEffect::StartsTurn,
        );
        assert_eq!(gone.thread, Some(ThreadFailure::Missing));
        let writer = of_call(
            &refused("thread x already has an active writer"),
            CallEffect::Repeatable,
        );
        assert_eq!(writer.failure.class, Class::Capacity { until: None });
        let busy = CallError::Refused {
            method: "turn/start",
            error: RpcError::new(-32001, "Server overloaded; retry later."),
        };
        let busy = of_call(&busy, CallEffect::StartsTurn);
        assert_eq!(busy.failure.class, Class::Capacity { until: None });
        let closing =
            refused("thread x is closing; retry thread/resume after the thread is closed");
        let closing = of_call(&closing, CallEffect::Repeatable);
        assert_eq!(closing.failure.class, Class::Transient);
        assert_eq!(closing.thread, None);
        let config = of_call(
            &refused("failed to load configuration: x"),
            CallEffect::Repeatable,
        );
        assert_eq!(config.failure.class, Class::Config);
    }
}
