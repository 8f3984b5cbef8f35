//! The news of one turn, and what must be done before some of it is told: a turn that was cut may have left commands
//! running, and one that may do more than it should is stopped.

use crate::connection::{CallError, Connection};
use crate::exec::ExecStream;
use crate::mailbox::{Mailbox, News};
use bridge_codex::wire::ids::{ThreadId, TurnId};
use bridge_codex::wire::method::{BackgroundTerminalsClean, TurnInterrupt, TurnInterruptParams};
use bridge_codex::wire::thread::ThreadIdParams;
use bridge_core::port::{TurnEvent, TurnStatus, TurnStream};
use std::sync::Arc;

/// The news of one turn.
pub struct CodexStream(Source);

enum Source {
    Server(ServerStream),
    Run(ExecStream),
}

/// The news of a turn on the app-server.
pub(crate) struct ServerStream {
    connection: Connection,
    thread: ThreadId,
    mailbox: Arc<Mailbox>,
    due: Due,
}

/// What comes before the next news. Kept here, because whoever waits for news may stop waiting in the middle of it.
#[derive(Default)]
enum Due {
    #[default]
    Nothing,
    Stop(TurnId),
    /// Then this is told.
    Clean(Box<TurnEvent>),
}

impl std::fmt::Debug for CodexStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexStream").finish_non_exhaustive()
    }
}

impl From<ServerStream> for CodexStream {
    fn from(stream: ServerStream) -> Self {
        Self(Source::Server(stream))
    }
}

impl From<ExecStream> for CodexStream {
    fn from(stream: ExecStream) -> Self {
        Self(Source::Run(stream))
    }
}

impl TurnStream for CodexStream {
    async fn next(&mut self) -> TurnEvent {
        match &mut self.0 {
            Source::Server(stream) => stream.next().await,
            Source::Run(stream) => stream.next().await,
        }
    }
}

impl ServerStream {
    pub(crate) fn new(connection: Connection, thread: ThreadId, mailbox: Arc<Mailbox>) -> Self {
        Self {
            connection,
            thread,
            mailbox,
            due: Due::Nothing,
        }
    }

    async fn next(&mut self) -> TurnEvent {
        loop {
            match &self.due {
                Due::Nothing => match self.mailbox.next().await {
                    News::Event(event) if is_cut(&event) => self.due = Due::Clean(event),
                    News::Event(event) => return *event,
                    News::Overpowered { turn_id } => self.due = Due::Stop(turn_id),
                },
                Due::Stop(turn_id) => {
                    let stopped = interrupt(&self.connection, &self.thread, turn_id).await;
                    if let Err(error) = stopped {
                        tracing::warn!(%error, "a turn with too much power could not be stopped");
                    }
                    self.due = Due::Nothing;
                }
                Due::Clean(_) => {
                    if let Err(error) = clean(&self.connection, &self.thread).await {
                        tracing::warn!(%error, "commands of a turn that was cut may still run");
                    }
                    if let Due::Clean(event) = std::mem::take(&mut self.due) {
                        return *event;
                    }
                }
            }
        }
    }
}

impl Drop for ServerStream {
    fn drop(&mut self) {
        self.connection.mailboxes.close(&self.thread, &self.mailbox);
    }
}

fn is_cut(event: &TurnEvent) -> bool {
    matches!(event, TurnEvent::Ended(end) if end.status == TurnStatus::Interrupted)
}

/// Asks for the end of a turn. Measured on 0.166: it ends within milliseconds, and its commands run on.
pub(crate) async fn interrupt(
    connection: &Connection,
    thread: &ThreadId,
    turn_id: &TurnId,
) -> Result<(), CallError> {
    let params = TurnInterruptParams {
        thread_id: thread.clone(),
        turn_id: turn_id.clone(),
    };
    connection.call::<TurnInterrupt>(params).await.map(drop)
}

/// Ends the commands that turns of a thread left running; also those that ignore a signal.
pub(crate) async fn clean(connection: &Connection, thread: &ThreadId) -> Result<(), CallError> {
    let params = ThreadIdParams {
        thread_id: thread.clone(),
    };
    connection
        .call::<BackgroundTerminalsClean>(params)
        .await
        .map(drop)
}
