//! One connection to one Codex process: a task owns the link, sends requests with deadlines and routes notifications to
//! the mailboxes of their threads. When the connection ends, every waiter gets an error at once.

use crate::app_server::account::AccountState;
use crate::app_server::transport::{Backlog, Filler, TransportReader, TransportWriter, backlog};
use crate::app_server::wall_now;
use crate::locked;
use crate::thread::registry::ThreadRegistry;
use crate::thread::transcript::Transcripts;
use crate::turn::approvals;
use crate::turn::router::{RequestRefused, TurnRouter};
use crate::turn::unconfirmed::Overdue;
use bridge_codex::link::{CallId, Ignored, Link, LinkError, LinkEvent, LinkOptions, MAX_IN_FLIGHT};
use bridge_codex::rpc::{RawId, RpcError};
use bridge_codex::wire::account::AccountReadParams;
use bridge_codex::wire::method::{AccountRead, ThreadResume};
use bridge_codex::wire::thread::{ThreadResumeParams, ThreadSettings};
use bridge_codex::wire::{Method, Notification, RequestOutcome, ServerRequest};
use bridge_core::deadline::after;
use bridge_core::port::TRACE;
use bridge_core::value::{Incarnation, ThreadId};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};

/// Texts that may wait for the writer: every request in flight, and as many answers.
const OUTGOING_MAX: usize = 4 * MAX_IN_FLIGHT;
/// Texts that may wait between the reader and the link; beyond it Codex's own buffers fill, which loses nothing.
const INCOMING_MAX: usize = 256;
/// And the bytes that may wait there.
const INCOMING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The connection ended before an answer came.
    #[error("the connection to codex ended: {why}")]
    Closed { why: String },
    /// No answer within the method's deadline.
    #[error("codex did not answer {method} in time")]
    Silent { method: &'static str },
    /// Codex said no.
    #[error("codex refused {method}: {} ({})", error.message, error.code)]
    Refused {
        method: &'static str,
        error: RpcError,
    },
    /// The answer is not what this version of the protocol promises.
    #[error(
        "codex answered {method} in a form this bridge does not know ({why}); run `codex-bridge doctor`"
    )]
    Unreadable { method: &'static str, why: String },
}

/// Where the answer to a call goes.
type Reply = oneshot::Sender<Result<Value, CallError>>;

type RequestBuilder = Box<dyn FnOnce(&mut Link, u64) -> Result<(CallId, String), LinkError> + Send>;

enum LinkCommand {
    Call {
        method: &'static str,
        register: RequestBuilder,
        reply: Reply,
    },
    Notify {
        method: &'static str,
    },
    Respond {
        id: RawId,
        outcome: RequestOutcome,
    },
    Close {
        why: String,
    },
}

/// A handle on the connection; cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection {
    commands: mpsc::Sender<LinkCommand>,
    permits: Arc<Semaphore>,
    pub(crate) router: Arc<TurnRouter>,
    pub(crate) threads: Arc<ThreadRegistry>,
    warnings: Arc<Mutex<Vec<String>>>,
    closed: watch::Receiver<Option<String>>,
    /// Set while a probe is under way, so that many silent requests cause one probe.
    probing: Arc<AtomicBool>,
}

/// State that outlives a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    pub(crate) account: Arc<AccountState>,
    pub(crate) transcripts: Arc<Transcripts>,
}

impl Learned {
    /// Of a Codex whose reports wake `quota_changed`.
    pub(crate) fn new(quota_changed: &Arc<Notify>) -> Self {
        Self {
            account: Arc::new(AccountState::new(Arc::clone(quota_changed))),
            transcripts: Arc::default(),
        }
    }
}

/// Config warnings that are kept for `doctor` and error messages.
const WARNINGS_MAX: usize = 16;

impl Connection {
    /// Starts the tasks of a connection.
    pub(crate) fn start(
        reader: TransportReader,
        writer: TransportWriter,
        life: Incarnation,
        learned: Learned,
    ) -> Self {
        let (commands, inbox) = mpsc::channel(OUTGOING_MAX);
        let (closing, closed) = watch::channel(None);
        let router = Arc::new(TurnRouter::new(Arc::clone(&learned.account)));
        let threads = Arc::new(ThreadRegistry::default());
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let (texts, incoming) = backlog(INCOMING_MAX, INCOMING_BYTES_MAX);
        let (outgoing, outbox) = mpsc::channel(OUTGOING_MAX);
        tokio::spawn(read(reader, texts));
        tokio::spawn(write(writer, outbox));
        let actor = LinkTask {
            link: Link::new(LinkOptions::default()),
            waiters: HashMap::new(),
            outgoing,
            router: Arc::clone(&router),
            threads: Arc::clone(&threads),
            warnings: Arc::clone(&warnings),
            life,
            learned,
            origin: Instant::now(),
            declined: 0,
            resumes: HashMap::new(),
        };
        tokio::spawn(actor.run(inbox, incoming, closing));
        Self {
            commands,
            permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            router,
            threads,
            warnings,
            closed,
            probing: Arc::default(),
        }
    }

