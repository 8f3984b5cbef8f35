//! Turns a message to a task that waits for an answer into the decision, if it fits.
//!
//! The core decides who may answer; a peer may answer only questions to the user. Secret answers are not stored in the
//! history.

use super::error::A2aError;
use super::parse::{ParsedMessage, to_stored};
use crate::{BridgeService, Caller, NewAnswer, SubmitError};
use a2a::{Message, Part, PartContent};
use bridge_core::step::{DecideOutcome, DecideRefusal, TaskAnswered};
use bridge_core::task::{TaskMessage, TaskSnapshot};
use bridge_core::value::{Request, RequestDecision, RequestState, TaskInput, TaskInputKind};
use serde_json::{Map, Value};

/// Replaces a secret answer in the history.
const NOT_KEPT: &str = "(an answer that is not kept)";
/// Fields of a data part: the request, the decision, and the answers.
const REQUEST_ID: &str = "requestId";
const DECISION: &str = "decision";
const ANSWERS: &str = "answers";
const NAMED: [&str; 3] = [REQUEST_ID, DECISION, ANSWERS];

/// Result of using a message as an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerResult {
    /// Not an answer: there is no request that its sender may decide, or it repeats an earlier message.
    NotAsked,
    /// Accepted; Codex has it, or gets it when it asks again.
    Yes,
    /// Refused; nothing was stored, and the task still waits.
    No {
        /// Why, and what would fit.
        why: String,
    },
}

/// Answers the open request of a task with a message of its owner. `key` identifies a repeated message.
pub(crate) async fn answer<D: BridgeService>(
    service: &D,
    caller: &Caller,
    view: &TaskSnapshot,
    parsed: &ParsedMessage,
    key: Option<&str>,
) -> Result<AnswerResult, A2aError> {
    if let Some(key) = key
        && let Some(word) = service
            .repeated_input(caller, &view.task.task_id, key)
            .await?
    {
        return repeated(&word, parsed);
    }
    let Some(asked) = view.question().filter(|asked| asked.theirs) else {
        return unasked(service, caller, view, parsed).await;
    };
    let request = asked.request;
    let said = match ParsedAnswer::read(request, parsed) {
        Ok(said) => said,
        Err(why) => return Ok(AnswerResult::No { why }),
    };
    let answer = NewAnswer {
        from: caller.clone(),
        task_id: view.task.task_id.clone(),
        conversation_id: view.task.conversation_id.clone(),
        request_id: request.request_id.clone(),
        decision: said.decision,
        answers: said.answers.map(|answers| answers.to_string()),
        client_message_id: parsed.client_message_id.clone(),
        key: key.map(str::to_owned),
        original: kept(request, parsed)?,
    };
    match service.answer_task(answer).await? {
        TaskAnswered::Known(word) => repeated(&word, parsed),
        TaskAnswered::Judged(DecideOutcome::Applied | DecideOutcome::Granted) => {
            Ok(AnswerResult::Yes)
        }
        TaskAnswered::Judged(DecideOutcome::Refused(refusal)) => refused(refusal, request, parsed),
    }
}

/// Handles an answer that the core refused.
fn refused(
    refusal: DecideRefusal,
    request: &Request,
    parsed: &ParsedMessage,
) -> Result<AnswerResult, A2aError> {
    match refusal {
        DecideRefusal::Unfit { why } => Ok(AnswerResult::No { why }),
        DecideRefusal::NotYours { who } => Err(A2aError::unsupported(format!(
            "only {who} may decide what is asked; nothing was stored"
        ))),
        // Somebody was faster, or the request is gone: the message goes to the next turn, unless it can only have been an
        // answer.
        DecideRefusal::Decided { .. }
        | DecideRefusal::NotShown
        | DecideRefusal::Expired
        | DecideRefusal::Withdrawn { .. }
        | DecideRefusal::Unknown => {
            if request.secret_answer || is_decision(parsed) {
                Err(late())
            } else {
                Ok(AnswerResult::NotAsked)
            }
        }
    }
}

/// A repeated key must carry the same answer. Repeats of messages are checked by the ledger, which has their text.
fn repeated(word: &TaskInput, parsed: &ParsedMessage) -> Result<AnswerResult, A2aError> {
    match word.kind {
        TaskInputKind::Message(_) | TaskInputKind::End => Ok(AnswerResult::NotAsked),
        TaskInputKind::Answer(_) => {
            if says_the_same(word, parsed) {
                Ok(AnswerResult::Yes)
            } else {
                Err(SubmitError::OtherBody.into())
            }
        }
    }
}

