//! What a person does by hand: look at dead letters, send them again, give them up, stop a message.

use super::messages::{find, view};
use super::page::Page;
use super::read::{Params, Who};
use super::{Context, ProblemResponse};
use crate::dead::{ActView, DeadList, DeadView};
use crate::{BridgeService, MessageView};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bridge_core::port::{Ledger, Read, RowsError};
use bridge_core::step::{Cancel, CancelOutcome, Discard, Redrive, RedriveOutcome};
use bridge_core::value::{MessageId, StateName, Timestamp};

pub(super) async fn list<D: BridgeService>(
    State(context): State<Context<D>>,
    Params(page): Params<Page>,
) -> Result<Json<DeadList>, ProblemResponse> {
    let limit = page.limit();
    let before = page.before.map(MessageId::new);
    let now = context.service.now();
    let found = context
        .service
        .ledger()
        .read(move |rows| dead(rows, before.as_ref(), limit, now))
        .await?;
    Ok(Json(found))
}

/// Both kinds are read by id, which begins with the time, and so merge into one order.
fn dead(
    rows: &dyn Read,
    before: Option<&MessageId>,
    limit: u32,
    now: Timestamp,
) -> Result<DeadList, RowsError> {
    let mut found = rows.messages_in(StateName::Dead, before, limit)?;
    found.extend(rows.messages_in(StateName::Parked, before, limit)?);
    found.sort_by(|a, b| b.message_id.cmp(&a.message_id));
    let size = usize::try_from(limit).unwrap_or(usize::MAX);
    // A whole page may be the last one too; then the next one is empty.
    let more = found.len() >= size;
    found.truncate(size);
    let mut dead = Vec::with_capacity(found.len());
    for message in found {
        let conversation = rows.conversation(&message.conversation_id)?;
        let answered = rows.answer(&message.message_id)?.is_some();
        dead.extend(DeadView::of(message, conversation, answered, now));
    }
    let next = match (more, dead.last()) {
        (true, Some(last)) => Some(last.message_id.clone()),
        (true, None) | (false, _) => None,
    };
    Ok(DeadList { dead, next })
}

type Acted = Result<(StatusCode, Json<ActView>), ProblemResponse>;

fn acted(status: StatusCode, message_id: &MessageId, outcome: &str, detail: &str) -> Acted {
    let act = ActView {
        message_id: message_id.to_string(),
        outcome: outcome.to_owned(),
        detail: detail.to_owned(),
    };
    Ok((status, Json(act)))
}

/// It can't be done: what the message is, and why not.
async fn conflict<D: BridgeService>(service: &D, message_id: MessageId, why: &str) -> Acted {
    let MessageView {
        message_id,
        state,
        why: place,
        ..
    } = view(service, message_id).await?;
    let detail = format!("message {message_id} is {state}: {}; {why}", place.now);
    Err(ProblemResponse::conflict(detail, message_id, state))
}

pub(super) async fn redrive<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Acted {
    let message_id = find(&context.service, id).await?;
    let redrive = Redrive {
        message_id: message_id.clone(),
        by: caller.actor().to_string(),
    };
    match context.service.commit(redrive).await? {
        RedriveOutcome::Queued => acted(
            StatusCode::ACCEPTED,
            &message_id,
            "queued",
            "it waits for a turn, at the end of its conversation",
        ),
        RedriveOutcome::Delivering => acted(
            StatusCode::ACCEPTED,
            &message_id,
            "delivering",
            "its answer is delivered again; Codex is not asked again",
        ),
        RedriveOutcome::Continuing => acted(
            StatusCode::ACCEPTED,
            &message_id,
            "continuing",
            "it goes on where it was cut: Codex is told to look first",
        ),
        RedriveOutcome::Unfit => {
            let why = "it was refused at the door, and what is kept of it is not the whole message: its sender must send it again";
            conflict(&context.service, message_id, why).await
        }
        RedriveOutcome::NotDead => {
            let why = "only a dead letter, or a message that waits for a person, is sent again";
            conflict(&context.service, message_id, why).await
        }
    }
}

pub(super) async fn discard<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Acted {
    let message_id = find(&context.service, id).await?;
    let discard = Discard {
        message_id: message_id.clone(),
        by: caller.actor().to_string(),
    };
    if context.service.commit(discard).await? {
        acted(
            StatusCode::OK,
            &message_id,
            "dropped",
            "it is given up; its text can be read until retention removes it",
        )
    } else {
        let why = "only a dead letter, or a message that waits for a person, is dropped; `codex-bridge interrupt` stops another";
        conflict(&context.service, message_id, why).await
    }
}

pub(super) async fn cancel<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Acted {
    let message_id = find(&context.service, id).await?;
    let cancel = Cancel {
        message_id: message_id.clone(),
        by: caller.actor(),
    };
    match context.service.commit(cancel).await? {
        CancelOutcome::Cancelled => acted(
            StatusCode::OK,
            &message_id,
            "cancelled",
            "it was stopped before its turn began",
        ),
        CancelOutcome::Stopping => acted(
            StatusCode::ACCEPTED,
            &message_id,
            "stopping",
            "its turn is being interrupted; if its answer comes first, it counts",
        ),
        CancelOutcome::Steered(leader) => {
            let why = format!("stop that one: `codex-bridge interrupt {leader}`");
            conflict(&context.service, message_id, &why).await
        }
        CancelOutcome::TooLate => {
            conflict(&context.service, message_id, "there is nothing to stop").await
        }
    }
}
