//! Send: a message starts a task, continues one, or answers a question of Codex in one; then its caller waits or streams.

use super::get::{owned, until};
use super::push;
use crate::a2a::call::A2aCall;
use crate::a2a::error::A2aError;
use crate::a2a::parse::{ParsedMessage, parse};
use crate::a2a::questions::{self, AnswerResult};
use crate::a2a::sse::{TaskEventStream, Until};
use crate::a2a::stream::{SequencedEvent, StartAt};
use crate::a2a::task;
use crate::{BridgeService, NewTaskInput, SubmitError};
use a2a::{
    Message, Part, Role, SendMessageConfiguration, SendMessageRequest, SendMessageResponse,
    StreamResponse, Task,
};
use bridge_core::outcome::{self, Outcome};
use bridge_core::step::{InputAccepted, NOTHING_TO_DO};
use bridge_core::task::{A2aState, TaskSnapshot};
use bridge_core::value::TaskId;
use std::time::Duration;

/// How long a caller that wants the end may wait for it: as long as a turn may take. After it the task is
/// returned as it is, and goes on.
const SEND_WAIT: Duration = Duration::from_secs(30 * 60);
/// The field to blame for a refused push configuration of a message.
const PUSH_FIELD: &str = "configuration.taskPushNotificationConfig.url";

pub(super) async fn send<D: BridgeService>(
    call: &A2aCall<D>,
    request: SendMessageRequest,
) -> Result<SendMessageResponse, A2aError> {
    let parsed = parse(request.message)?;
    if parsed.is_empty() {
        return Ok(SendMessageResponse::Message(nothing(&parsed)));
    }
    let configuration = request.configuration.unwrap_or_else(unconfigured);
    let blocking = configuration.return_immediately != Some(true);
    // A waiting call counts as a stream.
    let permit = if blocking {
        Some(call.stream_permit()?)
    } else {
        None
    };
    let history = configuration.history_length;
    let task_id = match place(call, parsed, configuration).await? {
        Placed::In(task_id) => task_id,
        Placed::NotAnAnswer { view, why } => {
            let task = still_asked(call, &view, &why, history).await;
            return Ok(SendMessageResponse::Task(task));
        }
    };
    let id = task_id.as_str();
    let view = match &permit {
        Some(permit) => until(call, Some(permit), id, SEND_WAIT, rests).await?,
        None => owned(&call.context.service, &call.caller, id).await?,
    };
    if blocking && let Some(message) = said(&view) {
        return Ok(SendMessageResponse::Message(message));
    }
    let task = call.render(&view, history).await;
    Ok(SendMessageResponse::Task(task))
}

pub(super) async fn stream<D: BridgeService>(
    call: &A2aCall<D>,
    request: SendMessageRequest,
) -> Result<TaskEventStream, A2aError> {
    let parsed = parse(request.message)?;
    if parsed.is_empty() {
        let said = StreamResponse::Message(nothing(&parsed));
        return Ok(TaskEventStream::one(None, said));
    }
    let configuration = request.configuration.unwrap_or_else(unconfigured);
    // Before anything is stored: a stored message is never refused for lack of a permit.
    let permit = call.stream_permit()?;
    match place(call, parsed, configuration).await? {
        Placed::In(task_id) => {
            match TaskEventStream::of(call, permit, &task_id, Until::Asked).await {
                Ok(events) => Ok(events),
                Err(error) => alone(call, &task_id, &error).await,
            }
        }
        Placed::NotAnAnswer { view, why } => Ok(asked_again(call, &view, &why).await),
    }
}

/// The task as it is now, where its message is stored and it can't be streamed: an error would say that
/// nothing was done.
async fn alone<D: BridgeService>(
    call: &A2aCall<D>,
    task_id: &TaskId,
    error: &A2aError,
) -> Result<TaskEventStream, A2aError> {
    let id = task_id.as_str();
    tracing::warn!(
        task = id,
        ?error,
        "a message is stored, and its task can't be streamed"
    );
    let view = owned(&call.context.service, &call.caller, id).await?;
    let task = call.render(&view, None).await;
    Ok(TaskEventStream::one(None, StreamResponse::Task(task)))
}