    /// Sends a request and waits for its answer, its deadline or the end of the connection.
    pub(crate) async fn call<M: Method + 'static>(
        &self,
        params: M::Params,
    ) -> Result<M::Response, CallError>
    where
        M::Params: Send + 'static,
    {
        let _permit = self.permits.acquire().await;
        let (reply, answer) = oneshot::channel();
        let register: RequestBuilder = Box::new(move |link, now| link.request::<M>(&params, now));
        let closed = || CallError::Closed {
            why: self.why_closed(),
        };
        self.commands
            .send(LinkCommand::Call {
                method: M::NAME,
                register,
                reply,
            })
            .await
            .map_err(|_gone| closed())?;
        let value = answer.await.unwrap_or_else(|_gone| Err(closed()));
        let value = value.inspect_err(|error| {
            if let CallError::Silent { .. } = error {
                self.probe();
            }
        })?;
        serde_json::from_value(value).map_err(|error| CallError::Unreadable {
            method: M::NAME,
            why: error.to_string(),
        })
    }

    /// Asks for a sign of life. Any answer is one, also a refusal.
    pub(crate) async fn sign_of_life(&self) -> Result<(), CallError> {
        let params = AccountReadParams {
            refresh_token: false,
        };
        match self.call::<AccountRead>(params).await {
            Ok(_) | Err(CallError::Refused { .. } | CallError::Unreadable { .. }) => Ok(()),
            Err(error @ (CallError::Closed { .. } | CallError::Silent { .. })) => Err(error),
        }
    }

    /// Sends one more request after a silent one. Codex drops single requests now and then, but a process that answers
    /// nothing any more is given up.
    fn probe(&self) {
        if self.probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let connection = self.clone();
        tokio::spawn(async move {
            if let Err(CallError::Silent { .. }) = connection.sign_of_life().await {
                connection.close("codex does not answer any more").await;
            }
            connection.probing.store(false, Ordering::Relaxed);
        });
    }

    /// Ends the connection; every waiter gets the reason.
    pub(crate) async fn close(&self, why: &str) {
        let why = why.to_owned();
        // It may have ended by itself.
        let _gone = self.commands.send(LinkCommand::Close { why }).await;
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &'static str) {
        // Those who wait on the connection notice its end.
        let _gone = self.commands.send(LinkCommand::Notify { method }).await;
    }

    /// Answers something Codex asked.
    pub(crate) async fn respond(
        &self,
        id: RawId,
        outcome: RequestOutcome,
    ) -> Result<(), CallError> {
        self.commands
            .send(LinkCommand::Respond { id, outcome })
            .await
            .map_err(|_gone| CallError::Closed {
                why: self.why_closed(),
            })
    }

    /// Whether the connection is still there.
    pub(crate) fn is_open(&self) -> bool {
        self.closed.borrow().is_none()
    }

    /// Waits for the end of the connection.
    pub(crate) async fn closed(&self) -> String {
        let mut closed = self.closed.clone();
        // The sender writes a reason before it goes.
        let _gone = closed.wait_for(Option::is_some).await;
        self.why_closed()
    }

    fn why_closed(&self) -> String {
        self.closed
            .borrow()
            .clone()
            .unwrap_or_else(|| "it is closing".to_owned())
    }

    /// Codex's warnings about its configuration.
    pub(crate) fn config_warnings(&self) -> Vec<String> {
        locked(&self.warnings).clone()
    }
}

