//! Releases a thread from a running Codex, so that another program may write it.
//!
//! Measured on 0.150 to 0.169: unsubscribing keeps the writer's lock for half an hour, archiving lets it go at once, and
//! unarchiving does not take it.

use crate::app_server::Session;
use crate::app_server::connection::CallError;
use crate::error::{CallEffect, agent_error, of_call};
use bridge_codex::wire::method::{ThreadArchive, ThreadRead, ThreadUnarchive};
use bridge_codex::wire::thread::{ThreadIdParams, ThreadReadParams, ThreadStatus};
use bridge_core::port::AgentError;
use bridge_core::value::{Class, ThreadId};

/// Lets go of a thread on which no turn runs. It can be done again at any time: a thread that stayed archived, because we
/// died in the middle, is brought back.
pub(crate) async fn release(session: &Session, thread: &ThreadId) -> Result<(), AgentError> {
    let connection = &session.connection;
    let params = || ThreadIdParams {
        thread_id: thread.clone(),
    };
    let read = ThreadReadParams {
        thread_id: thread.clone(),
        include_turns: false,
    };
    let harmless = |error: CallError| of_call(&error, CallEffect::Repeatable);
    let read = connection.call::<ThreadRead>(read).await;
    match read.map_err(harmless)?.thread.status {
        ThreadStatus::Active { .. } => {
            let reason = "a turn runs on this thread; it is released after that";
            return Err(agent_error(Class::Capacity { until: None }, reason));
        }
        ThreadStatus::NotLoaded => return unarchive(session, thread).await,
        ThreadStatus::Idle | ThreadStatus::SystemError | ThreadStatus::Other(_) => {}
    }
    let archived = connection.call::<ThreadArchive>(params()).await;
    connection.threads.unloaded(thread);
    archived.map_err(harmless)?;
    let back = connection.call::<ThreadUnarchive>(params()).await;
    back.map(drop).map_err(harmless)
}

/// Brings a thread back that is archived: by us, who died in the middle of a release, or at a terminal.
pub(crate) async fn unarchive(session: &Session, thread: &ThreadId) -> Result<(), AgentError> {
    let params = ThreadIdParams {
        thread_id: thread.clone(),
    };
    match session.connection.call::<ThreadUnarchive>(params).await {
        // It is refused for every thread that is not archived.
        Ok(_) | Err(CallError::Refused { .. }) => Ok(()),
        Err(error) => Err(of_call(&error, CallEffect::Repeatable)),
    }
}
