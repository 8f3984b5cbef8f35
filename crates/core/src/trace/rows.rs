//! The spans that rows alone tell: the message, its wait, its turns, approvals and replies.

use super::{Attribute, Nanos, Span, SpanKind, names};
use crate::port::{Read, RowsError};
use crate::value::{
    Answer, Conversation, Failure, Message, MessageId, MessageState, Reply, ReplyState, Request,
    RequestState, SpanId, Turn, TurnState,
};
use serde_json::json;

/// Turns of one message in its trace: the newest ones.
const TURNS_MAX: u32 = 16;

/// The rows that the trace of a message is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRows {
    pub message: Message,
    pub conversation: Option<Conversation>,
    pub turns: Vec<Turn>,
    pub requests: Vec<Request>,
    pub replies: Vec<Reply>,
    pub answer: Option<Answer>,
}

impl TraceRows {
    /// `None` when the message is gone.
    pub fn read(rows: &dyn Read, message_id: &MessageId) -> Result<Option<Self>, RowsError> {
        let Some(message) = rows.message(message_id)? else {
            return Ok(None);
        };
        let newest = message.life.attempt;
        let oldest = newest.saturating_sub(TURNS_MAX - 1).max(1);
        let mut turns = Vec::new();
        for attempt in oldest..=newest {
            turns.extend(rows.turn(message_id, attempt)?);
        }
        Ok(Some(Self {
            conversation: rows.conversation(&message.conversation_id)?,
            turns,
            requests: rows.requests(message_id)?,
            replies: rows.replies(message_id)?,
            answer: rows.answer(message_id)?,
            message,
        }))
    }

    /// Its spans, the message's own first. With `texts` also what was said.
    #[must_use]
    pub fn spans(&self, texts: bool) -> Vec<Span> {
        let turns = self.turns.iter().enumerate();
        let root = self.root(texts);
        let mut spans = vec![root];
        spans.extend(self.queue());
        spans.extend(turns.map(|(at, turn)| self.turn(at, turn, texts)));
        spans.extend(self.requests.iter().map(|request| self.approval(request)));
        spans.extend(self.replies.iter().map(|reply| self.reply(reply, texts)));
        spans
    }

    /// When the newest thing happened that is known of it.
    fn end(&self) -> Nanos {
        self.message.life.updated_at.into()
    }

    fn span(&self, span_id: SpanId, name: String, (start, end): (Nanos, Nanos)) -> Span {
        Span {
            trace_id: self.message.trace_id(),
            span_id,
            parent: Some(self.message.root_span()),
            name,
            kind: SpanKind::Internal,
            start,
            // Clocks of two nodes may differ by a little.
            end: end.max(start),
            attributes: Vec::new(),
            error: None,
        }
    }

    fn root(&self, texts: bool) -> Span {
        let message = &self.message;
        let life = &message.life;
        let mut attributes: Vec<(&'static str, Attribute)> = vec![
            (names::MESSAGE, message.message_id.as_str().into()),
            (names::LANE, message.conversation_id.as_str().into()),
            (names::CHANNEL, message.channel.as_str().into()),
            (names::SENDER_KIND, message.kind.as_str().into()),
            (names::MESSAGE_STATE, life.state.name().as_str().into()),
            (names::ATTEMPT, life.attempt.into()),
        ];
        let failed = matches!(life.state, MessageState::Dead { .. });
        let failure = life.failure.as_ref().filter(|_| failed);
        attributes.extend(failure.map(|found| (names::ERROR, found.class.as_str().into())));
        let times = (message.received_at.into(), self.end());
        Span {
            parent: message.trace.map(|parent| parent.span_id),
            kind: SpanKind::Consumer,
            attributes,
            error: failed.then(|| said(failure, texts)),
            ..self.span(message.root_span(), "message".to_owned(), times)
        }
    }

