//! Ask: Codex asked something while a turn runs. The request is a row before anybody answers it, and is known again
//! when Codex asks it again: after our restart by its name, after a death of Codex by its effect.
//!
//! Silence is never consent: what nobody may decide is declined here, and the event says so.

use super::{RequestCase, line, set_state};
use crate::limits;
use crate::port::{Change, RowsError};
use crate::step::{Action, Refused, RunError, Transition, Tx};
use crate::value::{
    Message, Request, RequestDecision, RequestId, RequestKind, RequestState,
    RequestVerdict as Verdict, Timestamp,
};

/// Journals an approval request of Codex.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The request, open. Its attempt and time are set here.
    pub request: Request,
    /// Set when a rule decides and nobody is asked.
    pub at_once: Option<Verdict>,
}

/// What becomes of an approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// Somebody must decide.
    Waits { request_id: RequestId },
    /// Codex is to be sent this now.
    Answer {
        request_id: RequestId,
        verdict: Verdict,
        /// How often Codex was sent it again, with this time.
        resends: u32,
    },
}

impl Transition for Ask {
    type Outcome = AskOutcome;
    const NAME: &'static str = "ask";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<AskOutcome, RunError> {
        let message_id = &self.request.message_id;
        let message = match tx.message(message_id)? {
            Some(message) if message.life.state.name().in_flight() => message,
            other => return Err(Refused::new(Self::NAME, message_id, other.as_ref()).into()),
        };
        let asked = tx.requests_asked(message_id)?;
        let request = Request {
            attempt: message.life.attempt,
            state: RequestState::Open,
            created_at: now,
            reminded: false,
            resends: 0,
            ..self.request
        };
        let named =
            tx.requests_named(&request.message_id, &request.incarnation, &request.rpc_id)?;
        let asking = Asking {
            at_once: stopping(&message, now)
                .or(self.at_once)
                .or_else(|| too_many(asked, now)),
            case: RequestCase { request, message },
            now,
        };
        Ok(match known(&named, &asking.case.request) {
            Some(known) => asking.again(tx, known)?,
            None => asking.insert(tx, &named)?,
        })
    }
}

/// The same request of the same life of Codex: by its name, its item and what was shown.
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

/// A request that Codex just asked.
struct Asking {
    case: RequestCase,
    at_once: Option<Verdict>,
    now: Timestamp,
}

impl Asking {
    /// Codex asks again what it asked before our restart.
    fn again(self, tx: &mut Tx<'_>, known: Request) -> Result<AskOutcome, RowsError> {
        let old = RequestCase {
            request: known,
            message: self.case.message.clone(),
        };
        let state = old.request.state.clone();
        let refused =
            matches!(&state, RequestState::Decided(verdict) if !verdict.decision.accepts());
        if let Some(verdict) = self.refusal()
            && !refused
        {
            old.set_state(tx, RequestState::Decided(verdict.clone()))?;
            old.record(tx, &line(&old.request, &verdict), None, self.now)?;
            return answer_again(tx, &old.request, verdict);
        }
        tx.announce(&old.message.message_id);
        match state {
            RequestState::Open | RequestState::Withdrawn { .. } => {}
            RequestState::Orphaned => old.set_state(tx, RequestState::Open)?,
            RequestState::Decided(verdict) => return answer_again(tx, &old.request, verdict),
            RequestState::Granted(verdict) => {
                old.set_state(tx, RequestState::Decided(verdict.clone()))?;
                return answer_again(tx, &old.request, verdict);
            }
        }
        Ok(AskOutcome::Waits {
            request_id: old.request.request_id,
        })
    }

    /// A no that nobody need be asked for. It goes before every yes that was said earlier: whoever said it did not
    /// know of the stop, or of the rule.
    fn refusal(&self) -> Option<Verdict> {
        let verdict = self.at_once.clone();
        verdict.filter(|verdict| !verdict.decision.accepts())
    }

