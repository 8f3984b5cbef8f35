//! Web Push: a message to a browser through its push service (RFC 8030), which can't read it (RFC 8291) and knows who
//! sends (RFC 8292, VAPID).

mod encrypt;
mod vapid;

pub use encrypt::{BrowserKeys, KeyError};
pub use vapid::{VapidError, VapidKey};

use crate::guard::AddressGuard;
use crate::guarded_post::GuardedPost;
use crate::poll::now;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bridge_core::value::{Class, Failure};
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use reqwest::{StatusCode, Url};
use sha2::{Digest, Sha256};
use std::time::Duration;

const TTL: HeaderName = HeaderName::from_static("ttl");
const URGENCY: HeaderName = HeaderName::from_static("urgency");
const TOPIC: HeaderName = HeaderName::from_static("topic");
/// Characters that a topic may have.
const TOPIC_CHARS: usize = 32;
/// Longest text: every push service takes 4096 bytes, of which header, key and seal take 103.
pub const TEXT_MAX_BYTES: usize = 3_993;

/// Sends to browsers.
#[derive(Clone, Debug)]
pub struct WebPush {
    post: GuardedPost,
    /// Where the operator of a push service reaches whoever runs this: an `https:` or `mailto:` address.
    contact: String,
}

/// What is sent to a browser.
#[derive(Clone, Copy, Debug)]
pub struct PushMessage<'a> {
    pub text: &'a str,
    /// How long the push service keeps it for a browser that is away.
    pub keep: Duration,
    pub urgency: Urgency,
    /// A message replaces one of the same topic that was not delivered yet.
    pub topic: &'a str,
}

/// Whether a device on battery is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    Normal,
    High,
}

/// Why a browser was not sent something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushFailure {
    pub failure: Failure,
    /// It is no longer subscribed.
    pub is_gone: bool,
}

impl From<Failure> for PushFailure {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            is_gone: false,
        }
    }
}

impl WebPush {
    /// Sends behind a guard: endpoints come from browsers.
    #[must_use]
    pub fn new(guard: AddressGuard, contact: String) -> Self {
        Self {
            post: GuardedPost::new(guard, "the push service"),
            contact,
        }
    }

    /// Why an endpoint can't be one; asked when it is named, and again at every call.
    pub fn check(&self, endpoint: &str) -> Result<(), String> {
        self.post.check(endpoint).map(drop)
    }

    /// Sends one message once.
    pub async fn send(
        &self,
        endpoint: &str,
        keys: &BrowserKeys,
        vapid: &VapidKey,
        message: PushMessage<'_>,
    ) -> Result<(), PushFailure> {
        let url = self.post.check(endpoint);
        let url = url.map_err(|reason| Failure::new(Class::Permanent, reason))?;
        let body = keys.encrypt(message.text.as_bytes());
        let body = body.map_err(|error| Failure::new(Class::Permanent, error.to_string()))?;
        let headers = self.headers(&url, vapid, message)?;
        let posted = self.post.post_bytes(endpoint, headers, body).await;
        posted.map_err(|refused| PushFailure {
            is_gone: matches!(
                refused.status,
                Some(StatusCode::NOT_FOUND | StatusCode::GONE)
            ),
            failure: refused.failure,
        })
    }

    fn headers(
        &self,
        url: &Url,
        vapid: &VapidKey,
        message: PushMessage<'_>,
    ) -> Result<HeaderMap, Failure> {
        let audience = url.origin().ascii_serialization();
        let signed = vapid.authorization(&audience, &self.contact, now().0.div_euclid(1_000));
        let signed = signed.map_err(|error| Failure::new(Class::Transient, error.to_string()))?;
        let mut signed = header(&signed)?;
        signed.set_sensitive(true);
        let urgency = match message.urgency {
            Urgency::Normal => "normal",
            Urgency::High => "high",
        };
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, signed);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("aes128gcm"));
        let octets = HeaderValue::from_static("application/octet-stream");
        headers.insert(CONTENT_TYPE, octets);
        headers.insert(TTL, HeaderValue::from(message.keep.as_secs()));
        headers.insert(URGENCY, HeaderValue::from_static(urgency));
        headers.insert(TOPIC, header(&topic(message.topic))?);
        Ok(headers)
    }
}

fn header(text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text)
        .map_err(|error| Failure::new(Class::Bug, format!("a header of a push: {error}")))
}

/// A hash, because push services see it.
fn topic(name: &str) -> String {
    let mut topic = URL_SAFE_NO_PAD.encode(Sha256::digest(name.as_bytes()));
    topic.truncate(TOPIC_CHARS);
    topic
}

#[cfg(test)]
mod tests;
