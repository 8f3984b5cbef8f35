//! Stdio: the handler for one client, which started this process and speaks with it over its pipes.

use super::server::{Backend, McpServer};
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio_util::sync::CancellationToken;

/// Serves standard input and output until the client closes its end, or `stop` is set.
///
/// # Errors
///
/// The client began with something that is not the protocol.
pub async fn serve_stdio<B: Backend>(
    backend: B,
    stop: CancellationToken,
) -> Result<(), ServerInitializeError> {
    let server = McpServer(backend);
    let running = tokio::select! {
        running = server.serve_with_ct(stdio_pipes(), stop.clone()) => match running {
            Ok(running) => running,
            // It went away before it began.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error),
        },
        () = stop.cancelled() => return Ok(()),
    };
    // How it ended is in the log; there is nobody else to tell.
    let _ended = running.waiting().await;
    Ok(())
}
