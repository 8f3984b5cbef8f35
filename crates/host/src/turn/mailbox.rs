//! The queue between the connection's task and the follower of one turn.
//!
//! The connection's task never waits for a follower. Text is coalesced into its newest form and delivered no faster than
//! a person can read it; items queue up to a bound. A follower that falls further behind gets [`TurnEvent::Lost`] and
//! looks the turn up in the history.

use crate::locked;
use crate::thread::permissions::{Permissions, ReportedPermissions};
use crate::turn::approvals;
use crate::turn::raw::RawLines;
use bridge_codex::turn::{
    ItemStage, OpenChanges, TurnFold, TurnNews, TurnOutcome, completed_command, completed_diff,
    completed_text,
};
use bridge_codex::wire::thread::ThreadStatus;
use bridge_codex::wire::{Notification, ServerRequest, Turn};
use bridge_core::deadline::after;
use bridge_core::port::{ItemNote, RequestKey, TurnEvent};
use bridge_core::value::{Class, Failure, IncarnationId, ThreadId, Timestamp, TurnId};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Events that may wait for a follower.
const QUEUE_MAX: usize = 4096;
/// Notifications kept while it is not known yet which turn is followed.
const EARLY_MAX: usize = 4096;

/// Least time between two events of a text that is being written. Each event has the whole text, so without a pause a
/// flood of deltas would cost the square of its length. The first words and whole items never wait. The last words of a
/// turn that is cut may be missing.
const TEXT_EVERY: Duration = Duration::from_millis(25);

/// How long the end of a turn may take to arrive once Codex says that nothing runs on its thread; measured on 0.166: it
/// is the next line.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Why a running turn was stopped; followed by what was reported.
const EXCESS_PERMISSIONS: &str =
    "the turn was stopped, because its thread had more power than configured while it ran";

/// Fixed facts of a followed turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnContext {
    /// The incarnation of Codex that runs it.
    pub(crate) incarnation: IncarnationId,
    /// The most that it may do.
    pub(crate) allowed: Permissions,
    /// Where the files of its Codex are.
    pub(crate) directory: PathBuf,
}

/// The mailbox of one followed turn.
#[derive(Debug)]
pub(crate) struct Mailbox {
    frame: TurnContext,
    inner: Mutex<MailboxState>,
    wake: Notify,
}

/// Delivered to the follower.
#[derive(Debug)]
pub(crate) enum MailboxEvent {
    Turn(Box<TurnEvent>),
    /// The turn has more permissions than configured and must be stopped. Delivered once.
    ExcessPermissions {
        turn_id: TurnId,
    },
}

#[derive(Debug)]
struct MailboxState {
    stage: FollowStage,
    queue: VecDeque<TurnEvent>,
    /// The message being written has text that the follower has not received.
    unread: bool,
    /// Earliest time for the next text event.
    text_due: Instant,
    /// Something happened since the last event that was read.
    alive: bool,
    over: bool,
    /// Nothing runs on the thread: when the end of the turn must have arrived.
    end_due: Option<Instant>,
    /// Open file changes, for approval requests without a diff.
    changes: OpenChanges,
    permissions: PermissionCheck,
    /// Set once the follower wants raw lines too.
    raw: Option<RawLines>,
}

#[derive(Debug)]
enum FollowStage {
    /// The history is being read; it is not known yet which turn is ours.
    Early {
        news: Vec<Notification>,
        requests: Vec<ServerRequest>,
    },
    Folding(Box<TurnFold>),
}

/// Whether the turn has more permissions than configured.
#[derive(Debug)]
enum PermissionCheck {
    AsAllowed,
    Exceeded { why: String, reported: bool },
}

impl Mailbox {
    /// For a turn that is about to start on an idle thread.
    pub(crate) fn folding(fold: TurnFold, frame: TurnContext) -> Self {
        Self::new(FollowStage::Folding(Box::new(fold)), frame)
    }

    /// For a thread that is about to be looked at.
    pub(crate) fn early(frame: TurnContext) -> Self {
        let stage = FollowStage::Early {
            news: Vec::new(),
            requests: Vec::new(),
        };
        Self::new(stage, frame)
    }

