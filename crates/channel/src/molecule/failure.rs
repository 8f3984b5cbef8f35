//! What the platform's own answers mean, beside what every HTTP server means alike.
//!
//! An answer that is not JSON did not come from the platform: something in front of it did not know where to send us,
//! and the message is not to blame.

use crate::http::{self, Operation};
use crate::http::{ErrorResponse, HttpError};
use crate::poll::now;
use bridge_core::port::SinkFault;
use bridge_core::value::{Class, Failure};
use reqwest::StatusCode;

const TOKEN: &str = "; either the token was refused or the platform's database is away, `codex-bridge status` says which";
const ROUTE: &str = "; something in front of the platform answered: check the platform's address and whether MOLECULE_ORG_ID (the header X-Molecule-Org-Id) is missing or wrong, or whether the Origin header is refused";
/// What the platform says when it could not look up a workspace.
const LOOKUP: &str = "\"lookup failed\"";
const MOVED: &str = "; redirects are not followed: check the platform's address";

/// A failed call in the core's words.
pub(crate) fn failure(operation: Operation, error: &HttpError) -> Failure {
    http::failure(operation, error, |refused| class_of(operation, refused))
}

pub(crate) fn fault(operation: Operation, error: &HttpError) -> SinkFault {
    SinkFault {
        failure: failure(operation, error),
    }
}

fn class_of(operation: Operation, refused: &ErrorResponse) -> (Class, &'static str) {
    match refused.status {
        StatusCode::UNAUTHORIZED => (Class::Config, TOKEN),
        status if status.is_redirection() => (Class::Config, MOVED),
        StatusCode::BAD_REQUEST if refused.said.contains("X-Molecule-Org-Id") => {
            (Class::Config, ROUTE)
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            (http::of_status(operation, refused, now()), "")
        }
        status if status.is_client_error() && !refused.json => (Class::Config, ROUTE),
        StatusCode::INTERNAL_SERVER_ERROR if asked_nobody(refused) => (Class::Transient, ""),
        StatusCode::SERVICE_UNAVAILABLE if operation == Operation::Send && put_off(refused) => {
            (http::capacity(refused, now()), "")
        }
        _ => (http::of_status(operation, refused, now()), ""),
    }
}

/// The platform could not look up who we are or whom we mean, as when its database is away: nothing was stored.
fn asked_nobody(refused: &ErrorResponse) -> bool {
    refused.json && refused.said.contains(LOOKUP)
}

/// The platform itself asks us to come again: it took nothing.
fn put_off(refused: &ErrorResponse) -> bool {
    refused.json && refused.retry_after.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, json: bool, said: &str) -> HttpError {
        HttpError::Status(ErrorResponse {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: None,
            json,
            said: said.to_owned(),
        })
    }

    #[test]
    fn only_platform_refusals_are_permanent() {
        for (status, json, class) in [
            (401, true, Class::Config),
            (402, true, Class::Permanent),
            (403, true, Class::Permanent),
            (404, true, Class::Permanent),
            (413, true, Class::Permanent),
            (403, false, Class::Config),
            (404, false, Class::Config),
            (302, false, Class::Config),
            (429, false, Class::Capacity { until: None }),
            (500, true, Class::Ambiguous),
            (502, false, Class::Ambiguous),
            (503, true, Class::Ambiguous),
        ] {
            let failure = failure(Operation::Send, &refused(status, json, ""));
            assert_eq!(failure.class, class, "{status} {json}");
        }
        // Nothing was stored: these are sent again, to whomever.
        let away = refused(500, true, r#"{"error":"lookup failed"}"#);
        assert_eq!(failure(Operation::Send, &away).class, Class::Transient);
        let not_said = refused(500, false, r#"{"error":"lookup failed"}"#);
        assert_eq!(failure(Operation::Send, &not_said).class, Class::Ambiguous);
        for (json, later) in [(true, true), (false, false)] {
            let waking = HttpError::Status(ErrorResponse {
                status: StatusCode::SERVICE_UNAVAILABLE,
                retry_after: Some(15),
                json,
                said: String::new(),
            });
            let class = failure(Operation::Send, &waking).class;
            assert_eq!(matches!(class, Class::Capacity { until: Some(_) }), later);
        }
        let tenant = refused(400, true, r#"{"required_header":"X-Molecule-Org-Id"}"#);
        assert_eq!(failure(Operation::Send, &tenant).class, Class::Config);
        let reset = HttpError::Broken("reset".to_owned());
        assert_eq!(failure(Operation::Send, &reset).class, Class::Ambiguous);
        assert_eq!(failure(Operation::Fetch, &reset).class, Class::Transient);
    }
}
