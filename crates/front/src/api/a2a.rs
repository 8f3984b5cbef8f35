//! Route rows of A2A: the public card and everything below `/a2a`. The protocol is in `crate::a2a`.

use super::route::{Access, CallDeadline, Route, Trace};
use crate::BridgeService;
use crate::a2a::{rest, rpc};
use crate::control::Scope;
use axum::routing::{delete, get, post};

const PEERS: Access = Access::Scope(Scope::A2a);
const CARD: &str = "/.well-known/agent-card.json";
const TASK: &str = "/a2a/tasks/{id}";
const PUSHES: &str = "/a2a/tasks/{id}/pushNotificationConfigs";
const PUSH: &str = "/a2a/tasks/{id}/pushNotificationConfigs/{config}";
const FILE: &str = "/a2a/tasks/{id}/files/{message}/{n}";

/// The card and the calls that send.
pub(super) fn rows<D: BridgeService>() -> Vec<Route<D>> {
    let mut rows = vec![
        Route::get(CARD, Access::Public, "The agent card of A2A", |_| {
            get(rest::public_card::<D>)
        }),
        long(Route::post(
            "/a2a",
            PEERS,
            Trace::Row,
            "A2A over JSON-RPC, 1.0 and 0.3",
            |_| post(rpc::call::<D>),
        )),
        long(Route::post(
            "/a2a/",
            PEERS,
            Trace::Row,
            "A2A over JSON-RPC for clients that add a slash",
            |_| post(rpc::call::<D>),
        )),
        long(Route::post(
            "/a2a/message:send",
            PEERS,
            Trace::Row,
            "A2A: give Codex a task, or go on with one",
            |_| post(rest::send::<D>),
        )),
        long(Route::post(
            "/a2a/message:stream",
            PEERS,
            Trace::Row,
            "A2A: the same, and follow it",
            |_| post(rest::stream::<D>),
        )),
        Route::get(
            "/a2a/extendedAgentCard",
            PEERS,
            "A2A: the card for callers that are known",
            |_| get(rest::extended_card::<D>),
        ),
    ];
    rows.extend(of_tasks());
    rows.extend(of_pushes());
    rows
}

fn of_tasks<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/a2a/tasks",
            PEERS,
            "A2A: one's own tasks, newest change first",
            |_| get(rest::list::<D>),
        ),
        long(Route::get(
            TASK,
            PEERS,
            "A2A: one task; with `:subscribe` behind its id, what happens to it",
            |_| get(rest::look::<D>),
        )),
        long(Route::post(
            TASK,
            PEERS,
            Trace::Audit(&["cancel"]),
            "A2A: `:cancel` behind the id of a task stops it, `:subscribe` follows it",
            |_| post(rest::act::<D>),
        )),
        Route::get(FILE, PEERS, "A2A: a file of an answer", |_| {
            get(rest::file::<D>)
        })
        .answers_media("application/octet-stream"),
    ]
}

fn of_pushes<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            PUSHES,
            PEERS,
            Trace::Row,
            "A2A: be told how a task stands",
            |_| post(rest::create_push::<D>),
        ),
        Route::get(PUSHES, PEERS, "A2A: who is told of a task", |_| {
            get(rest::list_push::<D>)
        }),
        Route::get(PUSH, PEERS, "A2A: one of them", |_| {
            get(rest::get_push::<D>)
        }),
        Route::delete(PUSH, PEERS, Trace::Row, "A2A: be told no more", |_| {
            delete(rest::delete_push::<D>)
        }),
    ]
}

/// A call that may wait or stream, with its own deadlines.
fn long<D>(route: Route<D>) -> Route<D> {
    Route {
        pace: CallDeadline::Stream,
        ..route
    }
}
