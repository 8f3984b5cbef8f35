//! The core's `Agent` port over Codex: the core's words in, Codex's methods out, and back.

use crate::connection::Connection;
use crate::fault::{Deed, fault, of_call};
use crate::host::{Health, Host, HostOptions, Session};
use crate::mailbox::Mailbox;
use bridge_codex::oracle::{self, OurState};
use bridge_codex::turn::TurnFold;
use bridge_codex::wire::Turn as WireTurn;
use bridge_codex::wire::ids::{ClientId, ThreadId, TurnId};
use bridge_codex::wire::input::UserInput;
use bridge_codex::wire::method::{
    BackgroundTerminalsClean, ThreadResume, ThreadStart, ThreadTurnsList, TurnInterrupt,
    TurnInterruptParams, TurnStart, TurnStartParams,
};
use bridge_codex::wire::policy::SandboxPolicy;
use bridge_codex::wire::thread::{
    ThreadIdParams, ThreadOpened, ThreadResumeParams, ThreadResumed, ThreadSettings,
    ThreadStartParams, ThreadTurnsListParams, TurnsPageParams,
};
use bridge_codex::wire::values::{
    ApprovalPolicy as WireApproval, ApprovalsReviewer, ItemsView, SandboxMode, SortDirection,
};
use bridge_core::port::{
    Agent, AgentFault, Asked, Finding, Found, Ledger, LedgerError, Looked, LostTurn, Started,
    ThreadSpec, TurnEvent, TurnSpec, TurnStatus, TurnStream,
};
use bridge_core::value::{self, ApprovalPolicy, Class, IncarnationId, Sandbox};
use std::sync::Arc;
use std::time::Duration;

/// Turns of a thread's history that are looked at around a lost turn.
const HISTORY_PAGE: u32 = 50;
/// Pages that are looked at before the history counts as unreadable.
const HISTORY_PAGES_MAX: usize = 20;

/// Pauses between looks at a turn that the living process may not have written down yet. Measured on 0.166: a
/// turn that is just ending is listed as `interrupted` until its end is on disk.
const SETTLE_PAUSES: [Duration; 6] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];

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
            .map_err(|error| of_call(&error, Deed::StartTurn))?;
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
            .open_early(thread.clone(), incarnation.clone());
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
        Ok(Looked {
            found,
            stream,
            incarnation,
        })
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

fn settings(spec: &ThreadSpec) -> ThreadSettings {
    ThreadSettings {
        cwd: Some(spec.workdir.clone()),
        sandbox: Some(match spec.sandbox {
            Sandbox::ReadOnly => SandboxMode::ReadOnly,
            Sandbox::WorkspaceWrite => SandboxMode::WorkspaceWrite,
            Sandbox::DangerFullAccess => SandboxMode::DangerFullAccess,
        }),
        approval_policy: Some(approval(spec.approval_policy)),
        approvals_reviewer: Some(ApprovalsReviewer::User),
        model: spec.model.clone(),
        developer_instructions: Some(spec.instructions.clone()),
        ..ThreadSettings::default()
    }
}

fn approval(policy: ApprovalPolicy) -> WireApproval {
    match policy {
        ApprovalPolicy::OnRequest => WireApproval::OnRequest,
        ApprovalPolicy::Untrusted => WireApproval::Untrusted,
        ApprovalPolicy::Never => WireApproval::Never,
    }
}

/// Codex ignores an unknown field without a word, so what it reports as effective is compared.
fn check_power(opened: &ThreadOpened, spec: &ThreadSpec) -> Result<(), AgentFault> {
    let sandbox = match opened.sandbox {
        SandboxPolicy::ReadOnly { .. } => Sandbox::ReadOnly,
        SandboxPolicy::WorkspaceWrite { .. } => Sandbox::WorkspaceWrite,
        SandboxPolicy::DangerFullAccess | SandboxPolicy::Other { .. } => Sandbox::DangerFullAccess,
    };
    let complaint = if sandbox > spec.sandbox {
        format!(
            "sandbox `{}` was asked for and Codex reports `{}`",
            spec.sandbox.word(),
            sandbox.word()
        )
    } else if opened.approval_policy != approval(spec.approval_policy) {
        format!(
            "approval policy `{}` was asked for and Codex reports `{}`",
            spec.approval_policy.word(),
            opened.approval_policy.as_str()
        )
    } else if opened.approvals_reviewer != ApprovalsReviewer::User {
        "approvals by a person were asked for, and Codex would decide by itself".to_owned()
    } else {
        return Ok(());
    };
    let reason = format!(
        "Codex would have more power than configured, so the turn was not begun: {complaint}. Look for requirements or a profile that override it in CODEX_HOME"
    );
    Err(fault(Class::Config, reason))
}

/// Loads a thread and takes its writer. The settings are passed again: without them a thread comes back with
/// another sandbox than it was started with.
async fn resume(
    session: &Session,
    params: ThreadResumeParams,
) -> Result<ThreadResumed, AgentFault> {
    session
        .connection
        .call::<ThreadResume>(params)
        .await
        .map_err(|error| of_call(&error, Deed::Harmless))
}

