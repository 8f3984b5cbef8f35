//! Messages: submit, show, list.

use super::extract::{Body, PageQuery, Params, Who, idempotency_key};
use super::{Context, ProblemResponse};
use crate::message_view::HistoryRows;
use crate::message_view::ID_PREFIX_MIN_CHARS;
use crate::message_view::MessageRows;
use crate::{BridgeService, MessageList, MessageView, StoryView, SubmitRequest, SubmitResponse};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use bridge_core::limits::{EVENTS_PER_MESSAGE_MAX, PAGE_MAX};
use bridge_core::port::{Read, RowsError};
use bridge_core::step::Claim;
use bridge_core::value::{Message, MessageId};
use bridge_core::why::Case;

pub(super) async fn submit<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    headers: HeaderMap,
    Body(body): Body<SubmitRequest>,
) -> Result<(StatusCode, Json<SubmitResponse>), ProblemResponse> {
    let key = idempotency_key(&headers)?.ok_or_else(|| {
        ProblemResponse::bad_request(
            "the header Idempotency-Key is missing: it makes sending twice safe",
        )
    })?;
    let submitted = service.submit(body, &key, caller).await?;
    let status = if submitted.duplicate {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let response = SubmitResponse {
        message_id: submitted.message_id.to_string(),
        duplicate: submitted.duplicate,
        first: submitted.first,
        cwd: submitted.cwd,
        sandbox: submitted.sandbox.as_str().to_owned(),
    };
    Ok((status, Json(response)))
}

pub(super) async fn show<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Path(id): Path<String>,
) -> Result<Json<StoryView>, ProblemResponse> {
    let message_id = find(&service, id).await?;
    let (now, claim) = (service.now(), service.claim());
    let found = message_id.clone();
    let rows = service
        .read(move |rows| {
            let Some(message) = rows_of(rows, &found, &claim)? else {
                return Ok(None);
            };
            Ok(Some((story_of(rows, &message.case)?, message)))
        })
        .await?;
    match rows {
        Some((story, message)) => Ok(Json(story.view(message.view(now)))),
        None => Err(unknown(&message_id)),
    }
}

fn unknown(message_id: &MessageId) -> ProblemResponse {
    ProblemResponse::not_found(format!("there is no message {message_id}"))
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(page): Params<PageQuery>,
) -> Result<Json<MessageList>, ProblemResponse> {
    let limit = page.limit();
    let before = page.before.map(MessageId::new);
    let (now, claim) = (service.now(), service.claim());
    let messages = service
        .read(move |rows| {
            let found = match &before {
                Some(before) => rows.older_messages(before, limit)?,
                None => rows.newest_messages(limit)?,
            };
            found
                .iter()
                .map(|message| rows_of(rows, &message.message_id, &claim))
                .filter_map(Result::transpose)
                .collect::<Result<Vec<_>, RowsError>>()
        })
        .await?;
    let messages: Vec<_> = messages.into_iter().map(|rows| rows.view(now)).collect();
    let next = PageQuery::next(&messages, limit, |last| last.message_id.clone());
    Ok(Json(MessageList { messages, next }))
}

/// Finds a message by its id or an unambiguous prefix.
pub(super) async fn find<D: BridgeService>(
    service: &D,
    id: String,
) -> Result<MessageId, ProblemResponse> {
    if id.chars().count() < ID_PREFIX_MIN_CHARS {
        let detail = format!("give at least {ID_PREFIX_MIN_CHARS} characters of the message's id");
        return Err(ProblemResponse::bad_request(detail));
    }
    let prefix = id.clone();
    let mut found = service
        .read(move |rows| rows.message_ids_by_prefix(&prefix, 2))
        .await?;
    match (found.pop(), found.pop()) {
        (Some(message_id), None) => Ok(message_id),
        (Some(_), Some(_)) => Err(ProblemResponse::ambiguous(format!(
            "several messages begin with {id}: give more of the id"
        ))),
        (None, _) => Err(ProblemResponse::not_found(format!(
            "there is no message {id}"
        ))),
    }
}

pub(super) async fn view<D: BridgeService>(
    service: &D,
    message_id: MessageId,
) -> Result<MessageView, ProblemResponse> {
    let (now, claim) = (service.now(), service.claim());
    let id = message_id.clone();
    let rows = service.read(move |rows| rows_of(rows, &id, &claim)).await?;
    rows.map(|rows| rows.view(now))
        .ok_or_else(|| unknown(&message_id))
}

pub(super) fn rows_of(
    rows: &dyn Read,
    message_id: &MessageId,
    claim: &Claim,
) -> Result<Option<MessageRows>, RowsError> {
    let Some(case) = Case::load(rows, message_id, claim)? else {
        return Ok(None);
    };
    Ok(Some(MessageRows {
        conversation: rows.conversation(&case.message.conversation_id)?,
        answer: rows.answer(message_id)?,
        requests: rows.requests(message_id)?,
        case,
    }))
}

/// Newest attempts that are shown: a message that is redriven again and again has many.
const ATTEMPTS_SHOWN: u32 = 50;

fn story_of(rows: &dyn Read, case: &Case) -> Result<HistoryRows, RowsError> {
    let Message {
        message_id, life, ..
    } = &case.message;
    let first = life
        .attempt
        .saturating_sub(ATTEMPTS_SHOWN)
        .saturating_add(1);
    let mut turns = Vec::new();
    for attempt in first..=life.attempt {
        turns.extend(rows.turn(message_id, attempt)?);
    }
    Ok(HistoryRows {
        turns,
        events: rows.events(message_id, 0, EVENTS_PER_MESSAGE_MAX)?,
        replies: case.replies.clone(),
        acts: rows.audit_of(message_id, PAGE_MAX)?,
    })
}
