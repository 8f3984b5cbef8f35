//! The core's `Agent` port over Codex: the core's words in, Codex's methods out, and back.

use crate::connection::Connection;
use crate::fault::{Deed, fault, of_call};
use crate::history::settled_history;
use crate::host::{Health, Host, HostOptions};
use crate::mailbox::Mailbox;
use crate::thread::{check_power, resume, settings};
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::ids::{ClientId, ThreadId, TurnId};
use bridge_codex::wire::input::UserInput;
use bridge_codex::wire::method::{
    BackgroundTerminalsClean, ThreadStart, TurnInterrupt, TurnInterruptParams, TurnStart,
    TurnStartParams,
};
use bridge_codex::wire::thread::{ThreadIdParams, ThreadResumeParams, ThreadStartParams};
use bridge_codex::wire::values::SortDirection;
use bridge_core::port::{
    Agent, AgentFault, Asked, Finding, Found, Ledger, LedgerError, Looked, LostTurn, Started,
    Steer, Steered, ThreadSpec, ThreadTrouble, TurnEvent, TurnSpec, TurnStatus, TurnStream,
};
use bridge_core::value::{self, Class, IncarnationId};
use std::sync::Arc;

/// Codex as the core sees it.
pub struct CodexAgent<L> {
    host: Host<L>,
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
            host: Host::new(options, ledger),
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
        self.host.stop().await;
    }

    /// Lets go of Codex without ending it.
    pub async fn hand_over(&self) {
        self.host.hand_over().await;
    }
}

/// The news of one turn.
pub struct CodexStream {
    connection: Connection,
    thread: ThreadId,
    mailbox: Arc<Mailbox>,
}

impl std::fmt::Debug for CodexStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexStream")
            .field("thread", &self.thread)
            .finish_non_exhaustive()
    }
}

impl TurnStream for CodexStream {
    async fn next(&mut self) -> TurnEvent {
        self.mailbox.next().await
    }
}

impl Drop for CodexStream {
    fn drop(&mut self) {
        self.connection.mailboxes.close(&self.thread, &self.mailbox);
    }
}

impl<L: Ledger> Agent for CodexAgent<L> {
    type Stream = CodexStream;

    async fn ready(&self) -> Result<IncarnationId, AgentFault> {
        let session = self.host.session().await?;
        self.host.logged_in(&session).await?;
        Ok(session.incarnation.incarnation_id.clone())
    }

    async fn open_thread(&self, spec: &ThreadSpec) -> Result<value::ThreadId, AgentFault> {
        let session = self.host.session().await?;
        let params = ThreadStartParams {
            settings: settings(spec),
            ..ThreadStartParams::default()
        };
        let opened = session
            .connection
            .call::<ThreadStart>(params)
            .await
            .map_err(|error| of_call(&error, Deed::Harmless))?;
        check_power(&opened, spec)?;
        session.connection.mark_loaded(opened.thread.id.clone());
        Ok(value::ThreadId::new(opened.thread.id.as_str()))
    }

    async fn resume_thread(
        &self,
        thread: &value::ThreadId,
        spec: &ThreadSpec,
    ) -> Result<(), AgentFault> {
        let session = self.host.session().await?;
        let thread = ThreadId::from(thread.as_str());
        if session.connection.is_loaded(&thread) {
            return Ok(());
        }
        let params = ThreadResumeParams {
            thread_id: thread.clone(),
            settings: settings(spec),
            exclude_turns: true,
            initial_turns_page: None,
        };
        let (opened, _) = resume(&session, params)
            .await?
            .into_parts(&SortDirection::Descending);
        check_power(&opened, spec)?;
        session.connection.mark_loaded(thread);
        Ok(())
    }

