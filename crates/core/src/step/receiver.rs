//! Receivers of alerts: browsers of sessions, targets of the configuration, and the key that push services know us by.

use super::{RunError, Transition, Tx};
use crate::limits::DEVICES_PER_SESSION_MAX;
use crate::port::{AlertChange, Change, RowsError};
use crate::value::{PushKey, Receiver, ReceiverId, Timestamp};

/// A browser is one for as long as its session lives.
pub(super) fn is_good(tx: &Tx<'_>, receiver: &Receiver, now: Timestamp) -> Result<bool, RowsError> {
    let Some(device) = &receiver.device else {
        return Ok(true);
    };
    let session = tx.token(&device.session)?;
    Ok(!device.unreadable && session.is_some_and(|session| session.is_live(now)))
}

/// Adds a browser, or gives it other settings, or another session.
#[derive(Clone, Debug)]
pub struct AddDevice {
    pub receiver: Receiver,
    pub by: String,
}

/// Result of [`AddDevice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceAdded {
    Added,
    /// The session has ended.
    NoSession,
    /// The session has as many as it may.
    Full,
}

impl Transition for AddDevice {
    type Outcome = DeviceAdded;
    const NAME: &'static str = "add_device";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<DeviceAdded, RunError> {
        if self.receiver.device.is_none() || !is_good(tx, &self.receiver, now)? {
            return Ok(DeviceAdded::NoSession);
        }
        let session = |it: &Receiver| it.device.as_ref().map(|device| device.session.clone());
        let mut others = tx.receivers()?;
        others.retain(|other| {
            session(other) == session(&self.receiver)
                && other.receiver_id != self.receiver.receiver_id
        });
        if others.len() >= DEVICES_PER_SESSION_MAX {
            return Ok(DeviceAdded::Full);
        }
        let subject = self.receiver.receiver_id.to_string();
        let about: Vec<_> = self.receiver.about.iter().map(|it| it.as_str()).collect();
        tx.change(Change::Alert(AlertChange::PutReceiver(Receiver {
            error: None,
            created_at: now,
            ..self.receiver
        })))?;
        tx.audit(self.by, "push-add", subject, about.join(" "), now)?;
        Ok(DeviceAdded::Added)
    }
}

/// Removes a browser.
#[derive(Clone, Debug)]
pub struct DropDevice {
    pub receiver_id: ReceiverId,
    /// Only if it is this session's.
    pub session: Option<String>,
    pub by: String,
}

impl Transition for DropDevice {
    /// Whether there was one.
    type Outcome = bool;
    const NAME: &'static str = "drop_device";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<bool, RunError> {
        let found = tx.receiver(&self.receiver_id)?;
        let device = found.and_then(|receiver| receiver.device);
        let Some(device) = device else {
            return Ok(false);
        };
        if self
            .session
            .is_some_and(|session| session != device.session)
        {
            return Ok(false);
        }
        let subject = self.receiver_id.to_string();
        let gone = AlertChange::DropReceiver(self.receiver_id);
        tx.change(Change::Alert(gone))?;
        tx.audit(self.by, "push-remove", subject, "", now)?;
        Ok(true)
    }
}

/// Makes the targets of the configuration receivers. One that is no longer there keeps its row, and is sent nothing.
#[derive(Clone, Debug)]
pub struct SetAlertTargets {
    pub targets: Vec<Receiver>,
}

impl SetAlertTargets {
    /// Those of which the rows say something else.
    #[must_use]
    pub fn changed(targets: &[Receiver], known: &[Receiver]) -> Vec<Receiver> {
        let same = |one: &Receiver, other: &Receiver| {
            one.receiver_id == other.receiver_id
                && one.about == other.about
                && one.detail == other.detail
        };
        let is_new = |one: &&Receiver| !known.iter().any(|other| same(one, other));
        targets.iter().filter(is_new).cloned().collect()
    }
}

impl Transition for SetAlertTargets {
    type Outcome = ();
    const NAME: &'static str = "set_alert_targets";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        for target in self.targets {
            let known = tx.receiver(&target.receiver_id)?;
            tx.change(Change::Alert(AlertChange::PutReceiver(Receiver {
                created_at: known.as_ref().map_or(now, |known| known.created_at),
                error: known.and_then(|known| known.error),
                ..target
            })))?;
        }
        Ok(())
    }
}

/// Keeps a key by which push services know this bridge, unless there is one: all daemons of a fleet use the same.
#[derive(Clone, Debug)]
pub struct KeepPushKey {
    pub proposed: PushKey,
}

impl Transition for KeepPushKey {
    /// The one that is kept.
    type Outcome = PushKey;
    const NAME: &'static str = "keep_push_key";

    fn apply(self, tx: &mut Tx<'_>, _now: Timestamp) -> Result<PushKey, RunError> {
        if let Some(kept) = tx.push_key()? {
            return Ok(kept);
        }
        let new = AlertChange::PushKey(self.proposed.clone());
        tx.change(Change::Alert(new))?;
        Ok(self.proposed)
    }
}
