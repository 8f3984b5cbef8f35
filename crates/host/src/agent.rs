//! The core's `Agent` port over Codex: the core's words in, Codex's methods out, and back.

use crate::connection::{CallError, Connection};
use crate::exec::{ExecStream, NO_STEER, Runs};
use crate::fault::{Deed, fault, of_call};
use crate::history::settled_history;
use crate::host::{Health, Host, HostOptions, wall_now};
use crate::mailbox::Mailbox;
use crate::operator;
use crate::thread::{check_power, resume, settings, start};
use bridge_codex::rpc::Refusal;
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::ids::{ClientId, ThreadId, TurnId};
use bridge_codex::wire::input::UserInput;
use bridge_codex::wire::method::{
    BackgroundTerminalsClean, TurnInterrupt, TurnInterruptParams, TurnStart, TurnStartParams,
    TurnSteer, TurnSteerParams,
};
use bridge_codex::wire::thread::{ThreadIdParams, ThreadResumeParams};
use bridge_codex::wire::values::SortDirection;
use bridge_core::port::{
    Agent, AgentFault, AskedRef, Finding, Found, Ledger, LedgerError, Looked, LostTurn, Responded,
    Started, Steer, Steered, ThreadSpec, ThreadTrouble, TurnEvent, TurnSpec, TurnStatus,
    TurnStream, TurnTransport,
};
use bridge_core::value::{self, Class, IncarnationId, RequestVerdict};
use std::sync::Arc;

/// Codex as the core sees it.
pub struct CodexAgent<L> {
    host: Arc<Host<L>>,
    runs: Runs,
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
            host: Arc::new(Host::new(options, ledger)),
            runs: Runs::default(),
        }
    }

    /// Attaches to the Codex that an earlier daemon left behind, and ends what can't be used.
    pub async fn adopt(&self) -> Result<(), LedgerError> {
        self.host.adopt().await
    }

    /// How Codex is.
    pub fn health(&self) -> Health {
        self.host.health()
    }

    /// What Codex said about its configuration since it was started.
    pub async fn config_warnings(&self) -> Vec<String> {
        self.host.config_warnings().await
    }

    /// Ends Codex and everything it started.
    pub async fn stop(&self) {
        self.runs.stop_all().await;
        self.host.stop().await;
    }

    /// Lets go of Codex without ending it. A run of `codex exec` can't be handed over and ends.
    pub async fn hand_over(&self) {
        self.runs.stop_all().await;
        self.host.hand_over().await;
    }
}

fn unsteered(error: &CallError) -> Result<Steered, AgentFault> {
    let CallError::Refused { error: refused, .. } = error else {
        return Err(of_call(error, Deed::StartTurn));
    };
    match refused.refusal() {
        Refusal::Overloaded | Refusal::Draining | Refusal::BadConfig => {
            Err(of_call(error, Deed::StartTurn))
        }
        Refusal::ActiveWriter
        | Refusal::NoRollout
        | Refusal::DamagedRollout
        | Refusal::ThreadNotFound
        | Refusal::InvalidThreadId
        | Refusal::Archived
        | Refusal::InputTooLarge { .. }
        | Refusal::NoActiveTurn
        | Refusal::OtherTurnActive
        | Refusal::NotInitialized
        | Refusal::NeedsExperimental
        | Refusal::Other => Ok(Steered::Refused {
            why: error.to_string(),
        }),
    }
}

/// The news of one turn.
pub struct CodexStream(Source);

enum Source {
    Server(ServerStream),
    Run(ExecStream),
}

/// The news of a turn on the app-server.
struct ServerStream {
    connection: Connection,
    thread: ThreadId,
    mailbox: Arc<Mailbox>,
}

impl std::fmt::Debug for CodexStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexStream").finish_non_exhaustive()
    }
}

impl TurnStream for CodexStream {
    async fn next(&mut self) -> TurnEvent {
        match &mut self.0 {
            Source::Server(stream) => stream.mailbox.next().await,
            Source::Run(stream) => stream.next().await,
        }
    }
}

impl Drop for ServerStream {
    fn drop(&mut self) {
        self.connection.mailboxes.close(&self.thread, &self.mailbox);
    }
}

impl<L: Ledger> Agent for CodexAgent<L> {
    type Stream = CodexStream;

