//! What the platform's own answers mean, beside what every HTTP server means alike.
//!
//! An answer that is not JSON did not come from the platform: something in front of it did not know where to send us,
//! and the message is not to blame.

use crate::fault::{self, Deed};
use crate::http::{CallError, Refused};
use crate::poll::now;
use bridge_core::port::SinkFault;
use bridge_core::value::{Class, Failure};
use reqwest::StatusCode;

const TOKEN: &str = "; either the token was refused or the platform's database is away, `codex-bridge status` says which";
const ROUTE: &str = "; something in front of the platform answered: check the platform's address and whether MOLECULE_ORG_ID (the header X-Molecule-Org-Id) is missing or wrong, or whether the Origin header is refused";
const MOVED: &str = "; redirects are not followed: check the platform's address";

/// A failed call in the core's words.
pub(super) fn failure(deed: Deed, error: &CallError) -> Failure {
    fault::failure(deed, error, |refused| told(deed, refused))
}

pub(super) fn fault(deed: Deed, error: &CallError) -> SinkFault {
    SinkFault {
        failure: failure(deed, error),
    }
}

fn told(deed: Deed, refused: &Refused) -> (Class, &'static str) {
    match refused.status {
        StatusCode::UNAUTHORIZED => (Class::Config, TOKEN),
        status if status.is_redirection() => (Class::Config, MOVED),
        StatusCode::BAD_REQUEST if refused.said.contains("X-Molecule-Org-Id") => {
            (Class::Config, ROUTE)
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            (fault::of_status(deed, refused, now()), "")
        }
        status if status.is_client_error() && !refused.json => (Class::Config, ROUTE),
        _ => (fault::of_status(deed, refused, now()), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, json: bool, said: &str) -> CallError {
        CallError::Status(Refused {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: None,
            json,
            said: said.to_owned(),
        })
    }

    #[test]
    fn only_the_platform_itself_can_refuse_a_reply_for_good() {
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
            let failure = failure(Deed::Send, &refused(status, json, ""));
            assert_eq!(failure.class, class, "{status} {json}");
        }
        let tenant = refused(400, true, r#"{"required_header":"X-Molecule-Org-Id"}"#);
        assert_eq!(failure(Deed::Send, &tenant).class, Class::Config);
        let reset = CallError::Broken("reset".to_owned());
        assert_eq!(failure(Deed::Send, &reset).class, Class::Ambiguous);
        assert_eq!(failure(Deed::Fetch, &reset).class, Class::Transient);
    }
}
