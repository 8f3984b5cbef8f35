//! One A2A call: its version, content type, base URL and headers, read before the body is decoded.

use super::error::A2aError;
use super::task::{Detail, task};
use super::{extension, parse, rest};
use crate::api::{BodyError, BodyShare, Context, Gone, StreamPermit};
use crate::{A2aProfile, BridgeService, Caller, Via};
use a2a::Task;
use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use bridge_core::task::TaskSnapshot;
use tokio_util::sync::CancellationToken;

/// One call: who calls, from where, and what was said beside the request.
pub(crate) struct A2aCall<D> {
    pub(crate) context: Context<D>,
    pub(crate) caller: Caller,
    /// Where the caller reached us.
    pub(crate) base: String,
    /// The key from the header `Idempotency-Key`.
    pub(crate) key: Option<String>,
    pub(crate) version: ProtocolVersion,
    /// The number of the last event that a subscriber has who goes on behind it ([`extension::RESUME`]).
    pub(crate) after: Option<u64>,
    /// Set when the caller hung up: nobody waits for the answer.
    pub(crate) gone: CancellationToken,
    /// Holds the room of the body.
    pub(crate) room: Option<BodyShare>,
}

impl<D: BridgeService> A2aCall<D> {
    pub(super) fn new(context: Context<D>, caller: Caller, head: &Parts) -> Result<Self, A2aError> {
        let profile = context.service.a2a();
        if !profile.enabled {
            return Err(rest::off());
        }
        Ok(Self {
            version: version(&head.headers, &head.uri)?,
            base: base(&profile, &head.headers, &head.uri),
            key: key(&head.headers)?,
            after: after(&head.headers),
            gone: head
                .extensions
                .get::<Gone>()
                .map_or_else(CancellationToken::new, |gone| gone.0.clone()),
            room: head.extensions.get::<BodyShare>().cloned(),
            caller: Caller {
                via: Via::A2a,
                ..caller
            },
            context,
        })
    }

    /// The task as this caller sees it.
    pub(super) async fn render(&self, view: &TaskSnapshot, history: Option<i32>) -> Task {
        let detail = Detail {
            history,
            ..Detail::WHOLE
        };
        task(&self.context.service, &self.base, view, detail).await
    }

    /// A permit for a connection that stays open.
    pub(super) fn stream_permit(&self) -> Result<StreamPermit, A2aError> {
        self.context.stream_permit(&self.caller).ok_or_else(|| {
            let why = "too many calls wait or stream already; nothing was done, ask again later";
            A2aError::unavailable(why)
        })
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, A2aError> {
    let mut keys = headers.get_all("idempotency-key").iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => parse::key(key.to_str().ok(), "Idempotency-Key").map(Some),
        (Some(_), Some(_)) => Err(A2aError::invalid("Idempotency-Key", "is given twice")),
    }
}

/// The last event that a subscriber has. Used only with our resume extension: the specification promises the whole task
/// first to everybody else, and SSE libraries send this header by themselves.
fn after(headers: &HeaderMap) -> Option<u64> {
    let mut asked = headers.get_all("a2a-extensions").iter();
    let resumes = asked.any(|asked| {
        let asked = asked.to_str().unwrap_or_default();
        asked.split(',').any(|uri| uri.trim() == extension::RESUME)
    });
    if !resumes {
        return None;
    }
    let id = headers.get("last-event-id")?;
    id.to_str().ok()?.trim().parse().ok()
}

/// Header that names the version; accepted as a query parameter as well.
const VERSION: &str = "a2a-version";
const JSON: &str = "application/json";
const A2A_JSON: &str = "application/a2a+json";

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolVersion {
    V1,
    /// The default of clients that name no version.
    V03,
}

impl ProtocolVersion {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => a2a::VERSION,
            Self::V03 => super::legacy::VERSION,
        }
    }
}

/// The version that a request asks for. Patch numbers are ignored.
pub(crate) fn version(headers: &HeaderMap, uri: &Uri) -> Result<ProtocolVersion, A2aError> {
    let said = match headers.get(VERSION) {
        Some(value) => value.to_str().unwrap_or("?").trim().to_owned(),
        None => query(uri)
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(VERSION))
            .map_or_else(String::new, |(_, value)| value),
    };
    let mut numbers = said.split('.');
    match (numbers.next(), numbers.next()) {
        (Some(""), None) | (Some("0"), Some("3")) => Ok(ProtocolVersion::V03),
        (Some("1"), Some("0")) => Ok(ProtocolVersion::V1),
        (_, _) => Err(A2aError::version(&said)),
    }
}

/// The query parameters.
pub(crate) fn query(uri: &Uri) -> Vec<(String, String)> {
    axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_or_else(|_| Vec::new(), |pairs| pairs.0)
}

