//! Push notifications of A2A: one POST to the address that an agent gave, with the token and credentials that it asked for.
//!
//! What is sent, when, and how often it is tried is decided in the core and the daemon.

use crate::guard::AddressGuard;
use crate::guarded_post::{GuardedPost, PostPayload};
use bridge_core::value::{Class, Failure};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::fmt;

/// The content type of a body for a 1.0 receiver.
const MEDIA_TYPE: &str = "application/a2a+json";
/// Carries the token of the receiver's own making.
const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// The same for every try of one piece of news, so that a receiver can drop what it has.
const ID: HeaderName = HeaderName::from_static("webhook-id");
/// Longest secret that a receiver may want to see again.
const SECRET_MAX_CHARS: usize = 4_096;

/// Calls the receivers of push notifications.
#[derive(Clone, Debug)]
pub struct Pusher {
    post: GuardedPost,
}

/// Where a push goes, and what shows there that it is ours.
#[derive(Clone, Copy)]
pub struct Receiver<'a> {
    /// The address.
    pub url: &'a str,
    /// A token of the receiver's own making.
    pub token: Option<&'a str>,
    /// An HTTP authentication scheme.
    pub scheme: Option<&'a str>,
    /// What that scheme is given.
    pub credentials: Option<&'a str>,
}

impl fmt::Debug for Receiver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl Pusher {
    /// Pushes behind a guard.
    #[must_use]
    pub fn new(guard: AddressGuard) -> Self {
        Self {
            post: GuardedPost::new(guard, "the receiver of push notifications").patient(),
        }
    }

    /// Why a receiver can't be one; asked when it is named, and again at every call.
    pub fn check(&self, to: Receiver<'_>) -> Result<(), String> {
        self.post.check(to.url)?;
        proofs(to).map(drop)
    }

    /// Calls a receiver once.
    pub async fn deliver(
        &self,
        to: Receiver<'_>,
        delivery: PostPayload<'_>,
    ) -> Result<(), Failure> {
        let mut headers = proofs(to).map_err(|reason| Failure::new(Class::Permanent, reason))?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        let id = HeaderValue::from_str(delivery.id)
            .map_err(|error| Failure::new(Class::Bug, format!("a push's id: {error}")))?;
        headers.insert(ID, id);
        self.post
            .post(to.url, headers, delivery.body.to_owned())
            .await
    }
}

/// The headers that show that it is ours; none of them is ever printed.
fn proofs(to: Receiver<'_>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    if let Some(token) = to.token.filter(|token| !token.is_empty()) {
        headers.insert(TOKEN, secret("token", token)?);
    }
    if let Some(scheme) = to.scheme.map(str::trim).filter(|scheme| !scheme.is_empty()) {
        if !scheme.chars().all(is_token_char) {
            return Err("the authentication scheme is no name of one".to_owned());
        }
        let value = match to.credentials.filter(|given| !given.is_empty()) {
            Some(given) => format!("{scheme} {given}"),
            None => scheme.to_owned(),
        };
        headers.insert(AUTHORIZATION, secret("credentials", &value)?);
    }
    Ok(headers)
}

/// RFC 9110, `tchar`.
fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

fn secret(what: &str, text: &str) -> Result<HeaderValue, String> {
    if text.chars().nth(SECRET_MAX_CHARS).is_some() {
        return Err(format!(
            "the {what} are longer than {SECRET_MAX_CHARS} characters"
        ));
    }
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| format!("the {what} hold what no HTTP header can carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
