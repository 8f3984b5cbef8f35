//! What a failed call means: whether the platform may have taken it, and when it is worth trying again.
//!
//! The one rule that must never bend: once a reply's bytes may have left, only a clear answer of the platform
//! says that it was not taken.

use bridge_core::port::SinkFault;
use bridge_core::value::{Class, Failure, Timestamp};
use reqwest::StatusCode;

/// Longest time that `Retry-After` is believed: a day.
const RETRY_AFTER_MAX_SECS: i64 = 24 * 3_600;

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// Nobody was there; nothing left this machine's hands.
    #[error("it can't be reached ({0})")]
    Unreached(String),
    /// It broke off somewhere on the way.
    #[error("the call broke off ({0})")]
    Broken(String),
    /// It said no.
    #[error("it answered {status}{}", quoted(said))]
    Status {
        status: StatusCode,
        /// Seconds.
        retry_after: Option<i64>,
        /// Its own words, shortened.
        said: String,
    },
    /// It said yes, in a form that we can't read.
    #[error("its answer can't be read ({0})")]
    Unreadable(String),
    /// It said yes, and did not stop talking.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
}

fn quoted(said: &str) -> String {
    match said.is_empty() {
        true => String::new(),
        false => format!(" ({said})"),
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// A reply: to do it twice may show it twice.
    Send,
    /// Asking for a receipt.
    Probe,
    /// Acknowledging: harmless to repeat.
    Acknowledge,
    /// Fetching: harmless to repeat.
    Fetch,
}

impl Deed {
    fn words(self) -> &'static str {
        match self {
            Self::Send => "the platform did not confirm this reply",
            Self::Probe => "the platform did not say whether this reply arrived",
            Self::Acknowledge => "the platform did not confirm that this message is finished",
            Self::Fetch => "the platform showed no messages",
        }
    }

    /// The class of "it may have happened": it matters only where happening twice is seen.
    fn in_doubt(self) -> Class {
        match self {
            Self::Send => Class::Ambiguous,
            Self::Probe | Self::Acknowledge | Self::Fetch => Class::Transient,
        }
    }
}

/// A failed call in the core's words.
pub(super) fn failure(deed: Deed, error: &CallError, now: Timestamp) -> Failure {
    let class = match error {
        CallError::Unreached(_) => Class::Transient,
        CallError::Broken(_) | CallError::Unreadable(_) | CallError::TooLong(_) => deed.in_doubt(),
        CallError::Status {
            status,
            retry_after,
            ..
        } => of_status(deed, *status, *retry_after, now),
    };
    let remedy = remedy(&class);
    Failure::new(class, format!("{}: {error}{remedy}", deed.words()))
}

pub(super) fn fault(deed: Deed, error: &CallError, now: Timestamp) -> SinkFault {
    SinkFault {
        failure: failure(deed, error, now),
    }
}

fn of_status(deed: Deed, status: StatusCode, retry_after: Option<i64>, now: Timestamp) -> Class {
    match status {
        StatusCode::TOO_MANY_REQUESTS => Class::Capacity {
            until: retry_after.map(|seconds| {
                now.plus_ms(seconds.clamp(0, RETRY_AFTER_MAX_SECS).saturating_mul(1_000))
            }),
        },
        StatusCode::UNAUTHORIZED => Class::Config,
        // A platform that has no such call is not the one that the configuration describes.
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED if deed == Deed::Probe => {
            Class::Config
        }
        StatusCode::REQUEST_TIMEOUT => deed.in_doubt(),
        status if status.is_client_error() => Class::Permanent,
        status if status.is_server_error() => deed.in_doubt(),
        // Redirects are not followed: a reply goes where the configuration says.
        _ => Class::Config,
    }
}

fn remedy(class: &Class) -> &'static str {
    match class {
        Class::Config => "; check the section [loopback] of codex-bridge.toml",
        Class::Transient
        | Class::Capacity { .. }
        | Class::Permanent
        | Class::Ambiguous
        | Class::Bug => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn status(code: u16, retry_after: Option<i64>) -> CallError {
        CallError::Status {
            status: StatusCode::from_u16(code).unwrap(),
            retry_after,
            said: String::new(),
        }
    }

    fn class(deed: Deed, error: &CallError) -> Class {
        failure(deed, error, NOW).class
    }

    #[test]
    fn a_reply_is_in_doubt_once_its_bytes_left() {
        let refused = CallError::Unreached("connection refused".to_owned());
        assert_eq!(class(Deed::Send, &refused), Class::Transient);
        for error in [
            CallError::Broken("timed out".to_owned()),
            CallError::Unreadable("not JSON".to_owned()),
            CallError::TooLong(7),
            status(500, None),
            status(503, None),
            status(408, None),
        ] {
            assert_eq!(class(Deed::Send, &error), Class::Ambiguous, "{error}");
            for harmless in [Deed::Probe, Deed::Acknowledge, Deed::Fetch] {
                assert_eq!(class(harmless, &error), Class::Transient, "{error}");
            }
        }
    }

    #[test]
    fn a_clear_no_has_its_own_class() {
        for (code, expected) in [
            (401, Class::Config),
            (302, Class::Config),
            (403, Class::Permanent),
            (404, Class::Permanent),
            (422, Class::Permanent),
            (429, Class::Capacity { until: None }),
        ] {
            assert_eq!(class(Deed::Send, &status(code, None)), expected, "{code}");
        }
        assert_eq!(class(Deed::Probe, &status(405, None)), Class::Config);
    }

    #[test]
    fn a_named_time_is_believed_within_a_day() {
        for (seconds, until) in [(7, 8_000), (-3, 1_000), (i64::MAX, 86_401_000)] {
            let until = Some(Timestamp(until));
            let class = class(Deed::Send, &status(429, Some(seconds)));
            assert_eq!(class, Class::Capacity { until });
        }
    }

    #[test]
    fn reasons_say_what_happened_and_where_to_look() {
        let mut error = status(401, None);
        if let CallError::Status { said, .. } = &mut error {
            *said = "token revoked".to_owned();
        }
        assert_eq!(
            failure(Deed::Send, &error, NOW).reason,
            "the platform did not confirm this reply: it answered 401 Unauthorized (token revoked); check the section [loopback] of codex-bridge.toml"
        );
    }
}
