//! Letting go of one idle thread, so that its memory serves other threads and another process can write it.
//!
//! A process keeps every thread that it loaded, with its writer, its MCP servers and about 1.5 MiB. Unsubscribing alone
//! changes nothing for half an hour. What does it at once, measured on 0.150, 0.165, 0.166 and 0.169: Codex unloads an
//! idle thread without a subscriber that is resumed with other settings, before it loads it with those; with a provider
//! that does not exist, the second half is refused. Nothing of that is written, so a crash leaves nothing behind, and a
//! thread with a running turn or an open request stays as it is (ADR 0086).

use crate::app_server::Session;
use crate::app_server::connection::{CallError, Connection};
use crate::error::{CallEffect, agent_error, of_call};
use bridge_codex::rpc::RpcRefusal;
use bridge_codex::wire::method::{
    BackgroundTerminalsList, ThreadArchive, ThreadLoadedList, ThreadRead, ThreadResume,
    ThreadUnarchive, ThreadUnsubscribe,
};
use bridge_codex::wire::thread::{
    Thread, ThreadIdParams, ThreadLoadedListParams, ThreadReadParams, ThreadResumeParams,
    ThreadResumed, ThreadSettings, ThreadStatus,
};
use bridge_core::port::AgentError;
use bridge_core::value::{Class, ThreadId};

/// Threads of an earlier daemon that are looked at; Codex lets go of the others when nobody used them for half an hour.
const LOADED_MAX: u32 = 2_000;

/// Names no provider of any configuration.
const NO_PROVIDER: &str = "codex-bridge-unloads-this-thread";

/// Makes sure that this process has not loaded a thread. Refused while a turn runs on it. Commands that its turns left
/// running end with it.
pub(crate) async fn release(session: &Session, thread: &ThreadId) -> Result<(), AgentError> {
    let connection = &session.connection;
    if connection.router.has(thread) || connection.threads.is_busy(thread) {
        return Err(busy());
    }
    if status(session, thread).await? == ThreadStatus::Idle {
        let thread_id = thread.clone();
        let left = connection.call::<ThreadUnsubscribe>(ThreadIdParams { thread_id });
        left.await.map_err(harmless)?;
        // Its news do not arrive any more: whoever needs it subscribes again by resuming it.
        connection.threads.unloaded(thread);
        let refused = connection.call::<ThreadResume>(refusable(thread));
        match refused.await {
            Ok(_) | Err(CallError::Refused { .. } | CallError::Unreadable { .. }) => {}
            Err(error) => return Err(harmless(error)),
        }
    }
    match status(session, thread).await? {
        ThreadStatus::NotLoaded => {}
        ThreadStatus::Active { .. } => return Err(busy()),
        // After a failed turn, and on a Codex that unloads in no other way.
        ThreadStatus::Idle | ThreadStatus::SystemError | ThreadStatus::Other(_) => {
            let thread_id = thread.clone();
            let archived = connection.call::<ThreadArchive>(ThreadIdParams { thread_id });
            archived.await.map_err(harmless)?;
            connection.threads.unloaded(thread);
            return unarchive(session, thread).await;
        }
    }
    connection.threads.unloaded(thread);
    Ok(())
}

/// Brings a thread back that is archived: by us, who died in the middle of a release, or at a terminal.
pub(crate) async fn unarchive(session: &Session, thread: &ThreadId) -> Result<(), AgentError> {
    let thread_id = thread.clone();
    let back = session
        .connection
        .call::<ThreadUnarchive>(ThreadIdParams { thread_id });
    match back.await {
        // It is refused for every thread that is not archived.
        Ok(_) | Err(CallError::Refused { .. }) => Ok(()),
        Err(error) => Err(harmless(error)),
    }
}

/// Loads a thread and takes its writer. The settings are passed again: without them a thread comes back with another
/// sandbox than it was started with. One that is archived is brought back: we, or Codex, died while it was released, or a
/// person archived it and now writes to it again.
pub(crate) async fn resume(
    session: &Session,
    params: ThreadResumeParams,
) -> Result<ThreadResumed, AgentError> {
    let again = params.clone();
    match session.connection.call::<ThreadResume>(params).await {
        Err(CallError::Refused { error, .. }) if error.refusal() == RpcRefusal::Archived => {
            unarchive(session, &again.thread_id).await?;
            let resumed = session.connection.call::<ThreadResume>(again).await;
            resumed.map_err(harmless)
        }
        resumed => resumed.map_err(harmless),
    }
}

/// The threads that Codex has loaded.
pub(crate) async fn loaded(connection: &Connection) -> Result<Vec<ThreadId>, CallError> {
    let limit = Some(LOADED_MAX);
    let listed = connection.call::<ThreadLoadedList>(ThreadLoadedListParams { limit });
    Ok(listed.await?.data)
}

/// Whether a thread is that of an agent of Codex's own, which Codex lets go of itself. It counts as one where Codex does
/// not say.
pub(crate) async fn is_agents(session: &Session, thread: &ThreadId) -> bool {
    let read = read(session, thread).await;
    read.map_or(true, |thread| thread.parent_thread_id.is_some())
}

/// Whether turns of a thread left commands running, which would end with it. They count as running where Codex does not
/// say.
pub(crate) async fn runs_commands(session: &Session, thread: &ThreadId) -> bool {
    let thread_id = thread.clone();
    let listed = session
        .connection
        .call::<BackgroundTerminalsList>(ThreadIdParams { thread_id });
    listed.await.map_or(true, |listed| !listed.data.is_empty())
}

async fn status(session: &Session, thread: &ThreadId) -> Result<ThreadStatus, AgentError> {
    Ok(read(session, thread).await?.status)
}

async fn read(session: &Session, thread: &ThreadId) -> Result<Thread, AgentError> {
    let read = ThreadReadParams {
        thread_id: thread.clone(),
        include_turns: false,
    };
    let read = session.connection.call::<ThreadRead>(read).await;
    Ok(read.map_err(harmless)?.thread)
}

fn refusable(thread: &ThreadId) -> ThreadResumeParams {
    ThreadResumeParams {
        thread_id: thread.clone(),
        settings: ThreadSettings {
            model_provider: Some(NO_PROVIDER.to_owned()),
            ..ThreadSettings::default()
        },
        exclude_turns: true,
        initial_turns_page: None,
    }
}

fn harmless(error: CallError) -> AgentError {
    of_call(&error, CallEffect::Repeatable)
}

fn busy() -> AgentError {
    let reason =
        "a turn of this conversation still runs on this thread; the message is answered after it";
    agent_error(Class::Capacity { until: None }, reason)
}
