//! The HTTP side: takes Codex's requests, has them read and answered, and plays the streams.
//! It is also where a client that goes away is noticed: its stream is dropped unfinished.
//! What to say is decided elsewhere (`script`, `respond`, `refuse`).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clock::now_ms;

use super::arguments::LONGEST_WAIT;
use super::board::{Active, Board, Shared, Waiting};
use super::options::HOME_HEADER;
use super::prompt::{Prompt, own_words};
use super::quota::{self, Counted};
use super::respond::{Beat, compose};
use super::script;
use super::seen::Seen;
use super::step::{Ending, Step};
use super::{Options, kit, refuse};

/// The largest request body; Codex sends its whole history each time.
const LARGEST_BODY: usize = 256 << 20;

/// What every request handler needs.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) board: Shared,
    pub(super) stop: CancellationToken,
    pub(super) options: Arc<Options>,
}

/// Serves until the token is cancelled and the last stream is broken off.
pub(super) async fn serve(listener: TcpListener, server: Server) {
    let stop = server.stop.clone();
    let app = Router::new()
        .route("/v1/responses", post(responses))
        .route("/v1/models", get(models))
        .fallback(missing)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(server);
    let listener = listener.tap_io(|socket| {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "scripted model: small writes may be delayed");
        }
    });
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::warn!(%error, "scripted model: stopped serving");
    }
}

async fn models(State(server): State<Server>) -> Json<Value> {
    let model = json!({"id": server.options.model, "object": "model"});
    Json(json!({"object": "list", "data": [model], "models": []}))
}

async fn missing(uri: Uri) -> Response {
    let message = format!("the scripted model has no path {uri}");
    refuse::plain(StatusCode::NOT_FOUND, &message)
}

async fn responses(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    let request: Value = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("the scripted model cannot read this body: {error}");
            return refuse::plain(StatusCode::BAD_REQUEST, &message);
        }
    };
    let prompt = Prompt::read(&request);
    let seen = record(&prompt, &headers, body.len());
    if server.options.require_auth && !seen.authorized {
        server.board.send_modify(|board| board.see(seen));
        return refuse::plain(
            StatusCode::UNAUTHORIZED,
            "no bearer authentication in header",
        );
    }
    server.answer(&prompt, seen)
}

fn record(prompt: &Prompt, headers: &HeaderMap, body_bytes: usize) -> Seen {
    let header = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
    Seen {
        number: 0,
        at_ms: now_ms(),
        thread_id: header("thread-id"),
        home: header(HOME_HEADER),
        model: prompt.model.clone(),
        users: prompt.users.clone(),
        images: prompt.images,
        outputs: prompt.outputs.clone(),
        tools: prompt.tools.iter().map(|tool| tool.name.clone()).collect(),
        authorized: headers.contains_key(header::AUTHORIZATION),
        body_bytes,
    }
}

impl Server {
    /// Counts the stream as active before the request can be seen, so that whoever waited for
    /// the request finds it under way.
    fn answer(&self, prompt: &Prompt, seen: Seen) -> Response {
        let known = self.options.kit.then(|| kit::script(prompt.last()));
        let words = known.flatten().unwrap_or_else(|| own_words(prompt.last()));
        let steps = script::read(words);
        let step = steps.get(prompt.step());
        let counted = self.count_quota();
        let beyond = counted.filter(|counted| counted.refused);
        let beyond = beyond.map(|it| refuse::usage_limit_until(it.resets_at, unix_seconds()));
        if let Some(refusal) = beyond.or_else(|| self.refusal(prompt, step)) {
            self.board.send_modify(|board| board.see(seen));
            return refusal;
        }
        let Some(active) = Active::begin(&self.board) else {
            self.board.send_modify(|board| board.see(seen));
            return refuse::plain(StatusCode::SERVICE_UNAVAILABLE, "too many streams at once");
        };
        let breaks = match step.map(|step| &step.ending) {
            Some(Ending::Broken { times }) => self.spend("break", prompt, *times),
            Some(Ending::Completed | Ending::Incomplete | Ending::Failed { .. }) | None => false,
        };
        self.board.send_modify(|board| board.see(seen));
        let mut response = self.stream(active, compose(prompt, step, breaks));
        if let Some(counted) = counted {
            quota::tell(&mut response, counted);
        }
        response
    }

    fn count_quota(&self) -> Option<Counted> {
        let quota = self.options.quota?;
        let mut counted = None;
        let count = |board: &mut Board| counted = Some(board.quota.count(quota, unix_seconds()));
        self.board.send_modify(count);
        counted
    }

    fn refusal(&self, prompt: &Prompt, step: Option<&Step>) -> Option<Response> {
        let refusal = step?.refusal.as_ref()?;
        let due = self.spend("refuse", prompt, refusal.times());
        due.then(|| refuse::scripted(refusal, unix_seconds()))
    }

    fn spend(&self, kind: &str, prompt: &Prompt, times: Option<u32>) -> bool {
        let failure = (kind, prompt.last(), prompt.step());
        let mut due = false;
        self.board
            .send_modify(|board| due = board.spend(failure, times));
        due
    }

    fn stream(&self, active: Active, beats: Vec<Beat>) -> Response {
        let player = Player {
            server: self.clone(),
            active,
            beats: beats.into(),
        };
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        let body = Body::from_stream(stream::unfold(player, Player::next));
        (headers, body).into_response()
    }
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// One stream being played. The server drops it when the client goes away.
struct Player {
    server: Server,
    active: Active,
    beats: VecDeque<Beat>,
}

impl Player {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        loop {
            let played = match self.beats.pop_front()? {
                Beat::Send(bytes) => {
                    if self.beats.is_empty() {
                        self.active.finish();
                    }
                    return Some((Ok(bytes), self));
                }
                Beat::Sleep(time) => self.wait(tokio::time::sleep(time)).await,
                Beat::Hold(name) => self.hold(&name).await,
                Beat::Hang(name) => self.hang(&name).await,
                Beat::Break => {
                    // What was said before must reach the client: a pending body is flushed.
                    tokio::task::yield_now().await;
                    Err(broken("as the script says"))
                }
            };
            if let Err(error) = played {
                self.active.finish();
                self.beats.clear();
                return Some((Err(error), self));
            }
        }
    }

    async fn hold(&self, name: &str) -> io::Result<()> {
        let _waiting = Waiting::begin(&self.server.board, name);
        let mut board = self.server.board.subscribe();
        let released = async {
            let _ = board.wait_for(|board| board.is_released(name)).await;
        };
        self.wait(released).await
    }

    async fn hang(&self, name: &str) -> io::Result<()> {
        let _waiting = Waiting::begin(&self.server.board, name);
        self.wait(std::future::pending()).await
    }

    async fn wait(&self, until: impl Future<Output = ()>) -> io::Result<()> {
        tokio::select! {
            biased;
            () = self.server.stop.cancelled() => Err(broken("the model stops")),
            waited = tokio::time::timeout(LONGEST_WAIT, until) => {
                waited.map_err(|_| broken("held too long"))
            }
        }
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, why.to_owned())
}
