//! The daemon as the fronts see it.

use crate::Daemon;
use crate::api::listeners;
use crate::process::ids;
use crate::redaction::RedactingAgent;
use bridge_channel::a2a;
use bridge_channel::local;
use bridge_channel::molecule::{ChannelHealth, PushAnswer};
use bridge_channel::{Activity, Arrival, Channels, Inbox, IntakeStatus, Page, PastReply};
use bridge_core::channels;
use bridge_core::limits::{BACKLOG_MAX, STOP_MAX};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{
    Claim, Decide, DecideOutcome, DecideRefusal, Extras, InputAccepted, MidTurn, Receive,
    ReceivePage, Received, StopCause, StopSender, TaskAnswered, Transition,
};
use bridge_core::value::{
    Actor, Attachment, ChannelId, ExternalId, MessageId, ReplyState, Subscription, Task, TaskId,
    TaskInput, Timestamp,
};
use bridge_front::{
    A2aProfile, BridgeService, Caller, ChannelView, HealthView, Hub, LedgerView, NewAnswer,
    NewTask, NewTaskInput, Notified, PlatformAnswer, PushPut, ReloadView, Scope, StartError,
    Steering, StopRequest, Stopped, SubmitError, SubmitRequest, Submitted, TaskBegun,
};
use bridge_host::CodexAgent;
use bridge_host::answer_error;
use bridge_store::sqlite::{self, Gauge, Pressure, Vitals};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The daemon with Codex behind it.
pub(crate) type CodexDaemon<L> = Daemon<L, RedactingAgent<CodexAgent<L>>, Channels>;

/// A handle for the fronts and the channels: everything comes in through it.
pub(crate) struct DaemonService<L> {
    pub(crate) daemon: Arc<CodexDaemon<L>>,
    /// Asked before anything is taken in.
    pub(crate) gauge: Gauge,
    /// The ledger's file, to tell its size.
    file: PathBuf,
    /// Where TCP is served, and since when.
    pub(crate) listen: Option<(SocketAddr, Timestamp)>,
}

impl<L> Clone for DaemonService<L> {
    fn clone(&self) -> Self {
        Self {
            daemon: Arc::clone(&self.daemon),
            gauge: self.gauge.clone(),
            file: self.file.clone(),
            listen: self.listen,
        }
    }
}

impl<L: Ledger> DaemonService<L> {
    pub(crate) fn new(
        daemon: &Arc<CodexDaemon<L>>,
        gauge: Gauge,
        file: PathBuf,
        listen: Option<SocketAddr>,
    ) -> Self {
        Self {
            listen: listen.map(|address| (address, ids::now())),
            daemon: Arc::clone(daemon),
            gauge,
            file,
        }
    }

    /// Whether one more may come in. What is in already is known by its key, however closed the door is.
    pub(crate) async fn admit(&self, arrival: &Arrival) -> Result<Option<MessageId>, Pressure> {
        let Err(pressure) = self.gauge.admit() else {
            return Ok(None);
        };
        let (channel, external_id) = (arrival.channel.clone(), arrival.external_id.clone());
        let known = self
            .daemon
            .ledger
            .read(move |rows| rows.message_by_external(&channel, &external_id))
            .await;
        match known {
            Ok(Some(message)) => Ok(Some(message.message_id)),
            Ok(None) | Err(_) => Err(pressure),
        }
    }

    async fn receive(&self, arrival: Arrival) -> Result<Received, LedgerError> {
        self.commit(self.assign(arrival)).await
    }

    /// A row of a feed: its source shows it until it is taken in, so it is never refused.
    fn assign_row(&self, arrival: Arrival) -> Receive {
        let mut row = self.assign(arrival);
        row.extras.storage.refusable = false;
        row
    }

    /// The transition that takes an arrival in, with the ids and places it gets.
    pub(crate) fn assign(&self, arrival: Arrival) -> Receive {
        self.assign_as(arrival, ids::message_id())
    }

    /// The same for one whose id is known already.
    pub(crate) fn assign_as(&self, arrival: Arrival, message_id: MessageId) -> Receive {
        let settings = self.daemon.settings();
        let conversation_id = ids::conversation_id();
        let mid_turn = if arrival.extras.attachments.is_empty() {
            settings.mid_turn(arrival.tier, &arrival.channel, &arrival.conversation)
        } else {
            // Files are put into the working directory before a turn, and a running one takes text only.
            MidTurn::Queue
        };
        Receive {
            message_id,
            workdir: settings.workdir(arrival.tier, &conversation_id),
            conversation_id,
            extras: Extras {
                storage: settings.storage(&arrival.channel, &arrival.sender, arrival.tier),
                loop_limits: settings.loop_limits(),
                ..arrival.extras
            },
            channel: arrival.channel,
            external_key: arrival.conversation,
            external_id: arrival.external_id,
            kind: arrival.kind,
            sender: arrival.sender,
            tier: arrival.tier,
            body: arrival.body,
            mid_turn,
            verdict: arrival.verdict,
        }
    }
}

