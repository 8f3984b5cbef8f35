//! The table of all routes, from which router, OpenAPI document and the test of refusals are built. New routes are added
//! here.

use super::extract::PageQuery;
use super::route::{Access, HeaderParameter, Route, Trace};
use super::{
    all_events, audit, conversations, dead, feed, figures, files, find, loans, mcp, messages,
    metrics, nodes, openapi, operator, platform, policy, push, requests, search, senders, sessions,
    status, tasks, tokens,
};
use crate::a2a::{Op, rest, rpc};
use crate::console;
use crate::control::{Scope, StartArgs};
use crate::task_view::{NotifyReply, TaskPageView, TaskReply};
use crate::{
    ActView, AuditList, BridgeService, ChannelList, ConversationList, ConversationStory, DeadActs,
    DeadList, DeadRequest, DecisionRequest, DecisionView, ExplainRequest, ExplainView, FoundView,
    LendRequest, LendView, MessageList, MoveRequest, MoveView, NewToken, NodeActView, NodeList,
    OutcomesView, ReloadView, ReplayList, RequestEntry, RequestList, ReturnRequest, ReturnView,
    SearchList, SenderList, StatusView, StopSenderRequest, StopSenderView, StoryView,
    SubmitRequest, SubmitResponse, TokenList, TokenMade, TokenRevoked,
};

const PUBLIC: Access = Access::Public;
const READ: Access = Access::Scope(Scope::Read);
const SEND: Access = Access::Scope(Scope::Send);
const ADMIN: Access = Access::Scope(Scope::Admin);
const CONTROL: Access = Access::Scope(Scope::Control);
const PEERS: Access = Access::Scope(Scope::A2a);

const A2A_TASK: &str = "/a2a/tasks/{id}";
const A2A_PUSHES: &str = "/a2a/tasks/{id}/pushNotificationConfigs";
const A2A_PUSH: &str = "/a2a/tasks/{id}/pushNotificationConfigs/{config}";

/// All routes.
pub(crate) fn routes<D: BridgeService>() -> Vec<Route<D>> {
    let mut routes = about();
    routes.extend(console::rows());
    routes.extend(sessions::rows());
    routes.extend(push::rows());
    routes.extend(of_operators());
    routes.push(mcp::row());
    routes.extend(of_messages());
    routes.extend(of_dead());
    routes.extend(of_conversations());
    routes.extend(of_figures());
    routes.extend(of_nodes());
    routes.extend(of_loans());
    routes.extend(of_tokens());
    routes.extend(of_requests());
    routes.extend(of_rules());
    routes.extend(of_tasks());
    routes.extend(of_a2a());
    routes.push(of_platforms());
    routes
}

/// Messages that a platform pushes.
fn of_platforms<D: BridgeService>() -> Route<D> {
    Route::post(
        platform::PATH,
        Access::Platform,
        Trace::Row,
        "Molecule: a message for the workspace's agent, answered in the response",
        platform::receive::<D>,
    )
    .waits()
}

/// The daemon itself.
fn about<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/healthz",
            PUBLIC,
            "Whether the process lives",
            status::healthz,
        )
        .answers_media("text/plain"),
        Route::get(
            "/readyz",
            PUBLIC,
            "Whether it can answer messages now",
            status::readyz::<D>,
        )
        .answers_media("text/plain"),
        Route::get(
            "/v1/openapi.json",
            READ,
            "This document",
            openapi::show::<D>,
        ),
        Route::get(
            "/metrics",
            READ,
            "Figures for Prometheus",
            metrics::show::<D>,
        )
        .answers_media(metrics::MEDIA),
        Route::get(
            "/v1/events",
            READ,
            "Everything that changes",
            all_events::stream::<D>,
        )
        .streams(),
        Route::get(
            "/v1/status",
            READ,
            "How the daemon is and how much is where",
            status::status::<D>,
        )
        .answers::<StatusView>(),
        Route::get(
            "/v1/find",
            READ,
            "What an id, a part of one, `last` or the name of a conversation means",
            find::show::<D>,
        )
        .asks::<find::FindQuery>()
        .answers::<FoundView>()
        .for_members(Scope::Read),
    ]
}

fn of_conversations<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/conversations",
            READ,
            "Conversations, where something happened last first",
            conversations::list::<D>,
        )
        .asks::<conversations::ConversationQuery>()
        .answers::<ConversationList>()
        .for_members(Scope::Read),
        Route::get(
            "/v1/conversations/{id}",
            READ,
            "One conversation with its messages, newest first",
            conversations::show::<D>,
        )
        .asks::<PageQuery>()
        .answers::<ConversationStory>()
        .for_members(Scope::Read),
    ]
}

