//! Who may decide an approval request, and the decision. The first valid decision wins by the guard on the row's state; all
//! others are refused with a reason. What becomes of a decision that does not reach Codex is here too.

use super::{RequestCase, line, past, set_state};
use crate::requester::sent_by;
use crate::step::{Action, Cancel, RunError, Transition, Tx};
use crate::value::{
    ConversationId, Deciders, EffectDigest, IncarnationId, Message, MessageId, Request,
    RequestDecision, RequestId, RequestKind, RequestState, RequestVerdict as Verdict, Tier,
    Timestamp,
};

/// By what right somebody decides. Made from what a channel or a front has checked, never from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// On a surface of the owner: the command line, or a token with the scope to approve.
    Owner,
    /// A token without the scope to approve. To accept is a scope of its own: whoever may decline need not be trusted
    /// with the machine. An answer to what Codex asks about their own work gives no rights, so they may give it.
    Caller { name: String },
    /// In a conversation.
    Sender {
        conversation_id: ConversationId,
        /// By the channel's authenticated field.
        sender: String,
        tier: Tier,
    },
}

impl Authority {
    /// Refuses a decision that is not theirs. `starter` started the task that the message belongs to, if it is of one.
    pub fn check(
        &self,
        decision: RequestDecision,
        request: &Request,
        message: &Message,
        starter: Option<&str>,
    ) -> Result<(), DecideRefusal> {
        let allowed = match self {
            Self::Owner => true,
            Self::Caller { name } => {
                let own = sent_by(message, name) || starter == Some(name);
                !decision.accepts() || (own && request.kind == RequestKind::UserInput)
            }
            Self::Sender {
                conversation_id,
                sender,
                tier,
            } => {
                if *conversation_id != message.conversation_id {
                    // Whether it exists is nobody's business elsewhere.
                    return Err(DecideRefusal::Unknown);
                }
                let sent_it = *sender == message.sender && *tier == message.tier;
                request.sender_may(*tier) && (*tier == Tier::Owner || sent_it)
            }
        };
        if allowed {
            return Ok(());
        }
        let who = match request.deciders {
            Deciders::Owner => "the owner of this bridge",
            Deciders::Sender => {
                "the owner of this bridge, or for a question to the user whoever sent the message,"
            }
        };
        Err(DecideRefusal::NotYours { who })
    }
}

/// Answers an approval request.
#[derive(Clone, Debug)]
pub struct Decide {
    pub request_id: RequestId,
    /// What whoever decides was shown, if they say so.
    pub digest: Option<EffectDigest>,
    pub verdict: Verdict,
    pub authority: Authority,
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecideOutcome {
    /// It counts, and is sent to Codex.
    Applied,
    /// It counts: Codex died while it asked, and gets the decision when it asks the same again.
    Granted,
    /// It does not count.
    Refused(DecideRefusal),
}

/// Why a decision does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideRefusal {
    /// There is no such approval request.
    #[error("there is no such question")]
    Unknown,
    /// Somebody was first.
    #[error("{} already by {by} ({via})", past(*.decision).to_lowercase())]
    Decided {
        decision: RequestDecision,
        by: String,
        via: String,
    },
    /// Nobody decided in time.
    #[error("too late: nobody decided in time, and it was declined")]
    Expired,
    /// It is not asked any more.
    #[error("it is not asked any more: {why}")]
    Withdrawn { why: String },
    /// Somebody else must decide.
    #[error("only {who} may decide that")]
    NotYours { who: &'static str },
    /// They were shown something else.
    #[error(
        "what was shown is not what Codex asks here (another digest): look at the question again, then decide"
    )]
    NotShown,
    /// The answer does not fit the request.
    #[error("the answer does not fit: {why}")]
    Unfit { why: String },
}

impl UndeliveredReason {
    /// The words in the log.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Gone => "it does not ask that any more",
            Self::Cut => "it can't be reached",
            Self::Unfit { .. } => "the answer does not fit",
        }
    }
}

