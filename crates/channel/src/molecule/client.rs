//! Calls to the platform: who we are in the headers, a deadline for each, capped answers, no redirects, no proxy.
//! What a failure means for a message is in `failure`.

use crate::http::{
    ANSWER_MAX_BYTES, HttpError, accept, body, client, is_json, parse, plain_client, root_cause,
};
use crate::molecule::token::{TokenError, WorkspaceToken};
use crate::molecule::wire::{
    FeedPage, Heartbeat, NewAttachment, NewBubble, NewMessage, Registered, Row, Stamp,
};
use crate::molecule::{OpenError, Settings};
use crate::secret::Secret;
use reqwest::header::{AUTHORIZATION, HeaderValue, ORIGIN};
use reqwest::{Client as Http, Method, RequestBuilder, Response, Url};
use serde_json::json;
use serde_json::value::RawValue;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How long a call may take, from its start to the end of its answer.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// How long a bubble may take: the platform tells everybody who looks on before it answers.
const NOTIFY_DEADLINE: Duration = Duration::from_secs(30);
/// How long a peer may take: one that is pushed to works before it answers.
const PEER_DEADLINE: Duration = Duration::from_secs(300);
/// How long a page may take.
const PAGE_DEADLINE: Duration = Duration::from_secs(30);
/// Rows that are fetched at once.
pub(crate) const PAGE_ROWS: usize = 50;
/// Rows that a quick look fetches at once, the most that the platform gives: a page is one snapshot, so the more of
/// what just came is in one, the less has to be read again.
pub(crate) const QUICK_PAGE_ROWS: usize = 500;
/// The longest page: room for one text of the longest kind, escaped at its worst. A page that is longer is fetched
/// again with fewer rows.
pub(crate) const PAGE_MAX_BYTES: usize = 16 << 20;
/// How much is read of a single row that is longer than a page may be.
const HEAD_BYTES: usize = 64 << 10;

/// How the platform is reached, which decides whom its canvas can be trusted to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Over TLS.
    Tls,
    /// On this machine.
    Loopback,
    /// In the clear over a network: anyone on the way can listen and write.
    Plain,
}

/// Why the address of a platform can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL.
    #[error("is no URL ({0}); write something like \"https://platform.example.com\"")]
    Form(String),
    /// Something that is no address of a platform.
    #[error(
        "is no address of a platform: it must be http or https, without a user, a query or a fragment"
    )]
    Unfit,
}

/// Reads the address of a platform, and says how it is reached.
pub fn check_url(text: &str) -> Result<(Url, Reach), UrlError> {
    let url = Url::parse(text.trim()).map_err(|error| UrlError::Form(error.to_string()))?;
    let bare = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && url.host_str().is_some();
    let reach = match url.scheme() {
        "https" => Reach::Tls,
        "http" if is_local(&url) => Reach::Loopback,
        "http" => Reach::Plain,
        _ => return Err(UrlError::Unfit),
    };
    if bare {
        Ok((url, reach))
    } else {
        Err(UrlError::Unfit)
    }
}

/// `localhost` counts: [`Client`] does not let anybody else resolve it.
fn is_local(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address: Option<IpAddr> = bare.parse().ok();
        host == LOCALHOST || address.is_some_and(|address| address.is_loopback())
    })
}

const LOCALHOST: &str = "localhost";

/// Which rows of the feed are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedQuery {
    /// After this row, oldest first.
    pub(crate) since_id: Option<String>,
    /// Before this time, newest first.
    pub(crate) before: Option<Stamp>,
    /// Not older than this.
    pub(crate) since_secs: Option<u64>,
    /// Only what the canvas shows.
    pub(crate) canvas: bool,
}

/// A client of one platform, for one workspace.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: Http,
    base: Url,
    origin: HeaderValue,
    own: HeaderValue,
    org: Option<HeaderValue>,
    workspace: Arc<str>,
    token: Arc<WorkspaceToken>,
}

