//! Approval requests of Codex: their JSON form without secrets, the list, and the decision. Field names are stable.

use super::extract::{Body, PAGE_DEFAULT, PageQuery, Params, Who};
use super::{Context, ProblemResponse};
use crate::BridgeService;
use crate::Time;
use crate::control::{Caller, ControlError, Scope};
use crate::message_view::ID_PREFIX_MIN_CHARS;
use axum::Json;
use axum::extract::{Path, State};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Read, RowsError, readable};
use bridge_core::requester::requester;
use bridge_core::step::{Authority, Decide, DecideOutcome, DecideRefusal};
use bridge_core::value::{
    EffectDigest, Message, Request, RequestDecision, RequestId, RequestState, RequestVerdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An approval request of Codex. Contains the details while it is undecided, and when it is shown alone.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestView {
    /// Its outside id.
    pub request_id: String,
    /// What stands for it in a chat.
    pub code: String,
    /// Whose work it is about, for people: `you` for the local owner, else the sender, its channel and its tier.
    #[serde(default)]
    pub requester: String,
    /// Who sent the message whose turn asks, by the channel's authenticated name.
    #[serde(default)]
    pub sender: String,
    /// What that sender may do: `owner`, `peer` or `tool`.
    #[serde(default)]
    pub tier: String,
    /// Codex's own name for this kind of question.
    pub method: String,
    /// What kind of answer it needs.
    pub kind: String,
    /// One line for people.
    pub headline: String,
    /// All that is decided about, in plain lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// What Codex sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Names what is decided about: the same effect has the same digest, SHA-256 (hexadecimal) over `kind`, a zero byte
    /// and `shown`.
    pub digest: String,
    /// What an accept must say: `approval` and `visit` a bare yes, `text` one text, `form` answers by name.
    pub wants: String,
    /// `owner`, or `sender` for whoever sent the message as well.
    pub deciders: String,
    /// `open`, `orphaned` (Codex died while it asked), `granted` (decided since), `withdrawn`, or what was decided.
    pub state: String,
    /// Who decided.
    pub by: Option<String>,
    /// From where: a surface, a rule, the deadline or a grant.
    pub via: Option<String>,
    /// When.
    pub decided_at: Option<Time>,
    /// What was decided, also while it is only granted.
    pub decision: Option<String>,
    /// What it was answered with, unless that is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Value>,
    /// Why it is not asked any more.
    pub why: Option<String>,
    /// The attempt whose turn asks.
    pub attempt: u32,
    /// The life of Codex that asks.
    pub incarnation: String,
    /// The item it is about.
    pub item_id: Option<String>,
    /// When.
    pub created_at: Time,
    /// When silence becomes a decline.
    pub deadline: Time,
}

/// One question and whose it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestEntry {
    /// The message whose turn asks.
    pub message_id: String,
    /// The channel it came from.
    pub channel: String,
    /// The conversation's key: the id of a task on the channel `task`.
    pub conversation: String,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The question.
    #[serde(flatten)]
    pub request: RequestView,
}

/// Answer to `GET /v1/requests`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestList {
    /// Newest first.
    pub requests: Vec<RequestEntry>,
    /// What `before` must be for the next page; absent on the last one.
    pub next: Option<String>,
}

/// Body of `POST /v1/requests/{id}/decision`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// `accept`, `acceptForSession`, `decline` or `cancel`.
    pub decision: String,
    /// What questions and forms are answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Value>,
    /// The `digest` of the question that was shown: SHA-256 (hexadecimal) over `kind`, a zero byte and `shown`. A
    /// question with another digest is not decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Omits the answers, which may be secret.
impl std::fmt::Debug for DecisionRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecisionRequest")
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

/// Answer to `POST /v1/requests/{id}/decision`: the decision counts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DecisionView {
    /// `applied`, or `granted` when Codex gets it as soon as it asks again.
    pub outcome: String,
    /// The question as it is now.
    #[serde(flatten)]
    pub request: RequestEntry,
}

impl RequestView {
    /// A request of the turn of `message`, which is `None` if it was pruned. Contains the details while it is undecided.
    #[must_use]
    pub fn new(request: &Request, message: Option<&Message>) -> Self {
        if request.state.waits() {
            Self::whole(request, message)
        } else {
            Self::brief(request, message)
        }
    }

    /// A request with all details.
    #[must_use]
    pub fn whole(request: &Request, message: Option<&Message>) -> Self {
        Self {
            shown: Some(request.shown.clone()),
            payload: serde_json::from_str(&request.payload).ok(),
            ..Self::brief(request, message)
        }
    }

    fn brief(request: &Request, message: Option<&Message>) -> Self {
        let verdict = request.state.verdict();
        let state = match &request.state {
            RequestState::Decided(verdict) => verdict.decision.as_str(),
            _ => request.state.as_str(),
        };
        Self {
            request_id: request.request_id.to_string(),
            code: request.request_id.code().to_owned(),
            requester: message.map_or_else(String::new, requester),
            sender: message.map_or_else(String::new, |message| message.sender.clone()),
            tier: message.map_or_else(String::new, |message| message.tier.as_str().to_owned()),
            method: request.method.clone(),
            kind: request.kind.as_str().to_owned(),
            headline: request.headline.clone(),
            shown: None,
            payload: None,
            digest: request.digest.to_string(),
            wants: request.wants.as_str().to_owned(),
            deciders: request.deciders.as_str().to_owned(),
            state: state.to_owned(),
            by: verdict.map(|verdict| verdict.by.to_string()),
            via: verdict.map(|verdict| verdict.via.clone()),
            decided_at: verdict.map(|verdict| verdict.at.into()),
            decision: verdict.map(|verdict| verdict.decision.as_str().to_owned()),
            answers: verdict.and_then(|verdict| shown_answers(request, verdict)),
            why: match &request.state {
                RequestState::Withdrawn { why } => Some(why.clone()),
                _ => None,
            },
            attempt: request.attempt,
            incarnation: request.incarnation.to_string(),
            item_id: request.item_id.as_ref().map(ToString::to_string),
            created_at: request.created_at.into(),
            deadline: request.deadline.into(),
        }
    }
}

