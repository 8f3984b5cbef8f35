//! The core's `Agent` port over Codex: the core's words in, Codex's methods out, and back.

use crate::app_server::connection::CallError;
use crate::app_server::homes::Homes;
use crate::app_server::{CodexHealth, HostOptions};
use crate::error::{CallEffect, agent_error, of_call};
use crate::exec::{NO_STEER, Runs};
use crate::rollout::{CodexHome, RestoreOutcome, RolloutRestore};
use crate::terminal::{self, TerminalCommand};
use crate::thread::arrive::{self, ThreadArrivalError};
use crate::thread::foreign;
use crate::thread::history::{self, settled_history};
use crate::thread::memory::CodexMemory;
use crate::thread::operator_config;
use crate::thread::permissions::Permissions;
use crate::thread::registry::Readiness;
use crate::thread::release;
use crate::thread::travel::{TravelError, Travels};
use crate::thread::{load, start};
use crate::turn::answer::{RequestReply, reply};
use crate::turn::{CodexStream, ServerStream, clean, interrupt};
use crate::upgrade::{UpgradeOptions, Upgrader, Upgrades};
use bridge_codex::rpc::RpcRefusal;
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::method::{TurnStart, TurnStartParams, TurnSteer, TurnSteerParams};
use bridge_codex::wire::turn::UserInput;
use bridge_core::port::{
    Agent, AgentError, ForeignTurn, Ledger, LedgerError, LostTurn, RecordedTurn, RequestKey,
    Responded, Started, Steer, Steered, ThreadSpec, TravellingThread, TurnHistory, TurnLookup,
    TurnSpec, TurnStatus, TurnTransport,
};
use bridge_core::value::{
    Class, IncarnationId, MessageId, QuotaReport, RequestVerdict, ThreadId, TurnId,
};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Codex as the core sees it.
pub struct CodexAgent<L> {
    homes: Arc<Homes<L>>,
    runs: Runs,
    ledger: L,
    travels: Travels,
    upgrades: Arc<Upgrades>,
    /// Changes to another Codex when one is wanted.
    upgrader: OnceLock<AbortOnDropHandle<()>>,
}

impl<L> std::fmt::Debug for CodexAgent<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexAgent").finish_non_exhaustive()
    }
}

impl<L: Ledger> CodexAgent<L> {
    /// An agent that has not started anything yet.
    pub fn new(options: HostOptions, ledger: L) -> Self {
        Self {
            homes: Arc::new(Homes::new(options, ledger.clone())),
            runs: Runs::default(),
            ledger,
            travels: Travels::default(),
            upgrades: Arc::default(),
            upgrader: OnceLock::new(),
        }
    }

    /// From now on changes to the Codex that is wanted while turns run; to be called once, before [`Self::adopt`].
    pub fn follow_upgrades(&self, options: UpgradeOptions) {
        let (homes, upgrades) = (Arc::clone(&self.homes), Arc::clone(&self.upgrades));
        let upgrader = Upgrader::new(homes, options, upgrades);
        self.upgrader
            .get_or_init(|| AbortOnDropHandle::new(tokio::spawn(upgrader.run())));
    }

    /// Attaches to the Codex that an earlier daemon left behind in each home, and ends what can't be used.
    pub async fn adopt(&self) -> Result<(), LedgerError> {
        self.homes.adopt().await
    }

    /// How the usual Codex is.
    pub async fn health(&self) -> CodexHealth {
        self.homes.usual().health(self.upgrades.note()).await
    }

    /// How the Codex of each other CODEX_HOME is that has one now.
    pub async fn homes(&self) -> Vec<(String, CodexHealth)> {
        self.homes.health().await
    }

    /// The memory of all that run now, and their threads.
    pub fn memory(&self) -> CodexMemory {
        let all = self.homes.all().into_iter();
        let each = all.map(|host| host.memory.view(host.present().as_deref()));
        each.fold(CodexMemory::default(), CodexMemory::with)
    }

