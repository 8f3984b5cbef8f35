//! The events of one turn, and the work that comes before some of them: a turn that was cut may have left commands
//! running, and a turn with excess permissions is stopped.

pub(crate) mod answer;
pub(crate) mod approvals;
pub(crate) mod mailbox;
mod raw;
pub(crate) mod router;
pub(crate) mod unconfirmed;

use crate::app_server::connection::{CallError, Connection};
use crate::binary::program::Program;
use crate::exec::ExecStream;
use crate::turn::mailbox::{Mailbox, MailboxEvent};
use bridge_codex::wire::method::{BackgroundTerminalsClean, TurnInterrupt, TurnInterruptParams};
use bridge_codex::wire::thread::ThreadIdParams;
use bridge_core::deadline::after;
use bridge_core::port::{TurnEvent, TurnStatus, TurnStream};
use bridge_core::value::{ThreadId, TurnId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a turn with excess permissions may take to end after its interrupt; then its Codex is ended.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The events of one turn.
pub struct CodexStream(TurnSource);

enum TurnSource {
    Server(ServerStream),
    Run(ExecStream),
}

/// The events of a turn on the app-server.
pub(crate) struct ServerStream {
    connection: Connection,
    /// What it runs on.
    program: Arc<Program>,
    thread: ThreadId,
    mailbox: Arc<Mailbox>,
    due: Due,
    /// When an interrupted turn must have ended.
    ends_by: Option<Instant>,
    /// The end of the turn, behind what is still to be shown of it.
    last: VecDeque<TurnEvent>,
}

/// Work before the next event. Kept in the stream, because `next` may be cancelled in the middle of it.
#[derive(Default)]
enum Due {
    #[default]
    Nothing,
    Stop(TurnId),
    /// It did not stop.
    GiveUp,
    /// Deliver this after the cleanup.
    Clean(Box<TurnEvent>),
}

impl std::fmt::Debug for CodexStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexStream").finish_non_exhaustive()
    }
}

impl From<ServerStream> for CodexStream {
    fn from(stream: ServerStream) -> Self {
        Self(TurnSource::Server(stream))
    }
}

impl From<ExecStream> for CodexStream {
    fn from(stream: ExecStream) -> Self {
        Self(TurnSource::Run(stream))
    }
}

impl TurnStream for CodexStream {
    async fn next(&mut self) -> TurnEvent {
        match &mut self.0 {
            TurnSource::Server(stream) => stream.next().await,
            TurnSource::Run(stream) => stream.next().await,
        }
    }

    fn show_raw(&mut self) {
        if let TurnSource::Server(stream) = &self.0 {
            stream.mailbox.show_raw();
        }
    }
}

impl ServerStream {
    pub(crate) fn new(
        connection: Connection,
        program: Arc<Program>,
        thread: ThreadId,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        Self {
            connection,
            program,
            thread,
            mailbox,
            due: Due::Nothing,
            ends_by: None,
            last: VecDeque::new(),
        }
    }

    async fn next(&mut self) -> TurnEvent {
        if let Some(event) = self.last.pop_front() {
            return event;
        }
        let event = self.next_event().await;
        if !matches!(event, TurnEvent::Ended(_) | TurnEvent::Lost { .. }) {
            return event;
        }
        if matches!(&event, TurnEvent::Ended(end) if end.status == TurnStatus::Completed) {
            self.program.probation.turn_ended();
        }
        let stderr = self.mailbox.take_stderr().into_iter();
        self.last.extend(stderr.map(TurnEvent::Stderr));
        self.last.push_back(event);
        self.last.pop_front().unwrap_or(TurnEvent::Alive)
    }

