//! HTTP calls of channels: a capped body, no redirect, an error that says how far the call got, and what such an error
//! means for a message.
//!
//! The one rule that must never bend: once a reply's bytes may have left, only a clear answer of the platform says that it
//! was not taken. Which clear answers there are is each channel's business.

use bridge_core::limits::clip;
use bridge_core::secrets::Secrets;
use bridge_core::value::{Class, Failure, Timestamp};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode, header, redirect};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::error::Error;
use std::time::Duration;

/// How long connecting may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// The longest answer of a call whose answer is no page.
pub(crate) const ANSWER_MAX_BYTES: usize = 64 << 10;
/// How much of a refusal is quoted.
const QUOTE_MAX_CHARS: usize = 200;

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    /// Nobody was there; nothing was sent.
    #[error("it can't be reached ({0})")]
    Unreached(String),
    /// It broke off somewhere on the way.
    #[error("the call broke off ({0})")]
    Broken(String),
    /// It said no.
    #[error("{0}")]
    Status(ErrorResponse),
    /// It said yes, in a form that we can't read.
    #[error("its answer can't be read ({0})")]
    Unreadable(String),
    /// It said yes, and did not stop talking.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
}

/// A clear no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it answered {status}{}", quoted(said))]
pub(crate) struct ErrorResponse {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<i64>,
    /// Whether its words are JSON. If not, somebody in front of the platform may have spoken.
    pub(crate) json: bool,
    /// Its own words, up to [`ANSWER_MAX_BYTES`]: some are read as JSON. What is shown of them is shortened.
    pub(crate) said: String,
}

impl HttpError {
    /// The response that refused the call, if there was one.
    pub(crate) fn response(&self) -> Option<&ErrorResponse> {
        match self {
            Self::Status(response) => Some(response),
            Self::Unreached(_) | Self::Broken(_) | Self::Unreadable(_) | Self::TooLong(_) => None,
        }
    }

    pub(crate) fn status(&self) -> Option<StatusCode> {
        self.response().map(|response| response.status)
    }
}

fn quoted(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!(" ({})", clip(said, QUOTE_MAX_CHARS))
    }
}

/// What all clients are: they go where the configuration says, through nobody else.
pub(crate) fn client() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_DEADLINE)
}

/// A client that never speaks TLS: it needs no roots, and machines without any must not stop it.
pub(crate) fn plain_client() -> ClientBuilder {
    client().tls_certs_only([])
}

/// Makes a call whose answer is JSON.
pub(crate) async fn read<T: DeserializeOwned>(
    call: RequestBuilder,
    max: usize,
) -> Result<T, HttpError> {
    let bytes = body(accept(call).await?, max).await?;
    parse(&bytes)
}

/// Reads JSON. What is wrong with it is said without quoting it.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, HttpError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let what = match error.classify() {
            Category::Data => "it is JSON, but not what was asked for",
            Category::Syntax | Category::Eof | Category::Io => "it is no JSON",
        };
        let (line, column) = (error.line(), error.column());
        HttpError::Unreadable(format!("{what}: line {line}, column {column}"))
    })
}

/// Makes a call; anything but success is an error.
pub(crate) async fn accept(call: RequestBuilder) -> Result<Response, HttpError> {
    let (client, request) = call.build_split();
    let request = request.map_err(|error| HttpError::Unreached(root_cause(&error)))?;
    let headers = request.headers().clone();
    let response = client.execute(request).await.map_err(|error| {
        let why = root_cause(&error);
        if error.is_connect() {
            HttpError::Unreached(why)
        } else {
            HttpError::Broken(why)
        }
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = retry_after(&response);
    let json = is_json(&response);
    // Its words are a courtesy; the status is what counts.
    let said = body(response, ANSWER_MAX_BYTES).await.unwrap_or_default();
    let said = without_our_token(&String::from_utf8_lossy(&said), &headers);
    Err(HttpError::Status(ErrorResponse {
        status,
        retry_after,
        json: json && !said.trim().is_empty(),
        said: said.trim().to_owned(),
    }))
}

/// Proxies quote the call that they refuse, and what is quoted here ends up in logs, in the status and in letters.
fn without_our_token(said: &str, headers: &HeaderMap) -> String {
    let header = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.split_whitespace().last());
    Secrets::new(token).redact(said).text
}

/// `Retry-After` in seconds; dates are not read.
pub(crate) fn retry_after(response: &Response) -> Option<i64> {
    let value = response.headers().get(header::RETRY_AFTER)?;
    value.to_str().ok()?.trim().parse().ok()
}

/// Whether an answer says that it is JSON.
pub(crate) fn is_json(response: &Response) -> bool {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.contains("json"))
}

