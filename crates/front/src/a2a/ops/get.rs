//! One task of its owner: get it, subscribe to it, wait for it, and read the files of its answers.

use crate::a2a::call::A2aCall;
use crate::a2a::error::A2aError;
use crate::a2a::sse::{TaskEventStream, Until};
use crate::api::StreamPermit;
use crate::live::MessageUpdates;
use crate::{BridgeService, Caller};
use a2a::{GetTaskRequest, SubscribeToTaskRequest, Task};
use bridge_core::deadline::after;
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{Attachment, TaskId};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The task with this id, for its owner. To everybody else it is as unknown as one that never was.
pub(super) async fn owned<D: BridgeService>(
    service: &D,
    caller: &Caller,
    id: &str,
) -> Result<TaskSnapshot, A2aError> {
    let task_id = TaskId::new(id);
    let found = service
        .read(move |rows| TaskSnapshot::load(rows, &task_id))
        .await?;
    found
        .filter(|view| view.task.is_agents(&caller.name))
        .ok_or_else(|| A2aError::task_not_found(id))
}

pub(super) async fn get<D: BridgeService>(
    call: &A2aCall<D>,
    request: GetTaskRequest,
) -> Result<Task, A2aError> {
    let view = owned(&call.context.service, &call.caller, &request.id).await?;
    Ok(call.render(&view, request.history_length).await)
}

pub(super) async fn subscribe<D: BridgeService>(
    call: &A2aCall<D>,
    request: SubscribeToTaskRequest,
) -> Result<TaskEventStream, A2aError> {
    let view = owned(&call.context.service, &call.caller, &request.id).await?;
    let state = view.now().state;
    // A client that lost the connection just before the end, and resumes, still gets the last events.
    let publishers = &call.context.publishers;
    let known = |seq| publishers.can_resume(&view.task.task_id, seq);
    if state.terminal() && !call.after.is_some_and(known) {
        return Err(A2aError::unsupported(format!(
            "the task is over ({}): nothing more happens to it, get it instead",
            state.as_str()
        )));
    }
    let permit = call.stream_permit()?;
    TaskEventStream::of(call, permit, &view.task.task_id, Until::Over).await
}

/// A file of an answer.
pub(crate) async fn file<D: BridgeService>(
    service: &D,
    caller: &Caller,
    (id, message, n): (&str, &str, usize),
) -> Result<(Attachment, Vec<u8>), A2aError> {
    let view = owned(service, caller, id).await?;
    let mut messages = view.messages.into_iter();
    let file = messages
        .find(|one| one.message.message_id.as_str() == message)
        .and_then(|one| one.files.into_iter().nth(n))
        .ok_or_else(|| A2aError::file_not_found(id))?;
    match service.read_file(&file).await {
        Ok(bytes) => Ok((file, bytes)),
        Err(why) => {
            tracing::warn!(task = id, message, why, "a file of an answer can't be read");
            Err(A2aError::file_not_found(id))
        }
    }
}

/// Interval at which rows are read without an update: a message that joined another one's turn has no updates of its own.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// Waits until `enough` says so, the time is over or the daemon stops; then returns the task as it is. A caller
/// with a permit gets an error once its token is revoked.
pub(super) async fn until<D: BridgeService>(
    call: &A2aCall<D>,
    permit: Option<&StreamPermit>,
    id: &str,
    longest: Duration,
    enough: impl Fn(&TaskSnapshot) -> bool,
) -> Result<TaskSnapshot, A2aError> {
    let service = &call.context.service;
    let deadline = after(Instant::now(), longest);
    let stop = permit.map_or_else(|| call.context.stop.clone(), StreamPermit::stop);
    let revoked = || stop.is_cancelled() && !call.context.stop.is_cancelled();
    let mut updates = MessageUpdates::new(service.hub());
    loop {
        let view = owned(service, &call.caller, id).await?;
        if revoked() {
            return Err(A2aError::revoked());
        }
        if enough(&view) {
            return Ok(view);
        }
        let last = view.messages.last();
        let last = last.map(|one| one.message.message_id.clone());
        if updates.follow(last.as_slice()) {
            continue;
        }
        tokio::select! {
            () = updates.changed() => {}
            () = sleep(POLL_EVERY) => {}
            () = sleep_until(deadline) => return Ok(view),
            () = stop.cancelled() => if revoked() { return Err(A2aError::revoked()) } else { return Ok(view) },
            () = call.gone.cancelled() => return Ok(view),
        }
    }
}
