//! Route row of `/mcp`, whose calls count as streams. The protocol is in `crate::mcp`.

use super::bodies::BodyShare;
use super::extract::{Who, read_body};
use super::permits::StreamPermits;
use super::route::{Access, Route, Trace};
use super::{Context, ProblemResponse};
use crate::control::Scope;
use crate::{BridgeService, TaskService};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// Opening a session needs `read`; each tool call is authorised separately.
pub(super) fn row<D: BridgeService>() -> Route<D> {
    Route::any(
        "/mcp",
        Access::Scope(Scope::Read),
        Trace::Row,
        "The Model Context Protocol over streamable HTTP",
        |context: &Context<D>| {
            let control = TaskService::new(context.service.clone());
            let streams = context.shared.streams.clone();
            crate::mcp::route(control, context.stop.clone())
                .layer(from_fn_with_state(streams, bounded))
        },
    )
}

/// Any call may become a stream, so each holds a stream permit until its response is read. The body is read before the
/// protocol sees the request.
async fn bounded(
    State(streams): State<StreamPermits>,
    Who(caller): Who,
    request: Request,
    next: Next,
) -> Result<Response, Response> {
    let permit = streams
        .acquire(&caller)
        .map_err(IntoResponse::into_response)?;
    let room = request.extensions().get::<BodyShare>().cloned();
    let request = arrived(request).await?;
    let response = next.run(request).await;
    Ok(response.map(|body| {
        let revoked = permit.revoked();
        let parts = body.into_data_stream().take_until(revoked);
        Body::from_stream(parts.map(move |part| {
            let _taken = (&permit, &room);
            part
        }))
    }))
}

async fn arrived(request: Request) -> Result<Request, Response> {
    let (head, body) = request.into_parts();
    if head.method != Method::POST {
        return Ok(Request::from_parts(head, Body::empty()));
    }
    if !is_json(&head.headers) {
        let why = "a message to /mcp is JSON: send it with `Content-Type: application/json`";
        let problem = ProblemResponse::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
        return Err(problem.into_response());
    }
    let bytes = read_body(&head, body)
        .await
        .map_err(IntoResponse::into_response)?;
    if let Some(error) = unreadable(&bytes) {
        return Err((StatusCode::BAD_REQUEST, Json(error)).into_response());
    }
    Ok(Request::from_parts(head, Body::from(bytes)))
}

fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(header::CONTENT_TYPE);
    let media = said
        .and_then(|said| said.to_str().ok())
        .and_then(|said| said.split(';').next());
    media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

/// Answer to an unreadable message; the library would respond with 415, as if the content type were wrong.
fn unreadable(bytes: &[u8]) -> Option<Value> {
    let error = serde_json::from_slice::<ClientJsonRpcMessage>(bytes).err()?;
    let is_json = serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    let (code, what) = if is_json {
        (ErrorCode::INVALID_REQUEST, "this is no message of MCP")
    } else {
        (ErrorCode::PARSE_ERROR, "the body can't be read as JSON")
    };
    let message = format!("{what} ({error}); nothing was done");
    Some(json!({"jsonrpc": "2.0", "id": null, "error": {"code": code.0, "message": message}}))
}
