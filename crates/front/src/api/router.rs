//! Builds the router from the route table: each route behind its access rule, all of them behind the guard.

use super::bodies::BodyBudget;
use super::guard::{Gate, Identity, Listener, TokenUse, enter};
use super::limits::{BODY_MAX_BYTES, CALL_DEADLINE};
use super::route::{Access, CallDeadline, Route};
use super::{Context, ProblemResponse};
use crate::BridgeService;
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
        (Access::Scope(scope), Some(Identity::Known(caller))) => {
            if !caller.may(scope) {
                let problem = ProblemResponse::forbidden(scope.missing());
                return problem.needing(scope).into_response();
            }
            let token = request.extensions_mut().remove::<TokenUse>();
            let share = rule.bodies.of(&caller).with_token(token);
            room = Some(share.clone());
            request.extensions_mut().insert(share);
            request.extensions_mut().insert(caller);
        }
        (Access::Scope(_), Some(Identity::Nobody(why))) => {
            return ProblemResponse::unauthorized(why).into_response();
        }
        (Access::Scope(_), Some(Identity::Unsure)) => {
            return ProblemResponse::unsure().into_response();
        }
        (Access::Scope(_), None) => {
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
