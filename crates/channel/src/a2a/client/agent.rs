//! The calls to one agent: through the guard, without redirects, with our token only where nobody on the way can read
//! it, and with a bound on everything that comes back.

use super::IDEMPOTENCY;
use super::call::{TRIES_MAX, pause_after};
use super::card::{self, Card};
use super::dialect::{AgentRequest, Interface};
use super::error::AgentCallError;
use crate::guard::{AddressGuard, check_origin};
use crate::http::{HttpError, accept, body, is_json, parse, root_cause};

use crate::poll::Backoff;
use crate::secret::{Secret, SecretFile, bearer};
use bridge_core::secrets::Secrets;
use bridge_core::value::TraceParent;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;
use std::collections::VecDeque;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a card or a word about a task may take.
pub(super) const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long one connection may last; a longer wait is a new one.
const CONNECTION_MAX: Duration = Duration::from_secs(3_600);
/// How long a stream may be silent before it counts as lost; living ones send a comment now and then.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// The longest card.
const CARD_MAX_BYTES: usize = 256 << 10;
/// The longest answer.
const ANSWER_MAX_BYTES: usize = 16 << 20;
/// The most that one connection brings.
const STREAM_MAX_BYTES: usize = 64 << 20;

/// Whom the operator trusts beyond public https addresses.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The operator wrote the agent's address himself, so it may be one of this network.
    pub own: bool,
    /// Origins that the operator listed: they may be of this network, a card may point to them, and a token may go
    /// there in the clear.
    pub listed: Vec<Url>,
}

/// Whom to call.
#[derive(Clone, Debug)]
pub struct AgentClient {
    url: Url,
    guard: AddressGuard,
    listed: AddressGuard,
    token_file: Option<PathBuf>,
}

/// An agent whose card was read.
#[derive(Clone, Debug)]
pub struct RemoteAgent {
    guard: AddressGuard,
    card: Card,
    authorization: Option<HeaderValue>,
    /// The span that what it does hangs under.
    trace: Option<TraceParent>,
    /// What no word of it that is quoted may hold.
    secrets: Secrets,
}

/// What we are known by at an agent.
struct Credentials {
    authorization: Option<HeaderValue>,
    secrets: Secrets,
}

impl AgentClient {
    /// An agent by its address or the address of its card.
    pub fn new(
        url: &str,
        trust: &Trust,
        token_file: Option<PathBuf>,
    ) -> Result<Self, AgentCallError> {
        let listed = AddressGuard::new(trust.listed.clone());
        let mut exempt = trust.listed.clone();
        if trust.own
            && let Ok(own) = Url::parse(url.trim())
        {
            let origin = own.origin().ascii_serialization();
            exempt.extend(check_origin(&origin).ok());
        }
        let guard = AddressGuard::new(exempt);
        Ok(Self {
            url: guard.check(url)?,
            guard,
            listed,
            token_file,
        })
    }

    /// Reads its card, also if the agent is away for a moment: what was asked before may be done there.
    pub async fn insist(&self) -> Result<RemoteAgent, AgentCallError> {
        let mut backoff = Backoff::default();
        for _ in 1..TRIES_MAX {
            match self.look_up().await {
                Err(error) if error.is_passing(true) => {
                    tokio::time::sleep(pause_after(&error, &mut backoff)).await;
                }
                found => return found,
            }
        }
        self.look_up().await
    }

    /// Reads its card.
    pub async fn look_up(&self) -> Result<RemoteAgent, AgentCallError> {
        let credentials = self.credentials()?;
        let mut missing = None;
        for place in card::places(&self.url) {
            let mut call = self
                .guard
                .client(&place)
                .map_err(unusable)?
                .get(place.clone());
            if let Some(header) = &credentials.authorization {
                call = call.header(AUTHORIZATION, header);
            }
            let call = dressed(call).timeout(CALL_DEADLINE);
            match fetch(call, CARD_MAX_BYTES).await {
                Ok(found) => {
                    return self.met(card::read(&found, &place, &self.guard)?, credentials);
                }
                Err(HttpError::Status(refused)) if refused.status == StatusCode::NOT_FOUND => {
                    missing = Some(place);
                }
                Err(HttpError::Unreadable(why)) => {
                    return Err(AgentCallError::Card(format!(
                        "its card at {place} can't be read ({why})"
                    )));
                }
                Err(HttpError::TooLong(max)) => {
                    return Err(AgentCallError::Card(format!(
                        "its card at {place} is longer than {max} bytes"
                    )));
                }
                // The message goes out after the card was read, so a lost call for the card sent no message.
                Err(HttpError::Broken(why)) => return Err(AgentCallError::Unreached(why)),
                Err(error) => return Err(error.into()),
            }
        }
        let place = missing.map_or_else(|| self.url.to_string(), |place| place.to_string());
        Err(AgentCallError::Card(format!(
            "there is no agent card at {place}; name the address of the agent or of its card"
        )))
    }

