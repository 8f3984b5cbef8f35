//! What Codex asks: the list, one question, and the decision about it. Whether a decision counts is the core's.

use super::read::{Body, Params, Who};
use super::{Context, ProblemResponse};
use crate::control::Scope;
use crate::request::{DecisionRequest, DecisionView, RequestEntry, RequestList, RequestView};
use crate::view::ID_PREFIX_MIN_CHARS;
use crate::{BridgeService, Caller};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Ledger, Read, RowsError};
use bridge_core::requester::sent_by;
use bridge_core::step::{Authority, Decide, DecideOutcome, DecideRefusal};
use bridge_core::value::{
    DecidedBy, Message, Request, RequestDecision, RequestId, RequestKind, RequestVerdict,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Questions on a page for those who name no number.
const PAGE_DEFAULT: u32 = 50;
/// The channel whose conversations are tasks.
const TASKS: &str = "task";

/// Which questions.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Which {
    /// Those that somebody may decide.
    #[default]
    Open,
    /// All of them.
    All,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// `open` for those that somebody may decide, `all` for all.
    #[serde(default)]
    state: Which,
    /// How many, at most.
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    before: Option<String>,
}

pub(super) async fn list<D: BridgeService>(
    State(context): State<Context<D>>,
    Params(page): Params<Page>,
) -> Result<Json<RequestList>, ProblemResponse> {
    let limit = page.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let before = page.before.map(RequestId::new);
    let waiting = match page.state {
        Which::Open => true,
        Which::All => false,
    };
    let ledger = context.service.ledger();
    let found = ledger.read(move |rows| page_of(rows, waiting, before.as_ref(), limit));
    Ok(Json(found.await?))
}

fn page_of(
    rows: &dyn Read,
    waiting: bool,
    before: Option<&RequestId>,
    limit: u32,
) -> Result<RequestList, RowsError> {
    let found = rows.newest_requests(waiting, before, limit)?;
    // A whole page may be the last one too; then the next one is empty.
    let more = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let next = found.last().filter(|_| more);
    let next = next.map(|last| last.request_id.to_string());
    let requests = found
        .iter()
        .map(|request| entry(rows, request, RequestView::new))
        .collect::<Result<_, _>>()?;
    Ok(RequestList { requests, next })
}

fn entry(
    rows: &dyn Read,
    asked: &Request,
    view: impl Fn(&Request, Option<&Message>) -> RequestView,
) -> Result<RequestEntry, RowsError> {
    let message = rows.message(&asked.message_id)?;
    let conversation = match &message {
        Some(message) => rows.conversation(&message.conversation_id)?,
        None => None,
    };
    let conversation = conversation.map_or_else(String::new, |found| found.external_key);
    let request = view(asked, message.as_ref());
    let channel = message.map_or_else(String::new, |message| message.channel.to_string());
    Ok(RequestEntry {
        message_id: asked.message_id.to_string(),
        task_id: (channel == TASKS).then(|| conversation.clone()),
        channel,
        conversation,
        request,
    })
}

pub(super) async fn show<D: BridgeService>(
    State(context): State<Context<D>>,
    Path(id): Path<String>,
) -> Result<Json<RequestEntry>, ProblemResponse> {
    let request_id = find(&context.service, id).await?;
    Ok(Json(look(&context.service, request_id).await?))
}

async fn look<D: BridgeService>(
    service: &D,
    request_id: RequestId,
) -> Result<RequestEntry, ProblemResponse> {
    let id = request_id.clone();
    let found = service.ledger().read(move |rows| match rows.request(&id)? {
        Some(request) => entry(rows, &request, RequestView::whole).map(Some),
        None => Ok(None),
    });
    found.await?.ok_or_else(|| unknown(request_id.as_str()))
}

fn unknown(id: &str) -> ProblemResponse {
    ProblemResponse::not_found(format!("there is no question {id}"))
}

