//! A message on a task that waits for an answer to a question of Codex: it becomes the decision, if it fits.
//!
//! Who may decide what is the core's word; a peer answers questions to the user and nothing else. What may not be kept
//! is not in the history either.

use super::fault::Fault;
use super::hear::Heard;
use crate::request::wants_secret;
use crate::{BridgeService, Caller, NewAnswer, SubmitError};
use a2a::{Message, Part, PartContent};
use bridge_core::port::Ledger;
use bridge_core::step::{DecideOutcome, DecideRefusal, TaskAnswered};
use bridge_core::task::{TaskMessage, TaskSnapshot};
use bridge_core::value::{Request, RequestDecision, RequestState, TaskInput, TaskInputKind};
use serde_json::{Map, Value};

/// Stands in the history for an answer that may not be kept.
const NOT_KEPT: &str = "(an answer that is not kept)";
/// What says which question a data part answers, how it is decided, and with what.
const REQUEST_ID: &str = "requestId";
const DECISION: &str = "decision";
const ANSWERS: &str = "answers";
const NAMED: [&str; 3] = [REQUEST_ID, DECISION, ANSWERS];

/// What a message was to the question that its task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Nothing is asked that its sender may answer: it is an ordinary message, or the repeat of one.
    NotAsked,
    /// Codex has it, or gets it when it asks again.
    Yes,
    /// It does not fit; nothing was stored, and the task still waits.
    No {
        /// Why, and what would.
        why: String,
    },
}

/// Answers the question that a task waits for with a message of its owner; under `key` a repeat is known again.
pub(crate) async fn answer<D: BridgeService>(
    service: &D,
    caller: &Caller,
    view: &TaskSnapshot,
    heard: &Heard,
    key: Option<&str>,
) -> Result<Answered, Fault> {
    if let Some(key) = key
        && let Some(word) = service
            .repeated_input(caller, &view.task.task_id, key)
            .await?
    {
        return repeated(&word, heard);
    }
    let Some(asked) = view.question().filter(|asked| asked.theirs) else {
        return unasked(service, caller, view, heard).await;
    };
    let request = asked.request;
    let said = match Said::read(request, heard) {
        Ok(said) => said,
        Err(why) => return Ok(Answered::No { why }),
    };
    let answer = NewAnswer {
        from: caller.clone(),
        task_id: view.task.task_id.clone(),
        conversation_id: view.task.conversation_id.clone(),
        request_id: request.request_id.clone(),
        decision: said.decision,
        answers: said.answers.map(|answers| answers.to_string()),
        client_message_id: heard.client_message_id.clone(),
        key: key.map(str::to_owned),
        original: kept(request, heard)?,
    };
    match service.answer_task(answer).await? {
        TaskAnswered::Known(word) => repeated(&word, heard),
        TaskAnswered::Judged(DecideOutcome::Applied | DecideOutcome::Granted) => Ok(Answered::Yes),
        TaskAnswered::Judged(DecideOutcome::Refused(refusal)) => refused(refusal, request, heard),
    }
}

/// What is to be made of an answer that does not count.
fn refused(refusal: DecideRefusal, request: &Request, heard: &Heard) -> Result<Answered, Fault> {
    match refusal {
        DecideRefusal::Unfit { why } => Ok(Answered::No { why }),
        DecideRefusal::NotYours { who } => Err(Fault::unsupported(format!(
            "only {who} may decide what is asked; nothing was stored"
        ))),
        // Somebody was faster, or it is not asked any more: what was said is for the turn that follows, unless it can
        // only have been an answer.
        DecideRefusal::Decided { .. }
        | DecideRefusal::Expired
        | DecideRefusal::Withdrawn { .. }
        | DecideRefusal::Unknown => {
            if wants_secret(request) || is_decision(heard) {
                Err(late())
            } else {
                Ok(Answered::NotAsked)
            }
        }
    }
}

/// A key that was here before must mean the same word. What became a message is told by the ledger, which has its text.
fn repeated(word: &TaskInput, heard: &Heard) -> Result<Answered, Fault> {
    match word.kind {
        TaskInputKind::Message(_) | TaskInputKind::End => Ok(Answered::NotAsked),
        TaskInputKind::Answer(_) => {
            if says_the_same(word, heard) {
                Ok(Answered::Yes)
            } else {
                Err(SubmitError::OtherBody.into())
            }
        }
    }
}