/// What was said, by whom, and what it came to.
fn of_figures<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/search",
            READ,
            "Messages with a text in them or in their answer, among the newest",
            search::list::<D>,
        )
        .asks::<search::SearchParams>()
        .answers::<SearchList>(),
        Route::get(
            "/v1/channels",
            READ,
            "Channels, how each is and what came over it",
            senders::channels::<D>,
        )
        .answers::<ChannelList>(),
        Route::get(
            "/v1/senders",
            READ,
            "Who wrote in the last 24 hours, with which rights, and what of their budgets they used",
            senders::senders::<D>,
        )
        .answers::<SenderList>(),
        Route::get(
            "/v1/figures",
            READ,
            "Answers by the hour, how soon they came, tokens by sender and failures by class",
            figures::show::<D>,
        )
        .asks::<figures::FigureParams>()
        .answers::<OutcomesView>(),
    ]
}

/// Daemons that share the database.
fn of_nodes<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/nodes",
            READ,
            "Daemons that share the database, and how each is",
            nodes::list::<D>,
        )
        .answers::<NodeList>(),
        Route::post(
            "/v1/nodes/{id}/drain",
            ADMIN,
            Trace::Audit(&["node-drain"]),
            "Let a node take nothing new, finish what runs and leave",
            nodes::drain::<D>,
        )
        .answers::<NodeActView>(),
        Route::post(
            "/v1/nodes/{id}/activate",
            ADMIN,
            Trace::Audit(&["node-activate"]),
            "Let a draining node take work again",
            nodes::activate::<D>,
        )
        .answers::<NodeActView>(),
        Route::post(
            "/v1/conversations/{id}/move",
            ADMIN,
            Trace::Audit(&["move"]),
            "Give a conversation, by its id or key, to another node",
            nodes::move_conversation::<D>,
        )
        .takes::<MoveRequest>()
        .answers::<MoveView>(),
    ]
}

/// Conversations in Codex's own terminal.
fn of_loans<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            "/v1/conversations/{id}/lend",
            Access::Local,
            Trace::Audit(&["lend"]),
            "Lend a conversation, by its id or key, to a Codex terminal on this machine",
            loans::lend::<D>,
        )
        .takes::<LendRequest>()
        .answers::<LendView>(),
        Route::post(
            "/v1/conversations/{id}/return",
            Access::Local,
            Trace::Audit(&["return"]),
            "End the loan of a conversation",
            loans::give_back::<D>,
        )
        .takes::<ReturnRequest>()
        .answers::<ReturnView>(),
    ]
}

fn of_tokens<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get("/v1/tokens", ADMIN, "Who has a token", tokens::list::<D>)
            .answers::<TokenList>(),
        Route::post(
            "/v1/tokens",
            ADMIN,
            Trace::Audit(&["token-add"]),
            "Make a token; it is shown in this answer only",
            tokens::add::<D>,
        )
        .takes::<NewToken>()
        .answers::<TokenMade>()
        .with_statuses(&[201]),
        Route::delete(
            "/v1/tokens/{name}",
            ADMIN,
            Trace::Audit(&["token-revoke", "stop-sender"]),
            "Revoke a token, and cancel what its holder sent and nobody has begun",
            tokens::revoke::<D>,
        )
        .answers::<TokenRevoked>(),
    ]
}

fn of_tasks<D: BridgeService>() -> Vec<Route<D>> {
    let mut routes = vec![
        Route::post(
            "/v1/tasks",
            CONTROL,
            Trace::Row,
            "Start a task",
            tasks::start::<D>,
        )
        .takes::<StartArgs>()
        .answers::<TaskReply>()
        .with_statuses(&[201, 200])
        .with_headers(&[HeaderParameter {
            name: "Idempotency-Key",
            what: "The caller's own id: the same one again is the same task",
            required: false,
        }]),
        Route::get("/v1/tasks", READ, "Tasks, newest first", tasks::list::<D>)
            .asks::<tasks::TaskPage>()
            .answers::<TaskPageView>(),
        Route::get(
            "/v1/tasks/{id}",
            READ,
            "One task, or a message as one",
            tasks::show::<D>,
        )
        .answers::<TaskReply>(),
        Route::get(
            "/v1/tasks/{id}/events",
            READ,
            "What happens to all messages of a task",
            feed::task_events::<D>,
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
            tasks::steer::<D>,
        )
        .takes::<tasks::SteerBody>()
        .answers::<TaskReply>(),
        Route::post(
            "/v1/messages/{id}/steer",
            CONTROL,
            Trace::RowOrAudit(&["tell"]),
            "Tell the running turn of a message more",
            tasks::steer::<D>,
        )
        .takes::<tasks::SteerBody>()
        .answers::<TaskReply>(),
        Route::post(
            "/v1/tasks/{id}/interrupt",
            CONTROL,
            Trace::Audit(&["cancel"]),
            "End everything of a task that has no answer",
            tasks::interrupt::<D>,
        )
        .answers::<TaskReply>(),
        Route::post(
            "/v1/tasks/{id}/respond",
            Access::Decide,
            Trace::Audit(&["decide"]),
            "Decide what Codex asks; to accept needs `approve`",
            tasks::respond::<D>,
        )
        .takes::<tasks::RespondBody>()
        .answers::<TaskReply>(),
        Route::post(
            "/v1/tasks/notify-completed",
            CONTROL,
            Trace::Audit(&["notify"]),
            "Send the notifications of finished tasks that are still unsent",
            tasks::notify::<D>,
        )
        .takes::<tasks::NotifyBody>()
        .answers::<NotifyReply>(),
    ]
}

