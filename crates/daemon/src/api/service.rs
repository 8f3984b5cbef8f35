//! The daemon as the fronts see it.

use crate::Daemon;
use crate::api::console::{self, ConsoleCalls};
use crate::api::listeners;
use crate::process::ids;
use crate::redaction::RedactingAgent;
use bridge_channel::Channels;
use bridge_channel::a2a;
use bridge_channel::molecule::{ChannelHealth, PushAnswer};
use bridge_core::channels;
use bridge_core::limits::{BACKLOG_MAX, STOP_MAX};
use bridge_core::port::{Ledger, LedgerError, Steering};
use bridge_core::requester::LOCAL_OWNER;
use bridge_core::step::{
    Claim, Decide, DecideOutcome, DecideRefusal, InputAccepted, StopCause, StopSender,
    TaskAnswered, Transition,
};
use bridge_core::value::{
    Actor, Attachment, ChannelId, ConversationId, LoanId, MessageId, PushDevice, ReceiverId,
    Subscription, Task, TaskId, TaskInput, Tier, Timestamp,
};
use bridge_front::{
    A2aProfile, BridgeService, Caller, ChannelView, CodexMemoryView, ConsolePlace, HealthView, Hub,
    LedgerView, Lending, LoanReturned, Measured, NO_CONSOLE, NewAnswer, NewLoan, NewTask,
    NewTaskInput, Notified, PlatformAnswer, PolicyInForce, PushPut, ReloadView, StartError,
    StopRequest, Stopped, SubmitError, SubmitRequest, Submitted, TaskBegun,
};
use bridge_host::{CodexAgent, CodexMemory, answer_error};
use bridge_store::sqlite::{self, Gauge, Pressure, Vitals};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The daemon with Codex behind it.
pub(crate) type CodexDaemon<L> = Daemon<L, RedactingAgent<CodexAgent<L>>, Channels>;

/// A handle for the fronts and the channels: everything comes in through it.
pub(crate) struct DaemonService<L> {
    pub(crate) daemon: Arc<CodexDaemon<L>>,
    /// Asked before anything is taken in.
    pub(crate) gauge: Gauge,
    /// The ledger's file, to tell its size.
    file: PathBuf,
    /// What was found when the ledger was opened and should be changed.
    ledger_warnings: Arc<[String]>,
    /// Where TCP is served, and since when; set once somebody opens the console where it was served nowhere.
    pub(crate) listen: Arc<OnceLock<(SocketAddr, Timestamp)>>,
    console: ConsoleCalls,
}

impl<L> Clone for DaemonService<L> {
    fn clone(&self) -> Self {
        Self {
            daemon: Arc::clone(&self.daemon),
            gauge: self.gauge.clone(),
            file: self.file.clone(),
            ledger_warnings: Arc::clone(&self.ledger_warnings),
            listen: Arc::clone(&self.listen),
            console: self.console.clone(),
        }
    }
}

