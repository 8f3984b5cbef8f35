//! Where the news of a turn waits for whoever follows it.
//!
//! The connection's task never waits for a follower: text is coalesced into its newest form and told as often as a
//! person can see it, items queue up to a bound, and a follower that falls further behind loses sight of the turn and
//! must reconcile.

use crate::power::{Allowed, Reported};
use crate::questions;
use bridge_codex::turn::{ItemStage, OpenChanges, TurnFold, TurnNews, TurnOutcome, made, spoken};
use bridge_codex::wire::{Notification, ServerRequest, Turn};
use bridge_core::deadline::after;
use bridge_core::port::{ItemNote, TurnEvent};
use bridge_core::value::{Class, Failure, IncarnationId, ThreadId, Timestamp, TurnId};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Events that may wait for a follower.
const QUEUE_MAX: usize = 4096;
/// Notifications kept while it is not known yet which turn is followed.
const EARLY_MAX: usize = 4096;

/// How often the text that is being written is told. Each time it is told whole, so without a pause a flood of deltas
/// would cost the square of its length; the first words and whole items never wait. What a turn that is cut wrote in
/// its last moment may stay untold.
const TEXT_EVERY: Duration = Duration::from_millis(25);

/// Why a running turn was stopped; followed by what was reported.
const OVERPOWERED: &str =
    "the turn was stopped, because its thread had more power than configured while it ran";

/// What is known of a turn before it is followed.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The life of Codex that runs it.
    pub(crate) incarnation: IncarnationId,
    /// The most that it may do.
    pub(crate) allowed: Allowed,
}

/// The mailbox of one followed turn.
#[derive(Debug)]
pub(crate) struct Mailbox {
    frame: Frame,
    inner: Mutex<Inner>,
    wake: Notify,
}

/// What a follower is told.
#[derive(Debug)]
pub(crate) enum News {
    Event(Box<TurnEvent>),
    /// The turn may do more than it should, and must be stopped. Told once.
    Overpowered {
        turn_id: TurnId,
    },
}

#[derive(Debug)]
struct Inner {
    stage: Stage,
    queue: VecDeque<TurnEvent>,
    /// The message being written has words that nobody has read.
    unread: bool,
    /// When they may be told.
    text_due: Instant,
    /// Something happened since the last event that was read.
    alive: bool,
    over: bool,
    /// The files of what may be asked about.
    changes: OpenChanges,
    power: Power,
}

#[derive(Debug)]
enum Stage {
    /// The thread is being looked at; which turn is ours is not known yet.
    Early {
        news: Vec<Notification>,
        asked: Vec<ServerRequest>,
    },
    Folding(Box<TurnFold>),
}

/// Whether the turn may do more than it should.
#[derive(Debug)]
enum Power {
    AsAllowed,
    Exceeded { why: String, told: bool },
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    /// For a turn that is about to start on an idle thread.
    pub(crate) fn folding(fold: TurnFold, frame: Frame) -> Self {
        Self::new(Stage::Folding(Box::new(fold)), frame)
    }

    /// For a thread that is about to be looked at.
    pub(crate) fn early(frame: Frame) -> Self {
        let stage = Stage::Early {
            news: Vec::new(),
            asked: Vec::new(),
        };
        Self::new(stage, frame)
    }

    fn new(stage: Stage, frame: Frame) -> Self {
        let inner = Inner {
            stage,
            queue: VecDeque::new(),
            unread: false,
            text_due: Instant::now(),
            alive: false,
            over: false,
            changes: OpenChanges::default(),
            power: Power::AsAllowed,
        };
        Self {
            frame,
            inner: Mutex::new(inner),
            wake: Notify::new(),
        }
    }

    /// What the thread's history shows of changes that are under way: Codex tells of them once, and a question that
    /// is asked again comes without them.
    pub(crate) fn recall(&self, turns: &[Turn]) {
        let mut inner = locked(&self.inner);
        for item in turns.iter().flat_map(|turn| &turn.items) {
            inner.changes.open(item);
        }
    }

    /// What the thread may do, as it was found: a turn that runs with more is stopped as soon as it is known.
    pub(crate) fn compare(&self, reported: Reported<'_>) {
        locked(&self.inner).compare(&self.frame.allowed, reported);
        self.wake.notify_one();
    }

