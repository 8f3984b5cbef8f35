//! Calls to the API over the daemon's unix socket.

use super::ask::ApprovalView;
use super::find::several_words;
use super::output::state_title;
use super::sse::SseEvents;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bridge_core::deadline::after;
use bridge_core::limits::PAGE_MAX;
use bridge_daemon::state::{StateDir, StateError};
use bridge_front::{
    ActView, CandidateView, DeadList, Problem, ReloadView, StatusView, StoryView, SubmitRequest,
    SubmitResponse, Via, api,
};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::ProtocolVersion;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How long one call may take; streams have no such end.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long an act of control may take: longer than the API gives it, which says better what happened.
const CONTROL_DEADLINE: Duration = Duration::from_secs(70);
/// Longest answer that is read.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Open requests that are read; people answer fewer by hand.
const OPEN_MAX: usize = 1_000;
/// For calls that only a path describes.
pub(super) const NO_BODY: Option<&()> = None;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    State(#[from] StateError),
    /// No daemon answers: it is not there, or just starting or stopping.
    #[error("the daemon does not answer on {socket}: {why}")]
    Unreachable {
        socket: String,
        why: String,
        /// Whether the call may have arrived and been obeyed all the same.
        sent: bool,
    },
    /// This user may not open the socket.
    #[error("you may not use the daemon behind {socket}: ask its owner for a way in")]
    NotPermitted { socket: String },
    /// The daemon refused.
    #[error("{}", .0.detail)]
    Refused(Problem),
    /// The daemon is stopping or its ledger is not usable now.
    #[error("{}", .0.detail)]
    NotNow(Problem),
    #[error("{0:?} is no message's id: give it, or its beginning, as it was printed")]
    NotAnId(String),
    /// Nothing is called so.
    #[error(
        "nothing is called {0}: give an id, its end or its beginning (4 characters or more), the name of a conversation, or `last`; `codex-bridge ls` shows what there is"
    )]
    NotFound(String),
    /// Somebody must choose.
    #[error("{}", several_words(.reference, .candidates))]
    Several {
        reference: String,
        candidates: Vec<CandidateView>,
    },
    #[error("{0:?} is no token's name: letters, digits, dots, dashes and underscores")]
    NotAName(String),
    #[error(
        "there is no peer {0:?} that could be revoked; `codex-bridge peers list` shows them, `codex-bridge token revoke` is for other tokens"
    )]
    NoPeer(String),
    #[error("the daemon gave an answer that this command can't read: {0}; is it another version?")]
    Unreadable(String),
}

impl ClientError {
    /// What kind of problem, in two words.
    pub(crate) fn title(&self) -> &'static str {
        match self {
            Self::State(error) => state_title(error),
            Self::Unreachable { sent: true, .. } => "not known",
            Self::Unreachable { sent: false, .. } => "no daemon",
            Self::NotPermitted { .. } => "not permitted",
            Self::Refused(_) => "refused",
            Self::NotNow(_) => "not now",
            Self::NotAnId(_) | Self::NotAName(_) => "not a name",
            Self::NotFound(_) | Self::NoPeer(_) => "not found",
            Self::Several { .. } => "several match",
            Self::Unreadable(_) => "unreadable answer",
        }
    }

    /// Whether the same call may work when the daemon is back.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NotNow(_))
    }

    /// Whether nothing answers on the socket of this state directory, or this user may not ask.
    pub(crate) fn is_silence_of(&self, state: &StateDir) -> bool {
        let own = state.api_socket().display().to_string();
        match self {
            Self::Unreachable { socket, .. } | Self::NotPermitted { socket } => *socket == own,
            _ => false,
        }
    }

    /// Whether the call may have been obeyed although it failed.
    pub(crate) fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Unreachable { sent: true, .. })
    }

    /// The failure of a call that only reads: whether it arrived makes no difference.
    fn of_read(mut self) -> Self {
        if let Self::Unreachable { sent, .. } = &mut self {
            *sent = false;
        }
        self
    }
}

/// What a person can do to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageAct {
    /// Send a dead letter again.
    Redrive,
    /// Give it up.
    Drop,
    /// Stop it.
    Cancel,
}

impl MessageAct {
    fn as_str(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Drop => "drop",
            Self::Cancel => "cancel",
        }
    }
}

/// The first revision of MCP without sessions: a restarted daemon needs no new handshake.
pub(crate) const MCP_VERSION: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// First pause before the daemon is asked again; doubles up to [`RETRY_MAX`].
pub(crate) const RETRY_MIN: Duration = Duration::from_millis(50);
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long something that was never taken in is offered to a daemon that is restarting.
pub(crate) const SUBMIT_PATIENCE: Duration = Duration::from_secs(15);

