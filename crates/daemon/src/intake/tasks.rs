//! Tasks behind the service: start one, steer it, and give its turns the terms of the task.

use crate::Daemon;
use crate::api::service::{DaemonService, closed};
use crate::fleet::TurnInput;
use crate::process::ids;
use bridge_channel::task;
use bridge_core::channels::id_in_session;
use bridge_core::port::{
    Agent, AgentError, Ledger, LedgerError, Sink, Steer, Steered, Steering, ThreadSpec,
    TurnTransport,
};
use bridge_core::quota::is_person;
use bridge_core::step::{
    Join, JoinUnknown, Leave, MidTurn, Note, Receive, StartTask, SteerStored, SteerTask,
    TaskStarted, Tell, TellOutcome,
};
use bridge_core::value::{
    ApprovalPolicy, AskedDigest, ChannelId, Class, Conversation, ConversationId, EventKind,
    ExternalId, Failure, Message, MessageId, NodeId, Sandbox, SenderKind, StateName, Task,
    TaskStart, Tier,
};
use bridge_front::{
    BridgeService, Caller, NewTask, StartError, SubmitError, TaskBegun, prompt_summary,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// How long a caller waits for Codex to take a text. What it says later counts all the same.
pub(crate) const STEER_WAIT: Duration = Duration::from_secs(15);

/// What to do after an unknown outcome.
pub(crate) const LOOK: &str = "look at the events and at what it does before you say it again";

/// Outcome of giving a message to a running turn.
pub(crate) enum Joined {
    /// The turn has it.
    Taken,
    /// It waits for its own turn.
    Waits(String),
    /// The turn may have it; its end shows that.
    Unknown,
}

impl From<Joined> for Steering {
    fn from(joined: Joined) -> Self {
        match joined {
            Joined::Taken => Self::Steered,
            Joined::Waits(why) => Self::Queued { why },
            Joined::Unknown => queued_unless_taken(),
        }
    }
}

fn queued_unless_taken() -> Steering {
    Steering::Queued {
        why: "Codex did not say in time whether the running turn has it; if not, the next turn gets it".to_owned(),
    }
}

impl<L: Ledger, A: Agent, S: Sink> Daemon<L, A, S> {
    /// How the turns of a message run: by its tier, or by the terms of the task that its conversation is.
    pub(crate) async fn spec_of(
        &self,
        message: &Message,
        conversation: &Conversation,
    ) -> Result<ThreadSpec, Failure> {
        if conversation.channel.as_str() != task::CHANNEL {
            return Ok(self.settings().thread_spec(message.tier, conversation));
        }
        let id = conversation.conversation_id.clone();
        let task = self.ledger.read(move |rows| rows.started_task(&id)).await;
        match task {
            Ok(Some(task)) => {
                // A turn that was begun is looked for even if its directory is gone.
                if message.life.state.name() != StateName::Unclear {
                    self.settings().still_fits(&task)?;
                }
                Ok(self.settings().task_spec(&task, conversation))
            }
            Ok(None) => Err(Failure::new(
                Class::Permanent,
                "the task of this message is gone, and with it how it was to run",
            )),
            Err(error) => Err(Failure::new(error.class(), error.to_string())),
        }
    }

    /// Gives a waiting message to the running turn of its conversation. What the turn did not take waits for its
    /// own turn; after an unknown outcome the end of the turn shows whether it had it.
    pub(crate) async fn join_turn(self: &Arc<Self>, message_id: MessageId) -> Joined {
        let _order = match self.order_of(&message_id).await {
            Ok(order) => order,
            Err(error) => return Joined::Waits(error.to_string()),
        };
        let join = Join {
            message_id: message_id.clone(),
        };
        let steer = match self.commit(join).await {
            Ok(Some(steer)) => steer,
            Ok(None) => return Joined::Waits("the turn can't be given more now".to_owned()),
            Err(LedgerError::Refused(refused)) => return Joined::Waits(refused.to_string()),
            Err(error) => {
                tracing::error!(%error, %message_id, "a message could not be given to a running turn");
                // It may be on disk all the same. A follower without its text must leave before the next one joins,
                // or that one is answered first.
                self.settle(Leave { message_id }).await;
                return Joined::Waits(error.to_string());
            }
        };
        let refused = match self.steer(&steer).await {
            Ok(Steered::Taken) => return Joined::Taken,
            Ok(Steered::Refused { why }) => why,
            Err(fault) if fault.failure.class == Class::Ambiguous => {
                // On disk before the next one may join, which must not be answered first.
                let why = fault.failure.reason;
                self.settle(JoinUnknown { message_id, why }).await;
                return Joined::Unknown;
            }
            Err(fault) => fault.failure.reason,
        };
        let why = crate::term::escape_line(&refused).into_owned();
        tracing::info!(%message_id, why, "the running turn did not take a message");
        self.settle(Leave { message_id }).await;
        Joined::Waits(format!("the running turn did not take it: {refused}"))
    }

    async fn steer(&self, steer: &Steer) -> Result<Steered, AgentError> {
        match self.expect_lease() {
            Ok(()) => self.agent.steer(steer).await,
            Err(failure) => Ok(Steered::Refused {
                why: failure.reason,
            }),
        }
    }

    /// Waits until it may speak to the running turn of a message's conversation.
    async fn order_of(&self, id: &MessageId) -> Result<OwnedMutexGuard<()>, LedgerError> {
        let named = id.clone();
        let message = self.ledger.read(move |rows| rows.message(&named)).await?;
        // What is not there is refused later; until then it stands for itself.
        let conversation_id = message.map_or_else(
            || ConversationId::new(id.as_str()),
            |message| message.conversation_id,
        );
        Ok(self.turns.steer_order(conversation_id).await)
    }

    /// Tells the running turn of a message of any channel; a caller that goes away takes nothing with it.
    pub(crate) async fn tell_running(
        self: &Arc<Self>,
        tell: Tell,
    ) -> Result<Steering, LedgerError> {
        let (daemon, here) = (Arc::clone(self), tell.clone());
        let telling = self
            .tasks
            .spawn(async move { daemon.tell_here(here).await });
        match tokio::time::timeout(STEER_WAIT, telling).await {
            Ok(Ok(steered)) => match steered? {
                Some(steering) => Ok(steering),
                None => self.tell_elsewhere(tell).await,
            },
            Ok(Err(_)) | Err(_) => Ok(Steering::Unknown {
                why: format!("Codex did not say in time whether the running turn has it: {LOOK}"),
            }),
        }
    }

    async fn tell_elsewhere(&self, tell: Tell) -> Result<Steering, LedgerError> {
        let Tell {
            message_id,
            text,
            by,
            ..
        } = tell;
        match self.node_elsewhere(&message_id).await? {
            Some(node) => {
                let input = TurnInput::Said { by, text };
                Ok(self.steer_elsewhere(node, &message_id, &input).await)
            }
            None => Ok(Steering::Refused {
                why: "its conversation is going to another node: try again".to_owned(),
            }),
        }
    }

    /// Tells the turn of a message if this node runs it.
    pub(crate) async fn tell_here(
        self: &Arc<Self>,
        tell: Tell,
    ) -> Result<Option<Steering>, LedgerError> {
        let (message_id, by) = (tell.message_id.clone(), tell.by.clone());
        let _order = self.order_of(&message_id).await?;
        let steer = match self.commit(tell).await? {
            TellOutcome::Steer(steer) => steer,
            TellOutcome::Elsewhere => return Ok(None),
            other => return Ok(Some(Steering::Refused { why: idle(other) })),
        };
        let (steering, text) = match self.steer(&steer).await {
            Ok(Steered::Taken) => {
                let text = format!("the running turn has the text of {by}");
                (Steering::Steered, text)
            }
            Err(fault) if fault.failure.class == Class::Ambiguous => {
                let what = "whether the running turn has it is not known";
                let text = format!("{what}: {}", fault.failure.reason);
                let why = format!("{text}: {LOOK}");
                (Steering::Unknown { why }, text)
            }
            Ok(Steered::Refused { why: reason }) => not_taken(&reason),
            Err(fault) => not_taken(&fault.failure.reason),
        };
        self.settle(Note {
            message_id,
            kind: EventKind::Bridge,
            text,
            effect: false,
        })
        .await;
        Ok(Some(steering))
    }

    /// Gives a stored message to the running turn of its conversation on another node.
    async fn join_elsewhere(&self, node: NodeId, message_id: &MessageId) -> Steering {
        let input = TurnInput::Message;
        match self.steer_elsewhere(node, message_id, &input).await {
            // It is stored: what the turn does not get now, the next one gets.
            Steering::Unknown { why } | Steering::Refused { why } => Steering::Queued { why },
            result => result,
        }
    }
}

impl<L: Ledger> DaemonService<L> {
    /// The home of another account, for a task that would have to wait for the default one's limit.
    async fn fallback_home(&self, starter: &str) -> Result<Option<String>, StartError> {
        let settings = self.daemon.settings();
        let Some(home) = settings.fallback_home() else {
            return Ok(None);
        };
        let claim = settings.claim(ids::now());
        let read = self.daemon.ledger.read(move |rows| {
            let node = rows.this_node();
            Ok(claim.gates(&rows.quotas()?, node.as_ref()))
        });
        let gates = read.await.map_err(SubmitError::from)?;
        let channel = ChannelId::new(task::CHANNEL);
        let person = is_person(
            settings.owners(),
            SenderKind::Person,
            Tier::Tool,
            &channel,
            starter,
        );
        let waits = |home| gates.home(home).holds(person).is_some();
        Ok((waits(None) && !waits(Some(&home))).then_some(home))
    }

    pub(crate) async fn begin_task(&self, new: NewTask) -> Result<TaskBegun, StartError> {
        let daemon = &self.daemon;
        if daemon.stopping.is_cancelled() {
            return Err(SubmitError::Stopping.into());
        }
        let asked = asked(&new);
        if let Some(key) = &new.key
            && let Some(known) = self.started_before(&new, key).await?
        {
            return same(known, &asked);
        }
        if let Some(target) = &new.notify_target {
            daemon
                .settings()
                .start
                .notify
                .check(target)
                .map_err(StartError::Invalid)?;
        }
        let (task_id, message_id) = (ids::task_id(), ids::message_id());
        let conversation_id = ids::conversation_id();
        let mut terms = daemon.settings().terms(&new, &conversation_id)?;
        if terms.codex_home.is_none() {
            terms.codex_home = self.fallback_home(&new.starter).await?;
        }
        let external_id = match &new.key {
            Some(key) => start_id(&new, key),
            None => in_session(new.session.as_deref(), format!("start:{task_id}")),
        };
        let prompt_summary = prompt_summary(&new.prompt);
        let mut arrival = task::arrive(&task_id, new.prompt, external_id, new.starter.clone())
            .map_err(|refusal| StartError::Invalid(refusal.to_string()))?;
        arrival.extras.trace = new.trace;
        self.admitted(&arrival).await?;
        let task = Task {
            task_id,
            channel: arrival.channel.clone(),
            conversation_id: conversation_id.clone(),
            owner: new.starter,
            sequence: 0,
            created_at: ids::now(),
            start: Some(TaskStart {
                prompt_summary,
                asked: asked.clone(),
                terms: terms.clone(),
            }),
        };
        let notify = new.notify_target;
        let notifies = notify.is_some();
        let receive = Receive {
            message_id,
            conversation_id,
            workdir: terms.cwd,
            mid_turn: MidTurn::Queue,
            ..self.assign(arrival)
        };
        let start = StartTask {
            receive,
            task,
            notify,
        };
        let started = self.commit(start).await;
        match started.map_err(SubmitError::from)? {
            TaskStarted::New(task) => {
                if notifies {
                    daemon.slots.look(&task.task_id);
                }
                Ok(TaskBegun {
                    task,
                    duplicate: false,
                })
            }
            TaskStarted::Known(task) => same(task, &asked),
            TaskStarted::Full => Err(SubmitError::Full.into()),
            TaskStarted::OverBudget(over) => Err(SubmitError::over_budget(over, ids::now()).into()),
            TaskStarted::Revoked => Err(SubmitError::Revoked.into()),
        }
    }

    /// The task that a caller started with this key. It is looked for before anything is judged: what a task was given
    /// may be gone since, and it is the same task all the same.
    async fn started_before(&self, new: &NewTask, key: &str) -> Result<Option<Task>, SubmitError> {
        let (channel, id) = (ChannelId::new(task::CHANNEL), start_id(new, key));
        let found =
            self.daemon
                .ledger
                .read(move |rows| match rows.message_by_external(&channel, &id)? {
                    Some(message) => rows.started_task(&message.conversation_id),
                    None => Ok(None),
                });
        Ok(found.await?)
    }

    /// Whether one more may come in; what is known already may, however closed the door is.
    async fn admitted(&self, arrival: &bridge_channel::Arrival) -> Result<(), SubmitError> {
        self.admit(arrival).await.map(drop).map_err(closed)
    }

    pub(crate) async fn tell_task(
        &self,
        task: &Task,
        text: String,
        by: &Caller,
    ) -> Result<Steering, SubmitError> {
        if self.daemon.stopping.is_cancelled() {
            return Err(SubmitError::Stopping);
        }
        let Some(terms) = task.terms() else {
            let why = "only a task that was started here can be steered";
            return Err(SubmitError::Unfit(why.to_owned()));
        };
        let id = format!("steer:{}", ids::message_id());
        let external_id = in_session(by.owner_session(), id);
        let mut arrival = task::arrive(&task.task_id, text, external_id, by.name.clone())
            .map_err(|refusal| SubmitError::Unfit(refusal.to_string()))?;
        arrival.extras.trace = by.trace;
        self.admitted(&arrival).await?;
        let settings = self.daemon.settings();
        let transport = settings.transport(&arrival.channel, &arrival.conversation);
        let receive = Receive {
            workdir: terms.cwd.clone(),
            mid_turn: match transport {
                TurnTransport::AppServer => MidTurn::Steer,
                TurnTransport::Exec => MidTurn::Queue,
            },
            ..self.assign(arrival)
        };
        match self.commit(SteerTask { receive }).await? {
            SteerStored::Over => Ok(Steering::Refused {
                why: "the task is over: start a new one".to_owned(),
            }),
            SteerStored::Full => Err(SubmitError::Full),
            SteerStored::OverBudget(over) => Err(SubmitError::over_budget(over, ids::now())),
            SteerStored::Revoked => Err(SubmitError::Revoked),
            SteerStored::Stored { running: false, .. } => Ok(Steering::Queued {
                why: "no turn of the task runs now".to_owned(),
            }),
            SteerStored::Stored {
                message_id,
                running: true,
            } => Ok(self.join_now(message_id).await),
        }
    }

    /// Gives a stored text to the running turn; a caller that goes away takes nothing with it.
    async fn join_now(&self, message_id: MessageId) -> Steering {
        let daemon = Arc::clone(&self.daemon);
        match daemon.node_elsewhere(&message_id).await {
            Ok(Some(node)) => return daemon.join_elsewhere(node, &message_id).await,
            Ok(None) => {}
            Err(error) => {
                return Steering::Queued {
                    why: error.to_string(),
                };
            }
        }
        let joining = self
            .daemon
            .tasks
            .spawn(async move { daemon.join_turn(message_id).await });
        match tokio::time::timeout(STEER_WAIT, joining).await {
            Ok(Ok(joined)) => joined.into(),
            Ok(Err(_)) | Err(_) => queued_unless_taken(),
        }
    }

    /// Tells the running turn of a message of any channel.
    pub(crate) async fn tell_turn(
        &self,
        message_id: MessageId,
        text: String,
        by: &str,
    ) -> Result<Steering, LedgerError> {
        let tell = Tell {
            message_id,
            text,
            by: by.to_owned(),
            mark: ids::mark(),
        };
        self.daemon.tell_running(tell).await
    }
}

/// The channel's id of a task that was started with a key. Keys are their starter's own.
fn start_id(new: &NewTask, key: &str) -> ExternalId {
    in_session(
        new.session.as_deref(),
        format!("start:{}:{key}", new.starter),
    )
}

fn in_session(session: Option<&str>, id: String) -> ExternalId {
    ExternalId::new(id_in_session(session, id))
}

/// All that a caller asks for.
fn asked(new: &NewTask) -> AskedDigest {
    AskedDigest::of([
        Some(new.prompt.as_str()),
        new.cwd.as_deref(),
        new.model.as_deref(),
        new.sandbox.map(Sandbox::as_str),
        new.approval_policy.map(ApprovalPolicy::as_str),
        new.codex_home.as_deref(),
        new.notify_target.as_deref(),
    ])
}

/// The task of a key that was used before, if the same was asked for.
fn same(task: Task, asked: &AskedDigest) -> Result<TaskBegun, StartError> {
    let start = task.start.as_ref();
    if start.is_some_and(|start| start.asked == *asked) {
        Ok(TaskBegun {
            task,
            duplicate: true,
        })
    } else {
        Err(SubmitError::OtherBody.into())
    }
}

fn not_taken(reason: &str) -> (Steering, String) {
    let why = format!("the running turn did not take it: {reason}");
    (Steering::Refused { why: why.clone() }, why)
}

/// Why a message has no turn to tell, and what to do.
fn idle(outcome: TellOutcome) -> String {
    match outcome {
        TellOutcome::Steer(_) | TellOutcome::Elsewhere => String::new(),
        TellOutcome::Steered(leader) => {
            format!("its text was given to the turn of message {leader}: steer that one")
        }
        TellOutcome::Stopping => "somebody stopped it, and its turn is ending".to_owned(),
        TellOutcome::Idle(state) if state.finished() || !state.awaits_answer() => {
            "it is answered or over: send a new message to its conversation".to_owned()
        }
        TellOutcome::Idle(StateName::Parked) => {
            "it waits for a person to say how it goes on: let it go on with `codex-bridge retry`"
                .to_owned()
        }
        TellOutcome::Idle(_) => {
            "no turn of it runs now: try again when it does, or send a new message to its conversation"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_fingerprint_covers_requested_fields() {
        let one = NewTask {
            prompt: "x".repeat(400),
            cwd: Some("/a".to_owned()),
            model: None,
            sandbox: None,
            approval_policy: None,
            codex_home: None,
            notify_target: None,
            key: Some("k".to_owned()),
            starter: "ann".to_owned(),
            session: None,
            by_owner: false,
            trace: None,
            base: None,
        };
        let text = |text: &str| Some(text.to_owned());
        let mut others = vec![one.clone(); 7];
        others[0].prompt.push('y');
        others[1].cwd = None;
        others[2].model = text("m");
        others[3].sandbox = Some(Sandbox::ReadOnly);
        others[4].approval_policy = Some(ApprovalPolicy::OnRequest);
        others[5].codex_home = text("/a");
        others[6].notify_target = text("local");
        assert_eq!(asked(&one), asked(&one.clone()));
        for (index, other) in others.iter().enumerate() {
            assert_ne!(asked(&one), asked(other), "{index}");
        }
        others[1].model = text("/a");
        assert_ne!(asked(&one), asked(&others[1]), "parts keep their places");
    }
}
