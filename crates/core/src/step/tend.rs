//! Tend: the clock over open questions. At the deadline silence is a no (C10), once before it the sender is reminded.
//! Driven by rows, so that a crash loses no timer.

use super::question::Question;
use super::{Action, Decision, Refused, Staged};
use crate::port::{Change, Read, RowsError};
use crate::value::{
    RequestDecision, RequestId, RequestState, RequestVerdict as Verdict, Timestamp,
};

/// Looks for one question whose time has come.
#[derive(Clone, Debug)]
pub struct Tend {
    /// The same `now` the decision gets.
    pub now: Timestamp,
    /// How long after it was asked the sender is reminded; never when absent.
    pub reminder_ms: Option<i64>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tended {
    /// One was settled or told of; ask again.
    Did(RequestId),
    /// Nothing is due before this.
    Idle {
        /// When.
        next_due: Option<Timestamp>,
    },
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    overdue: Option<Question>,
    forgotten: Option<Question>,
    next_due: Option<Timestamp>,
}

impl Staged for Tend {
    type View = View;
    type Outcome = Tended;
    const NAME: &'static str = "tend";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let load = |request| match request {
            Some(request) => Question::load(rows, request),
            None => Ok(None),
        };
        let overdue = load(rows.overdue_request(self.now)?)?;
        let (mut forgotten, mut reminder) = (None, None);
        if let Some(after_ms) = self.reminder_ms {
            let asked_by = self.now.plus_ms(after_ms.saturating_neg());
            forgotten = load(rows.unreminded_request(asked_by)?)?;
            let first = rows.next_unreminded()?;
            reminder = first.map(|asked| asked.plus_ms(after_ms));
        }
        let deadline = rows.next_deadline()?;
        Ok(View {
            overdue,
            forgotten,
            next_due: [deadline, reminder].into_iter().flatten().min(),
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<Tended>, Refused> {
        if let Some(question) = view.overdue {
            return Ok(expire(&question, now));
        }
        match view.forgotten {
            Some(question) => Ok(remind(&question, now)),
            None => Ok(Decision::nothing(Tended::Idle {
                next_due: view.next_due,
            })),
        }
    }
}

fn expire(question: &Question, now: Timestamp) -> Decision<Tended> {
    let request = &question.request;
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
            let line = format!("nobody decided in time, so Codex is told no: {headline}");
            let notice = format!("Declined, because nobody decided in time: {headline}");
            let verdict = Verdict::own(RequestDecision::Decline, Verdict::DEADLINE, now);
            (RequestState::Decided(verdict), line, Some(notice))
        }
    };
    let told = matches!(to, RequestState::Decided(_));
    let mut changes = vec![question.moved(to)];
    let mut actions = question.tell(&line, notice, now, &mut changes);
    if told {
        actions.push(Action::Answer {
            request_id: request.request_id.clone(),
        });
    }
    Decision {
        changes,
        actions,
        outcome: Tended::Did(request.request_id.clone()),
    }
}

fn remind(question: &Question, now: Timestamp) -> Decision<Tended> {
    let request = &question.request;
    let mut changes = vec![Change::Reminded {
        request_id: request.request_id.clone(),
    }];
    let line = format!("Codex still waits for an answer: {}", request.headline);
    let actions = question.tell(&line, question.reminds(now), now, &mut changes);
    Decision {
        changes,
        actions,
        outcome: Tended::Did(request.request_id.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::value::MessageState;

    #[test]
    fn expiry_notifies_unless_already_granted() {
        for (state, told) in [
            (RequestState::Open, true),
            (RequestState::Orphaned, true),
            (
                RequestState::Granted(Verdict::own(RequestDecision::Accept, "cli", Timestamp(0))),
                false,
            ),
        ] {
            let message = fixture::message(MessageState::Unclear { hold: None }, |_| {});
            let question = Question::new(fixture::request(state.clone()), message, 1, 1);
            let expired = expire(&question, Timestamp(3_600_000));
            let delivers = |action: &Action| matches!(action, Action::Deliver { .. });
            assert_eq!(expired.actions.iter().any(delivers), told, "{state:?}");
        }
    }
}
