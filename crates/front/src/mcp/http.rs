//! Streamable HTTP: the same handler behind `/mcp`, for callers that the API's guard has let in.

use super::server::{ControlBackend, McpServer};
use super::sessions::{CALLER, Sessions};
use crate::{Caller, Control, Via};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A prompt of the longest kind, as JSON with every character escaped, fits.
const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;

type Service<C> = StreamableHttpService<McpServer<ControlBackend<C>>, Sessions>;

/// The route. Foreign hosts and origins are refused by the guard in front of all routes, and so is whoever has no
/// token; the library's own check of hosts knows fewer names and is off.
pub fn route<C: Control, S>(control: C, stop: CancellationToken) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let config = StreamableHttpServerConfig::default()
        .with_max_request_body_bytes(BODY_MAX_BYTES)
        .with_cancellation_token(stop)
        .disable_allowed_hosts();
    let server = McpServer(ControlBackend(control));
    let sessions = Arc::new(Sessions::new());
    let service: Service<C> =
        StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    any(answer::<C>).with_state(service)
}

async fn answer<C: Control>(State(service): State<Service<C>>, mut request: Request) -> Response {
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let name = caller.name.clone();
    request.extensions_mut().insert(Caller {
        via: Via::Mcp,
        ..caller
    });
    let response = CALLER.scope(name, service.handle(request)).await;
    response.map(Body::new)
}
