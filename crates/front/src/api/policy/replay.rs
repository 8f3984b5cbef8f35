//! What the rules in force now would decide about what Codex asked lately, beside what was decided.

use crate::api::extract::{PAGE_DEFAULT, PageQuery, Params};
use crate::api::{Context, ProblemResponse};
use crate::{BridgeService, PolicyInForce, Time};
use axum::Json;
use axum::extract::State;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Read, RowsError, readable};
use bridge_core::rules::{RULE, RuleDecision, RuleQuery};
use bridge_core::value::{
    Message, Request, RequestDecision, RequestId, RequestKind, RequestVerdict, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DAYS_DEFAULT: u32 = 7;
const DAYS_MAX: u32 = 90;
const DAY_MS: i64 = 24 * 3_600_000;
/// Requests that are in memory at a time; one may show a whole diff.
const CHUNK: u32 = 20;

/// Answer to `GET /v1/policy/replay`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplayList {
    /// Since when.
    pub since: Time,
    /// What Codex asked since then, newest first.
    pub requests: Vec<ReplayEntry>,
    /// What to give as `before` for the next page; absent on the last one.
    pub next: Option<String>,
}

/// One request under the rules in force now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplayEntry {
    pub request_id: String,
    /// The message whose turn asked.
    pub message_id: String,
    pub channel: String,
    pub sender: String,
    pub tier: String,
    pub kind: String,
    /// One line for people.
    pub headline: String,
    /// When it was asked.
    pub created_at: Time,
    /// `allow`, `ask` or `deny`: what was done when it was asked.
    pub then: String,
    /// What was decided; absent while nobody has decided, and when it was withdrawn.
    pub decision: Option<String>,
    /// Who decided.
    pub by: Option<String>,
    /// From where: a surface, a rule, the deadline or a grant.
    pub via: Option<String>,
    /// `allow`, `ask` or `deny`: what the rules in force now say. Absent where what they look at was too long to be kept.
    pub now: Option<String>,
    /// Who would decide a request: `owner` or `sender`.
    pub who: Option<String>,
    /// The rule that would decide.
    pub rule: Option<String>,
    /// The same in a sentence.
    pub why: String,
    /// Whether `now` is another than `then`.
    pub differs: bool,
}

/// How far back, and which page.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayParams {
    /// Requests of so many days; 7 when absent.
    #[schemars(range(min = 1, max = DAYS_MAX))]
    days: Option<u32>,
    /// How many, at most; 50 when absent.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<u32>,
    /// Older than this one: the `next` of the page before.
    before: Option<String>,
}

/// What was done when it was asked: the rules' own decision, or somebody was asked.
fn ruled(request: &Request) -> RuleDecision {
    let nobody_can = matches!(request.kind, RequestKind::ToolCall | RequestKind::Other(_));
    let at_once = |verdict: &&RequestVerdict| {
        verdict.is_own() && (nobody_can || verdict.via.starts_with(RULE))
    };
    match request
        .state
        .verdict()
        .filter(at_once)
        .map(|own| own.decision)
    {
        None => RuleDecision::Ask,
        Some(RequestDecision::Accept | RequestDecision::AcceptForSession) => RuleDecision::Allow,
        Some(RequestDecision::Decline | RequestDecision::Cancel) => RuleDecision::Deny,
    }
}

impl ReplayEntry {
    fn new(policy: &PolicyInForce, request: Request, message: Message) -> Self {
        let judged = request.effect.as_ref().map(|effect| {
            policy.policy.judge(RuleQuery {
                tier: message.tier,
                kind: &request.kind,
                effect,
            })
        });
        let then = ruled(&request);
        let verdict = request.state.verdict();
        let unknown = "what the rules look at was too long to be kept";
        Self {
            message_id: request.message_id.to_string(),
            channel: message.channel.to_string(),
            sender: message.sender,
            tier: message.tier.as_str().to_owned(),
            kind: request.kind.as_str().to_owned(),
            headline: request.headline.clone(),
            created_at: request.created_at.into(),
            then: then.as_str().to_owned(),
            decision: verdict.map(|verdict| verdict.decision.as_str().to_owned()),
            by: verdict.map(|verdict| verdict.by.to_string()),
            via: verdict.map(|verdict| verdict.via.clone()),
            now: judged.as_ref().map(|now| now.ruling.as_str().to_owned()),
            who: judged
                .as_ref()
                .filter(|now| now.ruling == RuleDecision::Ask)
                .map(|now| now.who.as_str().to_owned()),
            differs: judged.as_ref().is_some_and(|now| now.ruling != then),
            why: judged
                .as_ref()
                .map_or_else(|| unknown.to_owned(), |now| now.why.clone()),
            rule: judged.and_then(|now| now.because),
            request_id: request.request_id.to_string(),
        }
    }
}

pub(crate) async fn replay<D: BridgeService>(
    State(Context { service, .. }): State<Context<D>>,
    Params(params): Params<ReplayParams>,
) -> Result<Json<ReplayList>, ProblemResponse> {
    let days = params.days.unwrap_or(DAYS_DEFAULT).clamp(1, DAYS_MAX);
    let since = service
        .now()
        .plus_ms(i64::from(days).saturating_mul(-DAY_MS));
    let limit = params.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX);
    let before = params.before.map(RequestId::new);
    let policy = service.policy();
    let found = service.read(move |rows| page(rows, &policy, since, before, limit));
    Ok(Json(found.await?))
}

fn page(
    rows: &dyn Read,
    policy: &PolicyInForce,
    since: Timestamp,
    mut before: Option<RequestId>,
    limit: u32,
) -> Result<ReplayList, RowsError> {
    let wanted = limit as usize;
    let mut requests: Vec<ReplayEntry> = Vec::new();
    let mut is_over = false;
    while !is_over && requests.len() < wanted {
        let rest = wanted.saturating_sub(requests.len());
        let size = u32::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
        let chunk = rows.newest_requests(false, before.as_ref(), size)?;
        is_over = chunk.len() < size as usize;
        for request in chunk {
            if request.created_at < since {
                is_over = true;
                break;
            }
            before = Some(request.request_id.clone());
            let message = readable(rows.message(&request.message_id))?.flatten();
            requests.extend(message.map(|message| ReplayEntry::new(policy, request, message)));
        }
    }
    let next = PageQuery::next(&requests, limit, |last| last.request_id.clone());
    Ok(ReplayList {
        since: since.into(),
        requests,
        next: next.filter(|_| !is_over),
    })
}
