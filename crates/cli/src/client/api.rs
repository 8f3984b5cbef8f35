//! Calls to the API over the daemon's unix socket.

use super::ask::Question;
use bridge_core::limits::PAGE_MAX;
use bridge_daemon::state::{StateDir, StateError};
use bridge_front::{
    ActView, DeadList, Problem, ReloadView, StatusView, StoryView, SubmitRequest, SubmitResponse,
};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

/// How long one call may take; streams have no such end.
const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long an act of control may take: longer than the API gives it, which says better what happened.
const CONTROL_DEADLINE: Duration = Duration::from_secs(70);
/// Longest answer that is read.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Open questions that are looked at; nobody answers more by hand.
const OPEN_MAX: usize = 1_000;

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    State(#[from] StateError),
    /// No daemon answers: it is not there, or just starting or stopping.
    #[error("the daemon does not answer on {socket}: {why}")]
    Unreachable { socket: String, why: String },
    /// The daemon said no.
    #[error("{}", .0.detail)]
    Refused(Problem),
    /// The daemon is stopping or its ledger is not usable now.
    #[error("{}", .0.detail)]
    NotNow(Problem),
    #[error("{0:?} is no message's id: give it, or its beginning, as it was printed")]
    NotAnId(String),
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
    /// Whether the same call may work when the daemon is back.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotNow(_) => true,
            Self::State(_)
            | Self::Refused(_)
            | Self::NotAnId(_)
            | Self::NotAName(_)
            | Self::NoPeer(_)
            | Self::Unreadable(_) => false,
        }
    }
}

/// What a person can do to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Send a dead letter again.
    Redrive,
    /// Give it up.
    Drop,
    /// Stop it.
    Cancel,
}

impl Act {
    fn as_str(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::Drop => "drop",
            Self::Cancel => "cancel",
        }
    }
}

/// A client of the daemon on one state directory.
#[derive(Clone, Debug)]
pub(crate) struct ApiClient {
    client: Client,
    socket: String,
    state: StateDir,
}

