//! A row of the route table, and the router that is built from the rows: each route behind its access rule, all of them
//! behind the guard. The OpenAPI document and the test of refusals are built from the same rows.

use super::bodies::BodyBudget;
use super::extract::UNGUARDED;
use super::guard::{Identity, Listener, ListenerGuard, TokenUse, enter};
use super::limits::{BODY_MAX_BYTES, CALL_DEADLINE};
use super::{Context, ProblemResponse};
use crate::BridgeService;
use crate::control::{Caller, Grants, Scope};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::handler::Handler;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodRouter};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::sync::Arc;

/// The method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads only.
    Get,
    Post,
    Delete,
    /// Any method; the protocol behind the route decides (MCP).
    Any,
}

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody; it reveals nothing.
    Public,
    /// Whoever is known, whatever they may.
    Known,
    /// Callers with this scope.
    Scope(Scope),
    /// Callers with `control` or `approve`; the handler says which of them a decision needs.
    Decide,
    /// The owner at this machine, over `api.sock`.
    Local,
    /// A platform that pushes messages, by the secret that it gave us.
    Platform,
}

/// The record that a call leaves (threat 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// None: it changes nothing.
    Nothing,
    /// An audit entry with one of these verbs.
    Audit(&'static [&'static str]),
    /// A row that names its author, as a message names its sender.
    Row,
    /// A row if it is about a task, otherwise an audit entry with one of these verbs.
    RowOrAudit(&'static [&'static str]),
}

/// The deadline of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallDeadline {
    /// As long as [`CALL_DEADLINE`].
    Call,
    /// None: it streams as long as the client reads.
    Stream,
}

type RouteHandler<D> = Box<dyn FnOnce(&Context<D>) -> MethodRouter<Context<D>>>;

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The form of a successful response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Good {
    /// JSON with this schema.
    Json(SchemaOf),
    /// Another media type.
    Media(&'static str),
}

/// A request header that a handler reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderParameter {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Whether a call without it is refused.
    pub(crate) required: bool,
}

/// One row of the table.
pub(crate) struct Route<D> {
    pub(crate) verb: Verb,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) summary: &'static str,
    pub(crate) trace: Trace,
    pub(crate) pace: CallDeadline,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    pub(crate) good: Good,
    pub(crate) statuses: &'static [u16],
    pub(crate) headers: &'static [HeaderParameter],
    /// The scope by which people of the group may call it, if they may; what it shows them is their own.
    pub(crate) members: Option<Scope>,
    pub(crate) handler: RouteHandler<D>,
}

impl<D: BridgeService> Route<D> {
    fn new(
        verb: Verb,
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: RouteHandler<D>,
    ) -> Self {
        Self {
            verb,
            path,
            access,
            summary,
            trace: Trace::Nothing,
            pace: CallDeadline::Call,
            query: None,
            body: None,
            good: Good::Media("application/json"),
            statuses: &[200],
            headers: &[],
            members: None,
            handler,
        }
    }

