//! Notifications: who wanted to know that a task is over is told, by itself and once. It lives on rows alone: a wake-up
//! only says "look", the intent is on disk before the send, and what could not be said is said later.

use super::Daemon;
use crate::process::ids::{jitter, now};
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{Agent, Ledger, LedgerError, Sink};
use bridge_core::step::{NotifyBegin, NotifyEnd, NotifyStep};
use bridge_core::value::{NotifyState, TaskId, Timestamp};
use bridge_front::Notified;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest sleep: a wake-up may be lost, rows are not.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// Pause after the ledger failed under the loop.
const FAULT_PAUSE_MS: i64 = 1_000;
/// Notifications that are on their way at the same time.
const ON_THEIR_WAY_MAX: usize = 8;
/// Pause of the loop while that many are.
const FULL_PAUSE_MS: i64 = 1_000;
/// How long somebody who asked for a notification waits for its end. It goes on without them.
const ASKED_WAIT: Duration = Duration::from_secs(15);

/// Notifications that are on their way now: none goes out twice at the same time.
#[derive(Clone, Debug, Default)]
pub(super) struct Telling(Arc<Mutex<HashSet<TaskId>>>);

/// One that is on its way, until this is dropped.
pub(super) struct OnItsWay(Telling, TaskId);

/// Whether a notification may go out now.
enum Place {
    Free(OnItsWay),
    /// It is on its way.
    Going,
    /// Too many others are.
    Full,
}

impl Telling {
    fn take(&self, task_id: &TaskId) -> Place {
        let mut telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if telling.contains(task_id) {
            return Place::Going;
        }
        if telling.len() >= ON_THEIR_WAY_MAX {
            return Place::Full;
        }
        telling.insert(task_id.clone());
        Place::Free(OnItsWay(self.clone(), task_id.clone()))
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let mut telling = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        telling.remove(&self.1);
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// Says that rows changed by which a task may be over.
    pub(super) fn look_for_ends(&self) {
        if self.untold.load(Ordering::SeqCst) {
            self.tell_wake.notify_one();
        }
    }

    pub(crate) async fn notifications(self: Arc<Self>) {
        while !self.stopping.is_cancelled() {
            let next = match self.tell_due().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(%error, "notifications can't use the ledger");
                    Some(now().plus_ms(FAULT_PAUSE_MS))
                }
            };
            let sleep = next.map_or(SLEEP_MAX, |at| {
                let ms = u64::try_from(at.since_ms(now())).unwrap_or(0).max(1);
                Duration::from_millis(ms).min(SLEEP_MAX)
            });
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.tell_wake.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    /// One walk over everything that is still to be told; says when the next one is due.
    async fn tell_due(self: &Arc<Self>) -> Result<Option<Timestamp>, LedgerError> {
        // Before the rows are read: a task that is started meanwhile sets it again.
        self.untold.store(false, Ordering::SeqCst);
        let (mut next, mut after): (Option<Timestamp>, Option<TaskId>) = (None, None);
        loop {
            let from = after.take();
            let page = self.ledger.read(move |rows| {
                let tasks = rows.untold_tasks(from.as_ref(), PAGE_MAX)?.into_iter();
                let with_end = tasks.map(|task| {
                    let open = rows.unanswered_of(&task.conversation_id, 1)?;
                    Ok((task, open.is_empty()))
                });
                with_end.collect::<Result<Vec<_>, _>>()
            });
            let page = page.await?;
            let Some((last, _)) = page.last() else {
                return Ok(next);
            };
            self.untold.store(true, Ordering::SeqCst);
            after = Some(last.task_id.clone());
            for (task, over) in page {
                let at = match task.notification.state {
                    NotifyState::Pending {
                        not_before: Some(at),
                    } if at > now() => at,
                    _ => now(),
                };
                if !over {
                    continue;
                }
                if at > now() {
                    next = Some(next.map_or(at, |next| next.min(at)));
                    continue;
                }
                let place = match self.telling.take(&task.task_id) {
                    Place::Free(place) => place,
                    Place::Going => continue,
                    Place::Full => return Ok(Some(now().plus_ms(FULL_PAUSE_MS))),
                };
                let daemon = Arc::clone(self);
                let task_id = task.task_id;
                self.spawn_for(task_id.clone(), async move {
                    if let Err(error) = daemon.tell_of(place, &task_id, None).await {
                        tracing::error!(%error, %task_id, "a notification met a fault of the ledger");
                    }
                });
            }
        }
    }

    /// Sends the notification of a task because somebody asked for it. Whoever asked may go away, or stop waiting: a
    /// send that was begun must come to its end, or it would be taken for one that died.
    pub(super) async fn tell_when_asked(
        self: &Arc<Self>,
        task_id: &TaskId,
        by: &str,
    ) -> Result<Notified, LedgerError> {
        let place = match self.telling.take(task_id) {
            Place::Free(place) => place,
            Place::Going | Place::Full => return Ok(Notified::Busy),
        };
        let (daemon, task_id, by) = (Arc::clone(self), task_id.clone(), by.to_owned());
        let telling = self
            .tasks
            .spawn(async move { daemon.tell_of(place, &task_id, Some(&by)).await });
        match tokio::time::timeout(ASKED_WAIT, telling).await {
            Ok(Ok(told)) => told,
            Ok(Err(_)) | Err(_) => Ok(Notified::Busy),
        }
    }

    /// Sends the notification of a task, if it is to be sent now.
    async fn tell_of(
        self: &Arc<Self>,
        place: OnItsWay,
        task_id: &TaskId,
        asked: Option<&str>,
    ) -> Result<Notified, LedgerError> {
        let begin = NotifyBegin {
            task_id: task_id.clone(),
            asked: asked.map(ToOwned::to_owned),
        };
        let (task, again) = match self.commit(begin).await? {
            NotifyStep::Send { task, again } => (task, again),
            NotifyStep::Later(_) | NotifyStep::Nothing => return Ok(Notified::Nothing),
        };
        let failure = self.hand_over_notice(&task, again).await.err();
        if let Some(failure) = &failure {
            let reason = crate::term::escape_line(&failure.reason).into_owned();
            tracing::warn!(%task_id, reason, class = failure.class.as_str(), "a notification was not taken");
        }
        // Must not be lost: what was sent would be sent again.
        let ended = self
            .insist(NotifyEnd {
                task_id: task_id.clone(),
                failure,
                jitter: jitter(),
            })
            .await;
        drop(place);
        // When the next try is due, and there is room for another one.
        self.tell_wake.notify_one();
        Ok(match ended.flatten() {
            Some(state) => Notified::Ended(state),
            None => Notified::Busy,
        })
    }
}
