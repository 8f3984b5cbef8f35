//! Spans for a receiver of OpenTelemetry: OTLP over HTTP, with JSON.
//!
//! A request is sent once. Whether it is sent again, and what waits meanwhile, is the caller's business.

mod json;

use self::json::ExportResponse;
use crate::http::{HttpError, accept, body, client, plain_client};
use crate::secret::SecretFile;
use bridge_core::trace::Span;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use std::path::PathBuf;
use std::time::Duration;

/// Where spans go below a receiver's address.
const PATH: &str = "/v1/traces";
/// How long one request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const ANSWER_MAX_BYTES: usize = 64 << 10;
/// The longest file with a header.
const HEADER_MAX_BYTES: u64 = 8 << 10;

/// The way to a receiver.
#[derive(Debug)]
pub struct OtlpExporter {
    client: Client,
    url: Url,
    header_file: Option<PathBuf>,
    resource: Vec<(&'static str, String)>,
}

/// Why spans did not arrive, or may not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The same request may be taken later.
    #[error("the receiver of traces does not take spans now: {0}")]
    Later(String),
    #[error("the receiver of traces refuses these spans: {0}")]
    Refused(String),
}

/// Why nothing can be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    #[error(
        "{0:?} is no address of a receiver of OTLP over HTTP: write one such as \"http://127.0.0.1:4318\""
    )]
    Url(String),
    #[error("the header for the receiver of traces can't be used: {path}: {why}", path = .path.display())]
    Header { path: PathBuf, why: String },
    #[error("calls to the receiver of traces can't be made: {0}")]
    Client(String),
}

/// Where a receiver takes spans: its address with OTLP's path, unless it has that already.
pub fn traces_url(address: &str) -> Result<Url, SetupError> {
    let no_url = || SetupError::Url(address.to_owned());
    let mut url = Url::parse(address.trim()).map_err(|_| no_url())?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !is_plain {
        return Err(no_url());
    }
    if !url.path().ends_with(PATH) {
        let path = format!("{}{PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

impl OtlpExporter {
    /// `header_file` holds one HTTP header, such as `Authorization: Basic …`; it is read for every request.
    pub fn new(
        address: &str,
        header_file: Option<PathBuf>,
        resource: Vec<(&'static str, String)>,
    ) -> Result<Self, SetupError> {
        let url = traces_url(address)?;
        let client = match url.scheme() {
            "https" => client(),
            _ => plain_client(),
        };
        let client = client.timeout(DEADLINE).build();
        Ok(Self {
            client: client.map_err(|error| SetupError::Client(error.to_string()))?,
            url,
            header_file,
            resource,
        })
    }

    /// Sends spans; says how many of them the receiver did not take for good.
    pub async fn export(&self, spans: &[Span]) -> Result<u64, ExportError> {
        let request = json::request(&self.resource, spans);
        let mut call = self.client.post(self.url.clone());
        if let Some((name, value)) = self.header()? {
            call = call.header(name, value);
        }
        let call = call
            .header(CONTENT_TYPE, "application/json")
            .body(request.to_string());
        let answer = match accept(call).await {
            Ok(answer) => answer,
            Err(HttpError::Status(refused)) if !may_pass(refused.status) => {
                return Err(ExportError::Refused(refused.to_string()));
            }
            Err(error) => return Err(ExportError::Later(error.to_string())),
        };
        // They are taken, whatever can be read of the answer.
        let answer = body(answer, ANSWER_MAX_BYTES).await.unwrap_or_default();
        let answer: ExportResponse = serde_json::from_slice(&answer).unwrap_or_default();
        Ok(answer.rejected())
    }

    fn header(&self) -> Result<Option<(HeaderName, HeaderValue)>, SetupError> {
        let Some(path) = &self.header_file else {
            return Ok(None);
        };
        let unfit = |why: &str| SetupError::Header {
            path: path.clone(),
            why: why.to_owned(),
        };
        let file = SecretFile::read(path, HEADER_MAX_BYTES);
        let file = file.map_err(|error| unfit(&error.to_string()))?;
        if !file.is_private {
            return Err(unfit("others can read it; run `chmod 600` on it"));
        }
        let header = file.text.trim().split_once(':').and_then(|(name, value)| {
            let name: HeaderName = name.trim().parse().ok()?;
            let mut value: HeaderValue = value.trim().parse().ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let no_header = || unfit("it holds no header such as `Authorization: Basic …`");
        header.map(Some).ok_or_else(no_header)
    }
}

/// The answers after which OTLP sends the same again.
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_gets_otlp_path_once() {
        let url = |text: &str| traces_url(text).map(|url| url.to_string());
        let whole = "http://127.0.0.1:4318/v1/traces";
        assert_eq!(url("http://127.0.0.1:4318").as_deref(), Ok(whole));
        assert_eq!(url("http://127.0.0.1:4318/").as_deref(), Ok(whole));
        assert_eq!(url(whole).as_deref(), Ok(whole));
        let below = "https://otlp.example/tenant/v1/traces";
        assert_eq!(url("https://otlp.example/tenant/").as_deref(), Ok(below));
        for text in ["127.0.0.1:4318", "grpc://x:4317", "http://user:word@x/", ""] {
            assert!(url(text).is_err(), "{text}");
        }
    }
}