    pub(crate) fn get<T: 'static>(
        path: &'static str,
        access: Access,
        summary: &'static str,
        handler: impl Handler<T, Context<D>>,
    ) -> Self {
        let handler = Box::new(|_: &Context<D>| routing::get(handler));
        Self::new(Verb::Get, path, access, summary, handler)
    }

    pub(crate) fn post<T: 'static>(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: impl Handler<T, Context<D>>,
    ) -> Self {
        let handler = Box::new(|_: &Context<D>| routing::post(handler));
        let route = Self::new(Verb::Post, path, access, summary, handler);
        Self { trace, ..route }
    }

    pub(crate) fn delete<T: 'static>(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: impl Handler<T, Context<D>>,
    ) -> Self {
        let handler = Box::new(|_: &Context<D>| routing::delete(handler));
        let route = Self::new(Verb::Delete, path, access, summary, handler);
        Self { trace, ..route }
    }

    /// A protocol behind one path, which checks scopes beyond `access` itself. `handler` is called once per router,
    /// because the protocol may keep sessions.
    pub(crate) fn any(
        path: &'static str,
        access: Access,
        trace: Trace,
        summary: &'static str,
        handler: fn(&Context<D>) -> MethodRouter<Context<D>>,
    ) -> Self {
        let route = Self::new(Verb::Any, path, access, summary, Box::new(handler));
        Self { trace, ..route }.waits()
    }

    /// The call may wait or stream, and has deadlines of its own.
    pub(crate) fn waits(mut self) -> Self {
        self.pace = CallDeadline::Stream;
        self
    }

    /// Adds query parameters.
    pub(crate) fn asks<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// Adds a request body.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Some(reference::<T>);
        self
    }

    /// Sets the JSON response.
    pub(crate) fn answers<T: JsonSchema>(mut self) -> Self {
        self.good = Good::Json(reference::<T>);
        self
    }

    /// Sets a response that is not JSON.
    pub(crate) fn answers_media(mut self, media: &'static str) -> Self {
        self.good = Good::Media(media);
        self
    }

    /// Responds with server-sent events.
    pub(crate) fn streams(mut self) -> Self {
        self.headers = &[HeaderParameter {
            name: "Last-Event-ID",
            what: "The id of the last event that was seen",
            required: false,
        }];
        self.waits().answers_media("text/event-stream")
    }

    /// Lets people of the group call it. The handler must show and do only what is the caller's own.
    pub(crate) fn for_members(mut self, scope: Scope) -> Self {
        self.members = Some(scope);
        self
    }

    /// Responds with 204 and no body.
    pub(crate) fn answers_nothing(self) -> Self {
        self.with_statuses(&[204])
    }

    /// Sets the success statuses, if not 200.
    pub(crate) fn with_statuses(mut self, statuses: &'static [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    /// Adds request headers.
    pub(crate) fn with_headers(mut self, headers: &'static [HeaderParameter]) -> Self {
        self.headers = headers;
        self
    }
}

fn reference<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// For people of the group, where a call is not for them.
const NOT_FOR_MEMBERS: &str = "this is for the owner of the daemon: people of its group send messages, and read and stop their own";

/// For everybody but the owner at this machine.
const NOT_LOCAL: &str = "only the owner does this, at this machine and over its socket";
/// For people who call the route of platforms.
const NOT_A_PLATFORM: &str = "only a platform that pushes messages calls this";

/// The same, where the owner could let them.
fn not_given(scope: Scope) -> String {
    let scope = scope.as_str();
    format!(
        "the configuration does not give people of the group `{scope}`: the owner of the daemon can add it to `group_scopes` under `[daemon]`"
    )
}

/// Access rule of a route.
#[derive(Clone, Debug)]
struct AccessRule {
    access: Access,
    pace: CallDeadline,
    members: Option<Scope>,
    bodies: Arc<BodyBudget>,
}

/// The routes behind one listener.
pub(super) fn router<D: BridgeService>(
    context: Context<D>,
    listener: Listener,
    routes: Vec<Route<D>>,
) -> Router {
    let mut router = Router::new();
    for route in routes {
        let rule = AccessRule {
            access: route.access,
            pace: route.pace,
            members: route.members,
            bodies: Arc::clone(&context.shared.bodies),
        };
        let handler = (route.handler)(&context).layer(from_fn_with_state(rule, admit));
        router = router.route(route.path, handler);
    }
    let gate = ListenerGuard::new(context.clone(), listener);
    router
        .fallback(|request: Request| async move {
            refuse(
                &request,
                ProblemResponse::not_found("there is no such route"),
            )
        })
        .method_not_allowed_fallback(|request: Request| async move {
            refuse(&request, ProblemResponse::method_not_allowed())
        })
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .layer(from_fn_with_state(gate, enter::<D>))
        .with_state(context)
}

