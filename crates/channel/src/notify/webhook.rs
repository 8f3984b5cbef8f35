//! One signed call to an address that a caller named. What comes back is a status and nothing else: the words of
//! whoever answers are neither read nor shown, because they may be those of a neighbour.

use super::sign::{SecretError, Signer};
use crate::fault::capacity_after;
use crate::guard::{Guard, Refusal, refusal};
use crate::http::root_cause;
use crate::molecule::Secret;
use crate::poll::now;
use bridge_core::value::{Class, Failure};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use reqwest::{Response, StatusCode, Url};
use std::path::PathBuf;

/// Calls webhooks.
#[derive(Clone, Debug)]
pub struct Webhook {
    guard: Guard,
    secret_file: Option<PathBuf>,
}

/// What is delivered. The id is the same for every try, so that a receiver can drop what it has.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Stable for what is told.
    pub id: &'a str,
    /// JSON.
    pub body: &'a str,
}

impl Webhook {
    /// Webhooks behind a guard, signed with what the file holds.
    #[must_use]
    pub fn new(guard: Guard, secret_file: Option<PathBuf>) -> Self {
        Self { guard, secret_file }
    }

    /// Why an address can't be a target; asked when it is named, and again at every call.
    pub fn check(&self, url: &str) -> Result<(), String> {
        self.guard
            .check(url)
            .map_err(|refusal| format!("the webhook's address {refusal}"))?;
        self.signer().map(drop).map_err(|failure| failure.reason)
    }

    /// The secrets in force: no text may carry them.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        let signer = self.secret_file.as_deref().map(Signer::open);
        signer
            .and_then(Result::ok)
            .map_or_else(Vec::new, |signer| signer.secrets())
    }

    /// Calls an address once.
    pub async fn deliver(&self, url: &str, delivery: Delivery<'_>) -> Result<(), Failure> {
        let url = self.guard.check(url).map_err(refused)?;
        let seconds = now().0.div_euclid(1_000);
        let signature = self
            .signer()?
            .sign(delivery.id, seconds, delivery.body.as_bytes());
        let client = self
            .guard
            .client(&url)
            .map_err(|error| Failure::new(Class::Config, cannot(&root_cause(&error))))?;
        let call = client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(
                USER_AGENT,
                concat!("codex-bridge/", env!("CARGO_PKG_VERSION")),
            )
            .header("webhook-id", delivery.id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(delivery.body.to_owned());
        match call.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(answered(&response)),
            Err(error) => Err(broken(&error, &url)),
        }
    }

    fn signer(&self) -> Result<Signer, Failure> {
        let path = self.secret_file.as_deref().ok_or_else(|| {
            let reason = "webhooks are signed, and there is no secret: name a file of mode 0600 with a line `whsec_…` in notify.webhook_secret_file";
            Failure::new(Class::Config, reason)
        })?;
        Signer::open(path)
            .map_err(|error: SecretError| Failure::new(Class::Config, error.to_string()))
    }
}

fn cannot(why: &str) -> String {
    format!("the webhook could not be called: {why}")
}

fn refused(refusal: Refusal) -> Failure {
    Failure::new(Class::Permanent, format!("the webhook's address {refusal}"))
}

/// Only the status counts, and when it says to come back.
fn answered(response: &Response) -> Failure {
    let status = response.status();
    let said = format!("the webhook answered {status}");
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let class = match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            capacity_after(retry_after, now())
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Class::Config,
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY => {
            Class::Transient
        }
        status if status.is_redirection() => {
            let reason = format!("{said}: redirects are not followed, name the last address");
            return Failure::new(Class::Permanent, reason);
        }
        status if status.is_client_error() => Class::Permanent,
        // A repeat carries the same id, so doubt costs nothing.
        _ => Class::Transient,
    };
    Failure::new(class, said)
}

fn broken(error: &reqwest::Error, url: &Url) -> Failure {
    match refusal(error) {
        Some(refusal) => {
            let host = url.host_str().unwrap_or_default();
            let reason = format!("the webhook's host {host} {refusal}");
            Failure::new(Class::Permanent, reason)
        }
        None if error.is_timeout() => {
            Failure::new(Class::Ambiguous, cannot("it did not answer in time"))
        }
        None if error.is_connect() => Failure::new(Class::Transient, cannot(&root_cause(error))),
        None => Failure::new(Class::Ambiguous, cannot(&root_cause(error))),
    }
}

#[cfg(test)]
mod tests;