/// Operator actions.
fn of_operators<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/audit",
            READ,
            "What people did by hand, newest first, with all that verifies it",
            audit::list::<D>,
        )
        .asks::<audit::AuditParams>()
        .answers::<AuditList>(),
        Route::post(
            "/v1/reload",
            ADMIN,
            Trace::Audit(&["reload"]),
            "Read the configuration again",
            operator::reload::<D>,
        )
        .answers::<ReloadView>(),
        Route::post(
            "/v1/stop",
            ADMIN,
            Trace::Audit(&["stop-sender"]),
            "Stop everything of one sender: cancel what waits, interrupt what runs",
            operator::stop_sender::<D>,
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
            messages::submit::<D>,
        )
        .takes::<SubmitRequest>()
        .answers::<SubmitResponse>()
        .with_statuses(&[201, 200])
        .with_headers(&[HeaderParameter {
            name: "Idempotency-Key",
            what: "The sender's own id: the same one again is the same message",
            required: true,
        }])
        .for_members(Scope::Send),
        Route::get(
            "/v1/messages",
            READ,
            "Messages, newest first, or those of one conversation in either order",
            messages::list::<D>,
        )
        .asks::<messages::MessageQuery>()
        .answers::<MessageList>()
        .for_members(Scope::Read),
        Route::get(
            "/v1/messages/{id}",
            READ,
            "One message with its story",
            messages::show::<D>,
        )
        .answers::<StoryView>()
        .for_members(Scope::Read),
        Route::get(
            "/v1/messages/{id}/events",
            READ,
            "What happens to one message",
            feed::message_events::<D>,
        )
        .streams()
        .for_members(Scope::Read),
        Route::get(
            "/v1/messages/{id}/files/{n}",
            READ,
            "A file of a message, counted from 0",
            files::of_message::<D>,
        )
        .answers_media("application/octet-stream"),
        Route::get(
            "/v1/messages/{id}/answer/files/{n}",
            READ,
            "A file of its answer, counted from 0",
            files::of_answer::<D>,
        )
        .answers_media("application/octet-stream"),
        Route::post(
            "/v1/messages/{id}/cancel",
            CONTROL,
            Trace::Audit(&["cancel"]),
            "Stop a message",
            operator::cancel::<D>,
        )
        .answers::<ActView>()
        .with_statuses(&[200, 202])
        .for_members(Scope::Send),
    ]
}

/// Messages that failed or wait for a person.
fn of_dead<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            "/v1/messages/{id}/redrive",
            CONTROL,
            Trace::Audit(&["redrive"]),
            "Send a failed message again, or let one that waits for a person go on",
            operator::redrive::<D>,
        )
        .answers::<ActView>()
        .with_statuses(&[202]),
        Route::post(
            "/v1/messages/{id}/drop",
            CONTROL,
            Trace::Audit(&["discard"]),
            "Give up a message that failed or waits for a person",
            operator::discard::<D>,
        )
        .answers::<ActView>(),
        Route::get(
            "/v1/dead",
            READ,
            "Messages that failed or wait for a person, newest first",
            operator::list::<D>,
        )
        .asks::<PageQuery>()
        .answers::<DeadList>(),
        Route::post(
            "/v1/dead/retry",
            CONTROL,
            Trace::Audit(&["redrive"]),
            "Send failed messages again, one a second, or say what would be",
            dead::retry::<D>,
        )
        .takes::<DeadRequest>()
        .answers::<DeadActs>(),
        Route::post(
            "/v1/dead/discard",
            CONTROL,
            Trace::Audit(&["discard"]),
            "Give up failed messages, or say what would be",
            dead::discard::<D>,
        )
        .takes::<DeadRequest>()
        .answers::<DeadActs>(),
    ]
}

