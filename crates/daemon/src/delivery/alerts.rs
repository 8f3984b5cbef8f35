//! Alerts: finds in the rows what receivers must know, and sends it.
//!
//! A part of the notifier: the same wake-ups, slots and walks. Rows say what is sent and how far that is.

use super::alert_text::{AlertPayload, notification};
use super::notifier::{Key, Slot, SlotKind};
use crate::Daemon;
use crate::process::ids::{jitter, now};
use bridge_channel::notify::{BrowserKeys, PushFailure, PushMessage, Urgency, VapidKey};
use bridge_core::alerts::{noticed, subjects_of};
use bridge_core::limits::{ALERT_AGE_MS, PAGE_MAX};
use bridge_core::port::{Agent, Ledger, LedgerError, Read, RowsError, Sink, readable};
use bridge_core::step::{
    AlertBegin, AlertDelivery, AlertEnd, AlertStep, AlertWay, KeepPushKey, NoticeAlerts,
    SetAlertTargets,
};
use bridge_core::value::{
    Alert, AlertKind, AlertState, AlertSubject, Class, Failure, MessageId, PushDevice, Receiver,
    ReceiverId, RequestId, StateName, Timestamp,
};
use std::sync::Arc;
use std::time::Duration;

/// How long a push service keeps a question: about as long as one waits.
const QUESTION_KEPT: Duration = Duration::from_secs(3_600);
/// How long it keeps everything else.
const NEWS_KEPT: Duration = Duration::from_secs(24 * 3_600);

const NO_BROWSERS: &str = "no browser can be alerted here";

