//! [`BridgeService`]: the daemon as the fronts use it, and what they hand to it.

use crate::{
    Caller, HealthView, Hub, Measured, PolicyInForce, ReloadView, SubmitRequest, TerminalView,
};
use bridge_core::port::{Ledger, LedgerError, Read, RowsError, Steering};
use bridge_core::step::{
    Claim, Decide, DecideOutcome, InputAccepted, StopCause, TaskAnswered, Transition,
};
use bridge_core::storage::OverBudget;
use bridge_core::value::{
    Actor, ApprovalPolicy, Attachment, ChannelId, ConversationId, Loan, LoanId, MessageId,
    PushDevice, ReceiverId, RequestDecision, RequestId, Sandbox, Subscription, SubscriptionState,
    Task, TaskId, TaskInput, Tier, Timestamp, TraceParent,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::future::Future;
use std::time::Duration;

/// The daemon, for its fronts.
pub trait BridgeService: Clone + Send + Sync + 'static {
    type Ledger: Ledger;

    fn ledger(&self) -> &Self::Ledger;

    /// Reads a consistent snapshot of the ledger.
    fn read<V, F>(&self, query: F) -> impl Future<Output = Result<V, LedgerError>> + Send
    where
        V: Send + 'static,
        F: FnOnce(&dyn Read) -> Result<V, RowsError> + Send + 'static,
    {
        self.ledger().read(query)
    }

    /// Live updates of messages.
    fn hub(&self) -> &Hub;

    /// Commits a transition and starts the effects that follow from it. Not cancelled when the caller goes away.
    fn commit<T: Transition>(
        &self,
        transition: T,
    ) -> impl Future<Output = Result<T::Outcome, LedgerError>> + Send;

    /// Stores a message; it is on disk when this resolves. `key` is the sender's idempotency key. The caller decides what it
    /// may do.
    fn submit(
        &self,
        message: SubmitRequest,
        key: &str,
        from: Caller,
    ) -> impl Future<Output = Result<Submitted, SubmitError>> + Send;

    /// The ledger's time, which never goes back.
    fn now(&self) -> Timestamp;

    /// The claim that the scheduler would make now; explains why a message waits.
    fn claim(&self) -> Claim;

    /// Size of the ledger on disk, if known.
    fn ledger_bytes(&self) -> Option<u64>;

    /// Stops all messages of one sender: waiting ones are cancelled, and running ones interrupted unless the cause is only
    /// a revoked token. Idempotent.
    fn stop_sender(
        &self,
        stop: StopRequest,
        by: Actor,
    ) -> impl Future<Output = Result<Stopped, LedgerError>> + Send;

    /// Decides an approval request. An answer that does not fit is refused before anything is written.
    fn decide(
        &self,
        decide: Decide,
    ) -> impl Future<Output = Result<DecideOutcome, LedgerError>> + Send;

    /// The rules in force.
    fn policy(&self) -> PolicyInForce;

    /// The tier of a sender, as its channel derives it; without one that of the channel's usual sender.
    fn tier_of(&self, channel: &str, sender: Option<&str>) -> Result<Tier, String>;

    /// Reloads the configuration for `by`.
    fn reload(&self, by: &str) -> impl Future<Output = ReloadView> + Send;

    /// A new random token; `None` if the system has no randomness.
    fn random_token(&self) -> Option<String>;

    /// Redacts this from now on. Only for what is good for something: each pushes out what was given long before.
    fn redact(&self, secret: &str);

    /// Committed transitions since the start, by name.
    fn steps(&self) -> Vec<(&'static str, u64)>;

    /// What was measured since the start.
    fn measured(&self) -> Measured {
        Measured::default()
    }

    /// Tokio tasks that panicked since the start.
    fn task_panics(&self) -> u64 {
        0
    }

    /// Starts a task; it is on disk when this resolves.
    fn start_task(
        &self,
        task: NewTask,
    ) -> impl Future<Output = Result<TaskBegun, StartError>> + Send;

    /// Gives a task more input, and waits for Codex to accept it if a turn runs.
    fn steer_task(
        &self,
        task: &Task,
        text: String,
        by: &Caller,
    ) -> impl Future<Output = Result<Steering, SubmitError>> + Send;

    /// Gives the running turn of a message more input; only the act is stored.
    fn tell(
        &self,
        message_id: MessageId,
        text: String,
        by: &str,
    ) -> impl Future<Output = Result<Steering, LedgerError>> + Send;

    /// Sends the notification of a finished task once, also one that was given up before. Waits for a while; the send goes
    /// on when the caller disconnects.
    fn notify_task(
        &self,
        task_id: &TaskId,
        by: &str,
    ) -> impl Future<Output = Result<Notified, LedgerError>> + Send;

    /// Our profile for other agents.
    fn a2a(&self) -> A2aProfile;

    /// Accepts an input of another agent's task; when this resolves, it is on disk.
    fn accept_input(
        &self,
        input: NewTaskInput,
    ) -> impl Future<Output = Result<InputAccepted, SubmitError>> + Send;

    /// Answers a question of Codex for the owner of a task, with the rights that the owner has now.
    fn answer_task(
        &self,
        answer: NewAnswer,
    ) -> impl Future<Output = Result<TaskAnswered, LedgerError>> + Send;

    /// The input that a caller sent before under this key: a message, or an answer in this task.
    fn repeated_input(
        &self,
        from: &Caller,
        task_id: &TaskId,
        key: &str,
    ) -> impl Future<Output = Result<Option<TaskInput>, LedgerError>> + Send;

    /// The channel and conversation key of a caller's context.
    fn talk(&self, from: &Caller, context: &str) -> (ChannelId, String);

    /// Stores a push configuration of `by`, the owner of a task.
    fn put_push(
        &self,
        push: Subscription,
        by: &str,
    ) -> impl Future<Output = Result<PushPut, LedgerError>> + Send;

    /// Deletes a push configuration; `false` if `by` has no such task. Idempotent.
    fn drop_push(
        &self,
        task_id: &TaskId,
        config_id: &str,
        by: &str,
    ) -> impl Future<Output = Result<bool, LedgerError>> + Send;

    /// Reads a file that a row names.
    fn read_file(&self, file: &Attachment) -> impl Future<Output = Result<Vec<u8>, String>> + Send;

    /// Where this daemon's copy of a file is, or will be.
    fn file_path(&self, file: &Attachment) -> String;

    /// Brings files here that another node took in, for somebody who opens them by their paths. One that can't be had now
    /// is not there.
    fn bring_files(&self, _files: Vec<Attachment>) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// The channel of the platform that calls us with this secret.
    fn platform(&self, _secret: &str) -> Option<ChannelId> {
        None
    }

    /// Answers a call of the platform of this channel, which may take as long as a turn.
    fn platform_call(
        &self,
        _channel: &str,
        _call: Value,
    ) -> impl Future<Output = PlatformAnswer> + Send {
        async { PlatformAnswer::NotNow("no platform calls this daemon".to_owned()) }
    }

    /// Whether sessions of the console are served.
    fn console_enabled(&self) -> bool {
        crate::CONSOLE_IS_BUILT
    }

    /// Where the console is; listens for it if nothing does. The error says what to do.
    fn open_console(&self) -> impl Future<Output = Result<ConsolePlace, String>> + Send {
        async { Err(crate::NO_CONSOLE.to_owned()) }
    }

    /// The key that browsers subscribe with. The error says why there is none now.
    fn push_key(&self) -> impl Future<Output = Result<Result<String, String>, LedgerError>> + Send {
        async { Ok(Err("no browser can be alerted here".to_owned())) }
    }

    /// Why a browser can't be alerted.
    fn check_device(&self, _device: &PushDevice) -> Result<(), String> {
        Ok(())
    }

    /// A receiver of alerts is on disk.
    fn receiver_added(&self, _receiver_id: &ReceiverId) {}

    /// Lends a conversation to a Codex terminal.
    fn lend(&self, _new: NewLoan) -> impl Future<Output = Result<Lending, LedgerError>> + Send {
        async { Ok(Lending::NoThread) }
    }

    /// Ends a loan, and waits a while until its thread is back.
    fn return_loan(
        &self,
        _conversation_id: &ConversationId,
        _loan_id: Option<LoanId>,
        _by: &str,
    ) -> impl Future<Output = Result<LoanReturned, LedgerError>> + Send {
        async { Ok(LoanReturned::NotLent) }
    }

    /// Health of the daemon.
    fn health(&self) -> impl Future<Output = HealthView> + Send;
}

/// A loan to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLoan {
    pub conversation_id: ConversationId,
    pub loan_id: LoanId,
    pub borrower: String,
    pub until: Timestamp,
    /// Lend it although somebody else wrote in it.
    pub strangers: bool,
}

