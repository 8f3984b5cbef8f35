//! Builds the router from the route table: each route behind its access rule, all of them behind the guard.

use super::bodies::BodyBudget;
use super::guard::{Gate, Identity, Listener, TokenUse, enter};
use super::limits::{BODY_MAX_BYTES, CALL_DEADLINE};
use super::route::{Access, CallDeadline, Route};
use super::{Context, ProblemResponse};
use crate::BridgeService;
use crate::control::{Caller, Grants, Scope};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Answer to a request that bypassed the guard, which can't happen.
const UNSEEN: &str = "nobody looked who calls";

/// Access rule of a route.
#[derive(Clone, Debug)]
struct AccessRule {
    access: Access,
    pace: CallDeadline,
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
            bodies: Arc::clone(&context.shared.bodies),
        };
        let handler = (route.handler)(&context).layer(from_fn_with_state(rule, admit));
        router = router.route(route.path, handler);
    }
    let gate = Gate::new(context.clone(), listener);
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
        None => ProblemResponse::unauthorized(UNSEEN),
    }
}

/// Checks the scope and applies the deadline. Holds the memory of the body until the response.
async fn admit(State(rule): State<AccessRule>, mut request: Request, next: Next) -> Response {
    let mut room = None;
    match (rule.access, request.extensions().get::<Identity>().cloned()) {
        (Access::Public, _) => {}
        (Access::Scope(_) | Access::Platform, Some(Identity::Known(caller))) => {
            if let Some(problem) = refusal(rule.access, &caller) {
                return problem.into_response();
            }
            let token = request.extensions_mut().remove::<TokenUse>();
            let share = rule.bodies.of(&caller).with_token(token);
            room = Some(share.clone());
            request.extensions_mut().insert(share);
            request.extensions_mut().insert(caller);
        }
        (Access::Scope(_) | Access::Platform, Some(Identity::Nobody(why))) => {
            return ProblemResponse::unauthorized(why).into_response();
        }
        (Access::Scope(_) | Access::Platform, Some(Identity::Unsure)) => {
            return ProblemResponse::unsure().into_response();
        }
        (Access::Scope(_) | Access::Platform, None) => {
            return ProblemResponse::unauthorized(UNSEEN).into_response();
        }
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

/// Why a known caller may not use a route. Whoever the guard knows at the platform's route over TCP is a platform.
fn refusal(access: Access, caller: &Caller) -> Option<ProblemResponse> {
    match access {
        Access::Public => None,
        Access::Scope(scope) => (!caller.may(scope)).then(|| lacks(scope)),
        Access::Platform => (caller.grants == Grants::LocalOwner)
            .then(|| ProblemResponse::forbidden("only a platform that pushes messages calls this")),
    }
}

fn lacks(scope: Scope) -> ProblemResponse {
    ProblemResponse::forbidden(format!(
        "this token was not made for `{0}`: make one with `codex-bridge token add NAME --scope {0}`",
        scope.as_str()
    ))
    .needing(scope)
}
