//! The platform's HTTP side: reads calls, plays the fault that each meets, and sends the answers and the streams.
//! What a call means is the ground's business.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::Response;
use axum::serve::ListenerExt;
use futures_util::stream;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::dispatch::{PushCalls, dispatch};
use super::faults::{EventStream, FaultBody, MoleculeFault};
use super::ground::{Shared, change};
use super::limiter::{Standing, too_many};
use super::reply::{cut, render, reset_mid_body, trickle};
use super::route::{Place, Route};
use super::rows::Row;
use super::wire::{Answer, Call, Content};

/// The largest body: the largest upload and its form.
const BODY_MOST: usize = 128 << 20;
/// Calls under way at once; more are refused with 503.
const CALLS_MOST: usize = 512;
const HTML: &str =
    "<html><head><title>502 Bad Gateway</title></head><body>Bad Gateway</body></html>";

/// What every handler needs.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) ground: Shared,
    pub(super) stop: CancellationToken,
    calls: Arc<Semaphore>,
}

impl Server {
    pub(super) fn new(ground: Shared, stop: CancellationToken) -> Self {
        Self {
            ground,
            stop,
            calls: Arc::new(Semaphore::new(CALLS_MOST)),
        }
    }
}

/// Serves until the token is cancelled.
pub(super) async fn serve(listener: TcpListener, server: Server) {
    let stop = server.stop.clone();
    let commits = commit(server.ground.clone(), stop.clone());
    let app = Router::new()
        .fallback(any)
        .layer(DefaultBodyLimit::max(BODY_MOST))
        .with_state(server);
    let listener = listener.tap_io(|socket| {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "molecule: small writes may be delayed");
        }
    });
    let serving = axum::serve(listener, app).with_graceful_shutdown(stop.cancelled_owned());
    let (served, ()) = tokio::join!(async { serving.await }, commits);
    if let Err(error) = served {
        tracing::warn!(%error, "molecule: stopped serving");
    }
}

/// Lets rows come into sight when their time has come.
async fn commit(ground: Shared, stop: CancellationToken) {
    let mut changes = ground.subscribe();
    loop {
        let due = changes.borrow_and_update().next_due();
        let come = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = come => {
                change(&ground, |ground| ground.commit_due(Instant::now()));
            }
        }
    }
}

async fn any(
    State(server): State<Server>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Ok(_permit) = server.calls.try_acquire() else {
        return render(Answer::error(503, "too many calls at once"), None);
    };
    let edition = server.ground.borrow().edition;
    let query = Query::<Vec<(String, String)>>::try_from_uri(&uri);
    let call = Call {
        place: Place::of(&method, uri.path(), edition),
        query: query.map(|Query(pairs)| pairs).unwrap_or_default(),
        headers,
        body,
    };
    let (number, fault) = change(&server.ground, |ground| {
        (ground.saw(&call), ground.meet(&call))
    });
    server.play(number, &call, fault).await
}

impl Server {
    async fn play(&self, number: u64, call: &Call, fault: MoleculeFault) -> Response {
        match fault {
            MoleculeFault::None => self.plain(number, call).await,
            MoleculeFault::Delay(time) => tokio::select! {
                () = tokio::time::sleep(time) => self.plain(number, call).await,
                () = self.stop.cancelled() => cut(),
            },
            MoleculeFault::Hold(gate) => {
                if self.opened(&gate).await {
                    self.plain(number, call).await
                } else {
                    cut()
                }
            }
            MoleculeFault::HoldAnswer(gate) => {
                let (answer, standing) = self.take(call).await;
                if self.opened(&gate).await {
                    self.send(number, answer, standing)
                } else {
                    cut()
                }
            }
            MoleculeFault::Refuse {
                status,
                retry_after,
                body,
            } => self.send(number, refusal(status, retry_after, body), None),
            MoleculeFault::Cut => cut(),
            MoleculeFault::LoseAnswer => {
                drop(self.take(call).await);
                cut()
            }
            MoleculeFault::Withhold => {
                drop(self.take(call).await);
                self.stop.cancelled().await;
                cut()
            }
            MoleculeFault::Trickle(pause) => {
                let (answer, _) = self.take(call).await;
                self.note(number, answer.status);
                trickle(answer, pause, self.stop.clone())
            }
            MoleculeFault::ResetMidBody => {
                let (answer, _) = self.take(call).await;
                self.note(number, answer.status);
                reset_mid_body(answer)
            }
            MoleculeFault::Garble => {
                let (mut answer, standing) = self.take(call).await;
                answer.content = garbled(answer.content);
                self.send(number, answer, standing)
            }
            MoleculeFault::Repeat => {
                let last = self.last_page(call);
                let (mut answer, standing) = self.take(call).await;
                if let (200, Some(last)) = (answer.status, last) {
                    answer.content = last;
                }
                self.send(number, answer, standing)
            }
            MoleculeFault::Reverse => {
                let (mut answer, standing) = self.take(call).await;
                if let Content::Json(serde_json::Value::Array(rows)) = &mut answer.content {
                    rows.reverse();
                }
                self.send(number, answer, standing)
            }
        }
    }