/// How far a loan is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lending {
    /// The thread is released.
    Ready {
        loan: Loan,
        terminal: TerminalView,
    },
    /// Something in it has to end first.
    Busy {
        loan: Loan,
        message_id: Option<MessageId>,
    },
    /// Somebody else wrote in it; nothing was lent.
    Stranger {
        who: String,
    },
    /// Another loan of it lasts.
    Taken(Loan),
    NoThread,
    /// Codex did not let go of it; nothing was lent.
    Failed {
        why: String,
    },
}

/// Whether a conversation is back from its loan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoanReturned {
    Back,
    /// The thread can't be taken back yet.
    Waits {
        why: String,
    },
    NotLent,
}

/// Where the console is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsolePlace {
    /// On this machine, with a slash at its end.
    pub url: Option<String>,
    /// For others, with a slash at its end.
    pub public_url: Option<String>,
    /// What is not as it should be.
    pub remark: Option<String>,
}

/// Answer to a call of a platform.
#[derive(Clone, Debug, PartialEq)]
pub enum PlatformAnswer {
    /// JSON, as the platform's protocol has it.
    Said(Value),
    /// Nothing can be said yet; the platform should call again.
    NotNow(String),
}

/// The messages to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    pub sender: String,
    /// Channel; all that the cause concerns if absent.
    pub channel: Option<ChannelId>,
    pub cause: StopCause,
}