impl Transition for Decide {
    type Outcome = DecideOutcome;
    const NAME: &'static str = "decide";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<DecideOutcome, RunError> {
        let Some(case) = load(tx, &self.request_id)? else {
            return Ok(DecideOutcome::Refused(DecideRefusal::Unknown));
        };
        let shown = self.digest.as_ref();
        case.decide(tx, self.verdict, &self.authority, shown, now)
    }
}

fn load(tx: &Tx<'_>, request_id: &RequestId) -> Result<Option<RequestCase>, RunError> {
    Ok(match tx.request(request_id)? {
        Some(request) => RequestCase::load(&**tx, request)?,
        None => None,
    })
}

impl RequestCase {
    /// Applies a decision, or says why it does not count.
    pub(in crate::step) fn decide(
        &self,
        tx: &mut Tx<'_>,
        verdict: Verdict,
        authority: &Authority,
        shown: Option<&EffectDigest>,
        now: Timestamp,
    ) -> Result<DecideOutcome, RunError> {
        let task = match authority {
            Authority::Caller { .. } => tx.started_task(&self.message.conversation_id)?,
            Authority::Owner | Authority::Sender { .. } => None,
        };
        let starter = task.as_ref().map(|task| task.owner.as_str());
        let (request, message) = (&self.request, &self.message);
        let allowed = authority.check(verdict.decision, request, message, starter);
        let next = allowed.and_then(|()| self.next(&verdict, now));
        let next = next.and_then(|next| match shown {
            Some(shown) if *shown != request.digest => Err(DecideRefusal::NotShown),
            Some(_) | None => Ok(next),
        });
        let (to, outcome) = match next {
            Ok(next) => next,
            Err(refusal) => return Ok(DecideOutcome::Refused(refusal)),
        };
        self.set_state(tx, to)?;
        let detail = format!(
            "{} request {} ({})",
            verdict.decision.as_str(),
            request.request_id,
            verdict.via
        );
        tx.audit(&verdict.by, Decide::NAME, &message.message_id, detail, now)?;
        let ends = verdict.decision == RequestDecision::Cancel;
        let notice = match authority {
            // The end of the message tells it.
            Authority::Owner | Authority::Caller { .. } if ends => None,
            Authority::Owner | Authority::Caller { .. } => self.settled(&verdict),
            // The answer to their own words tells them.
            Authority::Sender { .. } => None,
        };
        self.record(tx, &line(request, &verdict), notice, now)?;
        if outcome == DecideOutcome::Applied {
            tx.act(Action::Answer {
                request_id: request.request_id.clone(),
            });
        }
        if ends {
            // A no that ends the turn ends its message too: it would only ask again.
            let cancel = Cancel {
                message_id: message.message_id.clone(),
                by: verdict.by.actor(),
            };
            cancel.stop(tx, message, now)?;
        }
        Ok(outcome)
    }

    /// The state that a decision leads to.
    fn next(
        &self,
        verdict: &Verdict,
        now: Timestamp,
    ) -> Result<(RequestState, DecideOutcome), DecideRefusal> {
        let request = &self.request;
        if request.state.waits() && request.deadline <= now {
            return Err(DecideRefusal::Expired);
        }
        let verdict_of = || verdict.clone();
        let next = match &request.state {
            RequestState::Open => (RequestState::Decided(verdict_of()), DecideOutcome::Applied),
            RequestState::Orphaned => (RequestState::Granted(verdict_of()), DecideOutcome::Granted),
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
            let why = "Codex asks for an answer, and none was given".to_owned();
            return Err(DecideRefusal::Unfit { why });
        }
        Ok(next)
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

/// Codex has the decision. Answers that nobody may read later are forgotten now: until here a crash could have needed
/// them.
#[derive(Clone, Debug)]
pub struct AnswerDelivered {
    pub request_id: RequestId,
}

impl Transition for AnswerDelivered {
    type Outcome = ();
    const NAME: &'static str = "answer_delivered";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<(), RunError> {
        if let Some(request) = tx.request(&self.request_id)?
            && let RequestState::Decided(verdict) = &request.state
            && verdict.answers.is_some()
        {
            let forgotten = Verdict {
                answers: None,
                ..verdict.clone()
            };
            set_state(tx, &request, RequestState::Decided(forgotten))?;
        }
        Ok(())
    }
}

/// A decision did not reach Codex.
#[derive(Clone, Debug)]
pub struct AnswerUndelivered {
    pub request_id: RequestId,
    pub because: UndeliveredReason,
    /// How often Codex had been sent it again when this delivery began.
    pub resends: u32,
}

/// Why a decision did not reach Codex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndeliveredReason {
    /// It does not ask that, as far as can be seen now.
    Gone,
    /// The life that asked can't be reached, and was sent nothing.
    Cut,
    /// It still asks: the answer did not fit.
    Unfit { why: String },
}

