//! `codex exec`: a process for every turn, behind the same port as the app-server.
//!
//! A run gets its text on stdin, tells its news as lines of JSON, and ends by itself or with everything it started. It
//! can't be steered and asks nothing. The app-server beside it reads histories; it never writes a thread that runs here.

pub(crate) mod args;
mod run;
mod run_end;
mod thread;

use self::run::Run;
use crate::app_server::{Host, Session};
use crate::error::agent_error;
use crate::locked;
use bridge_codex::exec::ExecUsage;
use bridge_core::port::{
    AgentError, Ledger, LostTurn, Started, TurnEvent, TurnHistory, TurnSpec, TurnStream,
};
use bridge_core::value::{Class, ThreadId, TurnId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Events of a run that may wait for its follower; beyond it Codex waits.
const EVENTS_MAX: usize = 64;
/// Threads whose cost so far is remembered; beyond it all are forgotten, and the next run of each tells no cost.
const TOTALS_MAX: usize = 4096;

/// Why a run takes no more text.
pub(crate) const NO_STEER: &str = "this conversation runs over `codex exec`, which takes no text into a running turn; the message waits for its own turn";

/// All `codex exec` processes of this daemon.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    registry: Arc<Mutex<RunRegistry>>,
    tasks: TaskTracker,
}

/// The running processes, and the usage of the threads they ran on.
#[derive(Debug, Default)]
struct RunRegistry {
    running: HashMap<TurnId, (ThreadId, CancellationToken)>,
    /// Usage of a thread after its last run.
    totals: HashMap<ThreadId, ExecUsage>,
    closed: bool,
}

/// The events of one run. Dropping it ends the run.
pub(crate) struct ExecStream {
    inbox: mpsc::Receiver<TurnEvent>,
    _stop: DropGuard,
}

impl TurnStream for ExecStream {
    async fn next(&mut self) -> TurnEvent {
        match self.inbox.recv().await {
            Some(event) => event,
            None => TurnEvent::Lost {
                why: "the run of `codex exec` was lost from sight".to_owned(),
            },
        }
    }
}

impl Runs {
    /// A name for a thread that a run will begin.
    pub(crate) fn unnamed() -> ThreadId {
        ThreadId::unnamed(&uuid::Uuid::new_v4().simple().to_string())
    }

    /// Makes sure that a run can have the thread.
    pub(crate) async fn release(
        &self,
        session: &Session,
        thread: &ThreadId,
    ) -> Result<(), AgentError> {
        thread::release(session, thread).await
    }

    /// Begins the run of a turn. An error means that Codex was not given the text.
    pub(crate) async fn start<L: Ledger>(
        &self,
        host: &Arc<Host<L>>,
        turn: &TurnSpec,
    ) -> Result<Started<ExecStream>, AgentError> {
        let turn_id = TurnId::of_run(&turn.client_id);
        let stop = CancellationToken::new();
        self.enter(&turn_id, &turn.thread, &stop)?;
        let slot = RunSlot {
            registry: Arc::clone(&self.registry),
            turn_id: turn_id.clone(),
        };
        let run = Run::begin(host, turn).await?;
        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        let host = Arc::clone(host);
        let watched = stop.clone();
        self.tasks
            .spawn(async move { run.follow(&host, slot, &watched, &events).await });
        let stream = ExecStream {
            inbox,
            _stop: stop.drop_guard(),
        };
        Ok(Started { turn_id, stream })
    }

    fn enter(
        &self,
        turn_id: &TurnId,
        thread: &ThreadId,
        stop: &CancellationToken,
    ) -> Result<(), AgentError> {
        let mut registry = locked(&self.registry);
        if registry.closed {
            return Err(agent_error(Class::Transient, "the daemon is stopping"));
        }
        if registry.running.values().any(|(taken, _)| taken == thread) {
            let reason = "a run of `codex exec` is still at work on this conversation's thread; the message is answered after it";
            return Err(agent_error(Class::Capacity { until: None }, reason));
        }
        let run = (thread.clone(), stop.clone());
        registry.running.insert(turn_id.clone(), run);
        Ok(())
    }

    /// Ends a run with everything it started; its end still arrives on its stream.
    pub(crate) fn stop(&self, turn_id: &TurnId) {
        if let Some((_, stop)) = locked(&self.registry).running.get(turn_id) {
            stop.cancel();
        }
    }

    /// Ends all runs and waits until they are gone.
    pub(crate) async fn stop_all(&self) {
        {
            let mut registry = locked(&self.registry);
            registry.closed = true;
            for (_, stop) in registry.running.values() {
                stop.cancel();
            }
        }
        self.tasks.close();
        // Each run is bounded: see `run::STOP_PATIENCE`.
        self.tasks.wait().await;
    }

    /// Finds the end of a lost run.
    pub(crate) async fn look(
        &self,
        session: &Session,
        lost: &LostTurn,
    ) -> Result<TurnHistory, AgentError> {
        thread::look(session, lost).await
    }
}

/// A run's place among those under way; given back when the run is over, however that comes.
pub(super) struct RunSlot {
    registry: Arc<Mutex<RunRegistry>>,
    turn_id: TurnId,
}

impl RunSlot {
    /// Returns the usage of the thread before this run, and records the one after it.
    fn count(&self, thread: &ThreadId, fresh: bool, total: Option<ExecUsage>) -> Option<ExecUsage> {
        let mut registry = locked(&self.registry);
        let before = if fresh {
            Some(ExecUsage::default())
        } else {
            registry.totals.get(thread).copied()
        };
        if registry.totals.len() >= TOTALS_MAX {
            registry.totals.clear();
        }
        match total {
            Some(total) => registry.totals.insert(thread.clone(), total),
            None => registry.totals.remove(thread),
        };
        before
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        locked(&self.registry).running.remove(&self.turn_id);
    }
}
