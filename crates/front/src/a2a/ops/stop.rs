//! Cancel: every message of a task that has no answer yet is stopped.

use super::Call;
use super::find::owned;
use super::wait;
use crate::Desk;
use crate::a2a::fault::Fault;
use crate::a2a::task::{self, Detail};
use a2a::{CancelTaskRequest, Task};
use bridge_core::errand::{ErrandMessage, ErrandView};
use bridge_core::step::CancelOutcome;
use bridge_core::value::MessageId;
use std::time::Duration;

/// How long a caller waits for the end of a turn that is being interrupted; after it the task says how it stands.
const STOP_WAIT: Duration = Duration::from_secs(20);

pub(super) async fn cancel<D: Desk>(
    call: &Call<D>,
    request: CancelTaskRequest,
) -> Result<Task, Fault> {
    let desk = &call.context.desk;
    let view = owned(desk, &call.caller, &request.id).await?;
    let state = view.now().state;
    if state.terminal() {
        let why = format!("it is over already ({})", task::word(state));
        return Err(Fault::not_cancelable(&request.id, &why));
    }
    for message_id in to_stop(&view) {
        stop(call, message_id).await?;
    }
    let over = |view: &ErrandView| view.now().state.terminal();
    let view = wait::until(call, &request.id, STOP_WAIT, over).await?;
    Ok(task::task(desk, &call.base, &view, Detail::WHOLE).await)
}

/// What has no answer yet; without such, the last one, whose answer asks back.
fn to_stop(view: &ErrandView) -> Vec<MessageId> {
    let id = |one: &ErrandMessage| one.message.message_id.clone();
    let unfinished: Vec<MessageId> = view
        .messages
        .iter()
        .filter(|one| one.message.life.state.name().awaits_answer())
        .map(id)
        .collect();
    match unfinished.is_empty() {
        true => view.messages.last().map(id).into_iter().collect(),
        false => unfinished,
    }
}

/// A message that was given to the turn of another one ends with that turn.
async fn stop<D: Desk>(call: &Call<D>, message_id: MessageId) -> Result<(), Fault> {
    let desk = &call.context.desk;
    match desk.cancel(message_id, &call.caller.name).await? {
        CancelOutcome::Steered(leader) => {
            desk.cancel(leader, &call.caller.name).await?;
        }
        CancelOutcome::Cancelled | CancelOutcome::Stopping | CancelOutcome::TooLate => {}
    }
    Ok(())
}