/// Submits something until a daemon takes it, for [`SUBMIT_PATIENCE`] at most. Every call must carry the same idempotency
/// key. `warn` gets the reason of the first failure.
pub(super) async fn submit_until<T>(
    deadline: Option<Instant>,
    mut submit: impl AsyncFnMut() -> Result<T, ClientError>,
    mut warn: impl FnMut(&str),
) -> Result<T, ClientError> {
    let give_up = after(Instant::now(), SUBMIT_PATIENCE);
    let give_up = deadline.map_or(give_up, |deadline| deadline.min(give_up));
    let mut pause = RETRY_MIN;
    let mut tries = SubmitTries::default();
    loop {
        let error = match submit().await {
            Ok(taken) => return Ok(taken),
            Err(error) => error,
        };
        if !error.may_pass() {
            return Err(error);
        }
        if pause == RETRY_MIN {
            warn(&format!("not taken in yet: {error}; trying again"));
        }
        tries.add(error);
        if after(Instant::now(), pause) >= give_up {
            return Err(tries.conclusion());
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(RETRY_MAX);
    }
}

/// Why something was not taken in, over several tries.
#[derive(Debug, Default)]
struct SubmitTries {
    /// A try that may have arrived: then nobody knows.
    broken: Option<ClientError>,
    /// The newest refusal of a daemon: it says more than that nobody answers.
    refused: Option<ClientError>,
    last: Option<ClientError>,
}

impl SubmitTries {
    fn add(&mut self, error: ClientError) {
        let place = match &error {
            error if error.may_have_arrived() => &mut self.broken,
            ClientError::NotNow(_) => &mut self.refused,
            _ => &mut self.last,
        };
        *place = Some(error);
    }

    fn conclusion(self) -> ClientError {
        let error = self.broken.or(self.refused).or(self.last);
        error.unwrap_or_else(|| ClientError::Unreadable("nothing was tried".to_owned()))
    }
}

/// A client of the daemon on one state directory.
#[derive(Clone, Debug)]
pub(crate) struct ApiClient {
    client: Client,
    socket: String,
    state: StateDir,
    /// Over the socket of a group instead of the state directory's own.
    is_group: bool,
}

impl ApiClient {
    pub(crate) fn new(state: StateDir) -> Result<Self, ClientError> {
        state.check_socket_place()?;
        let socket = state.api_socket();
        Self::over(state, socket, false)
    }

    /// A client over the socket of a group that this user is in.
    pub(crate) fn of_group(state: StateDir, socket: PathBuf) -> Result<Self, ClientError> {
        Self::over(state, socket, true)
    }

    fn over(state: StateDir, socket: PathBuf, is_group: bool) -> Result<Self, ClientError> {
        let client = Client::builder()
            .unix_socket(socket.clone())
            // It never speaks TLS, and a machine without roots must not stop it.
            .tls_certs_only([])
            .build()
            .map_err(|error| ClientError::Unreadable(error.to_string()))?;
        Ok(Self {
            client,
            socket: socket.display().to_string(),
            state,
            is_group,
        })
    }

    /// The state directory of the daemon.
    pub(super) fn state_dir(&self) -> &Path {
        self.state.root()
    }

    /// Complains when no daemon runs, before anything is tried.
    pub(crate) fn expect_daemon(&self) -> Result<(), ClientError> {
        if self.is_group || self.state.holder().is_some() {
            return Ok(());
        }
        Err(self.state.absence().into())
    }

    /// Posts one self-contained MCP request about a tool or resource, which asks the daemon to wait for `wait`. The same
    /// key makes a repeated start harmless.
    pub(crate) async fn mcp(
        &self,
        method: &str,
        name: Option<&str>,
        request: &Value,
        wait: Duration,
        key: &str,
    ) -> Result<SseEvents, ClientError> {
        let mut call = self
            .client
            .post(at("/mcp"))
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", MCP_VERSION.as_str())
            .header("Mcp-Method", method)
            .header("Idempotency-Key", key)
            .header(api::VIA_HEADER, Via::Mcp.as_str())
            .timeout(CONTROL_DEADLINE.saturating_add(wait))
            .json(request);
        if let Some(name) = name {
            // Encoded: names of resources may hold any character.
            let name = format!("=?base64?{}?=", BASE64_STANDARD.encode(name));
            call = call.header("Mcp-Name", name);
        }
        let response = self.accept(call.send().await).await?;
        Ok(SseEvents::new(response.bytes_stream()))
    }

    pub(crate) async fn submit(
        &self,
        request: &SubmitRequest,
        key: &str,
    ) -> Result<SubmitResponse, ClientError> {
        self.post("/v1/messages", Some(request), Some(key)).await
    }

    pub(crate) async fn message(&self, id: &str) -> Result<StoryView, ClientError> {
        self.get(&path_of(id)?).await
    }

    pub(crate) async fn status(&self) -> Result<StatusView, ClientError> {
        self.get("/v1/status").await
    }

    /// Lets the daemon read its configuration again.
    pub(crate) async fn reload(&self) -> Result<ReloadView, ClientError> {
        self.post("/v1/reload", NO_BODY, None).await
    }

    /// One page of dead letters, older than `before`.
    pub(crate) async fn dead(
        &self,
        limit: u32,
        before: Option<&str>,
    ) -> Result<DeadList, ClientError> {
        let mut path = format!("/v1/dead?limit={limit}");
        if let Some(before) = before {
            path.push_str("&before=");
            path.push_str(checked(before)?);
        }
        self.get(&path).await
    }

    /// Does something to a message.
    pub(crate) async fn act(&self, id: &str, act: MessageAct) -> Result<ActView, ClientError> {
        let path = format!("{}/{}", path_of(id)?, act.as_str());
        self.post(&path, NO_BODY, None).await
    }

    /// A task, or a message in the same words.
    pub(super) async fn task(&self, id: &str) -> Result<Value, ClientError> {
        self.get(&format!("/v1/tasks/{}", checked(id)?)).await
    }

    /// Does something to a task, or to a message.
    pub(super) async fn act_on_task(
        &self,
        id: &str,
        act: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Value, ClientError> {
        let path = format!("/v1/tasks/{}/{act}", checked(id)?);
        self.post(&path, body, None).await
    }

    /// What is at this path of the API.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let call = self.client.get(at(path)).timeout(CALL_DEADLINE);
        let read = self.read(call.send().await).await;
        read.map_err(ClientError::of_read)
    }

    /// Does something; the same key makes a repetition harmless.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&impl Serialize>,
        key: Option<&str>,
    ) -> Result<T, ClientError> {
        self.post_within(CALL_DEADLINE, path, body, key).await
    }

    /// Does something that takes its time.
    pub(super) async fn post_within<T: DeserializeOwned>(
        &self,
        deadline: Duration,
        path: &str,
        body: Option<&impl Serialize>,
        key: Option<&str>,
    ) -> Result<T, ClientError> {
        let mut call = self.client.post(at(path)).timeout(deadline);
        if let Some(body) = body {
            call = call.json(body);
        }
        if let Some(key) = key {
            call = call.header("Idempotency-Key", key);
        }
        self.read(call.send().await).await
    }

    /// Removes what is at this path.
    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let call = self.client.delete(at(path)).timeout(CALL_DEADLINE);
        self.read(call.send().await).await
    }

    /// Opens a stream of events, after the one that was seen last.
    pub(crate) async fn stream(
        &self,
        path: &str,
        after: Option<&str>,
    ) -> Result<SseEvents, ClientError> {
        let mut call = self.client.get(at(path));
        if let Some(after) = after {
            call = call.header("Last-Event-ID", after);
        }
        let response = self.accept(call.send().await).await;
        let response = response.map_err(ClientError::of_read)?;
        Ok(SseEvents::new(response.bytes_stream()))
    }

    /// All open approval requests that this caller may decide: people of a group decide none.
    pub(crate) async fn open_requests(&self) -> Result<Vec<ApprovalView>, ClientError> {
        if self.is_group {
            return Ok(Vec::new());
        }
        let mut open = Vec::new();
        let mut path = format!("/v1/requests?state=open&limit={PAGE_MAX}");
        loop {
            let page: RequestPage = self.get(&path).await?;
            open.extend(page.requests);
            match page.next {
                Some(next) if open.len() < OPEN_MAX => {
                    let next = checked(&next)?;
                    path = format!("/v1/requests?state=open&limit={PAGE_MAX}&before={next}");
                }
                Some(_) | None => return Ok(open),
            }
        }
    }

    /// The newest approval requests, also decided ones.
    pub(super) async fn newest_requests(&self) -> Result<Vec<ApprovalView>, ClientError> {
        let path = format!("/v1/requests?state=all&limit={PAGE_MAX}");
        Ok(self.get::<RequestPage>(&path).await?.requests)
    }

    /// One approval request.
    pub(super) async fn request(&self, id: &str) -> Result<ApprovalView, ClientError> {
        self.get(&format!("/v1/requests/{}", checked(id)?)).await
    }

    /// Decides one.
    pub(crate) async fn decide(
        &self,
        id: &str,
        decision: &str,
        answers: Option<Value>,
    ) -> Result<Value, ClientError> {
        let mut body = json!({ "decision": decision });
        if let Some(answers) = answers {
            body["answers"] = answers;
        }
        let path = format!("/v1/requests/{}/decision", checked(id)?);
        self.post(&path, Some(&body), None).await
    }

    /// The daemon broke a call off that it had, or may have had.
    pub(crate) fn unreachable(&self, why: impl Into<String>) -> ClientError {
        self.silent(why, true)
    }

    fn silent(&self, why: impl Into<String>, sent: bool) -> ClientError {
        ClientError::Unreachable {
            socket: self.socket.clone(),
            why: why.into(),
            sent,
        }
    }

    async fn accept(
        &self,
        sent: Result<Response, reqwest::Error>,
    ) -> Result<Response, ClientError> {
        let response = sent.map_err(|error| match io_kind(&error) {
            Some(io::ErrorKind::PermissionDenied) if error.is_connect() => {
                ClientError::NotPermitted {
                    socket: self.socket.clone(),
                }
            }
            _ => self.silent(root_cause(&error), !error.is_connect()),
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let problem: Problem = match self.parse(response).await {
            // A call of MCP that a stopping daemon breaks off ends like this.
            Err(ClientError::Unreadable(_)) if status == StatusCode::INTERNAL_SERVER_ERROR => {
                return Err(self.unreachable("it broke the call off"));
            }
            problem => problem?,
        };
        Err(match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                ClientError::NotNow(problem)
            }
            _ => ClientError::Refused(problem),
        })
    }

    async fn read<T: DeserializeOwned>(
        &self,
        sent: Result<Response, reqwest::Error>,
    ) -> Result<T, ClientError> {
        let response = self.accept(sent).await?;
        self.parse(response).await
    }

    async fn parse<T: DeserializeOwned>(&self, mut response: Response) -> Result<T, ClientError> {
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() <= BODY_MAX_BYTES => {
                    body.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => return Err(ClientError::Unreadable("it is too long".to_owned())),
                Ok(None) => break,
                Err(error) => return Err(self.unreachable(root_cause(&error))),
            }
        }
        serde_json::from_slice(&body).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}

