//! The threads of one connection: which are loaded, since when nobody needed them, and on which a turn runs, ours or
//! another program's.

use crate::locked;
use crate::thread::permissions::{Permissions, ReportedPermissions};
use bridge_codex::wire::Notification;
use bridge_codex::wire::notification::ThreadSettingsUpdated;
use bridge_codex::wire::thread::ThreadStatus;
use bridge_core::deadline::after;
use bridge_core::port::ThreadSpec;
use bridge_core::value::ThreadId;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// How long a thread that was made ready waits for its turn to begin before it counts as idle.
const READY_FOR: Duration = Duration::from_secs(60);

/// The threads of one connection; there are only those that were started or resumed over it.
#[derive(Debug, Default)]
pub(crate) struct ThreadRegistry {
    states: Mutex<ThreadStates>,
    /// A thread is no longer being let go of.
    released: Notify,
}

#[derive(Debug, Default)]
struct ThreadStates {
    loaded: HashMap<ThreadId, LoadedThread>,
    busy: HashSet<ThreadId>,
    /// Being let go of: who needs one of them waits.
    releasing: HashSet<ThreadId>,
    /// Loaded by an earlier daemon, and not needed here yet.
    left_over: Vec<ThreadId>,
    /// Who waits for the next report of what a thread may do.
    awaited: HashMap<ThreadId, oneshot::Sender<Option<String>>>,
}

#[derive(Debug)]
struct LoadedThread {
    allowed: Permissions,
    used: Instant,
    /// Until when it is not let go of, however long ago it was used.
    kept_until: Instant,
}

/// Whether a thread can have a turn as it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It is loaded, and stays so until its turn began or should have.
    Ready,
    /// It is being let go of: wait, then ask again.
    Releasing,
    /// It is to be loaded.
    NotLoaded,
}

/// A thread that was chosen to be let go of; nobody makes it ready meanwhile.
#[derive(Debug)]
pub(crate) struct Releasing {
    registry: Arc<ThreadRegistry>,
    thread: ThreadId,
}

impl Releasing {
    pub(crate) fn thread(&self) -> &ThreadId {
        &self.thread
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        locked(&self.registry.states).releasing.remove(&self.thread);
        self.registry.released.notify_waiters();
    }
}

impl ThreadRegistry {
    /// The permissions of a thread that was loaded over this connection for this kind of spec. Only such a thread's
    /// notifications arrive here.
    pub(crate) fn loaded_as(&self, thread: &ThreadId, spec: &ThreadSpec) -> Option<Permissions> {
        let states = locked(&self.states);
        let found = states.loaded.get(thread);
        let found = found.filter(|found| found.allowed.fits(spec));
        found.map(|found| found.allowed.clone())
    }

    /// Whether a turn with this spec can begin on a thread; one that is ready is kept until then.
    pub(crate) fn make_ready(&self, thread: &ThreadId, spec: &ThreadSpec) -> Readiness {
        let mut states = locked(&self.states);
        if states.releasing.contains(thread) {
            return Readiness::Releasing;
        }
        match states.loaded.get_mut(thread) {
            Some(found) if found.allowed.fits(spec) => {
                found.keep(READY_FOR);
                Readiness::Ready
            }
            Some(_) | None => {
                states.left_over.retain(|left| left != thread);
                Readiness::NotLoaded
            }
        }
    }

