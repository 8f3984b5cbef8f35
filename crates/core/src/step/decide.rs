//! Decide: somebody answers a question of Codex. The first valid decision wins by the guard on the row's state; all
//! others are refused with a reason. What becomes of a decision that does not reach Codex is here too.

use super::question::{self, Question};
use super::{Action, Cancel, CancelView, Decision, Refused, Staged};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Actor, AuditEntry, ConversationId, Deciders, IncarnationId, MessageId, Request,
    RequestDecision, RequestId, RequestKind, RequestState, RequestVerdict as Verdict, Tier,
    Timestamp,
};

/// Answers a question.
#[derive(Clone, Debug)]
pub struct Decide {
    /// Which.
    pub request_id: RequestId,
    /// What, by whom, from where.
    pub verdict: Verdict,
    /// By what right.
    pub authority: Authority,
}

/// By what right somebody decides. Made from what a channel or a front has checked, never from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// On a surface of the owner: the command line, or a token that may.
    Owner,
    /// In a conversation.
    Sender {
        /// Which conversation.
        conversation_id: ConversationId,
        /// Who, by the channel's authenticated field.
        sender: String,
        /// What they may do.
        tier: Tier,
    },
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecideOutcome {
    /// It counts, and Codex is told.
    Applied,
    /// It counts: Codex died while it asked, and is told when it asks the same again.
    Granted,
    /// It does not count.
    Refused(DecideRefusal),
}

/// Why a decision does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideRefusal {
    /// There is no such question.
    #[error("there is no such question")]
    Unknown,
    /// Somebody was first.
    #[error("{} already by {by} ({via})", question::past(*.decision).to_lowercase())]
    Decided {
        /// What was decided.
        decision: RequestDecision,
        /// Who.
        by: String,
        /// From where.
        via: String,
    },
    /// Nobody decided in time.
    #[error("too late: nobody decided in time, and it was declined")]
    Expired,
    /// It is not asked any more.
    #[error("it is not asked any more: {why}")]
    Withdrawn {
        /// Why.
        why: String,
    },
    /// Somebody else must decide.
    #[error("only {who} may decide that")]
    NotYours {
        /// Who may.
        who: &'static str,
    },
    /// The answer does not fit the question.
    #[error("the answer does not fit: {why}")]
    Unfit {
        /// Why.
        why: String,
    },
}

impl Staged for Decide {
    type View = Option<Question>;
    type Outcome = DecideOutcome;
    const NAME: &'static str = "decide";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        match rows.request(&self.request_id)? {
            Some(request) => Question::load(rows, request),
            None => Ok(None),
        }
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<DecideOutcome>, Refused> {
        let Some(question) = view else {
            let unknown = DecideOutcome::Refused(DecideRefusal::Unknown);
            return Ok(Decision::nothing(unknown));
        };
        let mut changes = Vec::new();
        let ruled = question.rule(self.verdict, &self.authority, now, &mut changes);
        match ruled? {
            Ok(Ruled { actions, outcome }) => Ok(Decision {
                changes,
                actions,
                outcome,
            }),
            Err(refusal) => Ok(Decision::nothing(DecideOutcome::Refused(refusal))),
        }
    }
}

/// A decision that counts.
pub(super) struct Ruled {
    pub(super) actions: Vec<Action>,
    pub(super) outcome: DecideOutcome,
}

