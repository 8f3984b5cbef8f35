//! News of tasks for whoever listens: each task that somebody listens to has one teller, whose numbered events all
//! of its listeners read. Rows are the truth: a listener that missed something begins again with a snapshot.

mod book;
mod draft;
mod hold;
mod scene;
mod teller;
#[cfg(test)]
mod tests;

pub(crate) use book::Told;
pub(crate) use teller::From;

use super::fault::Fault;
use crate::{BridgeService, Live, Subscription};
use book::Entry;
use bridge_core::deadline::after;
use bridge_core::value::{MessageId, TaskId};
use futures_util::FutureExt;
use futures_util::future::select_all;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use teller::{Begin, Teller};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

/// Tasks that are told of at the same time.
const TELLERS_MAX: usize = 512;
/// How often a listener that came to a teller of the past is given another one.
const SEATS_TRIED: usize = 3;
/// Listeners of one task.
const LISTENERS_MAX: usize = 64;
/// How often rows are looked at without news: a new word of a task announces itself to nobody here.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a teller stays when nobody listens, for a listener that lost its connection.
const LINGER: Duration = Duration::from_secs(30);

type Known = Arc<Mutex<HashMap<TaskId, Arc<Teller>>>>;

/// The tellers of all tasks that somebody listens to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tellers {
    known: Known,
    stop: CancellationToken,
}

/// One that listens to a task.
#[derive(Debug)]
pub(crate) struct Listener {
    teller: Arc<Teller>,
    written: watch::Receiver<u64>,
    first: Option<Told>,
    heard: u64,
}

impl Tellers {
    /// Tellers that go when `stop` is set.
    pub(crate) fn until(stop: CancellationToken) -> Self {
        let known = Known::default();
        Self { known, stop }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<Teller>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to a task that the caller may know. Its first news is the task as it is when this resolves, or what
    /// comes behind the number that the caller has. `base` is where this server is reached.
    pub(crate) async fn listen<D: BridgeService>(
        &self,
        service: &D,
        task_id: &TaskId,
        base: &str,
        from: From,
    ) -> Result<Listener, Fault> {
        for _ in 0..SEATS_TRIED {
            let (teller, written) = self.seat(service, task_id, base)?;
            // On a task of its own: a look that its caller breaks off half-way would be missing for all others.
            let (looking, service) = (Arc::clone(&teller), service.clone());
            let begun = tokio::spawn(async move { looking.begin(&service, from).await }).await;
            let begun = begun.map_err(|_| Fault::internal("a look at the task broke off"))?;
            let (first, heard) = match begun? {
                Begin::With(told) => {
                    let seq = told.seq;
                    (Some(told), seq)
                }
                Begin::Behind(seq) => (None, seq),
                Begin::Anew => continue,
            };
            return Ok(Listener {
                teller,
                written,
                first,
                heard,
            });
        }
        Err(Fault::unavailable(
            "the task ended and began again meanwhile; ask again later",
        ))
    }

    /// Whether what comes behind a number is still known here, also of a task that is over.
    pub(crate) fn remembers(&self, task_id: &TaskId, seq: u64) -> bool {
        let teller = self.lock().get(task_id).cloned();
        teller.is_some_and(|teller| teller.book().reaches(seq))
    }

    /// The task's teller; one that begins now if there is none.
    fn seat<D: BridgeService>(
        &self,
        service: &D,
        task_id: &TaskId,
        base: &str,
    ) -> Result<(Arc<Teller>, watch::Receiver<u64>), Fault> {
        let mut known = self.lock();
        if let Some(teller) = known.get(task_id)
            && !teller.book().is_torn()
        {
            return if teller.listeners() < LISTENERS_MAX {
                Ok((Arc::clone(teller), teller.listen()))
            } else {
                Err(Fault::full(
                    "too many streams of this task are open; close one, or ask again later",
                ))
            };
        }
        if !has_room(&mut known, task_id, TELLERS_MAX) {
            return Err(Fault::full(
                "too many tasks are streamed already; ask for the task instead, or again later",
            ));
        }
        let teller = Arc::new(Teller::new(task_id.clone(), base.to_owned()));
        let written = teller.listen();
        known.insert(task_id.clone(), Arc::clone(&teller));
        tokio::spawn(self.clone().run(service.clone(), Arc::clone(&teller)));
        Ok((teller, written))
    }

    /// Tells until nobody listened for a while.
    async fn run<D: BridgeService>(self, service: D, teller: Arc<Teller>) {
        let _ending = Ending(self.clone(), Arc::clone(&teller));
        let mut news: HashMap<MessageId, Subscription> = HashMap::new();
        // Whoever listens looks as well, and hears why it fails.
        let _heard_elsewhere = teller.look(&service).await;
        // However much there is to hear, rows are looked at.
        let mut looks = interval_at(after(Instant::now(), LOOK_EVERY), LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if teller.book().is_torn() {
                break;
            }
            if teller.listeners() > 0 {
                teller.is_heard();
            } else if teller.heard_at().elapsed() >= LINGER && self.forget(&teller) {
                return;
            }
            news.extend(teller.fresh());
            let messages = teller.messages().await;
            news.retain(|message_id, _| messages.contains(message_id));
            let over = teller.book().is_over();
            let told = tokio::select! {
                () = self.stop.cancelled() => break,
                () = teller.looked_at() => Ok(()),
                _ = looks.tick() => if over { Ok(()) } else { teller.look(&service).await },
                (message_id, live) = next_news(&mut news), if !over => {
                    teller.hear(&service, &message_id, live).await
                }
            };
            if told.is_err() {
                // Whoever listens asks again, and hears why or begins anew.
                break;
            }
        }
    }

    /// Lets a teller go that nobody listens to; `false` when somebody came just now.
    fn forget(&self, teller: &Arc<Teller>) -> bool {
        let mut known = self.lock();
        let alone = teller.listeners() == 0;
        if alone {
            remove(&mut known, teller);
        }
        alone
    }
}

/// Ends a teller with its task, also by a panic: its listeners would wait for ever, and so would whoever comes next.
struct Ending(Tellers, Arc<Teller>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.1.end();
        remove(&mut self.0.lock(), &self.1);
    }
}