    /// Codex named the turn that is followed: what came early is sorted now.
    pub(crate) fn bind(&self, thread: &ThreadId, turn_id: TurnId) {
        let mut inner = locked(&self.inner);
        match &mut inner.stage {
            Stage::Folding(fold) => {
                fold.bind(turn_id);
            }
            Stage::Early { news, asked } => {
                let (news, asked) = (std::mem::take(news), std::mem::take(asked));
                let fold = TurnFold::new(thread.clone(), Some(turn_id), None);
                inner.stage = Stage::Folding(Box::new(fold));
                for notification in &news {
                    inner.fold(notification, None);
                }
                for request in &asked {
                    inner.ask(request, &self.frame);
                }
            }
        }
        drop(inner);
        self.wake.notify_one();
    }

    pub(crate) fn deliver(&self, notification: &Notification, resets_at: Option<Timestamp>) {
        let mut inner = locked(&self.inner);
        let before = inner.pending();
        inner.changes.notice(notification);
        if let Notification::ThreadSettingsUpdated(update) = notification {
            inner.compare(&self.frame.allowed, Reported::from(&update.thread_settings));
        }
        if let Stage::Early { news, .. } = &mut inner.stage {
            if news.len() < EARLY_MAX {
                news.push(notification.clone())
            } else {
                inner.lose("too much happened while the thread was looked at")
            }
        } else {
            inner.fold(notification, resets_at);
        }
        let news = inner.pending() != before;
        drop(inner);
        if news {
            self.wake.notify_one();
        }
    }

