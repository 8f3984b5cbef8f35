//! Alerts: notice what there is to tell, begin to send it, and record how that ended. The intent is on disk before the
//! send, as for every subscription.

use super::receiver::is_good;
use super::subscription::next_try;
use super::{RunError, Transition, Tx};
use crate::alerts::{AlertEvent, noticed};
use crate::limits::{ALERTS_SINGLE_MAX, ALERTS_TOGETHER_MAX, ALERTS_WINDOW_MS};
use crate::port::{AlertChange, Change, RowsError};
use crate::value::{
    Alert, AlertKind, AlertState, AlertSubject, Failure, Receiver, ReceiverId, Timestamp,
};

/// Writes down what there is to tell of these subjects.
#[derive(Clone, Debug)]
pub struct NoticeAlerts {
    pub subjects: Vec<AlertSubject>,
}

impl Transition for NoticeAlerts {
    /// Who has something to be sent now.
    type Outcome = Vec<ReceiverId>;
    const NAME: &'static str = "notice_alerts";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<ReceiverId>, RunError> {
        let receivers = tx.receivers()?;
        let mut who = Vec::new();
        for alert in noticed(&**tx, &receivers, &self.subjects, now)? {
            if !is_ours(tx, &alert, now)? {
                continue;
            }
            if !who.contains(&alert.receiver_id) {
                who.push(alert.receiver_id.clone());
            }
            put(tx, alert)?;
        }
        Ok(who)
    }
}

/// Only the node that has the conversation sends.
fn is_ours(tx: &mut Tx<'_>, alert: &Alert, now: Timestamp) -> Result<bool, RowsError> {
    if tx.this_node().is_none() {
        return Ok(true);
    }
    let there = tx.conversation(&alert.conversation_id)?.is_some();
    Ok(there && tx.come_home(&alert.conversation_id, now)?)
}

fn put(tx: &mut Tx<'_>, alert: Alert) -> Result<(), RowsError> {
    tx.change(Change::Alert(AlertChange::Put(alert)))
}

/// What a receiver can do with alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertWay {
    /// What it shows of a question disappears when that is settled.
    pub takes_back: bool,
    /// Too many at once become one summary.
    pub sums_up: bool,
}

/// Begins to send the next alert of a receiver, or a summary.
#[derive(Clone, Debug)]
pub struct AlertBegin {
    pub receiver_id: ReceiverId,
    pub way: AlertWay,
}

/// Result of [`AlertBegin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlertStep {
    /// Send it now.
    Send(Box<AlertDelivery>),
    /// Not before this.
    Later(Timestamp),
    /// There is nothing to send.
    Nothing,
}

/// Alerts on their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertDelivery {
    pub receiver: Receiver,
    /// More than one are a summary.
    pub events: Vec<AlertEvent>,
    /// An earlier send may have arrived.
    pub again: bool,
    /// With the try counted.
    pub tries: u32,
    pub first_try_at: Timestamp,
}

/// An alert, and how its subject stands.
type Due = (Alert, AlertEvent);

impl Transition for AlertBegin {
    type Outcome = AlertStep;
    const NAME: &'static str = "alert_begin";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<AlertStep, RunError> {
        let Some(receiver) = tx.receiver(&self.receiver_id)? else {
            return Ok(AlertStep::Nothing);
        };
        if !is_good(tx, &receiver, now)? {
            let gone = AlertChange::DropReceiver(receiver.receiver_id);
            tx.change(Change::Alert(gone))?;
            return Ok(AlertStep::Nothing);
        }
        let due = self.due(tx, now)?;
        // Who did not take one is not sent the next one meanwhile.
        let pauses = due.iter().filter_map(|(alert, _)| match alert.state {
            AlertState::Waiting { not_before } => not_before.filter(|at| *at > now),
            AlertState::Sending | AlertState::Shown | AlertState::Over => None,
        });
        if let Some(at) = pauses.min() {
            return Ok(AlertStep::Later(at));
        }
        let (batch, again) = match self.choose(tx, due, now)? {
            Choice::Take { batch, again } => (batch, again),
            Choice::Later(at) => return Ok(AlertStep::Later(at)),
            Choice::Nothing => return Ok(AlertStep::Nothing),
        };
        let summed = batch.len() > 1;
        let mut delivery = AlertDelivery {
            receiver,
            events: Vec::with_capacity(batch.len()),
            again,
            tries: 0,
            first_try_at: now,
        };
        for (alert, event) in batch {
            let alert = Alert {
                state: AlertState::Sending,
                summed: summed || alert.summed,
                tries: alert.tries.saturating_add(1),
                first_try_at: Some(alert.first_try_at.unwrap_or(now)),
                tried_at: Some(now),
                ..alert
            };
            delivery.tries = delivery.tries.max(alert.tries);
            delivery.first_try_at = delivery.first_try_at.min(alert.first_try_at.unwrap_or(now));
            delivery.events.push(event);
            put(tx, alert)?;
        }
        Ok(AlertStep::Send(Box::new(delivery)))
    }
}

enum Choice {
    Take { batch: Vec<Due>, again: bool },
    Later(Timestamp),
    Nothing,
}

