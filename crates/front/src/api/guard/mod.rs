//! Middleware in front of all routes: checks host and origin, identifies the caller, limits rates, catches panics.
//!
//! It runs before routing, so that a route can't be forgotten.

mod hosts;
mod identify;
mod known;
mod rate;
mod session;

pub use hosts::{Hosts, HostsError};
pub use identify::VIA_HEADER;
pub(super) use identify::{A2A_PATH, Identity};
pub(super) use known::{TokenCache, TokenUse, watch_credentials};
pub(super) use rate::Rates;
pub use session::SESSION_HEADER;
pub(super) use session::{SessionHalves, cookie_name, is_same_origin, page_half};

use super::server::Over;
use super::{Context, LocalProcess, ProblemResponse};
use crate::BridgeService;
use crate::control::{Grants, Scope};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bridge_core::value::TraceParent;
use futures_util::FutureExt;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// No page of another origin may load an answer as a picture or script, and nothing is taken for what it does not say it is.
const SAME_ORIGIN_ONLY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
/// W3C trace context.
const TRACEPARENT: &str = "traceparent";
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// The listener of a request.
#[derive(Clone, Debug)]
pub enum Listener {
    /// `api.sock`, which only the local owner can open.
    Local,
    /// The socket of a group of users, each known by the uid that the kernel gives.
    Group { scopes: Arc<[Scope]> },
    /// TCP, which needs a token.
    Tcp {
        hosts: Arc<Hosts>,
        /// Whether a trusted proxy reports the client's address.
        proxied: bool,
    },
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPeer {
    pub address: Option<IpAddr>,
    /// The process that opened a connection of `api.sock`.
    pub process: Option<LocalProcess>,
    /// The user that opened a connection of the group's socket.
    pub user: Option<String>,
}

/// The guard of one listener.
#[derive(Clone)]
pub(super) struct ListenerGuard<D> {
    context: Context<D>,
    listener: Listener,
}

impl<D> ListenerGuard<D> {
    pub(super) fn new(context: Context<D>, listener: Listener) -> Self {
        Self { context, listener }
    }
}

/// Checks a request before it is routed.
pub(super) async fn enter<D: BridgeService>(
    State(gate): State<ListenerGuard<D>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = check(&gate, request, next).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    headers.insert(SAME_ORIGIN_ONLY, SAME_ORIGIN);
    let status = response.status().as_u16();
    gate.context.shared.counters.answered(status);
    response
}

async fn check<D: BridgeService>(
    gate: &ListenerGuard<D>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request
        .extensions_mut()
        .remove::<ConnectionPeer>()
        .unwrap_or_default();
    // At every request: the process may have ended and left its socket to another one.
    let program = match peer.process.map(|process| process.inspect()).transpose() {
        Ok(program) => program,
        Err(why) => return ProblemResponse::forbidden(why).into_response(),
    };
    if let Listener::Tcp { hosts, .. } = &gate.listener
        && let Err(refusal) = hosts.check(request.uri(), request.headers())
    {
        return ProblemResponse::forbidden(refusal).into_response();
    }
    if let Err(refusal) = session::check_site(request.headers()) {
        return ProblemResponse::forbidden(refusal).into_response();
    }
    let source = gate.source(peer.address, &request);
    let (path, headers) = (request.uri().path(), request.headers());
    let known = &gate.context.shared.known;
    let generation = known.generation();
    let mut identity = gate.identify(path, headers, program, peer.user).await;
    if let Identity::Known(caller) = &mut identity {
        caller.trace = trace_parent(headers);
    }
    let rated = match &identity {
        Identity::Known(caller) => match caller.grants {
            Grants::LocalOwner => None,
            Grants::Scopes(_) | Grants::Session { .. } | Grants::Member(_) => {
                Some(format!("caller {}", caller.credential()))
            }
        },
        Identity::Nobody(_) | Identity::Unsure => Some(source.clone()),
    };
    if let Some(wait) = rated.and_then(|who| gate.context.shared.rates.call(&who)) {
        return ProblemResponse::too_many("too many calls", wait).into_response();
    }
    let over = request.extensions_mut().remove::<Over>();
    if let (Some(Over(connection)), Identity::Known(caller)) = (over, &identity)
        && !caller.is_anonymous()
        && connection.is_too_many_of(caller.credential())
    {
        let wait = Duration::from_secs(1);
        let problem = ProblemResponse::too_many("this caller has too many connections", wait);
        return ([(header::CONNECTION, "close")], problem).into_response();
    }
    if let Identity::Known(caller) = &identity
        && matches!(caller.grants, Grants::Scopes(_) | Grants::Session { .. })
    {
        let token = known.used(caller.credential(), generation);
        request.extensions_mut().insert(token);
    }
    request.extensions_mut().insert(identity);
    let response = gate.run(request, next).await;
    if response.status() != StatusCode::UNAUTHORIZED {
        return response;
    }
    match gate.context.shared.rates.failure(&source) {
        Some(wait) => {
            ProblemResponse::too_many("too many calls without a valid token", wait).into_response()
        }
        None => response,
    }
}

/// The caller's span, where it gives one that can be read.
fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
}

impl<D: BridgeService> ListenerGuard<D> {
    /// Turns a handler's panic into a response (K16).
    async fn run(&self, request: Request, next: Next) -> Response {
        match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(_) => {
                self.context.shared.counters.panicked();
                tracing::error!("a handler of the API panicked; its caller got an error");
                ProblemResponse::bug().into_response()
            }
        }
    }

    /// The client's address, for counting refusals. A trusted proxy appends it last.
    fn source(&self, address: Option<IpAddr>, request: &Request) -> String {
        let proxied = match &self.listener {
            Listener::Local | Listener::Group { .. } => false,
            Listener::Tcp { proxied, .. } => *proxied,
        };
        let forwarded = request
            .headers()
            .get_all("x-forwarded-for")
            .iter()
            .next_back()
            .and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok())
            .filter(|_| proxied);
        match forwarded.or(address) {
            Some(address) => format!("address {}", coarse(address)),
            None => "address unknown".to_owned(),
        }
    }
}

/// Groups IPv6 addresses by network: a client usually has all addresses of one.
pub(super) fn coarse(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
    }
}
