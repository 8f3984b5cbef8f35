//! Accepts and serves connections: bounded in number and head size, with deadlines for clients that neither send nor read.

use super::connections::{ConnectionLimits, Connections, Full, OpenConnection, UnderWay};
use super::guard::{A2A_PATH, ConnectionPeer, coarse};
use super::limits::{
    ACCEPT_PAUSE, FIRST_BYTE_DEADLINE, HEAD_DEADLINE, HEAD_MAX_BYTES, HEADERS_MAX,
    REFUSAL_DEADLINE, REFUSAL_MAX_BYTES, REFUSALS_MAX, STALL_DEADLINE,
};
use super::metrics::Counters;
use super::stall::Patient;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

/// A listening socket.
pub(super) trait Socket: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// How long a connection may stay open before it sends its first byte.
    fn first_byte(&self) -> Option<Duration>;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Io, ConnectionPeer)>> + Send;
}

impl Socket for TcpListener {
    type Io = TcpStream;

    fn first_byte(&self) -> Option<Duration> {
        Some(FIRST_BYTE_DEADLINE)
    }

    async fn accept(&self) -> io::Result<(TcpStream, ConnectionPeer)> {
        let (stream, address) = Self::accept(self).await?;
        // Server-sent events are small and should not be delayed.
        let _slower = stream.set_nodelay(true);
        let peer = ConnectionPeer {
            address: Some(address.ip()),
            process: None,
            user: None,
        };
        Ok((stream, peer))
    }
}

