//! The platform's HTTP side: reads calls, plays the fault that each meets, and answers.
//! What a call means is the ground's business.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use futures_util::stream;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::fault::{Call, Fault};
use super::ground::{Page, Shared, change};
use super::wire::{AckBody, Inbox, InboxQuery, NewReply, ProbeQuery, Receipt, ReplyBody};
use crate::history::RowId;

/// The largest body: the longest text that a daemon may send, escaped at its worst.
const BODY_MOST: usize = 8 << 20;
/// Calls under way at once; more are refused with 503.
const CALLS_MOST: usize = 256;
/// Rows that the inbox shows when nobody says how many.
const LIMIT_DEFAULT: usize = 50;
/// The longest time that the inbox keeps a caller waiting for news.
const WAIT_MOST: Duration = Duration::from_secs(30);

/// What every handler needs.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) ground: Shared,
    pub(super) stop: CancellationToken,
}

#[derive(Clone, Debug)]
struct BridgeService {
    server: Server,
    calls: Arc<Semaphore>,
}

/// Serves until the token is cancelled.
pub(super) async fn serve(listener: TcpListener, server: Server) {
    let stop = server.stop.clone();
    let service = BridgeService {
        server,
        calls: Arc::new(Semaphore::new(CALLS_MOST)),
    };
    let app = Router::new()
        .route("/inbox", get(inbox))
        .route("/replies", post(reply).get(probe))
        .route("/acks", post(ack))
        .fallback(missing)
        .layer(DefaultBodyLimit::max(BODY_MOST))
        .with_state(service);
    let listener = listener.tap_io(|socket| {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "platform: small writes may be delayed");
        }
    });
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::warn!(%error, "platform: stopped serving");
    }
}

async fn missing(uri: Uri) -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        None,
        &format!("the platform has no path {uri}"),
    )
}

async fn inbox(State(service): State<BridgeService>, Query(query): Query<InboxQuery>) -> Response {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    let mark = query.mark.unwrap_or(0);
    let wait = Duration::from_millis(query.wait.unwrap_or(0)).min(WAIT_MOST);
    service
        .play(Call::Inbox, None, async |server| {
            if query.mark.is_some() {
                server.news(limit, mark, wait).await;
            }
            let Page { rows, mark } = change(&server.ground, |ground| ground.show(limit, mark));
            Json(Inbox { rows, mark }).into_response()
        })
        .await
}

async fn reply(State(service): State<BridgeService>, body: Bytes) -> Response {
    let reply: ReplyBody = match read(&body) {
        Ok(reply) => reply,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, None, &why),
    };
    let about = RowId::read(reply.about());
    service
        .play(Call::Reply, about, async |server| {
            let taken = change(&server.ground, |ground| ground.reply(NewReply::from(reply)));
            match taken {
                Some(receipt) => receipt_of(Some(receipt)),
                None => refuse(StatusCode::NOT_FOUND, None, "no such row there"),
            }
        })
        .await
}

async fn probe(State(service): State<BridgeService>, Query(query): Query<ProbeQuery>) -> Response {
    service
        .play(Call::Probe, None, async |server| {
            let found = server.ground.borrow().probe(&query.key);
            match found {
                Some(receipt) => receipt_of(receipt),
                None => refuse(
                    StatusCode::METHOD_NOT_ALLOWED,
                    None,
                    "this platform can't be asked",
                ),
            }
        })
        .await
}

async fn ack(State(service): State<BridgeService>, body: Bytes) -> Response {
    let ack: AckBody = match read(&body) {
        Ok(ack) => ack,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, None, &why),
    };
    let about = RowId::read(&ack.row);
    service
        .play(Call::Ack, about, async |server| {
            if change(&server.ground, |ground| ground.ack(&ack.row)) {
                Json(json!({})).into_response()
            } else {
                refuse(StatusCode::NOT_FOUND, None, "no such row")
            }
        })
        .await
}

impl BridgeService {
    /// Lets one call meet its fault.
    async fn play(
        &self,
        call: Call,
        about: Option<RowId>,
        take: impl AsyncFnOnce(&Server) -> Response,
    ) -> Response {
        let Ok(_permit) = self.calls.try_acquire() else {
            return refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                None,
                "too many calls at once",
            );
        };
        let fault = change(&self.server.ground, |ground| ground.meet(call, about));
        match fault {
            Fault::None => take(&self.server).await,
            Fault::Delay(time) => {
                tokio::select! {
                    () = tokio::time::sleep(time) => take(&self.server).await,
                    () = self.server.stop.cancelled() => cut(),
                }
            }
            Fault::Refuse {
                status,
                retry_after,
            } => {
                let status =
                    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                refuse(status, retry_after, "as the script says")
            }
            Fault::Cut => cut(),
            Fault::Withhold => {
                drop(take(&self.server).await);
                self.server.stop.cancelled().await;
                cut()
            }
            Fault::LoseResponse => {
                drop(take(&self.server).await);
                cut()
            }
        }
    }
}

impl Server {
    /// Waits for something newer than `mark`, as long as the caller wants to.
    async fn news(&self, limit: usize, mark: u64, wait: Duration) {
        let mut ground = self.ground.subscribe();
        let news = ground.wait_for(|ground| ground.has_news(limit, mark));
        tokio::select! {
            _ = tokio::time::timeout(wait, news) => {}
            () = self.stop.cancelled() => {}
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("this body can't be read: {error}"))
}

fn receipt_of(receipt: Option<String>) -> Response {
    Json(Receipt { receipt }).into_response()
}

fn refuse(status: StatusCode, retry_after: Option<u32>, why: &str) -> Response {
    let mut response = (status, Json(json!({ "error": why }))).into_response();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Ends the connection without a byte of an answer: a body that fails at once is never flushed.
fn cut() -> Response {
    let broken = io::Error::new(io::ErrorKind::ConnectionAborted, "cut");
    let body = stream::once(async { Err::<Bytes, _>(broken) });
    Body::from_stream(body).into_response()
}
