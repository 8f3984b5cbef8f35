//! Calls to the loopback platform: a deadline for each, capped answers, no redirects, no proxy.
//! What a failure means for a message is `fault`'s business.

use super::wire::{Inbox, NewAck, NewReply, Receipt};
use crate::http::{ANSWER_MAX_BYTES, CallError, accept, body, plain_client, read, root_cause};
use reqwest::{Client as Http, Url};
use std::time::Duration;

/// How long a call may take, from its start to the end of its answer.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// How long the inbox may keep us waiting for news.
const INBOX_WAIT: Duration = Duration::from_secs(10);
/// Rows that are fetched at once.
pub(super) const INBOX_ROWS: usize = 100;
/// The longest answer of the inbox: room for one text of the longest kind, escaped at its worst. A page that is
/// longer is fetched again with fewer rows.
const INBOX_MAX_BYTES: usize = 16 << 20;

/// Why the address of a platform can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL.
    #[error("is no URL ({0}); write something like \"http://127.0.0.1:8080\"")]
    Form(String),
    /// Not plain HTTP on this machine.
    #[error(
        "is {0}; this channel only speaks http to an address of this machine such as \"http://127.0.0.1:8080\""
    )]
    NotLoopback(String),
}

/// Reads the address of a platform: plain HTTP is only for this machine, where nobody can listen.
pub fn check_url(text: &str) -> Result<Url, UrlError> {
    let url = Url::parse(text).map_err(|error| UrlError::Form(error.to_string()))?;
    // The address itself, not a name: names are resolved, and by others.
    let address: Option<std::net::IpAddr> = url.host_str().and_then(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse().ok()
    });
    let local = address.is_some_and(|address| address.is_loopback());
    let bare = url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if url.scheme() == "http" && local && bare {
        Ok(url)
    } else {
        Err(UrlError::NotLoopback(format!("{text:?}")))
    }
}

/// A client of one platform.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: Http,
    base: Url,
}

impl Client {
    pub(super) fn new(base: Url) -> Result<Self, CallError> {
        let http = plain_client()
            .build()
            .map_err(|error| CallError::Unreached(root_cause(&error)))?;
        Ok(Self { http, base })
    }

    pub(super) async fn inbox(&self, rows: usize, mark: Option<u64>) -> Result<Inbox, CallError> {
        let mut url = self.path("inbox");
        url.query_pairs_mut()
            .append_pair("limit", &rows.to_string());
        if let Some(mark) = mark {
            url.query_pairs_mut()
                .append_pair("wait", &INBOX_WAIT.as_millis().to_string())
                .append_pair("mark", &mark.to_string());
        }
        let call = self
            .http
            .get(url)
            .timeout(CALL_DEADLINE.saturating_add(INBOX_WAIT));
        read(call, INBOX_MAX_BYTES).await
    }

    pub(super) async fn reply(&self, reply: &NewReply<'_>) -> Result<Receipt, CallError> {
        let call = self.http.post(self.path("replies")).json(reply);
        read(call.timeout(CALL_DEADLINE), ANSWER_MAX_BYTES).await
    }

    pub(super) async fn probe(&self, key: &str) -> Result<Receipt, CallError> {
        let mut url = self.path("replies");
        url.query_pairs_mut().append_pair("key", key);
        read(self.http.get(url).timeout(CALL_DEADLINE), ANSWER_MAX_BYTES).await
    }

    pub(super) async fn acknowledge(&self, row: &str) -> Result<(), CallError> {
        let call = self.http.post(self.path("acks")).json(&NewAck { row });
        let response = accept(call.timeout(CALL_DEADLINE)).await?;
        body(response, ANSWER_MAX_BYTES).await.map(drop)
    }

    fn path(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_loopback_http_urls() {
        for good in [
            "http://127.0.0.1:8080",
            "http://127.9.9.9:1/",
            "http://[::1]:9",
        ] {
            assert!(check_url(good).is_ok(), "{good}");
        }
        for bad in [
            "https://127.0.0.1:8080",
            "http://localhost:8080",
            "http://10.0.0.1",
            "http://example.com",
            "http://0.0.0.0:1",
            "http://127.0.0.1@example.com/",
            "http://user:secret@127.0.0.1/",
            "http://127.0.0.1/path",
            "http://127.0.0.1/?q",
            "ftp://127.0.0.1",
            "unix:/tmp/x",
            "127.0.0.1:80",
            "",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }
}
