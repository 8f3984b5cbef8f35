//! One POST to an address that a caller named, behind the [`AddressGuard`].
//!
//! Only the status of the response counts. Its body is neither read nor shown: it may come from a service of this network.
//! What is posted, and what proves that it is ours, is the caller's business.

use crate::guard::{AddressGuard, AddressRefusal, refusal};
use crate::http::{capacity_after, retry_after, root_cause};
use crate::poll::now;
use bridge_core::value::{Class, Failure};
use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Response, StatusCode, Url};

/// What is delivered. The id is the same for every try, so that a receiver can drop what it has.
#[derive(Clone, Copy, Debug)]
pub struct PostPayload<'a> {
    pub id: &'a str,
    pub body: &'a str,
}

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostRefused {
    /// What the other end said, if it was reached.
    pub(crate) status: Option<StatusCode>,
    pub(crate) failure: Failure,
}

impl From<Failure> for PostRefused {
    fn from(failure: Failure) -> Self {
        Self {
            status: None,
            failure,
        }
    }
}

/// Calls such addresses.
#[derive(Clone, Debug)]
pub(crate) struct GuardedPost {
    guard: AddressGuard,
    /// What people call the other end.
    what: &'static str,
    /// Whether a no may be mended at the other end; only one that is gone for good is given up at once then.
    patient: bool,
}

impl GuardedPost {
    pub(crate) fn new(guard: AddressGuard, what: &'static str) -> Self {
        Self {
            guard,
            what,
            patient: false,
        }
    }

    /// One whose other end is still being written, as other agents' often are.
    pub(crate) fn patient(self) -> Self {
        Self {
            patient: true,
            ..self
        }
    }

    /// Why an address is not called; asked when it is named, and again at every call.
    pub(crate) fn check(&self, url: &str) -> Result<Url, String> {
        let judged = self.guard.check(url);
        judged.map_err(|refusal| self.refused(&refusal))
    }

    /// Calls an address once.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: String,
    ) -> Result<(), Failure> {
        let posted = self.post_bytes(url, headers, body.into_bytes()).await;
        posted.map_err(|refused| refused.failure)
    }

    /// The same, and says what the other end answered.
    pub(crate) async fn post_bytes(
        &self,
        url: &str,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(), PostRefused> {
        let url = self
            .check(url)
            .map_err(|reason| Failure::new(Class::Permanent, reason))?;
        let client = self
            .guard
            .client(&url)
            .map_err(|error| Failure::new(Class::Config, self.cannot(&root_cause(&error))))?;
        let agent = concat!("codex-bridge/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let call = client.post(url.clone()).headers(headers).body(body);
        match call.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(PostRefused {
                status: Some(response.status()),
                failure: self.answered(&response),
            }),
            Err(error) => Err(self.broken(&error, &url).into()),
        }
    }

    fn cannot(&self, why: &str) -> String {
        format!("{} could not be called: {why}", self.what)
    }

    fn refused(&self, refusal: &AddressRefusal) -> String {
        format!("{}'s address {refusal}", self.what)
    }

    /// Only the status counts, and when it says to come back.
    fn answered(&self, response: &Response) -> Failure {
        let status = response.status();
        let said = format!("{} answered {status}", self.what);
        let class = match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                capacity_after(retry_after(response), now())
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Class::Config,
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY => {
                Class::Transient
            }
            status if status.is_redirection() => {
                let reason = format!("{said}: redirects are not followed, name the last address");
                return Failure::new(Class::Permanent, reason);
            }
            StatusCode::GONE => Class::Permanent,
            status if status.is_client_error() && self.patient => Class::Config,
            status if status.is_client_error() => Class::Permanent,
            // A repeat carries the same id, so an unknown outcome costs nothing.
            _ => Class::Transient,
        };
        Failure::new(class, said)
    }

    fn broken(&self, error: &reqwest::Error, url: &Url) -> Failure {
        match refusal(error) {
            Some(refusal) => {
                let host = url.host_str().unwrap_or_default();
                let reason = format!("{}'s host {host} {refusal}", self.what);
                Failure::new(Class::Permanent, reason)
            }
            None if error.is_timeout() => {
                Failure::new(Class::Ambiguous, self.cannot("it did not answer in time"))
            }
            None if error.is_connect() => {
                Failure::new(Class::Transient, self.cannot(&root_cause(error)))
            }
            None => Failure::new(Class::Ambiguous, self.cannot(&root_cause(error))),
        }
    }
}
