//! The threads of one connection: which are loaded, and on which a turn runs, ours or another program's.

use crate::locked;
use crate::thread::permissions::{Permissions, ReportedPermissions};
use bridge_codex::wire::Notification;
use bridge_codex::wire::notification::ThreadSettingsUpdated;
use bridge_codex::wire::thread::ThreadStatus;
use bridge_core::port::ThreadSpec;
use bridge_core::value::ThreadId;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use tokio::sync::oneshot;

/// The threads of one connection; there are only those that were started or resumed over it.
#[derive(Debug, Default)]
pub(crate) struct ThreadRegistry {
    states: Mutex<ThreadStates>,
}

#[derive(Debug, Default)]
struct ThreadStates {
    loaded: HashMap<ThreadId, Permissions>,
    busy: HashSet<ThreadId>,
    /// Who waits for the next report of what a thread may do.
    awaited: HashMap<ThreadId, oneshot::Sender<Option<String>>>,
}

impl ThreadRegistry {
    /// The permissions of a thread that was loaded over this connection for this kind of spec. Only such a thread's
    /// notifications arrive here.
    pub(crate) fn loaded_as(&self, thread: &ThreadId, spec: &ThreadSpec) -> Option<Permissions> {
        let allowed = locked(&self.states).loaded.get(thread).cloned();
        allowed.filter(|allowed| allowed.fits(spec))
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
        states.loaded.insert(thread, allowed);
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
        let (thread, busy) = match notification {
            Notification::TurnStarted(notice) => (&notice.thread_id, true),
            Notification::TurnCompleted(notice) => (&notice.thread_id, false),
            Notification::ThreadStatusChanged(notice) => {
                (&notice.thread_id, is_busy(&notice.status))
            }
            Notification::ThreadClosed(notice) => (&notice.thread_id, false),
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
            .and_then(|allowed| allowed.exceeded_by(reported));
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

    #[tokio::test]
    async fn settings_report_rejects_excess_permissions() {
        let spec = ThreadSpec {
            workdir: "/w".to_owned(),
            sandbox: Sandbox::WorkspaceWrite,
            approval_policy: ApprovalPolicy::OnRequest,
            model: None,
            instructions: String::new(),
            reads: Reads::Disk,
            transport: TurnTransport::AppServer,
            codex_home: None,
            agents: Vec::new(),
        };
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