impl Listener {
    /// The next news. `None` when nothing more comes, or when this listener fell behind: it asks again then.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            self.written.borrow_and_update();
            let entry = self.teller.book().after(self.heard);
            match entry {
                Entry::Next(told) => {
                    self.heard = told.seq;
                    return Some(told);
                }
                Entry::End | Entry::Lost => return None,
                Entry::Blank => self.written.changed().await.ok()?,
            }
        }
    }
}

/// Whether one more fits in. Where all places are taken, the one that nobody listened to for longest goes: tellers that
/// stay for somebody who may come back never keep out whoever comes.
fn has_room(known: &mut HashMap<TaskId, Arc<Teller>>, task_id: &TaskId, most: usize) -> bool {
    if known.len() < most || known.contains_key(task_id) {
        return true;
    }
    let idle = known.values().filter(|teller| teller.listeners() == 0);
    let Some(idle) = idle.min_by_key(|teller| teller.heard_at()).cloned() else {
        return false;
    };
    idle.tear();
    remove(known, &idle);
    true
}

/// Another one may have taken its place.
fn remove(known: &mut HashMap<TaskId, Arc<Teller>>, teller: &Arc<Teller>) {
    let id = teller.task_id();
    if known
        .get(id)
        .is_some_and(|known| Arc::ptr_eq(known, teller))
    {
        known.remove(id);
    }
}

/// The next news of any of them; none ever without any.
async fn next_news(news: &mut HashMap<MessageId, Subscription>) -> (MessageId, Live) {
    if news.is_empty() {
        return std::future::pending().await;
    }
    let all = news.iter_mut().map(|(message_id, news)| {
        let message_id = message_id.clone();
        async move { (message_id, news.next().await) }.boxed()
    });
    select_all(all).await.0
}
