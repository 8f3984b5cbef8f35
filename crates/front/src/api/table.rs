//! The table of all routes, from which router, OpenAPI document and the test of refusals are built. New routes are added
//! here.

use super::extract::PageQuery;
use super::route::{Access, Route, Trace};
use super::{
    changes, conversations, feed, messages, metrics, openapi, operator, requests, status, tasks,
    tokens,
};
use crate::control::{NotifyEnvelope, Scope, StartArgs, TaskEnvelope, TaskListEnvelope};
use crate::{
    ActView, BridgeService, ConversationList, ConversationStory, DeadList, DecisionRequest,
    DecisionView, MessageList, NewToken, ReloadView, RequestEntry, RequestList, StatusView,
    StopSenderRequest, StopSenderView, StoryView, SubmitRequest, SubmitResponse, TokenList,
    TokenMade, TokenRevoked,
};
use axum::routing::{delete, get, post};

const PUBLIC: Access = Access::Public;
const READ: Access = Access::Scope(Scope::Read);
const SEND: Access = Access::Scope(Scope::Send);
const ADMIN: Access = Access::Scope(Scope::Admin);
const CONTROL: Access = Access::Scope(Scope::Control);

/// All routes.
pub(crate) fn routes<D: BridgeService>() -> Vec<Route<D>> {
    let mut routes = about();
    routes.extend(of_operators());
    routes.push(super::mcp::row());
    routes.extend(of_messages());
    routes.extend(of_conversations());
    routes.extend(of_tokens());
    routes.extend(of_requests());
    routes.extend(of_tasks());
    routes.extend(super::a2a::rows());
    routes
}

/// The daemon itself.
fn about<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get("/healthz", PUBLIC, "Whether the process lives", |_| {
            get(status::healthz)
        })
        .answers_media("text/plain"),
        Route::get(
            "/readyz",
            PUBLIC,
            "Whether it can answer messages now",
            |_| get(status::readyz::<D>),
        )
        .answers_media("text/plain"),
        Route::get("/v1/openapi.json", READ, "This document", |_| {
            get(openapi::show::<D>)
        }),
        Route::get("/metrics", READ, "Figures for Prometheus", |_| {
            get(metrics::show::<D>)
        })
        .answers_media(metrics::MEDIA),
        Route::get("/v1/events", READ, "Everything that changes", |_| {
            get(changes::stream::<D>)
        })
        .streams(),
        Route::get(
            "/v1/status",
            READ,
            "How the daemon is and how much is where",
            |_| get(status::status::<D>),
        )
        .answers::<StatusView>(),
    ]
}

fn of_conversations<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/conversations",
            READ,
            "Conversations, newest first",
            |_| get(conversations::list::<D>),
        )
        .asks::<PageQuery>()
        .answers::<ConversationList>(),
        Route::get(
            "/v1/conversations/{id}",
            READ,
            "One conversation with its messages, newest first",
            |_| get(conversations::show::<D>),
        )
        .asks::<PageQuery>()
        .answers::<ConversationStory>(),
    ]
}

fn of_tokens<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get("/v1/tokens", ADMIN, "Who has a token", |_| {
            get(tokens::list::<D>)
        })
        .answers::<TokenList>(),
        Route::post(
            "/v1/tokens",
            ADMIN,
            Trace::Audit(&["token-add"]),
            "Make a token; it is shown in this answer only",
            |_| post(tokens::add::<D>),
        )
        .takes::<NewToken>()
        .answers::<TokenMade>()
        .with_statuses(&[201]),
        Route::delete(
            "/v1/tokens/{name}",
            ADMIN,
            Trace::Audit(&["token-revoke", "stop-sender"]),
            "Revoke a token, and cancel what its holder sent and nobody has begun",
            |_| delete(tokens::revoke::<D>),
        )
        .answers::<TokenRevoked>(),
    ]
}

fn of_tasks<D: BridgeService>() -> Vec<Route<D>> {
    let mut routes = vec![
        Route::post("/v1/tasks", CONTROL, Trace::Row, "Start a task", |_| {
            post(tasks::start::<D>)
        })
        .takes::<StartArgs>()
        .answers::<TaskEnvelope>()
        .with_statuses(&[201, 200])
        .with_headers(&[(
            "Idempotency-Key",
            "The caller's own id: the same one again is the same task",
        )]),
        Route::get("/v1/tasks", READ, "Tasks, newest first", |_| {
            get(tasks::list::<D>)
        })
        .asks::<tasks::TaskPage>()
        .answers::<TaskListEnvelope>(),
        Route::get(
            "/v1/tasks/{id}",
            READ,
            "One task, or a message as one",
            |_| get(tasks::show::<D>),
        )
        .answers::<TaskEnvelope>(),
        Route::get(
            "/v1/tasks/{id}/events",
            READ,
            "What happens to all messages of a task",
            |_| get(feed::task_events::<D>),
        )
        .streams(),
    ];
    routes.extend(acts_on_tasks());
    routes
}

