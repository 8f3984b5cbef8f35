//! Connections: accepted up to a number, with bounded heads and deadlines for whoever sends or takes nothing.
//!
//! What a request means is the router's business.

use super::counters::Counters;
use super::guard::Peer;
use super::limits::{
    ACCEPT_PAUSE, CONNECTIONS_MAX, HEAD_DEADLINE, HEAD_MAX_BYTES, HEADERS_MAX, STALL_DEADLINE,
};
use super::stall::Patient;
use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

/// Says why nothing from the process at the other end of `api.sock` is heard, if so.
#[derive(Clone)]
pub struct Bar(Arc<dyn Fn(i32) -> Option<String> + Send + Sync>);

impl Bar {
    /// Asked once per connection, with the pid of the process that opened it.
    pub fn new(why: impl Fn(i32) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(why))
    }

    /// Hears everybody.
    #[must_use]
    pub fn none() -> Self {
        Self::new(|_| None)
    }
}

impl fmt::Debug for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bar")
    }
}

/// Where connections come from.
pub(super) trait Socket: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Io, Peer)>> + Send;
}

/// `api.sock`.
pub(super) struct Local {
    pub(super) listener: UnixListener,
    pub(super) bar: Bar,
}

impl Socket for Local {
    type Io = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.listener.accept().await?;
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let peer = Peer {
            address: None,
            barred: pid.and_then(|pid| (self.bar.0)(pid)),
        };
        Ok((stream, peer))
    }
}

impl Socket for TcpListener {
    type Io = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = Self::accept(self).await?;
        // Events are small and wanted at once.
        let _slower = stream.set_nodelay(true);
        let peer = Peer {
            address: Some(address.ip()),
            barred: None,
        };
        Ok((stream, peer))
    }
}

/// Serves until told to stop; then open connections finish what they do, and streams end.
pub(super) async fn serve(
    socket: impl Socket,
    router: Router,
    counters: Arc<Counters>,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    loop {
        let accepted = async {
            // The semaphore is never closed; a connection without a permit is none.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((socket.accept().await, place))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Some((Ok((stream, peer)), place)) => {
                let (router, stop) = (router.clone(), stop.clone());
                let open = counters.opened();
                connections.spawn(async move {
                    converse(Patient::new(stream, STALL_DEADLINE), peer, router, stop).await;
                    drop((place, open));
                });
            }
            Some((Err(error), _)) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None => break,
        }
    }
    connections.close();
    connections.wait().await;
}

async fn converse<Io>(stream: Io, peer: Peer, router: Router, stop: CancellationToken)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        // A router is always ready.
        router.clone().call(request)
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
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}