    /// Warnings of the default Codex about its configuration since it was started.
    pub async fn config_warnings(&self) -> Vec<String> {
        self.homes.usual().config_warnings().await
    }

    /// The files of a CODEX_HOME, as the configuration names it.
    pub fn rollouts(&self, home: Option<&str>) -> Result<CodexHome, ThreadArrivalError> {
        arrive::home(self.homes.of(home)?.as_ref())
    }

    /// Brings stored files into a home, and makes its Codex forget what it knows of their threads where they change. No
    /// turn may run on them; the threads that they were forked from are not used here meanwhile.
    pub async fn restore_thread(
        &self,
        home: Option<&str>,
        restore: RolloutRestore,
    ) -> Result<Vec<RestoreOutcome>, ThreadArrivalError> {
        arrive::restore(self.homes.of(home)?.as_ref(), restore).await
    }

    /// The command that opens a thread in Codex's own terminal, once it is released.
    pub async fn terminal(
        &self,
        thread: &ThreadId,
        spec: &ThreadSpec,
    ) -> Result<TerminalCommand, AgentError> {
        let host = self.homes.of(spec.codex_home.as_deref())?;
        let session = host.session().await?;
        host.ensure_isolation(&session, spec).await?;
        let operator = operator_config::read(&session.connection, spec).await?;
        let launch = host.options.launch.of(&session.program);
        let help = terminal::help(&launch).await;
        Ok(terminal::command(
            &session,
            &launch,
            (thread, spec),
            &operator,
            &help,
        ))
    }

    /// Ends Codex in all homes and everything it started.
    pub async fn stop(&self) {
        self.runs.stop_all().await;
        let all = self.homes.all();
        futures_util::future::join_all(all.iter().map(|host| host.stop())).await;
    }

    /// Lets go of Codex without ending it. A run of `codex exec` can't be handed over and ends.
    pub async fn hand_over(&self) {
        self.runs.stop_all().await;
        let all = self.homes.all();
        futures_util::future::join_all(all.iter().map(|host| host.hand_over())).await;
    }
}

/// Whether Codex refused to interrupt a turn because it does not run.
fn is_over(error: &CallError) -> bool {
    let CallError::Refused { error: refused, .. } = error else {
        return false;
    };
    matches!(
        refused.refusal(),
        RpcRefusal::NoActiveTurn | RpcRefusal::OtherTurnActive
    )
}

fn unsteered(error: &CallError) -> Result<Steered, AgentError> {
    let CallError::Refused { error: refused, .. } = error else {
        return Err(of_call(error, CallEffect::StartsTurn));
    };
    match refused.refusal() {
        RpcRefusal::Overloaded | RpcRefusal::Draining | RpcRefusal::BadConfig => {
            Err(of_call(error, CallEffect::StartsTurn))
        }
        _ => Ok(Steered::Refused {
            why: error.to_string(),
        }),
    }
}

impl<L: Ledger> Agent for CodexAgent<L> {
    type Stream = CodexStream;

    async fn ready(&self, home: Option<&str>) -> Result<IncarnationId, AgentError> {
        self.upgrades.look();
        let host = self.homes.of(home)?;
        let session = host.session().await?;
        host.usable(&session).await?;
        Ok(session.incarnation.incarnation_id.clone())
    }

    fn life_of(&self, thread: &ThreadId) -> Option<IncarnationId> {
        let host = self.homes.with_thread(thread)?;
        let session = host.session_of(thread)?;
        Some(session.incarnation.incarnation_id.clone())
    }

    fn quotas(&self) -> Vec<(Option<String>, QuotaReport)> {
        let homes = self.homes.all();
        let reports = homes.iter().map(|host| (host.home.clone(), host));
        reports
            .filter_map(|(home, host)| Some((home, host.learned.account.report()?)))
            .collect()
    }

    async fn quota_changed(&self) {
        self.homes.quota_changed().notified().await;
    }