/// Reads an answer up to a limit.
pub(crate) async fn body(mut response: Response, max: usize) -> Result<Vec<u8>, HttpError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= max => bytes.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(HttpError::TooLong(max)),
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(HttpError::Broken(root_cause(&error))),
        }
    }
}

/// The innermost reason says more than "error sending request".
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Longest time that `Retry-After` is believed: a day.
const RETRY_AFTER_MAX_SECS: i64 = 24 * 3_600;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A reply: to do it twice may show it twice.
    Send,
    /// Uploading a file of a reply: no reply names it yet, so nobody sees it twice.
    Upload,
    /// Asking for a receipt.
    Probe,
    /// Fetching: harmless to repeat.
    Fetch,
}

impl Operation {
    fn words(self) -> &'static str {
        match self {
            Self::Send => "the platform did not confirm this reply",
            Self::Upload => {
                "the platform did not take a file of this reply, which waits for it for a few tries"
            }
            Self::Probe => "the platform did not say whether this reply arrived",
            Self::Fetch => "the platform showed no messages",
        }
    }

    /// The class of "it may have happened": it matters only where happening twice is seen.
    pub(crate) fn if_unknown(self) -> Class {
        match self {
            Self::Send => Class::Ambiguous,
            Self::Upload | Self::Probe | Self::Fetch => Class::Transient,
        }
    }
}

/// A failed call in the core's words. `class_of` says what a channel knows about the platform's own answers: their class
/// and what to do.
pub(crate) fn failure(
    operation: Operation,
    error: &HttpError,
    class_of: impl FnOnce(&ErrorResponse) -> (Class, &'static str),
) -> Failure {
    let (class, remedy) = match error {
        HttpError::Unreached(_) => (Class::Transient, ""),
        HttpError::Broken(_) | HttpError::Unreadable(_) | HttpError::TooLong(_) => {
            (operation.if_unknown(), "")
        }
        HttpError::Status(refused) => class_of(refused),
    };
    Failure::new(class, format!("{}: {error}{remedy}", operation.words()))
}

/// The class of "not now", with what the platform said about when.
pub(crate) fn capacity(refused: &ErrorResponse, now: Timestamp) -> Class {
    capacity_after(refused.retry_after, now)
}

/// The same for an answer of which only `Retry-After` is known, in seconds.
pub(crate) fn capacity_after(retry_after: Option<i64>, now: Timestamp) -> Class {
    let until =
        |seconds: i64| now.plus_ms(seconds.clamp(0, RETRY_AFTER_MAX_SECS).saturating_mul(1_000));
    Class::Capacity {
        until: retry_after.map(until),
    }
}

/// The class of an answer that every HTTP server means alike.
pub(crate) fn of_status(operation: Operation, refused: &ErrorResponse, now: Timestamp) -> Class {
    match refused.status {
        StatusCode::TOO_MANY_REQUESTS => capacity(refused, now),
        StatusCode::UNAUTHORIZED => Class::Config,
        StatusCode::REQUEST_TIMEOUT => operation.if_unknown(),
        status if status.is_client_error() => Class::Permanent,
        status if status.is_server_error() => operation.if_unknown(),
        // Redirects are not followed: a reply goes where the configuration says.
        _ => Class::Config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    #[test]
    fn retry_after_is_clamped() {
        for (seconds, until) in [(7, 8_000), (-3, 1_000), (i64::MAX, 86_401_000)] {
            let until = Some(Timestamp(until));
            let class = capacity_after(Some(seconds), NOW);
            assert_eq!(class, Class::Capacity { until });
        }
    }

    #[test]
    fn only_a_reply_is_ever_ambiguous() {
        let refused = HttpError::Unreached("connection refused".to_owned());
        let class = |operation, error: &HttpError| {
            failure(operation, error, |refused| {
                (of_status(operation, refused, NOW), "")
            })
            .class
        };
        assert_eq!(class(Operation::Send, &refused), Class::Transient);
        let status = |code: u16| {
            HttpError::Status(ErrorResponse {
                status: StatusCode::from_u16(code).unwrap(),
                retry_after: None,
                json: true,
                said: String::new(),
            })
        };
        for error in [
            HttpError::Broken("timed out".to_owned()),
            HttpError::Unreadable("not JSON".to_owned()),
            HttpError::TooLong(7),
            status(500),
            status(503),
            status(408),
        ] {
            assert_eq!(class(Operation::Send, &error), Class::Ambiguous, "{error}");
            for harmless in [Operation::Upload, Operation::Probe, Operation::Fetch] {
                assert_eq!(class(harmless, &error), Class::Transient, "{error}");
            }
        }
    }
}