    async fn ready(&self, _home: Option<&str>) -> Result<IncarnationId, AgentFault> {
        self.host.learned.account.check(wall_now())?;
        let session = self.host.session().await?;
        self.host.usable(&session).await?;
        Ok(session.incarnation.incarnation_id.clone())
    }

    async fn open_thread(&self, spec: &ThreadSpec) -> Result<value::ThreadId, AgentFault> {
        let session = self.host.session().await?;
        self.host.prove_shield(&session, spec).await?;
        if spec.transport == TurnTransport::Exec {
            return Ok(Runs::unnamed());
        }
        let operator = operator::read(&session.connection, spec).await?;
        let opened = start(&session, spec, &operator).await?;
        let threads = &session.connection.threads;
        threads.loaded(opened.thread.id.clone(), &opened.thread.status);
        Ok(value::ThreadId::new(opened.thread.id.as_str()))
    }

    async fn resume_thread(
        &self,
        thread: &value::ThreadId,
        spec: &ThreadSpec,
    ) -> Result<(), AgentFault> {
        let session = self.host.session().await?;
        if spec.transport == TurnTransport::Exec {
            self.host.prove_shield(&session, spec).await?;
            return self.runs.release(&session, thread).await;
        }
        let thread = ThreadId::from(thread.as_str());
        if session.connection.threads.is_loaded(&thread) {
            return Ok(());
        }
        self.host.prove_shield(&session, spec).await?;
        let operator = operator::read(&session.connection, spec).await?;
        let params = ThreadResumeParams {
            thread_id: thread.clone(),
            settings: settings(spec, &session.ground, &operator),
            exclude_turns: true,
            initial_turns_page: None,
        };
        let (opened, _) = resume(&session, params)
            .await?
            .into_parts(&SortDirection::Descending);
        check_power(&opened, spec)?;
        let threads = &session.connection.threads;
        threads.loaded(thread, &opened.thread.status);
        Ok(())
    }

    async fn start_turn(&self, turn: &TurnSpec) -> Result<Started<CodexStream>, AgentFault> {
        if turn.spec.transport == TurnTransport::Exec {
            let Started { turn_id, stream } = self.runs.start(&self.host, turn).await?;
            let stream = CodexStream(Source::Run(stream));
            return Ok(Started { turn_id, stream });
        }
        let session = self.host.session().await?;
        let thread = ThreadId::from(turn.thread.as_str());
        if !session.connection.threads.is_loaded(&thread) {
            return Err(fault(
                Class::Transient,
                "codex was started again before the turn began",
            ));
        }
        // Codex would put the message into that turn, whose answer is not ours.
        if session.connection.threads.is_busy(&thread) {
            let reason = "another program runs a turn on this conversation's thread; the message is answered after it";
            return Err(fault(Class::Capacity { until: None }, reason));
        }
        let client_id = ClientId::from(turn.client_id.as_str());
        let fold = TurnFold::new(thread.clone(), None, Some(client_id.clone()));
        let incarnation = session.incarnation.incarnation_id.clone();
        let mailbox = session
            .connection
            .mailboxes
            .open(fold, thread.clone(), incarnation);
        let stream = ServerStream {
            connection: session.connection.clone(),
            thread: thread.clone(),
            mailbox: Arc::clone(&mailbox),
        };
        let mut input = vec![UserInput::text(turn.text.clone())];
        let images = turn.images.iter().cloned();
        input.extend(images.map(|path| UserInput::LocalImage { path }));
        let started = session
            .connection
            .call::<TurnStart>(TurnStartParams::new(thread.clone(), client_id, input))
            .await
            .map_err(|error| of_call(&error, Deed::StartTurn))
            .inspect_err(|fault| {
                if fault.thread != ThreadTrouble::None {
                    session.connection.threads.unloaded(&thread);
                }
            })?;
        mailbox.bind(&thread, started.turn.id.clone());
        Ok(Started {
            turn_id: value::TurnId::new(started.turn.id.as_str()),
            stream: CodexStream(Source::Server(stream)),
        })
    }