    async fn open_thread(&self, spec: &ThreadSpec) -> Result<ThreadId, AgentError> {
        let host = self.homes.of(spec.codex_home.as_deref())?;
        let session = host.session().await?;
        host.ensure_isolation(&session, spec).await?;
        if spec.transport == TurnTransport::Exec {
            return Ok(Runs::unnamed());
        }
        let opened = async {
            let operator = operator_config::read(&session.connection, spec).await?;
            host.memory.admit(&session).await;
            start(&session, spec, &operator, host.options.new_threads).await
        };
        let opened = opened.await;
        session.judge(&opened);
        opened
    }

    async fn resume_thread(&self, thread: &ThreadId, spec: &ThreadSpec) -> Result<(), AgentError> {
        let host = self.homes.of(spec.codex_home.as_deref())?;
        let session = host.session().await?;
        let threads = &session.connection.threads;
        if spec.transport == TurnTransport::Exec {
            host.ensure_isolation(&session, spec).await?;
            host.take_from_draining(thread).await?;
            let released = self.runs.release(&session, thread).await;
            session.judge(&released);
            return released;
        }
        loop {
            match threads.make_ready(thread, spec) {
                Readiness::Ready => return Ok(()),
                Readiness::Releasing => threads.settled(thread).await,
                Readiness::NotLoaded => break,
            }
        }
        host.ensure_isolation(&session, spec).await?;
        host.take_from_draining(thread).await?;
        host.memory.admit(&session).await;
        let resumed = load(&session, thread, spec).await;
        session.judge(&resumed);
        resumed?;
        host.memory.resumed();
        Ok(())
    }

    async fn start_turn(&self, turn: &TurnSpec) -> Result<Started<CodexStream>, AgentError> {
        let host = self.homes.of(turn.spec.codex_home.as_deref())?;
        if turn.spec.transport == TurnTransport::Exec {
            let Started { turn_id, stream } = self.runs.start(&host, turn).await?;
            let stream = stream.into();
            return Ok(Started { turn_id, stream });
        }
        host.session().await?;
        let thread = turn.thread.clone();
        // It may have become the draining one since it loaded the thread.
        let loaded = host.loaded_on(&thread, &turn.spec).and_then(|session| {
            let threads = &session.connection.threads;
            let allowed = threads.loaded_as(&thread, &turn.spec)?;
            Some((session, allowed))
        });
        let Some((session, allowed)) = loaded else {
            return Err(agent_error(
                Class::Transient,
                "codex was started again, or its thread changed, before the turn began",
            ));
        };
        let connection = &session.connection;
        // Codex would put the message into that turn, whose answer is not ours.
        if connection.threads.is_busy(&thread) {
            let reason = "another program runs a turn on this conversation's thread; the message is answered after it";
            return Err(agent_error(Class::Capacity { until: None }, reason));
        }
        let client_id = turn.client_id.clone();
        let fold = TurnFold::new(thread.clone(), None, Some(client_id.clone()));
        let frame = session.frame(allowed);
        let mailbox = connection.router.open(fold, thread.clone(), frame);
        session.touch();
        connection.threads.begun(&thread);
        let stream = ServerStream::new(
            connection.clone(),
            Arc::clone(&session.program),
            thread.clone(),
            Arc::clone(&mailbox),
        );
        let mut input = vec![UserInput::text(turn.text.clone())];
        let images = turn.images.iter().cloned();
        input.extend(images.map(|path| UserInput::LocalImage { path }));
        let started = connection
            .call::<TurnStart>(TurnStartParams {
                thread_id: thread.clone(),
                input,
                client_id,
                trace: turn.trace,
            })
            .await
            .map_err(|error| of_call(&error, CallEffect::StartsTurn))
            .inspect_err(|error| {
                if error.thread.is_some() {
                    connection.threads.unloaded(&thread);
                }
            });
        session.judge(&started);
        let started = started?;
        mailbox.bind(&thread, started.turn.id.clone());
        Ok(Started {
            turn_id: started.turn.id,
            stream: stream.into(),
        })
    }