impl<L: Ledger> DaemonService<L> {
    /// A key that was here before must mean the same message: its row has the text.
    async fn same(
        &self,
        message_id: MessageId,
        text: String,
        key: String,
    ) -> Result<Submitted, SubmitError> {
        let known = message_id.clone();
        let read = self.daemon.ledger.read(move |rows| {
            let Some(message) = rows.message(&known)? else {
                return Ok(true);
            };
            let conversation = rows.conversation(&message.conversation_id)?;
            let same_key = conversation.is_none_or(|known| known.external_key == key);
            Ok(same_key && message.body == text)
        });
        if read.await? {
            Ok(Submitted {
                message_id,
                duplicate: true,
            })
        } else {
            Err(SubmitError::OtherBody)
        }
    }
}

impl<L: Ledger> Inbox for DaemonService<L> {
    async fn take_page(&self, page: Page) -> Result<Vec<Received>, LedgerError> {
        self.gauge
            .admit()
            .map_err(|pressure| closed_door(&pressure))?;
        let rows = page
            .arrivals
            .into_iter()
            .map(|arrival| self.assign_row(arrival));
        self.commit(ReceivePage {
            channel: page.channel,
            rows: rows.collect(),
            position: page.position,
        })
        .await
    }

    async fn cursor(&self, channel: &ChannelId) -> Result<Option<String>, LedgerError> {
        let channel = channel.clone();
        let ledger = &self.daemon.ledger;
        ledger.read(move |rows| rows.cursor(&channel)).await
    }