    /// Tells the follower that Codex asks; kept while it is not known which turn is followed.
    pub(crate) fn ask(&self, request: &ServerRequest) {
        let mut inner = locked(&self.inner);
        match &mut inner.stage {
            Stage::Early { asked, .. } => {
                asked.retain(|early| early.id != request.id);
                asked.push(request.clone());
            }
            Stage::Folding(_) => inner.ask(request, &self.frame),
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// A question that nobody can decide: it was declined when it came, and the follower is told so.
    pub(crate) fn tell_declined(&self, request: &ServerRequest) {
        let mut inner = locked(&self.inner);
        inner.ask(request, &self.frame);
        let name = questions::name_of(request, &self.frame.incarnation);
        inner.push(TurnEvent::Resolved(name));
        drop(inner);
        self.wake.notify_one();
    }

    /// A question was settled without us.
    pub(crate) fn resolve(&self, request: &ServerRequest) {
        let mut inner = locked(&self.inner);
        match &mut inner.stage {
            Stage::Early { asked, .. } => asked.retain(|early| early.id != request.id),
            Stage::Folding(_) => {
                let name = questions::name_of(request, &self.frame.incarnation);
                inner.push(TurnEvent::Resolved(name));
            }
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Codex has our answer to a question.
    pub(crate) fn confirm(&self, request: &ServerRequest) {
        let name = questions::name_of(request, &self.frame.incarnation);
        self.push(TurnEvent::Confirmed(name));
    }

    /// A question was settled while nobody followed the thread; one that was told to an earlier follower is over.
    pub(crate) fn settled_before(&self, request: &ServerRequest) {
        let name = questions::name_of(request, &self.frame.incarnation);
        locked(&self.inner).push(TurnEvent::Resolved(name));
        self.wake.notify_one();
    }

    /// Questions that were never told to anybody.
    pub(crate) fn take_untold(&self) -> Vec<ServerRequest> {
        match &mut locked(&self.inner).stage {
            Stage::Early { asked, .. } => std::mem::take(asked),
            Stage::Folding(_) => Vec::new(),
        }
    }

    /// Whether the turn has ended for whoever follows it: nobody would hear a question any more.
    pub(crate) fn is_over(&self) -> bool {
        locked(&self.inner).over
    }

    pub(crate) fn push(&self, event: TurnEvent) {
        locked(&self.inner).push(event);
        self.wake.notify_one();
    }

    /// The next news; that it must be stopped first, then items, then the newest text, then a mere sign of life.
    pub(crate) async fn next(&self) -> News {
        loop {
            let woken = self.wake.notified();
            let text_due = {
                let mut inner = locked(&self.inner);
                if let Some(turn_id) = inner.overpowered() {
                    return News::Overpowered { turn_id };
                }
                if let Some(event) = inner.queue.pop_front() {
                    return News::Event(Box::new(event));
                }
                if let Some(text) = inner.take_text(Instant::now()) {
                    return News::Event(Box::new(text));
                }
                if std::mem::take(&mut inner.alive) {
                    return News::Event(Box::new(TurnEvent::Alive));
                }
                inner.unread.then_some(inner.text_due)
            };
            match text_due {
                Some(due) => tokio::select! {
                    () = woken => {}
                    () = sleep_until(due) => {}
                },
                None => woken.await,
            }
        }
    }
}

impl Inner {
    /// What a follower could be told, to see whether there is more of it: more words of a text that waits are not.
    fn pending(&self) -> (usize, bool, bool, bool) {
        let exceeded = matches!(self.power, Power::Exceeded { told: false, .. });
        (self.queue.len(), self.unread, self.alive, exceeded)
    }

    /// The message being written, if it has new words and they may be told.
    fn take_text(&mut self, now: Instant) -> Option<TurnEvent> {
        let Stage::Folding(fold) = &self.stage else {
            return None;
        };
        if !self.unread || now < self.text_due {
            return None;
        }
        self.unread = false;
        self.text_due = after(now, TEXT_EVERY);
        fold.writing().cloned().map(TurnEvent::Text)
    }

    fn ask(&mut self, request: &ServerRequest, frame: &Frame) {
        let sandbox = frame.allowed.sandbox.as_str();
        let asked = questions::asked(request, &frame.incarnation, sandbox, &self.changes);
        self.push(TurnEvent::Request(asked));
    }

    fn compare(&mut self, allowed: &Allowed, reported: Reported<'_>) {
        if let (Power::AsAllowed, Some(why)) = (&self.power, allowed.exceeded_by(reported)) {
            tracing::error!(why, "a thread has more power than configured");
            self.power = Power::Exceeded { why, told: false };
        }
    }

    /// The turn to stop, if it must be and nobody was told.
    fn overpowered(&mut self) -> Option<TurnId> {
        let (Stage::Folding(fold), Power::Exceeded { told, .. }) = (&self.stage, &mut self.power)
        else {
            return None;
        };
        let turn_id = fold.turn_id().filter(|_| !*told && !self.over)?;
        *told = true;
        Some(turn_id.clone())
    }

    fn fold(&mut self, notification: &Notification, resets_at: Option<Timestamp>) {
        let Stage::Folding(fold) = &mut self.stage else {
            return;
        };
        if let Notification::Malformed { method, why, .. } = notification
            && method == "turn/completed"
        {
            return self.lose(&format!("codex told its end in an unknown form ({why})"));
        }
        match fold.apply(notification) {
            Some(TurnNews::Item {
                kind,
                stage,
                item_id,
                ..
            }) if is_silent(&kind, stage) => {
                self.alive = true;
                self.unread &= fold.writing().is_some_and(|text| text.item_id != item_id);
            }
            Some(TurnNews::Item {
                stage,
                item_id,
                headline,
                effect,
                ..
            }) => {
                // Its words are told whole below, or nothing is being written any more.
                self.unread &= fold.writing().is_some_and(|text| text.item_id != item_id);
                if let Some(text) = spoken(notification) {
                    self.push(TurnEvent::Text(text));
                }
                let completed = stage == ItemStage::Completed;
                self.push(TurnEvent::Item(ItemNote {
                    item_id,
                    completed,
                    headline,
                    effect,
                    diff: made(notification),
                }));
            }
            Some(TurnNews::Text) => self.unread = true,
            Some(TurnNews::Retrying { message }) => self.push(TurnEvent::Retrying { message }),
            Some(TurnNews::Completed(outcome)) => {
                self.unread = false;
                let TurnOutcome {
                    mut end,
                    error,
                    joined,
                    unread,
                } = *outcome;
                if unread && end.answer.is_none() {
                    return self.lose("codex answered in an unknown form");
                }
                if joined {
                    tracing::warn!(turn_id = %end.turn_id, "a message was put into a turn that another program had begun on its thread");
                }
                end.failure = error.map(|error| error.failure(resets_at));
                if let Power::Exceeded { why, .. } = &self.power {
                    let reason = format!("{OVERPOWERED}: {why}");
                    end.failure = Some(Failure::new(Class::Config, reason));
                }
                self.push(TurnEvent::Ended(end));
            }
            Some(TurnNews::Started { .. } | TurnNews::Usage) => self.alive = true,
            None => self.alive |= fold.concerns(notification),
        }
    }

    fn push(&mut self, event: TurnEvent) {
        if self.over {
            return;
        }
        self.over = matches!(event, TurnEvent::Ended(_) | TurnEvent::Lost { .. });
        if self.over || self.queue.len() < QUEUE_MAX {
            self.queue.push_back(event);
        } else {
            self.lose("its news came faster than it could be kept");
        }
    }

    fn lose(&mut self, why: &str) {
        self.push(TurnEvent::Lost {
            why: why.to_owned(),
        });
    }
}

/// The user's own message is no news, and an agent message that just began has no words yet.
fn is_silent(kind: &str, stage: ItemStage) -> bool {
    kind == "userMessage" || (kind == "agentMessage" && stage == ItemStage::Started)
}

#[cfg(test)]
#[path = "mailbox_tests.rs"]
pub(crate) mod tests;