    async fn look_up(&self, lost: &LostTurn) -> Result<TurnLookup<CodexStream>, AgentError> {
        let host = self.homes.of(lost.turn.spec.codex_home.as_deref())?;
        if lost.incarnation.is_run() {
            let found = self.runs.look(&*host.session().await?, lost).await?;
            return Ok(TurnLookup {
                found,
                stream: None,
            });
        }
        let session = host.session_of_lost(lost).await?;
        session.touch();
        let thread = lost.turn.thread.clone();
        let connection = &session.connection;
        let operator = operator_config::read(connection, &lost.turn.spec).await?;
        let frame = session.frame(Permissions::of(&lost.turn.spec, &operator));
        let mailbox = connection.router.open_early(thread.clone(), frame);
        // It is followed now, so it is not let go of again.
        connection.threads.settled(&thread).await;
        let stream = ServerStream::new(
            connection.clone(),
            Arc::clone(&session.program),
            thread.clone(),
            Arc::clone(&mailbox),
        );
        let found = settled_history(&session, lost, &operator, &mailbox).await;
        session.judge(&found);
        let found = found?;
        let transcripts = &host.learned.transcripts;
        let found = transcripts.believed(&lost.incarnation, &thread, found);
        let stream = match &found {
            TurnHistory::Turn(RecordedTurn {
                status: TurnStatus::InProgress,
                turn_id,
                ..
            }) => {
                // Not marked as loaded: the next turn resumes the thread and compares its power first.
                mailbox.bind(&thread, turn_id.clone());
                Some(stream.into())
            }
            _ => None,
        };
        Ok(TurnLookup { found, stream })
    }

    /// A request belongs to one incarnation of Codex; no other one is started to answer it.
    async fn respond(
        &self,
        to: &RequestKey,
        verdict: &RequestVerdict,
    ) -> Result<Responded, AgentError> {
        let Some(session) = self.homes.with_life(&to.incarnation) else {
            return Ok(Responded::Disconnected);
        };
        let connection = &session.connection;
        let router = &connection.router;
        let Some(request) = router.open_request(to) else {
            return Ok(match connection.is_open() {
                // It is not confirmed yet, and sent again until it is.
                true if router.is_answered_so(to, verdict) => Responded::Delivered,
                true => Responded::Gone,
                false => Responded::Disconnected,
            });
        };
        let reply = match reply(&request, verdict) {
            Ok(reply) => reply,
            Err(why) => return Ok(Responded::Invalid { why }),
        };
        let said = match (reply, request.thread_id()) {
            (RequestReply::Send(outcome), _)
            | (
                RequestReply::Interrupt {
                    fallback: outcome, ..
                },
                None,
            ) => {
                if !router.answer(&request.id, outcome.clone(), Instant::now()) {
                    return Ok(Responded::Gone);
                }
                Some(outcome)
            }
            (RequestReply::Interrupt { turn, fallback }, Some(thread)) => {
                if !router.take(&request.id) {
                    return Ok(Responded::Gone);
                }
                match interrupt(connection, thread, &turn).await {
                    Ok(()) => None,
                    Err(error) => {
                        tracing::debug!(%error, "the turn of a cancelled question was not interrupted");
                        router.answered(request.clone(), fallback.clone(), Instant::now());
                        Some(fallback)
                    }
                }
            }
        };
        if let Some(outcome) = said {
            // It fails only where the connection is closed already.
            if let Err(error) = connection.respond(request.id, outcome).await {
                tracing::debug!(%error, "codex could not be answered");
                return Ok(Responded::Disconnected);
            }
        }
        Ok(Responded::Delivered)
    }

    async fn end_life(&self, thread: &ThreadId, why: &str) {
        // Where no Codex has the thread, none of them runs its turn.
        if let Some(host) = self.homes.with_thread(thread) {
            host.end_life(thread, why).await;
        }
    }

    /// Within 10 s; none is started for it. A Codex that stays silent is asked once more and then given up, and
    /// followers of its turns get an error.
    async fn probe(&self, thread: &ThreadId) -> Result<(), AgentError> {
        match self.homes.session_of(thread) {
            Some(session) => {
                let alive = session.connection.sign_of_life().await;
                alive.map_err(|error| of_call(&error, CallEffect::Repeatable))
            }
            None => Err(agent_error(Class::Transient, "codex is not running")),
        }
    }