    /// From its arrival to its first turn.
    fn queue(&self) -> Option<Span> {
        let first = self.turns.first().filter(|turn| turn.attempt == 1)?;
        let times = (self.message.received_at.into(), first.started_at.into());
        let span_id = self.message.span_id("queue");
        Some(self.span(span_id, "queue".to_owned(), times))
    }

    fn turn(&self, at: usize, turn: &Turn, texts: bool) -> Span {
        let next = self.turns.get(at.saturating_add(1));
        let ended = turn.ended_at.or(next.map(|next| next.started_at));
        let end = ended.map_or_else(|| self.end(), Nanos::from);
        let mut attributes: Vec<(&'static str, Attribute)> = vec![
            (names::OPERATION, names::INVOKE_AGENT.into()),
            (names::PROVIDER, names::OPENAI.into()),
            (names::AGENT_NAME, names::CODEX.into()),
            (names::CONVERSATION, turn.thread.as_str().into()),
            (names::ATTEMPT, turn.attempt.into()),
            (names::TURN_STATE, turn.state.as_str().into()),
        ];
        let model = self.conversation.as_ref();
        let model = model.and_then(|found| found.model.as_deref());
        attributes.extend(model.map(|model| (names::MODEL, model.into())));
        if turn.usage.input_tokens > 0 {
            attributes.push((names::INPUT_TOKENS, turn.usage.input_tokens.into()));
            attributes.push((names::OUTPUT_TOKENS, turn.usage.output_tokens.into()));
        }
        let is_newest = turn.attempt == self.message.life.attempt;
        let answer = self.answer.as_ref().filter(|_| is_newest);
        if texts {
            let input = spoken("user", &self.message.body, None);
            attributes.push((names::INPUT, input.into()));
            let output = answer.map(|found| spoken("assistant", &found.text, Some("stop")));
            attributes.extend(output.map(|text| (names::OUTPUT, text.into())));
        }
        let lost = turn.state == TurnState::Lost;
        let failed =
            lost || (is_newest && matches!(self.message.life.state, MessageState::Dead { .. }));
        let failure = self.message.life.failure.as_ref().filter(|_| is_newest);
        if failed {
            let class = failure.map_or("lost", |found| found.class.as_str());
            attributes.push((names::ERROR, class.into()));
        }
        let name = format!("{} {}", names::INVOKE_AGENT, names::CODEX);
        let times = (turn.started_at.into(), end);
        Span {
            kind: SpanKind::Client,
            attributes,
            error: failed.then(|| said(failure, texts)),
            ..self.span(self.message.turn_span(turn.attempt), name, times)
        }
    }

    fn approval(&self, request: &Request) -> Span {
        let verdict = request.state.verdict();
        let end = verdict.map_or_else(|| self.end(), |verdict| verdict.at.into());
        let kind = request.kind.as_str();
        let mut attributes: Vec<(&'static str, Attribute)> = vec![
            (names::APPROVAL_KIND, kind.into()),
            (names::APPROVAL_STATE, request.state.as_str().into()),
            (names::ATTEMPT, request.attempt.into()),
        ];
        if let Some(verdict) = verdict {
            let decision = verdict.decision.as_str();
            attributes.push((names::APPROVAL_DECISION, decision.into()));
            attributes.push((names::APPROVAL_VIA, verdict.via.as_str().into()));
        }
        let withdrawn = matches!(request.state, RequestState::Withdrawn { .. });
        let span_id = self
            .message
            .span_id(&format!("approval {}", request.request_id));
        let times = (request.created_at.into(), end);
        Span {
            parent: Some(self.message.turn_span(request.attempt)),
            attributes,
            error: withdrawn.then_some(None),
            ..self.span(span_id, format!("approval {kind}"), times)
        }
    }

