//! Two generations of Codex in one CODEX_HOME: the current process takes new turns, the draining one ends those that run
//! on it and is then stopped. A home never has more than these two.
//!
//! A thread is written by one process at a time. One with a running turn stays where it runs; an idle one is let go of
//! by the draining process when its next turn begins on the current one. So a message waits for no turn but those of its
//! own conversation.

use crate::app_server::{Host, HostState, IDLE_STOP_GRACE, Life, Session};
use crate::binary::program::Program;
use crate::error::agent_error;
use crate::keeper::launch::{self, KeeperHold};
use crate::locked;
use crate::thread::release::release;
use bridge_core::port::{AgentError, Ledger, LostTurn, ThreadSpec};
use bridge_core::value::{Class, IncarnationId, ThreadId, Transport};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long nothing happens on a draining Codex before it is stopped: a message may be about to begin its turn.
const DRAIN_QUIET: Duration = Duration::from_secs(2);
/// How often a draining Codex is looked at.
const DRAIN_LOOK: Duration = Duration::from_secs(1);
/// How long the follower of a turn may take to let go of it once that has ended.
const FOLLOWER_PATIENCE: Duration = Duration::from_secs(1);
const FOLLOWER_LOOK: Duration = Duration::from_millis(10);
/// How long turns that are not ours, such as those of agents that a turn started, may keep a draining Codex.
const DRAIN_OTHERS_MAX: Duration = Duration::from_secs(600);

/// The processes of a home, for callers that must not wait for a start.
#[derive(Default)]
pub(super) struct Present {
    pub(super) current: Option<Arc<Session>>,
    draining: Option<Arc<Session>>,
}

impl<L: Ledger> Host<L> {
    /// Shows others what is in the state.
    pub(super) fn show(&self, state: &HostState) {
        let session = |life: &Option<Life>| life.as_ref().map(|(session, _)| Arc::clone(session));
        *locked(&self.present) = Present {
            current: session(&state.current),
            draining: session(&state.draining),
        };
        if let Some((current, _)) = &state.current {
            self.memory.serve(current);
        }
    }