/// Unidentified callers can't find out which routes exist.
fn refuse(request: &Request, problem: ProblemResponse) -> ProblemResponse {
    match request.extensions().get::<Identity>() {
        Some(Identity::Known(_)) => problem,
        Some(Identity::Nobody(why)) => ProblemResponse::unauthorized(*why),
        Some(Identity::Unsure) => ProblemResponse::unsure(),
        None => ProblemResponse::unauthorized(UNGUARDED),
    }
}

/// Checks the scope and applies the deadline. Holds the memory of the body until the response.
async fn admit(State(rule): State<AccessRule>, mut request: Request, next: Next) -> Response {
    let mut room = None;
    let identity = request.extensions().get::<Identity>().cloned();
    match identity {
        _ if rule.access == Access::Public => {}
        Some(Identity::Known(caller)) => {
            if let Some(problem) = refusal(&rule, &caller) {
                return problem.into_response();
            }
            let token = request.extensions_mut().remove::<TokenUse>();
            let share = rule.bodies.of(&caller).with_token(token);
            room = Some(share.clone());
            request.extensions_mut().insert(share);
            request.extensions_mut().insert(caller);
        }
        Some(Identity::Nobody(why)) => {
            return ProblemResponse::unauthorized(why).into_response();
        }
        Some(Identity::Unsure) => return ProblemResponse::unsure().into_response(),
        None => return ProblemResponse::unauthorized(UNGUARDED).into_response(),
    }
    let response = match rule.pace {
        CallDeadline::Stream => next.run(request).await,
        CallDeadline::Call => match tokio::time::timeout(CALL_DEADLINE, next.run(request)).await {
            Ok(response) => response,
            Err(_) => ProblemResponse::unavailable(
                "the call took too long; what it began may still happen: look before you ask again",
            )
            .into_response(),
        },
    };
    drop(room);
    response
}

/// Why a known caller may not use a route. A caller whom the guard knows at the platform's route over TCP is a platform.
fn refusal(rule: &AccessRule, caller: &Caller) -> Option<ProblemResponse> {
    let scope = match rule.access {
        Access::Public | Access::Known => return None,
        Access::Scope(scope) => scope,
        Access::Decide if caller.may(Scope::Approve) => return None,
        Access::Decide => Scope::Control,
        Access::Local => {
            return (caller.grants != Grants::LocalOwner)
                .then(|| ProblemResponse::forbidden(NOT_LOCAL));
        }
        Access::Platform => {
            let is_person = caller.is_member() || caller.grants == Grants::LocalOwner;
            return is_person.then(|| ProblemResponse::forbidden(NOT_A_PLATFORM));
        }
    };
    let scope = match rule.members {
        Some(scope) if caller.is_member() => scope,
        None if caller.is_member() => return Some(ProblemResponse::forbidden(NOT_FOR_MEMBERS)),
        _ => scope,
    };
    if caller.may(scope) {
        return None;
    }
    Some(if caller.is_member() {
        ProblemResponse::forbidden(not_given(scope))
    } else {
        ProblemResponse::forbidden(caller.missing(scope)).needing(scope)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Via;

    #[test]
    fn members_learn_why_they_are_refused() {
        let member = Caller::member("ada", Via::Cli, &[Scope::Read]);
        let reason = |members| {
            let rule = AccessRule {
                access: Access::Scope(Scope::Send),
                pace: CallDeadline::Call,
                members,
                bodies: Arc::default(),
            };
            refusal(&rule, &member).map(|problem| problem.detail().to_owned())
        };
        assert_eq!(reason(None).as_deref(), Some(NOT_FOR_MEMBERS));
        assert_eq!(reason(Some(Scope::Read)), None);
        let missing = reason(Some(Scope::Send)).unwrap();
        assert!(missing.contains("does not give people of the group `send`"));
        assert!(missing.contains("`group_scopes`"), "{missing}");
    }
}