    fn new(stage: FollowStage, frame: TurnContext) -> Self {
        let inner = MailboxState {
            stage,
            queue: VecDeque::new(),
            unread: false,
            text_due: Instant::now(),
            alive: false,
            over: false,
            end_due: None,
            changes: OpenChanges::default(),
            permissions: PermissionCheck::AsAllowed,
            raw: None,
        };
        Self {
            frame,
            inner: Mutex::new(inner),
            wake: Notify::new(),
        }
    }

    /// Changes the state and wakes the follower.
    fn change(&self, change: impl FnOnce(&mut MailboxState)) {
        change(&mut locked(&self.inner));
        self.wake.notify_one();
    }

    fn key_of(&self, request: &ServerRequest) -> RequestKey {
        approvals::key_of(request, &self.frame.incarnation)
    }

    /// Takes the open file changes from the thread's history: Codex reports them once, and a repeated approval request
    /// comes without them.
    pub(crate) fn recall(&self, turns: &[Turn]) {
        let mut inner = locked(&self.inner);
        for item in turns.iter().flat_map(|turn| &turn.items) {
            inner.changes.open(item);
        }
    }

    /// Compares the permissions that the thread was found with. A turn that has more is stopped once it is known.
    pub(crate) fn compare(&self, reported: ReportedPermissions<'_>) {
        self.change(|inner| inner.compare(&self.frame.allowed, reported));
    }

