//! Reading the configuration again: the front only asks, and hands on what came of it.

use super::Context;
use super::read::Who;
use crate::{BridgeService, ReloadView};
use axum::Json;
use axum::extract::State;

/// A file that can't be used is no fault of the call: the answer says so with `ok`.
pub(super) async fn reload<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
) -> Json<ReloadView> {
    Json(context.service.reload(&caller.actor().to_string()).await)
}
