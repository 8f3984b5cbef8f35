//! Messages: submit, show, list.

use super::extract::{Body, PageQuery, Params, Who, idempotency_key};
use super::nodes::node_of;
use super::{Context, ProblemResponse};
use crate::message_view::HistoryRows;
use crate::message_view::ID_PREFIX_MIN_CHARS;
use crate::message_view::MessageRows;
use crate::{
    BridgeService, Caller, MessageList, MessageView, StoryView, SubmitRequest, SubmitResponse,
};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use bridge_core::limits::{EVENTS_PER_MESSAGE_MAX, PAGE_MAX};
use bridge_core::port::{Read, RowsError, readable};
use bridge_core::step::Claim;
use bridge_core::value::{Conversation, Message, MessageId, Seq};
use bridge_core::why::WhyRows;
use schemars::JsonSchema;
use serde::Deserialize;

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
    Who(caller): Who,
    Path(id): Path<String>,
) -> Result<Json<StoryView>, ProblemResponse> {
    let message_id = find_seen(&service, &caller, id).await?;
    let (now, claim) = (service.now(), service.claim());
    let is_here = caller.is_here();
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
        Some((story, message)) => {
            if is_here {
                service.bring_files(message.files()).await;
            }
            Ok(Json(story.view(message.view(now, &service))))
        }
        None => Err(unknown(&message_id)),
    }
}

fn unknown(message_id: &MessageId) -> ProblemResponse {
    ProblemResponse::not_found(format!("there is no message {message_id}"))
}

/// Which messages.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageQuery {
    /// How many, at most; 50 when absent.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    before: Option<String>,
    /// Only those of this conversation, by its id or its key.
    conversation: Option<String>,
    /// Of a conversation, oldest first and newer than this one: the `next` of the page before, or `start`.
    after: Option<String>,
}

/// Where a log begins.
const START: &str = "start";

impl MessageQuery {
    fn page(&self) -> PageQuery {
        PageQuery::new(self.limit, self.before.clone())
    }
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Params(query): Params<MessageQuery>,
) -> Result<Json<MessageList>, ProblemResponse> {
    let limit = query.page().limit();
    let (now, claim) = (service.now(), service.claim());
    let found = service
        .read(move |rows| {
            let found = match listed(rows, &query, &caller, limit)? {
                Ok(found) => found,
                Err(refused) => return Ok(Err(refused)),
            };
            let next = PageQuery::next(&found, limit, |last| last.message_id.to_string());
            let mut seen = Vec::new();
            for message in &found {
                seen.extend(readable(rows_of(rows, &message.message_id, &claim))?.flatten());
            }
            Ok(Ok((next, seen)))
        })
        .await?;
    let (next, messages) = found.map_err(ProblemResponse::from)?;
    let messages = messages.into_iter().map(|rows| rows.view(now, &service));
    let messages = messages.collect();
    Ok(Json(MessageList { messages, next }))
}

/// Why there is no such list.
#[derive(Clone, Copy, Debug)]
pub(super) enum ListRefusal {
    Order,
    Unknown,
    Several,
}

impl From<ListRefusal> for ProblemResponse {
    fn from(refusal: ListRefusal) -> Self {
        match refusal {
            ListRefusal::Order => {
                Self::bad_request("`after` goes with `conversation`, and not with `before`")
            }
            ListRefusal::Unknown => Self::not_found("there is no such conversation"),
            ListRefusal::Several => Self::ambiguous(
                "several conversations have this key: give the id of one, from `GET /v1/conversations`",
            ),
        }
    }
}

/// The one conversation of this id or key.
pub(super) fn one_named(
    rows: &dyn Read,
    caller: &Caller,
    name: &str,
) -> Result<Result<Conversation, ListRefusal>, RowsError> {
    let mut named = caller.conversations(rows, name)?;
    Ok(match (named.pop(), named.pop()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(ListRefusal::Several),
        (None, _) => Err(ListRefusal::Unknown),
    })
}

