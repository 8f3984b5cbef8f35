//! The two transports: stdio for a client that started this process, and streamable HTTP behind `/mcp`.
//!
//! Only HTTP clients of older protocol revisions have sessions: bounded, ended when idle, and each usable only by the caller
//! that opened it. Authority is never taken from a session: each request is authenticated.

use super::server::{Backend, ControlBackend, McpServer};
use crate::{Caller, Control, Via};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use futures_util::Stream;
use rmcp::ServiceExt;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::ServerInitializeError;
use rmcp::transport::common::server_side_http::{ServerSseMessage, SessionId};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker,
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::transport::{WorkerTransport, stdio_pipes};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
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

/// Sessions; the least recently used one is evicted, and its client gets 404 and starts again.
const SESSIONS_MAX: usize = 64;
/// Sessions of one caller.
const SESSIONS_PER_CALLER: usize = 16;
/// Idle timeout of a session; longer than the longest call.
const SILENCE_MAX: Duration = Duration::from_secs(30 * 60);

tokio::task_local! {
    /// Caller of the current HTTP request.
    pub(super) static CALLER: String;
}

/// The sessions and their owners.
#[derive(Debug)]
pub(super) struct Sessions {
    inner: LocalSessionManager,
    owned: Mutex<HashMap<SessionId, Owned>>,
}

#[derive(Debug)]
struct Owned {
    caller: String,
    used: Instant,
}

impl Sessions {
    pub(super) fn new() -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(SILENCE_MAX);
        Self {
            inner,
            owned: Mutex::default(),
        }
    }

    /// Whether the current request may use this session. Housekeeping, which has no caller, may use all.
    async fn is_theirs(&self, id: &SessionId) -> bool {
        let Ok(caller) = CALLER.try_with(Clone::clone) else {
            return true;
        };
        match self.owned.lock().await.get_mut(id) {
            Some(owned) if owned.caller == caller => {
                owned.used = Instant::now();
                true
            }
            Some(_) | None => false,
        }
    }

    /// Sessions to evict before this caller gets another one.
    async fn make_room(
        &self,
        owned: &mut HashMap<SessionId, Owned>,
        caller: &str,
    ) -> Vec<SessionId> {
        let open = self.inner.sessions.read().await;
        owned.retain(|id, _| open.contains_key(id));
        drop(open);
        let mut gone = Vec::new();
        let theirs = |owned: &Owned| owned.caller == caller;
        if owned.values().filter(|owned| theirs(owned)).count() >= SESSIONS_PER_CALLER {
            gone.extend(take_oldest(owned, theirs));
        }
        if owned.len() >= SESSIONS_MAX {
            gone.extend(take_oldest(owned, |_| true));
        }
        gone
    }
}

fn take_oldest(
    owned: &mut HashMap<SessionId, Owned>,
    of: impl Fn(&Owned) -> bool,
) -> Option<SessionId> {
    let oldest = owned.iter().filter(|(_, owned)| of(owned));
    let id = oldest.min_by_key(|(_, owned)| owned.used)?.0.clone();
    owned.remove(&id);
    Some(id)
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let caller = CALLER.try_with(Clone::clone).unwrap_or_default();
        // Held until the new one is counted, so that two concurrent requests can't exceed the limit.
        let mut owned = self.owned.lock().await;
        let gone = self.make_room(&mut owned, &caller).await;
        let (id, transport) = self.inner.create_session().await?;
        let used = Instant::now();
        owned.insert(id.clone(), Owned { caller, used });
        drop(owned);
        for id in gone {
            self.inner.close_session(&id).await?;
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.is_theirs(id).await && self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        if !self.is_theirs(id).await {
            return Ok(());
        }
        self.owned.lock().await.remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open(sessions: &Sessions, caller: &str) -> SessionId {
        let made = CALLER.scope(caller.to_owned(), sessions.create_session());
        made.await.unwrap().0
    }

    async fn has(sessions: &Sessions, caller: &str, id: &SessionId) -> bool {
        let asked = CALLER.scope(caller.to_owned(), sessions.has_session(id));
        asked.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_per_caller() {
        let sessions = Sessions::new();
        let other = open(&sessions, "other").await;
        let mut own = Vec::new();
        for _ in 0..=SESSIONS_PER_CALLER {
            tokio::time::advance(Duration::from_secs(1)).await;
            own.push(open(&sessions, "one").await);
        }
        assert!(!has(&sessions, "one", &own[0]).await);
        assert!(has(&sessions, "one", &own[1]).await);
        assert!(has(&sessions, "other", &other).await);
        assert!(!has(&sessions, "one", &other).await);
        // Nor can it be ended by somebody else.
        let ended = CALLER.scope("one".to_owned(), sessions.close_session(&other));
        ended.await.unwrap();
        assert!(has(&sessions, "other", &other).await);
    }
}
