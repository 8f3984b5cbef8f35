//! Tasks over HTTP: control's acts, answered in our own words; a refusal is a problem that says the same.

use super::extract::{Body, Params, Who, idempotency_key};
use super::{Context, ProblemResponse};
use crate::BridgeService;
use crate::control::{ActionResult, ControlError, ControlErrorKind, StartArgs, TaskService};
use crate::task_view::{NotifyReply, TaskPageView, TaskReply};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Which tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskPage {
    /// How many, at most.
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    before: Option<String>,
}

/// More for a running turn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SteerBody {
    /// The text.
    instruction: String,
}

/// A decision about what Codex asks.
// Answers may be secrets, so that nothing can print it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RespondBody {
    /// Which question, by its id or its code.
    request_id: String,
    /// `accept`, `acceptForSession`, `decline` or `cancel`; `decline` when absent.
    #[serde(default)]
    decision: Option<String>,
    /// What questions and forms are answered with.
    #[serde(default)]
    answers: Option<Value>,
}

/// Which notifications.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NotifyBody {
    /// How many, at most.
    limit: Option<u32>,
    /// Only say what would be sent.
    dry_run: bool,
}

type TaskAnswer<T = TaskReply> = Result<Json<T>, ProblemResponse>;

impl From<ControlError> for ProblemResponse {
    fn from(error: ControlError) -> Self {
        let status = match error.kind {
            ControlErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            ControlErrorKind::Unknown => StatusCode::NOT_FOUND,
            ControlErrorKind::Refused => StatusCode::CONFLICT,
            ControlErrorKind::Forbidden => StatusCode::FORBIDDEN,
            ControlErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ControlErrorKind::Unreadable => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.message)
    }
}

/// A task that took no steering is a problem here.
fn answer(done: ActionResult) -> TaskAnswer {
    let task = done?;
    match task.refusal() {
        Some(why) => Err(ProblemResponse::new(StatusCode::CONFLICT, why)),
        None => Ok(Json(task.reply)),
    }
}

pub(super) async fn start<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    headers: HeaderMap,
    Body(args): Body<StartArgs>,
) -> Result<(StatusCode, Json<TaskReply>), ProblemResponse> {
    let args = StartArgs {
        key: idempotency_key(&headers)?,
        ..args
    };
    let reply = answer(TaskService::new(service).start(&caller, args).await)?;
    let status = match reply.duplicate {
        Some(true) => StatusCode::OK,
        Some(false) | None => StatusCode::CREATED,
    };
    Ok((status, reply))
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(page): Params<TaskPage>,
) -> TaskAnswer<TaskPageView> {
    let control = TaskService::new(service);
    Ok(Json(control.page(page.limit, page.before).await?))
}

pub(super) async fn show<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Path(task_id): Path<String>,
) -> TaskAnswer {
    answer(TaskService::new(service).status(&task_id).await)
}

/// For tasks and for messages of any channel.
pub(super) async fn steer<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(task_id): Path<String>,
    Body(body): Body<SteerBody>,
) -> TaskAnswer {
    let control = TaskService::new(service);
    answer(control.steer(&caller, &task_id, body.instruction).await)
}

pub(super) async fn interrupt<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(task_id): Path<String>,
) -> TaskAnswer {
    answer(TaskService::new(service).interrupt(&caller, &task_id).await)
}

pub(super) async fn respond<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(task_id): Path<String>,
    Body(body): Body<RespondBody>,
) -> TaskAnswer {
    let control = TaskService::new(service);
    let (request_id, decision) = (&body.request_id, body.decision.as_deref());
    let responded = control.respond(&caller, &task_id, request_id, decision, body.answers);
    answer(responded.await)
}

pub(super) async fn notify<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Body(body): Body<NotifyBody>,
) -> TaskAnswer<NotifyReply> {
    let control = TaskService::new(service);
    let notified = control.notify(&caller, body.limit, body.dry_run);
    Ok(Json(notified.await?))
}
