//! What the life of a question has in common: the rows that decide about it, the guard that lets one decision win,
//! and the words for those who wait. The arrows are in `ask`, `decide` and `tend`.

use super::outbox::Outbox;
use super::{Action, note};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::requester;
use crate::value::{
    Deciders, EventKind, Message, MessageState, ReplyKind, Request, RequestDecision, RequestKind,
    RequestState, RequestVerdict as Verdict, SenderKind, Tier, Timestamp, Wants,
};
use crate::why::in_words;

/// A question with the rows that are written beside it.
#[derive(Clone, Debug)]
pub struct Question {
    pub(super) request: Request,
    pub(super) message: Message,
    pub(super) replies: usize,
    pub(super) last_event: u32,
}

impl Question {
    /// Reads what hangs on a question; nothing when its message is gone.
    pub(super) fn load(rows: &dyn Read, request: Request) -> Result<Option<Self>, RowsError> {
        let message_id = &request.message_id;
        let Some(message) = rows.message(message_id)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            replies: rows.replies(message_id)?.len(),
            last_event: rows.last_event(message_id)?,
            message,
            request,
        }))
    }

    /// The question of a message whose other rows are known.
    pub(super) fn new(request: Request, message: Message, replies: usize, last_event: u32) -> Self {
        Self {
            request,
            message,
            replies,
            last_event,
        }
    }

    /// Moves the question; the guard on its present state lets one of many win.
    pub(super) fn moved(&self, to: RequestState) -> Change {
        Change::Request {
            request_id: self.request.request_id.clone(),
            from: self.request.state.name(),
            to,
        }
    }

    /// Journals a line about it, and tells its sender where `notice` has words.
    pub(super) fn tell(
        &self,
        line: &str,
        notice: Option<String>,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Action> {
        changes.extend(note::event(
            &self.message,
            self.last_event,
            EventKind::Asked,
            line,
            now,
        ));
        let message_id = self.message.message_id.clone();
        let mut actions = vec![Action::Announce { message_id }];
        if let Some(notice) = notice {
            let outbox = Outbox::of(&self.message, self.replies, None);
            changes.extend(if self.sender_decides() {
                outbox.queue_whole(&notice, now)
            } else {
                outbox.queue(ReplyKind::Notice, &notice, now)
            });
            actions.push(Action::Deliver {
                conversation_id: self.message.conversation_id.clone(),
            });
        }
        actions
    }

    /// Whether the turn that asks may still be alive, so that an answer can reach it.
    pub(super) fn turn_lives(&self) -> bool {
        matches!(
            self.message.life.state,
            MessageState::Starting | MessageState::Running { .. }
        )
    }

    /// What the sender is told when Codex begins to wait.
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
                let id = &self.message.message_id;
                format!(
                    "Answer it with `codex-bridge respond {id} {code} accept`, not here, or write `decline {code}`"
                )
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

    /// What the sender is told when somebody else settled it.
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
        match self.request.deciders {
            Deciders::Sender => true,
            Deciders::Owner => false,
        }
    }

    /// Whether the one who sent the message may decide in the same conversation.
    fn sender_decides(&self) -> bool {
        match (self.message.tier, self.request.deciders) {
            (Tier::Owner, Deciders::Owner | Deciders::Sender) => {
                self.message.kind == SenderKind::Person
            }
            (Tier::Peer, Deciders::Sender) => self.request.kind == RequestKind::UserInput,
            (Tier::Tool, Deciders::Sender) => true,
            (Tier::Peer | Tier::Tool, Deciders::Owner) => false,
        }
    }
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

/// A text as JSON: what a chat says to a question is one string, and only the edges know the question's own form.
pub(super) fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::value::TurnId;

    fn question(change: impl FnOnce(&mut Request)) -> Question {
        let mut request = fixture::request(RequestState::Open);
        change(&mut request);
        let turn_id = TurnId::new("t");
        let message = fixture::message(MessageState::Running { turn_id }, |_| {});
        Question::new(request, message, 1, 1)
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
        let question_of = |shown: &str| question(|request| request.shown = shown.to_owned());
        let fits = question_of(&whole);
        assert!(fits.takes_here(&yes));
        assert!(fits.asks(Timestamp(0)).contains("`approve k3v9qa`"));
        let long = question_of(&format!("{whole}; rm -r /"));
        assert!(!long.takes_here(&yes));
        assert!(long.takes_here(&says(RequestDecision::Decline, None)));
        let told = long.asks(Timestamp(0));
        assert!(!told.contains("`approve"), "{told}");
        for words in ["not all of it", "codex-bridge respond", "`decline k3v9qa`"] {
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn f7_notice_starts_with_requester() {
        let whose = "For token me (HTTP, tier owner): Codex";
        let asked = question(|_| {});
        assert!(asked.asks(Timestamp(0)).starts_with(whose));
        assert!(asked.reminds(Timestamp(0)).unwrap().starts_with(whose));
    }

    #[test]
    fn f10_a_peers_notice_names_no_path() {
        let notices = |tier: Tier| {
            let mut asked = question(|request| {
                request.deciders = Deciders::Owner;
                request.headline = "run cat /root/state/token".to_owned();
            });
            asked.message.tier = tier;
            let mut changes = Vec::new();
            let notices = [asked.asks(Timestamp(0)), asked.request.headline.clone()];
            for notice in notices {
                asked.tell("line", Some(notice), Timestamp(0), &mut changes);
            }
            let outbox = Outbox::of(&asked.message, 0, None);
            let reason = "no /root/state/ledger.db".to_owned();
            outbox.bury(&asked.message.life, reason, Timestamp(0), &mut changes);
            let told: Vec<String> = changes
                .into_iter()
                .filter_map(|change| match change {
                    Change::NewReply(reply) => Some(reply.body),
                    _ => None,
                })
                .collect();
            told
        };
        let owner = notices(Tier::Owner);
        assert!(
            owner.iter().all(|text| text.contains("/root/")),
            "{owner:?}"
        );
        for tier in [Tier::Peer, Tier::Tool] {
            let told = notices(tier);
            assert_eq!(told.len(), 3, "{told:?}");
            assert!(!told.concat().contains("/root"), "{told:?}");
        }
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
            let question = question(|request| {
                request.kind = RequestKind::UserInput;
                request.wants = wants;
            });
            let how = question.how();
            assert!(how.contains(offered), "{how}");
            assert_eq!(question.takes_here(&yes), takes_yes, "{wants:?}");
            assert_eq!(question.takes_here(&text), takes_text, "{wants:?}");
            assert!(question.takes_here(&says(RequestDecision::Decline, None)));
        }
    }
}