    /// Waits until a thread is not being let go of.
    pub(crate) async fn settled(&self, thread: &ThreadId) {
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            // Before the look: otherwise the end could come between the two and be missed.
            released.as_mut().enable();
            if !locked(&self.states).releasing.contains(thread) {
                return;
            }
            released.await;
        }
    }

    /// The turn that a thread was made ready for has a follower now, which keeps the thread from here on.
    pub(crate) fn begun(&self, thread: &ThreadId) {
        if let Some(found) = locked(&self.states).loaded.get_mut(thread) {
            found.used = Instant::now();
            found.kept_until = found.used;
        }
    }

    /// The thread that was not needed for the longest time, at least for `idle`, and that `is_followed` does not know.
    pub(crate) fn least_recently_used(
        self: &Arc<Self>,
        idle: Duration,
        is_followed: impl Fn(&ThreadId) -> bool,
    ) -> Option<Releasing> {
        let now = Instant::now();
        let mut states = locked(&self.states);
        let is_idle = |(thread, found): &(&ThreadId, &LoadedThread)| {
            found.kept_until <= now
                && now.duration_since(found.used) >= idle
                && !states.busy.contains(*thread)
                && !states.releasing.contains(*thread)
                && !is_followed(thread)
        };
        let oldest = states.loaded.iter().filter(is_idle);
        let thread = oldest.min_by_key(|(_, found)| found.used)?.0.clone();
        states.releasing.insert(thread.clone());
        let registry = Arc::clone(self);
        Some(Releasing { registry, thread })
    }

    /// What Codex had loaded before this connection.
    pub(crate) fn found_loaded(&self, threads: Vec<ThreadId>) {
        locked(&self.states).left_over = threads;
    }

    /// A thread that an earlier daemon left loaded, and that nobody needed since.
    pub(crate) fn left_over(
        self: &Arc<Self>,
        is_followed: impl Fn(&ThreadId) -> bool,
    ) -> Option<Releasing> {
        let mut states = locked(&self.states);
        while let Some(thread) = states.left_over.pop() {
            if states.loaded.contains_key(&thread)
                || states.busy.contains(&thread)
                || is_followed(&thread)
            {
                continue;
            }
            states.releasing.insert(thread.clone());
            let registry = Arc::clone(self);
            return Some(Releasing { registry, thread });
        }
        None
    }

    /// Keeps a thread from being let go of for a while.
    pub(crate) fn keep(&self, thread: &ThreadId, pause: Duration) {
        if let Some(found) = locked(&self.states).loaded.get_mut(thread) {
            found.keep(pause);
        }
    }

    /// How many threads Codex may have loaded, as far as is known.
    pub(crate) fn known(&self) -> usize {
        let states = locked(&self.states);
        states.loaded.len().saturating_add(states.left_over.len())
    }

    /// How many threads were loaded over this connection.
    pub(crate) fn count(&self) -> usize {
        locked(&self.states).loaded.len()
    }

    /// Waits for the next report of what a loaded thread may do; to be called before that is changed.
    pub(crate) fn await_report(&self, thread: &ThreadId) -> oneshot::Receiver<Option<String>> {
        let (sender, report) = oneshot::channel();
        locked(&self.states).awaited.insert(thread.clone(), sender);
        report
    }

    /// Whether this connection has anything to do with a thread.
    pub(crate) fn knows(&self, thread: &ThreadId) -> bool {
        locked(&self.states).loaded.contains_key(thread)
    }

    /// A thread was loaded over this connection, and may do this.
    pub(crate) fn loaded(&self, thread: ThreadId, status: &ThreadStatus, allowed: Permissions) {
        let mut states = locked(&self.states);
        states.note(&thread, is_busy(status));
        let used = Instant::now();
        let mut found = LoadedThread {
            allowed,
            used,
            kept_until: used,
        };
        found.keep(READY_FOR);
        states.loaded.insert(thread, found);
    }

    /// What Codex says of a thread when it is asked: the end of a turn may have come in a form that we do not know.
    pub(crate) fn reported(&self, thread: &ThreadId, status: &ThreadStatus) {
        locked(&self.states).note(thread, is_busy(status));
    }

    /// Codex says that it has not loaded the thread after all.
    pub(crate) fn unloaded(&self, thread: &ThreadId) {
        let mut states = locked(&self.states);
        states.loaded.remove(thread);
        states.busy.remove(thread);
        states.awaited.remove(thread);
    }

    /// Whether a turn runs on a thread: Codex would put another one into it without a word.
    pub(crate) fn is_busy(&self, thread: &ThreadId) -> bool {
        locked(&self.states).busy.contains(thread)
    }

    /// Whether a turn runs on any thread.
    pub(crate) fn any_busy(&self) -> bool {
        !locked(&self.states).busy.is_empty()
    }

    pub(crate) fn notice(&self, notification: &Notification) {
        if let Notification::ThreadSettingsUpdated(update) = notification {
            locked(&self.states).compare(update);
        }
        if let Notification::ThreadClosed(notice) = notification {
            return self.unloaded(&notice.thread_id);
        }
        let (thread, busy) = match notification {
            Notification::TurnStarted(notice) => (&notice.thread_id, true),
            Notification::TurnCompleted(notice) => (&notice.thread_id, false),
            Notification::ThreadStatusChanged(notice) => {
                (&notice.thread_id, is_busy(&notice.status))
            }
            // An end that can't be read is an end.
            Notification::Malformed {
                method,
                thread_id: Some(thread),
                ..
            } if method == "turn/completed" => (thread, false),
            _ => return,
        };
        locked(&self.states).note(thread, busy);
    }
}

impl ThreadStates {
    /// Somebody gave the thread more power: it counts as not loaded, so that it is compared before its next turn.
    fn compare(&mut self, update: &ThreadSettingsUpdated) {
        let reported = ReportedPermissions::from(&update.thread_settings);
        let exceeded = self
            .loaded
            .get(&update.thread_id)
            .and_then(|found| found.allowed.exceeded_by(reported));
        if let Some(why) = &exceeded {
            tracing::error!(why, thread = %update.thread_id.as_str(), "a thread was given more power than configured");
            self.loaded.remove(&update.thread_id);
        }
        if let Some(sender) = self.awaited.remove(&update.thread_id) {
            // A receiver that gave up needs no answer.
            let _gone = sender.send(exceeded);
        }
    }

    fn note(&mut self, thread: &ThreadId, busy: bool) {
        if busy {
            self.busy.insert(thread.clone())
        } else {
            self.busy.remove(thread)
        };
        if let Some(found) = self.loaded.get_mut(thread) {
            found.used = Instant::now();
        }
    }
}

impl LoadedThread {
    fn keep(&mut self, pause: Duration) {
        self.kept_until = after(Instant::now(), pause);
    }
}