    async fn next_event(&mut self) -> TurnEvent {
        loop {
            match &self.due {
                Due::Nothing => match self.news().await {
                    Some(MailboxEvent::Turn(event)) if is_cut(&event) => {
                        self.due = Due::Clean(event)
                    }
                    Some(MailboxEvent::Turn(event)) => return *event,
                    Some(MailboxEvent::ExcessPermissions { turn_id }) => {
                        self.ends_by = Some(after(Instant::now(), STOP_PATIENCE));
                        self.due = Due::Stop(turn_id);
                    }
                    None => self.due = Due::GiveUp,
                },
                Due::Stop(turn_id) => {
                    let stopped = interrupt(&self.connection, &self.thread, turn_id).await;
                    if let Err(error) = stopped {
                        tracing::warn!(%error, "a turn with too much power could not be stopped");
                    }
                    self.due = Due::Nothing;
                }
                Due::GiveUp => {
                    tracing::error!("a turn with too much power does not end; its codex is ended");
                    let why = "a turn with too much power did not end when it was interrupted";
                    self.connection.close(why).await;
                    self.ends_by = None;
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

impl ServerStream {
    /// The next event of the mailbox; `None` when an interrupted turn should have ended by now, whatever it still sends.
    async fn news(&self) -> Option<MailboxEvent> {
        match self.ends_by {
            None => Some(self.mailbox.next().await),
            Some(by) if by <= Instant::now() => None,
            Some(by) => timeout_at(by, self.mailbox.next()).await.ok(),
        }
    }
}

impl Drop for ServerStream {
    fn drop(&mut self) {
        self.connection.router.close(&self.thread, &self.mailbox);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app_server::connection::Learned;
    use crate::app_server::transport::{TransportReader, TransportWriter};
    use crate::binary::program::Probation;
    use crate::turn::mailbox::tests::frame;
    use bridge_codex::turn::TurnFold;
    use bridge_codex::wire::Notification;
    use bridge_core::value::{
        BootId, Incarnation, IncarnationId, ProcessStamp, Timestamp, Transport,
    };
    use futures_util::{SinkExt, StreamExt};
    use serde_json::{Value, json};
    use std::sync::mpsc;
    use tokio::net::UnixStream;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::{Message, protocol::Role};

    fn life() -> Incarnation {
        Incarnation {
            incarnation_id: IncarnationId::new("life"),
            transport: Transport::Socket,
            keeper: ProcessStamp {
                pid: 1,
                start_ticks: 1,
            },
            directory: "/nonexistent".to_owned(),
            codex_version: "0.166.0".to_owned(),
            codex_home: None,
            boot_id: BootId::new("boot"),
            started_at: Timestamp(0),
            ended_at: None,
            node_id: None,
        }
    }

    /// The stream of a turn on a Codex that answers whatever it is asked with this; and what it was asked.
    async fn excess_to_stop(answer: Value) -> (ServerStream, mpsc::Receiver<String>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ours = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        let mut theirs = WebSocketStream::from_raw_socket(theirs, Role::Server, None).await;
        let (asking, asked) = mpsc::channel();
        tokio::spawn(async move {
            while let Some(Ok(Message::Text(text))) = theirs.next().await {
                let call: Value = serde_json::from_str(&text).unwrap();
                asking
                    .send(call["method"].as_str().unwrap().to_owned())
                    .unwrap();
                let mut reply = answer.clone();
                reply["id"] = call["id"].clone();
                let sent = theirs.send(Message::text(reply.to_string())).await;
                sent.unwrap();
            }
        });
        let (sink, texts) = ours.split();
        let (texts, sink) = (
            TransportReader::Socket(texts),
            TransportWriter::Socket(sink),
        );
        let connection = Connection::start(texts, sink, life(), Learned::default());
        let thread = ThreadId::new("t");
        let fold = TurnFold::new(thread.clone(), Some(TurnId::new("u")), None);
        let mailbox = connection.router.open(fold, thread.clone(), frame());
        let settings = json!({"sandboxPolicy": {"type": "dangerFullAccess"}, "approvalPolicy": "on-request",
                              "approvalsReviewer": "user", "activePermissionProfile": null});
        let params = json!({"threadId": "t", "threadSettings": settings});
        let update = Notification::parse("thread/settings/updated", &params);
        connection.router.deliver(&update);
        let codex = "/nonexistent/codex";
        let program = Program::new(
            codex.into(),
            Ok(codex.into()),
            "0.166.0".to_owned(),
            Probation::none(),
        );
        (
            ServerStream::new(connection, Arc::new(program), thread, mailbox),
            asked,
        )
    }

    /// An interrupt that is refused, or granted and without effect, is not the last word.
    #[tokio::test(start_paused = true)]
    async fn excess_permission_turn_ignoring_interrupt_is_lost() {
        let refused = json!({"error": {"code": -32600, "message": "no"}});
        for answer in [refused, json!({"result": {}})] {
            let began = Instant::now();
            let (mut stream, asked) = excess_to_stop(answer).await;
            let lost = loop {
                match stream.next().await {
                    TurnEvent::Lost { why } => break why,
                    TurnEvent::Alive => {}
                    other => panic!("{other:?}"),
                }
            };
            assert!(lost.contains("too much power"), "{lost}");
            assert!(began.elapsed() >= STOP_PATIENCE);
            let asked: Vec<_> = asked.try_iter().collect();
            assert_eq!(asked, ["turn/interrupt"]);
        }
    }
}