fn acts_on_tasks<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            "/v1/tasks/{id}/steer",
            CONTROL,
            Trace::RowOrAudit(&["tell"]),
            "Tell a task more",
            |_| post(tasks::steer::<D>),
        )
        .takes::<tasks::SteerBody>()
        .answers::<TaskEnvelope>(),
        Route::post(
            "/v1/messages/{id}/steer",
            CONTROL,
            Trace::RowOrAudit(&["tell"]),
            "Tell the running turn of a message more",
            |_| post(tasks::steer::<D>),
        )
        .takes::<tasks::SteerBody>()
        .answers::<TaskEnvelope>(),
        Route::post(
            "/v1/tasks/{id}/interrupt",
            CONTROL,
            Trace::Audit(&["cancel"]),
            "End everything of a task that has no answer",
            |_| post(tasks::interrupt::<D>),
        )
        .answers::<TaskEnvelope>(),
        Route::post(
            "/v1/tasks/{id}/respond",
            CONTROL,
            Trace::Audit(&["decide"]),
            "Decide what Codex asks; to accept needs `approve` too",
            |_| post(tasks::respond::<D>),
        )
        .takes::<tasks::RespondBody>()
        .answers::<TaskEnvelope>(),
        Route::post(
            "/v1/tasks/notify-completed",
            CONTROL,
            Trace::Audit(&["notify"]),
            "Send the notifications of finished tasks that are still unsent",
            |_| post(tasks::notify::<D>),
        )
        .takes::<tasks::NotifyBody>()
        .answers::<NotifyEnvelope>(),
    ]
}

/// Operator actions.
fn of_operators<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            "/v1/reload",
            ADMIN,
            Trace::Audit(&["reload"]),
            "Read the configuration again",
            |_| post(operator::reload::<D>),
        )
        .answers::<ReloadView>(),
        Route::post(
            "/v1/stop",
            ADMIN,
            Trace::Audit(&["stop-sender"]),
            "Stop everything of one sender: cancel what waits, interrupt what runs",
            |_| post(operator::stop_sender::<D>),
        )
        .takes::<StopSenderRequest>()
        .answers::<StopSenderView>(),
    ]
}

fn of_messages<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            "/v1/messages",
            SEND,
            Trace::Row,
            "Take a message in",
            |_| post(messages::submit::<D>),
        )
        .takes::<SubmitRequest>()
        .answers::<SubmitResponse>()
        .with_statuses(&[201, 200])
        .with_headers(&[(
            "Idempotency-Key",
            "The sender's own id: the same one again is the same message",
        )]),
        Route::get("/v1/messages", READ, "Messages, newest first", |_| {
            get(messages::list::<D>)
        })
        .asks::<PageQuery>()
        .answers::<MessageList>(),
        Route::get(
            "/v1/messages/{id}",
            READ,
            "One message with its story",
            |_| get(messages::show::<D>),
        )
        .answers::<StoryView>(),
        Route::get(
            "/v1/messages/{id}/events",
            READ,
            "What happens to one message",
            |_| get(feed::message_events::<D>),
        )
        .streams(),
        Route::post(
            "/v1/messages/{id}/redrive",
            CONTROL,
            Trace::Audit(&["redrive"]),
            "Send a dead letter again, or let a parked message go on",
            |_| post(operator::redrive::<D>),
        )
        .answers::<ActView>()
        .with_statuses(&[202]),
        Route::post(
            "/v1/messages/{id}/drop",
            CONTROL,
            Trace::Audit(&["discard"]),
            "Give a dead letter or a parked message up",
            |_| post(operator::discard::<D>),
        )
        .answers::<ActView>(),
        Route::post(
            "/v1/messages/{id}/cancel",
            CONTROL,
            Trace::Audit(&["cancel"]),
            "Stop a message",
            |_| post(operator::cancel::<D>),
        )
        .answers::<ActView>()
        .with_statuses(&[200, 202]),
        Route::get(
            "/v1/dead",
            READ,
            "Dead letters and parked messages, newest first",
            |_| get(operator::list::<D>),
        )
        .asks::<PageQuery>()
        .answers::<DeadList>(),
    ]
}

/// Approval requests.
fn of_requests<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/requests",
            READ,
            "What Codex asks, newest first",
            |_| get(requests::list::<D>),
        )
        .asks::<requests::RequestPage>()
        .answers::<RequestList>(),
        Route::get(
            "/v1/requests/{id}",
            READ,
            "One question with all that is decided about",
            |_| get(requests::show::<D>),
        )
        .answers::<RequestEntry>(),
        Route::post(
            "/v1/requests/{id}/decision",
            CONTROL,
            Trace::Audit(&["decide"]),
            "Decide what Codex asks; to accept needs `approve` as well",
            |_| post(requests::decide::<D>),
        )
        .takes::<DecisionRequest>()
        .answers::<DecisionView>(),
    ]
}