impl Question {
    /// Applies a decision, or says why it does not count.
    pub(super) fn rule(
        &self,
        verdict: Verdict,
        authority: &Authority,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Result<Result<Ruled, DecideRefusal>, Refused> {
        let (to, outcome) = match self.judge(&verdict, authority, now) {
            Ok(judged) => judged,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let request = &self.request;
        changes.push(self.moved(to));
        changes.push(Change::Audit(AuditEntry {
            at: now,
            actor: verdict.by.to_string(),
            what: Decide::NAME.to_owned(),
            subject: self.message.message_id.to_string(),
            detail: format!(
                "{} request {} ({})",
                verdict.decision.as_str(),
                request.request_id,
                verdict.via
            ),
        }));
        let ends = verdict.decision == RequestDecision::Cancel;
        let notice = match authority {
            // The end of the message tells it.
            Authority::Owner if ends => None,
            Authority::Owner => self.settled(&verdict),
            // The answer to their own words tells them.
            Authority::Sender { .. } => None,
        };
        let mut actions = self.tell(&question::line(request, &verdict), notice, now, changes);
        if outcome == DecideOutcome::Applied {
            actions.push(Action::Answer {
                request_id: request.request_id.clone(),
            });
        }
        if ends {
            actions.extend(self.end(verdict.by.actor(), now, changes)?);
        }
        Ok(Ok(Ruled { actions, outcome }))
    }

    /// The state that a decision leads to.
    fn judge(
        &self,
        verdict: &Verdict,
        authority: &Authority,
        now: Timestamp,
    ) -> Result<(RequestState, DecideOutcome), DecideRefusal> {
        self.may(authority)?;
        let request = &self.request;
        if request.state.waits() && request.deadline <= now {
            return Err(DecideRefusal::Expired);
        }
        let judged = match &request.state {
            RequestState::Open => (
                RequestState::Decided(verdict.clone()),
                DecideOutcome::Applied,
            ),
            RequestState::Orphaned => (
                RequestState::Granted(verdict.clone()),
                DecideOutcome::Granted,
            ),
            RequestState::Decided(before) | RequestState::Granted(before) => {
                return Err(taken(before));
            }
            RequestState::Withdrawn { why } => {
                return Err(DecideRefusal::Withdrawn { why: why.clone() });
            }
        };
        if verdict.decision.accepts() && self.message.life.stop.is_some() {
            let why = "its message is being stopped".to_owned();
            return Err(DecideRefusal::Withdrawn { why });
        }
        let wants_answers = request.kind == RequestKind::UserInput;
        if wants_answers && verdict.decision.accepts() && verdict.answers.is_none() {
            let why = "Codex wants to be told something, and no answers were given".to_owned();
            return Err(DecideRefusal::Unfit { why });
        }
        Ok(judged)
    }

    /// A no that ends the turn ends its message too: it would only ask again.
    fn end(
        &self,
        by: Actor,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Result<Vec<Action>, Refused> {
        let cancel = Cancel {
            message_id: self.message.message_id.clone(),
            by,
        };
        let ended = cancel.decide(CancelView::of(self.message.clone(), self.replies), now)?;
        changes.extend(ended.changes);
        Ok(ended.actions)
    }

    /// Whether they may.
    pub(super) fn may(&self, authority: &Authority) -> Result<(), DecideRefusal> {
        let Authority::Sender {
            conversation_id,
            sender,
            tier,
        } = authority
        else {
            return Ok(());
        };
        let (request, message) = (&self.request, &self.message);
        if *conversation_id != message.conversation_id {
            // Whether it exists is nobody's business elsewhere.
            return Err(DecideRefusal::Unknown);
        }
        let sent_it = *sender == message.sender && *tier == message.tier;
        let allowed = request.sender_may(*tier) && (*tier == Tier::Owner || sent_it);
        match (allowed, request.deciders) {
            (true, _) => Ok(()),
            (false, Deciders::Owner) => Err(DecideRefusal::NotYours {
                who: "the owner of this bridge",
            }),
            (false, Deciders::Sender) => Err(DecideRefusal::NotYours {
                who: "the owner of this bridge, or for a question to the user whoever sent the message,",
            }),
        }
    }
}

fn taken(before: &Verdict) -> DecideRefusal {
    match before.via.as_str() {
        Verdict::DEADLINE => DecideRefusal::Expired,
        _ => DecideRefusal::Decided {
            decision: before.decision,
            by: before.by.to_string(),
            via: before.via.clone(),
        },
    }
}

/// Codex was told. Answers that nobody may read later are forgotten now: until here a crash could have needed them.
#[derive(Clone, Debug)]
pub struct Told {
    /// Which.
    pub request_id: RequestId,
}

impl Staged for Told {
    type View = Option<Request>;
    type Outcome = ();
    const NAME: &'static str = "told";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        rows.request(&self.request_id)
    }

    fn decide(self, view: Self::View, _now: Timestamp) -> Result<Decision<()>, Refused> {
        let mut changes = Vec::new();
        if let Some(request) = view
            && let RequestState::Decided(verdict) = request.state
            && verdict.answers.is_some()
        {
            let state = RequestState::Decided(Verdict {
                answers: None,
                ..verdict
            });
            changes.push(Change::Request {
                request_id: self.request_id,
                from: state.name(),
                to: state,
            });
        }
        Ok(Decision {
            changes,
            actions: Vec::new(),
            outcome: (),
        })
    }
}

/// A decision did not reach Codex.
#[derive(Clone, Debug)]
pub struct Unheard {
    /// Which.
    pub request_id: RequestId,
    /// Why not.
    pub because: Deaf,
    /// How often Codex was told it again when this telling began.
    pub told_again: u32,
}

/// Why a decision did not reach Codex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deaf {
    /// It does not ask that, as far as can be seen now.
    Gone,
    /// The life that asked can't be reached, and was not told.
    Cut,
    /// It still asks: the answer did not fit.
    Unfit {
        /// Why.
        why: String,
    },
}

impl Staged for Unheard {
    type View = Option<Question>;
    type Outcome = ();
    const NAME: &'static str = "unheard";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        match rows.request(&self.request_id)? {
            Some(request) => Question::load(rows, request),
            None => Ok(None),
        }
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let Some(question) = view else {
            return Ok(Decision::nothing(()));
        };
        let RequestState::Decided(verdict) = question.request.state.clone() else {
            return Ok(Decision::nothing(()));
        };
        // Codex asked again meanwhile and was told: a grant would let the same command through a second time.
        if question.request.told_again != self.told_again {
            return Ok(Decision::nothing(()));
        }
        // What the bridge decides by itself it decides again.
        if self.because == Deaf::Cut && verdict.is_own() {
            return Ok(Decision::nothing(()));
        }
        let awaits = question.message.life.state.name().awaits_answer();
        let headline = &question.request.headline;
        let (to, line, notice) = match &self.because {
            Deaf::Unfit { why } => {
                let line = format!("the answer of {} does not fit: {why}", verdict.by);
                let notice = format!(
                    "The answer to Codex's question does not fit: {why}\n\n{}",
                    question.asks(now)
                );
                (RequestState::Open, line, Some(notice))
            }
            // Its life is over, or the turn out of sight: if it still asks, it will ask again, and the word of a
            // person holds.
            Deaf::Cut | Deaf::Gone
                if awaits && (self.because == Deaf::Cut || !question.turn_lives()) =>
            {
                (
                    RequestState::Granted(verdict),
                    format!("Codex is told when it asks again: {headline}"),
                    None,
                )
            }
            Deaf::Cut | Deaf::Gone => {
                let why = "Codex did not wait for the answer any more".to_owned();
                let line = format!("{why}: {headline}");
                // Who decided heard that it counts; the end of a message tells everything else.
                let notice = (awaits && !verdict.is_own()).then(|| line.clone());
                (RequestState::Withdrawn { why }, line, notice)
            }
        };
        let mut changes = vec![question.moved(to)];
        let actions = question.tell(&line, notice, now, &mut changes);
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}

