//! Push notifications: owners of errands are told how they stand, tiding by tiding, at least once and in order. It lives
//! on rows alone: a wake-up only says where to look, the intent is on disk before the send, and what could not be said
//! is said later.

use super::Daemon;
use super::ids::{jitter, now};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Agent, Ledger, LedgerError, Read, RowsError, Sink};
use bridge_core::step::{DropPush, PushBegin, PushEnd, PushStep, PushStored, PutPush, Telling};
use bridge_core::value::{ErrandId, MessageId, Push, PushState, Timestamp};
use bridge_front::PushPut;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Longest time between two walks over all configurations: a wake-up may be lost, rows are not.
const WALK_MS: i64 = 60_000;
/// Shortest time between two walks that nobody asked for.
const WALK_PAUSE_MS: i64 = 1_000;
/// Pause after the ledger failed under the loop.
const FAULT_PAUSE_MS: i64 = 1_000;
/// Receivers that are called at the same time.
const GOING_MAX: usize = 16;
/// Receivers of one owner among them: one that is slow does not hold up the others.
const GOING_OF_OWNER_MAX: usize = 4;
/// Messages whose change is remembered one by one; beyond it everything is looked at.
const CHANGED_MAX: usize = 1_024;

/// A configuration by its errand and name.
type Key = (ErrandId, String);

/// What the loop knows beside the rows.
#[derive(Debug, Default)]
pub(super) struct Pushing {
    wake: Notify,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// There are configurations; without any nothing is looked at.
    any: bool,
    /// Messages that changed.
    changed: HashSet<MessageId>,
    /// Look at everything.
    all: bool,
    /// When a pause of one of them is over.
    due: Option<Timestamp>,
    /// Those that are being told now, with their owners.
    going: HashMap<Key, Going>,
    /// One had to wait for a place.
    starved: bool,
}

#[derive(Debug)]
struct Going {
    owner: String,
    /// Somebody asked for it again meanwhile.
    again: bool,
}

/// One that is being told, until this is dropped.
struct Place {
    pushing: Arc<Pushing>,
    key: Key,
}

impl Pushing {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of a message changed.
    pub(super) fn changed(&self, message_id: &MessageId) {
        let mut known = self.known();
        if !known.any {
            return;
        }
        match known.changed.len() < CHANGED_MAX {
            true => _ = known.changed.insert(message_id.clone()),
            false => known.all = true,
        }
        drop(known);
        self.wake.notify_one();
    }

    /// A configuration is new.
    fn look(&self) {
        let mut known = self.known();
        known.any = true;
        known.all = true;
        drop(known);
        self.wake.notify_one();
    }

    fn due_at(&self, at: Timestamp) {
        let mut known = self.known();
        known.due = Some(known.due.map_or(at, |due| due.min(at)));
        drop(known);
        self.wake.notify_one();
    }

    fn take(self: &Arc<Self>, push: &Push, owner: &str) -> Option<Place> {
        let mut known = self.known();
        let key = (push.errand_id.clone(), push.config_id.clone());
        if let Some(going) = known.going.get_mut(&key) {
            going.again = true;
            return None;
        }
        let of_owner = known.going.values().filter(|going| going.owner == owner);
        if of_owner.count() >= GOING_OF_OWNER_MAX || known.going.len() >= GOING_MAX {
            known.starved = true;
            return None;
        }
        let going = Going {
            owner: owner.to_owned(),
            again: false,
        };
        known.going.insert(key.clone(), going);
        Some(Place {
            pushing: Arc::clone(self),
            key,
        })
    }
}

impl Place {
    /// Whether somebody asked for it meanwhile; asked when there seemed to be nothing more to tell.
    fn asked_again(&self) -> bool {
        let mut known = self.pushing.known();
        let going = known.going.get_mut(&self.key);
        going.is_some_and(|going| mem::take(&mut going.again))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut known = self.pushing.known();
        let again = known.going.remove(&self.key).is_some_and(|it| it.again);
        if again || mem::take(&mut known.starved) {
            known.all = true;
            drop(known);
            self.pushing.wake.notify_one();
        }
    }
}

/// Where to look.
enum Look {
    All,
    At(Vec<MessageId>),
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Keeps where an owner wants to be told.
    pub(super) async fn put_push(
        self: &Arc<Self>,
        push: Push,
        by: &str,
    ) -> Result<PushPut, LedgerError> {
        if let Err(why) = self.settings().courier.check(&push) {
            return Ok(PushPut::Refused { why });
        }
        let by = by.to_owned();
        Ok(match self.commit(PutPush { push, by }).await? {
            PushStored::Stored => {
                self.pushing.look();
                PushPut::Put
            }
            PushStored::Unknown => PushPut::Unknown,
            PushStored::Full { max, of } => PushPut::Refused {
                why: format!(
                    "there are {max} push notification configurations for {of} already, and no more are kept: delete one"
                ),
            },
        })
    }

    /// Forgets one.
    pub(super) async fn drop_push(
        self: &Arc<Self>,
        errand_id: &ErrandId,
        config_id: &str,
        by: &str,
    ) -> Result<bool, LedgerError> {
        self.commit(DropPush {
            errand_id: errand_id.clone(),
            config_id: config_id.to_owned(),
            by: by.to_owned(),
        })
        .await
    }

