//! Push notifications: owners of tasks are told how they stand, task_event by task_event, at least once and in order. It lives
//! on rows alone: a wake-up only says where to look, the intent is on disk before the send, and what could not be said
//! is said later.

mod known;

pub(super) use known::Pushing;

use super::Daemon;
use crate::process::ids::{jitter, now};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Agent, Ledger, LedgerError, Read, RowsError, Sink};
use bridge_core::step::{
    DropPush, PushBegin, PushEnd, PushStep, PushStored, PutPush, Telling, push_has_work,
};
use bridge_core::task_events::Timeline;
use bridge_core::value::{Class, Failure, Push, PushState, TaskId, Timestamp};
use bridge_front::PushPut;
use known::{Key, Look, Place};
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two walks over all configurations: a wake-up may be lost, rows are not.
const WALK_MS: i64 = 60_000;
/// Shortest time between two walks, whoever asks for them.
const WALK_PAUSE_MS: i64 = 1_000;
/// Pause after the ledger failed under the loop.
const FAULT_PAUSE_MS: i64 = 1_000;

/// What the rows say of a configuration.
enum Found {
    /// There is something to tell, or to close.
    Work { key: Key, owner: String },
    /// Not before this.
    Later(Timestamp),
}

/// What became of the end of a send.
enum Ended {
    /// It is on disk, and the configuration stands so.
    Stands(PushState),
    /// The configuration was taken away, or put again, while it was under way.
    Replaced,
    /// The ledger did not take it.
    Unwritten,
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Keeps where an owner wants to be told.
    pub(super) async fn put_push(
        self: &Arc<Self>,
        push: Push,
        by: &str,
    ) -> Result<PushPut, LedgerError> {
        if let Err(why) = self.settings().push_client.check(&push) {
            return Ok(PushPut::Refused { why });
        }
        let by = by.to_owned();
        let task_id = push.task_id.clone();
        Ok(match self.commit(PutPush { push, by }).await? {
            PushStored::Stored => {
                self.pushing.look(&task_id);
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
        task_id: &TaskId,
        config_id: &str,
        by: &str,
    ) -> Result<bool, LedgerError> {
        self.commit(DropPush {
            task_id: task_id.clone(),
            config_id: config_id.to_owned(),
            by: by.to_owned(),
        })
        .await
    }

    pub(crate) async fn pushes(self: Arc<Self>) {
        let (mut walk_at, mut soonest) = (now(), now());
        while !self.stopping.is_cancelled() {
            let due = self.pushing.due();
            let all = walk_at <= now() || due.is_some_and(|due| due.max(soonest) <= now());
            if all {
                walk_at = now().plus_ms(WALK_MS);
            }
            if let Err(error) = self.push_due(self.pushing.next(all)).await {
                tracing::error!(%error, "push notifications can't use the ledger");
                walk_at = now().plus_ms(FAULT_PAUSE_MS);
            }
            if all {
                soonest = now().plus_ms(WALK_PAUSE_MS);
            }
            let due = self.pushing.due();
            let next = due.map_or(walk_at, |due| due.max(soonest).min(walk_at));
            let ms = u64::try_from(next.since_ms(now())).unwrap_or(0).max(1);
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.pushing.woken() => {}
                () = tokio::time::sleep(Duration::from_millis(ms)) => {}
            }
        }
    }

    /// Begins to tell whatever may be told now. Who waits for a place goes first.
    async fn push_due(self: &Arc<Self>, look: Look) -> Result<(), LedgerError> {
        loop {
            let next = self.pushing.next_waiting(now().plus_ms(WALK_PAUSE_MS));
            if next.is_empty() {
                break;
            }
            let read = self.ledger.read(move |rows| {
                let mut pushes = Vec::new();
                for (task_id, config_id) in &next {
                    pushes.extend(rows.push(task_id, config_id)?);
                }
                found(rows, pushes)
            });
            self.consider(read.await?);
        }
        match look {
            Look::At { messages, tasks } if messages.is_empty() && tasks.is_empty() => {}
            Look::At {
                messages,
                mut tasks,
            } => {
                let read = self.ledger.read(move |rows| {
                    for message_id in &messages {
                        tasks.extend(rows.task_of_message(message_id)?);
                    }
                    let mut pushes = Vec::new();
                    for task_id in &tasks {
                        pushes.extend(rows.pushes_of(task_id)?);
                    }
                    found(rows, pushes)
                });
                self.consider(read.await?);
            }
            Look::All => self.walk().await?,
        }
        Ok(())
    }

    async fn walk(self: &Arc<Self>) -> Result<(), LedgerError> {
        let mut after: Option<Key> = None;
        loop {
            let from = after.take();
            let page = self.ledger.read(move |rows| {
                let from = from.as_ref().map(|(id, config)| (id, config.as_str()));
                let open = rows.pushes_open(from, PAGE_MAX)?;
                let last = open.last().map(key_of);
                Ok((found(rows, open)?, last))
            });
            let (page, last) = page.await?;
            if last.is_none() {
                return Ok(());
            }
            after = last;
            self.pushing.some();
            self.consider(page);
        }
    }

    fn consider(self: &Arc<Self>, found: Vec<Found>) {
        for one in found {
            let place = match one {
                Found::Work { key, owner } => self.pushing.take(key, &owner),
                Found::Later(at) => {
                    self.pushing.due_at(at);
                    None
                }
            };
            let Some(place) = place else {
                continue;
            };
            let daemon = Arc::clone(self);
            self.spawn_for(place.key.0.clone(), async move {
                if let Err(error) = daemon.push_all(&place).await {
                    let task_id = &place.key.0;
                    tracing::error!(%error, %task_id, "a push notification met a fault of the ledger");
                }
            });
        }
    }

    /// Tells everything that there is to tell, one after the other.
    async fn push_all(self: &Arc<Self>, place: &Place) -> Result<(), LedgerError> {
        let (task_id, config_id) = &place.key;
        while !self.stopping.is_cancelled() {
            let begin = PushBegin {
                task_id: task_id.clone(),
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
                Ended::Stands(PushState::Waiting { not_before: None }) | Ended::Replaced => {}
                Ended::Stands(PushState::Waiting {
                    not_before: Some(at),
                }) => {
                    self.pushing.due_at(at);
                    return Ok(());
                }
                Ended::Stands(PushState::Sending | PushState::Closed | PushState::Dead { .. }) => {
                    return Ok(());
                }
                // It would be told again at once, and again: the next walk comes back to it, whoever asks meanwhile.
                Ended::Unwritten => {
                    place.asked_again();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn push_once(self: &Arc<Self>, telling: &Telling) -> Ended {
        let Push {
            task_id, config_id, ..
        } = &telling.push;
        let push_client = Arc::clone(&self.settings().push_client);
        let failure = if telling.push.unreadable {
            Some(unreadable())
        } else {
            push_client.deliver(telling).await.err()
        };
        let said = failure.clone();
        // Must not be lost: what was taken would be told again.
        let ended = self.insist(PushEnd {
            task_id: task_id.clone(),
            config_id: config_id.clone(),
            mark: telling.task_event.mark.clone(),
            failure,
            jitter: jitter(),
        });
        let ended = match ended.await {
            Some(Some(state)) => Ended::Stands(state),
            Some(None) => Ended::Replaced,
            None => Ended::Unwritten,
        };
        if let Some(failure) = said {
            let reason = crate::term::escape_line(&failure.reason).into_owned();
            let (class, tries) = (failure.class.as_str(), telling.push.tries);
            match ended {
                Ended::Stands(PushState::Dead { .. }) => {
                    tracing::error!(%task_id, reason, class, tries, "push notifications are given up");
                }
                Ended::Stands(_) | Ended::Replaced | Ended::Unwritten => {
                    tracing::warn!(%task_id, reason, class, tries, "a push notification was not taken")
                }
            }
        }
        ended
    }
}

/// Nothing is sent without the credentials that belong to it.
fn unreadable() -> Failure {
    Failure {
        class: Class::Permanent,
        reason: "its address and credentials can't be decrypted: the ledger was opened with another key than they were stored with, or somebody changed them".to_owned(),
    }
}

fn key_of(push: &Push) -> Key {
    (push.task_id.clone(), push.config_id.clone())
}

/// Those of them that are to be considered. Most have nothing to tell, and that is found out without a write.
fn found(rows: &dyn Read, pushes: Vec<Push>) -> Result<Vec<Found>, RowsError> {
    let now = now();
    let mut found = Vec::new();
    let mut last: Option<Timeline> = None;
    for push in pushes {
        match push.state {
            PushState::Dead { .. } => continue,
            PushState::Waiting {
                not_before: Some(at),
            } if at > now => {
                found.push(Found::Later(at));
                continue;
            }
            PushState::Waiting { .. } | PushState::Sending | PushState::Closed => {}
        }
        let same = |known: &Timeline| known.view.task.task_id == push.task_id;
        if !last.as_ref().is_some_and(same) {
            last = Timeline::load(rows, &push.task_id)?;
        }
        if let Some(timeline) = &last
            && push_has_work(&push, timeline)
        {
            found.push(Found::Work {
                key: key_of(&push),
                owner: timeline.view.task.owner.clone(),
            });
        }
    }
    Ok(found)
}
