//! The service: what a front needs from the daemon behind it.

use crate::{
    A2aProfile, Caller, ChannelView, Hub, LedgerView, NewAnswer, NewTaskInput, PushPut, ReloadView,
};
use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{
    AddToken, CancelOutcome, Claim, Decide, DecideOutcome, InputAccepted, RedriveOutcome,
    RevokeToken, StopCause, TaskAnswered, TokenAdded, UseToken,
};
use bridge_core::storage::OverBudget;
use bridge_core::value::{
    Actor, ApprovalPolicy, Attachment, ChannelId, MessageId, Sandbox, Subscription,
    SubscriptionState, Task, TaskId, TaskInput, Timestamp,
};
use std::future::Future;
use std::time::Duration;

/// The daemon as a front sees it.
pub trait BridgeService: Clone + Send + Sync + 'static {
    /// Where rows are read.
    type Ledger: Ledger;

    /// The ledger.
    fn ledger(&self) -> &Self::Ledger;

    /// Live news of messages.
    fn hub(&self) -> &Hub;

    /// Takes a text in; when this resolves, it is on disk.
    fn submit(
        &self,
        message: NewMessage,
    ) -> impl Future<Output = Result<Submitted, SubmitError>> + Send;

    /// The ledger's time: the wall clock may have jumped.
    fn now(&self) -> Timestamp;

    /// The question that the scheduler would ask the ledger now; explains why a message waits.
    fn claim(&self) -> Claim;

    /// What the ledger takes on disk, if that is known.
    fn ledger_bytes(&self) -> Option<u64>;

    /// Stops a message.
    fn cancel(
        &self,
        message_id: MessageId,
        by: Actor,
    ) -> impl Future<Output = Result<CancelOutcome, LedgerError>> + Send;

    /// Stops everything of one sender: what has not begun is cancelled, and what runs is interrupted unless its token was
    /// only revoked. Harmless when repeated.
    fn stop_sender(
        &self,
        stop: StopRequest,
        by: Actor,
    ) -> impl Future<Output = Result<Stopped, LedgerError>> + Send;

    /// Sends a dead letter again, or lets a message that waits for a person go on.
    fn redrive(
        &self,
        message_id: MessageId,
        by: &str,
    ) -> impl Future<Output = Result<RedriveOutcome, LedgerError>> + Send;

    /// Gives a dead letter up, or a message that waits for a person; `false` when it is neither.
    fn discard(
        &self,
        message_id: MessageId,
        by: &str,
    ) -> impl Future<Output = Result<bool, LedgerError>> + Send;

    /// Decides a question of Codex. What does not fit the question is refused before anything is written.
    fn decide(
        &self,
        decide: Decide,
    ) -> impl Future<Output = Result<DecideOutcome, LedgerError>> + Send;

    /// Reads the configuration again, for `by`.
    fn reload(&self, by: &str) -> impl Future<Output = ReloadView> + Send;
    /// A new token: random, and known to nobody else. `None` when the system has no randomness to give.
    fn random_token(&self) -> Option<String>;

    /// Makes a token known.
    fn add_token(
        &self,
        token: AddToken,
    ) -> impl Future<Output = Result<TokenAdded, LedgerError>> + Send;

    /// Revokes a token; `false` when there is none of this name.
    fn revoke_token(
        &self,
        token: RevokeToken,
    ) -> impl Future<Output = Result<bool, LedgerError>> + Send;

    /// Notes that a token was used.
    fn use_token(&self, token: UseToken) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// How often each transition was committed since the start.
    fn steps(&self) -> Vec<(&'static str, u64)>;

    /// How many tasks of the daemon panicked since the start.
    fn task_panics(&self) -> u64 {
        0
    }

    /// Starts a task; when this resolves, it is on disk.
    fn start_task(
        &self,
        task: NewTask,
    ) -> impl Future<Output = Result<TaskBegun, StartError>> + Send;

    /// Tells a task more, and waits for Codex's word where a turn runs.
    fn steer_task(
        &self,
        task: &Task,
        text: String,
        by: &str,
    ) -> impl Future<Output = Result<Steering, SubmitError>> + Send;

    /// Tells the running turn of a message more; nothing is stored but the act.
    fn tell(
        &self,
        message_id: MessageId,
        text: String,
        by: &str,
    ) -> impl Future<Output = Result<Steering, LedgerError>> + Send;

    /// Sends the notification of a task that is over, once, also one that was given up before. It is waited for a
    /// while, and goes on when the caller does not.
    fn notify_task(
        &self,
        task_id: &TaskId,
        by: &str,
    ) -> impl Future<Output = Result<Notified, LedgerError>> + Send;

    /// Who we say we are to other agents.
    fn a2a(&self) -> A2aProfile;

    /// Accepts an input of another agent's task; when this resolves, it is on disk.
    fn accept_input(
        &self,
        input: NewTaskInput,
    ) -> impl Future<Output = Result<InputAccepted, SubmitError>> + Send;

    /// Answers a question of Codex with a word of a task's owner, by the right that the owner has now.
    fn answer_task(
        &self,
        answer: NewAnswer,
    ) -> impl Future<Output = Result<TaskAnswered, LedgerError>> + Send;

    /// What a caller said before under this key: a message, or an answer in this task.
    fn repeated_input(
        &self,
        from: &Caller,
        task_id: &TaskId,
        key: &str,
    ) -> impl Future<Output = Result<Option<TaskInput>, LedgerError>> + Send;

    /// Where the talk is kept that a caller calls so: its channel, and its key there.
    fn talk(&self, from: &Caller, context: &str) -> (ChannelId, String);

    /// Reserves numbers for news of a task: the first of them, `None` when there is no such task.
    fn reserve_sequence(
        &self,
        task_id: &TaskId,
        more: u32,
    ) -> impl Future<Output = Result<Option<u64>, LedgerError>> + Send;

    /// Keeps where `by`, the owner of a task, wants to be told of it.
    fn put_push(
        &self,
        push: Subscription,
        by: &str,
    ) -> impl Future<Output = Result<PushPut, LedgerError>> + Send;

    /// Forgets one; `false` when `by` has no such task. One that is not there is fine.
    fn drop_push(
        &self,
        task_id: &TaskId,
        config_id: &str,
        by: &str,
    ) -> impl Future<Output = Result<bool, LedgerError>> + Send;

    /// What is in a file that a row names.
    fn read_file(&self, file: &Attachment) -> impl Future<Output = Result<Vec<u8>, String>> + Send;

    /// How the daemon is.
    fn health(&self) -> impl Future<Output = Health> + Send;
}