impl Transition for AnswerUndelivered {
    type Outcome = ();
    const NAME: &'static str = "answer_undelivered";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let Some(case) = load(tx, &self.request_id)? else {
            return Ok(());
        };
        let RequestState::Decided(verdict) = case.request.state.clone() else {
            return Ok(());
        };
        // Codex asked again meanwhile and was answered: a grant would let the same command through a second time.
        if case.request.resends != self.resends {
            return Ok(());
        }
        // What the bridge decides by itself it decides again.
        if self.because == UndeliveredReason::Cut && verdict.is_own() {
            return Ok(());
        }
        let awaits = case.message.life.state.name().awaits_answer();
        let headline = &case.request.headline;
        let (to, line, notice) = match &self.because {
            UndeliveredReason::Unfit { why } => {
                let line = format!("the answer of {} does not fit: {why}", verdict.by);
                let notice = format!(
                    "The answer to Codex's question does not fit: {why}\n\n{}",
                    case.asks(now)
                );
                (RequestState::Open, line, Some(notice))
            }
            // Its life is over, or the turn out of sight: if it still asks, it will ask again, and the word of a
            // person holds.
            UndeliveredReason::Cut | UndeliveredReason::Gone
                if awaits && (self.because == UndeliveredReason::Cut || !case.turn_lives()) =>
            {
                (
                    RequestState::Granted(verdict),
                    format!("Codex is told when it asks again: {headline}"),
                    None,
                )
            }
            UndeliveredReason::Cut | UndeliveredReason::Gone => {
                let why = "Codex did not wait for the answer any more".to_owned();
                let line = format!("{why}: {headline}");
                // The decider was shown that it counts; the end of a message says everything else.
                let notice = (awaits && !verdict.is_own()).then(|| line.clone());
                (RequestState::Withdrawn { why }, line, notice)
            }
        };
        case.set_state(tx, to)?;
        Ok(case.record(tx, &line, notice, now)?)
    }
}

/// Codex let go of a request without our answer: another client gave it, or its turn is over.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// The message whose turn asked.
    pub message_id: MessageId,
    pub incarnation: IncarnationId,
    pub rpc_id: String,
}

impl Transition for Resolve {
    type Outcome = Vec<RequestId>;
    const NAME: &'static str = "resolve";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<RequestId>, RunError> {
        let named = tx.requests_named(&self.message_id, &self.incarnation, &self.rpc_id)?;
        // One name is open once: a second row of it was withdrawn when the first was asked.
        let open = named
            .into_iter()
            .find(|request| request.state == RequestState::Open);
        let Some(request) = open else {
            return Ok(Vec::new());
        };
        let Some(case) = RequestCase::load(&**tx, request)? else {
            return Ok(Vec::new());
        };
        let why = "it was settled at Codex, without this bridge".to_owned();
        let line = format!("{why}: {}", case.request.headline);
        case.set_state(tx, RequestState::Withdrawn { why })?;
        case.record(tx, &line, None, now)?;
        Ok(vec![case.request.request_id])
    }
}
