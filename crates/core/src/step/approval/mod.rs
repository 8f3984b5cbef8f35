//! Approval requests: what their transitions have in common, the guard that lets one decision win, and the texts for
//! those who wait.

mod ask;
mod decide;
mod expire;

pub use ask::{Ask, AskOutcome};
pub use decide::{
    AnswerDelivered, AnswerUndelivered, Authority, Decide, DecideOutcome, DecideRefusal, Resolve,
    UndeliveredReason,
};
pub use expire::{ExpireOutcome, ExpireRequests};

use super::{Tx, reply};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::requester;
use crate::value::{
    Deciders, EventKind, Message, MessageState, Request, RequestDecision, RequestState,
    RequestVerdict as Verdict, SenderKind, Tier, Timestamp, Wants,
};
use crate::why::in_words;

/// An approval request with its message.
#[derive(Clone, Debug)]
pub(super) struct RequestCase {
    pub(super) request: Request,
    pub(super) message: Message,
}

impl RequestCase {
    /// Reads the message of a request; nothing when it is gone.
    pub(super) fn load(rows: &dyn Read, request: Request) -> Result<Option<Self>, RowsError> {
        let message = rows.message(&request.message_id)?;
        Ok(message.map(|message| Self { request, message }))
    }

    /// Moves the request; the guard on its present state lets one of many win.
    pub(super) fn set_state(&self, tx: &mut Tx<'_>, to: RequestState) -> Result<(), RowsError> {
        set_state(tx, &self.request, to)
    }

    /// Journals a line about it, and sends its sender the notice.
    pub(super) fn record(
        &self,
        tx: &mut Tx<'_>,
        line: &str,
        notice: Option<String>,
        now: Timestamp,
    ) -> Result<(), RowsError> {
        let message = &self.message;
        tx.event(message, EventKind::Asked, line, now)?;
        tx.announce(&message.message_id);
        if let Some(notice) = notice {
            if self.sender_decides() {
                reply::notify_whole(tx, message, &notice, now)?;
            } else {
                reply::notify(tx, message, &notice, now)?;
            }
            tx.deliver(&message.conversation_id);
        }
        Ok(())
    }

    /// Whether the turn that asks may still be alive, so that an answer can reach it.
    pub(super) fn turn_lives(&self) -> bool {
        matches!(
            self.message.life.state,
            MessageState::Starting | MessageState::Running { .. }
        )
    }

    /// The notice for the sender when Codex begins to wait.
    pub(super) fn asks(&self, now: Timestamp) -> String {
        let Request {
            headline,
            shown,
            deadline,
            ..
        } = &self.request;
        let until = in_words(*deadline, now);
        if !self.sender_decides() {
            let subject = requester::subject(&self.message, &self.request);
            return format!(
                "For {}: Codex asks something that the owner of this bridge must decide: {subject}. It waits, and is \
declined {until} without a word.",
                self.requester()
            );
        }
        let whole = if self.is_shown_here() {
            ""
        } else {
            "\n\nThat is not all of it: it is too long for here."
        };
        let shown = limits::clip(shown, limits::SHOWN_IN_CHAT_MAX_CHARS);
        format!(
            "For {}: Codex asks: {headline}\n\n{shown}{whole}\n\n{}; without a word it is declined {until}.",
            self.requester(),
            self.how()
        )
    }

    /// Whose work it is about.
    pub(super) fn requester(&self) -> String {
        requester::requester(&self.message)
    }

    /// What a sender writes to answer it.
    pub(super) fn how(&self) -> String {
        let code = self.request.request_id.code();
        match self.here() {
            Some(Here::Yes) => format!("Write `approve {code}` or `decline {code}`"),
            Some(Here::Text) => {
                format!("Write `answer {code} …` with your answer, or `decline {code}`")
            }
            None => {
                let accept = self.request.accept_command();
                format!("Answer it with `{accept}`, not here, or write `decline {code}`")
            }
        }
    }

    /// Whether a conversation can say this yes: what it was not shown, or can't say in a line, is not accepted there.
    pub(super) fn takes_here(&self, verdict: &Verdict) -> bool {
        match (self.here(), &verdict.answers) {
            _ if !verdict.decision.accepts() => true,
            (Some(Here::Yes), None) | (Some(Here::Text), Some(_)) => true,
            (Some(Here::Yes), Some(_)) | (Some(Here::Text), None) | (None, _) => false,
        }
    }

    fn here(&self) -> Option<Here> {
        if !self.is_shown_here() {
            return None;
        }
        match self.request.wants {
            Wants::Approval | Wants::Visit => Some(Here::Yes),
            Wants::Text if self.takes_words() => Some(Here::Text),
            Wants::Text | Wants::Form => None,
        }
    }

    fn is_shown_here(&self) -> bool {
        let mut shown = self.request.shown.chars();
        shown.nth(limits::SHOWN_IN_CHAT_MAX_CHARS).is_none()
    }