    async fn plain(&self, number: u64, call: &Call) -> Response {
        if call.place.route == Route::Events {
            return self.events(number, call);
        }
        let (answer, standing) = self.take(call).await;
        self.send(number, answer, standing)
    }

    /// Answers a call, and waits until what it wrote is written.
    async fn take(&self, call: &Call) -> (Answer, Option<Standing>) {
        let (mut answer, standing) = change(&self.ground, |ground| {
            let standing = ground.count(call);
            let answer = match standing.filter(|standing| standing.over) {
                Some(standing) => too_many(standing),
                None => match ground.guard(call) {
                    Ok(()) => ground.answer(call),
                    Err(refusal) => refusal,
                },
            };
            (answer, standing)
        });
        if let Some(row) = &answer.after {
            let mut ground = self.ground.subscribe();
            let shown = ground.wait_for(|ground| ground.row(row).is_none_or(Row::is_visible));
            tokio::select! {
                _ = shown => {}
                () = self.stop.cancelled() => {}
            }
        }
        match answer.calls.take().map(|calls| *calls) {
            None => {}
            Some(PushCalls::Answer(call)) => {
                answer = tokio::select! {
                    answer = dispatch(&self.ground, call) => answer,
                    () = self.stop.cancelled() => Answer::error(502, "stopping"),
                };
            }
            Some(PushCalls::Meanwhile(calls)) => {
                for call in calls {
                    let ground = self.ground.clone();
                    tokio::spawn(async move { dispatch(&ground, call).await });
                }
            }
        }
        (answer, standing)
    }

    /// Waits at a gate; false when the platform goes down first.
    async fn opened(&self, gate: &str) -> bool {
        let mut ground = self.ground.subscribe();
        tokio::select! {
            opened = ground.wait_for(|ground| ground.open.contains(gate)) => opened.is_ok(),
            () = self.stop.cancelled() => false,
        }
    }

    fn last_page(&self, call: &Call) -> Option<Content> {
        let id = super::ids::WorkspaceId::read(&call.place.id)?;
        let page = self.ground.borrow().pages.get(&id).cloned();
        page.map(Content::Json)
    }

    fn send(&self, number: u64, answer: Answer, standing: Option<Standing>) -> Response {
        self.note(number, answer.status);
        render(answer, standing)
    }

    fn note(&self, number: u64, status: u16) {
        change(&self.ground, |ground| ground.answered(number, status));
    }

    fn events(&self, number: u64, call: &Call) -> Response {
        match change(&self.ground, |ground| Some(ground.open_stream(call))) {
            Some(Ok((mode, frames))) => {
                self.note(number, 200);
                self.stream(mode, frames)
            }
            Some(Err(refusal)) => self.send(number, refusal, None),
            None => cut(),
        }
    }

    fn stream(&self, mode: EventStream, frames: mpsc::Receiver<String>) -> Response {
        let ping = Some(": ping\n\n".to_owned());
        let state = (ping, mode, frames, self.stop.clone());
        let body = stream::unfold(state, |(ping, mode, mut frames, stop)| async move {
            let frame = match ping {
                Some(ping) => Some(ping),
                None => tokio::select! {
                    frame = next_frame(mode, &mut frames) => frame,
                    () = stop.cancelled() => None,
                },
            };
            let sent = Ok::<_, std::io::Error>(Bytes::from(frame?));
            Some((sent, (None, mode, frames, stop)))
        });
        let mut response = Response::new(Body::from_stream(body));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("text/event-stream"),
        );
        response
    }
}

async fn next_frame(mode: EventStream, frames: &mut mpsc::Receiver<String>) -> Option<String> {
    match mode {
        EventStream::On => frames.recv().await,
        EventStream::Off | EventStream::Ends => None,
        EventStream::Silent => std::future::pending().await,
    }
}

fn refusal(status: u16, retry_after: Option<u32>, body: FaultBody) -> Answer {
    let mut answer = match body {
        FaultBody::Json(body) => Answer::json(status, body),
        FaultBody::Empty => Answer::empty(status),
        FaultBody::Html => {
            let mut answer = Answer::empty(status);
            answer.content = Content::Html(HTML.to_owned());
            answer
        }
    };
    answer.retry_after = retry_after;
    answer
}

/// Half of a JSON text, sent as if it were all of it.
fn garbled(content: Content) -> Content {
    match content {
        Content::Json(value) => {
            let text = value.to_string();
            let half = text.chars().count() / 2;
            Content::Broken(text.chars().take(half).collect())
        }
        content @ (Content::Text(_)
        | Content::Html(_)
        | Content::Broken(_)
        | Content::File { .. }
        | Content::Empty) => content,
    }
}
