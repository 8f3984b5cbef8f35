//! Many failed messages at once: sent again, one a second, or given up. One at a time is with the operator's other actions.

use super::extract::{Body, Who};
use super::messages::find;
use super::operator::{ActView, give_up, send_again};
use super::{Context, ProblemResponse};
use crate::{BridgeService, Caller};
use axum::Json;
use axum::extract::State;
use bridge_core::limits::{REDRIVE_MAX, REDRIVE_PAUSE_MS};
use bridge_core::step::RedriveOutcome;
use bridge_core::value::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Body of `POST /v1/dead/retry` and `POST /v1/dead/discard`: which of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeadRequest {
    /// Their ids, at most 100.
    pub ids: Vec<String>,
    /// All of them, oldest first, 100 in one call; to send again, without those that only their sender can.
    pub all: bool,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// What became of each.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeadActs {
    /// Those that are sent again or given up, or would be.
    pub done: Vec<ActView>,
    /// Those that are not, and why.
    pub refused: Vec<RefusedAct>,
    /// With `all`: how many were not looked at; call again for them.
    pub left: u32,
    /// Nothing was changed.
    pub dry_run: bool,
}

/// One that could not be done.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RefusedAct {
    /// As it was given.
    pub message_id: String,
    pub reason: String,
}

/// What is done to each of them.
#[derive(Clone, Copy, Debug)]
enum DeadAct {
    Retry,
    Discard,
}

pub(super) async fn retry<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Body(request): Body<DeadRequest>,
) -> Result<Json<DeadActs>, ProblemResponse> {
    each(&context, &caller, request, DeadAct::Retry).await
}

pub(super) async fn discard<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Body(request): Body<DeadRequest>,
) -> Result<Json<DeadActs>, ProblemResponse> {
    each(&context, &caller, request, DeadAct::Discard).await
}

/// Each in a transition of its own, so that a call that is cut off is continued by calling again.
async fn each<D: BridgeService>(
    context: &Context<D>,
    caller: &Caller,
    request: DeadRequest,
    act: DeadAct,
) -> Result<Json<DeadActs>, ProblemResponse> {
    let (service, dry_run) = (&context.service, request.dry_run);
    let (ids, left) = chosen(service, request, act).await?;
    let mut acts = DeadActs {
        left,
        dry_run,
        ..DeadActs::default()
    };
    // One call at a time, so that the turns of two are no closer than those of one.
    let mut next = context.shared.next_redrive.lock().await;
    let held = service.read(|rows| rows.last_redrive()).await?;
    let held = held.map(|last| last.plus_ms(REDRIVE_PAUSE_MS));
    let now = service.now();
    let mut at = held.max(*next).unwrap_or(now).max(now);
    for id in ids {
        let done = match (act, dry_run) {
            (DeadAct::Retry, false) => again(service, caller, id.clone(), at).await,
            (DeadAct::Discard, false) => match find(service, id.clone()).await {
                Ok(message_id) => give_up(service, caller, message_id).await,
                Err(problem) => Err(problem),
            },
            (_, true) => would(service, id.clone(), act, at).await,
        };
        match done {
            Ok(done) => {
                // What is only delivered again costs no turn.
                if matches!(act, DeadAct::Retry) && done.outcome != DELIVERING {
                    at = at.plus_ms(REDRIVE_PAUSE_MS);
                    if !dry_run {
                        *next = Some(at);
                    }
                }
                acts.done.push(done);
            }
            Err(problem) if problem.is_about_the_request() => acts.refused.push(RefusedAct {
                message_id: id,
                reason: problem.into_detail(),
            }),
            Err(problem) => return Err(problem),
        }
    }
    Ok(Json(acts))
}

const DELIVERING: &str = "delivering";

async fn again<D: BridgeService>(
    service: &D,
    caller: &Caller,
    id: String,
    at: Timestamp,
) -> Result<ActView, ProblemResponse> {
    let message_id = find(service, id).await?;
    send_again(service, caller, message_id, Some(at)).await
}

/// What would happen to a message.
async fn would<D: BridgeService>(
    service: &D,
    id: String,
    act: DeadAct,
    at: Timestamp,
) -> Result<ActView, ProblemResponse> {
    let message_id = find(service, id).await?;
    let wanted = message_id.clone();
    let found = service.read(move |rows| {
        let Some(message) = rows.message(&wanted)? else {
            return Ok(RedriveOutcome::NotDead);
        };
        let answered = rows.answer(&wanted)?.is_some();
        Ok(RedriveOutcome::of(&message, answered))
    });
    let outcome = found.await?;
    match (act, outcome) {
        (_, RedriveOutcome::NotDead) => Err(ProblemResponse::unprocessable(
            "it did not fail, and does not wait for a person",
        )),
        (DeadAct::Discard, _) => Ok(ActView::dropped(&message_id)),
        (DeadAct::Retry, outcome) => {
            let held = service.now() < at;
            ActView::redriven(&message_id, outcome, held.then_some(at)).ok_or_else(|| {
                ProblemResponse::unprocessable(
                    "only a part of it was kept: its sender must send it again",
                )
            })
        }
    }
}

/// The ids that a call is for, and how many more there are.
async fn chosen<D: BridgeService>(
    service: &D,
    request: DeadRequest,
    act: DeadAct,
) -> Result<(Vec<String>, u32), ProblemResponse> {
    let max = usize::try_from(REDRIVE_MAX).unwrap_or(usize::MAX);
    match (request.all, request.ids) {
        (false, ids) if ids.is_empty() => Err(ProblemResponse::unprocessable(
            "name the messages in `ids`, or say `all`",
        )),
        (true, ids) if !ids.is_empty() => Err(ProblemResponse::unprocessable(
            "give `ids` or `all`, not both",
        )),
        (false, ids) if ids.len() > max => Err(ProblemResponse::unprocessable(format!(
            "`ids` names {} messages; one call takes {max}",
            ids.len()
        ))),
        (false, ids) => {
            let mut seen = BTreeSet::new();
            let once = ids.into_iter().filter(|id| seen.insert(id.clone()));
            Ok((once.collect(), 0))
        }
        (true, _) => {
            let found = service.read(|rows| rows.failed()).await?;
            // Those that can't be sent again would be the oldest for ever, and nothing behind them would be reached.
            let can = |outcome| match act {
                DeadAct::Retry => outcome != RedriveOutcome::Unfit,
                DeadAct::Discard => true,
            };
            let ids = found.into_iter().filter(|(_, outcome)| can(*outcome));
            let mut ids: Vec<String> = ids.map(|(id, _)| id.to_string()).collect();
            let left = ids.len().saturating_sub(max);
            ids.truncate(max);
            Ok((ids, u32::try_from(left).unwrap_or(u32::MAX)))
        }
    }
}