    /// A card is what the agent says: it may name where it wants to be called, but not who else gets our token. An
    /// origin that the operator listed is one that may be called, and may be another agent's.
    fn met(&self, card: Card, credentials: Credentials) -> Result<RemoteAgent, AgentCallError> {
        let (ours, theirs) = (self.url.origin(), card.interface.url.origin());
        if credentials.authorization.is_some() && ours != theirs {
            return Err(AgentCallError::Token(format!(
                "its card points to {}, and its token is for {} alone; name its address there, or use no token",
                theirs.ascii_serialization(),
                ours.ascii_serialization()
            )));
        }
        Ok(RemoteAgent {
            guard: self.guard.clone(),
            card,
            authorization: credentials.authorization,
            trace: None,
            secrets: credentials.secrets,
        })
    }

    fn credentials(&self) -> Result<Credentials, AgentCallError> {
        let Some(file) = &self.token_file else {
            return Ok(Credentials {
                authorization: None,
                secrets: Secrets::default(),
            });
        };
        if !self.may_carry(&self.url) {
            return Err(AgentCallError::Token(format!(
                "its token would travel in the clear to {}; use https, or list the origin in allow_origins of [a2a] if it is an agent of the configuration",
                self.url.origin().ascii_serialization()
            )));
        }
        let token = read_token(file)?;
        let header = bearer(token.expose())
            .map_err(|_| AgentCallError::Token("the token can't stand in a header".to_owned()))?;
        Ok(Credentials {
            authorization: Some(header),
            secrets: Secrets::new([token.expose()]),
        })
    }

    fn may_carry(&self, url: &Url) -> bool {
        is_safe_to(url) || self.listed.exempts(url)
    }
}

fn unusable(error: reqwest::Error) -> AgentCallError {
    AgentCallError::Unreached(root_cause(&error))
}

fn dressed(call: RequestBuilder) -> RequestBuilder {
    call.header(
        USER_AGENT,
        concat!("codex-bridge/", env!("CARGO_PKG_VERSION")),
    )
}

async fn fetch(call: RequestBuilder, max: usize) -> Result<Value, HttpError> {
    parse(&body(accept(call).await?, max).await?)
}

impl RemoteAgent {
    /// What it calls itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.card.name
    }

    /// Whether it tells how it goes while it goes.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.card.streaming
    }

    /// Whether a message that is sent twice with the same id counts once.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.card.idempotent
    }

    /// The same, whose calls belong to this span.
    #[must_use]
    pub fn traced(self, trace: Option<TraceParent>) -> Self {
        Self { trace, ..self }
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.card.interface
    }

    fn build(
        &self,
        request: AgentRequest,
        accepts: &str,
    ) -> Result<RequestBuilder, AgentCallError> {
        let client = self.guard.client(&request.url).map_err(unusable)?;
        let mut call = dressed(client.request(request.method, request.url))
            .header(ACCEPT, accepts)
            .header("A2A-Version", self.interface().version());
        if self.card.idempotent {
            call = call.header("A2A-Extensions", IDEMPOTENCY);
        }
        if let Some(header) = &self.authorization {
            call = call.header(AUTHORIZATION, header);
        }
        if let Some(trace) = &self.trace {
            call = call.header("traceparent", trace.to_string());
        }
        if let Some(body) = request.body {
            call = call
                .header(CONTENT_TYPE, self.interface().media_type())
                .body(body.to_string());
        }
        Ok(call)
    }

    /// One call with one answer.
    pub(super) async fn call(
        &self,
        request: AgentRequest,
        within: Duration,
    ) -> Result<Value, AgentCallError> {
        let accepts = "application/json, application/a2a+json";
        let call = self.build(request, accepts)?.timeout(within);
        self.interface()
            .unwrap(fetch(call, ANSWER_MAX_BYTES).await?, &self.secrets)
    }

    /// One call whose answers come one after the other.
    pub(super) async fn stream(&self, request: AgentRequest) -> Result<Stream, AgentCallError> {
        let call = self
            .build(request, "text/event-stream, application/json")?
            .timeout(CONNECTION_MAX);
        let response = match tokio::time::timeout(SILENCE_MAX, accept(call)).await {
            Ok(response) => response?,
            Err(_) => return Err(silent()),
        };
        if is_json(&response) {
            let whole = parse(&body(response, ANSWER_MAX_BYTES).await?)?;
            let only = self.interface().unwrap(whole, &self.secrets)?;
            return Ok(Stream::Only(Some(only)));
        }
        Ok(Stream::Events(Box::new(Events {
            response,
            reader: EventReader::default(),
            ready: VecDeque::new(),
            bytes: 0,
            interface: self.interface().clone(),
            secrets: self.secrets.clone(),
        })))
    }
}

