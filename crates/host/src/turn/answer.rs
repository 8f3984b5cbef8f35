//! A verdict in Codex's words: which answer a decision is for each kind of question, and when the turn must be
//! interrupted as well.
//!
//! | decision | commands, file changes | permissions | questions, forms | tools of MCP servers |
//! | --- | --- | --- | --- | --- |
//! | accept | this once | all or the part in the answers, for the turn | needs answers | this call |
//! | accept for session | the same again is not asked | for the session | does not fit | the same tool is not asked again |
//! | decline | the turn goes on | nothing is granted | no answer | the model hears no |
//! | cancel | Codex ends the turn | we interrupt the turn | we interrupt the turn | we interrupt the turn |

use bridge_codex::rpc::RawId;
use bridge_codex::wire::values::GrantScope;
use bridge_codex::wire::{RequestOutcome, ServerRequest};
use bridge_core::value::{Request, RequestDecision, RequestVerdict, TurnId};
use serde_json::Value;

/// How a request is answered.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestReply {
    /// Send this.
    Send(RequestOutcome),
    /// The turn is interrupted, which settles the question too. `fallback` is for a turn that has ended by itself.
    Interrupt {
        turn: TurnId,
        fallback: RequestOutcome,
    },
}

/// Reads a verdict; an error says why it does not fit.
pub(crate) fn reply(
    request: &ServerRequest,
    verdict: &RequestVerdict,
) -> Result<RequestReply, String> {
    let answers = match verdict.answers.as_deref() {
        Some(answers) if verdict.decision.accepts() => Some(
            serde_json::from_str::<Value>(answers)
                .map_err(|error| format!("the answers are not JSON ({error})"))?,
        ),
        Some(_) | None => None,
    };
    let answers = answers.as_ref().filter(|answers| !answers.is_null());
    Ok(match verdict.decision {
        RequestDecision::Accept => {
            RequestReply::Send(request.accept_with(answers, &GrantScope::Turn)?)
        }
        RequestDecision::AcceptForSession => {
            RequestReply::Send(request.accept_with(answers, &GrantScope::Session)?)
        }
        RequestDecision::Decline => RequestReply::Send(request.decline()),
        RequestDecision::Cancel if request.cancel_ends_turn() => {
            RequestReply::Send(request.cancel())
        }
        RequestDecision::Cancel => match request.turn_id() {
            Some(turn) => RequestReply::Interrupt {
                turn: turn.clone(),
                fallback: request.cancel(),
            },
            None => RequestReply::Send(request.cancel()),
        },
    })
}

/// Why a decision does not fit its request, as far as the stored request tells. A payload that was cut to fit its
/// column proves nothing: the request itself is checked again when Codex is answered.
pub fn answer_error(request: &Request, verdict: &RequestVerdict) -> Option<String> {
    if !verdict.decision.accepts() {
        return None;
    }
    let params: Value = serde_json::from_str(&request.payload).ok()?;
    let request = ServerRequest::parse(RawId::Integer(0), request.method.clone(), params);
    reply(&request, verdict).err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::{
        Deciders, EffectDigest, IncarnationId, MessageId, RequestId, RequestKind, RequestState,
        Timestamp, Wants,
    };
    use serde_json::json;

    fn request(method: &str, more: &Value) -> ServerRequest {
        let mut params = json!({"threadId": "t", "turnId": "u", "itemId": "i"});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        ServerRequest::parse(RawId::Integer(0), method.to_owned(), params)
    }

    fn verdict(decision: RequestDecision, answers: Option<&str>) -> RequestVerdict {
        RequestVerdict {
            decision,
            answers: answers.map(str::to_owned),
            by: bridge_core::value::DecidedBy::caller("ann"),
            via: "cli".to_owned(),
            at: Timestamp(0),
        }
    }

    fn questions() -> ServerRequest {
        let questions = json!([{"id": "q", "question": "?"}]);
        let asked = json!({"isBlocking": true, "questions": questions});
        request("item/tool/requestUserInput", &asked)
    }

    #[test]
    fn cancel_ends_the_turn_of_every_kind() {
        let cancel = verdict(RequestDecision::Cancel, None);
        let command = request("item/commandExecution/requestApproval", &json!({}));
        let said = RequestOutcome::Result(json!({"decision": "cancel"}));
        assert_eq!(reply(&command, &cancel), Ok(RequestReply::Send(said)));
        let asked = json!({"permissions": {}, "serverName": "s", "mode": "form"});
        for request in [
            questions(),
            request("item/permissions/requestApproval", &asked),
            request("mcpServer/elicitation/request", &asked),
        ] {
            let reply = reply(&request, &cancel).unwrap();
            let RequestReply::Interrupt { turn, .. } = reply else {
                panic!("{request:?}: {reply:?}");
            };
            assert_eq!(turn, TurnId::new("u"));
        }
    }

    #[test]
    fn unparsable_answers_are_rejected_unless_declined() {
        let accept = |answers| reply(&questions(), &verdict(RequestDecision::Accept, answers));
        assert!(accept(Some("{")).unwrap_err().contains("not JSON"));
        assert!(accept(Some("null")).is_err() && accept(None).is_err());
        let sent = RequestOutcome::Result(json!({"answers": {"q": {"answers": ["a"]}}}));
        assert_eq!(accept(Some("\"a\"")), Ok(RequestReply::Send(sent)));
        let no = reply(&questions(), &verdict(RequestDecision::Decline, Some("{")));
        assert_eq!(
            no,
            Ok(RequestReply::Send(RequestOutcome::Result(
                json!({"answers": {}})
            )))
        );
    }

    #[test]
    fn answers_are_validated_against_request() {
        let asked = Request {
            request_id: RequestId::new("r"),
            message_id: MessageId::new("m"),
            attempt: 1,
            incarnation: IncarnationId::new("i"),
            rpc_id: "0".to_owned(),
            item_id: None,
            method: "item/tool/requestUserInput".to_owned(),
            kind: RequestKind::UserInput,
            headline: "asks".to_owned(),
            shown: "asks".to_owned(),
            digest: EffectDigest::of(&RequestKind::UserInput, "asks"),
            payload: questions().params.to_string(),
            wants: Wants::Text,
            secret_answer: false,
            deciders: Deciders::Owner,
            state: RequestState::Open,
            created_at: Timestamp(0),
            deadline: Timestamp(1_000),
            effect: None,
            reminded: false,
            resends: 0,
        };
        let accept = |answers| answer_error(&asked, &verdict(RequestDecision::Accept, answers));
        assert_eq!(accept(Some(r#"{"q": "red"}"#)), None);
        assert_eq!(accept(Some(r#""red""#)), None);
        for answers in [None, Some("{"), Some("null"), Some(r#"{"other": "red"}"#)] {
            assert!(accept(answers).is_some(), "{answers:?}");
        }
        let no = verdict(RequestDecision::Decline, None);
        assert_eq!(answer_error(&asked, &no), None);
        let cut = Request {
            payload: "{\"cut".to_owned(),
            ..asked.clone()
        };
        assert_eq!(
            answer_error(&cut, &verdict(RequestDecision::Accept, None)),
            None
        );
    }
}