    fn reply(&self, reply: &Reply, texts: bool) -> Span {
        let (end, reason) = match &reply.state {
            ReplyState::Sent { at: Some(at), .. } => ((*at).into(), None),
            ReplyState::Dead { reason } => (self.end(), Some(reason)),
            ReplyState::Sent { at: None, .. } | ReplyState::Queued { .. } | ReplyState::Sending => {
                (self.end(), None)
            }
        };
        let times = (reply.created_at.into(), end);
        let span_id = self.message.span_id(&format!("reply {}", reply.ordinal));
        Span {
            kind: SpanKind::Producer,
            attributes: vec![
                (names::REPLY_ORDINAL, reply.ordinal.into()),
                (names::REPLY_KIND, reply.kind.as_str().into()),
                (names::REPLY_STATE, reply.state.name().as_str().into()),
                (names::REPLY_TRIES, reply.tries.into()),
            ],
            error: reason.map(|reason| texts.then(|| reason.clone())),
            ..self.span(span_id, "send reply".to_owned(), times)
        }
    }
}

/// Why something failed: words that may quote somebody.
fn said(failure: Option<&Failure>, texts: bool) -> Option<String> {
    failure.filter(|_| texts).map(|found| found.reason.clone())
}

/// A text in the form of the conventions.
fn spoken(role: &str, text: &str, finish: Option<&str>) -> String {
    let mut message = json!({"role": role, "parts": [{"type": "text", "content": text}]});
    if let (Some(finish), Some(message)) = (finish, message.as_object_mut()) {
        message.insert("finish_reason".to_owned(), finish.into());
    }
    json!([message]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::value::{
        BootId, Class, ClientId, Epoch, IncarnationId, Sandbox, ThreadId, Timestamp, TurnId, Usage,
    };

    fn turn(attempt: u32, state: TurnState, ended_at: Option<Timestamp>) -> Turn {
        let message_id = MessageId::new("m");
        Turn {
            client_id: ClientId::of(&message_id, attempt),
            message_id,
            attempt,
            epoch: Epoch(1),
            boot_id: BootId::new("b"),
            incarnation: IncarnationId::new("i"),
            thread: ThreadId::new("t"),
            after_turn: None,
            turn_id: Some(TurnId::new("u")),
            sandbox: Sandbox::ReadOnly,
            state,
            touched: false,
            started_at: Timestamp(i64::from(attempt) * 1_000),
            ended_at,
            usage: Usage {
                input_tokens: 12,
                output_tokens: 3,
            },
        }
    }

    fn rows() -> TraceRows {
        let message = fixture::message(
            MessageState::Dead {
                reason: "the secret word".to_owned(),
            },
            |life| {
                life.attempt = 2;
                life.failure = Some(Failure::new(Class::Permanent, "the secret word"));
                life.updated_at = Timestamp(5_000);
            },
        );
        TraceRows {
            message,
            conversation: None,
            turns: vec![
                turn(1, TurnState::Lost, None),
                turn(2, TurnState::Ended, Some(Timestamp(4_000))),
            ],
            requests: vec![fixture::request(RequestState::Open)],
            replies: Vec::new(),
            answer: None,
        }
    }

    #[test]
    fn spans_hang_under_their_message() {
        let rows = rows();
        let spans = rows.spans(false);
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        let turn = "invoke_agent codex";
        assert_eq!(names, ["message", "queue", turn, turn, "approval command"]);
        let root = rows.message.root_span();
        assert!(spans[1..4].iter().all(|span| span.parent == Some(root)));
        assert_eq!(spans[4].parent, Some(rows.message.turn_span(1)));
        // A turn whose end nobody saw ends with the next one.
        assert_eq!(spans[2].end, Nanos(2_000_000_000));
        assert_eq!(spans, rows.spans(false), "the same again");
    }

    #[test]
    fn texts_are_left_out_unless_wanted() {
        let rows = rows();
        let told = |texts| format!("{:?}", rows.spans(texts));
        for text in ["secret word", "do it", "run make"] {
            assert!(!told(false).contains(text), "{text}");
        }
        assert!(told(true).contains("secret word") && told(true).contains("do it"));
    }
}
