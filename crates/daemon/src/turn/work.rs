//! A claimed message: make Codex and the thread ready, write the intent down, start the turn, follow it.

use crate::Daemon;
use crate::process::ids::now;
use crate::turn::Claimed;
use crate::turn::follow::Followed;
use bridge_core::limits::RECAP_EXCHANGES;
use bridge_core::port::{
    Agent, AgentError, Exchange, Ledger, LedgerError, Sink, TRACE, ThreadSpec, TurnSpec,
    TurnTransport,
};
use bridge_core::prompt::turn_text;
use bridge_core::step::{Attach, Begin, Begun, Bind, Fail, Suspend, Unbind};
use bridge_core::value::{
    Class, ClientId, Conversation, CutPolicy, Failure, IncarnationId, Message, MessageId, ThreadId,
    Usage,
};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

/// Why a claimed message did not become a followed turn.
#[derive(Debug)]
enum WorkError {
    Agent(Failure),
    Ledger(LedgerError),
}

impl From<AgentError> for WorkError {
    fn from(fault: AgentError) -> Self {
        Self::Agent(fault.failure)
    }
}

impl From<Failure> for WorkError {
    fn from(failure: Failure) -> Self {
        Self::Agent(failure)
    }
}

impl From<LedgerError> for WorkError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn work(self: Arc<Self>, message_id: MessageId) {
        let _in_flight = self.turns.in_flight.enter(&message_id);
        let (claimed, failure) = match self.load(&message_id).await {
            Ok(None) => return,
            Ok(Some(claimed)) => match self.try_work(&claimed).await {
                Ok(()) => return,
                Err(WorkError::Agent(failure)) => (Some(claimed), failure),
                Err(WorkError::Ledger(error)) => {
                    (Some(claimed), ledger_failed(&message_id, &error))
                }
            },
            Err(error) => (None, ledger_failed(&message_id, &error)),
        };
        tracing::debug!(%message_id, class = failure.class.as_str(), reason = %crate::term::escape_line(&failure.reason), "a message could not be worked on");
        if self.stopping.is_cancelled() && failure.class != Class::Ambiguous {
            return self.settle(Suspend { message_id }).await;
        }
        self.settle(Fail {
            message_id,
            failure,
            touched: false,
            usage: Usage::default(),
            // Whose message it is could not be read: asking is right for everybody.
            on_cut: claimed.map_or(CutPolicy::Ask, |claimed| self.on_cut(&claimed)),
            pace: self.settings().pace(),
        })
        .await;
    }

    async fn try_work(self: &Arc<Self>, claimed: &Arc<Claimed>) -> Result<(), WorkError> {
        let (message, conversation) = (&claimed.message, &claimed.conversation);
        let message_id = &message.message_id;
        let spec = self.spec_of(message, conversation).await?;
        self.settle_into_workdir(message, conversation).await?;
        self.place_files(message, conversation).await?;
        let home = spec.codex_home.as_deref();
        self.agent.ready(home).await?;
        let thread = self.thread_of(message, conversation, &spec).await?;
        // Codex may have been started again meanwhile: the life that has the thread is the one that counts.
        let ready = self.agent.ready(home).await?;
        let incarnation = match spec.transport {
            TurnTransport::AppServer => self.agent.life_of(&thread).unwrap_or(ready),
            TurnTransport::Exec => {
                IncarnationId::of_run(&ClientId::of(message_id, message.life.attempt))
            }
        };
        tracing::debug!(target: TRACE, at = "ready", %message_id);
        let patience = self.settings().patience(spec.transport);
        let started_at = now();
        let recap = self.recap(message, conversation, &thread).await?;
        let begun = self
            .commit(Begin {
                message_id: message_id.clone(),
                thread: thread.clone(),
                incarnation,
                epoch: self.ledger.epoch(),
                boot_id: self.settings().start.boot_id.clone(),
                sandbox: spec.sandbox,
            })
            .await?;
        let Begun::Turn { client_id } = begun else {
            return Ok(());
        };
        let attempt = message.life.attempt;
        let turn = TurnSpec {
            thread: thread.clone(),
            spec,
            client_id,
            text: turn_text(message, &recap),
            images: self.images(message),
            trace: self.traces.parent(message, message.turn_span(attempt)),
        };
        tracing::debug!(target: TRACE, at = "begun", %message_id);
        self.expect_lease()?;
        let started = self.agent.start_turn(&turn).await?;
        tracing::debug!(target: TRACE, at = "started", %message_id);
        self.settle(Attach {
            message_id: message_id.clone(),
            turn_id: started.turn_id.clone(),
        })
        .await;
        tracing::debug!(target: TRACE, at = "attached", %message_id);
        let followed = Followed {
            claimed: Arc::clone(claimed),
            thread,
            turn_id: started.turn_id,
            started_at,
            patience,
            attached: false,
            received: Vec::new(),
            calls: Arc::default(),
        };
        self.follow(followed, started.stream).await;
        Ok(())
    }

    /// The rows of a message; `None` when they are gone.
    pub(crate) async fn load(
        &self,
        message_id: &MessageId,
    ) -> Result<Option<Arc<Claimed>>, LedgerError> {
        let message_id = message_id.clone();
        self.ledger
            .read(move |rows| {
                let Some(message) = rows.message(&message_id)? else {
                    return Ok(None);
                };
                let conversation = rows.conversation(&message.conversation_id)?;
                Ok(conversation.map(|conversation| {
                    Arc::new(Claimed {
                        message,
                        conversation,
                    })
                }))
            })
            .await
    }

    /// The conversation's thread, loaded; a new one where there is none, or where the old one is gone.
    async fn thread_of(
        self: &Arc<Self>,
        message: &Message,
        conversation: &Conversation,
        spec: &ThreadSpec,
    ) -> Result<ThreadId, WorkError> {
        let bound = conversation.thread.as_ref();
        if let Some(thread) = bound.filter(|thread| !thread.is_pruned()) {
            self.bring_thread(conversation, thread, spec).await?;
            match self.agent.resume_thread(thread, spec).await {
                Ok(()) => return Ok(thread.clone()),
                Err(fault) if fault.thread.is_some() => {
                    self.forget(message, thread, &fault).await?;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
        let thread = self.agent.open_thread(spec).await?;
        let bind = Bind {
            conversation_id: conversation.conversation_id.clone(),
            thread: thread.clone(),
        };
        self.commit(bind).await?;
        Ok(thread)
    }

    /// From here on retention leaves the conversation alone.
    async fn settle_into_workdir(
        self: &Arc<Self>,
        message: &Message,
        conversation: &Conversation,
    ) -> Result<(), WorkError> {
        let _alone = self.turns.workdirs.lock().await;
        if let Some(thread) = &conversation.thread
            && thread.is_pruned()
        {
            let why = "retention took it".to_owned();
            self.commit(Unbind {
                message_id: message.message_id.clone(),
                thread: thread.clone(),
                why,
            })
            .await?;
        }
        Ok(make_workdir(conversation)?)
    }

    async fn forget(
        self: &Arc<Self>,
        message: &Message,
        thread: &ThreadId,
        fault: &AgentError,
    ) -> Result<(), LedgerError> {
        let why = fault.failure.reason.clone();
        tracing::warn!(%thread, reason = %crate::term::escape_line(&why), "a thread is lost; a new one is started");
        self.commit(Unbind {
            message_id: message.message_id.clone(),
            thread: thread.clone(),
            why,
        })
        .await
    }

    /// Earlier exchanges for a thread that has no kept turn and so does not know the conversation.
    async fn recap(
        &self,
        message: &Message,
        conversation: &Conversation,
        thread: &ThreadId,
    ) -> Result<Vec<Exchange>, LedgerError> {
        // Nobody but this message's own task gives its conversation another thread.
        if conversation.thread.as_ref() == Some(thread) && conversation.last_turn.is_some() {
            return Ok(Vec::new());
        }
        let (id, seq, thread) = (message.conversation_id.clone(), message.seq, thread.clone());
        self.ledger
            .read(move |rows| {
                let fresh = rows.conversation(&id)?.is_some_and(|conversation| {
                    conversation.thread == Some(thread) && conversation.last_turn.is_none()
                });
                if fresh {
                    rows.exchanges(&id, seq, RECAP_EXCHANGES)
                } else {
                    Ok(Vec::new())
                }
            })
            .await
    }

    /// The files of a message that the model is shown.
    fn images(&self, message: &Message) -> Vec<String> {
        let file_store = &self.settings().start.file_store;
        let images = message.attachments.iter().filter(|file| file.is_image());
        let images = images.map(|file| file_store.path_of(&file.digest));
        images.map(|path| path.display().to_string()).collect()
    }

    /// What follows a cut of this message's work, by who sent it.
    pub(super) fn on_cut(&self, claimed: &Claimed) -> CutPolicy {
        self.settings().tier(claimed.message.tier).on_cut
    }

    /// The longest reply that the message's channel takes.
    pub(super) fn reply_max_chars(&self, claimed: &Claimed) -> Option<usize> {
        self.sink.traits(&claimed.message).max_chars
    }
}

fn ledger_failed(message_id: &MessageId, error: &LedgerError) -> Failure {
    tracing::error!(%error, %message_id, "the database failed under a message");
    Failure::new(Class::Transient, error.to_string())
}

pub(crate) fn make_workdir(conversation: &Conversation) -> Result<(), Failure> {
    let workdir = Path::new(&conversation.workdir);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(workdir)
        .map_err(|error| {
            let reason = format!(
                "the working directory {} can't be made: {error}",
                workdir.display()
            );
            Failure::new(Class::Config, reason)
        })
}
