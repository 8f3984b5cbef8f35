//! One task: find it for its owner, show it, follow it, and give out the files of its answers.

use super::Call;
use crate::a2a::error::A2aError;
use crate::a2a::sse::{EventStream, Until};
use crate::a2a::task::{self, Detail};
use crate::{BridgeService, Caller};
use a2a::{GetTaskRequest, SubscribeToTaskRequest, Task};
use bridge_core::port::Ledger;
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{Attachment, TaskId};

/// The task with this id, for its owner. To everybody else it is as unknown as one that never was.
pub(super) async fn owned<D: BridgeService>(
    service: &D,
    caller: &Caller,
    id: &str,
) -> Result<TaskSnapshot, A2aError> {
    let task_id = TaskId::new(id);
    let found = service
        .ledger()
        .read(move |rows| TaskSnapshot::load(rows, &task_id))
        .await?;
    found
        .filter(|view| view.task.is_agents(&caller.name))
        .ok_or_else(|| A2aError::task_not_found(id))
}

pub(super) async fn get<D: BridgeService>(
    call: &Call<D>,
    request: GetTaskRequest,
) -> Result<Task, A2aError> {
    let service = &call.context.service;
    let view = owned(service, &call.caller, &request.id).await?;
    let detail = Detail {
        history: request.history_length,
        ..Detail::WHOLE
    };
    Ok(task::task(service, &call.base, &view, detail).await)
}

pub(super) async fn subscribe<D: BridgeService>(
    call: &Call<D>,
    request: SubscribeToTaskRequest,
) -> Result<EventStream, A2aError> {
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
    EventStream::of(call, permit, &view.task.task_id, Until::Over).await
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