fn shown_answers(request: &Request, verdict: &RequestVerdict) -> Option<Value> {
    let answers = verdict.answers.as_deref()?;
    if request.secret_answer {
        None
    } else {
        serde_json::from_str(answers).ok()
    }
}

/// Channel whose conversations are tasks.
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
pub(super) struct RequestQuery {
    /// `open` for those that somebody may decide, `all` for all.
    #[serde(default)]
    state: Which,
    /// How many, at most.
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    before: Option<String>,
}

pub(super) async fn list<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(page): Params<RequestQuery>,
) -> Result<Json<RequestList>, ProblemResponse> {
    let limit = page.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let before = page.before.map(RequestId::new);
    let waiting = match page.state {
        Which::Open => true,
        Which::All => false,
    };
    let found = service.read(move |rows| page_of(rows, waiting, before.as_ref(), limit));
    Ok(Json(found.await?))
}

fn page_of(
    rows: &dyn Read,
    waiting: bool,
    before: Option<&RequestId>,
    limit: u32,
) -> Result<RequestList, RowsError> {
    let found = rows.newest_requests(waiting, before, limit)?;
    let next = PageQuery::next(&found, limit, |last| last.request_id.to_string());
    let mut requests = Vec::with_capacity(found.len());
    for request in &found {
        requests.extend(readable(entry(rows, request, RequestView::new))?);
    }
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
    State(Context { service, .. }): State<Context<D>>,
    Path(id): Path<String>,
) -> Result<Json<RequestEntry>, ProblemResponse> {
    let request_id = find(&service, id).await?;
    Ok(Json(look(&service, request_id).await?))
}

async fn look<D: BridgeService>(
    service: &D,
    request_id: RequestId,
) -> Result<RequestEntry, ProblemResponse> {
    let id = request_id.clone();
    let found = service.read(move |rows| match rows.request(&id)? {
        Some(request) => entry(rows, &request, RequestView::whole).map(Some),
        None => Ok(None),
    });
    found.await?.ok_or_else(|| unknown(request_id.as_str()))
}

fn unknown(id: &str) -> ProblemResponse {
    ProblemResponse::not_found(format!("there is no question {id}"))
}

/// Finds a request by its id, or an undecided one by an unambiguous prefix.
async fn find<D: BridgeService>(service: &D, id: String) -> Result<RequestId, ProblemResponse> {
    let named = id.clone();
    let found = service.read(move |rows| {
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
    State(Context { service, .. }): State<Context<D>>,
    Who(caller): Who,
    Path(id): Path<String>,
    Body(body): Body<DecisionRequest>,
) -> Result<Json<DecisionView>, ProblemResponse> {
    let Ok(decision) = body.decision.parse::<RequestDecision>() else {
        let words: Vec<_> = RequestDecision::ALL.map(RequestDecision::as_str).into();
        let detail = format!("the decision must be one of {}", words.join(", "));
        return Err(ProblemResponse::bad_request(detail));
    };
    let found = find(&service, id).await;
    if decision.accepts() && caller.authority() != Authority::Owner {
        let request_id = found.as_ref().ok().cloned();
        may_accept(&service, &caller, decision, request_id).await?;
    }
    let request_id = found?;
    let (answers, now) = (body.answers.as_ref(), service.now());
    let decide = Decide {
        digest: body.digest.map(EffectDigest::stored),
        ..caller.decide(request_id.clone(), decision, answers, now)
    };
    let outcome = match service.decide(decide).await? {
        DecideOutcome::Applied => "applied",
        DecideOutcome::Granted => "granted",
        DecideOutcome::Refused(refusal) => return Err(refused(&refusal)),
    };
    Ok(Json(DecisionView {
        outcome: outcome.to_owned(),
        request: look(&service, request_id).await?,
    }))
}

/// Refuses an accept for the lack of its scope before anything is said of the request.
async fn may_accept<D: BridgeService>(
    service: &D,
    caller: &Caller,
    decision: RequestDecision,
    request_id: Option<RequestId>,
) -> Result<(), ProblemResponse> {
    let asked = service.read(move |rows| {
        let request = match request_id {
            Some(id) => rows.request(&id)?,
            None => None,
        };
        let Some(request) = request else {
            return Ok(None);
        };
        let message = rows.message(&request.message_id)?;
        Ok(message.map(|message| (request, message)))
    });
    let asked = asked.await?;
    let allowed = asked.is_some_and(|(request, message)| {
        let checked = caller.authority().check(decision, &request, &message, None);
        checked.is_ok()
    });
    if allowed {
        return Ok(());
    }
    let needed = format!(
        "declining what Codex asks is allowed, accepting it is not: {}",
        caller.missing(Scope::Approve)
    );
    Err(ProblemResponse::forbidden(needed).needing(Scope::Approve))
}

fn refused(refusal: &DecideRefusal) -> ProblemResponse {
    let message = format!("the decision does not count: {refusal}");
    ControlError::new(refusal.into(), message).into()
}