impl Client {
    pub(crate) fn new(settings: &Settings, workspace: &str) -> Result<Self, OpenError> {
        let (base, reach) = check_url(&settings.platform_url).map_err(OpenError::Url)?;
        let builder = match reach {
            Reach::Tls => client().https_only(true),
            Reach::Loopback => plain_client().resolve_to_addrs(
                LOCALHOST,
                &[
                    SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                    SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
                ],
            ),
            Reach::Plain if settings.allow_http => plain_client(),
            Reach::Plain => return Err(OpenError::NotSecret),
        };
        let http = builder
            .build()
            .map_err(|error| OpenError::Client(root_cause(&error)))?;
        let header =
            |text: &str, what| HeaderValue::from_str(text).map_err(|_| OpenError::Header { what });
        Ok(Self {
            http,
            origin: header(
                &base.origin().ascii_serialization(),
                "the platform's address",
            )?,
            own: header(workspace, "the workspace id")?,
            org: settings
                .org_id
                .as_deref()
                .map(|org| header(org, "the organisation id"))
                .transpose()?,
            workspace: workspace.into(),
            token: Arc::new(WorkspaceToken::open(settings.token.clone())?),
            base,
        })
    }

    /// One page of the feed.
    pub(crate) async fn feed(&self, feed: &FeedQuery, limit: usize) -> Result<FeedPage, HttpError> {
        let response = accept(self.feed_call(feed, limit)).await?;
        let date = Stamp::of_date(response.headers());
        let bytes = body(response, PAGE_MAX_BYTES).await?;
        let rows: Vec<Box<RawValue>> = parse(&bytes)?;
        Ok(FeedPage {
            rows: rows.iter().map(|raw| Row::split(raw)).collect(),
            date,
        })
    }