fn says_the_same(word: &TaskInput, parsed: &ParsedMessage) -> bool {
    let Ok(before) = serde_json::from_str::<Message>(&word.original) else {
        return true;
    };
    before.parts == parsed.message.parts || before.parts == not_kept()
}

/// Without an open request the message is an ordinary one, unless it answers an earlier request.
async fn unasked<D: BridgeService>(
    service: &D,
    caller: &Caller,
    view: &TaskSnapshot,
    parsed: &ParsedMessage,
) -> Result<AnswerResult, A2aError> {
    if view.now().state.terminal() {
        return Ok(AnswerResult::NotAsked);
    }
    if is_decision(parsed) {
        return Err(late());
    }
    let open = |one: &&TaskMessage| one.message.life.state.name().awaits_answer();
    let open = view.messages.iter().filter(open);
    let open = open.map(|one| (one.message.message_id.clone(), one.message.tier));
    let open: Vec<_> = open.collect();
    let read = service.read(move |rows| {
        let mut theirs = Vec::new();
        for (id, tier) in &open {
            let asked = rows.requests(id)?.into_iter();
            theirs.extend(asked.filter(|request| request.sender_may(*tier)));
        }
        Ok(theirs)
    });
    let theirs = read.await?;
    if theirs.last().is_some_and(|last| missed(last, &caller.name)) {
        Err(late())
    } else {
        Ok(AnswerResult::NotAsked)
    }
}

/// Whether an earlier request wanted a secret that the sender did not give: this message may contain it.
fn missed(request: &Request, who: &str) -> bool {
    let answered = match &request.state {
        RequestState::Decided(verdict) | RequestState::Granted(verdict) => {
            verdict.by.is_caller(who)
        }
        RequestState::Open | RequestState::Orphaned | RequestState::Withdrawn { .. } => false,
    };
    request.secret_answer && !answered
}

fn late() -> A2aError {
    A2aError::unsupported(
        "Codex does not ask that any more, or not you; nothing was stored. What is no answer goes into a new task of \
         the same context",
    )
}

/// Whether the message can only be an answer.
fn is_decision(parsed: &ParsedMessage) -> bool {
    parsed.message.parts.iter().filter_map(object).any(|data| {
        let named = data.keys().all(|name| NAMED.contains(&name.as_str()));
        named && (data.contains_key(REQUEST_ID) || data.contains_key(DECISION))
    })
}

fn not_kept() -> Vec<Part> {
    vec![Part::text(NOT_KEPT)]
}

/// The stored form of the message.
fn kept(request: &Request, parsed: &ParsedMessage) -> Result<String, A2aError> {
    if !request.secret_answer {
        return parsed.original();
    }
    let mut message = parsed.message.clone();
    message.parts = not_kept();
    message.metadata = None;
    to_stored(&message)
}

/// The decision in a message.
#[derive(Debug, PartialEq)]
struct ParsedAnswer {
    decision: RequestDecision,
    answers: Option<Value>,
}

impl ParsedAnswer {
    /// A data part is `{"requestId", "decision", "answers"}`, each optional, or the answers alone. Text answers one
    /// question, and is never an approval.
    fn read(request: &Request, parsed: &ParsedMessage) -> Result<Self, String> {
        if !parsed.files.is_empty() {
            return Err("an answer takes no files".to_owned());
        }
        let mut data = parsed.message.parts.iter().filter_map(object);
        match (data.next(), data.next()) {
            (Some(data), None) => Self::in_full(request, data),
            (None, _) => Self::in_words(request, parsed),
            (Some(_), Some(_)) => Err("it has two data parts; put the answers into one".to_owned()),
        }
    }

    fn in_full(request: &Request, data: &Map<String, Value>) -> Result<Self, String> {
        if let Some(id) = data.get(REQUEST_ID)
            && id.as_str() != Some(request.request_id.as_str())
        {
            return Err(format!(
                "`{REQUEST_ID}` names another question than the one that is asked now, {}",
                request.request_id
            ));
        }
        let decision = match data.get(DECISION) {
            None => None,
            Some(word) => Some(
                word.as_str()
                    .and_then(|word| word.parse().ok())
                    .ok_or_else(|| unknown_decision(word))?,
            ),
        };
        let whole = NAMED.iter().all(|name| !data.contains_key(*name));
        let answers = if whole {
            Some(Value::Object(data.clone()))
        } else {
            data.get(ANSWERS).cloned()
        };
        if decision.is_none() && request.wants.is_bare() {
            return Err(wants_decision());
        }
        Ok(Self {
            decision: decision.unwrap_or(RequestDecision::Accept),
            answers,
        })
    }

    fn in_words(request: &Request, parsed: &ParsedMessage) -> Result<Self, String> {
        if request.wants.is_bare() {
            Err(wants_decision())
        } else {
            Ok(Self {
                decision: RequestDecision::Accept,
                answers: Some(Value::String(parsed.text.trim().to_owned())),
            })
        }
    }
}