fn listed(
    rows: &dyn Read,
    query: &MessageQuery,
    caller: &Caller,
    limit: u32,
) -> Result<Result<Vec<Message>, ListRefusal>, RowsError> {
    let before = query.before.as_deref().map(MessageId::new);
    let Some(name) = &query.conversation else {
        return match (before, &query.after) {
            (_, Some(_)) => Ok(Err(ListRefusal::Order)),
            (before, None) => caller.newest_messages(rows, before.as_ref(), limit).map(Ok),
        };
    };
    let id = match one_named(rows, caller, name)? {
        Ok(one) => one.conversation_id,
        Err(refused) => return Ok(Err(refused)),
    };
    let place = |of: &MessageId| -> Result<Option<Seq>, RowsError> {
        let message = rows.message(of)?;
        Ok(message.map(|message| message.seq))
    };
    match (before, query.after.as_deref()) {
        (Some(_), Some(_)) => Ok(Err(ListRefusal::Order)),
        (None, None) => rows.messages_before(&id, None, limit).map(Ok),
        (Some(before), None) => match place(&before)? {
            Some(seq) => rows.messages_before(&id, Some(seq), limit).map(Ok),
            None => Ok(Ok(Vec::new())),
        },
        (None, Some(START)) => rows.messages_after(&id, None, limit).map(Ok),
        (None, Some(after)) => match place(&MessageId::new(after))? {
            Some(seq) => rows.messages_after(&id, Some(seq), limit).map(Ok),
            None => Ok(Ok(Vec::new())),
        },
    }
}

/// Most messages with one prefix among which a person of the group is looked for.
const PREFIX_MATCHES_MAX: u32 = 100;

/// Finds a message that this caller may know of. Messages of others look like messages that do not exist.
pub(super) async fn find_seen<D: BridgeService>(
    service: &D,
    caller: &Caller,
    id: String,
) -> Result<MessageId, ProblemResponse> {
    if !caller.is_member() {
        return find(service, id).await;
    }
    let unknown = ProblemResponse::not_found(format!("there is no message {id}"));
    if id.chars().count() < ID_PREFIX_MIN_CHARS {
        return Err(unknown);
    }
    let caller = caller.clone();
    let mut own = service
        .read(move |rows| {
            let mut own = Vec::new();
            for found in rows.message_ids_by_prefix(&id, PREFIX_MATCHES_MAX)? {
                let message = readable(rows.message(&found))?.flatten();
                own.extend(message.filter(|message| caller.sees(message)));
            }
            Ok(own)
        })
        .await?;
    match (own.pop(), own.pop()) {
        (Some(message), None) => Ok(message.message_id),
        (Some(_), Some(_)) => Err(ProblemResponse::ambiguous(
            "several of your messages begin so: give more of the id",
        )),
        (None, _) => Err(unknown),
    }
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
    let rows = load(service, message_id).await?;
    Ok(rows.view(service.now(), service))
}

pub(super) async fn load<D: BridgeService>(
    service: &D,
    message_id: MessageId,
) -> Result<MessageRows, ProblemResponse> {
    let (id, claim) = (message_id.clone(), service.claim());
    let rows = service.read(move |rows| rows_of(rows, &id, &claim)).await?;
    rows.ok_or_else(|| unknown(&message_id))
}

pub(super) fn rows_of(
    rows: &dyn Read,
    message_id: &MessageId,
    claim: &Claim,
) -> Result<Option<MessageRows>, RowsError> {
    let Some(case) = WhyRows::load(rows, message_id, claim)? else {
        return Ok(None);
    };
    Ok(Some(MessageRows {
        conversation: rows.conversation(&case.message.conversation_id)?,
        answer: rows.answer(message_id)?,
        requests: rows.requests(message_id)?,
        node: node_of(rows, &case.message.conversation_id)?,
        case,
    }))
}

/// Newest attempts that are shown: a message that is redriven again and again has many.
const ATTEMPTS_SHOWN: u32 = 50;

fn story_of(rows: &dyn Read, case: &WhyRows) -> Result<HistoryRows, RowsError> {
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