#[derive(Debug, Deserialize)]
struct RequestPage {
    requests: Vec<ApprovalView>,
    #[serde(default)]
    next: Option<String>,
}

fn at(path: &str) -> String {
    format!("http://localhost{path}")
}

fn path_of(id: &str) -> Result<String, ClientError> {
    Ok(format!("/v1/messages/{}", checked(id)?))
}

/// Ids are letters, digits and dashes; anything else could name another route.
pub(super) fn checked(id: &str) -> Result<&str, ClientError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if id.is_empty() || !id.chars().all(fits) {
        return Err(ClientError::NotAnId(id.to_owned()));
    }
    Ok(id)
}

/// What kind of error the system gave.
fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// The innermost reason: "No such file or directory" says more than "error sending request".
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent(sent: bool) -> ClientError {
        ClientError::Unreachable {
            socket: "s".to_owned(),
            why: "w".to_owned(),
            sent,
        }
    }

    fn stopping() -> ClientError {
        let problem =
            json!({"type": "about:blank", "title": "t", "status": 503, "detail": "it stops"});
        ClientError::NotNow(serde_json::from_value(problem).unwrap())
    }

    async fn tried(mut errors: Vec<ClientError>) -> ClientError {
        errors.reverse();
        let submit = async || match errors.pop() {
            Some(error) => Err::<(), _>(error),
            None => Err(silent(false)),
        };
        let ended = submit_until(None, submit, |_| {}).await;
        ended.unwrap_err()
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_daemon_surely_refused() {
        let ended = tried(vec![stopping()]).await;
        assert_eq!(ended.to_string(), "it stops");
        assert!(!tried(Vec::new()).await.may_have_arrived());
    }

    #[tokio::test(start_paused = true)]
    async fn broken_call_may_have_arrived() {
        let ended = tried(vec![silent(true), stopping()]).await;
        assert!(ended.may_have_arrived(), "{ended:?}");
    }
}