    async fn start_turn(&self, turn: &TurnSpec) -> Result<Started<CodexStream>, AgentFault> {
        let session = self.host.session().await?;
        let thread = ThreadId::from(turn.thread.as_str());
        if !session.connection.is_loaded(&thread) {
            return Err(fault(
                Class::Transient,
                "codex was started again before the turn began",
            ));
        }
        let client_id = ClientId::from(turn.client_id.as_str());
        let fold = TurnFold::new(thread.clone(), None, Some(client_id.clone()));
        let incarnation = session.incarnation.incarnation_id.clone();
        let mailbox = session
            .connection
            .mailboxes
            .open(fold, thread.clone(), incarnation);
        let stream = CodexStream {
            connection: session.connection.clone(),
            thread: thread.clone(),
            mailbox: Arc::clone(&mailbox),
        };
        let input = vec![UserInput::text(turn.text.clone())];
        let started = session
            .connection
            .call::<TurnStart>(TurnStartParams::new(thread.clone(), client_id, input))
            .await
            .map_err(|error| of_call(&error, Deed::StartTurn))
            .inspect_err(|fault| {
                if fault.thread != ThreadTrouble::None {
                    session.connection.mark_unloaded(&thread);
                }
            })?;
        mailbox.bind(&thread, started.turn.id.clone());
        Ok(Started {
            turn_id: value::TurnId::new(started.turn.id.as_str()),
            stream,
        })
    }

    async fn look(&self, lost: &LostTurn) -> Result<Looked<CodexStream>, AgentFault> {
        let session = self.host.session().await?;
        let incarnation = session.incarnation.incarnation_id.clone();
        let thread = ThreadId::from(lost.turn.thread.as_str());
        let mailbox = session
            .connection
            .mailboxes
            .open_early(thread.clone(), incarnation);
        let stream = CodexStream {
            connection: session.connection.clone(),
            thread: thread.clone(),
            mailbox: Arc::clone(&mailbox),
        };
        let found = settled_history(&session, lost).await?;
        let stream = match &found {
            Found::Turn(Finding {
                status: TurnStatus::InProgress,
                turn_id,
                ..
            }) => {
                // Not marked as loaded: the next turn resumes the thread and compares its power first.
                mailbox.bind(&thread, TurnId::from(turn_id.as_str()));
                Some(stream)
            }
            Found::Turn(_) | Found::Absent | Found::Foreign | Found::Unreadable { .. } => None,
        };
        Ok(Looked { found, stream })
    }

    async fn decline(&self, asked: &Asked) -> Result<(), AgentFault> {
        let session = self.host.session().await?;
        if session.incarnation.incarnation_id != asked.incarnation {
            return Ok(());
        }
        let Some(request) = session.connection.mailboxes.take_asked(&asked.rpc_id) else {
            return Ok(());
        };
        let outcome = request.decline();
        session
            .connection
            .respond(request.id, outcome)
            .await
            .map_err(|error| of_call(&error, Deed::Harmless))
    }

    async fn end_life(&self, why: &str) {
        self.host.end_life(why).await;
    }

    async fn probe(&self) -> Result<(), AgentFault> {
        let session = self.host.session().await?;
        self.host.logged_in(&session).await
    }

    async fn steer(&self, _steer: &Steer) -> Result<Steered, AgentFault> {
        Ok(Steered::Refused {
            why: "this turn takes no more text".to_owned(),
        })
    }

    async fn interrupt(
        &self,
        thread: &value::ThreadId,
        turn_id: &value::TurnId,
    ) -> Result<(), AgentFault> {
        let session = self.host.session().await?;
        let thread_id = ThreadId::from(thread.as_str());
        let params = TurnInterruptParams {
            thread_id: thread_id.clone(),
            turn_id: TurnId::from(turn_id.as_str()),
        };
        let harmless = |error| of_call(&error, Deed::Harmless);
        session
            .connection
            .call::<TurnInterrupt>(params)
            .await
            .map_err(harmless)?;
        // The turn ends at once, but a command it started would run on.
        session
            .connection
            .call::<BackgroundTerminalsClean>(ThreadIdParams { thread_id })
            .await
            .map(drop)
            .map_err(harmless)
    }
}