/// Looks until the answer can be believed: the process that runs the turn writes its history behind the event.
async fn settled_history(session: &Session, lost: &LostTurn) -> Result<Found, AgentFault> {
    let same_life = session.incarnation.incarnation_id == lost.incarnation;
    let mut pauses = SETTLE_PAUSES.iter().filter(|_| same_life);
    loop {
        let found = match history(session, lost).await {
            Ok(found) => found,
            Err(fault) if fault.thread_gone => gone(fault, lost.after_turn.as_ref()),
            Err(fault) => return Err(fault),
        };
        match (may_change(&found), pauses.next()) {
            (true, Some(pause)) => tokio::time::sleep(*pause).await,
            (true, None) | (false, _) => return Ok(found),
        }
    }
}

/// Whether a living process may still turn this into something else.
fn may_change(found: &Found) -> bool {
    match found {
        Found::Turn(finding) => match finding.status {
            TurnStatus::Interrupted => true,
            TurnStatus::InProgress | TurnStatus::Completed | TurnStatus::Failed => false,
        },
        Found::Absent => true,
        Found::Foreign | Found::Unreadable { .. } => false,
    }
}

/// Takes the writer, then reads: only a reader that holds the writer is told the truth.
async fn history(session: &Session, lost: &LostTurn) -> Result<Found, AgentFault> {
    let thread = ThreadId::from(lost.turn.thread.as_str());
    let settings = settings(&lost.turn.spec);
    let params = ThreadResumeParams::with_newest_turns(thread.clone(), settings, HISTORY_PAGE);
    let resumed = resume(session, params).await?;
    if resumed.initial_turns_page.is_none() {
        return Ok(unreadable(
            "this Codex does not show it when a thread is resumed",
        ));
    }
    let (_, mut turns) = resumed.into_parts(&SortDirection::Descending);
    let client_id = ClientId::from(lost.turn.client_id.as_str());
    let after = lost
        .after_turn
        .as_ref()
        .map(|turn_id| TurnId::from(turn_id.as_str()));
    let mut cursor = None;
    for _ in 0..HISTORY_PAGES_MAX {
        match oracle::history(&turns, &client_id, after.as_ref()) {
            oracle::Found::NoAnchor => {
                let page = older(session, thread.clone(), cursor.take()).await?;
                let Some((older, next)) = page else {
                    return Ok(unreadable("the last turn known is not in it"));
                };
                cursor = next;
                // Pages overlap where the first one repeats what resume returned.
                let known: Vec<_> = turns.iter().map(|turn| turn.id.clone()).collect();
                let mut all: Vec<_> = older
                    .into_iter()
                    .filter(|turn| !known.contains(&turn.id))
                    .collect();
                all.append(&mut turns);
                turns = all;
                if cursor.is_none() {
                    return Ok(settle(oracle::history(&turns, &client_id, after.as_ref())));
                }
            }
            found => return Ok(settle(found)),
        }
    }
    Ok(unreadable("it is too long to be searched"))
}

/// One page of older turns, oldest first, and where the next one begins.
async fn older(
    session: &Session,
    thread_id: ThreadId,
    cursor: Option<String>,
) -> Result<Option<(Vec<WireTurn>, Option<String>)>, AgentFault> {
    let params = ThreadTurnsListParams {
        thread_id,
        cursor,
        page: TurnsPageParams {
            items_view: ItemsView::Full,
            limit: HISTORY_PAGE,
            sort_direction: SortDirection::Descending,
        },
    };
    let page = session
        .connection
        .call::<ThreadTurnsList>(params)
        .await
        .map_err(|error| of_call(&error, Deed::Harmless))?;
    if page.data.is_empty() {
        return Ok(None);
    }
    let next = page.next_cursor.clone();
    Ok(Some((
        page.into_oldest_first(&SortDirection::Descending),
        next,
    )))
}

fn unreadable(why: &str) -> Found {
    Found::Unreadable {
        why: why.to_owned(),
    }
}

/// A thread without a rollout: before its first turn there is none to be found.
fn gone(fault: AgentFault, after_turn: Option<&value::TurnId>) -> Found {
    match after_turn {
        None => Found::Absent,
        Some(_) => Found::Unreadable {
            why: fault.failure.reason,
        },
    }
}

fn settle(found: oracle::Found) -> Found {
    match found {
        oracle::Found::Ours(ours) => ours_found(ours),
        oracle::Found::Absent { .. } => Found::Absent,
        oracle::Found::Foreign { .. } => Found::Foreign,
        oracle::Found::Beginning { turn_id } => Found::Turn(Finding {
            turn_id: value::TurnId::new(turn_id.as_str()),
            status: TurnStatus::InProgress,
            answer: None,
            effects: Vec::new(),
            failure: None,
        }),
        oracle::Found::Unloaded { .. } => unreadable("Codex did not give all its items"),
        oracle::Found::NoAnchor => unreadable("the last turn known is not in it"),
    }
}

fn ours_found(ours: oracle::OurTurn) -> Found {
    let (status, answer, failure) = match ours.state {
        OurState::InProgress => (TurnStatus::InProgress, None, None),
        OurState::Completed { answer } => (TurnStatus::Completed, answer, None),
        OurState::Cut {
            failed,
            error,
            final_answer,
        } => {
            let status = if failed {
                TurnStatus::Failed
            } else {
                TurnStatus::Interrupted
            };
            let failure = error
                .as_ref()
                .map(|error| crate::fault::of_turn(error, None));
            (status, final_answer, failure)
        }
        OurState::Unclear { status } => {
            return unreadable(&format!("its status `{status}` is unknown"));
        }
    };
    Found::Turn(Finding {
        turn_id: value::TurnId::new(ours.turn_id.as_str()),
        status,
        answer: answer.map(|answer| answer.text),
        effects: ours.effects.headlines,
        failure,
    })
}