    /// Sets the turn to follow and processes what arrived before it was known.
    pub(crate) fn bind(&self, thread: &ThreadId, turn_id: TurnId) {
        let mut inner = locked(&self.inner);
        match &mut inner.stage {
            FollowStage::Folding(fold) => {
                fold.bind(turn_id);
            }
            FollowStage::Early { news, requests } => {
                let (news, requests) = (std::mem::take(news), std::mem::take(requests));
                let fold = TurnFold::new(thread.clone(), Some(turn_id), None);
                inner.stage = FollowStage::Folding(Box::new(fold));
                for notification in &news {
                    inner.fold(notification, None);
                }
                for request in &requests {
                    inner.ask(request, &self.frame);
                }
            }
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// From now on raw lines are delivered too.
    pub(crate) fn show_raw(&self) {
        locked(&self.inner).raw = Some(RawLines::start(&self.frame.directory));
    }

    /// Delivers a line of the protocol as it came, if it is wanted.
    pub(crate) fn raw_line(&self, method: &str, text: &str) {
        let mut inner = locked(&self.inner);
        // They are never the reason why a turn is lost from sight.
        if inner.queue.len() >= QUEUE_MAX / 2 {
            return;
        }
        let Some(line) = inner.raw.as_mut().and_then(|raw| raw.line(method, text)) else {
            return;
        };
        inner.push(TurnEvent::Raw(line));
        drop(inner);
        self.wake.notify_one();
    }

    /// What Codex wrote to its standard error while the turn ran, if it is wanted; once.
    pub(crate) fn take_stderr(&self) -> Vec<String> {
        let raw = locked(&self.inner).raw.take();
        raw.map(|raw| raw.stderr()).unwrap_or_default()
    }

    pub(crate) fn deliver(&self, notification: &Notification, resets_at: Option<Timestamp>) {
        let mut inner = locked(&self.inner);
        let before = inner.pending();
        inner.changes.notice(notification);
        if let Notification::ThreadSettingsUpdated(update) = notification {
            inner.compare(
                &self.frame.allowed,
                ReportedPermissions::from(&update.thread_settings),
            );
        }
        if let FollowStage::Early { news, .. } = &mut inner.stage {
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

    /// Codex says that this turn does not run: its end is under way, or came in a form that we do not know.
    pub(crate) fn expect_end(&self, turn_id: &TurnId) {
        self.change(|inner| {
            if let FollowStage::Folding(fold) = &inner.stage
                && fold.turn_id() == Some(turn_id)
            {
                inner.expect_end();
            }
        });
    }

    /// Delivers an approval request; kept while it is not known which turn is followed.
    pub(crate) fn ask(&self, request: &ServerRequest) {
        self.change(|inner| match &mut inner.stage {
            FollowStage::Early { requests, .. } => {
                requests.retain(|early| early.id != request.id);
                requests.push(request.clone());
            }
            FollowStage::Folding(_) => inner.ask(request, &self.frame),
        });
    }

    /// Delivers a request that nobody can decide as one that is settled already.
    pub(crate) fn report_declined(&self, request: &ServerRequest) {
        self.change(|inner| {
            inner.ask(request, &self.frame);
            inner.push(TurnEvent::Resolved(self.key_of(request)));
        });
    }

    /// The request was settled without our answer.
    pub(crate) fn resolve(&self, request: &ServerRequest) {
        self.change(|inner| match &mut inner.stage {
            FollowStage::Early { requests, .. } => requests.retain(|early| early.id != request.id),
            FollowStage::Folding(_) => inner.push(TurnEvent::Resolved(self.key_of(request))),
        });
    }

    /// Codex has our answer.
    pub(crate) fn confirm(&self, request: &ServerRequest) {
        self.push(TurnEvent::Confirmed(self.key_of(request)));
    }

    /// The request was settled while nobody followed the thread. An earlier follower may have received it.
    pub(crate) fn report_settled(&self, request: &ServerRequest) {
        self.push(TurnEvent::Resolved(self.key_of(request)));
    }

    /// Requests that no follower received.
    pub(crate) fn take_undelivered_requests(&self) -> Vec<ServerRequest> {
        match &mut locked(&self.inner).stage {
            FollowStage::Early { requests, .. } => std::mem::take(requests),
            FollowStage::Folding(_) => Vec::new(),
        }
    }

    /// Whether the turn has ended for its follower, who would not receive a request any more.
    pub(crate) fn is_over(&self) -> bool {
        locked(&self.inner).over
    }

    pub(crate) fn push(&self, event: TurnEvent) {
        self.change(|inner| inner.push(event));
    }

    /// The next event by priority: excess permissions, items, the newest text, a sign of life.
    pub(crate) async fn next(&self) -> MailboxEvent {
        loop {
            let woken = self.wake.notified();
            let due = {
                let mut inner = locked(&self.inner);
                inner.miss_end(Instant::now());
                if let Some(turn_id) = inner.excess_to_stop() {
                    return MailboxEvent::ExcessPermissions { turn_id };
                }
                if let Some(event) = inner.queue.pop_front() {
                    return MailboxEvent::Turn(Box::new(event));
                }
                if let Some(text) = inner.take_text(Instant::now()) {
                    return MailboxEvent::Turn(Box::new(text));
                }
                if std::mem::take(&mut inner.alive) {
                    return MailboxEvent::Turn(Box::new(TurnEvent::Alive));
                }
                let text_due = inner.unread.then_some(inner.text_due);
                text_due.into_iter().chain(inner.end_due).min()
            };
            match due {
                Some(due) => tokio::select! {
                    () = woken => {}
                    () = sleep_until(due) => {}
                },
                None => woken.await,
            }
        }
    }
}

impl MailboxState {
    /// Changes when a waiting follower has something new to receive. More text behind an undelivered text does not count.
    fn pending(&self) -> (usize, bool, bool, bool, bool) {
        let exceeded = matches!(
            self.permissions,
            PermissionCheck::Exceeded {
                reported: false,
                ..
            }
        );
        let ending = self.end_due.is_some();
        (self.queue.len(), self.unread, self.alive, exceeded, ending)
    }

    /// The message being written, if it has new text and the pause is over.
    fn take_text(&mut self, now: Instant) -> Option<TurnEvent> {
        let FollowStage::Folding(fold) = &self.stage else {
            return None;
        };
        if !self.unread || now < self.text_due {
            return None;
        }
        self.unread = false;
        self.text_due = after(now, TEXT_EVERY);
        fold.writing().cloned().map(TurnEvent::Text)
    }

    fn ask(&mut self, request: &ServerRequest, frame: &TurnContext) {
        let sandbox = frame.allowed.sandbox.as_str();
        let requests =
            approvals::approval_request(request, &frame.incarnation, sandbox, &self.changes);
        self.push(TurnEvent::Request(requests));
    }

    fn compare(&mut self, allowed: &Permissions, reported: ReportedPermissions<'_>) {
        if let (PermissionCheck::AsAllowed, Some(why)) =
            (&self.permissions, allowed.exceeded_by(reported))
        {
            tracing::error!(why, "a thread has more power than configured");
            self.permissions = PermissionCheck::Exceeded {
                why,
                reported: false,
            };
        }
    }

    /// The turn to stop; at most once.
    fn excess_to_stop(&mut self) -> Option<TurnId> {
        let (FollowStage::Folding(fold), PermissionCheck::Exceeded { reported, .. }) =
            (&self.stage, &mut self.permissions)
        else {
            return None;
        };
        let turn_id = fold.turn_id().filter(|_| !*reported && !self.over)?;
        *reported = true;
        Some(turn_id.clone())
    }

    /// A turn that runs has an active thread.
    fn notice_status(&mut self, status: &ThreadStatus) {
        match status {
            ThreadStatus::NotLoaded | ThreadStatus::Idle | ThreadStatus::SystemError => {
                self.expect_end();
            }
            ThreadStatus::Active { .. } => self.end_due = None,
            ThreadStatus::Other(_) => {}
        }
    }

    fn expect_end(&mut self) {
        let is_known = match &self.stage {
            FollowStage::Early { .. } => false,
            FollowStage::Folding(fold) => fold.turn_id().is_some(),
        };
        if is_known && !self.over {
            self.end_due
                .get_or_insert_with(|| after(Instant::now(), END_PATIENCE));
        }
    }

    fn miss_end(&mut self, now: Instant) {
        if !self.over && self.end_due.is_some_and(|due| due <= now) {
            self.lose(
                "codex runs nothing on its thread any more and did not report the turn's end",
            );
        }
    }

    fn fold(&mut self, notification: &Notification, resets_at: Option<Timestamp>) {
        if let Notification::ThreadStatusChanged(notice) = notification {
            self.notice_status(&notice.status);
        }
        let FollowStage::Folding(fold) = &mut self.stage else {
            return;
        };
        if let Notification::Malformed { method, why, .. } = notification
            && method == "turn/completed"
        {
            return self.lose(&format!(
                "codex reported its end in an unknown form ({why})"
            ));
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
                kind,
                stage,
                item_id,
                headline,
                effect,
                ..
            }) => {
                // The whole text is delivered below, or nothing is being written any more.
                self.unread &= fold.writing().is_some_and(|text| text.item_id != item_id);
                if let Some(text) = completed_text(notification) {
                    self.push(TurnEvent::Text(text));
                }
                let completed = stage == ItemStage::Completed;
                let (output, declined) = completed_command(notification);
                self.push(TurnEvent::Item(ItemNote {
                    item_id,
                    kind,
                    completed,
                    headline,
                    effect,
                    diff: completed_diff(notification),
                    output,
                    declined,
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
                    doubt,
                } = *outcome;
                if let Some(doubt) = doubt {
                    return self.lose(&doubt);
                }
                if joined {
                    tracing::warn!(turn_id = %end.turn_id, "a message was put into a turn that another program had begun on its thread");
                }
                end.failure = error.map(|error| error.failure(resets_at));
                if let PermissionCheck::Exceeded { why, .. } = &self.permissions {
                    let reason = format!("{EXCESS_PERMISSIONS}: {why}");
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
        if self.over {
            self.end_due = None;
        }
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

/// The user's own message is not delivered, and an agent message that just began has no text yet.
fn is_silent(kind: &str, stage: ItemStage) -> bool {
    kind == "userMessage" || (kind == "agentMessage" && stage == ItemStage::Started)
}

#[cfg(test)]
pub(crate) mod tests;
