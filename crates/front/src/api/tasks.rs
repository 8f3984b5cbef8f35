//! Tasks over HTTP: control's acts, with its envelopes read into our own views; a refusal is a problem that says the
//! same.

use super::extract::{Body, Params, Who, idempotency_key};
use super::task_view::{NotifyReply, TaskPageView, TaskReply};
use super::{Context, ProblemResponse};
use crate::BridgeService;
use crate::control::{
    Control, ControlAction, ControlError, ControlErrorKind, StartArgs, TaskService,
};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
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

type EnvelopeResult<T = TaskReply> = Result<Json<T>, ProblemResponse>;

impl From<ControlError> for ProblemResponse {
    fn from(error: ControlError) -> Self {
        let status = match error.kind {
            ControlErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            ControlErrorKind::Unknown => StatusCode::NOT_FOUND,
            ControlErrorKind::Refused => StatusCode::CONFLICT,
            ControlErrorKind::Forbidden => StatusCode::FORBIDDEN,
            ControlErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.message)
    }
}

/// An envelope that says no is a problem here.
fn accepted<T: DeserializeOwned>(envelope: Value) -> EnvelopeResult<T> {
    match envelope.get("success") {
        Some(Value::Bool(false)) => {
            let why = envelope.get("error").and_then(Value::as_str);
            let why = why.unwrap_or("it was refused");
            Err(ProblemResponse::new(StatusCode::CONFLICT, why))
        }
        Some(_) | None => Ok(Json(read(envelope)?)),
    }
}

/// An envelope in our own words.
fn read<T: DeserializeOwned>(envelope: Value) -> Result<T, ProblemResponse> {
    serde_json::from_value(envelope).map_err(|error| {
        let said = format!("the answer can't be written as JSON: {error}");
        ProblemResponse::new(StatusCode::INTERNAL_SERVER_ERROR, said)
    })
}

async fn act<D: BridgeService, T: DeserializeOwned>(
    context: Context<D>,
    Who(caller): Who,
    act: ControlAction,
) -> EnvelopeResult<T> {
    let control = TaskService::new(context.service);
    accepted(control.act(&caller, act).await?)
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
    let control = TaskService::new(service);
    let envelope = control.act(&caller, ControlAction::Start(args)).await?;
    let status = match envelope.get("duplicate") {
        Some(Value::Bool(true)) => StatusCode::OK,
        Some(_) | None => StatusCode::CREATED,
    };
    Ok((status, Json(read(envelope)?)))
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(page): Params<TaskPage>,
) -> EnvelopeResult<TaskPageView> {
    let control = TaskService::new(service);
    Ok(Json(read(control.page(page.limit, page.before).await?)?))
}

pub(super) async fn show<D: BridgeService>(
    State(context): State<Context<D>>,
    who: Who,
    Path(task_id): Path<String>,
) -> EnvelopeResult {
    act(context, who, ControlAction::Status { task_id }).await
}

/// For tasks and for messages of any channel.
pub(super) async fn steer<D: BridgeService>(
    State(context): State<Context<D>>,
    who: Who,
    Path(task_id): Path<String>,
    Body(body): Body<SteerBody>,
) -> EnvelopeResult {
    let steer = ControlAction::Steer {
        task_id,
        instruction: body.instruction,
    };
    act(context, who, steer).await
}

pub(super) async fn interrupt<D: BridgeService>(
    State(context): State<Context<D>>,
    who: Who,
    Path(task_id): Path<String>,
) -> EnvelopeResult {
    act(context, who, ControlAction::Interrupt { task_id }).await
}

pub(super) async fn respond<D: BridgeService>(
    State(context): State<Context<D>>,
    who: Who,
    Path(task_id): Path<String>,
    Body(body): Body<RespondBody>,
) -> EnvelopeResult {
    let respond = ControlAction::Respond {
        task_id,
        request_id: body.request_id,
        decision: body.decision,
        answers: body.answers,
    };
    act(context, who, respond).await
}

pub(super) async fn notify<D: BridgeService>(
    State(context): State<Context<D>>,
    who: Who,
    Body(body): Body<NotifyBody>,
) -> EnvelopeResult<NotifyReply> {
    let notify = ControlAction::NotifyCompleted {
        limit: body.limit,
        dry_run: body.dry_run,
    };
    act(context, who, notify).await
}
