//! Letting go of one idle thread, so that another process can write it.
//!
//! A process keeps the writer of every thread that it loaded. Measured on 0.165 and 0.166: unsubscribing keeps it,
//! archiving gives it back and unarchiving does not take it. A crash in between leaves the thread archived; whoever
//! loads it next brings it back.

use crate::app_server::Session;
use crate::error::{CallEffect, agent_error, of_call};
use bridge_codex::wire::method::{ThreadArchive, ThreadRead, ThreadUnarchive};
use bridge_codex::wire::thread::{ThreadIdParams, ThreadReadParams, ThreadStatus};
use bridge_core::port::AgentError;
use bridge_core::value::{Class, ThreadId};

/// Makes sure that this process does not have the writer of a thread. Refused while a turn runs on it: archiving would
/// end that.
pub(crate) async fn release(session: &Session, thread: &ThreadId) -> Result<(), AgentError> {
    let connection = &session.connection;
    if connection.router.has(thread) || connection.threads.is_busy(thread) {
        return Err(busy());
    }
    let read = ThreadReadParams {
        thread_id: thread.clone(),
        include_turns: false,
    };
    let read = connection.call::<ThreadRead>(read).await;
    let read = read.map_err(|error| of_call(&error, CallEffect::Repeatable))?;
    match read.thread.status {
        ThreadStatus::NotLoaded => Ok(()),
        ThreadStatus::Active { .. } => Err(busy()),
        ThreadStatus::Idle | ThreadStatus::SystemError | ThreadStatus::Other(_) => {
            let params = ThreadIdParams {
                thread_id: thread.clone(),
            };
            let archived = connection.call::<ThreadArchive>(params).await;
            archived.map_err(|error| of_call(&error, CallEffect::Repeatable))?;
            connection.threads.unloaded(thread);
            unarchive(session, thread.clone()).await
        }
    }
}

/// Brings a thread back that was let go of and could not be brought back then.
pub(crate) async fn unarchive(session: &Session, thread_id: ThreadId) -> Result<(), AgentError> {
    let params = ThreadIdParams { thread_id };
    let back = session.connection.call::<ThreadUnarchive>(params).await;
    back.map(drop)
        .map_err(|error| of_call(&error, CallEffect::Repeatable))
}

fn busy() -> AgentError {
    let reason = "a turn of this conversation still runs on another process of Codex; the message is answered after it";
    agent_error(Class::Capacity { until: None }, reason)
}