fn says_the_same(word: &TaskInput, heard: &Heard) -> bool {
    let Ok(before) = serde_json::from_str::<Message>(&word.original) else {
        return true;
    };
    before.parts == heard.message.parts || before.parts == not_kept()
}

/// What is said where nothing is asked of its sender is a message, unless it is the answer to what was asked before.
async fn unasked<D: BridgeService>(
    service: &D,
    caller: &Caller,
    view: &TaskSnapshot,
    heard: &Heard,
) -> Result<Answered, Fault> {
    if view.now().state.terminal() {
        return Ok(Answered::NotAsked);
    }
    if is_decision(heard) {
        return Err(late());
    }
    let open = |one: &&TaskMessage| one.message.life.state.name().awaits_answer();
    let open = view.messages.iter().filter(open);
    let open = open.map(|one| (one.message.message_id.clone(), one.message.tier));
    let open: Vec<_> = open.collect();
    let read = service.ledger().read(move |rows| {
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
        Ok(Answered::NotAsked)
    }
}

/// Whether a secret was asked for and did not come from them: what they say now may be it.
fn missed(request: &Request, who: &str) -> bool {
    let answered = match &request.state {
        RequestState::Decided(verdict) | RequestState::Granted(verdict) => {
            verdict.by.is_caller(who)
        }
        RequestState::Open | RequestState::Orphaned | RequestState::Withdrawn { .. } => false,
    };
    wants_secret(request) && !answered
}

fn late() -> Fault {
    Fault::unsupported(
        "Codex does not ask that any more, or not you; nothing was stored. What is no answer goes into a new task of \
         the same context",
    )
}

/// Whether it can be nothing but the answer to a question.
fn is_decision(heard: &Heard) -> bool {
    heard.message.parts.iter().filter_map(object).any(|data| {
        let named = data.keys().all(|name| NAMED.contains(&name.as_str()));
        named && (data.contains_key(REQUEST_ID) || data.contains_key(DECISION))
    })
}

fn not_kept() -> Vec<Part> {
    vec![Part::text(NOT_KEPT)]
}

/// The message as it is kept.
fn kept(request: &Request, heard: &Heard) -> Result<String, Fault> {
    if !wants_secret(request) {
        return heard.original();
    }
    let mut message = heard.message.clone();
    message.parts = not_kept();
    message.metadata = None;
    let text = serde_json::to_string(&message);
    text.map_err(|error| Fault::internal(format!("the message can't be kept: {error}")))
}

/// What a message says to a question.
#[derive(Debug, PartialEq)]
struct Said {
    decision: RequestDecision,
    answers: Option<Value>,
}

impl Said {
    /// Data says it in full: `{"requestId", "decision", "answers"}`, each of which may be left out, or the answers
    /// alone. Text is the answer to one question, and never a yes or no.
    fn read(request: &Request, heard: &Heard) -> Result<Self, String> {
        if !heard.files.is_empty() {
            return Err("an answer takes no files".to_owned());
        }
        let mut data = heard.message.parts.iter().filter_map(object);
        match (data.next(), data.next()) {
            (Some(data), None) => Self::in_full(request, data),
            (None, _) => Self::in_words(request, heard),
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
                    .and_then(RequestDecision::from_word)
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

    fn in_words(request: &Request, heard: &Heard) -> Result<Self, String> {
        if request.wants.is_bare() {
            Err(wants_decision())
        } else {
            Ok(Self {
                decision: RequestDecision::Accept,
                answers: Some(Value::String(heard.text.trim().to_owned())),
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
    use crate::a2a::hear::hear;
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
            deciders: Deciders::Sender,
            state: RequestState::Open,
            created_at: Timestamp(0),
            deadline: Timestamp(1),
            reminded: false,
            told_again: 0,
        }
    }

    fn heard(parts: Value) -> Heard {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": parts});
        hear(serde_json::from_value(message).unwrap()).unwrap()
    }

    fn read(wants: Wants, parts: Value) -> Result<(RequestDecision, Option<Value>), String> {
        let said = Said::read(&request(wants), &heard(parts))?;
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
        let said = heard(json!([{"text": "hunter2"}]));
        let open = kept(&request(Wants::Text), &said).unwrap();
        assert!(open.contains("hunter2"));
        let secret = Request {
            payload: json!({"questions": [{"id": "p", "isSecret": true}]}).to_string(),
            ..request(Wants::Text)
        };
        let text = kept(&secret, &said).unwrap();
        assert!(
            !text.contains("hunter2") && text.contains(NOT_KEPT),
            "{text}"
        );
    }
}
