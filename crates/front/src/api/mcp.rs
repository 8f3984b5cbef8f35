//! The row of `/mcp`: its calls are bounded as streams are. The protocol behind it, and what it does, is in `crate::mcp`.

use super::limits::{BODY_DEADLINE, BODY_MAX_BYTES};
use super::read::Who;
use super::route::{Access, Route, Trace};
use super::streams::Streams;
use super::{Context, ProblemResponse};
use crate::control::Scope;
use crate::{Desk, DeskControl};
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use futures_util::StreamExt;

/// Whoever may look may come in; what a call may do is decided by its caller's scopes, act by act.
pub(super) fn row<D: Desk>() -> Route<D> {
    Route::any(
        "/mcp",
        Access::Scope(Scope::Read),
        Trace::Row,
        "The Model Context Protocol over streamable HTTP",
        |context: &Context<D>| {
            let control = DeskControl::new(context.desk.clone());
            let streams = context.shared.streams.clone();
            crate::mcp::route(control, context.stop.clone())
                .layer(from_fn_with_state(streams, bounded))
        },
    )
}

/// Any call may become a stream, so that each takes a place of one until its answer is read. The body is here before
/// the protocol sees it.
async fn bounded(
    State(streams): State<Streams>,
    Who(caller): Who,
    request: Request,
    next: Next,
) -> Result<Response, ProblemResponse> {
    let seat = streams.sit(&caller)?;
    let request = arrived(request).await?;
    let response = next.run(request).await;
    Ok(response.map(|body| {
        let revoked = seat.revoked();
        let parts = body.into_data_stream().take_until(revoked);
        Body::from_stream(parts.map(move |part| {
            let _taken = &seat;
            part
        }))
    }))
}

async fn arrived(request: Request) -> Result<Request, ProblemResponse> {
    let too_long = || {
        ProblemResponse::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is longer than {BODY_MAX_BYTES} bytes; nothing was done"),
        )
    };
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > BODY_MAX_BYTES as u64 {
        return Err(too_long());
    }
    match tokio::time::timeout(BODY_DEADLINE, to_bytes(body, BODY_MAX_BYTES)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(head, Body::from(bytes))),
        Ok(Err(_)) => Err(too_long()),
        Err(_) => Err(ProblemResponse::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time; nothing was done, send it again",
        )),
    }
}
