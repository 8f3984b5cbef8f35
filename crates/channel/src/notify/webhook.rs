//! One signed call to an address that a caller named, as Standard Webhooks says.

use super::sign::{SecretError, Signer};
use crate::guard::AddressGuard;
use crate::guarded_post::{Delivery, GuardedPost};
use crate::poll::now;
use crate::secret::Secret;
use bridge_core::value::{Class, Failure};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::path::PathBuf;

/// Calls webhooks.
#[derive(Clone, Debug)]
pub struct Webhook {
    post: GuardedPost,
    secret_file: Option<PathBuf>,
}

impl Webhook {
    /// Webhooks behind a guard, signed with what the file holds.
    #[must_use]
    pub fn new(guard: AddressGuard, secret_file: Option<PathBuf>) -> Self {
        Self {
            post: GuardedPost::new(guard, "the webhook"),
            secret_file,
        }
    }

    /// Why an address can't be a target; asked when it is named, and again at every call.
    pub fn check(&self, url: &str) -> Result<(), String> {
        self.post.check(url)?;
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
        // A refused address goes before a missing secret: it stays refused.
        self.post
            .check(url)
            .map_err(|reason| Failure::new(Class::Permanent, reason))?;
        let seconds = now().0.div_euclid(1_000);
        let signature = self
            .signer()?
            .sign(delivery.id, seconds, delivery.body.as_bytes());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in [
            ("webhook-id", delivery.id),
            ("webhook-timestamp", seconds.to_string().as_str()),
            ("webhook-signature", signature.as_str()),
        ] {
            let value = HeaderValue::from_str(value).map_err(|error| {
                Failure::new(Class::Bug, format!("{name} is no header: {error}"))
            })?;
            headers.insert(HeaderName::from_static(name), value);
        }
        self.post.post(url, headers, delivery.body.to_owned()).await
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

#[cfg(test)]
mod tests;