impl<L: Ledger> DaemonService<L> {
    pub(crate) fn new(
        daemon: &Arc<CodexDaemon<L>>,
        gauge: Gauge,
        file: PathBuf,
        ledger_warnings: &[String],
        listen: Option<SocketAddr>,
        console: ConsoleCalls,
    ) -> Self {
        let since = listen.map(|address| (address, ids::now()));
        Self {
            listen: Arc::new(since.map_or_else(OnceLock::new, OnceLock::from)),
            console,
            daemon: Arc::clone(daemon),
            gauge,
            file,
            ledger_warnings: ledger_warnings.into(),
        }
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
        self.take_local(message, key, from).await
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

    fn policy(&self) -> PolicyInForce {
        self.daemon.settings().config.policy_in_force()
    }

    fn tier_of(&self, channel: &str, sender: Option<&str>) -> Result<Tier, String> {
        let of_workspace = |id: &str, sender: &str| {
            let mut known = self.daemon.sink.molecule.iter();
            let own = known.find(|molecule| molecule.workspace().starts_with(id))?;
            Some(own.tier_of_sender(sender))
        };
        let settings = self.daemon.settings();
        settings.config.tier_of(channel, sender, of_workspace)
    }

    async fn reload(&self, by: &str) -> ReloadView {
        self.daemon.reload(by).await
    }

    fn random_token(&self) -> Option<String> {
        listeners::random_token()
            .inspect_err(|error| tracing::error!(%error, "no random numbers for a token"))
            .ok()
    }

    fn redact(&self, secret: &str) {
        self.daemon.settings().start.secret_registry.learn(secret);
    }

    fn steps(&self) -> Vec<(&'static str, u64)> {
        self.daemon.counters.counts()
    }

    fn measured(&self) -> Measured {
        let daemon = &self.daemon;
        let spans = daemon.traces.counts();
        Measured {
            spans_exported: spans.exported,
            spans_dropped: spans.dropped,
            ..daemon.measures.view(&daemon.counters.times)
        }
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
        by: &Caller,
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

    fn console_enabled(&self) -> bool {
        console::is_built() && self.daemon.settings().config.console.enabled
    }

    async fn open_console(&self) -> Result<ConsolePlace, String> {
        if !self.console_enabled() {
            return Err(NO_CONSOLE.to_owned());
        }
        let address = match self.listen.get() {
            Some((address, _)) => *address,
            None => {
                let address = self.console.listen().await?;
                self.listen.get_or_init(|| (address, ids::now()));
                address
            }
        };
        let settings = self.daemon.settings();
        console::place(address, &settings.config.http)
    }

    async fn push_key(&self) -> Result<Result<String, String>, LedgerError> {
        let key = self.daemon.push_key().await?;
        Ok(key.map(|key| key.public()))
    }

    fn check_device(&self, device: &PushDevice) -> Result<(), String> {
        self.daemon.check_device(device)
    }

    fn receiver_added(&self, receiver_id: &ReceiverId) {
        self.daemon.receiver_is_new(receiver_id.clone());
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

    fn file_path(&self, file: &Attachment) -> String {
        let file_store = &self.daemon.settings().start.file_store;
        file_store.path_of(&file.digest).display().to_string()
    }

    async fn bring_files(&self, files: Vec<Attachment>) {
        if let Err(failure) = self.daemon.bring_files(&files).await {
            tracing::debug!(reason = %failure.reason, "a file of a message that is shown is not on this node");
        }
    }

    async fn read_file(&self, file: &Attachment) -> Result<Vec<u8>, String> {
        self.read_copy(file).await
    }

    async fn lend(&self, new: NewLoan) -> Result<Lending, LedgerError> {
        // A caller that hangs up does not stop it halfway.
        let service = self.clone();
        let lent = tokio::spawn(async move { service.lend_thread(new).await }).await;
        lent.map_err(|_| LedgerError::Unavailable {
            what: "the daemon is stopping".to_owned(),
        })?
    }

    async fn return_loan(
        &self,
        conversation_id: &ConversationId,
        loan_id: Option<LoanId>,
        by: &str,
    ) -> Result<LoanReturned, LedgerError> {
        self.return_thread(conversation_id, loan_id, by).await
    }

    async fn health(&self) -> HealthView {
        let codex = self.daemon.agent.inner().health().await;
        let stopping = self.daemon.stopping.is_cancelled();
        let drained = self.daemon.drained.load(Ordering::Relaxed);
        let closed = self
            .gauge
            .admit()
            .err()
            .map(|pressure| pressure.to_string());
        HealthView {
            ready: codex.ready && !stopping && !drained && closed.is_none(),
            detail: match (&closed, codex.ready) {
                _ if stopping => "the daemon is stopping".to_owned(),
                _ if drained => {
                    "this node is drained, and leaves when its turns have ended".to_owned()
                }
                (Some(closed), _) => closed.clone(),
                (None, true) => "ready".to_owned(),
                (None, false) => codex.detail.clone(),
            },
            ledger: Some(ledger_view(
                self.gauge.vitals(),
                closed,
                &self.ledger_warnings,
            )),
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
            codex_memory: Some(codex_memory(self.daemon.agent.inner().memory())),
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

fn codex_memory(memory: CodexMemory) -> CodexMemoryView {
    CodexMemoryView {
        resident_bytes: memory.resident,
        budget_bytes: memory.budget,
        threads_loaded: memory.threads_loaded,
        threads_resumed: memory.threads_resumed,
        threads_released: memory.threads_released,
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

fn ledger_view(vitals: Vitals, closed: Option<String>, warnings: &[String]) -> LedgerView {
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
        warnings: warnings.to_vec(),
    }
}

/// More batches than this never wait: a sender that goes on sending meanwhile does not keep this going.
const BATCHES_MAX: u32 = BACKLOG_MAX / STOP_MAX + 1;

impl<L: Ledger> DaemonService<L> {
    /// Stops everything of one sender, batch by batch, on a task of its own: a caller that hangs up stops nothing halfway.
    async fn stop_all_of(&self, stop: StopRequest, by: Actor) -> Result<Stopped, LedgerError> {
        let service = self.clone();
        // What an admin session sent is the owner's, and has the session in its id.
        let owner = StopSender {
            sender: LOCAL_OWNER.to_owned(),
            session: Some(stop.sender.clone()),
            channels: channels::OF_TOKENS.map(ChannelId::new).to_vec(),
            by: by.clone(),
            cause: stop.cause,
            after: None,
        };
        let first = StopSender {
            sender: stop.sender,
            session: None,
            channels: match (stop.channel, stop.cause) {
                (Some(channel), _) => vec![channel],
                (None, StopCause::Revoked) => channels::OF_TOKENS.map(ChannelId::new).to_vec(),
                (None, StopCause::Operator) => Vec::new(),
            },
            by,
            cause: stop.cause,
            after: None,
        };
        let stopped = tokio::spawn(async move {
            let mut stopped = service.stop_batches(first).await?;
            if owner.cause == StopCause::Revoked {
                let more = service.stop_batches(owner).await?;
                stopped.cancelled = stopped.cancelled.saturating_add(more.cancelled);
                stopped.running.extend(more.running);
                stopped.joined.extend(more.joined);
            }
            Ok(stopped)
        });
        let stopped = stopped.await;
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