    async fn standing(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<IntakeStatus, LedgerError> {
        let (channel, external_id) = (channel.clone(), external_id.clone());
        let rows = self.daemon.ledger.read(move |rows| {
            let known = rows.message_by_external(&channel, &external_id)?;
            Ok((known, rows.backlog()?))
        });
        let (known, backlog) = rows.await?;
        if let Some(message) = known {
            let files = message.attachments.len();
            return Ok(IntakeStatus::Known { files });
        }
        self.gauge
            .admit()
            .map_err(|pressure| closed_door(&pressure))?;
        if backlog < BACKLOG_MAX {
            Ok(IntakeStatus::New)
        } else {
            Ok(IntakeStatus::Full)
        }
    }

    async fn replies(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> Result<Option<Vec<PastReply>>, LedgerError> {
        let (channel, external_id) = (channel.clone(), external_id.clone());
        let read = self.daemon.ledger.read(move |rows| {
            let message = rows.message_by_external(&channel, &external_id)?;
            let Some(message) = message.filter(|one| one.life.state.name().finished()) else {
                return Ok(None);
            };
            let replies = rows.replies(&message.message_id)?;
            let replies = replies.into_iter().map(|reply| PastReply {
                text: reply.body,
                receipt: match reply.state {
                    ReplyState::Sent { receipt, .. } => Some(receipt),
                    ReplyState::Queued { .. } | ReplyState::Sending | ReplyState::Dead { .. } => {
                        None
                    }
                },
            });
            Ok(Some(replies.collect()))
        });
        read.await
    }

    async fn activity(&self, channel: &ChannelId) -> Activity {
        self.daemon.turns.running.activity(channel)
    }
}

fn closed_door(pressure: &Pressure) -> LedgerError {
    LedgerError::Unavailable {
        what: pressure.to_string(),
    }
}

impl<L: Ledger> BridgeService for DaemonService<L> {
    type Ledger = L;

    fn ledger(&self) -> &L {
        &self.daemon.ledger
    }

    fn hub(&self) -> &Hub {
        &self.daemon.hub
    }

    async fn commit<T: Transition>(&self, transition: T) -> Result<T::Outcome, LedgerError> {
        // On a task of its own: a caller that goes away after the commit must not take the effects with it.
        let daemon = Arc::clone(&self.daemon);
        let committed = tokio::spawn(async move { daemon.commit(transition).await }).await;
        committed.map_err(|_| LedgerError::Unavailable {
            what: "the daemon is stopping".to_owned(),
        })?
    }

    async fn submit(
        &self,
        message: SubmitRequest,
        key: &str,
        from: Caller,
    ) -> Result<Submitted, SubmitError> {
        if self.daemon.stopping.is_cancelled() {
            return Err(SubmitError::Stopping);
        }
        let is_owner = from.may(Scope::Admin);
        let conversation = message.conversation.as_deref();
        let arrival = local::arrive(message.text, conversation, key, from.name, is_owner)
            .map_err(|refusal| SubmitError::Unfit(refusal.to_string()))?;
        let (text, key) = (arrival.body.clone(), arrival.conversation.clone());
        let received = match self.admit(&arrival).await.map_err(closed)? {
            Some(known) => Received::Duplicate(known),
            None => self.receive(arrival).await?,
        };
        match received {
            Received::New(message_id) => Ok(Submitted {
                message_id,
                duplicate: false,
            }),
            Received::Duplicate(message_id) => self.same(message_id, text, key).await,
            Received::Full => Err(SubmitError::Full),
            Received::OverBudget(over) => Err(SubmitError::over_budget(over, ids::now())),
            Received::Revoked => Err(SubmitError::Revoked),
        }
    }

    fn now(&self) -> Timestamp {
        ids::now()
    }

    fn claim(&self) -> Claim {
        self.daemon.settings().claim(ids::now())
    }

    fn ledger_bytes(&self) -> Option<u64> {
        let file = &self.file;
        // What was not yet moved into the file lies beside it.
        let wal = file.with_extension("db-wal");
        let size = |path: &Path| path.metadata().map(|found| found.len());
        Some(size(file).ok()?.saturating_add(size(&wal).unwrap_or(0)))
    }

    async fn stop_sender(&self, stop: StopRequest, by: Actor) -> Result<Stopped, LedgerError> {
        self.stop_all_of(stop, by).await
    }

    async fn decide(&self, decide: Decide) -> Result<DecideOutcome, LedgerError> {
        let id = decide.request_id.clone();
        let ledger = &self.daemon.ledger;
        let asked = ledger.read(move |rows| rows.request(&id)).await?;
        let waits = asked.filter(|request| request.state.waits());
        let error = waits.and_then(|request| answer_error(&request, &decide.verdict));
        match error {
            Some(why) => Ok(DecideOutcome::Refused(DecideRefusal::Unfit { why })),
            None => self.commit(decide).await,
        }
    }

    async fn reload(&self, by: &str) -> ReloadView {
        self.daemon.reload(by).await
    }

    fn random_token(&self) -> Option<String> {
        let token = listeners::random_token()
            .inspect_err(|error| tracing::error!(%error, "no random numbers for a token"))
            .ok()?;
        self.daemon.settings().start.secret_registry.learn(&token);
        Some(token)
    }

    fn steps(&self) -> Vec<(&'static str, u64)> {
        self.daemon.counters.counts()
    }

    fn task_panics(&self) -> u64 {
        self.daemon.panics.total()
    }

    async fn start_task(&self, task: NewTask) -> Result<TaskBegun, StartError> {
        self.begin_task(task).await
    }

    async fn steer_task(
        &self,
        task: &Task,
        text: String,
        by: &str,
    ) -> Result<Steering, SubmitError> {
        self.tell_task(task, text, by).await
    }

    async fn tell(
        &self,
        message_id: MessageId,
        text: String,
        by: &str,
    ) -> Result<Steering, LedgerError> {
        self.tell_turn(message_id, text, by).await
    }

    async fn notify_task(&self, task_id: &TaskId, by: &str) -> Result<Notified, LedgerError> {
        self.daemon.notify_now(task_id, by).await
    }

    fn platform(&self, secret: &str) -> Option<ChannelId> {
        let mut known = None;
        // All of them, so that the time does not tell which one it was.
        for molecule in &self.daemon.sink.molecule {
            if molecule.is_called_with(secret) {
                known = Some(molecule.channel().clone());
            }
        }
        known
    }

    async fn platform_call(&self, channel: &str, call: Value) -> PlatformAnswer {
        let mut molecules = self.daemon.sink.molecule.iter();
        let Some(molecule) = molecules.find(|own| own.channel().as_str() == channel) else {
            return PlatformAnswer::NotNow("the channel is not configured".to_owned());
        };
        let stop = &self.daemon.stopping;
        let answer = molecule.receive_push(self, call, stop).await;
        match answer {
            PushAnswer::Rpc(answer) | PushAnswer::Queued(answer) => PlatformAnswer::Said(answer),
            PushAnswer::NotNow(why) => PlatformAnswer::NotNow(why),
        }
    }

    fn a2a(&self) -> A2aProfile {
        self.a2a_profile()
    }

    async fn accept_input(&self, input: NewTaskInput) -> Result<InputAccepted, SubmitError> {
        // A caller that hangs up does not take its input back.
        let service = self.clone();
        let taken = tokio::spawn(async move { service.take_input(input).await }).await;
        taken.map_err(|_| SubmitError::Stopping)?
    }

    async fn answer_task(&self, answer: NewAnswer) -> Result<TaskAnswered, LedgerError> {
        self.answer_input(answer).await
    }

    async fn repeated_input(
        &self,
        from: &Caller,
        task_id: &TaskId,
        key: &str,
    ) -> Result<Option<TaskInput>, LedgerError> {
        self.input_before(from, task_id, key).await
    }

    fn talk(&self, from: &Caller, context: &str) -> (ChannelId, String) {
        let key = a2a::conversation_key(&from.name, context);
        (ChannelId::new(a2a::CHANNEL), key)
    }

    async fn put_push(&self, push: Subscription, by: &str) -> Result<PushPut, LedgerError> {
        self.daemon.put_push(push, by).await
    }

    async fn drop_push(&self, id: &TaskId, config: &str, by: &str) -> Result<bool, LedgerError> {
        self.daemon.drop_push(id, config, by).await
    }

    async fn read_file(&self, file: &Attachment) -> Result<Vec<u8>, String> {
        self.read_copy(file).await
    }

    async fn health(&self) -> HealthView {
        let codex = self.daemon.agent.inner().health();
        let stopping = self.daemon.stopping.is_cancelled();
        let closed = self
            .gauge
            .admit()
            .err()
            .map(|pressure| pressure.to_string());
        HealthView {
            ready: codex.ready && !stopping && closed.is_none(),
            detail: match (stopping, &closed, codex.ready) {
                (true, _, _) => "the daemon is stopping".to_owned(),
                (false, Some(closed), _) => closed.clone(),
                (false, None, true) => "ready".to_owned(),
                (false, None, false) => codex.detail.clone(),
            },
            ledger: Some(ledger_view(self.gauge.vitals(), closed)),
            channels: self
                .daemon
                .sink
                .health()
                .into_iter()
                .map(channel_view)
                .chain(self.a2a_view())
                .collect(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            codex: codex.detail,
            reload: self.daemon.last_reload(),
        }
    }
}

/// Why the door is closed, in the fronts' words.
pub(crate) fn closed(pressure: Pressure) -> SubmitError {
    let detail = pressure.to_string();
    match pressure {
        Pressure::DiskLow { .. } => SubmitError::NoRoom(detail),
        Pressure::Slow { retry_after, .. } => SubmitError::Slow {
            detail,
            retry_after,
        },
        Pressure::Damaged { .. } => SubmitError::Damaged(detail),
    }
}

fn channel_view(health: ChannelHealth) -> ChannelView {
    ChannelView {
        channel: health.channel.to_string(),
        state: health.state.as_str().to_owned(),
        detail: health.detail,
        since: health.since.into(),
    }
}

fn ledger_view(vitals: Vitals, closed: Option<String>) -> LedgerView {
    let (health, damage) = match vitals.health {
        sqlite::LedgerHealth::Unchecked => ("unchecked", None),
        sqlite::LedgerHealth::Sound => ("sound", None),
        sqlite::LedgerHealth::Damaged { why } => ("damaged", Some(why)),
    };
    let milliseconds = |took: std::time::Duration| u64::try_from(took.as_millis()).ok();
    LedgerView {
        health: health.to_owned(),
        damage,
        free_bytes: vitals.free_bytes,
        low_bytes: vitals.low_bytes,
        log_bytes: vitals.log_bytes,
        last_commit_ms: vitals.last_commit.and_then(milliseconds),
        closed,
    }
}

/// More batches than this never wait: a sender that goes on sending meanwhile does not keep this going.
const BATCHES_MAX: u32 = BACKLOG_MAX / STOP_MAX + 1;

impl<L: Ledger> DaemonService<L> {
    /// Stops everything of one sender, batch by batch, on a task of its own: a caller that hangs up stops nothing halfway.
    async fn stop_all_of(&self, stop: StopRequest, by: Actor) -> Result<Stopped, LedgerError> {
        let service = self.clone();
        let first = StopSender {
            sender: stop.sender,
            channels: match (stop.channel, stop.cause) {
                (Some(channel), _) => vec![channel],
                (None, StopCause::Revoked) => channels::OF_TOKENS.map(ChannelId::new).to_vec(),
                (None, StopCause::Operator) => Vec::new(),
            },
            by,
            cause: stop.cause,
            after: None,
        };
        let stopped = tokio::spawn(async move { service.stop_batches(first).await }).await;
        stopped.map_err(|_| LedgerError::Unavailable {
            what: "the daemon is stopping".to_owned(),
        })?
    }

    async fn stop_batches(&self, mut stop: StopSender) -> Result<Stopped, LedgerError> {
        let mut stopped = Stopped::default();
        for _ in 0..BATCHES_MAX {
            let batch = self.commit(stop.clone()).await?;
            stopped.cancelled = stopped.cancelled.saturating_add(batch.cancelled);
            stopped.running.extend(batch.running);
            stopped.joined.extend(batch.joined);
            stop.after = match batch.next {
                Some(next) => Some(next),
                None => break,
            };
        }
        Ok(stopped)
    }
}
