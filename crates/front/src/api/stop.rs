//! Stopping everything of one sender.

use super::read::{Body, Who};
use super::{Context, ProblemResponse};
use crate::{BridgeService, StopRequest, StopSenderRequest, StopSenderView};
use axum::Json;
use axum::extract::State;
use bridge_core::step::StopCause;
use bridge_core::value::ChannelId;

pub(super) async fn sender<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Body(request): Body<StopSenderRequest>,
) -> Result<Json<StopSenderView>, ProblemResponse> {
    if request.sender.is_empty() {
        return Err(ProblemResponse::unprocessable(
            "`sender` is empty: name whose messages are to be stopped, as `codex-bridge show` does",
        ));
    }
    let stop = StopRequest {
        sender: request.sender.clone(),
        channel: request.channel.map(ChannelId::new),
        cause: StopCause::Operator,
    };
    let stopped = context.service.stop_sender(stop, caller.actor()).await?;
    Ok(Json(StopSenderView {
        sender: request.sender,
        cancelled: stopped.cancelled,
        interrupted: stopped.running.iter().map(ToString::to_string).collect(),
        joined: stopped.joined.iter().map(ToString::to_string).collect(),
    }))
}