async fn read(mut reader: TransportReader, texts: Filler<Result<String, String>>) {
    loop {
        let text = match reader.next().await {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err("codex closed it".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let (bytes, last) = text.as_ref().map_or((0, true), |text| (text.len(), false));
        if !texts.put(text, bytes).await || last {
            return;
        }
    }
}

async fn write(mut writer: TransportWriter, mut outbox: mpsc::Receiver<String>) {
    while let Some(text) = outbox.recv().await {
        if let Err(error) = writer.send(text).await {
            tracing::debug!(%error, "writing to codex failed");
            return;
        }
        tracing::debug!(target: TRACE, at = "written");
    }
}

struct LinkTask {
    link: Link,
    /// Callers that wait for an answer, with the method they called.
    waiters: HashMap<CallId, (&'static str, Reply)>,
    outgoing: mpsc::Sender<String>,
    router: Arc<TurnRouter>,
    threads: Arc<ThreadRegistry>,
    warnings: Arc<Mutex<Vec<String>>>,
    life: Incarnation,
    learned: Learned,
    origin: Instant,
    /// Requests that were declined because nobody could decide them.
    declined: u64,
    /// Requests to resume a thread for the sake of an answer that Codex does not confirm; each is gone at its deadline.
    resumes: HashMap<CallId, RawId>,
}

/// Closes the connection if its task panics; otherwise it would count as open, and everybody would wait.
struct CloseOnDrop {
    closing: watch::Sender<Option<String>>,
    router: Arc<TurnRouter>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if self.closing.borrow().is_none() {
            let why = "its task panicked";
            self.closing.send_replace(Some(why.to_owned()));
            self.router.lose_all(why);
        }
    }
}

impl LinkTask {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<LinkCommand>,
        mut incoming: Backlog<Result<String, String>>,
        closing: watch::Sender<Option<String>>,
    ) {
        let end = CloseOnDrop {
            closing,
            router: Arc::clone(&self.router),
        };
        let why = loop {
            let deadline = self.next_deadline();
            let step = tokio::select! {
                command = inbox.recv() => match command {
                    Some(command) => self.command(command),
                    None => Err("it is no longer needed".to_owned()),
                },
                text = incoming.next() => match text {
                    Some(Ok(text)) => self.text(&text),
                    Some(Err(why)) => Err(why),
                    None => Err("its reader ended".to_owned()),
                },
                () = tokio::time::sleep_until(deadline.into()) => self.expire(),
            };
            if let Err(why) = step {
                break why;
            }
        };
        inbox.close();
        // The reason is published before the waiters fail, so that `is_open` is false for a caller that retries at once.
        end.closing.send_replace(Some(why.clone()));
        for call in self.link.fail_all() {
            let why = why.clone();
            self.settle(call, |_| Err(CallError::Closed { why }));
        }
        self.router.lose_all(&why);
        tracing::debug!(why, counters = ?self.link.counters(), "the connection to codex ended");
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn next_deadline(&self) -> Instant {
        let far = u64::from(u32::MAX);
        let at = self
            .link
            .next_deadline()
            .unwrap_or_else(|| self.now_ms().saturating_add(far));
        let at = after(self.origin, std::time::Duration::from_millis(at));
        self.router.next_expiry().map_or(at, |late| late.min(at))
    }

    fn expire(&mut self) -> Result<(), String> {
        for call in self.link.expire(self.now_ms()) {
            self.resumes.remove(&call);
            self.settle(call, |method| Err(CallError::Silent { method }));
        }
        for request in self.router.expire(Instant::now()) {
            self.decline(request, "nobody followed its turn in time")?;
        }
        for overdue in self.router.overdue(Instant::now()) {
            self.overdue(overdue)?;
        }
        Ok(())
    }

    /// Codex does not confirm an answer.
    fn overdue(&mut self, overdue: Overdue) -> Result<(), String> {
        match overdue {
            Overdue::Repeat { id, outcome } => self.put(self.link.respond(&id, outcome)),
            Overdue::Resume { id, thread } => self.resume(id, thread),
            Overdue::Settled(request) => {
                tracing::info!(request = %request.id, method = %request.method, "codex has not asked an answered request again: it has the answer");
                self.router.confirm(&request);
                Ok(())
            }
            Overdue::GiveUp { why } => Err(why),
        }
    }

    /// Asks for the thread once more, which makes Codex repeat what it still asks. It is loaded, so its settings stay
    /// as they are.
    fn resume(&mut self, id: RawId, thread_id: ThreadId) -> Result<(), String> {
        let params = ThreadResumeParams {
            thread_id,
            settings: ThreadSettings::default(),
            exclude_turns: true,
            initial_turns_page: None,
        };
        match self.link.request::<ThreadResume>(&params, self.now_ms()) {
            Ok((call, text)) => {
                self.resumes.insert(call, id);
                self.put(text)
            }
            // As many requests as may be are under way; the next try comes.
            Err(error) => {
                tracing::warn!(%error, request = %id, "a thread could not be resumed for an answer that is not confirmed");
                Ok(())
            }
        }
    }

    /// A refusal is an answer too: Codex lives, and one answer that it does not confirm must not cost everybody's turns.
    fn resume_answered(&self, id: &RawId, refused: Option<&RpcError>) {
        match refused {
            None => self.router.resumed(id),
            Some(error) => {
                tracing::warn!(request = %id, error = %error.message, "codex refused to resume a thread, so it does not say whether it has the answer to this request: the answer is given once more, and then counts as taken");
                self.router.not_resumed(id);
            }
        }
    }

    fn settle(
        &mut self,
        call: CallId,
        result: impl FnOnce(&'static str) -> Result<Value, CallError>,
    ) {
        if let Some((method, waiter)) = self.waiters.remove(&call) {
            // A waiter that gave up needs no answer.
            let _gone = waiter.send(result(method));
        }
    }

    fn put(&self, text: String) -> Result<(), String> {
        self.outgoing
            .try_send(text)
            .map_err(|_full| "codex does not read any more".to_owned())
    }

    fn command(&mut self, command: LinkCommand) -> Result<(), String> {
        match command {
            LinkCommand::Call {
                method,
                register,
                reply,
            } => {
                let now_ms = self.now_ms();
                match register(&mut self.link, now_ms) {
                    Ok((call, text)) => {
                        self.waiters.insert(call, (method, reply));
                        self.put(text)
                    }
                    Err(error) => {
                        let why = error.to_string();
                        let _gone = reply.send(Err(CallError::Closed { why }));
                        Ok(())
                    }
                }
            }
            LinkCommand::Notify { method } => self.put(self.link.notify(method)),
            LinkCommand::Respond { id, outcome } => self.put(self.link.respond(&id, outcome)),
            LinkCommand::Close { why } => Err(why),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        match self.link.handle(text, self.now_ms()) {
            LinkEvent::Response { call, result, .. } => {
                if let Some(id) = self.resumes.remove(&call) {
                    self.resume_answered(&id, result.as_ref().err());
                }
                self.settle(call, |method| {
                    result.map_err(|error| CallError::Refused { method, error })
                });
                Ok(())
            }
            LinkEvent::Notification(notification) => {
                // Before its own event: the end of a turn is the last one.
                self.router.raw_line(&notification, text);
                self.notice(&notification);
                Ok(())
            }
            LinkEvent::Request(request) => self.request(request),
            LinkEvent::Ignored(Ignored::UnknownNotification { method }) => {
                tracing::trace!(method, "notification ignored");
                Ok(())
            }
            LinkEvent::Ignored(ignored) => {
                tracing::warn!(?ignored, "a text of codex was dropped");
                Ok(())
            }
        }
    }

    fn notice(&self, notification: &Notification) {
        if let Notification::Malformed { method, why, .. } = notification {
            tracing::error!(
                method,
                why,
                "codex sent a known notification in an unknown form"
            );
        }
        if let Notification::ConfigWarning(warning) = notification {
            tracing::warn!(summary = %warning.summary, "codex warns about its configuration");
            let mut warnings = locked(&self.warnings);
            if warnings.len() < WARNINGS_MAX {
                warnings.push(warning.summary.clone());
            }
        }
        if let Notification::Warning(warning) = notification
            && warning.is_transcript_lost()
        {
            let thread = warning.thread_id.as_ref();
            self.learned
                .transcripts
                .lost(&self.life, thread, &warning.message);
            tracing::error!(message = %warning.message, "codex can't save what it does");
        }
        if let Notification::TurnCompleted(done) = notification {
            tracing::debug!(target: TRACE, at = "completed", turn_id = %done.turn.id);
        }
        self.learned.account.notice(notification, wall_now());
        self.threads.notice(notification);
        self.router.deliver(notification);
    }

    /// Routes a request of Codex to the follower of its turn; a request that nobody can decide is declined at once.
    fn request(&mut self, request: ServerRequest) -> Result<(), String> {
        if let Ok(time) = request.tell_time(wall_now().0 / 1000) {
            return self.put(self.link.respond(&request.id, time));
        }
        match self.router.ask(request, Instant::now()) {
            Ok(()) => Ok(()),
            Err(RequestRefused::Answered(outcome, id)) => {
                tracing::warn!(request = %id, "codex asks again what was answered, and is answered the same again");
                self.put(self.link.respond(&id, outcome))
            }
            Err(RequestRefused::Undecidable(request)) => {
                self.decline(*request, "nobody can decide that")
            }
        }
    }

    fn decline(&mut self, request: ServerRequest, why: &str) -> Result<(), String> {
        self.declined = self.declined.saturating_add(1);
        let declined = self.declined;
        tracing::warn!(method = %request.method, why, declined, "a question of codex was declined");
        let text = self.link.respond(&request.id, request.decline());
        if approvals::is_decidable(&request) && request.thread_id().is_some() {
            let no = request.decline();
            self.router.answered(request, no, Instant::now());
        }
        self.put(text)
    }
}
