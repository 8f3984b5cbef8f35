//! Ask: Codex asked something while a turn runs. The question is a row before anybody answers it, and is known again
//! when Codex asks it again: after our restart by its name, after a death of Codex by its effect.
//!
//! Silence is never consent: what nobody may decide is declined here, and the event says so.

use super::question::{self, Question};
use super::{Action, Decision, Refused, Staged};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Message, MessageId, Request, RequestDecision, RequestId, RequestKind, RequestState,
    RequestVerdict as Verdict, Timestamp,
};

/// Journals a question of Codex.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The question, open. Its attempt and time are set here.
    pub request: Request,
    /// Set when a rule decides and nobody is asked.
    pub at_once: Option<Verdict>,
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// Somebody must decide.
    Waits {
        /// Known outside by this.
        request_id: RequestId,
    },
    /// Codex is to be told this now.
    Answer {
        /// Known outside by this.
        request_id: RequestId,
        /// What was decided.
        verdict: Verdict,
        /// How often Codex was told it again, with this time.
        told_again: u32,
    },
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    message: Option<Message>,
    replies: usize,
    last_event: u32,
    /// What the same life of Codex asked by the same name.
    named: Vec<Request>,
    /// What the message still waits for, or has a grant for.
    live: Vec<Request>,
    asked: u32,
}

