//! The clock over open approval requests. At the deadline silence is a no (C10), once before it the sender is reminded.
//! Driven by rows, so that a crash loses no timer.

use super::RequestCase;
use crate::port::{Change, RowsError, readable};
use crate::step::{Action, RunError, Transition, Tx};
use crate::value::{
    Request, RequestDecision, RequestId, RequestState, RequestVerdict as Verdict, Timestamp,
};

/// Requests looked at for one whose time has come: those that can't be read keep no other one back.
const LOOKED_AT: u32 = 16;

/// Looks for one approval request whose time has come.
#[derive(Clone, Debug)]
pub struct ExpireRequests {
    /// The time that deadlines are compared with.
    pub now: Timestamp,
    /// How long after it was asked the sender is reminded; never when absent.
    pub reminder_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpireOutcome {
    /// One was settled or its sender reminded; ask again.
    Did(RequestId),
    /// Nothing is due before this.
    Idle { next_due: Option<Timestamp> },
}

impl Transition for ExpireRequests {
    type Outcome = ExpireOutcome;
    const NAME: &'static str = "expire_requests";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<ExpireOutcome, RunError> {
        if let Some(case) = first(tx, tx.overdue_requests(self.now, LOOKED_AT)?)? {
            expire(tx, &case, now)?;
            return Ok(ExpireOutcome::Did(case.request.request_id));
        }
        let mut reminder = None;
        if let Some(after_ms) = self.reminder_ms {
            let asked_by = self.now.plus_ms(after_ms.saturating_neg());
            if let Some(case) = first(tx, tx.unreminded_requests(asked_by, LOOKED_AT)?)? {
                remind(tx, &case, now)?;
                return Ok(ExpireOutcome::Did(case.request.request_id));
            }
            let first = tx.next_unreminded(asked_by)?;
            reminder = first.map(|asked| asked.plus_ms(after_ms));
        }
        let deadline = tx.next_deadline(self.now)?;
        Ok(ExpireOutcome::Idle {
            next_due: [deadline, reminder].into_iter().flatten().min(),
        })
    }
}

/// The first one whose message can be read.
fn first(tx: &Tx<'_>, requests: Vec<Request>) -> Result<Option<RequestCase>, RowsError> {
    for request in requests {
        let case = readable(RequestCase::load(&**tx, request))?.flatten();
        if case.is_some() {
            return Ok(case);
        }
    }
    Ok(None)
}

fn expire(tx: &mut Tx<'_>, case: &RequestCase, now: Timestamp) -> Result<(), RowsError> {
    let request = &case.request;
    let headline = &request.headline;
    let over = |why: &str| RequestState::Withdrawn {
        why: why.to_owned(),
    };
    let (to, line, notice) = match &request.state {
        RequestState::Granted(_) => {
            let why = "Codex did not ask it again in time";
            (over(why), format!("{why}: {headline}"), None)
        }
        RequestState::Orphaned => {
            let why = "nobody decided in time";
            let notice =
                format!("Nobody decided in time, so a yes does not count any more: {headline}");
            (over(why), format!("{why}: {headline}"), Some(notice))
        }
        RequestState::Open | RequestState::Decided(_) | RequestState::Withdrawn { .. } => {
            let line = format!("nobody decided in time, so it is declined: {headline}");
            let notice = format!("Declined, because nobody decided in time: {headline}");
            let verdict = Verdict::own(RequestDecision::Decline, Verdict::DEADLINE, now);
            (RequestState::Decided(verdict), line, Some(notice))
        }
    };
    let declined = matches!(to, RequestState::Decided(_));
    case.set_state(tx, to)?;
    case.record(tx, &line, notice, now)?;
    if declined {
        tx.act(Action::Answer {
            request_id: request.request_id.clone(),
        });
    }
    Ok(())
}

fn remind(tx: &mut Tx<'_>, case: &RequestCase, now: Timestamp) -> Result<(), RowsError> {
    let request = &case.request;
    tx.change(Change::Reminded {
        request_id: request.request_id.clone(),
    })?;
    let line = format!("Codex still waits for an answer: {}", request.headline);
    case.record(tx, &line, case.reminds(now), now)
}
