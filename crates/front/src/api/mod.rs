//! The HTTP API: its routes (one table), its guard, its limits, and how it is served on `api.sock` and TCP.

mod a2a;
mod bodies;
mod connections;
mod conversations;
mod counters;
mod dead;
mod events;
mod guard;
mod limits;
mod local;
mod mcp;
mod messages;
mod metrics;
mod news;
mod openapi;
mod page;
mod problem;
mod read;
mod reload;
mod requests;
mod route;
mod router;
mod server;
mod stall;
mod status;
mod stop;
mod streams;
mod table;
mod task_events;
mod tasks;
#[cfg(test)]
mod tests;
mod tokens;

pub use guard::{Hosts, HostsError, Listener, Peer, VIA_HEADER};
pub use local::{Bar, LocalProcess};
pub(crate) use read::idempotency_key;
pub use route::{Access, Trace, Verb};
pub(crate) use server::Gone;

pub(crate) use bodies::{BodyError, BodyShare};
pub(crate) use problem::ProblemResponse;
pub(crate) use read::Who;
pub(crate) use streams::Seat;

use connections::ConnectionLimits;
use limits::{CONNECTION_PATIENCE, ConnectionCounts};

use crate::a2a::{Ages, Tellers};
use crate::{BridgeService, Caller};
use axum::Router;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The API of one daemon.
#[derive(Clone)]
pub struct Api<D> {
    context: Context<D>,
    counts: ConnectionCounts,
}

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct Context<D> {
    pub(crate) service: D,
    /// Streams end with it.
    pub(crate) stop: CancellationToken,
    /// Whoever tells other agents what happens to their tasks.
    pub(crate) tellers: Tellers,
    /// Since when the agent card is what it is.
    pub(crate) ages: Arc<Ages>,
    shared: Arc<Shared>,
}

impl<D> Context<D> {
    /// A place among those whose connection is kept open; `None` when there is none.
    pub(crate) fn sit(&self, caller: &Caller) -> Option<Seat> {
        self.shared.streams.sit(caller).ok()
    }
}

/// What all doors have in common.
#[derive(Debug, Default)]
struct Shared {
    rates: guard::Rates,
    known: Arc<guard::Known>,
    /// When the use of each token was noted last.
    seen: Mutex<HashMap<String, Instant>>,
    streams: streams::Streams,
    bodies: Arc<bodies::BodyBudget>,
    counters: Arc<counters::Counters>,
}

/// One route, for whoever wants to try them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// How it is called.
    pub verb: Verb,
    /// Where, with `{name}` for what is filled in.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// What it is for, in a few words.
    pub summary: &'static str,
    /// What it leaves behind.
    pub trace: Trace,
}

impl<D: BridgeService> Api<D> {
    /// The API in front of a daemon; open streams end when `stop` is set.
    pub fn new(service: D, stop: CancellationToken) -> Self {
        let shared = Shared {
            streams: streams::Streams::until(stop.clone()),
            ..Shared::default()
        };
        Self {
            context: Context {
                service,
                tellers: Tellers::until(stop.clone()),
                stop,
                ages: Arc::default(),
                shared: Arc::new(shared),
            },
            counts: ConnectionCounts::default(),
        }
    }

    /// Takes no more connections than a process with so many file descriptors can afford.
    #[must_use]
    pub fn within_descriptors(self, descriptors: usize) -> Self {
        Self {
            counts: ConnectionCounts::within(descriptors),
            ..self
        }
    }

    /// Serves the local owner until told to stop.
    pub async fn serve_local(self, listener: UnixListener, bar: Bar) {
        let router = self.router(Listener::Local);
        let limits = ConnectionLimits::local(self.counts.local);
        let socket = local::Local::new(listener, bar);
        self.serve(socket, limits, router).await;
    }

    /// Serves holders of tokens until told to stop.
    pub async fn serve_tcp(self, listener: TcpListener, hosts: Hosts, proxied: bool) {
        let hosts = Arc::new(hosts);
        let router = self.router(Listener::Tcp { hosts, proxied });
        let limits = ConnectionLimits::tcp(self.counts.tcp, proxied, CONNECTION_PATIENCE);
        self.serve(listener, limits, router).await;
    }

    async fn serve(self, socket: impl server::Socket, limits: ConnectionLimits, router: Router) {
        let counters = Arc::clone(&self.context.shared.counters);
        server::serve(socket, limits, router, counters, self.context.stop).await;
    }

    /// The routes behind one listener, without its connections.
    pub fn router(&self, listener: Listener) -> Router {
        router::router(self.context.clone(), listener, table::routes())
    }

    /// All routes there are.
    #[must_use]
    pub fn routes() -> Vec<RouteEntry> {
        let entry = |route: &route::Route<D>| RouteEntry {
            verb: route.verb,
            path: route.path,
            access: route.access,
            summary: route.summary,
            trace: route.trace,
        };
        table::routes().iter().map(entry).collect()
    }

    /// The OpenAPI document.
    #[must_use]
    pub fn openapi() -> serde_json::Value {
        openapi::document(&table::routes::<D>())
    }
}

impl<D> fmt::Debug for Api<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}