    /// The living processes of this home, the one that takes new turns first.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        let present = locked(&self.present);
        let both = [&present.current, &present.draining];
        let both = both.into_iter().flatten();
        both.filter(|session| session.connection.is_open())
            .cloned()
            .collect()
    }

    /// The process that ends the turns of before, if one still does.
    pub(crate) fn draining(&self) -> Option<Arc<Session>> {
        let draining = locked(&self.present).draining.clone();
        draining.filter(|session| session.connection.is_open())
    }

    pub(crate) fn of_life(&self, life: &IncarnationId) -> Option<Arc<Session>> {
        let mut sessions = self.sessions().into_iter();
        sessions.find(|session| session.incarnation.incarnation_id == *life)
    }

    /// Whether a process of this home has to do with a thread, or had until its connection broke.
    pub(crate) fn knows(&self, thread: &ThreadId) -> bool {
        let present = locked(&self.present);
        let mut both = [&present.current, &present.draining].into_iter().flatten();
        both.any(|session| {
            let connection = &session.connection;
            connection.threads.knows(thread) || connection.router.has(thread)
        })
    }

    /// The process on which a thread's turn runs, or that has the thread loaded; otherwise the current one.
    pub(crate) fn session_of(&self, thread: &ThreadId) -> Option<Arc<Session>> {
        let sessions = self.sessions();
        let follows = |session: &&Arc<Session>| session.connection.router.has(thread);
        let knows = |session: &&Arc<Session>| session.connection.threads.knows(thread);
        let found = sessions.iter().find(follows);
        let found = found.or_else(|| sessions.iter().find(knows));
        found.or(sessions.first()).cloned()
    }

    /// The process that has a thread loaded for this spec, ready for a turn.
    pub(crate) fn loaded_on(&self, thread: &ThreadId, spec: &ThreadSpec) -> Option<Arc<Session>> {
        let mut sessions = self.sessions().into_iter();
        sessions.find(|session| {
            let threads = &session.connection.threads;
            threads.loaded_as(thread, spec).is_some()
        })
    }

    /// Makes the draining process let go of an idle thread, so that the current one can load it.
    pub(crate) async fn take_from_draining(&self, thread: &ThreadId) -> Result<(), AgentError> {
        let Some(draining) = self.draining() else {
            return Ok(());
        };
        // Who followed a turn that has just ended lets go of it in a moment.
        let until = Instant::now().checked_add(FOLLOWER_PATIENCE);
        while draining.connection.router.has(thread) && until.is_some_and(|it| Instant::now() < it)
        {
            tokio::time::sleep(FOLLOWER_LOOK).await;
        }
        match release(&draining, thread).await {
            // It does not have the thread; whether that is there at all is the current one's to say.
            Err(error) if error.thread.is_some() => Ok(()),
            released => released,
        }
    }

    /// The process that knows most of a lost turn: the one that was given it, while that lives.
    pub(crate) async fn session_of_lost(
        &self,
        lost: &LostTurn,
    ) -> Result<Arc<Session>, AgentError> {
        if let Some(session) = self.of_life(&lost.incarnation) {
            return Ok(session);
        }
        let current = self.session().await?;
        let Some(draining) = self.draining() else {
            return Ok(current);
        };
        match self.take_from_draining(&lost.turn.thread).await {
            Ok(()) => Ok(current),
            Err(error) if matches!(error.failure.class, Class::Capacity { .. }) => Ok(draining),
            Err(error) => Err(error),
        }
    }

    /// Starts this program beside the current process, which drains from then on. Where a draining process is of this
    /// program already, the two change their parts. Where none runs, none is started.
    pub(crate) async fn next_generation(
        self: &Arc<Self>,
        program: &Arc<Program>,
    ) -> Result<(), AgentError> {
        let _alone = self.changing.lock().await;
        let transport = {
            let mut state = self.state.lock().await;
            let open = |life: &Option<Life>| {
                life.as_ref()
                    .is_some_and(|(session, _)| session.connection.is_open())
            };
            if state.stopped || !open(&state.current) {
                return Ok(());
            }
            if let Some((draining, _)) = &state.draining
                && draining.connection.is_open()
            {
                if !is_same(&draining.program, program) {
                    let reason = "an older process of Codex still ends its turns";
                    return Err(agent_error(Class::Capacity { until: None }, reason));
                }
                state.swap();
                self.drain(&state);
                return Ok(());
            }
            let current = state.current.as_ref();
            current.map_or(Transport::Socket, |(session, _)| {
                session.incarnation.transport
            })
        };
        let (session, hold) = self.start_beside(program, transport).await?;
        let session = Arc::new(session);
        let mut state = self.state.lock().await;
        let recorded = match state.stopped {
            true => Err(agent_error(Class::Transient, "the daemon is stopping")),
            // Before its first turn, so that the next daemon finds both.
            false => self.record(session.incarnation.clone()).await,
        };
        if let Err(error) = recorded {
            drop(state);
            launch::stop(&session.incarnation, hold, Duration::ZERO).await;
            return Err(error);
        }
        tracing::info!(codex = %super::describe(&session.incarnation), "codex is up and takes new turns");
        let former = state.current.replace((session, hold));
        state.draining = former;
        self.drain(&state);
        Ok(())
    }

    /// The draining process takes turns again, and the current one drains. False where there is none to go back to.
    pub(crate) async fn go_back(self: &Arc<Self>, from: &Arc<Program>) -> bool {
        let _alone = self.changing.lock().await;
        let mut state = self.state.lock().await;
        let alive = |(session, _): &Life| {
            session.connection.is_open() && !Arc::ptr_eq(&session.program, from)
        };
        if state.stopped || !state.draining.as_ref().is_some_and(alive) {
            return false;
        }
        state.swap();
        self.drain(&state);
        true
    }

    /// Gives the current process up: the next use starts what is wanted then.
    pub(crate) async fn end_current(&self, why: &str) {
        if let Some(session) = self.present() {
            session.connection.close(why).await;
        }
    }

    /// A process of this program that can take turns; one that can't is ended.
    async fn start_beside(
        &self,
        program: &Arc<Program>,
        transport: Transport,
    ) -> Result<(Session, KeeperHold), AgentError> {
        self.admit(program).await?;
        let launched = self.launch_over(program, transport).await;
        let launched =
            launched.map_err(|error| agent_error(Class::Transient, error.to_string()))?;
        let (session, hold) = self.greet(launched, program).await?;
        if let Err(error) = self.login(&session).await {
            launch::stop(&session.incarnation, hold, Duration::ZERO).await;
            return Err(error);
        }
        Ok((session, hold))
    }

    /// Shows the state, and lets its draining process end its turns.
    pub(super) fn drain(self: &Arc<Self>, state: &HostState) {
        self.show(state);
        if let Some((draining, _)) = &state.draining {
            draining.touch();
            let id = draining.incarnation.incarnation_id.clone();
            tracing::info!(incarnation = %id, codex = %super::describe(&draining.incarnation), "a process of codex takes no new turns and ends those that it has");
            tokio::spawn(Arc::clone(self).end_when_drained(id));
        }
    }

    async fn end_when_drained(self: Arc<Self>, id: IncarnationId) {
        let mut only_others_since = None;
        loop {
            let draining = locked(&self.present).draining.clone();
            let Some(session) = draining.filter(|it| it.incarnation.incarnation_id == id) else {
                return;
            };
            if !session.connection.is_open()
                || self.is_drained(&session, &mut only_others_since).await
            {
                break;
            }
            tokio::select! {
                _why = session.connection.closed() => {}
                () = tokio::time::sleep(DRAIN_LOOK) => {}
            }
        }
        let mut state = self.state.lock().await;
        let life = state
            .draining
            .take_if(|(it, _)| it.incarnation.incarnation_id == id);
        self.show(&state);
        drop(state);
        let Some((session, hold)) = life else {
            return;
        };
        launch::stop(&session.incarnation, hold, IDLE_STOP_GRACE).await;
        self.record_gone(&id).await;
        tracing::info!(incarnation = %id, "the older process of codex is gone");
        self.look_again.notify_one();
    }

    /// Whether no turn is left on a process: none is followed or looked for, and no row tells of one.
    async fn is_drained(&self, session: &Session, only_others_since: &mut Option<Instant>) -> bool {
        let connection = &session.connection;
        if !connection.router.is_empty() || session.unused_for() < DRAIN_QUIET {
            *only_others_since = None;
            return false;
        }
        let id = session.incarnation.incarnation_id.clone();
        match self.ledger.read(move |rows| rows.turns_on(&id)).await {
            Ok(0) => {}
            Ok(_) => return false,
            Err(error) => {
                tracing::warn!(%error, "it is not known whether turns are left on an older process of codex");
                return false;
            }
        }
        let since = *only_others_since.get_or_insert_with(Instant::now);
        !connection.threads.any_busy() || since.elapsed() >= DRAIN_OTHERS_MAX
    }
}

fn is_same(one: &Arc<Program>, other: &Arc<Program>) -> bool {
    Arc::ptr_eq(one, other) || (one.stamp.is_some() && one.stamp == other.stamp)
}
