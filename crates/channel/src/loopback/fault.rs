//! What the loopback platform's own answers mean, beside what every HTTP server means alike.

use crate::fault::{self, Deed};
use crate::http::{CallError, Refused};
use bridge_core::port::SinkFault;
use bridge_core::value::{Class, Failure, Timestamp};
use reqwest::StatusCode;

/// A failed call in the core's words.
pub(super) fn failure(deed: Deed, error: &CallError, now: Timestamp) -> Failure {
    fault::failure(deed, error, |refused| {
        let class = of_status(deed, refused, now);
        let remedy = remedy(&class);
        (class, remedy)
    })
}

pub(super) fn fault(deed: Deed, error: &CallError, now: Timestamp) -> SinkFault {
    SinkFault {
        failure: failure(deed, error, now),
    }
}

fn of_status(deed: Deed, refused: &Refused, now: Timestamp) -> Class {
    match refused.status {
        // A platform that has no such call is not the one that the configuration describes.
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED if deed == Deed::Probe => {
            Class::Config
        }
        _ => fault::of_status(deed, refused, now),
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
        CallError::Status(Refused {
            status: StatusCode::from_u16(code).unwrap(),
            retry_after,
            json: true,
            said: String::new(),
        })
    }

    fn class(deed: Deed, error: &CallError) -> Class {
        failure(deed, error, NOW).class
    }

    #[test]
    fn reply_is_ambiguous_after_bytes_sent() {
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
            for harmless in [Deed::Probe, Deed::Fetch] {
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
    fn retry_after_is_clamped() {
        for (seconds, until) in [(7, 8_000), (-3, 1_000), (i64::MAX, 86_401_000)] {
            let until = Some(Timestamp(until));
            let class = class(Deed::Send, &status(429, Some(seconds)));
            assert_eq!(class, Class::Capacity { until });
        }
    }

    #[test]
    fn failure_reason_names_cause_and_section() {
        let mut error = status(401, None);
        if let CallError::Status(refused) = &mut error {
            refused.said = "token revoked".to_owned();
        }
        assert_eq!(
            failure(Deed::Send, &error, NOW).reason,
            "the platform did not confirm this reply: it answered 401 Unauthorized (token revoked); check the section [loopback] of codex-bridge.toml"
        );
    }
}
