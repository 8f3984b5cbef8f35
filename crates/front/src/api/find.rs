//! What a reference names: candidates among messages and tasks, for every command that takes an id.

use super::extract::{Params, Who};
use super::operator::first_line;
use super::{Context, ProblemResponse};
use crate::{BridgeService, Caller};
use axum::Json;
use axum::extract::State;
use bridge_core::find::{Found, Scan, find, short_id};
use bridge_core::limits::CONVERSATION_KEY_MAX_CHARS;
use bridge_core::phase::Phase;
use bridge_core::port::{Ledger, Read, RowsError, readable};
use bridge_core::task::{TaskMessage, phase};
use bridge_core::value::{Message, Task};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Newest messages of a task that say where it is.
const MESSAGES_LOOKED_AT: u32 = 50;

/// What is looked for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindQuery {
    /// An id of a message or a task, its end or its beginning (4 characters or more), `last` for the caller's newest
    /// message or task, or the key of a conversation for its newest one.
    #[serde(rename = "ref")]
    #[schemars(length(min = 1, max = CONVERSATION_KEY_MAX_CHARS))]
    reference: String,
}

/// Answer to `GET /v1/find`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FoundView {
    /// None where nothing is meant, one where it is clear, several where somebody must choose; at most 20.
    pub candidates: Vec<CandidateView>,
}

/// Something that may be meant.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CandidateView {
    /// `message` or `task`.
    pub kind: String,
    /// Its whole id.
    pub id: String,
    /// The id that people are shown: the last 8 characters of a message's, a task's as it is.
    pub short_id: String,
    /// The conversation's key.
    pub conversation: String,
    /// `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`.
    pub phase: String,
    /// The first line of its text.
    pub text: String,
}

pub(super) async fn show<D: BridgeService>(
    State(context): State<Context<D>>,
    Who(caller): Who,
    Params(query): Params<FindQuery>,
) -> Result<Json<FoundView>, ProblemResponse> {
    let reference = query.reference;
    if reference.chars().nth(CONVERSATION_KEY_MAX_CHARS).is_some() {
        return Err(ProblemResponse::bad_request(format!(
            "a reference has at most {CONVERSATION_KEY_MAX_CHARS} characters"
        )));
    }
    let found = context
        .service
        .ledger()
        .read(move |rows| candidates(rows, &reference, &caller))
        .await?;
    Ok(Json(found))
}

/// A member of the group is shown their own messages alone.
fn candidates(rows: &dyn Read, reference: &str, caller: &Caller) -> Result<FoundView, RowsError> {
    let named = caller.conversations(rows, reference)?;
    let scan = if caller.is_member() {
        Scan::Own
    } else {
        Scan::All
    };
    let all = find(rows, reference, named, &caller.name, scan)?;
    let mut candidates = Vec::new();
    let only = all.len() == 1;
    for found in all {
        let candidate = candidate(rows, found, caller);
        // Of several the others are shown; who names one reads that it can't be read.
        candidates.extend(if only {
            candidate?
        } else {
            readable(candidate)?.flatten()
        });
    }
    Ok(FoundView { candidates })
}

/// What is shown of it, if this caller may know of it.
fn candidate(
    rows: &dyn Read,
    found: Found,
    caller: &Caller,
) -> Result<Option<CandidateView>, RowsError> {
    match found {
        Found::Message(id) => {
            let seen = rows.message(&id)?.filter(|message| caller.sees(message));
            seen.map(|message| of_message(rows, &message)).transpose()
        }
        Found::Task(id) => {
            let seen = rows.task(&id)?.filter(|_| !caller.is_member());
            seen.map(|task| of_task(rows, &task)).transpose()
        }
    }
}

fn of_message(rows: &dyn Read, message: &Message) -> Result<CandidateView, RowsError> {
    let conversation = rows.conversation(&message.conversation_id)?;
    Ok(CandidateView {
        kind: "message".to_owned(),
        id: message.message_id.to_string(),
        short_id: short_id(&message.message_id).to_owned(),
        conversation: conversation.map_or_else(String::new, |one| one.external_key),
        phase: message_phase(rows, message)?.as_str().to_owned(),
        text: first_line(&message.body),
    })
}

fn of_task(rows: &dyn Read, task: &Task) -> Result<CandidateView, RowsError> {
    let conversation = rows.conversation(&task.conversation_id)?;
    let mut messages = rows.last_messages(&task.conversation_id, MESSAGES_LOOKED_AT)?;
    messages.reverse();
    let messages = messages
        .into_iter()
        .map(|message| TaskMessage::load(rows, message))
        .collect::<Result<Vec<_>, _>>()?;
    let start = task.start.as_ref();
    Ok(CandidateView {
        kind: "task".to_owned(),
        id: task.task_id.to_string(),
        short_id: task.task_id.to_string(),
        conversation: conversation.map_or_else(String::new, |one| one.external_key),
        phase: phase(&messages).as_str().to_owned(),
        text: start.map_or_else(String::new, |start| first_line(&start.prompt_summary)),
    })
}

/// The phase of one message with what Codex asks for it.
pub(super) fn message_phase(rows: &dyn Read, message: &Message) -> Result<Phase, RowsError> {
    let asked = if message.life.state.name().awaits_answer() {
        let live = rows.live_requests(&message.message_id)?;
        live.iter().any(|request| request.state.waits())
    } else {
        false
    };
    Ok(Phase::of_message(message, asked))
}