    fn insert(mut self, tx: &mut Tx<'_>, named: &[Request]) -> Result<AskOutcome, RowsError> {
        let request = &self.case.request;
        let mut live = tx.live_requests(&request.message_id)?;
        live.retain(|other| other.digest == request.digest && other.kind == request.kind);
        // The same name for something else: what was shown before can't be decided any more.
        for other in named
            .iter()
            .filter(|other| other.state == RequestState::Open)
        {
            let why = "Codex asks something else instead".to_owned();
            set_state(tx, other, RequestState::Withdrawn { why })?;
        }
        if let Some(orphan) = live
            .iter()
            .find(|other| other.state == RequestState::Orphaned)
        {
            self.carry_on(tx, orphan)?;
        }
        let grant = live.iter().find_map(|other| match &other.state {
            RequestState::Granted(verdict) if other.deadline > self.now => Some((other, verdict)),
            _ => None,
        });
        if let Some(refusal) = self.refusal() {
            if let Some((grant, _)) = grant {
                let why = format!("it is refused since: {}", refusal.via);
                set_state(tx, grant, RequestState::Withdrawn { why })?;
            }
            return self.decided(tx, refusal);
        }
        if let Some((grant, verdict)) = grant {
            set_state(tx, grant, RequestState::Decided(verdict.clone()))?;
            let verdict = Verdict {
                via: Verdict::GRANT.to_owned(),
                at: self.now,
                ..verdict.clone()
            };
            return self.decided(tx, verdict);
        }
        match self.at_once.take() {
            Some(verdict) => self.decided(tx, verdict),
            None => self.waits(tx),
        }
    }

    /// A new life of Codex asks what the old one asked: whoever had time to decide has no more of it.
    fn carry_on(&mut self, tx: &mut Tx<'_>, orphan: &Request) -> Result<(), RowsError> {
        let request = &mut self.case.request;
        if orphan.deadline > self.now {
            request.deadline = orphan.deadline.min(request.deadline);
        }
        let why = format!("asked again as {}", request.request_id);
        set_state(tx, orphan, RequestState::Withdrawn { why })
    }

    fn decided(mut self, tx: &mut Tx<'_>, verdict: Verdict) -> Result<AskOutcome, RowsError> {
        let request = &mut self.case.request;
        request.state = RequestState::Decided(verdict.clone());
        let line = line(request, &verdict);
        let unknown = matches!(request.kind, RequestKind::ToolCall | RequestKind::Other(_));
        // Nobody could have known of it otherwise.
        let notice = unknown.then(|| format!("{line}. This bridge can't do that."));
        tx.change(Change::NewRequest(self.case.request.clone()))?;
        self.case.record(tx, &line, notice, self.now)?;
        Ok(AskOutcome::Answer {
            request_id: self.case.request.request_id,
            verdict,
            resends: 0,
        })
    }

    fn waits(self, tx: &mut Tx<'_>) -> Result<AskOutcome, RowsError> {
        let case = self.case;
        let line = format!("Codex asks: {}", case.request.headline);
        let notice = case.asks(self.now);
        tx.change(Change::NewRequest(case.request.clone()))?;
        case.record(tx, &line, Some(notice), self.now)?;
        // It does not hold a place while it waits, and its time is watched by the scheduler.
        tx.act(Action::Schedule);
        tx.act(Action::ScheduleAt {
            at: case.request.deadline,
        });
        Ok(AskOutcome::Waits {
            request_id: case.request.request_id,
        })
    }
}

/// Codex is sent an earlier decision once more. That is counted: whoever saw an earlier delivery fail must not make a
/// grant of it any more.
fn answer_again(
    tx: &mut Tx<'_>,
    known: &Request,
    verdict: Verdict,
) -> Result<AskOutcome, RowsError> {
    let request_id = known.request_id.clone();
    tx.change(Change::AnswerResent {
        request_id: request_id.clone(),
    })?;
    Ok(AskOutcome::Answer {
        request_id,
        verdict,
        resends: known.resends.saturating_add(1),
    })
}
