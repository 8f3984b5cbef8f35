//! A message on a task that waits for an answer to a question of Codex: it becomes the decision, if it fits.
//!
//! Who may decide what is the core's word; a peer answers questions to the user and nothing else. What may not be kept
//! is not in the history either.

use super::fault::Fault;
use super::hear::Heard;
use super::task;
use crate::request::wants_secret;
use crate::{Caller, Desk, Via};
use a2a::{Part, PartContent};
use bridge_core::errand::{ErrandMessage, ErrandView};
use bridge_core::step::{AnswerErrand, Authority, Decide, DecideOutcome, DecideRefusal};
use bridge_core::value::{Became, Request, RequestDecision, RequestVerdict};
use serde_json::{Map, Value};

/// Stands in the history for an answer that may not be kept.
const NOT_KEPT: &str = "(an answer that is not kept)";
/// What says which question a data part answers, how it is decided, and with what.
const REQUEST_ID: &str = "requestId";
const DECISION: &str = "decision";
const ANSWERS: &str = "answers";

/// What a message was to the question that its task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Nothing is asked that its sender may answer: it is an ordinary message.
    NotAsked,
    /// Codex has it, or gets it when it asks again.
    Yes,
    /// It does not fit; nothing was stored, and the task still waits.
    No {
        /// Why, and what would.
        why: String,
    },
}

/// Answers the question that a task waits for with a message of its owner; `keyed` where a repeat is to be known again.
pub(crate) async fn answer<D: Desk>(
    desk: &D,
    caller: &Caller,
    view: &ErrandView,
    heard: &Heard,
    keyed: bool,
) -> Result<Answered, Fault> {
    if keyed && answered_before(view, heard) {
        return Ok(Answered::Yes);
    }
    let Some((one, request)) = asked(view) else {
        return Ok(Answered::NotAsked);
    };
    let said = match Said::read(request, heard) {
        Ok(said) => said,
        Err(why) => return Ok(Answered::No { why }),
    };
    let answer = AnswerErrand {
        decide: Decide {
            request_id: request.request_id.clone(),
            verdict: RequestVerdict {
                decision: said.decision,
                answers: said.answers.map(|answers| answers.to_string()),
                by: caller.name.clone(),
                via: Via::A2a.word().to_owned(),
                at: desk.now(),
            },
            authority: Authority::Sender {
                conversation_id: view.errand.conversation_id.clone(),
                sender: caller.name.clone(),
                tier: one.message.tier,
            },
        },
        errand_id: view.errand.errand_id.clone(),
        said_as: heard.said_as.clone(),
        original: kept(request, heard)?,
    };
    Ok(match desk.answer_errand(answer).await? {
        DecideOutcome::Applied | DecideOutcome::Granted => Answered::Yes,
        DecideOutcome::Refused(refusal) => match refusal {
            DecideRefusal::Unfit { why } => Answered::No { why },
            // Somebody was faster, or it is not asked any more: what was said is for the turn that follows.
            DecideRefusal::Decided { .. }
            | DecideRefusal::Expired
            | DecideRefusal::Withdrawn { .. }
            | DecideRefusal::Unknown
            | DecideRefusal::NotYours { .. } => Answered::NotAsked,
        },
    })
}

/// The question that the task's owner may answer, with its message.
fn asked(view: &ErrandView) -> Option<(&ErrandMessage, &Request)> {
    let request = task::question(view)?;
    let of = |one: &&ErrandMessage| one.message.message_id == request.message_id;
    Some((view.messages.iter().find(of)?, request))
}

/// Whoever wants repeats to be known again may answer twice; the question is gone after the first time.
fn answered_before(view: &ErrandView, heard: &Heard) -> bool {
    view.words.iter().any(|word| match word.became {
        Became::Decision(_) => word.said_as == heard.said_as,
        Became::Message(_) | Became::Stop => false,
    })
}

/// The message as it is kept.
fn kept(request: &Request, heard: &Heard) -> Result<String, Fault> {
    if !wants_secret(request) {
        return heard.original();
    }
    let mut message = heard.message.clone();
    message.parts = vec![Part::text(NOT_KEPT)];
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
        let named = [REQUEST_ID, DECISION, ANSWERS];
        let whole = named.iter().all(|name| !data.contains_key(*name));
        let answers = match whole {
            true => Some(Value::Object(data.clone())),
            false => data.get(ANSWERS).cloned(),
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
        match request.wants.is_bare() {
            true => Err(wants_decision()),
            false => Ok(Self {
                decision: RequestDecision::Accept,
                answers: Some(Value::String(heard.text.trim().to_owned())),
            }),
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
    let words = RequestDecision::ALL.map(RequestDecision::word).join(", ");
    format!("it takes a decision and no text: a data part with `{DECISION}`, one of {words}")
}

fn unknown_decision(word: &Value) -> String {
    let words = RequestDecision::ALL.map(RequestDecision::word).join(", ");
    format!("{word} is no decision; there are {words}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::hear::hear;
    use bridge_core::value::{
        Deciders, EffectDigest, IncarnationId, MessageId, RequestId, RequestKind, RequestState,
        Timestamp, Wants,
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