    /// The first row of a page, as far as it can be known when it is longer than a page may be.
    pub(crate) async fn feed_head(&self, feed: &FeedQuery) -> Result<Row, HttpError> {
        let mut response = accept(self.feed_call(feed, 1)).await?;
        let mut head = Vec::new();
        while head.len() < HEAD_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => head.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return Err(HttpError::Broken(root_cause(&error))),
            }
        }
        Ok(Row::of_head(&head))
    }

    fn feed_call(&self, feed: &FeedQuery, limit: usize) -> RequestBuilder {
        let mut url = self.own_path(&["activity"]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("type", "a2a_receive");
            query.append_pair("limit", &limit.to_string());
            if let Some(row) = &feed.since_id {
                query.append_pair("since_id", row);
            }
            if let Some(before) = feed.before {
                query.append_pair("before_ts", &before.to_string());
            }
            if let Some(seconds) = feed.since_secs {
                query.append_pair("since_secs", &seconds.to_string());
            }
            if feed.canvas {
                query.append_pair("source", "canvas");
            }
        }
        self.call(Method::GET, url).timeout(PAGE_DEADLINE)
    }

    /// Tells the platform which rows it may forget.
    pub(crate) async fn acknowledge(&self, seq: i64) -> Result<(), HttpError> {
        let call = self.post(&["activity", "ack"]);
        let call = call.json(&json!({ "acked_seq": seq }));
        taken(call.timeout(CALL_DEADLINE)).await.map(drop)
    }

    /// Shows a bubble on the canvas.
    pub(crate) async fn notify(
        &self,
        text: &str,
        attachments: &[NewAttachment],
    ) -> Result<(), HttpError> {
        let bubble = NewBubble {
            message: text,
            attachments,
        };
        let call = self.post(&["notify"]).json(&bubble);
        taken(call.timeout(NOTIFY_DEADLINE)).await.map(drop)
    }

    /// Sends a message to a peer.
    pub(crate) async fn message(
        &self,
        peer: &str,
        message: &NewMessage<'_>,
    ) -> Result<(), HttpError> {
        let call = self
            .post_to(&["workspaces", peer, "a2a"])
            .json(&message.json());
        taken(call.timeout(PEER_DEADLINE)).await.map(drop)
    }

    /// Says that we are here.
    pub(crate) async fn heartbeat(&self, beat: &Heartbeat<'_>) -> Result<Registered, HttpError> {
        let call = self.post_to(&["registry", "heartbeat"]).json(beat);
        let bytes = taken(call.timeout(CALL_DEADLINE)).await?;
        // It was heard, whatever it says beside that.
        Ok(parse(&bytes).unwrap_or_default())
    }

    /// What the platform says of our workspace. It needs no token, so it is the one that knows of a removal.
    pub(crate) async fn workspace(&self) -> Result<(), HttpError> {
        taken(self.get(&[]).timeout(CALL_DEADLINE)).await.map(drop)
    }

    /// Opens the stream of events; the caller watches the time.
    pub(crate) async fn events(&self) -> Result<Response, HttpError> {
        accept(self.get(&["events", "stream"])).await
    }

    /// A call to something of our workspace, with the headers that say who we are; it has no deadline yet.
    pub(crate) fn get(&self, path: &[&str]) -> RequestBuilder {
        self.call(Method::GET, self.own_path(path))
    }

    /// As [`Client::get`], to change something.
    pub(crate) fn post(&self, path: &[&str]) -> RequestBuilder {
        self.call(Method::POST, self.own_path(path))
    }

    /// As [`Client::post`], outside our workspace.
    pub(crate) fn post_to(&self, path: &[&str]) -> RequestBuilder {
        self.call(Method::POST, self.path(path))
    }

    pub(crate) fn workspace_id(&self) -> &str {
        &self.workspace
    }

    /// Looks for a new token; `true` when there is one.
    pub(crate) fn look_for_token(&self) -> Result<bool, TokenError> {
        self.token.look_again()
    }

    pub(crate) fn token_place(&self) -> String {
        self.token.place()
    }

    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.token.secrets()
    }

    fn call(&self, method: Method, url: Url) -> RequestBuilder {
        let mut call = self
            .http
            .request(method, url)
            .header(AUTHORIZATION, self.token.header())
            .header(ORIGIN, self.origin.clone())
            .header("X-Workspace-ID", self.own.clone());
        if let Some(org) = &self.org {
            call = call.header("X-Molecule-Org-Id", org.clone());
        }
        call
    }

    fn own_path(&self, path: &[&str]) -> Url {
        let own = ["workspaces", &*self.workspace];
        self.path(&[own.as_slice(), path].concat())
    }

    /// Each segment is escaped: nothing in it can lead elsewhere.
    fn path(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

/// Makes a call whose answer only has to be the platform's own: JSON.
async fn taken(call: RequestBuilder) -> Result<Vec<u8>, HttpError> {
    let response = accept(call).await?;
    if !is_json(&response) {
        let said = "it is no JSON, so somebody in front of the platform may have spoken";
        return Err(HttpError::Unreadable(said.to_owned()));
    }
    // A peer's own answer may be long; it was taken all the same.
    match body(response, ANSWER_MAX_BYTES).await {
        Err(HttpError::TooLong(_)) => Ok(Vec::new()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_url_determines_transport() {
        for (text, reach) in [
            ("https://platform.example.com", Reach::Tls),
            ("https://platform.example.com/tenant/", Reach::Tls),
            ("http://127.0.0.1:8080", Reach::Loopback),
            ("http://localhost:8080/", Reach::Loopback),
            ("http://[::1]:9", Reach::Loopback),
            ("http://10.0.0.1", Reach::Plain),
            ("http://localhost.example.com", Reach::Plain),
            ("http://127.0.0.1.example.com", Reach::Plain),
        ] {
            assert_eq!(check_url(text).map(|(_, reach)| reach), Ok(reach), "{text}");
        }
        for bad in [
            "",
            "platform.example.com",
            "ftp://platform.example.com",
            "unix:/tmp/x",
            "https://user@platform.example.com",
            "https://user:secret@platform.example.com",
            "https://platform.example.com/?q",
            "https://platform.example.com/#f",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }
}
