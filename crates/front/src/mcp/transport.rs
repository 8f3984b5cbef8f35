//! The two transports: stdio for a client that started this process, and streamable HTTP behind `/mcp`.

use super::server::{Backend, ControlBackend, McpServer};
use super::sessions::{CALLER, Sessions};
use crate::{Caller, Control, Via};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Serves standard input and output until the client closes it or `stop` is cancelled.
///
/// # Errors
///
/// The client's first message is not a valid handshake.
pub async fn serve_stdio<B: Backend>(
    backend: B,
    stop: CancellationToken,
) -> Result<(), ServerInitializeError> {
    let server = McpServer(backend);
    let running = tokio::select! {
        running = server.serve_with_ct(stdio_pipes(), stop.clone()) => match running {
            Ok(running) => running,
            // The client disconnected before the handshake.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error),
        },
        () = stop.cancelled() => return Ok(()),
    };
    // The reason is in the log.
    let _ended = running.waiting().await;
    Ok(())
}

/// The longest prompt as JSON, with every character escaped.
const BODY_MAX_BYTES: usize = 8 * 1024 * 1024;

type Service<C> = StreamableHttpService<McpServer<ControlBackend<C>>, Sessions>;

/// The route handler. The guard has checked host, origin and token; the library's own host check knows fewer names and is
/// disabled.
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
