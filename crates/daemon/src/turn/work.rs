//! A claimed message: make Codex and the thread ready, write the intent down, start the turn, follow it.

use crate::Daemon;
use crate::process::ids::now;
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
enum Setback {
    Agent(Failure),
    Ledger(LedgerError),
}

impl From<AgentError> for Setback {
    fn from(fault: AgentError) -> Self {
        Self::Agent(fault.failure)
    }
}

impl From<Failure> for Setback {
    fn from(failure: Failure) -> Self {
        Self::Agent(failure)
    }
}

impl From<LedgerError> for Setback {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    pub(crate) async fn work(self: Arc<Self>, message_id: MessageId) {
        let failure = match self.try_work(&message_id).await {
            Ok(()) => return,
            Err(Setback::Agent(failure)) => failure,
            Err(Setback::Ledger(error)) => {
                tracing::error!(%error, %message_id, "the ledger failed under a message");
                Failure::new(Class::Transient, error.to_string())
            }
        };
        tracing::info!(%message_id, class = failure.class.as_str(), reason = %crate::term::escape_line(&failure.reason), "a message could not be worked on");
        if self.stopping.is_cancelled() && failure.class != Class::Ambiguous {
            return self.settle(Suspend { message_id }).await;
        }
        self.fail(message_id, failure, false, Usage::default())
            .await;
    }

    pub(crate) async fn fail(
        self: &Arc<Self>,
        message_id: MessageId,
        failure: Failure,
        touched: bool,
        usage: Usage,
    ) {
        let on_cut = self.on_cut(&message_id).await;
        self.settle(Fail {
            message_id,
            failure,
            touched,
            usage,
            on_cut,
            pace: self.settings().pace(),
        })
        .await;
    }

    async fn try_work(self: &Arc<Self>, message_id: &MessageId) -> Result<(), Setback> {
        let Some((message, conversation)) = self.load(message_id).await? else {
            return Ok(());
        };
        let spec = self.spec_of(&message, &conversation).await?;
        make_workdir(&conversation)?;
        self.place_files(&message, &conversation).await?;
        let home = spec.codex_home.as_deref();
        self.agent.ready(home).await?;
        let thread = self.thread_of(&message, &conversation, &spec).await?;
        // Codex may have been started again meanwhile: the life that has the thread is the one that counts.
        let ready = self.agent.ready(home).await?;
        let incarnation = match spec.transport {
            TurnTransport::AppServer => ready,
            TurnTransport::Exec => {
                IncarnationId::of_run(&ClientId::of(message_id, message.life.attempt))
            }
        };
        tracing::debug!(target: TRACE, at = "ready", %message_id);
        let patience = self.settings().patience(spec.transport);
        let started_at = now();
        let recap = self.recap(&message, &conversation, &thread).await?;
        let begun = self
            .commit(Begin {
                message_id: message_id.clone(),
                thread: thread.clone(),
                incarnation,
                epoch: self.ledger.epoch(),
                boot_id: self.settings().boot_id.clone(),
                sandbox: spec.sandbox,
            })
            .await?;
        let Begun::Turn { client_id } = begun else {
            return Ok(());
        };
        let turn = TurnSpec {
            thread: thread.clone(),
            spec,
            client_id,
            text: turn_text(&message, &recap),
            images: images(&message),
        };
        tracing::debug!(target: TRACE, at = "begun", %message_id);
        let started = self.agent.start_turn(&turn).await?;
        tracing::debug!(target: TRACE, at = "started", %message_id);
        self.settle(Attach {
            message_id: message_id.clone(),
            turn_id: started.turn_id.clone(),
        })
        .await;
        tracing::debug!(target: TRACE, at = "attached", %message_id);
        let followed = Followed {
            message_id: message_id.clone(),
            thread,
            turn_id: started.turn_id,
            started_at,
            patience,
            attached: false,
            heard: Vec::new(),
            calls: Arc::default(),
        };
        self.follow(followed, started.stream).await;
        Ok(())
    }

    pub(crate) async fn load(
        &self,
        message_id: &MessageId,
    ) -> Result<Option<(Message, Conversation)>, LedgerError> {
        let message_id = message_id.clone();
        self.ledger
            .read(move |rows| {
                let Some(message) = rows.message(&message_id)? else {
                    return Ok(None);
                };
                let conversation = rows.conversation(&message.conversation_id)?;
                Ok(conversation.map(|conversation| (message, conversation)))
            })
            .await
    }

    /// The conversation's thread, loaded; a new one where there is none, or where the old one is gone.
    async fn thread_of(
        self: &Arc<Self>,
        message: &Message,
        conversation: &Conversation,
        spec: &ThreadSpec,
    ) -> Result<ThreadId, Setback> {
        if let Some(thread) = &conversation.thread {
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

    /// What a thread without a kept turn must be told of an older conversation: it does not know it.
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

    /// What follows a cut of this message's work, by who sent it.
    pub(crate) async fn on_cut(&self, message_id: &MessageId) -> CutPolicy {
        match self.load(message_id).await {
            Ok(Some((message, _))) => self.settings().tier(message.tier).on_cut,
            Ok(None) | Err(_) => CutPolicy::Ask,
        }
    }

    /// The longest reply that the message's channel takes.
    pub(crate) async fn reply_max_chars(&self, message_id: &MessageId) -> Option<usize> {
        match self.load(message_id).await {
            Ok(Some((message, _))) => self.sink.traits(&message).max_chars,
            Ok(None) | Err(_) => None,
        }
    }
}

/// The files of a message that the model is shown.
fn images(message: &Message) -> Vec<String> {
    let images = message.attachments.iter().filter(|file| file.is_image());
    images.map(|file| file.path.clone()).collect()
}

fn make_workdir(conversation: &Conversation) -> Result<(), Setback> {
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
            Setback::Agent(Failure::new(Class::Config, reason))
        })
}