/// Serves until `stop`; then requests in progress finish and streams end.
pub(super) async fn serve<S: Socket>(
    socket: S,
    limits: ConnectionLimits,
    router: Router,
    counters: Arc<Counters>,
    stop: CancellationToken,
) {
    let connections = Connections::new(limits);
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let tasks = TaskTracker::new();
    loop {
        // Accepted before there is room: otherwise nobody would know that a connection has to make room.
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = socket.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let admitted = tokio::select! {
            () = stop.cancelled() => break,
            admitted = connections.admit(peer.address.map(coarse)) => admitted,
        };
        let (router, stop) = (router.clone(), stop.clone());
        match admitted {
            Ok(connection) => {
                let open = counters.opened();
                let stream =
                    Patient::new(stream, STALL_DEADLINE).with_first_byte(socket.first_byte());
                tasks.spawn(async move {
                    converse(stream, peer, Arc::new(connection), router, stop).await;
                    drop(open);
                });
            }
            Err(Full) => {
                if let Ok(turn) = Arc::clone(&refusals).try_acquire_owned() {
                    tasks.spawn(async move {
                        let full = (
                            StatusCode::SERVICE_UNAVAILABLE,
                            [(header::RETRY_AFTER, "1")],
                        );
                        let refused = refuse(stream, full.into_response());
                        let _too_slow = tokio::time::timeout(REFUSAL_DEADLINE, refused).await;
                        drop(turn);
                    });
                }
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// Sends one response and closes. Drains what the client sends, because the kernel would otherwise reset the connection
/// and discard the response.
pub(super) async fn refuse<Io>(mut stream: Io, response: Response) -> io::Result<()>
where
    Io: AsyncRead + AsyncWrite + Unpin,
{
    let (head, body) = response.into_parts();
    let body = to_bytes(body, REFUSAL_MAX_BYTES).await;
    let body = body.map_err(io::Error::other)?;
    let mut answer = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        if *name != header::CONTENT_LENGTH {
            answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
    }
    let length = format!(
        "connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    answer.extend(length.into_bytes());
    answer.extend(body);
    stream.write_all(&answer).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// The connection of a request, for the guard.
#[derive(Clone, Debug)]
pub(super) struct Over(pub(super) Arc<OpenConnection>);

/// A response body that keeps its connection busy until it is written.
struct Held {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn converse<Io>(
    stream: Io,
    peer: ConnectionPeer,
    open: Arc<OpenConnection>,
    router: Router,
    stop: CancellationToken,
) where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let closing = open.closing();
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(Over(Arc::clone(&open)));
        let answer = open
            .begin()
            .map(|under_way| (to_the_end(router.clone(), request), under_way));
        async move {
            let Some((answer, under_way)) = answer else {
                return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
            };
            let response = answer.await?;
            Ok::<_, Infallible>(response.map(|body| {
                Body::new(Held {
                    body,
                    _under_way: under_way,
                })
            }))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_MAX_BYTES)
        .max_buf_size(HEAD_MAX_BYTES * 2);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = closing.cancelled() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Cancelled when the caller of a request has disconnected.
#[derive(Clone, Debug)]
pub(crate) struct Gone(pub(crate) CancellationToken);

/// Handles a request. A2A requests run on a task of their own from the start: a closing connection cancels its handlers,
/// and a message that was sent whole must still reach the disk.
fn to_the_end(
    mut router: Router,
    mut request: Request<Body>,
) -> impl Future<Output = Result<Response, Infallible>> {
    let gone = CancellationToken::new();
    let sends = request.method() == Method::POST && request.uri().path().starts_with(A2A_PATH);
    request.extensions_mut().insert(Gone(gone.clone()));
    // A router is always ready.
    let answer = router.call(request);
    let answer = if sends {
        Either::Left(tokio::spawn(answer))
    } else {
        Either::Right(answer)
    };
    let until_hung_up = gone.drop_guard();
    async move {
        let _until_hung_up = until_hung_up;
        match answer {
            Either::Right(answer) => answer.await,
            Either::Left(answer) => {
                answer
                    .await
                    .unwrap_or_else(|error| match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(_stopping) => Ok(StatusCode::SERVICE_UNAVAILABLE.into_response()),
                    })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::BodyShare;
    use crate::api::extract::Body as JsonBody;
    use crate::api::limits::{BODY_DEADLINE, BODY_MAX_BYTES};
    use axum::Extension;
    use axum::extract::DefaultBodyLimit;
    use axum::routing::post;
    use tokio::io::DuplexStream;
    use tokio::time::Instant;

    /// A connection to a server that takes JSON.
    fn connect() -> DuplexStream {
        let take = |JsonBody(_): JsonBody<serde_json::Value>| async { "taken" };
        let router = Router::new()
            .route("/", post(take))
            .layer(Extension(BodyShare::for_tests()))
            .layer(DefaultBodyLimit::max(BODY_MAX_BYTES));
        let (near, far) = tokio::io::duplex(64 * 1024);
        let stop = CancellationToken::new();
        tokio::spawn(async move {
            let connections = Connections::new(ConnectionLimits::local(1));
            let open = connections.admit(None).await.unwrap();
            let far = Patient::new(far, STALL_DEADLINE).with_first_byte(Some(FIRST_BYTE_DEADLINE));
            converse(far, ConnectionPeer::default(), Arc::new(open), router, stop).await;
        });
        near
    }

    async fn said(mut near: DuplexStream) -> String {
        let mut text = String::new();
        near.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test(start_paused = true)]
    async fn threat_22_incomplete_head_closes_connection() {
        let began = Instant::now();
        let mut near = connect();
        near.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            .await
            .unwrap();
        said(near).await;
        assert!(began.elapsed() <= HEAD_DEADLINE + Duration::from_secs(1));
        let idle = connect();
        assert_eq!(said(idle).await, "", "nor may it say nothing at all");
        assert!(began.elapsed() <= (HEAD_DEADLINE + Duration::from_secs(1)) * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn f6_silent_connection_is_closed_early() {
        let began = Instant::now();
        assert_eq!(said(connect()).await, "");
        assert!(began.elapsed() <= FIRST_BYTE_DEADLINE + Duration::from_secs(1));
        let began = Instant::now();
        let mut spoke = connect();
        spoke.write_all(b"P").await.unwrap();
        assert_eq!(said(spoke).await, "");
        assert!(began.elapsed() >= HEAD_DEADLINE, "it has as long as others");
    }

    #[tokio::test(start_paused = true)]
    async fn threat_22_incomplete_body_times_out() {
        let began = Instant::now();
        let mut near = connect();
        let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
        near.write_all(head).await.unwrap();
        assert!(said(near).await.starts_with("HTTP/1.1 408"));
        assert!(began.elapsed() <= BODY_DEADLINE + HEAD_DEADLINE + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn threat_22_rejects_oversized_heads_and_bodies() {
        let many = "X-Y: z\r\n".repeat(HEADERS_MAX + 1);
        let long = format!("X-Long: {}\r\n", "y".repeat(HEAD_MAX_BYTES));
        for more in [many, long] {
            let mut near = connect();
            let head = format!("POST / HTTP/1.1\r\nHost: x\r\n{more}\r\n");
            near.write_all(head.as_bytes()).await.unwrap();
            let said = said(near).await;
            assert!(said.starts_with("HTTP/1.1 431"), "{said}");
        }
        let mut near = connect();
        let length = BODY_MAX_BYTES + 1;
        let head = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        near.write_all(head.as_bytes()).await.unwrap();
        near.write_all(b"[").await.unwrap();
        let mut start = [0; 12];
        near.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 413");
    }
}
