//! A thread that comes from another node: its file is brought into the home of a Codex that may remember an older one.

use crate::app_server::connection::CallError;
use crate::app_server::{Host, Session};
use crate::error::{CallEffect, agent_error, of_call};
use crate::rollout::{CodexHome, RestoreOutcome, RestorePlan, RolloutError, RolloutRestore};
use bridge_codex::rpc::RpcRefusal;
use bridge_codex::wire::Method;
use bridge_codex::wire::method::ThreadDelete;
use bridge_codex::wire::thread::ThreadIdParams;
use bridge_core::port::{AgentError, Ledger};
use bridge_core::value::{Class, ThreadId};
use std::path::PathBuf;

/// Why a thread could not be brought into a home.
#[derive(Debug, thiserror::Error)]
pub enum ThreadArrivalError {
    #[error(transparent)]
    Files(#[from] RolloutError),
    #[error("codex did not forget what it knows of the thread: {0}")]
    Codex(AgentError),
}

impl From<AgentError> for ThreadArrivalError {
    fn from(error: AgentError) -> Self {
        Self::Codex(error)
    }
}

/// The directory of a home.
pub(crate) fn home<L: Ledger>(host: &Host<L>) -> Result<CodexHome, ThreadArrivalError> {
    let usual = || host.options.launch.usual_home();
    let root = host.home.as_ref().map(PathBuf::from).or_else(usual);
    let root = root.ok_or_else(|| {
        let reason = "no CODEX_HOME is known: set CODEX_HOME or HOME for the daemon";
        agent_error(Class::Config, reason)
    })?;
    Ok(CodexHome::open(&root)?)
}

/// Compares, moves aside, lets Codex forget, and puts into place: in this order, see [`RolloutRestore`].
pub(crate) async fn restore<L: Ledger>(
    host: &Host<L>,
    restore: RolloutRestore,
) -> Result<Vec<RestoreOutcome>, ThreadArrivalError> {
    let mut plan = blocking(move || restore.compare()).await?;
    let threads = plan.to_forget();
    if threads.is_empty() {
        return blocking(move || plan.place()).await;
    }
    let session = host.session().await?;
    for thread in &threads {
        host.take_from_draining(thread).await?;
        if session.connection.threads.is_busy(thread) {
            let reason = "a turn runs on this thread; it is brought up to date after that";
            return Err(agent_error(Class::Capacity { until: None }, reason).into());
        }
    }
    plan = blocking(move || plan.set_aside().map(|()| plan)).await?;
    for thread in threads {
        forget(&session, thread).await?;
    }
    blocking(move || RestorePlan::place(plan)).await
}

/// Removes what Codex has of a thread in memory and in its databases. Its file lies aside already, or all of it is in
/// the one that comes.
pub(crate) async fn forget(session: &Session, thread: ThreadId) -> Result<(), AgentError> {
    let connection = &session.connection;
    let params = ThreadIdParams {
        thread_id: thread.clone(),
    };
    let deleted = connection.call::<ThreadDelete>(params).await;
    connection.threads.unloaded(&thread);
    match deleted {
        Ok(_) => Ok(()),
        Err(CallError::Refused { error, .. }) if error.is_unknown_method(ThreadDelete::NAME) => {
            Err(agent_error(
                Class::Config,
                "this Codex can't forget a thread, so it would go on with an older history of it: run `npm install -g @openai/codex@latest`",
            ))
        }
        Err(CallError::Refused { error, .. })
            if matches!(
                error.refusal(),
                RpcRefusal::NoRollout | RpcRefusal::ThreadNotFound
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(of_call(&error, CallEffect::Repeatable)),
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RolloutError> + Send + 'static,
) -> Result<T, ThreadArrivalError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| agent_error(Class::Bug, error.to_string()))?;
    Ok(done?)
}
