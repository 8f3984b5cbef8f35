//! The HTTP API: its routes (one table), its guard, its limits, and how it is served on `api.sock` and TCP.

pub(crate) mod all_events;
pub(crate) mod audit;
mod bodies;
mod connections;
pub(crate) mod conversations;
pub(crate) mod dead;
mod extract;
mod feed;
pub(crate) mod figures;
mod files;
pub(crate) mod find;
mod guard;
mod limits;
pub(crate) mod loans;
mod local;
mod mcp;
mod messages;
mod metrics;
pub(crate) mod nodes;
mod openapi;
pub(crate) mod operator;
mod permits;
mod platform;
pub(crate) mod policy;
mod problem;
mod push;
pub(crate) mod quota;
pub(crate) mod requests;
mod route;
pub(crate) mod search;
pub(crate) mod senders;
mod server;
mod sessions;
mod stall;
pub(crate) mod status;
mod table;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod tokens;

pub(crate) use extract::idempotency_key;
pub use guard::{ConnectionPeer, Hosts, HostsError, Listener, SESSION_HEADER, VIA_HEADER};
pub use local::{LocalProcess, ProcessFinder, UserFinder};
pub(crate) use route::Route;
pub use route::{Access, Trace, Verb};
pub(crate) use server::Gone;
pub use sessions::{LoginMade, NewLogin};

pub(crate) use bodies::{BodyError, BodyShare};
pub(crate) use extract::Who;
pub(crate) use permits::StreamPermit;
pub(crate) use problem::ProblemResponse;

use connections::ConnectionLimits;
use limits::{CONNECTION_PATIENCE, ConnectionCounts};

use crate::a2a::{Ages, Publishers};
use crate::{BridgeService, Caller, Scope};
use axum::Router;
use bridge_core::value::Timestamp;
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

/// State shared by handlers.
#[derive(Clone)]
pub(crate) struct Context<D> {
    pub(crate) service: D,
    /// Ends all streams.
    pub(crate) stop: CancellationToken,
    /// Publishers of A2A task streams.
    pub(crate) publishers: Publishers,
    /// Last change of the agent card.
    pub(crate) ages: Arc<Ages>,
    shared: Arc<ApiState>,
}

impl<D> Context<D> {
    /// A permit for a connection that stays open; `None` if there are too many.
    pub(crate) fn stream_permit(&self, caller: &Caller) -> Option<StreamPermit> {
        self.shared.streams.acquire(caller).ok()
    }
}

/// State shared by all listeners.
#[derive(Debug, Default)]
struct ApiState {
    rates: guard::Rates,
    known: Arc<guard::TokenCache>,
    /// When the use of each token was last recorded.
    seen: Mutex<HashMap<String, Instant>>,
    streams: permits::StreamPermits,
    bodies: Arc<bodies::BodyBudget>,
    /// When the next of many failed messages may have its turn; held by the call that sends some again.
    next_redrive: tokio::sync::Mutex<Option<Timestamp>>,
    /// Held by the one search that runs.
    searching: tokio::sync::Mutex<()>,
    counters: Arc<metrics::Counters>,
}

/// A route, for tests that try them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    pub verb: Verb,
    /// Path with `{name}` placeholders.
    pub path: &'static str,
    pub access: Access,
    pub summary: &'static str,
    pub trace: Trace,
}

impl<D: BridgeService> Api<D> {
    /// The API of a daemon; open streams end when `stop` is cancelled.
    pub fn new(service: D, stop: CancellationToken) -> Self {
        let shared = ApiState {
            streams: permits::StreamPermits::until(stop.clone()),
            ..ApiState::default()
        };
        Self {
            context: Context {
                service,
                publishers: Publishers::until(stop.clone()),
                stop,
                ages: Arc::default(),
                shared: Arc::new(shared),
            },
            counts: ConnectionCounts::default(),
        }
    }

    /// Limits connections to what this number of file descriptors allows.
    #[must_use]
    pub fn within_descriptors(self, descriptors: usize) -> Self {
        Self {
            counts: ConnectionCounts::within(descriptors),
            ..self
        }
    }

    /// Serves the local owner until `stop`.
    pub async fn serve_local(self, listener: UnixListener, bar: ProcessFinder) {
        let router = self.router(Listener::Local);
        let limits = ConnectionLimits::local(self.counts.local);
        let socket = local::Local::new(listener, bar);
        self.serve(socket, limits, router).await;
    }

    /// Serves people of a group, each as a sender of their own, until `stop`.
    pub async fn serve_group(
        self,
        listener: UnixListener,
        bar: ProcessFinder,
        users: UserFinder,
        scopes: Vec<Scope>,
    ) {
        let scopes = scopes.into();
        let router = self.router(Listener::Group { scopes });
        // Beside those of the owner and of TCP, so that members never take theirs.
        let limits = ConnectionLimits::group((self.counts.tcp / 2).max(1), CONNECTION_PATIENCE);
        let socket = local::Local::of_group(listener, bar, users);
        self.serve(socket, limits, router).await;
    }

    /// Serves token holders until `stop`.
    pub async fn serve_tcp(self, listener: TcpListener, hosts: Hosts, proxied: bool) {
        let hosts = Arc::new(hosts);
        let router = self.router(Listener::Tcp { hosts, proxied });
        let limits = ConnectionLimits::tcp(self.counts.tcp, proxied, CONNECTION_PATIENCE);
        let watch = guard::watch_credentials(self.context.clone());
        tokio::join!(self.serve(listener, limits, router), watch);
    }

    async fn serve(self, socket: impl server::Socket, limits: ConnectionLimits, router: Router) {
        let counters = Arc::clone(&self.context.shared.counters);
        server::serve(socket, limits, router, counters, self.context.stop).await;
    }

    /// The router of one listener.
    pub fn router(&self, listener: Listener) -> Router {
        route::router(self.context.clone(), listener, table::routes())
    }

    /// All routes.
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