/// One event that says what was wrong with an answer. It has the sequence number of the current snapshot, so that its
/// client can resume from there.
async fn asked_again<D: BridgeService>(
    call: &A2aCall<D>,
    view: &TaskSnapshot,
    why: &str,
) -> TaskEventStream {
    let context = &call.context;
    let task_id = &view.task.task_id;
    let subscribing =
        context
            .publishers
            .subscribe(&context.service, task_id, &call.base, StartAt::Snapshot);
    let snapshot = match subscribing.await {
        Ok(mut subscriber) => subscriber.next().await,
        Err(_) => None,
    };
    if let Some(SequencedEvent { sequence, event }) = snapshot
        && let StreamResponse::Task(task) = event.as_ref()
    {
        let mut task = task.clone();
        say_why(&mut task, why);
        return TaskEventStream::one(Some(sequence), StreamResponse::Task(task));
    }
    let task = still_asked(call, view, why, None).await;
    TaskEventStream::one(None, StreamResponse::Task(task))
}

/// The waiting task, with the reason why the answer was refused before its question.
async fn still_asked<D: BridgeService>(
    call: &A2aCall<D>,
    view: &TaskSnapshot,
    why: &str,
    history: Option<i32>,
) -> Task {
    let mut task = call.render(view, history).await;
    say_why(&mut task, why);
    task
}

fn say_why(task: &mut Task, why: &str) {
    if let Some(message) = &mut task.status.message {
        let why = Part::text(format!(
            "The answer does not fit: {why}. It is asked again:"
        ));
        message.parts.insert(0, why);
    }
}

fn unconfigured() -> SendMessageConfiguration {
    SendMessageConfiguration {
        accepted_output_modes: None,
        task_push_notification_config: None,
        history_length: None,
        return_immediately: None,
    }
}

/// Whether the task is over or waits for its client.
fn rests(view: &TaskSnapshot) -> bool {
    let state = view.now().state;
    state.terminal() || state.interrupted()
}

/// The last answer as a plain message, if it is one. Files belong to the task: with them the task is the answer.
fn said(view: &TaskSnapshot) -> Option<Message> {
    let last = view.messages.last().filter(|last| last.files.is_empty())?;
    let (outcome, _) = outcome::read(&last.answer.as_ref()?.text);
    let over = view.now().state == A2aState::Completed;
    match outcome {
        Outcome::Says if over => task::answer_message(view, last),
        Outcome::Says | Outcome::Done | Outcome::Asks | Outcome::Refuses => None,
    }
}

/// Nothing is stored for it.
fn nothing(parsed: &ParsedMessage) -> Message {
    Message {
        context_id: Some(parsed.context.clone().unwrap_or_else(a2a::new_context_id)),
        task_id: parsed.task.clone(),
        ..Message::new(Role::Agent, vec![Part::text(NOTHING_TO_DO)])
    }
}

/// Where a message was stored.
enum Placed {
    /// In this task, as its next message or as the answer to a question.
    In(TaskId),
    /// Not stored: the task waits for an answer, and this is none.
    NotAnAnswer {
        view: Box<TaskSnapshot>,
        why: String,
    },
}