fn is_busy(status: &ThreadStatus) -> bool {
    matches!(status, ThreadStatus::Active { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::operator_config::OperatorConfig;
    use bridge_core::port::{Reads, TurnTransport};
    use bridge_core::value::{ApprovalPolicy, Sandbox};
    use serde_json::json;

    fn spec() -> ThreadSpec {
        ThreadSpec {
            workdir: "/w".to_owned(),
            sandbox: Sandbox::WorkspaceWrite,
            approval_policy: ApprovalPolicy::OnRequest,
            model: None,
            instructions: String::new(),
            reads: Reads::Disk,
            transport: TurnTransport::AppServer,
            codex_home: None,
            agents: Vec::new(),
        }
    }

    /// Threads that were loaded in this order, a second apart, and have had their turns.
    async fn with_idle(names: &[&str]) -> Arc<ThreadRegistry> {
        let registry = Arc::new(ThreadRegistry::default());
        for name in names {
            let thread = ThreadId::new(*name);
            let allowed = Permissions::of(&spec(), &OperatorConfig::default());
            registry.loaded(thread.clone(), &ThreadStatus::Idle, allowed);
            registry.begun(&thread);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        registry
    }

    fn oldest(registry: &Arc<ThreadRegistry>) -> Option<String> {
        let found = registry.least_recently_used(Duration::ZERO, |_| false)?;
        Some(found.thread().as_str().to_owned())
    }

    fn turn(method: &str, thread: &str) -> Notification {
        let turn = json!({"id": "u", "status": "inProgress", "items": []});
        Notification::parse(method, &json!({"threadId": thread, "turn": turn}))
    }

    #[tokio::test(start_paused = true)]
    async fn least_recently_used_thread_goes_first() {
        let registry = with_idle(&["a", "b", "c"]).await;
        assert_eq!(oldest(&registry).as_deref(), Some("a"));
        registry.notice(&turn("turn/started", "a"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(oldest(&registry).as_deref(), Some("b"), "a turn runs on a");
        registry.notice(&turn("turn/completed", "a"));
        assert_eq!(oldest(&registry).as_deref(), Some("b"));
        let followed = |thread: &ThreadId| thread.as_str() == "b";
        let next = registry.least_recently_used(Duration::ZERO, followed);
        assert_eq!(next.unwrap().thread().as_str(), "c");
        assert!(registry.least_recently_used(READY_FOR, |_| false).is_none());
        registry.keep(&ThreadId::new("b"), READY_FOR);
        assert_eq!(oldest(&registry).as_deref(), Some("c"));
    }

    #[tokio::test(start_paused = true)]
    async fn thread_that_waits_for_its_turn_stays() {
        let registry = with_idle(&["a"]).await;
        let thread = ThreadId::new("a");
        assert_eq!(registry.make_ready(&thread, &spec()), Readiness::Ready);
        assert_eq!(oldest(&registry), None);
        registry.begun(&thread);
        assert_eq!(oldest(&registry).as_deref(), Some("a"));
        assert_eq!(registry.make_ready(&thread, &spec()), Readiness::Ready);
        tokio::time::advance(READY_FOR).await;
        assert_eq!(oldest(&registry).as_deref(), Some("a"), "it never began");
    }

    /// A message that comes while its thread is let go of waits for that, and then loads it again.
    #[tokio::test(start_paused = true)]
    async fn thread_in_release_is_waited_for() {
        let registry = with_idle(&["a"]).await;
        let thread = ThreadId::new("a");
        let release = registry.least_recently_used(Duration::ZERO, |_| false);
        assert_eq!(registry.make_ready(&thread, &spec()), Readiness::Releasing);
        assert_eq!(oldest(&registry), None, "once is enough");
        let (waiting, of) = (Arc::clone(&registry), thread.clone());
        let waiter = tokio::spawn(async move { waiting.settled(&of).await });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        registry.unloaded(&thread);
        drop(release);
        waiter.await.unwrap();
        assert_eq!(registry.make_ready(&thread, &spec()), Readiness::NotLoaded);
    }

    #[tokio::test]
    async fn settings_report_rejects_excess_permissions() {
        let spec = spec();
        let (registry, thread) = (ThreadRegistry::default(), ThreadId::new("t"));
        let update = |network: bool| {
            let policy =
                json!({"type": "workspaceWrite", "writableRoots": [], "networkAccess": network});
            let settings = json!({"sandboxPolicy": policy, "approvalPolicy": "on-request",
                                  "approvalsReviewer": "user", "activePermissionProfile": null});
            let params = json!({"threadId": "t", "threadSettings": settings});
            Notification::parse("thread/settings/updated", &params)
        };
        for (network, usable) in [(false, true), (true, false)] {
            let allowed = Permissions::of(&spec, &OperatorConfig::default());
            registry.loaded(thread.clone(), &ThreadStatus::Idle, allowed);
            let report = registry.await_report(&thread);
            registry.notice(&update(network));
            assert_eq!(report.await.unwrap().is_none(), usable);
            assert_eq!(registry.loaded_as(&thread, &spec).is_some(), usable);
        }
    }
}