/// Reads a JSON body. Its content type is checked first.
pub(crate) async fn body(head: &Parts, body: Body) -> Result<Bytes, A2aError> {
    let said = head.headers.get(header::CONTENT_TYPE);
    if said.is_some_and(|said| !is_json(said)) {
        let said = said.and_then(|said| said.to_str().ok()).unwrap_or("?");
        return Err(A2aError::content_type(said));
    }
    // Set by the guard: bodies of unauthenticated requests are not read.
    let share = head.extensions.get::<BodyShare>();
    let share = share.ok_or_else(|| A2aError::internal("the request was not authenticated"))?;
    let bytes = share.read(body).await.map_err(unread)?;
    match said {
        None if !bytes.is_empty() => Err(A2aError::content_type("nothing")),
        None | Some(_) => Ok(bytes),
    }
}

fn unread(error: BodyError) -> A2aError {
    let why = error.to_string();
    match error {
        BodyError::TooLong | BodyError::TooManyValues => A2aError::too_large(why),
        BodyError::Revoked => A2aError::revoked_meanwhile(why),
        BodyError::Late | BodyError::Broken | BodyError::NoRoom => A2aError::unavailable(why),
    }
}

fn is_json(said: &HeaderValue) -> bool {
    let Ok(said) = said.to_str() else {
        return false;
    };
    let media = said.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case(JSON) || media.eq_ignore_ascii_case(A2A_JSON)
}

/// Content type of an HTTP+JSON answer: A2A's own for clients that use it, otherwise plain JSON.
pub(crate) fn media(headers: &HeaderMap) -> &'static str {
    let says = |name, wanted: &str| {
        let values = headers.get_all(name).iter();
        let mut texts = values.filter_map(|value| value.to_str().ok());
        texts.any(|text| text.to_ascii_lowercase().contains(wanted))
    };
    let wants = |media| says(header::ACCEPT, media);
    if wants(A2A_JSON) || (!wants(JSON) && says(header::CONTENT_TYPE, A2A_JSON)) {
        A2A_JSON
    } else {
        JSON
    }
}

/// Base URL of this server as the client reached it, without a trailing slash.
pub(crate) fn base(profile: &A2aProfile, headers: &HeaderMap, uri: &Uri) -> String {
    if let Some(url) = &profile.url {
        return url.trim_end_matches('/').to_owned();
    }
    let named = uri.authority().map(|authority| authority.as_str());
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    format!("http://{}", named.or(host).unwrap_or("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                let name = header::HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn versions_are_negotiated_and_never_guessed() {
        let plain = Uri::from_static("/a2a");
        for (said, version) in [
            ("1.0", Some(ProtocolVersion::V1)),
            ("1.0.1", Some(ProtocolVersion::V1)),
            ("", Some(ProtocolVersion::V03)),
            ("0.3", Some(ProtocolVersion::V03)),
            ("0.3.0", Some(ProtocolVersion::V03)),
            ("1", None),
            ("1.1", None),
            ("0.2", None),
            ("99.0", None),
            ("10.0", None),
        ] {
            let read = super::version(&headers(&[("a2a-version", said)]), &plain);
            assert_eq!(read.ok(), version, "{said:?}");
        }
        let none = HeaderMap::new();
        assert_eq!(super::version(&none, &plain), Ok(ProtocolVersion::V03));
        let behind = Uri::from_static("/a2a/tasks?A2A-Version=1.0&pageSize=2");
        assert_eq!(super::version(&none, &behind), Ok(ProtocolVersion::V1));
    }

    #[test]
    fn negotiates_response_media_type() {
        for (accept, content, called) in [
            ("*/*", "application/json", JSON),
            ("application/a2a+json", "application/json", A2A_JSON),
            ("*/*", "application/a2a+json", A2A_JSON),
            ("application/json", "application/a2a+json", JSON),
            ("text/event-stream", "application/json", JSON),
        ] {
            let headers = headers(&[("accept", accept), ("content-type", content)]);
            assert_eq!(media(&headers), called, "{accept} {content}");
        }
    }

    #[tokio::test]
    async fn rejects_non_json_content_types() {
        let read = |kind: Option<&'static str>, text: &'static str| async move {
            let mut request = axum::http::Request::post("/a2a");
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let (mut head, body) = request.body(Body::from(text)).unwrap().into_parts();
            head.extensions.insert(BodyShare::for_tests());
            super::body(&head, body).await.map(|bytes| bytes.len())
        };
        assert_eq!(
            read(Some("application/json; charset=utf-8"), "{}").await,
            Ok(2)
        );
        assert_eq!(read(Some("application/A2A+JSON"), "{}").await, Ok(2));
        assert_eq!(read(None, "").await, Ok(0));
        let refused = Err(A2aError::content_type("text/plain"));
        assert_eq!(read(Some("text/plain"), "{}").await, refused);
        assert!(read(None, "{}").await.is_err());
    }
}
