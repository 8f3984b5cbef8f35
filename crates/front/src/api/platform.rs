//! Calls of a Molecule platform that pushes its messages. The guard knows the platform by the secret that it gave us.

use super::extract::Body;
use super::{BodyShare, Context, ProblemResponse, Who};
use crate::{BridgeService, PlatformAnswer};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::Value;
use std::time::Duration;

/// Where the platform calls: an agent's address is called as it was registered, and inside a workspace that is the root.
pub(in crate::api) const PATH: &str = "/";
/// When a call that was put off is worth another try.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Takes in a message, and waits for its answer.
pub(super) async fn receive<D: BridgeService>(
    State(context): State<Context<D>>,
    Extension(share): Extension<BodyShare>,
    Who(caller): Who,
    Body(call): Body<Value>,
) -> Response {
    // It may be waited for as long as a turn takes, and nothing of the body is kept for that.
    share.release();
    match context.service.platform_call(&caller.name, call).await {
        PlatformAnswer::Said(answer) => Json(answer).into_response(),
        PlatformAnswer::NotNow(why) => ProblemResponse::unavailable(why)
            .retry_after(RETRY_AFTER)
            .into_response(),
    }
}