    async fn steer(&self, steer: &Steer) -> Result<Steered, AgentError> {
        if steer.turn_id.is_run() {
            let why = NO_STEER.to_owned();
            return Ok(Steered::Refused { why });
        }
        let Some(session) = self.homes.session_of(&steer.thread) else {
            let why = "codex is not running, and the turn has ended with it".to_owned();
            return Ok(Steered::Refused { why });
        };
        let params = TurnSteerParams {
            thread_id: steer.thread.clone(),
            expected_turn_id: steer.turn_id.clone(),
            input: vec![UserInput::text(steer.text.clone())],
            client_id: steer.client_id.clone(),
        };
        match session.connection.call::<TurnSteer>(params).await {
            Ok(_) => Ok(Steered::Taken),
            Err(error) => unsteered(&error),
        }
    }

    /// The turn ends at once; its stream cleans up what it left running before it tells the end. Here that is done as
    /// well, for a turn that nobody follows or that has just ended.
    async fn interrupt(&self, thread: &ThreadId, turn_id: &TurnId) -> Result<(), AgentError> {
        if turn_id.is_run() {
            self.runs.stop(turn_id);
            return Ok(());
        }
        let Some(session) = self.homes.session_of(thread) else {
            let reason = "codex is not running, and the turn has ended with it";
            return Err(agent_error(Class::Transient, reason));
        };
        let interrupted = interrupt(&session.connection, thread, turn_id).await;
        if interrupted.as_ref().is_err_and(is_over) {
            session.connection.router.expect_end(thread, turn_id);
        }
        let cleaned = match &interrupted {
            Ok(()) | Err(CallError::Refused { .. }) => clean(&session.connection, thread).await,
            Err(_) => Ok(()),
        };
        interrupted
            .and(cleaned)
            .map_err(|error| of_call(&error, CallEffect::Repeatable))
    }

    async fn release_thread(
        &self,
        thread: &ThreadId,
        spec: &ThreadSpec,
    ) -> Result<Option<TurnId>, AgentError> {
        let host = self.homes.of(spec.codex_home.as_deref())?;
        let session = host.session().await?;
        host.take_from_draining(thread).await?;
        session.connection.threads.settled(thread).await;
        release::release(&session, thread).await?;
        release::unarchive(&session, thread).await?;
        Ok(history::newest(&session, thread.clone()).await)
    }

    async fn turns_of_others(
        &self,
        thread: &ThreadId,
        spec: &ThreadSpec,
        after: Option<&TurnId>,
    ) -> Result<Vec<ForeignTurn>, AgentError> {
        let host = self.homes.of(spec.codex_home.as_deref())?;
        let session = host.session().await?;
        let operator = operator_config::read(&session.connection, spec).await?;
        foreign::turns_of_others(&session, thread, spec, &operator, after).await
    }

    async fn bring_thread(&self, travelling: &TravellingThread) -> Result<(), AgentError> {
        let host = self.homes.of(travelling.codex_home.as_deref())?;
        let aside = host.options.threads_aside.clone();
        let brought = self
            .travels
            .bring(host.as_ref(), &self.ledger, aside, travelling);
        Ok(brought.await?)
    }

    async fn delete_thread(&self, home: Option<&str>, thread: &ThreadId) -> Result<(), AgentError> {
        let host = self.homes.of(home)?;
        let session = host.session().await?;
        session.connection.threads.settled(thread).await;
        arrive::forget(&session, thread.clone()).await?;
        Ok(())
    }

    async fn store_thread(
        &self,
        travelling: &TravellingThread,
        message_id: &MessageId,
    ) -> Result<(), AgentError> {
        let host = self.homes.of(travelling.codex_home.as_deref())?;
        let home = arrive::home(host.as_ref()).map_err(TravelError::from)?;
        let stored = self
            .travels
            .store(home, &self.ledger, travelling, message_id);
        Ok(stored.await?)
    }
}
