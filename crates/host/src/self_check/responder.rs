//! The model of a check: a loopback HTTP server that answers each request of Codex with the next step of the script that
//! the request's newest message names. It needs no account, and no prompt of a user ever reaches it.

mod wire;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::locked;

/// Codex sends its whole history with each request.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What a request that no script is for is answered with.
const UNSCRIPTED: &str = "There is no script for this request.";
/// The name of the model and of its provider.
const MODEL: &str = "codex-bridge-check";

/// One answer of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelStep {
    /// Ends the turn with this text.
    Answer(String),
    /// Runs a command in the shell; one that escalates wants to leave the sandbox.
    Command { script: String, escalate: bool },
    /// Never answers: the turn has to be interrupted.
    Hang,
}

/// What the model of a check was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelRequests {
    pub(crate) scripted: u64,
    /// Which no script was for: Codex asked by itself.
    pub(crate) unscripted: u64,
}

/// A running model. It ends with its handle.
#[derive(Debug)]
pub(crate) struct Responder {
    base_url: String,
    shared: Arc<Shared>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    token: String,
    state: Mutex<ResponderState>,
}

#[derive(Debug, Default)]
struct ResponderState {
    /// By the name of the script, which is a word of the message.
    scripts: BTreeMap<String, Vec<ModelStep>>,
    requests: ModelRequests,
}

impl Responder {
    /// Listens on a free port of the loopback interface.
    pub(crate) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            token: uuid::Uuid::new_v4().simple().to_string(),
            state: Mutex::default(),
        });
        let app = Router::new()
            .route("/v1/responses", post(respond))
            .route("/v1/models", get(models))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::debug!(%error, "the model of a check ended");
            }
        });
        Ok(Self {
            base_url: format!("http://{address}/v1"),
            shared,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// Messages that contain this name are answered so, one step for each request.
    pub(crate) fn script(&self, name: &str, steps: Vec<ModelStep>) {
        let mut state = locked(&self.shared.state);
        state.scripts.insert(name.to_owned(), steps);
    }

    pub(crate) fn requests(&self) -> ModelRequests {
        locked(&self.shared.state).requests
    }

    /// Writes a `config.toml` whose only provider is this model.
    pub(crate) fn configure(&self, codex_home: &Path) -> io::Result<()> {
        let text = format!(
            "model = {MODEL:?}\n\
             model_provider = {MODEL:?}\n\
             \n\
             [model_providers.{MODEL}]\n\
             name = {MODEL:?}\n\
             base_url = {:?}\n\
             wire_api = \"responses\"\n\
             request_max_retries = 1\n\
             stream_max_retries = 1\n\
             http_headers = {{ Authorization = \"Bearer {}\" }}\n",
            self.base_url, self.shared.token,
        );
        std::fs::write(codex_home.join("config.toml"), text)
    }
}

impl Shared {
    /// Whatever else listens for a free port of this machine must not be able to play the model's client.
    fn authorizes(&self, headers: &HeaderMap) -> bool {
        let sent = headers
            .get(header::AUTHORIZATION)
            .map(header::HeaderValue::as_bytes);
        let sent = sent.and_then(|sent| sent.strip_prefix(b"Bearer "));
        sent.is_some_and(|sent| sent.ct_eq(self.token.as_bytes()).into())
    }

    fn next(&self, request: &wire::ModelRequest) -> ModelStep {
        let mut state = locked(&self.state);
        let named = request.newest(|message| {
            let mut words = message.split_whitespace();
            words.find_map(|word| state.scripts.get(word))
        });
        let step = named.and_then(|(steps, at)| steps.get(at).cloned());
        match &step {
            Some(_) => state.requests.scripted = state.requests.scripted.saturating_add(1),
            None => state.requests.unscripted = state.requests.unscripted.saturating_add(1),
        }
        step.unwrap_or_else(|| ModelStep::Answer(UNSCRIPTED.to_owned()))
    }
}

async fn models() -> Json<Value> {
    let model = json!({"id": MODEL, "object": "model"});
    Json(json!({"object": "list", "data": [model], "models": []}))
}

async fn respond(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    if !shared.authorizes(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let request = wire::ModelRequest::read(&body);
    let step = shared.next(&request);
    let begun = stream::iter([Ok::<_, io::Error>(Bytes::from(wire::created()))]);
    let body = match wire::item(&step, &request) {
        Some(item) => {
            Body::from_stream(begun.chain(stream::iter([Ok(Bytes::from(wire::completed(&item)))])))
        }
        None => Body::from_stream(begun.chain(stream::pending())),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(message: &str, outputs: usize) -> wire::ModelRequest {
        let mut input = vec![Some(message.to_owned())];
        input.extend(std::iter::repeat_n(None, outputs));
        wire::ModelRequest {
            input,
            ..wire::ModelRequest::default()
        }
    }

    #[tokio::test]
    async fn each_request_gets_its_script_step() {
        let responder = Responder::start().await.unwrap();
        let answer = |text: &str| ModelStep::Answer(text.to_owned());
        let command = ModelStep::Command {
            script: "true".to_owned(),
            escalate: false,
        };
        responder.script("check-1", vec![command.clone(), answer("one")]);
        responder.script("check-11", vec![answer("eleven")]);
        let next = |message: &str, outputs| responder.shared.next(&asked(message, outputs));
        assert_eq!(next("please check-1 now", 0), command);
        assert_eq!(next("please check-1 now", 1), answer("one"));
        assert_eq!(next("check-11", 0), answer("eleven"));
        assert_eq!(next("title of this conversation", 0), answer(UNSCRIPTED));
        let expected = ModelRequests {
            scripted: 3,
            unscripted: 1,
        };
        assert_eq!(responder.requests(), expected);
    }

    #[tokio::test]
    async fn only_the_token_is_answered() {
        let responder = Responder::start().await.unwrap();
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            responder.shared.authorizes(&headers)
        };
        assert!(!responder.shared.authorizes(&HeaderMap::new()));
        assert!(!with("Bearer other"));
        assert!(with(&format!("Bearer {}", responder.shared.token)));
    }
}