impl AlertBegin {
    /// What is to be sent and still true. What is not is written off, or taken back where it may have been shown.
    fn due(&self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Due>, RowsError> {
        let mut due = Vec::new();
        for alert in tx.unsent_alerts(&self.receiver_id, ALERTS_TOGETHER_MAX)? {
            if !is_ours(tx, &alert, now)? {
                continue;
            }
            let event = AlertEvent::load(&**tx, &alert.subject)?;
            match current(alert, event, self.way) {
                (alert, Some(event)) => due.push((alert, event)),
                (over, None) => put(tx, over)?,
            }
        }
        Ok(due)
    }

    /// What fits is sent each by itself; what does not is one summary, at most one in a while.
    fn choose(&self, tx: &Tx<'_>, mut due: Vec<Due>, now: Timestamp) -> Result<Choice, RowsError> {
        let begun = |(alert, _): &Due| alert.state == AlertState::Sending;
        if let Some(at) = due.iter().position(begun) {
            let first = due.swap_remove(at);
            let mut batch = vec![first];
            if batch.iter().any(|(alert, _)| alert.summed) {
                due.retain(|(alert, _)| alert.state == AlertState::Sending && alert.summed);
                batch.append(&mut due);
            }
            return Ok(Choice::Take { batch, again: true });
        }
        if due.is_empty() {
            return Ok(Choice::Nothing);
        }
        let one = |mut due: Vec<Due>| Choice::Take {
            batch: due.drain(..1).collect(),
            again: false,
        };
        // What disappears is no disturbance.
        if let Some(at) = due.iter().position(|(alert, _)| alert.is_settled()) {
            return Ok(one(vec![due.swap_remove(at)]));
        }
        if !self.way.sums_up {
            return Ok(one(due));
        }
        let since = now.plus_ms(-ALERTS_WINDOW_MS);
        let tried = tx.alerts_tried(&self.receiver_id, since)?;
        let room = ALERTS_SINGLE_MAX.saturating_sub(tried.single);
        if due.len() as u64 <= room {
            return Ok(one(due));
        }
        if let Some(at) = tried.summary_at {
            return Ok(Choice::Later(at.plus_ms(ALERTS_WINDOW_MS)));
        }
        Ok(Choice::Take {
            batch: due,
            again: false,
        })
    }
}

/// The alert as it is to be sent now; without an event it is over.
fn current(alert: Alert, event: Option<AlertEvent>, way: AlertWay) -> (Alert, Option<AlertEvent>) {
    match event {
        Some(event) if event.mark == alert.mark => (alert, Some(event)),
        Some(event) if !event.is_settled() => {
            let alert = Alert {
                mark: event.mark.clone(),
                state: AlertState::Waiting { not_before: None },
                summed: false,
                tries: 0,
                first_try_at: None,
                ..alert
            };
            (alert, Some(event))
        }
        None if alert.is_settled() => {
            let event = AlertEvent::settled(&alert);
            (alert, Some(event))
        }
        Some(_) | None => {
            let may_be_shown = alert.tries > 0 && way.takes_back && !alert.summed;
            if alert.subject.kind != AlertKind::Question || !may_be_shown {
                let state = AlertState::Over;
                return (Alert { state, ..alert }, None);
            }
            let alert = alert.settle();
            let event = event.unwrap_or_else(|| AlertEvent::settled(&alert));
            (alert, Some(event))
        }
    }
}

/// Records the result of a send.
#[derive(Clone, Debug)]
pub struct AlertEnd {
    pub receiver_id: ReceiverId,
    pub way: AlertWay,
    /// What was sent: subjects and marks.
    pub sent: Vec<(AlertSubject, String)>,
    /// Why it was not taken.
    pub failure: Option<Failure>,
    /// There is no such receiver any more.
    pub is_gone: bool,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

impl Transition for AlertEnd {
    /// When it is tried again.
    type Outcome = Option<Timestamp>;
    const NAME: &'static str = "alert_end";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<Timestamp>, RunError> {
        let Some(receiver) = tx.receiver(&self.receiver_id)? else {
            return Ok(None);
        };
        if self.is_gone {
            let gone = AlertChange::DropReceiver(self.receiver_id);
            tx.change(Change::Alert(gone))?;
            return Ok(None);
        }
        let mut later = None;
        for (subject, mark) in &self.sent {
            let alert = tx.alert(&self.receiver_id, subject)?;
            let is_it = |it: &Alert| it.state == AlertState::Sending && it.mark == *mark;
            let Some(alert) = alert.filter(is_it) else {
                continue;
            };
            let after = match &self.failure {
                None => self.taken(tx, alert)?,
                Some(failure) => {
                    let at = next_try(failure, (alert.tries, alert.first_try_at), self.jitter, now);
                    later = later.max(at);
                    failed(alert, at)
                }
            };
            put(tx, after)?;
        }
        let error = self.failure.map(|failure| failure.reason);
        if receiver.error != error {
            tx.change(Change::Alert(AlertChange::ReceiverError {
                receiver_id: self.receiver_id,
                error,
            }))?;
        }
        Ok(later)
    }
}

impl AlertEnd {
    fn taken(&self, tx: &Tx<'_>, alert: Alert) -> Result<Alert, RowsError> {
        let stays = alert.mark == Alert::ASKED && self.way.takes_back && !alert.summed;
        let state = match stays {
            true => AlertState::Shown,
            false => AlertState::Over,
        };
        let alert = Alert { state, ..alert };
        if !stays {
            return Ok(alert);
        }
        // It may have been settled while it was sent.
        let event = AlertEvent::load(&**tx, &alert.subject)?;
        Ok(match event.is_none_or(|event| event.is_settled()) {
            true => alert.settle(),
            false => alert,
        })
    }
}

fn failed(alert: Alert, at: Option<Timestamp>) -> Alert {
    Alert {
        state: match at {
            Some(at) => AlertState::Waiting {
                not_before: Some(at),
            },
            None => AlertState::Over,
        },
        ..alert
    }
}
