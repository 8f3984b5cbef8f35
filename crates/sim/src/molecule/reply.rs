//! Answers as HTTP: whole, cut off, cut in the middle, or one byte at a time.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::limiter::Standing;
use super::wire::{Answer, Content};

/// An answer as the platform sends it.
pub(super) fn render(answer: Answer, standing: Option<Standing>) -> Response {
    let (kind, bytes) = bytes_of(&answer.content);
    dress(&answer, standing, kind, Body::from(bytes))
}

/// One byte, a pause, one byte, until everything is out or the platform goes down.
pub(super) fn trickle(answer: Answer, pause: Duration, stop: CancellationToken) -> Response {
    let (kind, bytes) = bytes_of(&answer.content);
    let body = stream::unfold((0, bytes, stop), move |(at, bytes, stop)| async move {
        let byte = bytes.slice(at..bytes.len().min(at + 1));
        if byte.is_empty() {
            return None;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return None,
        }
        Some((Ok::<_, io::Error>(byte), (at + 1, bytes, stop)))
    });
    dress(&answer, None, kind, Body::from_stream(body))
}

/// The first half, and then the connection is gone.
pub(super) fn reset_mid_body(answer: Answer) -> Response {
    let (kind, bytes) = bytes_of(&answer.content);
    let half = bytes.slice(..bytes.len() / 2);
    let body = stream::iter([Ok(half), Err(broken())]);
    dress(&answer, None, kind, Body::from_stream(body))
}

/// Ends the connection without a byte of an answer: a body that fails at once is never flushed.
pub(super) fn cut() -> Response {
    let body = stream::once(async { Err::<Bytes, _>(broken()) });
    Body::from_stream(body).into_response()
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut")
}

fn bytes_of(content: &Content) -> (Option<&str>, Bytes) {
    const JSON: Option<&str> = Some("application/json; charset=utf-8");
    match content {
        Content::Json(value) => (JSON, Bytes::from(value.to_string())),
        Content::Broken(text) => (JSON, Bytes::from(text.clone())),
        Content::Text(text) => (Some("text/plain"), Bytes::from(text.clone())),
        Content::Html(text) => (Some("text/html"), Bytes::from(text.clone())),
        Content::File {
            name: _,
            media_type,
            bytes,
        } => (Some(media_type), bytes.clone()),
        Content::Empty => (None, Bytes::new()),
    }
}

fn dress(answer: &Answer, standing: Option<Standing>, kind: Option<&str>, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let mut put = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    if let Some(kind) = kind {
        put(header::CONTENT_TYPE.as_str(), kind);
    }
    if let Content::File { name, .. } = &answer.content {
        let file = format!("attachment; filename=\"{name}\"");
        put(header::CONTENT_DISPOSITION.as_str(), &file);
    }
    if let Some(seconds) = answer.retry_after {
        put(header::RETRY_AFTER.as_str(), &seconds.to_string());
    }
    match standing {
        None => put("x-ratelimit-limit", "unlimited"),
        Some(standing) => {
            put("x-ratelimit-limit", &standing.limit.to_string());
            put("x-ratelimit-remaining", &standing.left.to_string());
            put("x-ratelimit-reset", &standing.reset.to_string());
        }
    }
    response
}