fn silent() -> AgentCallError {
    AgentCallError::Broken(format!("nothing came for {} s", SILENCE_MAX.as_secs()))
}

/// Answers that come one after the other.
pub(super) enum Stream {
    /// It was one after all.
    Only(Option<Value>),
    Events(Box<Events>),
}

pub(super) struct Events {
    response: Response,
    reader: EventReader,
    ready: VecDeque<String>,
    bytes: usize,
    interface: Interface,
    secrets: Secrets,
}

impl Stream {
    /// The next answer; nothing when the agent closed the connection.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, AgentCallError> {
        match self {
            Self::Only(only) => Ok(only.take()),
            Self::Events(events) => events.next().await,
        }
    }
}

impl Events {
    async fn next(&mut self) -> Result<Option<Value>, AgentCallError> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                let said = parse(data.as_bytes())?;
                return self.interface.unwrap(said, &self.secrets).map(Some);
            }
            let chunk = match tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => return Err(AgentCallError::Broken(root_cause(&error))),
                Err(_) => return Err(silent()),
            };
            let Some(chunk) = chunk else {
                return Ok(None);
            };
            self.bytes = self.bytes.saturating_add(chunk.len());
            if self.bytes > STREAM_MAX_BYTES {
                let why = format!("it said more than {STREAM_MAX_BYTES} bytes");
                return Err(AgentCallError::Unreadable(why));
            }
            self.ready.extend(self.reader.feed(&chunk)?);
        }
    }
}

/// The longest token.
const TOKEN_MAX_BYTES: u64 = 4_096;

/// The token that a file of mode 0600 holds.
pub fn read_token(path: &Path) -> Result<Secret, AgentCallError> {
    let shown = path.display();
    let file = SecretFile::read(path, TOKEN_MAX_BYTES).map_err(|error| {
        AgentCallError::Token(format!(
            "the token file {shown} can't be read ({error}): put the agent's token there, mode 0600"
        ))
    })?;
    if !file.is_private {
        let why = format!("the token file {shown} can be read by others: chmod 600 {shown}");
        return Err(AgentCallError::Token(why));
    }
    let token = file.text.trim();
    let fits = !token.is_empty()
        && token.len() as u64 <= TOKEN_MAX_BYTES
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(Secret::new(token))
    } else {
        Err(AgentCallError::Token(format!(
            "the token file {shown} holds no token: one word of at most {TOKEN_MAX_BYTES} letters and digits"
        )))
    }
}

/// Whether nobody on the way could read it.
fn is_safe_to(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let here = bare == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    url.scheme() == "https" || here
}

/// The longest event that is read.
const EVENT_MAX_BYTES: usize = 16 << 20;

/// Cuts a byte stream into events.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    line: Vec<u8>,
    data: String,
}

impl EventReader {
    /// Takes in bytes; returns the data of the events that are complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, AgentCallError> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.data.len() + piece.len() > EVENT_MAX_BYTES {
                let why = format!("one of its events is longer than {EVENT_MAX_BYTES} bytes");
                return Err(AgentCallError::Unreadable(why));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                let line = String::from_utf8(line).map_err(|_| {
                    AgentCallError::Unreadable("its events are no UTF-8".to_owned())
                })?;
                events.extend(self.take(line.trim_end_matches(['\n', '\r'])));
            }
        }
        Ok(events)
    }

    fn take(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            let data = mem::take(&mut self.data);
            return (!data.is_empty()).then_some(data);
        }
        let value = line.strip_prefix("data:")?;
        if !self.data.is_empty() {
            self.data.push('\n');
        }
        self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_any_cut_of_the_bytes() {
        let text = "id: 1\ndata: {\"a\":1}\n\n: alive\n\nevent: x\r\ndata: x\r\ndata:y\r\n\r\n";
        for size in 1..text.len() {
            let mut reader = EventReader::default();
            let events: Vec<String> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| reader.feed(chunk).unwrap())
                .collect();
            assert_eq!(events, ["{\"a\":1}", "x\ny"], "{size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = EventReader::default();
        let chunk = vec![b'x'; 1 << 20];
        let fed: Result<Vec<_>, _> = (0..17).map(|_| reader.feed(&chunk)).collect();
        assert!(fed.is_err());
    }
}