/// Stores a message; it is on disk when this resolves.
async fn place<D: BridgeService>(
    call: &A2aCall<D>,
    parsed: ParsedMessage,
    configuration: SendMessageConfiguration,
) -> Result<Placed, A2aError> {
    let key = call.key.as_ref().or(parsed.key.as_ref());
    let keyed = key.is_some();
    let config = configuration.task_push_notification_config;
    let config = config.map(|config| push::inline(config, key.map(String::as_str)));
    let task_id = parsed.task.as_deref().map(TaskId::new);
    let mut since = push::Since::Beginning;
    let mut answered = None;
    if let Some(id) = &parsed.task {
        let view = owned(&call.context.service, &call.caller, id).await?;
        fits(&view, &parsed, keyed)?;
        if let Some(config) = &config {
            push::check(call, task_id.as_ref(), config, PUSH_FIELD).await?;
            // Before the message is stored, so that none of its events is missed.
            since = push::Since::now_of(call, &view.task.task_id).await?;
        }
        answered = answer(call, &parsed, view, key.map(String::as_str)).await?;
    } else if let Some(config) = &config {
        push::check(call, None, config, PUSH_FIELD).await?;
    }
    let placed = match answered {
        Some(placed) => placed,
        None => Placed::In(take(call, parsed).await?),
    };
    // The call may wait until its task ends.
    if let Some(room) = &call.room {
        room.release();
    }
    if let (Placed::In(task_id), Some(config)) = (&placed, config) {
        push::put(call, task_id, config, since, PUSH_FIELD).await?;
    }
    Ok(placed)
}

/// Whether a message that goes on with a task answers a question in it.
async fn answer<D: BridgeService>(
    call: &A2aCall<D>,
    parsed: &ParsedMessage,
    view: TaskSnapshot,
    key: Option<&str>,
) -> Result<Option<Placed>, A2aError> {
    let service = &call.context.service;
    let answered = questions::answer(service, &call.caller, &view, parsed, key).await?;
    Ok(match answered {
        AnswerResult::NotAsked => None,
        AnswerResult::Yes => Some(Placed::In(view.task.task_id)),
        AnswerResult::No { why } => Some(Placed::NotAnAnswer {
            view: Box::new(view),
            why,
        }),
    })
}

/// Whether a message may continue a task. One with a key may repeat an earlier message: the ledger checks that.
fn fits(view: &TaskSnapshot, parsed: &ParsedMessage, keyed: bool) -> Result<(), A2aError> {
    let context = task::context_of(view);
    if parsed
        .context
        .as_ref()
        .is_some_and(|named| named != context)
    {
        let why = "is not the context of the task; leave it out, or name that one";
        return Err(A2aError::invalid("message.contextId", why));
    }
    let state = view.now().state;
    if state.terminal() && !keyed {
        Err(over(state))
    } else {
        Ok(())
    }
}

fn over(state: A2aState) -> A2aError {
    A2aError::unsupported(format!(
        "the task is over ({}) and takes no more messages; begin a new one in its context",
        state.as_str()
    ))
}

async fn take<D: BridgeService>(
    call: &A2aCall<D>,
    parsed: ParsedMessage,
) -> Result<TaskId, A2aError> {
    let (original, brief) = (parsed.stored()?, parsed.brief()?);
    let named = parsed.task.clone();
    let input = NewTaskInput {
        from: call.caller.clone(),
        context: parsed.context,
        task_id: parsed.task.map(TaskId::new),
        client_message_id: parsed.client_message_id,
        key: call.key.clone().or(parsed.key),
        text: parsed.text,
        files: parsed.files,
        hops: parsed.hops,
        original,
        brief,
    };
    match call.context.service.accept_input(input).await? {
        InputAccepted::New { task, .. }
        | InputAccepted::Known { task, .. }
        | InputAccepted::KnownAnswer { task } => Ok(task.task_id),
        InputAccepted::Over(state) => Err(over(state)),
        InputAccepted::Unknown => Err(A2aError::task_not_found(
            named.as_deref().unwrap_or_default(),
        )),
        InputAccepted::OverBudget(over) => {
            let now = call.context.service.now();
            Err(SubmitError::over_budget(over, now).into())
        }
        InputAccepted::Revoked => Err(SubmitError::Revoked.into()),
        InputAccepted::Full => Err(A2aError::full(
            "too many messages wait already; nothing was stored, send it again later",
        )),
    }
}