/// The question with this id, or the only one that waits and whose id begins so.
async fn find<D: BridgeService>(service: &D, id: String) -> Result<RequestId, ProblemResponse> {
    let named = id.clone();
    let found = service.ledger().read(move |rows| {
        let whole = RequestId::new(named.clone());
        if rows.request(&whole)?.is_some() || named.chars().count() < ID_PREFIX_MIN_CHARS {
            return Ok(vec![whole]);
        }
        let waiting = rows.newest_requests(true, None, PAGE_MAX)?;
        Ok(waiting
            .into_iter()
            .map(|request| request.request_id)
            .filter(|id| id.as_str().starts_with(&named))
            .collect())
    });
    let mut found = found.await?.into_iter();
    match (found.next(), found.next()) {
        (Some(request_id), None) => Ok(request_id),
        (Some(_), Some(_)) => Err(ProblemResponse::ambiguous(format!(
            "several questions begin with {id}: give more of the id"
        ))),
        (None, _) => Err(unknown(&id)),
    }
}

pub(super) async fn decide<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    Body(body): Body<DecisionRequest>,
) -> Result<Json<DecisionView>, ProblemResponse> {
    let Some(decision) = RequestDecision::from_word(&body.decision) else {
        let words: Vec<_> = RequestDecision::ALL.map(RequestDecision::as_str).into();
        let detail = format!("the decision must be one of {}", words.join(", "));
        return Err(ProblemResponse::bad_request(detail));
    };
    let found = find(&context.service, id).await;
    if decision.accepts() && !caller.may(Scope::Approve) {
        may_answer(&context.service, &caller, found.as_ref().ok()).await?;
    }
    let request_id = found?;
    let decide = Decide {
        request_id: request_id.clone(),
        verdict: RequestVerdict {
            decision,
            answers: body.answers.map(|answers| answers.to_string()),
            by: DecidedBy::Caller(caller.actor()),
            via: caller.via.as_str().to_owned(),
            at: context.service.now(),
        },
        authority: Authority::Owner,
    };
    let outcome = match context.service.decide(decide).await? {
        DecideOutcome::Applied => "applied",
        DecideOutcome::Granted => "granted",
        DecideOutcome::Refused(refusal) => return Err(refused(&refusal)),
    };
    Ok(Json(DecisionView {
        outcome: outcome.to_owned(),
        request: look(&context.service, request_id).await?,
    }))
}

/// To accept is a scope of its own: whoever may decline need not be trusted with the machine.
/// An answer to what Codex asks about their own work gives no rights, so they may give it.
async fn may_answer<D: BridgeService>(
    service: &D,
    caller: &Caller,
    request_id: Option<&RequestId>,
) -> Result<(), ProblemResponse> {
    let own = match request_id.cloned() {
        Some(id) => {
            let sender = service.ledger().read(move |rows| {
                let asked = rows.request(&id)?;
                let question = asked.filter(|asked| asked.kind == RequestKind::UserInput);
                match question {
                    Some(question) => rows.message(&question.message_id),
                    None => Ok(None),
                }
            });
            let message = sender.await?;
            message.is_some_and(|message| sent_by(&message, &caller.name))
        }
        None => false,
    };
    if own {
        Ok(())
    } else {
        Err(ProblemResponse::forbidden(
            "this token may decline what Codex asks, not accept it: make one with `--scope approve`",
        )
        .needing(Scope::Approve))
    }
}

fn refused(refusal: &DecideRefusal) -> ProblemResponse {
    let status = match refusal {
        DecideRefusal::Unknown => StatusCode::NOT_FOUND,
        DecideRefusal::Decided { .. }
        | DecideRefusal::Expired
        | DecideRefusal::Withdrawn { .. } => StatusCode::CONFLICT,
        DecideRefusal::NotYours { .. } => StatusCode::FORBIDDEN,
        DecideRefusal::Unfit { .. } => StatusCode::UNPROCESSABLE_ENTITY,
    };
    ProblemResponse::new(status, format!("the decision does not count: {refusal}"))
}