impl Staged for Ask {
    type View = View;
    type Outcome = AskOutcome;
    const NAME: &'static str = "ask";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let Request {
            message_id,
            incarnation,
            rpc_id,
            ..
        } = &self.request;
        Ok(View {
            message: rows.message(message_id)?,
            replies: rows.replies(message_id)?.len(),
            last_event: rows.last_event(message_id)?,
            named: rows.requests_named(message_id, incarnation, rpc_id)?,
            live: rows.live_requests(message_id)?,
            asked: rows.requests_asked(message_id)?,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<AskOutcome>, Refused> {
        let message_id: &MessageId = &self.request.message_id;
        let message = match view.message {
            Some(message) if message.life.state.name().in_flight() => message,
            other => return Err(Refused::new(Self::NAME, message_id, other.as_ref())),
        };
        let request = Request {
            attempt: message.life.attempt,
            state: RequestState::Open,
            created_at: now,
            reminded: false,
            told_again: 0,
            ..self.request
        };
        let fresh = Fresh {
            at_once: stopping(&message, now)
                .or(self.at_once)
                .or_else(|| too_many(view.asked, now)),
            question: Question::new(request, message, view.replies, view.last_event),
            now,
            changes: Vec::new(),
        };
        match known(&view.named, &fresh.question.request) {
            Some(known) => Ok(fresh.again(known)),
            None => Ok(fresh.insert(&view.named, &view.live)),
        }
    }
}

/// The same question of the same life of Codex: by its name, its item and what was shown.
fn known(named: &[Request], asked: &Request) -> Option<Request> {
    let same = named.iter().rev().find(|known| {
        known.item_id == asked.item_id
            && known.digest == asked.digest
            && !matches!(known.state, RequestState::Withdrawn { .. })
    });
    same.cloned()
}

/// Who stopped the message has the last word, whatever the rules say and whoever accepted before.
fn stopping(message: &Message, now: Timestamp) -> Option<Verdict> {
    let stopped = message.life.stop.is_some();
    stopped.then(|| Verdict::own(RequestDecision::Cancel, "the message is being stopped", now))
}

/// What no rule decides is not asked for ever.
fn too_many(asked: u32, now: Timestamp) -> Option<Verdict> {
    (asked >= limits::REQUESTS_PER_MESSAGE_MAX).then(|| {
        let via = "too many questions of one message";
        Verdict::own(RequestDecision::Decline, via, now)
    })
}

/// Whether the answer is a no already.
fn refused(state: &RequestState) -> bool {
    match state {
        RequestState::Decided(verdict) => !verdict.decision.accepts(),
        RequestState::Open
        | RequestState::Orphaned
        | RequestState::Granted(_)
        | RequestState::Withdrawn { .. } => false,
    }
}

/// A question that was just heard.
struct Fresh {
    question: Question,
    at_once: Option<Verdict>,
    now: Timestamp,
    changes: Vec<Change>,
}

impl Fresh {
    /// Codex asks again what it asked before our restart.
    fn again(mut self, known: Request) -> Decision<AskOutcome> {
        let request_id = known.request_id.clone();
        let state = known.state.clone();
        let old = Question {
            request: known,
            ..self.question.clone()
        };
        if let Some(verdict) = self.refusal()
            && !refused(&state)
        {
            return self.overrule(&old, verdict);
        }
        let outcome = match state {
            RequestState::Open | RequestState::Withdrawn { .. } => AskOutcome::Waits { request_id },
            RequestState::Orphaned => {
                self.changes.push(old.moved(RequestState::Open));
                AskOutcome::Waits { request_id }
            }
            RequestState::Decided(verdict) => self.tell_again(&old.request, verdict),
            RequestState::Granted(verdict) => {
                self.changes
                    .push(old.moved(RequestState::Decided(verdict.clone())));
                self.tell_again(&old.request, verdict)
            }
        };
        let message_id = self.question.message.message_id;
        Decision {
            changes: self.changes,
            actions: vec![Action::Announce { message_id }],
            outcome,
        }
    }

    /// Codex is told what was decided before. That is counted: whoever saw an earlier telling fail must not make a grant
    /// of it any more.
    fn tell_again(&mut self, known: &Request, verdict: Verdict) -> AskOutcome {
        let request_id = known.request_id.clone();
        self.changes.push(Change::ToldAgain {
            request_id: request_id.clone(),
        });
        AskOutcome::Answer {
            request_id,
            verdict,
            told_again: known.told_again.saturating_add(1),
        }
    }

    /// A no that nobody need be asked for. It goes before every yes that was said earlier: whoever said it did not
    /// know of the stop, or of the rule.
    fn refusal(&self) -> Option<Verdict> {
        let verdict = self.at_once.clone();
        verdict.filter(|verdict| !verdict.decision.accepts())
    }

    fn overrule(mut self, old: &Question, verdict: Verdict) -> Decision<AskOutcome> {
        let line = question::line(&old.request, &verdict);
        self.changes
            .push(old.moved(RequestState::Decided(verdict.clone())));
        let actions = old.tell(&line, None, self.now, &mut self.changes);
        let outcome = self.tell_again(&old.request, verdict);
        Decision {
            changes: self.changes,
            actions,
            outcome,
        }
    }

    fn insert(mut self, named: &[Request], live: &[Request]) -> Decision<AskOutcome> {
        self.retract_namesakes(named);
        let request = &self.question.request;
        let same = |other: &&Request| other.digest == request.digest && other.kind == request.kind;
        let grant = live
            .iter()
            .filter(same)
            .find_map(|other| match &other.state {
                RequestState::Granted(verdict) if other.deadline > self.now => {
                    Some((other.clone(), verdict.clone()))
                }
                _ => None,
            });
        let orphan = live
            .iter()
            .filter(same)
            .find(|other| other.state == RequestState::Orphaned)
            .cloned();
        if let Some(orphan) = orphan {
            self.carry_on(orphan);
        }
        if let Some(refusal) = self.refusal() {
            if let Some((grant, _)) = grant {
                self.changes.push(Change::Request {
                    request_id: grant.request_id,
                    from: grant.state.name(),
                    to: RequestState::Withdrawn {
                        why: format!("it is refused since: {}", refusal.via),
                    },
                });
            }
            return self.decided(refusal);
        }
        if let Some((grant, verdict)) = grant {
            self.changes.push(Change::Request {
                request_id: grant.request_id,
                from: grant.state.name(),
                to: RequestState::Decided(verdict.clone()),
            });
            let verdict = Verdict {
                via: Verdict::GRANT.to_owned(),
                at: self.now,
                ..verdict
            };
            return self.decided(verdict);
        }
        match self.at_once.take() {
            Some(verdict) => self.decided(verdict),
            None => self.waits(),
        }
    }

    /// The same name for something else: what was shown before can't be decided any more.
    fn retract_namesakes(&mut self, named: &[Request]) {
        for other in named {
            if other.state == RequestState::Open {
                self.changes.push(Change::Request {
                    request_id: other.request_id.clone(),
                    from: other.state.name(),
                    to: RequestState::Withdrawn {
                        why: "Codex asks something else instead".to_owned(),
                    },
                });
            }
        }
    }

    /// A new life of Codex asks what the old one asked: whoever had time to decide has no more of it.
    fn carry_on(&mut self, orphan: Request) {
        let request = &mut self.question.request;
        if orphan.deadline > self.now {
            request.deadline = orphan.deadline.min(request.deadline);
        }
        self.changes.push(Change::Request {
            request_id: orphan.request_id,
            from: orphan.state.name(),
            to: RequestState::Withdrawn {
                why: format!("asked again as {}", request.request_id),
            },
        });
    }

    fn decided(mut self, verdict: Verdict) -> Decision<AskOutcome> {
        self.question.request.state = RequestState::Decided(verdict.clone());
        let request = self.question.request.clone();
        let request_id = request.request_id.clone();
        let line = question::line(&request, &verdict);
        let notice = match request.kind {
            // Nobody could have known of it otherwise.
            RequestKind::ToolCall | RequestKind::Other(_) => {
                Some(format!("{line}. This bridge can't do that."))
            }
            RequestKind::Command
            | RequestKind::FileChange
            | RequestKind::Permissions
            | RequestKind::UserInput
            | RequestKind::Elicitation => None,
        };
        self.changes.push(Change::NewRequest(request));
        let actions = self
            .question
            .tell(&line, notice, self.now, &mut self.changes);
        Decision {
            changes: self.changes,
            actions,
            outcome: AskOutcome::Answer {
                request_id,
                verdict,
                told_again: 0,
            },
        }
    }

    fn waits(mut self) -> Decision<AskOutcome> {
        let request = self.question.request.clone();
        let request_id = request.request_id.clone();
        let line = format!("Codex asks: {}", request.headline);
        let notice = self.question.asks(self.now);
        let at = request.deadline;
        self.changes.push(Change::NewRequest(request));
        let mut actions = self
            .question
            .tell(&line, Some(notice), self.now, &mut self.changes);
        // It does not hold a place while it waits, and its time is watched by the scheduler.
        actions.push(Action::Schedule);
        actions.push(Action::ScheduleAt { at });
        Decision {
            changes: self.changes,
            actions,
            outcome: AskOutcome::Waits { request_id },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::step::{Authority, Decide, DecideOutcome, DecideRefusal};
    use crate::value::{EffectDigest, MessageState, TurnId};

    fn running() -> Message {
        let turn_id = TurnId::new("t");
        fixture::message(MessageState::Running { turn_id }, |life| life.attempt = 1)
    }

    fn view(named: Vec<Request>, live: Vec<Request>, asked: u32) -> View {
        View {
            message: Some(running()),
            replies: 1,
            last_event: 1,
            named,
            live,
            asked,
        }
    }

    fn shows(request: Request, shown: &str) -> Request {
        Request {
            request_id: RequestId::new(format!("id of {shown}")),
            shown: shown.to_owned(),
            digest: EffectDigest::of(&request.kind, shown),
            ..request
        }
    }

    fn ask(request: Request, view: View) -> Decision<AskOutcome> {
        let ask = Ask {
            request,
            at_once: None,
        };
        ask.decide(view, Timestamp(1)).unwrap()
    }

    /// Threat 10: what was shown is withdrawn when the same name asks something else, so a decision about it is late.
    #[test]
    fn threat_10_replaced_request_rejects_old_decision() {
        let shown = fixture::request(RequestState::Open);
        let other = shows(shown.clone(), "make install");
        let asked = ask(
            other.clone(),
            view(vec![shown.clone()], vec![shown.clone()], 1),
        );
        let withdrawn = asked.changes.iter().find_map(|change| match change {
            Change::Request { request_id, to, .. } if *request_id == shown.request_id => Some(to),
            _ => None,
        });
        let state = withdrawn.cloned().unwrap();
        let waits = AskOutcome::Waits {
            request_id: other.request_id,
        };
        assert_eq!(asked.outcome, waits);
        let decide = Decide {
            request_id: shown.request_id.clone(),
            verdict: Verdict::own(RequestDecision::Accept, "cli", Timestamp(2)),
            authority: Authority::Owner,
        };
        let question = Question::new(Request { state, ..shown }, running(), 1, 1);
        let decided = decide.decide(Some(question), Timestamp(2)).unwrap();
        assert!(
            matches!(
                decided.outcome,
                DecideOutcome::Refused(DecideRefusal::Withdrawn { .. })
            ),
            "{decided:?}"
        );
        assert_eq!(decided.changes, []);
    }

    #[test]
    fn request_loop_is_declined_automatically() {
        let request = fixture::request(RequestState::Open);
        let last = view(Vec::new(), Vec::new(), limits::REQUESTS_PER_MESSAGE_MAX - 1);
        let outcome = ask(request.clone(), last).outcome;
        assert!(matches!(outcome, AskOutcome::Waits { .. }), "{outcome:?}");
        let beyond = view(Vec::new(), Vec::new(), limits::REQUESTS_PER_MESSAGE_MAX);
        match ask(request, beyond).outcome {
            AskOutcome::Answer { verdict, .. } => {
                assert_eq!(verdict.decision, RequestDecision::Decline);
            }
            waits @ AskOutcome::Waits { .. } => panic!("{waits:?}"),
        }
    }

    #[test]
    fn grant_requires_same_effect_before_deadline() {
        let verdict = Verdict::own(RequestDecision::Accept, "cli", Timestamp(0));
        let granted = fixture::request(RequestState::Granted(verdict));
        let asked = shows(fixture::request(RequestState::Open), "make install");
        let late = Request {
            deadline: Timestamp(1),
            ..granted.clone()
        };
        let same = Request {
            request_id: RequestId::new("again"),
            ..fixture::request(RequestState::Open)
        };
        for (request, live) in [(asked, granted.clone()), (same.clone(), late)] {
            let outcome = ask(request, view(Vec::new(), vec![live], 1)).outcome;
            assert!(matches!(outcome, AskOutcome::Waits { .. }), "{outcome:?}");
        }
        let outcome = ask(same, view(Vec::new(), vec![granted], 1)).outcome;
        assert!(matches!(outcome, AskOutcome::Answer { .. }), "{outcome:?}");
    }

    fn stopped(view: View) -> View {
        let message = view.message.map(|mut message| {
            message.life.stop = Some("stopped by ada".to_owned());
            message
        });
        View { message, ..view }
    }

    fn answer(ask: Ask, view: View) -> (RequestDecision, Vec<Change>) {
        let asked = ask.decide(view, Timestamp(1)).unwrap();
        match asked.outcome {
            AskOutcome::Answer { verdict, .. } => (verdict.decision, asked.changes),
            waits @ AskOutcome::Waits { .. } => panic!("{waits:?}"),
        }
    }

    fn accept(via: &str) -> Verdict {
        Verdict::own(RequestDecision::Accept, via, Timestamp(0))
    }

    #[test]
    fn rules_accept_nothing_after_stop() {
        let ask = Ask {
            request: fixture::request(RequestState::Open),
            at_once: Some(accept("rule tests")),
        };
        let open = view(Vec::new(), Vec::new(), 1);
        assert_eq!(answer(ask.clone(), open).0, RequestDecision::Accept);
        let view = stopped(view(Vec::new(), Vec::new(), 1));
        assert_eq!(answer(ask, view).0, RequestDecision::Cancel);
    }

    #[test]
    fn stop_or_deny_withdraws_grant() {
        let granted = fixture::request(RequestState::Granted(accept("cli")));
        let asked = |at_once| Ask {
            request: Request {
                request_id: RequestId::new("again"),
                ..fixture::request(RequestState::Open)
            },
            at_once,
        };
        let deny = Verdict::own(RequestDecision::Decline, "rule no", Timestamp(0));
        let live = || view(Vec::new(), vec![granted.clone()], 1);
        for (ask, view, told) in [
            (asked(None), stopped(live()), RequestDecision::Cancel),
            (asked(Some(deny)), live(), RequestDecision::Decline),
        ] {
            let (decision, changes) = answer(ask, view);
            assert_eq!(decision, told);
            let left = changes.iter().find_map(|change| match change {
                Change::Request { request_id, to, .. } if *request_id == granted.request_id => {
                    Some(to.name().as_str())
                }
                _ => None,
            });
            assert_eq!(left, Some("withdrawn"), "{changes:?}");
        }
    }

    #[test]
    fn repeated_request_is_cancelled_after_stop() {
        for state in [
            RequestState::Open,
            RequestState::Orphaned,
            RequestState::Granted(accept("cli")),
            RequestState::Decided(accept("cli")),
        ] {
            let known = fixture::request(state);
            let ask = Ask {
                request: fixture::request(RequestState::Open),
                at_once: None,
            };
            let (decision, changes) = answer(ask, stopped(view(vec![known], Vec::new(), 1)));
            assert_eq!(decision, RequestDecision::Cancel);
            let told = changes.iter().any(|change| match change {
                Change::Request { to, .. } => to
                    .verdict()
                    .is_some_and(|verdict| verdict.decision == RequestDecision::Cancel),
                _ => false,
            });
            assert!(told, "the row says what Codex was told: {changes:?}");
        }
    }

    #[test]
    fn stopping_message_accepts_no_approval() {
        for state in [RequestState::Open, RequestState::Orphaned] {
            let mut message = running();
            message.life.stop = Some("stopped by ada".to_owned());
            let question = Question::new(fixture::request(state), message, 1, 1);
            let decide = |decision| Decide {
                request_id: question.request.request_id.clone(),
                verdict: Verdict::own(decision, "cli", Timestamp(2)),
                authority: Authority::Owner,
            };
            let yes = decide(RequestDecision::Accept);
            let yes = yes.decide(Some(question.clone()), Timestamp(2)).unwrap();
            assert!(
                matches!(yes.outcome, DecideOutcome::Refused(_)),
                "{:?}",
                yes.outcome
            );
            let no = decide(RequestDecision::Decline);
            let no = no.decide(Some(question.clone()), Timestamp(2)).unwrap();
            assert!(!matches!(no.outcome, DecideOutcome::Refused(_)));
        }
    }
}