/// Whose messages are to be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// The sender's name.
    pub sender: String,
    /// On which channel; on all that the cause concerns when absent.
    pub channel: Option<ChannelId>,
    /// Why.
    pub cause: StopCause,
}

/// What became of the messages of a sender that was stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// So many had not begun and are cancelled.
    pub cancelled: u32,
    /// Those whose turn runs.
    pub running: Vec<MessageId>,
    /// Those whose text the turn of another sender has, which goes on with it.
    pub joined: Vec<MessageId>,
}

/// A text that wants to become a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// The text.
    pub text: String,
    /// The conversation's key; the channel has one for those who name none.
    pub conversation: Option<String>,
    /// The sender's own id for it.
    pub key: String,
    /// Who sends it: what it may do and whose names it may use comes from this alone.
    pub from: Caller,
}

/// A task that a caller wants. What may not be is refused by whoever made it; what it means on this machine is the
/// service's to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// What Codex is to do.
    pub prompt: String,
    /// Where it works; a directory of its own when absent.
    pub cwd: Option<String>,
    /// Which model; that of the tier when absent.
    pub model: Option<String>,
    /// What its commands may touch; what the tier says when absent.
    pub sandbox: Option<Sandbox>,
    /// When Codex asks; what the tier says when absent.
    pub approval_policy: Option<ApprovalPolicy>,
    /// Which CODEX_HOME; the usual one when absent.
    pub codex_home: Option<String>,
    /// Who is told when it is over.
    pub notify_target: Option<String>,
    /// The caller's own id for it.
    pub key: Option<String>,
    /// Who starts it.
    pub starter: String,
    /// Whether they may name any directory, or only what lies under the configured roots.
    pub any_directory: bool,
    /// Whether they count as owner: its commands then read what the owner's read, and not what token holders' read.
    pub by_owner: bool,
}

/// A task that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBegun {
    /// The task.
    pub task: Task,
    /// Whether it was here before.
    pub duplicate: bool,
}

/// Why a task was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// What it asks for can't be.
    #[error("{0}")]
    Invalid(String),
    /// The caller may not have it.
    #[error("{0}")]
    Forbidden(String),
    /// The listener is closed.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

/// What became of a notification that somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// It was tried; the row is in this state.
    Ended(SubscriptionState),
    /// There was nothing to send.
    Nothing,
    /// It is on its way, or too many others are: the row says later what became of it.
    Busy,
}

/// What became of a text for a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steering {
    /// The turn has it.
    Steered,
    /// It waits for the next turn.
    Queued {
        /// Why.
        why: String,
    },
    /// Whether the turn has it is not known: said again, it may be heard twice.
    Unknown {
        /// Why, and what to do.
        why: String,
    },
    /// Nobody has it.
    Refused {
        /// Why, and what to do.
        why: String,
    },
}

/// A text that is a message now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its id.
    pub message_id: MessageId,
    /// Whether it was here before.
    pub duplicate: bool,
}

/// Why a text was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// It can't become a message.
    #[error("{0}")]
    Unfit(String),
    /// The key names another message already.
    #[error(
        "this Idempotency-Key was used for something else before (another text, conversation, setting or target); nothing was stored, use a new key"
    )]
    OtherBody,
    /// Too much waits already.
    #[error("too many messages wait already; nothing was stored, send it again later")]
    Full,
    /// Its sender has stored as much as it may within a day.
    #[error("{detail}")]
    OverBudget {
        /// What happened and what to do.
        detail: String,
        /// When there is room for it; absent if never.
        retry_after: Option<Duration>,
    },
    /// The token that it came with was revoked while it was on its way.
    #[error("the token was revoked while this was on its way; nothing was stored")]
    Revoked,
    /// The disk is nearly full.
    #[error("{0}")]
    NoRoom(String),
    /// The ledger can't keep up.
    #[error("{detail}")]
    Slow {
        /// What happened and what to do.
        detail: String,
        /// When to ask again.
        retry_after: Duration,
    },
    /// The ledger is damaged.
    #[error("{0}")]
    Damaged(String),
    /// The daemon is stopping.
    #[error("the daemon is stopping and takes nothing more in; send it again when it is back")]
    Stopping,
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl SubmitError {
    /// A message that its sender's budget has no room for.
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

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it can answer messages now.
    pub ready: bool,
    /// Why not, or a remark.
    pub detail: String,
    /// The daemon's pid.
    pub pid: u32,
    /// The daemon's version.
    pub version: String,
    /// What is known about Codex, as a line.
    pub codex: String,
    /// How the ledger is, where that can be told.
    pub ledger: Option<LedgerView>,
    /// How the channels are that can be away.
    pub channels: Vec<ChannelView>,
    /// How the last reading of the configuration went, if it was read again.
    pub reload: Option<ReloadView>,
}