/// What a browser can do with alerts.
const BROWSER: AlertWay = AlertWay {
    takes_back: true,
    sums_up: true,
};

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Writes down what changed messages give to tell.
    pub(super) async fn notice_messages(
        self: &Arc<Self>,
        messages: Vec<MessageId>,
    ) -> Result<(), LedgerError> {
        if messages.is_empty() {
            return Ok(());
        }
        let read = self.ledger.read(move |rows| {
            let receivers = rows.receivers()?;
            let mut subjects = Vec::new();
            if !receivers.is_empty() {
                for message_id in &messages {
                    subjects.extend(subjects_of(rows, message_id, &receivers)?);
                }
            }
            to_notice(rows, &receivers, subjects)
        });
        self.notice(read.await?).await
    }

    async fn notice(self: &Arc<Self>, subjects: Vec<AlertSubject>) -> Result<(), LedgerError> {
        for some in subjects.chunks(PAGE_MAX as usize) {
            let subjects = some.to_vec();
            for receiver_id in self.commit(NoticeAlerts { subjects }).await? {
                self.alert(receiver_id);
            }
        }
        Ok(())
    }

    /// Looks at everything: a wake-up may be lost, rows are not.
    pub(super) async fn walk_alerts(self: &Arc<Self>) -> Result<(), LedgerError> {
        self.set_alert_targets().await?;
        let read = self.ledger.read(|rows| {
            let receivers = rows.receivers()?;
            let oldest = receivers.iter().map(|it| it.created_at).min();
            let Some(oldest) = oldest else {
                return Ok(None);
            };
            let since = oldest.max(now().plus_ms(-ALERT_AGE_MS));
            let mut subjects = subjects_since(rows, since)?;
            subjects.sort();
            subjects.dedup();
            let subjects = to_notice(rows, &receivers, subjects)?;
            let mut unsent = Vec::new();
            for receiver in receivers {
                let first = rows.unsent_alerts(&receiver.receiver_id, 1)?.pop();
                unsent.extend(first);
            }
            Ok(Some((subjects, unsent)))
        });
        let Some((subjects, unsent)) = read.await? else {
            return Ok(());
        };
        self.slots.some();
        self.notice(subjects).await?;
        for alert in unsent {
            match alert.state {
                AlertState::Waiting {
                    not_before: Some(at),
                } if at > now() => self.slots.due_at(at),
                AlertState::Waiting { .. }
                | AlertState::Sending
                | AlertState::Shown
                | AlertState::Over => self.alert(alert.receiver_id),
            }
        }
        Ok(())
    }

    /// Makes the targets of the configuration rows.
    async fn set_alert_targets(self: &Arc<Self>) -> Result<(), LedgerError> {
        let targets = self.settings().start.notify.alert_receivers();
        if targets.is_empty() {
            return Ok(());
        }
        let read = self.ledger.read(|rows| rows.receivers());
        let targets = SetAlertTargets::changed(&targets, &read.await?);
        if targets.is_empty() {
            return Ok(());
        }
        self.commit(SetAlertTargets { targets }).await
    }

    /// Sends a receiver what there is, if it is one that this daemon reaches.
    pub(super) fn alert(self: &Arc<Self>, receiver_id: ReceiverId) {
        let key = Key::Receiver(receiver_id.clone());
        let Some(slot) = self.slots.take(key, SlotKind::Alerts) else {
            return;
        };
        let daemon = Arc::clone(self);
        self.spawn_for(receiver_id.clone(), async move {
            if let Err(error) = daemon.alert_all(&slot, &receiver_id).await {
                tracing::error!(%error, %receiver_id, "an alert met a fault of the database");
            }
        });
    }

    async fn alert_all(
        self: &Arc<Self>,
        slot: &Slot,
        receiver_id: &ReceiverId,
    ) -> Result<(), LedgerError> {
        let id = receiver_id.clone();
        let receiver = self.ledger.read(move |rows| rows.receiver(&id)).await?;
        let way = receiver.and_then(|receiver| self.way_of(&receiver));
        let Some(way) = way else {
            return Ok(());
        };
        while !self.stopping.is_cancelled() {
            let begin = AlertBegin {
                receiver_id: receiver_id.clone(),
                way,
            };
            let delivery = match self.commit(begin).await? {
                AlertStep::Send(delivery) => delivery,
                AlertStep::Nothing if slot.asked_again() => continue,
                AlertStep::Nothing => return Ok(()),
                AlertStep::Later(at) => {
                    self.slots.due_at(at);
                    return Ok(());
                }
            };
            match self.alert_once(&delivery, way).await {
                Some(None) => {}
                Some(Some(at)) => {
                    self.slots.due_at(at);
                    return Ok(());
                }
                // It would be sent again at once, and again: the next walk comes back to it.
                None => {
                    slot.asked_again();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// `None` for a target of another daemon's configuration, or of one that was.
    fn way_of(&self, receiver: &Receiver) -> Option<AlertWay> {
        match &receiver.device {
            Some(_) => Some(BROWSER),
            None => self.settings().start.notify.way_of(&receiver.receiver_id),
        }
    }

    /// When it is tried again; nothing where its end could not be written.
    async fn alert_once(
        self: &Arc<Self>,
        delivery: &AlertDelivery,
        way: AlertWay,
    ) -> Option<Option<Timestamp>> {
        let outcome = self.send_alert(delivery).await;
        let refused = outcome.err();
        let receiver_id = &delivery.receiver.receiver_id;
        if let Some(refused) = &refused {
            let reason = crate::term::escape_line(&refused.failure.reason).into_owned();
            let (class, tries) = (refused.failure.class.as_str(), delivery.tries);
            tracing::warn!(%receiver_id, reason, class, tries, "an alert was not taken");
        }
        let sent = delivery.events.iter();
        // Must not be lost: what was taken would be sent again.
        self.insist(AlertEnd {
            receiver_id: receiver_id.clone(),
            way,
            sent: sent
                .map(|event| (event.subject.clone(), event.mark.clone()))
                .collect(),
            is_gone: refused.as_ref().is_some_and(|refused| refused.is_gone),
            failure: refused.map(|refused| refused.failure),
            jitter: jitter(),
        })
        .await
    }

    async fn send_alert(self: &Arc<Self>, delivery: &AlertDelivery) -> Result<(), PushFailure> {
        if let Some(device) = &delivery.receiver.device {
            return self.push_alert(device, delivery).await;
        }
        let settings = self.settings();
        let notify = &settings.start.notify;
        let target = notify.alert_target(&delivery.receiver.receiver_id);
        let target = target.map(|entry| entry.to.clone());
        let notification = notification(delivery, notify.console());
        let (Some(target), Some(notification)) = (target, notification) else {
            let reason = "the configuration does not have this target any more";
            return Err(Failure::new(Class::Config, reason).into());
        };
        Ok(self.notify_target(&target, notification).await?)
    }

    async fn push_alert(
        self: &Arc<Self>,
        device: &PushDevice,
        delivery: &AlertDelivery,
    ) -> Result<(), PushFailure> {
        let settings = self.settings();
        let Some(web_push) = settings.start.notify.web_push.as_ref() else {
            return Err(Failure::new(Class::Config, NO_BROWSERS).into());
        };
        let failed = |error: LedgerError| Failure::new(error.class(), error.to_string());
        let key = self.push_key().await.map_err(failed)?;
        let key = key.map_err(|why| Failure::new(Class::Transient, why))?;
        let keys = BrowserKeys::read(&device.p256dh, &device.auth);
        let keys = keys.map_err(|error| Failure::new(Class::Permanent, error.to_string()))?;
        let payload = AlertPayload::of(delivery);
        let text = serde_json::to_string(&payload)
            .map_err(|error| Failure::new(Class::Bug, error.to_string()))?;
        let (keep, urgency) = match payload.kind {
            "question" => (QUESTION_KEPT, Urgency::High),
            "settled" => (QUESTION_KEPT, Urgency::Normal),
            _ => (NEWS_KEPT, Urgency::Normal),
        };
        let message = PushMessage {
            text: &text,
            keep,
            urgency,
            topic: &payload.topic(),
        };
        web_push.send(&device.endpoint, &keys, &key, message).await
    }

    /// The key that push services know this bridge by; made when it is asked for the first time.
    pub(crate) async fn push_key(
        self: &Arc<Self>,
    ) -> Result<Result<VapidKey, String>, LedgerError> {
        let kept = self.ledger.read(|rows| rows.push_key()).await?;
        let kept = match kept {
            Some(kept) => kept,
            None => match VapidKey::generate() {
                Ok(proposed) => self.commit(KeepPushKey { proposed }).await?,
                Err(error) => return Ok(Err(error.to_string())),
            },
        };
        Ok(VapidKey::read(&kept).map_err(|error| error.to_string()))
    }

    /// Why a browser can't be alerted.
    pub(crate) fn check_device(&self, device: &PushDevice) -> Result<(), String> {
        let settings = self.settings();
        let Some(web_push) = settings.start.notify.web_push.as_ref() else {
            return Err(NO_BROWSERS.to_owned());
        };
        web_push.check(&device.endpoint)?;
        let keys = BrowserKeys::read(&device.p256dh, &device.auth);
        keys.map(drop).map_err(|error| error.to_string())
    }

    /// Looks for what a new receiver must know.
    pub(crate) fn receiver_is_new(&self, receiver_id: ReceiverId) {
        self.slots.look_for(receiver_id);
    }
}

/// Those of which something would be written here.
fn to_notice(
    rows: &dyn Read,
    receivers: &[Receiver],
    subjects: Vec<AlertSubject>,
) -> Result<Vec<AlertSubject>, RowsError> {
    let mut found = Vec::new();
    for subject in subjects {
        let alerts = noticed(rows, receivers, std::slice::from_ref(&subject), now())?;
        let mut is_ours = false;
        for alert in &alerts {
            is_ours |= is_sent_here(rows, alert)?;
        }
        if is_ours {
            found.push(subject);
        }
    }
    Ok(found)
}

/// Whether no other node has the conversation.
fn is_sent_here(rows: &dyn Read, alert: &Alert) -> Result<bool, RowsError> {
    let Some(this) = rows.this_node() else {
        return Ok(true);
    };
    let home = rows.home(&alert.conversation_id)?;
    let holder = home.and_then(|home| home.node_id);
    Ok(holder.is_none_or(|holder| holder == this))
}

/// What there may be to tell since then, and what is shown and may have to disappear.
fn subjects_since(rows: &dyn Read, since: Timestamp) -> Result<Vec<AlertSubject>, RowsError> {
    let of = |kind, id: String| AlertSubject { kind, id };
    let mut subjects = Vec::new();
    let mut before: Option<RequestId> = None;
    loop {
        let page = rows.newest_requests(true, before.as_ref(), PAGE_MAX)?;
        let Some(last) = page.last() else {
            break;
        };
        before = Some(last.request_id.clone());
        let ids = page.iter().map(|request| request.request_id.to_string());
        subjects.extend(ids.map(|id| of(AlertKind::Question, id)));
    }
    let mut after: Option<Alert> = None;
    loop {
        let from = after.as_ref().map(|it| (&it.receiver_id, &it.subject));
        let page = rows.shown_alerts(from, PAGE_MAX)?;
        subjects.extend(page.iter().map(|alert| alert.subject.clone()));
        let Some(last) = page.into_iter().next_back() else {
            break;
        };
        after = Some(last);
    }
    for dead in rows.finished_since(StateName::Dead, since)? {
        subjects.push(of(AlertKind::Failure, dead.message_id.to_string()));
    }
    for parked in rows.messages_in(StateName::Parked, None, PAGE_MAX)? {
        subjects.push(of(AlertKind::Failure, parked.message_id.to_string()));
    }
    // The newest tasks alone: they are read one by one.
    for task in rows.started_tasks(None, PAGE_MAX)? {
        let changed = readable(rows.task_changed(&task.task_id))?.flatten();
        if changed.is_some_and(|at| at >= since) {
            subjects.push(of(AlertKind::Task, task.task_id.to_string()));
        }
    }
    Ok(subjects)
}