    /// The same, once more, shortly before nobody's word counts as a no.
    pub(super) fn reminds(&self, now: Timestamp) -> Option<String> {
        let until = in_words(self.request.deadline, now);
        self.sender_decides().then(|| {
            format!(
                "For {}: Codex still waits for an answer: {}. {}; it is declined {until}.",
                self.requester(),
                self.request.headline,
                self.how()
            )
        })
    }

    /// The notice for the sender when somebody else settled it.
    pub(super) fn settled(&self, verdict: &Verdict) -> Option<String> {
        (!verdict.by.is_caller(&self.message.sender)).then(|| {
            format!(
                "{}: {} (by {}, {})",
                past(verdict.decision),
                self.request.headline,
                verdict.by,
                verdict.via
            )
        })
    }

    /// Whether an answer may be written in its conversation: a secret one would stay there.
    fn takes_words(&self) -> bool {
        self.request.deciders == Deciders::Sender
    }

    /// Whether the one who sent the message may decide in the same conversation.
    fn sender_decides(&self) -> bool {
        let Message { tier, kind, .. } = &self.message;
        self.request.sender_may(*tier) && (*tier != Tier::Owner || *kind == SenderKind::Person)
    }
}

fn set_state(tx: &mut Tx<'_>, request: &Request, to: RequestState) -> Result<(), RowsError> {
    tx.change(Change::Request {
        request_id: request.request_id.clone(),
        from: request.state.name(),
        to,
    })
}

/// How a yes is written in a conversation.
enum Here {
    /// By its code alone.
    Yes,
    /// With one text.
    Text,
}

/// What was decided, in the words of people.
pub(super) fn past(decision: RequestDecision) -> &'static str {
    match decision {
        RequestDecision::Accept => "Approved",
        RequestDecision::AcceptForSession => "Approved for this session",
        RequestDecision::Decline => "Declined",
        RequestDecision::Cancel => "Declined, and the turn ended",
    }
}

/// Journaled about a decision.
pub(super) fn line(request: &Request, verdict: &Verdict) -> String {
    format!(
        "{} by {} ({}): {}",
        past(verdict.decision),
        verdict.by,
        verdict.via,
        request.headline
    )
}

/// A text as JSON: what a chat says to an approval request is one string, and only the edges know the request's own
/// form.
pub(super) fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::value::{RequestKind, TurnId};

    fn case(change: impl FnOnce(&mut Request)) -> RequestCase {
        let mut request = fixture::request(RequestState::Open);
        change(&mut request);
        let turn_id = TurnId::new("t");
        let message = fixture::message(MessageState::Running { turn_id }, |_| {});
        RequestCase { request, message }
    }

    fn says(decision: RequestDecision, answers: Option<&str>) -> Verdict {
        Verdict {
            answers: answers.map(str::to_owned),
            ..Verdict::own(decision, "chat", Timestamp(0))
        }
    }

    #[test]
    fn chat_approves_only_fully_shown_requests() {
        let yes = says(RequestDecision::Accept, None);
        let whole = "x".repeat(limits::SHOWN_IN_CHAT_MAX_CHARS);
        let showing = |shown: &str| case(|request| request.shown = shown.to_owned());
        let fits = showing(&whole);
        assert!(fits.takes_here(&yes));
        assert!(fits.asks(Timestamp(0)).contains("`approve k3v9qa`"));
        let long = showing(&format!("{whole}; rm -r /"));
        assert!(!long.takes_here(&yes));
        assert!(long.takes_here(&says(RequestDecision::Decline, None)));
        let notice = long.asks(Timestamp(0));
        assert!(!notice.contains("`approve"), "{notice}");
        for words in [
            "not all of it",
            "`codex-bridge approve k3v9qa`",
            "`decline k3v9qa`",
        ] {
            assert!(notice.contains(words), "{notice}");
        }
    }

    #[test]
    fn f7_notice_starts_with_requester() {
        let whose = "For token me (HTTP, tier owner): Codex";
        let asked = case(|_| {});
        assert!(asked.asks(Timestamp(0)).starts_with(whose));
        assert!(asked.reminds(Timestamp(0)).unwrap().starts_with(whose));
    }

    #[test]
    fn chat_offers_only_possible_answers() {
        let yes = says(RequestDecision::Accept, None);
        let text = says(RequestDecision::Accept, Some("\"red\""));
        for (wants, offered, takes_yes, takes_text) in [
            (Wants::Approval, "`approve ", true, false),
            (Wants::Visit, "`approve ", true, false),
            (Wants::Text, "`answer ", false, true),
            (Wants::Form, "`codex-bridge respond ", false, false),
        ] {
            let case = case(|request| {
                request.kind = RequestKind::UserInput;
                request.wants = wants;
            });
            let how = case.how();
            assert!(how.contains(offered), "{how}");
            assert_eq!(case.takes_here(&yes), takes_yes, "{wants:?}");
            assert_eq!(case.takes_here(&text), takes_text, "{wants:?}");
            assert!(case.takes_here(&says(RequestDecision::Decline, None)));
        }
    }
}