/// Result of stopping a sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Waiting messages that are cancelled.
    pub cancelled: u32,
    /// Messages whose turn runs.
    pub running: Vec<MessageId>,
    /// Messages that joined the turn of another sender, which goes on.
    pub joined: Vec<MessageId>,
}

/// A task to start. The front has checked its form; the service checks paths and settings of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    pub prompt: String,
    /// Working directory; a new one if absent.
    pub cwd: Option<String>,
    /// Model; that of the tier if absent.
    pub model: Option<String>,
    /// Sandbox; that of the tier if absent.
    pub sandbox: Option<Sandbox>,
    /// When Codex asks for approval; as the tier says if absent.
    pub approval_policy: Option<ApprovalPolicy>,
    /// CODEX_HOME; the default if absent.
    pub codex_home: Option<String>,
    /// Target of the notification at its end.
    pub notify_target: Option<String>,
    /// The caller's idempotency key.
    pub key: Option<String>,
    pub starter: String,
    /// The session of the console that the owner starts it with.
    pub session: Option<String>,
    /// Whether the caller counts as owner: one may name any directory, others only those below the configured roots,
    /// and it decides what its commands may read.
    pub by_owner: bool,
    /// The caller's span.
    pub trace: Option<TraceParent>,
    /// Where the caller's program works: relative paths begin there, and a task of the owner works there if nothing
    /// else is said.
    pub base: Option<String>,
}

/// A started task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBegun {
    pub task: Task,
    /// Whether it existed before.
    pub duplicate: bool,
}

/// Why a task was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The request is not valid.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Forbidden(String),
    /// Nothing can be stored now.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// Result of a requested notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// It was tried; the row is in this state.
    Ended(SubscriptionState),
    /// There was nothing to send.
    Nothing,
    /// It or too many others are being sent; its row has the result later.
    Busy,
}

/// A submitted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub message_id: MessageId,
    /// Whether it existed before.
    pub duplicate: bool,
    /// Whether it is the first of its conversation.
    pub first: bool,
    /// Where its conversation works.
    pub cwd: String,
    /// What its turns may touch.
    pub sandbox: Sandbox,
}