/// Codex let go of a question without our answer: another client gave it, or its turn is over.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// The message whose turn asked.
    pub message_id: MessageId,
    /// The life of Codex that asked.
    pub incarnation: IncarnationId,
    /// By what name.
    pub rpc_id: String,
}

impl Staged for Resolve {
    type View = Vec<Question>;
    type Outcome = Vec<RequestId>;
    const NAME: &'static str = "resolve";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let named = rows.requests_named(&self.message_id, &self.incarnation, &self.rpc_id)?;
        let mut open = Vec::new();
        for request in named {
            if request.state == RequestState::Open {
                open.extend(Question::load(rows, request)?);
            }
        }
        Ok(open)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<Vec<RequestId>>, Refused> {
        let mut decision = Decision::nothing(Vec::new());
        // One name is open once: a second row of it was withdrawn when the first was asked.
        for question in view.into_iter().take(1) {
            let why = "it was settled at Codex, without this bridge".to_owned();
            let line = format!("{why}: {}", question.request.headline);
            decision
                .changes
                .push(question.moved(RequestState::Withdrawn { why }));
            decision
                .actions
                .extend(question.tell(&line, None, now, &mut decision.changes));
            decision.outcome.push(question.request.request_id);
        }
        Ok(decision)
    }
}

#[cfg(test)]
mod unheard_tests {
    use super::*;
    use crate::fixture;
    use crate::value::{DecidedBy, MessageState, TurnId};

    /// What becomes of a decision that Codex did not hear while its turn is still taken for alive.
    fn unheard(by: DecidedBy, because: Deaf) -> Decision<()> {
        let verdict = Verdict {
            by,
            ..Verdict::own(RequestDecision::Accept, "cli", Timestamp(0))
        };
        let request = fixture::request(RequestState::Decided(verdict));
        let turn_id = TurnId::new("t");
        let message = fixture::message(MessageState::Running { turn_id }, |life| life.attempt = 1);
        let request_id = request.request_id.clone();
        let question = Question::new(request, message, 1, 1);
        let unheard = Unheard {
            request_id,
            because,
            told_again: 0,
        };
        unheard.decide(Some(question), Timestamp(1)).unwrap()
    }

    fn moved(decision: &Decision<()>) -> Option<&RequestState> {
        decision.changes.iter().find_map(|change| match change {
            Change::Request { to, .. } => Some(to),
            _ => None,
        })
    }

    fn told(decision: &Decision<()>) -> bool {
        let mut changes = decision.changes.iter();
        changes.any(|change| matches!(change, Change::NewReply(_)))
    }

    #[test]
    fn undelivered_human_decision_becomes_grant() {
        let cut = unheard(DecidedBy::caller("ann"), Deaf::Cut);
        assert!(
            matches!(moved(&cut), Some(RequestState::Granted(verdict)) if verdict.by.is_caller("ann")),
            "{cut:?}"
        );
        assert_eq!(unheard(DecidedBy::Bridge, Deaf::Cut).changes, []);
    }

    #[test]
    fn f10_no_name_means_the_bridge() {
        let named = DecidedBy::caller(DecidedBy::BRIDGE_NAME);
        assert_eq!(named.to_string(), DecidedBy::Bridge.to_string());
        let cut = unheard(named, Deaf::Cut);
        assert!(
            matches!(moved(&cut), Some(RequestState::Granted(_))),
            "{cut:?}"
        );
    }

    #[test]
    fn undelivered_decision_notifies_its_decider() {
        let gone = unheard(DecidedBy::caller("ann"), Deaf::Gone);
        assert!(
            matches!(moved(&gone), Some(RequestState::Withdrawn { .. })),
            "{gone:?}"
        );
        assert!(told(&gone), "{gone:?}");
        assert!(!told(&unheard(DecidedBy::Bridge, Deaf::Gone)));
    }
}