fn object(part: &Part) -> Option<&Map<String, Value>> {
    match &part.content {
        PartContent::Data(data) => data.as_object(),
        PartContent::Text(_) | PartContent::Url(_) | PartContent::Raw(_) => None,
    }
}

fn wants_decision() -> String {
    let words = RequestDecision::ALL.map(RequestDecision::as_str).join(", ");
    format!("it takes a decision and no text: a data part with `{DECISION}`, one of {words}")
}

fn unknown_decision(word: &Value) -> String {
    let words = RequestDecision::ALL.map(RequestDecision::as_str).join(", ");
    format!("{word} is no decision; there are {words}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::parse::parse;
    use bridge_core::value::{
        Deciders, EffectDigest, IncarnationId, MessageId, RequestId, RequestKind, Timestamp, Wants,
    };
    use serde_json::json;

    fn request(wants: Wants) -> Request {
        let kind = RequestKind::UserInput;
        Request {
            request_id: RequestId::new("r1"),
            message_id: MessageId::new("m1"),
            attempt: 1,
            incarnation: IncarnationId::new("i"),
            rpc_id: "0".to_owned(),
            item_id: None,
            method: "item/tool/requestUserInput".to_owned(),
            digest: EffectDigest::of(&kind, ""),
            kind,
            headline: "asks".to_owned(),
            shown: String::new(),
            payload: json!({"questions": [{"id": "color", "isSecret": false}]}).to_string(),
            wants,
            secret_answer: false,
            deciders: Deciders::Sender,
            state: RequestState::Open,
            created_at: Timestamp(0),
            deadline: Timestamp(1),
            effect: None,
            reminded: false,
            resends: 0,
        }
    }

    fn parsed(parts: Value) -> ParsedMessage {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": parts});
        parse(serde_json::from_value(message).unwrap()).unwrap()
    }

    fn read(wants: Wants, parts: Value) -> Result<(RequestDecision, Option<Value>), String> {
        let said = ParsedAnswer::read(&request(wants), &parsed(parts))?;
        Ok((said.decision, said.answers))
    }

    #[test]
    fn an_answer_is_text_or_data() {
        let accept = RequestDecision::Accept;
        let answers = json!({"color": "Red"});
        for (parts, says) in [
            (json!([{"text": " Red\n"}]), json!("Red")),
            (json!([{"data": answers}]), answers.clone()),
            (json!([{"data": {"answers": answers}}]), answers.clone()),
            (
                json!([{"text": "here"}, {"data": {"requestId": "r1", "answers": answers}}]),
                answers.clone(),
            ),
        ] {
            assert_eq!(
                read(Wants::Text, parts.clone()),
                Ok((accept, Some(says))),
                "{parts}"
            );
        }
        let declined = read(Wants::Form, json!([{"data": {"decision": "decline"}}]));
        assert_eq!(declined, Ok((RequestDecision::Decline, None)));
    }

    #[test]
    fn what_does_not_fit_says_what_would() {
        for (parts, says) in [
            (json!([{"data": {"requestId": "r2", "answers": {}}}]), "r1"),
            (json!([{"data": {"decision": "yes"}}]), "acceptForSession"),
            (json!([{"text": "a"}, {"raw": "aGk="}]), "no files"),
            (json!([{"data": {"a": 1}}, {"data": {"b": 1}}]), "into one"),
        ] {
            let why = read(Wants::Form, parts.clone()).unwrap_err();
            assert!(why.contains(says), "{parts}: {why}");
        }
    }

    #[test]
    fn no_text_is_a_yes() {
        for parts in [
            json!([{"text": "accept"}]),
            json!([{"text": "yes, approve it"}]),
            json!([{"data": {"answers": "accept"}}]),
        ] {
            let why = read(Wants::Approval, parts.clone()).unwrap_err();
            assert!(why.contains("decision"), "{parts}: {why}");
        }
        let said = read(Wants::Approval, json!([{"data": {"decision": "accept"}}]));
        assert_eq!(said, Ok((RequestDecision::Accept, None)));
    }

    #[test]
    fn a_secret_answer_is_in_no_history() {
        let said = parsed(json!([{"text": "hunter2"}]));
        let open = kept(&request(Wants::Text), &said).unwrap();
        assert!(open.contains("hunter2"));
        let secret = Request {
            secret_answer: true,
            ..request(Wants::Text)
        };
        let text = kept(&secret, &said).unwrap();
        assert!(
            !text.contains("hunter2") && text.contains(NOT_KEPT),
            "{text}"
        );
    }
}
