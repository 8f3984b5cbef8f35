//! What a failed call means: whether the platform may have taken it, and when it is worth trying again.
//!
//! The one rule that must never bend: once a reply's bytes may have left, only a clear answer of the platform
//! says that it was not taken. Which clear answers there are is each channel's business.

use crate::http::{ErrorResponse, HttpError};
use bridge_core::value::{Class, Failure, Timestamp};
use reqwest::StatusCode;

/// Longest time that `Retry-After` is believed: a day.
const RETRY_AFTER_MAX_SECS: i64 = 24 * 3_600;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A reply: to do it twice may show it twice.
    Send,
    /// Uploading a file of a reply: no reply names it yet, so nobody sees it twice.
    Upload,
    /// Asking for a receipt.
    Probe,
    /// Fetching: harmless to repeat.
    Fetch,
}

impl Operation {
    fn words(self) -> &'static str {
        match self {
            Self::Send => "the platform did not confirm this reply",
            Self::Upload => {
                "the platform did not take a file of this reply, which waits for it for a few tries"
            }
            Self::Probe => "the platform did not say whether this reply arrived",
            Self::Fetch => "the platform showed no messages",
        }
    }

    /// The class of "it may have happened": it matters only where happening twice is seen.
    pub(crate) fn if_unknown(self) -> Class {
        match self {
            Self::Send => Class::Ambiguous,
            Self::Upload | Self::Probe | Self::Fetch => Class::Transient,
        }
    }
}

/// A failed call in the core's words. `class_of` says what a channel knows about the platform's own answers: their class
/// and what to do.
pub(crate) fn failure(
    operation: Operation,
    error: &HttpError,
    class_of: impl FnOnce(&ErrorResponse) -> (Class, &'static str),
) -> Failure {
    let (class, remedy) = match error {
        HttpError::Unreached(_) => (Class::Transient, ""),
        HttpError::Broken(_) | HttpError::Unreadable(_) | HttpError::TooLong(_) => {
            (operation.if_unknown(), "")
        }
        HttpError::Status(refused) => class_of(refused),
    };
    Failure::new(class, format!("{}: {error}{remedy}", operation.words()))
}

/// The class of "not now", with what the platform said about when.
pub(crate) fn capacity(refused: &ErrorResponse, now: Timestamp) -> Class {
    capacity_after(refused.retry_after, now)
}

/// The same for an answer of which only `Retry-After` is known, in seconds.
pub(crate) fn capacity_after(retry_after: Option<i64>, now: Timestamp) -> Class {
    let until =
        |seconds: i64| now.plus_ms(seconds.clamp(0, RETRY_AFTER_MAX_SECS).saturating_mul(1_000));
    Class::Capacity {
        until: retry_after.map(until),
    }
}

/// The class of an answer that every HTTP server means alike.
pub(crate) fn of_status(operation: Operation, refused: &ErrorResponse, now: Timestamp) -> Class {
    match refused.status {
        StatusCode::TOO_MANY_REQUESTS => capacity(refused, now),
        StatusCode::UNAUTHORIZED => Class::Config,
        StatusCode::REQUEST_TIMEOUT => operation.if_unknown(),
        status if status.is_client_error() => Class::Permanent,
        status if status.is_server_error() => operation.if_unknown(),
        // Redirects are not followed: a reply goes where the configuration says.
        _ => Class::Config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    #[test]
    fn retry_after_is_clamped() {
        for (seconds, until) in [(7, 8_000), (-3, 1_000), (i64::MAX, 86_401_000)] {
            let until = Some(Timestamp(until));
            let class = capacity_after(Some(seconds), NOW);
            assert_eq!(class, Class::Capacity { until });
        }
    }

    #[test]
    fn only_a_reply_is_ever_ambiguous() {
        let refused = HttpError::Unreached("connection refused".to_owned());
        let class = |operation, error: &HttpError| {
            failure(operation, error, |refused| {
                (of_status(operation, refused, NOW), "")
            })
            .class
        };
        assert_eq!(class(Operation::Send, &refused), Class::Transient);
        let status = |code: u16| {
            HttpError::Status(ErrorResponse {
                status: StatusCode::from_u16(code).unwrap(),
                retry_after: None,
                json: true,
                said: String::new(),
            })
        };
        for error in [
            HttpError::Broken("timed out".to_owned()),
            HttpError::Unreadable("not JSON".to_owned()),
            HttpError::TooLong(7),
            status(500),
            status(503),
            status(408),
        ] {
            assert_eq!(class(Operation::Send, &error), Class::Ambiguous, "{error}");
            for harmless in [Operation::Upload, Operation::Probe, Operation::Fetch] {
                assert_eq!(class(harmless, &error), Class::Transient, "{error}");
            }
        }
    }
}