impl ApiClient {
    pub(crate) fn new(state: StateDir) -> Result<Self, ClientError> {
        state.check_socket_place()?;
        let socket = state.api_socket();
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
        })
    }

    /// Complains when no daemon runs, before anything is tried.
    pub(crate) fn expect_daemon(&self) -> Result<(), ClientError> {
        match self.state.holder() {
            Some(_) => Ok(()),
            None => {
                let path = self.state.root().to_owned();
                Err(StateError::NoDaemon { path }.into())
            }
        }
    }

    /// A call for somebody who came through another surface; the API answers with JSON. The same key makes a
    /// repetition harmless.
    pub(crate) async fn call(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&serde_json::Value>,
        key: Option<&str>,
        via: bridge_front::Via,
    ) -> Result<serde_json::Value, ClientError> {
        let mut call = self
            .client
            .request(method, format!("http://localhost{path}"))
            .header(bridge_front::api::VIA_HEADER, via.as_str())
            .timeout(CONTROL_DEADLINE);
        if let Some(body) = body {
            call = call.json(body);
        }
        if let Some(key) = key {
            call = call.header("Idempotency-Key", key);
        }
        self.read(call.send().await).await
    }

    pub(crate) async fn submit(
        &self,
        request: &SubmitRequest,
        key: &str,
    ) -> Result<SubmitResponse, ClientError> {
        let call = self
            .client
            .post("http://localhost/v1/messages")
            .header("Idempotency-Key", key)
            .timeout(CALL_DEADLINE)
            .json(request);
        self.read(call.send().await).await
    }

    pub(crate) async fn message(&self, id: &str) -> Result<StoryView, ClientError> {
        let call = self.client.get(path_of(id)?).timeout(CALL_DEADLINE);
        self.read(call.send().await).await
    }

    pub(crate) async fn status(&self) -> Result<StatusView, ClientError> {
        let call = self
            .client
            .get("http://localhost/v1/status")
            .timeout(CALL_DEADLINE);
        self.read(call.send().await).await
    }

    /// Lets the daemon read its configuration again.
    pub(crate) async fn reload(&self) -> Result<ReloadView, ClientError> {
        let call = self
            .client
            .post("http://localhost/v1/reload")
            .timeout(CALL_DEADLINE);
        self.read(call.send().await).await
    }

    /// One page of dead letters, older than `before`.
    pub(crate) async fn dead(
        &self,
        limit: u32,
        before: Option<&str>,
    ) -> Result<DeadList, ClientError> {
        let mut path = format!("http://localhost/v1/dead?limit={limit}");
        if let Some(before) = before {
            path.push_str("&before=");
            path.push_str(checked(before)?);
        }
        let call = self.client.get(path).timeout(CALL_DEADLINE);
        self.read(call.send().await).await
    }

    /// Does something to a message.
    pub(crate) async fn act(&self, id: &str, act: Act) -> Result<ActView, ClientError> {
        let path = format!("{}/{}", path_of(id)?, act.as_str());
        let call = self.client.post(path).timeout(CALL_DEADLINE);
        self.read(call.send().await).await
    }

    /// Opens the stream of a message's news, after the event that was seen last.
    pub(crate) async fn events(&self, id: &str, after: u32) -> Result<Response, ClientError> {
        let call = self
            .client
            .get(format!("{}/events", path_of(id)?))
            .header("Last-Event-ID", after.to_string());
        self.accept(call.send().await).await
    }

    /// What is at this path of the API.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let call = self.client.get(at(path)).timeout(CALL_DEADLINE);
        self.read(call.send().await).await
    }

    /// Does something; the same key makes a repetition harmless.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Value, ClientError> {
        self.post_within(CALL_DEADLINE, path, body, key).await
    }

    /// Does something that takes its time.
    pub(super) async fn post_within(
        &self,
        deadline: Duration,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Value, ClientError> {
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
    pub(super) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        let call = self.client.delete(at(path)).timeout(CALL_DEADLINE);
        let response = self.accept(call.send().await).await?;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(Value::Null),
            _ => self.parse(response).await,
        }
    }

    /// Opens a stream of news, after the event that was seen last.
    pub(crate) async fn stream(
        &self,
        path: &str,
        after: Option<&str>,
    ) -> Result<Response, ClientError> {
        let mut call = self.client.get(at(path));
        if let Some(after) = after {
            call = call.header("Last-Event-ID", after);
        }
        self.accept(call.send().await).await
    }

    /// All questions that wait for an answer.
    pub(crate) async fn open_requests(&self) -> Result<Vec<Question>, ClientError> {
        let mut open = Vec::new();
        let mut path = format!("/v1/requests?state=open&limit={PAGE_MAX}");
        loop {
            let page: Questions = self.get(&path).await?;
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

    /// The newest questions, however they ended.
    pub(super) async fn newest_requests(&self) -> Result<Vec<Question>, ClientError> {
        let path = format!("/v1/requests?state=all&limit={PAGE_MAX}");
        Ok(self.get::<Questions>(&path).await?.requests)
    }

    /// One question.
    pub(super) async fn request(&self, id: &str) -> Result<Question, ClientError> {
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

    async fn accept(
        &self,
        sent: Result<Response, reqwest::Error>,
    ) -> Result<Response, ClientError> {
        let response = sent.map_err(|error| ClientError::Unreachable {
            socket: self.socket.clone(),
            why: root_cause(&error),
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let problem: Problem = self.parse(response).await?;
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
                Err(error) => {
                    let why = root_cause(&error);
                    return Err(ClientError::Unreachable {
                        socket: self.socket.clone(),
                        why,
                    });
                }
            }
        }
        serde_json::from_slice(&body).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}

/// A page of questions.
#[derive(Debug, Deserialize)]
struct Questions {
    requests: Vec<Question>,
    #[serde(default)]
    next: Option<String>,
}

fn at(path: &str) -> String {
    format!("http://localhost{path}")
}

fn path_of(id: &str) -> Result<String, ClientError> {
    Ok(format!("http://localhost/v1/messages/{}", checked(id)?))
}

/// Ids are letters, digits and dashes; anything else could name another route.
pub(super) fn checked(id: &str) -> Result<&str, ClientError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if id.is_empty() || !id.chars().all(fits) {
        return Err(ClientError::NotAnId(id.to_owned()));
    }
    Ok(id)
}

/// The innermost reason: "No such file or directory" says more than "error sending request".
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
