//! The HTTP API `/v1`: its routes, its limits and how it is served on a unix socket.

mod dead;
mod events;
mod messages;
mod problem;
mod status;

use crate::Desk;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use std::io;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use problem::ProblemResponse;

/// A message of Codex's longest input, as JSON with every character escaped, fits.
const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;

/// Serves the API until told to stop; open streams end then.
pub async fn serve<D: Desk>(
    listener: UnixListener,
    desk: D,
    stop: CancellationToken,
) -> io::Result<()> {
    let state = Context {
        desk,
        stop: stop.clone(),
    };
    axum::serve(listener, router(state))
        .with_graceful_shutdown(async move { stop.cancelled().await })
        .await
}

#[derive(Clone)]
struct Context<D> {
    desk: D,
    stop: CancellationToken,
}

fn router<D: Desk>(context: Context<D>) -> Router {
    Router::new()
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz::<D>))
        .route("/v1/status", get(status::status::<D>))
        .route(
            "/v1/messages",
            post(messages::submit::<D>).get(messages::list::<D>),
        )
        .route("/v1/messages/{id}", get(messages::show::<D>))
        .route("/v1/messages/{id}/events", get(events::stream::<D>))
        .route("/v1/messages/{id}/redrive", post(dead::redrive::<D>))
        .route("/v1/messages/{id}/drop", post(dead::discard::<D>))
        .route("/v1/messages/{id}/cancel", post(dead::cancel::<D>))
        .route("/v1/dead", get(dead::list::<D>))
        .fallback(|| async { ProblemResponse::not_found("there is no such route") })
        .method_not_allowed_fallback(|| async { ProblemResponse::method_not_allowed() })
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(context)
}
