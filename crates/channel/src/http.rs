//! What every HTTP call of a channel has in common: a capped body, no redirect, and a failure that says how far the
//! call got. What a failure means for a message is `fault`'s business, which calls there are is each channel's.

use bridge_core::limits::clip;
use bridge_core::secrets::Secrets;
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
    /// The status of a clear no.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status(refused) => Some(refused.status),
            Self::Unreached(_) | Self::Broken(_) | Self::Unreadable(_) | Self::TooLong(_) => None,
        }
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
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
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
