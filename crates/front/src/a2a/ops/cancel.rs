//! Cancel: every message of a task that has no answer yet is stopped.

use super::get::{owned, until};
use crate::a2a::call::A2aCall;

use crate::BridgeService;
use crate::a2a::error::A2aError;
use a2a::{CancelTaskRequest, Task};
use bridge_core::step::{Cancel, CancelOutcome};
use bridge_core::task::{TaskMessage, TaskSnapshot};
use bridge_core::value::MessageId;
use std::time::Duration;

/// How long a caller waits for the end of a turn that is being interrupted; after it the task is returned as it is.
const STOP_WAIT: Duration = Duration::from_secs(20);

pub(super) async fn cancel<D: BridgeService>(
    call: &A2aCall<D>,
    request: CancelTaskRequest,
) -> Result<Task, A2aError> {
    let view = owned(&call.context.service, &call.caller, &request.id).await?;
    let state = view.now().state;
    if state.terminal() {
        let why = format!("it is over already ({})", state.as_str());
        return Err(A2aError::not_cancelable(&request.id, &why));
    }
    if carried_by_another(&view) {
        return Err(not_alone(&request.id));
    }
    stop(call, &view).await?;
    let over = |view: &TaskSnapshot| view.now().state.terminal();
    // A cancel is not refused for lack of a permit.
    let permit = call.stream_permit().ok();
    let view = until(call, permit.as_ref(), &request.id, STOP_WAIT, over).await?;
    Ok(call.render(&view, None).await)
}

/// Whether a text of the task was given to the running turn of another task, which is not stopped for this one.
fn carried_by_another(view: &TaskSnapshot) -> bool {
    let mut leaders = view
        .messages
        .iter()
        .filter_map(|one| one.message.life.state.leader());
    leaders.any(|leader| !has(view, leader))
}

fn has(view: &TaskSnapshot, message_id: &MessageId) -> bool {
    let mut messages = view.messages.iter();
    messages.any(|one| one.message.message_id == *message_id)
}

fn not_alone(id: &str) -> A2aError {
    let why = "its text was given to the running turn of another task of this context; cancel that one, or wait for it";
    A2aError::not_cancelable(id, why)
}

/// The messages without an answer, newest first, so that none begins when the one before it is stopped. Without such, the
/// last one, whose answer asks the client.
fn to_stop(view: &TaskSnapshot) -> Vec<MessageId> {
    let id = |one: &TaskMessage| one.message.message_id.clone();
    let unfinished: Vec<MessageId> = view
        .messages
        .iter()
        .rev()
        .filter(|one| one.message.life.state.name().awaits_answer())
        .map(id)
        .collect();
    if unfinished.is_empty() {
        view.messages.last().map(id).into_iter().collect()
    } else {
        unfinished
    }
}

/// Stops the messages in a spawned task: a caller that disconnects does not leave it half done. A message that joined the
/// turn of another one ends with that turn.
async fn stop<D: BridgeService>(call: &A2aCall<D>, view: &TaskSnapshot) -> Result<(), A2aError> {
    let (service, by) = (call.context.service.clone(), call.caller.actor());
    let view = view.clone();
    let stopping = tokio::spawn(async move {
        let mut left = false;
        let cancel = |message_id| {
            service.commit(Cancel {
                message_id,
                by: by.clone(),
            })
        };
        for message_id in to_stop(&view) {
            match cancel(message_id).await? {
                CancelOutcome::Steered(leader) if has(&view, &leader) => {
                    cancel(leader).await?;
                }
                // It joined the turn of another task since `carried_by_another`.
                CancelOutcome::Steered(_) => left = true,
                CancelOutcome::Cancelled | CancelOutcome::Stopping | CancelOutcome::TooLate => {}
            }
        }
        if left {
            Err(not_alone(view.task.task_id.as_str()))
        } else {
            Ok(())
        }
    });
    let stopped = stopping.await;
    stopped.map_err(|_| A2aError::internal("stopping the task broke off"))?
}