    async fn look(&self, lost: &LostTurn) -> Result<Looked<CodexStream>, AgentFault> {
        let session = self.host.session().await?;
        if lost.incarnation.is_run() {
            let found = self.runs.look(&session, lost).await?;
            return Ok(Looked {
                found,
                stream: None,
            });
        }
        let incarnation = session.incarnation.incarnation_id.clone();
        let thread = ThreadId::from(lost.turn.thread.as_str());
        let mailbox = session
            .connection
            .mailboxes
            .open_early(thread.clone(), incarnation);
        let stream = ServerStream {
            connection: session.connection.clone(),
            thread: thread.clone(),
            mailbox: Arc::clone(&mailbox),
        };
        let found = settled_history(&session, lost).await?;
        let transcripts = &self.host.learned.transcripts;
        let found = transcripts.believed(&lost.incarnation, &thread, found);
        let stream = match &found {
            Found::Turn(Finding {
                status: TurnStatus::InProgress,
                turn_id,
                ..
            }) => {
                // Not marked as loaded: the next turn resumes the thread and compares its power first.
                mailbox.bind(&thread, TurnId::from(turn_id.as_str()));
                Some(CodexStream(Source::Server(stream)))
            }
            Found::Turn(_) | Found::Absent | Found::Foreign | Found::Unreadable { .. } => None,
        };
        Ok(Looked { found, stream })
    }

    async fn respond(
        &self,
        to: &AskedRef,
        verdict: &RequestVerdict,
    ) -> Result<Responded, AgentFault> {
        let session = self.host.session().await?;
        if session.incarnation.incarnation_id != to.incarnation {
            return Ok(Responded::Gone);
        }
        if verdict.decision.accepts() {
            let why = "nothing can be accepted yet".to_owned();
            return Ok(Responded::Unfit { why });
        }
        let Some(request) = session.connection.mailboxes.take_asked(&to.rpc_id) else {
            return Ok(Responded::Gone);
        };
        let outcome = request.decline();
        session
            .connection
            .respond(request.id, outcome)
            .await
            .map_err(|error| of_call(&error, Deed::Harmless))?;
        Ok(Responded::Told)
    }

    async fn end_life(&self, _thread: &value::ThreadId, why: &str) {
        self.host.end_life(why).await;
    }

    /// Within 10 s; none is started for it. A Codex that stays silent is asked once more and then given up, and
    /// whoever follows a turn on it hears that.
    async fn probe(&self, _thread: &value::ThreadId) -> Result<(), AgentFault> {
        match self.host.present().await {
            Some(session) => {
                let alive = session.connection.sign_of_life().await;
                alive.map_err(|error| of_call(&error, Deed::Harmless))
            }
            None => Err(fault(Class::Transient, "codex is not running")),
        }
    }

    async fn steer(&self, steer: &Steer) -> Result<Steered, AgentFault> {
        if steer.turn_id.is_run() {
            let why = NO_STEER.to_owned();
            return Ok(Steered::Refused { why });
        }
        let Some(session) = self.host.present().await else {
            let why = "codex is not running, and the turn has ended with it".to_owned();
            return Ok(Steered::Refused { why });
        };
        let params = TurnSteerParams {
            thread_id: ThreadId::from(steer.thread.as_str()),
            expected_turn_id: TurnId::from(steer.turn_id.as_str()),
            input: vec![UserInput::text(steer.text.clone())],
            client_id: Some(ClientId::from(steer.client_id.as_str())),
        };
        match session.connection.call::<TurnSteer>(params).await {
            Ok(_) => Ok(Steered::Taken),
            Err(error) => unsteered(&error),
        }
    }

    async fn interrupt(
        &self,
        thread: &value::ThreadId,
        turn_id: &value::TurnId,
    ) -> Result<(), AgentFault> {
        if turn_id.is_run() {
            self.runs.stop(turn_id);
            return Ok(());
        }
        let session = self.host.session().await?;
        let thread_id = ThreadId::from(thread.as_str());
        let params = TurnInterruptParams {
            thread_id: thread_id.clone(),
            turn_id: TurnId::from(turn_id.as_str()),
        };
        let interrupted = session.connection.call::<TurnInterrupt>(params).await;
        // The turn ends at once, but a command it started would run on; also that of a turn which has just ended.
        let cleaned = match &interrupted {
            Ok(_) | Err(CallError::Refused { .. }) => {
                let params = ThreadIdParams { thread_id };
                let call = session.connection.call::<BackgroundTerminalsClean>(params);
                call.await.map(drop)
            }
            Err(_) => Ok(()),
        };
        interrupted
            .and(cleaned)
            .map_err(|error| of_call(&error, Deed::Harmless))
    }
}
