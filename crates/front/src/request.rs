//! What Codex asks, as JSON: all of the row but secrets. The names are stable: programs read them.

use bridge_core::requester::requester;
use bridge_core::value::{Message, Request, RequestState, RequestVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something Codex asked. What is decided about is told where it is still to be decided, and where one question is
/// looked at.
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
    /// Names what is decided about: the same effect has the same digest.
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
    /// When, in milliseconds since the epoch.
    pub decided_at: Option<i64>,
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
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// When silence becomes a decline, in milliseconds since the epoch.
    pub deadline: i64,
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
}

/// Answers may be secret, and are not for logs.
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
    /// `applied`, or `granted` when Codex is told as soon as it asks again.
    pub outcome: String,
    /// The question as it is now.
    #[serde(flatten)]
    pub request: RequestEntry,
}

impl RequestView {
    /// A question of the turn of `message`, which is gone when it was pruned meanwhile. What is decided about is told
    /// where it is still to be decided.
    #[must_use]
    pub fn new(request: &Request, message: Option<&Message>) -> Self {
        if request.state.waits() {
            Self::whole(request, message)
        } else {
            Self::brief(request, message)
        }
    }

    /// A question with all that is decided about.
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
            RequestState::Open
            | RequestState::Orphaned
            | RequestState::Granted(_)
            | RequestState::Withdrawn { .. } => request.state.as_str(),
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
            decided_at: verdict.map(|verdict| verdict.at.0),
            decision: verdict.map(|verdict| verdict.decision.as_str().to_owned()),
            answers: verdict.and_then(|verdict| told(request, verdict)),
            why: match &request.state {
                RequestState::Withdrawn { why } => Some(why.clone()),
                RequestState::Open
                | RequestState::Orphaned
                | RequestState::Decided(_)
                | RequestState::Granted(_) => None,
            },
            attempt: request.attempt,
            incarnation: request.incarnation.to_string(),
            item_id: request.item_id.as_ref().map(ToString::to_string),
            created_at: request.created_at.0,
            deadline: request.deadline.0,
        }
    }
}

fn told(request: &Request, verdict: &RequestVerdict) -> Option<Value> {
    let answers = verdict.answers.as_deref()?;
    if request.secret_answer {
        None
    } else {
        serde_json::from_str(answers).ok()
    }
}