    pub(crate) async fn pushes(self: Arc<Self>) {
        self.pushing.known().all = true;
        let mut walk_at = now();
        while !self.stopping.is_cancelled() {
            let look = {
                let mut known = self.pushing.known();
                let changed = mem::take(&mut known.changed);
                let due = known.due.is_some_and(|due| due <= now());
                match mem::take(&mut known.all) || due || walk_at <= now() {
                    true => {
                        known.due = None;
                        Look::All
                    }
                    false => Look::At(changed.into_iter().collect()),
                }
            };
            if matches!(look, Look::All) {
                walk_at = now().plus_ms(WALK_MS);
            }
            let all = matches!(look, Look::All);
            if let Err(error) = self.push_due(look).await {
                tracing::error!(%error, "push notifications can't use the ledger");
                walk_at = now().plus_ms(FAULT_PAUSE_MS);
            }
            let due = self.pushing.known().due;
            let soonest = now().plus_ms(if all { WALK_PAUSE_MS } else { 1 });
            let next = due.map_or(walk_at, |due| due.max(soonest).min(walk_at));
            let ms = u64::try_from(next.since_ms(now())).unwrap_or(0).max(1);
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.pushing.wake.notified() => {}
                () = tokio::time::sleep(Duration::from_millis(ms)) => {}
            }
        }
    }

    /// Begins to tell whatever may be told now.
    async fn push_due(self: &Arc<Self>, look: Look) -> Result<(), LedgerError> {
        match look {
            Look::At(messages) if messages.is_empty() => Ok(()),
            Look::At(messages) => {
                let found = self.ledger.read(move |rows| {
                    let mut errands = HashSet::new();
                    for message_id in &messages {
                        errands.extend(rows.errand_of(message_id)?);
                    }
                    let mut found = Vec::new();
                    for errand_id in errands {
                        found.extend(owned(rows, rows.pushes_of(&errand_id)?)?);
                    }
                    Ok(found)
                });
                for (push, owner) in found.await? {
                    self.consider(&push, &owner);
                }
                Ok(())
            }
            Look::All => self.walk().await,
        }
    }

    async fn walk(self: &Arc<Self>) -> Result<(), LedgerError> {
        let mut after: Option<Key> = None;
        loop {
            let from = after.take();
            let page = self.ledger.read(move |rows| {
                let from = from.as_ref().map(|(id, config)| (id, config.as_str()));
                let open = rows.pushes_open(from, PAGE_MAX)?;
                owned(rows, open)
            });
            let page = page.await?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            self.pushing.known().any = true;
            after = Some((last.errand_id.clone(), last.config_id.clone()));
            for (push, owner) in &page {
                self.consider(push, owner);
            }
        }
    }

    fn consider(self: &Arc<Self>, push: &Push, owner: &str) {
        match push.state {
            PushState::Dead { .. } => return,
            PushState::Waiting {
                not_before: Some(at),
            } if at > now() => return self.pushing.due_at(at),
            PushState::Waiting { .. } | PushState::Sending | PushState::Closed => {}
        }
        let Some(place) = self.pushing.take(push, owner) else {
            return;
        };
        let daemon = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = daemon.push_all(&place).await {
                let errand_id = &place.key.0;
                tracing::error!(%error, %errand_id, "a push notification met a fault of the ledger");
            }
        });
    }

    /// Tells everything that there is to tell, one after the other.
    async fn push_all(self: &Arc<Self>, place: &Place) -> Result<(), LedgerError> {
        let (errand_id, config_id) = &place.key;
        while !self.stopping.is_cancelled() {
            let begin = PushBegin {
                errand_id: errand_id.clone(),
                config_id: config_id.clone(),
            };
            let telling = match self.commit(begin).await? {
                PushStep::Send(telling) => telling,
                PushStep::Nothing if place.asked_again() => continue,
                PushStep::Nothing => return Ok(()),
                PushStep::Later(at) => {
                    self.pushing.due_at(at);
                    return Ok(());
                }
            };
            match self.push_once(&telling).await {
                Some(PushState::Waiting { not_before: None }) => {}
                Some(PushState::Waiting {
                    not_before: Some(at),
                }) => {
                    self.pushing.due_at(at);
                    return Ok(());
                }
                // Taken away, or put again, while it was under way.
                None => {}
                Some(PushState::Sending | PushState::Closed | PushState::Dead { .. }) => {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn push_once(self: &Arc<Self>, telling: &Telling) -> Option<PushState> {
        let Push {
            errand_id,
            config_id,
            ..
        } = &telling.push;
        let courier = Arc::clone(&self.settings().courier);
        let failure = courier.deliver(telling).await.err();
        let said = failure.clone();
        // Must not be lost: what was taken would be told again.
        let ended = self.insist(PushEnd {
            errand_id: errand_id.clone(),
            config_id: config_id.clone(),
            mark: telling.tiding.mark.clone(),
            failure,
            jitter: jitter(),
        });
        let ended = ended.await.flatten();
        if let Some(failure) = said {
            let reason = crate::term::escape_line(&failure.reason).into_owned();
            let (class, tries) = (failure.class.word(), telling.push.tries);
            match ended {
                Some(PushState::Dead { .. }) => {
                    tracing::error!(%errand_id, reason, class, tries, "push notifications are given up");
                }
                _ => {
                    tracing::warn!(%errand_id, reason, class, tries, "a push notification was not taken")
                }
            }
        }
        ended
    }
}

/// Configurations with the owners of their errands.
fn owned(rows: &dyn Read, pushes: Vec<Push>) -> Result<Vec<(Push, String)>, RowsError> {
    let with_owner = pushes.into_iter().map(|push| {
        let errand = rows.errand(&push.errand_id)?;
        Ok((push, errand.map_or_else(String::new, |errand| errand.owner)))
    });
    with_owner.collect()
}