/// Why a message was not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// It is not a valid message.
    #[error("{0}")]
    Unfit(String),
    /// The key belongs to another message.
    #[error(
        "this Idempotency-Key was used for something else before (another text, conversation, setting or target); nothing was stored, use a new key"
    )]
    OtherBody,
    /// Too many messages wait.
    #[error("too many messages wait already; nothing was stored, send it again later")]
    Full,
    /// The sender's daily storage budget is used up.
    #[error("{detail}")]
    OverBudget {
        detail: String,
        /// When there is room; absent if never.
        retry_after: Option<Duration>,
    },
    /// Its token was revoked during the call.
    #[error("the token was revoked while this was on its way; nothing was stored")]
    Revoked,
    #[error("{0}")]
    NoRoom(String),
    #[error("{detail}")]
    Slow {
        detail: String,
        retry_after: Duration,
    },
    #[error("{0}")]
    Damaged(String),
    #[error("the daemon is stopping and takes nothing more in; send it again when it is back")]
    Stopping,
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl SubmitError {
    #[must_use]
    pub fn over_budget(over: OverBudget, now: Timestamp) -> Self {
        let wait = over.until.map(|until| until.since_ms(now).max(0));
        Self::OverBudget {
            detail: format!("{over}; nothing was stored"),
            retry_after: wait
                .and_then(|ms| u64::try_from(ms).ok())
                .map(Duration::from_millis),
        }
    }
}

/// A message of another agent, with its form checked.
#[derive(Clone, Debug)]
pub struct NewTaskInput {
    /// The sender; decides what the message may do.
    pub from: Caller,
    /// Its context; a new one if absent.
    pub context: Option<String>,
    /// The task it continues; a new one if absent.
    pub task_id: Option<TaskId>,
    /// The sender's message id. Not unique.
    pub client_message_id: String,
    /// The sender's idempotency key.
    pub key: Option<String>,
    /// The text for Codex.
    pub text: String,
    pub files: Vec<NewFile>,
    /// Agents that answered each other before it, as claimed by the sender.
    pub hops: u32,
    /// The message in the front's stored form.
    pub original: String,
    /// The same without its parts, for a message that a guard refuses.
    pub brief: String,
}

/// The answer of another agent to a question of Codex in its task.
#[derive(Clone)]
pub struct NewAnswer {
    /// The sender; decides what it may answer.
    pub from: Caller,
    pub task_id: TaskId,
    pub conversation_id: ConversationId,
    pub request_id: RequestId,
    pub decision: RequestDecision,
    /// The answers for Codex, as JSON.
    pub answers: Option<String>,
    /// The sender's message id. Not unique.
    pub client_message_id: String,
    /// The sender's idempotency key.
    pub key: Option<String>,
    /// The message in the front's stored form.
    pub original: String,
}

impl std::fmt::Debug for NewAnswer {
    /// Omits the answers, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewAnswer")
            .field("from", &self.from)
            .field("task_id", &self.task_id)
            .field("request_id", &self.request_id)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

/// A file that came with a message.
#[derive(Clone, PartialEq, Eq)]
pub struct NewFile {
    /// A label, not a path.
    pub name: Option<String>,
    /// As claimed by the sender.
    pub media_type: Option<String>,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile")
            .field("name", &self.name)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// This agent's profile for other agents, from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aProfile {
    pub enabled: bool,
    pub name: String,
    pub description: String,
    /// Public URL, such as `https://bridge.example`; the one that the caller used if absent.
    pub url: Option<String>,
    pub auth: A2aAuth,
    pub skills: Vec<A2aSkill>,
}

impl Default for A2aProfile {
    fn default() -> Self {
        Self {
            enabled: true,
            name: "codex-bridge".to_owned(),
            description: "OpenAI Codex behind codex-bridge: reads, writes and runs code."
                .to_owned(),
            url: None,
            auth: A2aAuth::Tokens,
            skills: vec![A2aSkill {
                id: "codex".to_owned(),
                name: "Work with code".to_owned(),
                description: "Answers questions about code and works on it.".to_owned(),
                tags: vec!["code".to_owned()],
                examples: Vec::new(),
            }],
        }
    }
}

/// How agents say who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum A2aAuth {
    /// By a token of their own, made with `peers add`.
    #[default]
    Tokens,
    /// Not at all: whoever reaches it is the peer `anonymous`. For conformance kits, and only on this machine.
    None,
}

/// A skill on the agent card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aSkill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    /// Example prompts.
    pub examples: Vec<String>,
}

/// Result of storing a push configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushPut {
    /// It is on disk.
    Put,
    /// There is no such task of this owner.
    Unknown,
    /// Not accepted; nothing was stored.
    Refused {
        /// Why, for its owner.
        why: String,
    },
}
