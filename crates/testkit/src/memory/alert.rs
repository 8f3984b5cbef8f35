//! Receivers of alerts, and alerts, in memory.

use super::MemoryRows;
use super::apply::guard;
use super::derived::page;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{AlertChange, AlertRead, AlertsTried, RowsError};
use bridge_core::value::{
    Alert, AlertStateName, AlertSubject, PushKey, Receiver, ReceiverId, Timestamp,
};
use std::ops::Bound;

/// The primary key, with the kind in the order of its words.
pub(super) type AlertKey = (ReceiverId, &'static str, String);

fn key_of(to: &ReceiverId, of: &AlertSubject) -> AlertKey {
    (to.clone(), of.kind.as_str(), of.id.clone())
}

impl AlertRead for MemoryRows {
    fn receivers(&self) -> Result<Vec<Receiver>, RowsError> {
        let all = self.receivers.iter().map(|(_, one)| one.clone());
        Ok(all.take(page(PAGE_MAX)).collect())
    }

    fn receiver(&self, id: &ReceiverId) -> Result<Option<Receiver>, RowsError> {
        Ok(self.receivers.get(id).cloned())
    }

    fn alert(&self, to: &ReceiverId, of: &AlertSubject) -> Result<Option<Alert>, RowsError> {
        Ok(self.alerts.get(&key_of(to, of)).cloned())
    }

    fn unsent_alerts(&self, to: &ReceiverId, limit: u32) -> Result<Vec<Alert>, RowsError> {
        let is_unsent = |one: &&Alert| {
            let state = one.state.name();
            one.receiver_id == *to
                && matches!(state, AlertStateName::Waiting | AlertStateName::Sending)
        };
        let all = self.alerts.iter().map(|(_, one)| one);
        let mut found: Vec<_> = all.filter(is_unsent).cloned().collect();
        // Stable: kind and subject are in order already.
        found.sort_by_key(|one| one.created_at);
        found.truncate(page(limit));
        Ok(found)
    }

    fn shown_alerts(
        &self,
        after: Option<(&ReceiverId, &AlertSubject)>,
        limit: u32,
    ) -> Result<Vec<Alert>, RowsError> {
        let from = match after {
            Some((to, of)) => Bound::Excluded(key_of(to, of)),
            None => Bound::Unbounded,
        };
        let behind = self.alerts.range((from, Bound::Unbounded));
        let shown = behind.filter(|(_, one)| one.state.name() == AlertStateName::Shown);
        Ok(shown
            .map(|(_, one)| one.clone())
            .take(page(limit))
            .collect())
    }

    fn alerts_tried(&self, to: &ReceiverId, since: Timestamp) -> Result<AlertsTried, RowsError> {
        let mut tried = AlertsTried::default();
        for (_, one) in self.alerts.iter() {
            match one.tried_at {
                Some(at) if at >= since && one.receiver_id == *to => match one.summed {
                    true => tried.summary_at = tried.summary_at.max(Some(at)),
                    false => tried.single += 1,
                },
                Some(_) | None => {}
            }
        }
        Ok(tried)
    }

    fn push_key(&self) -> Result<Option<PushKey>, RowsError> {
        Ok(self.push_keys.get(&()).cloned())
    }
}

impl MemoryRows {
    pub(super) fn change_alerts(&mut self, change: &AlertChange) -> Result<(), RowsError> {
        match change {
            AlertChange::PutReceiver(one) => {
                self.receivers.put(one.receiver_id.clone(), one.clone());
            }
            AlertChange::ReceiverError { receiver_id, error } => {
                let known = self.receivers.get(receiver_id).cloned();
                guard(known.is_some(), || format!("receiver {receiver_id}"))?;
                if let Some(one) = known {
                    let error = error.clone();
                    let one = Receiver { error, ..one };
                    self.receivers.put(receiver_id.clone(), one);
                }
            }
            AlertChange::DropReceiver(id) => self.drop_receiver(id),
            AlertChange::DropDevicesOf { session } => {
                let all = self.receivers.iter().map(|(_, one)| one);
                let theirs = all.filter(|one| {
                    let device = one.device.as_ref();
                    device.is_some_and(|device| device.session == *session)
                });
                let theirs: Vec<_> = theirs.map(|one| one.receiver_id.clone()).collect();
                for id in theirs {
                    self.drop_receiver(&id);
                }
            }
            AlertChange::Put(one) => {
                guard(self.receivers.contains(&one.receiver_id), || {
                    format!("alert of {} for {}", one.subject.id, one.receiver_id)
                })?;
                let key = key_of(&one.receiver_id, &one.subject);
                self.alerts.put(key, one.clone());
            }
            AlertChange::PushKey(key) => self.push_keys.put((), key.clone()),
        }
        Ok(())
    }

    fn drop_receiver(&mut self, id: &ReceiverId) {
        self.forget_alerts_where(|one| one.receiver_id == *id);
        if self.receivers.contains(id) {
            self.receivers.remove(id);
        }
    }

    pub(super) fn forget_alerts(&mut self, before: Timestamp) {
        self.forget_alerts_where(|one| {
            one.state.name() == AlertStateName::Over && one.created_at < before
        });
    }

    fn forget_alerts_where(&mut self, is_gone: impl Fn(&Alert) -> bool) {
        let gone = self.alerts.iter().filter(|(_, one)| is_gone(one));
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.alerts.remove(&key);
        }
    }
}