/// Approval requests.
fn of_requests<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/v1/requests",
            READ,
            "What Codex asks, newest first",
            requests::list::<D>,
        )
        .asks::<requests::RequestQuery>()
        .answers::<RequestList>(),
        Route::get(
            "/v1/requests/{id}",
            READ,
            "One question with all that is decided about",
            requests::show::<D>,
        )
        .answers::<RequestEntry>(),
        Route::post(
            "/v1/requests/{id}/decision",
            Access::Decide,
            Trace::Audit(&["decide"]),
            "Decide what Codex asks; to accept needs `approve`",
            requests::decide::<D>,
        )
        .takes::<DecisionRequest>()
        .answers::<DecisionView>(),
    ]
}

/// What the rules say. They are the operator's configuration, and a map of what passes unseen.
fn of_rules<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::post(
            "/v1/policy/explain",
            ADMIN,
            Trace::Nothing,
            "What the rules say to a command, a change of files or a question; nothing is executed",
            policy::explain::<D>,
        )
        .takes::<ExplainRequest>()
        .answers::<ExplainView>(),
        Route::get(
            "/v1/policy/replay",
            ADMIN,
            "What the rules in force now would decide about what Codex asked lately",
            policy::replay::<D>,
        )
        .asks::<policy::ReplayParams>()
        .answers::<ReplayList>(),
    ]
}

/// A2A: the agent card and everything below `/a2a`. The protocol is in `crate::a2a`.
fn of_a2a<D: BridgeService>() -> Vec<Route<D>> {
    let mut routes = vec![
        Route::get(
            "/.well-known/agent-card.json",
            PUBLIC,
            "The agent card of A2A",
            rest::public_card::<D>,
        ),
        Route::post(
            "/a2a",
            PEERS,
            Trace::Row,
            "A2A over JSON-RPC, 1.0 and 0.3",
            rpc::call::<D>,
        )
        .waits(),
        Route::post(
            "/a2a/",
            PEERS,
            Trace::Row,
            "A2A over JSON-RPC for clients that add a slash",
            rpc::call::<D>,
        )
        .waits(),
        Route::post(
            "/a2a/message:send",
            PEERS,
            Trace::Row,
            "A2A: give Codex a task, or go on with one",
            rest::operation::<D>(Op::Send),
        )
        .waits(),
        Route::post(
            "/a2a/message:stream",
            PEERS,
            Trace::Row,
            "A2A: the same, and follow it",
            rest::operation::<D>(Op::Stream),
        )
        .waits(),
        Route::get(
            "/a2a/extendedAgentCard",
            PEERS,
            "A2A: the card for callers that are known",
            rest::operation::<D>(Op::ExtendedCard),
        ),
    ];
    routes.extend(of_a2a_tasks());
    routes
}

fn of_a2a_tasks<D: BridgeService>() -> Vec<Route<D>> {
    vec![
        Route::get(
            "/a2a/tasks",
            PEERS,
            "A2A: one's own tasks, newest change first",
            rest::operation::<D>(Op::List),
        ),
        Route::get(
            A2A_TASK,
            PEERS,
            "A2A: one task; with `:subscribe` behind its id, what happens to it",
            rest::get_task::<D>,
        )
        .waits(),
        Route::post(
            A2A_TASK,
            PEERS,
            Trace::Audit(&["cancel"]),
            "A2A: `:cancel` behind the id of a task stops it, `:subscribe` follows it",
            rest::post_task::<D>,
        )
        .waits(),
        Route::get(
            "/a2a/tasks/{id}/files/{message}/{n}",
            PEERS,
            "A2A: a file of an answer",
            rest::file::<D>,
        )
        .answers_media("application/octet-stream"),
        Route::post(
            A2A_PUSHES,
            PEERS,
            Trace::Row,
            "A2A: subscribe to push notifications of a task",
            rest::operation::<D>(Op::CreatePush),
        ),
        Route::get(
            A2A_PUSHES,
            PEERS,
            "A2A: the push notification configurations of a task",
            rest::operation::<D>(Op::ListPush),
        ),
        Route::get(
            A2A_PUSH,
            PEERS,
            "A2A: one of them",
            rest::operation::<D>(Op::GetPush),
        ),
        Route::delete(
            A2A_PUSH,
            PEERS,
            Trace::Row,
            "A2A: delete one of them",
            rest::operation::<D>(Op::DeletePush),
        ),
    ]
}
