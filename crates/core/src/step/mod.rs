//! The life of a message: its transitions, by phase.
//!
//! A transition reads the few rows it needs, decides, writes and says what to do after the commit, in one pass over a
//! [`Tx`]. It never acts. An action is a hint that may be lost: [`regenerate`] gives it again from rows after a crash.

mod alert;
mod approval;
mod file;
mod fleet;
mod intake;
mod loan;
mod operator;
mod quota;
mod receiver;
mod regenerate;
mod reply;
mod schedule;
mod subscription;
mod task;
mod task_input;
mod turn;
mod tx;

pub use alert::{AlertBegin, AlertDelivery, AlertEnd, AlertStep, AlertWay, NoticeAlerts};
pub use approval::{
    AnswerDelivered, AnswerUndelivered, Ask, AskOutcome, Authority, Decide, DecideOutcome,
    DecideRefusal, ExpireOutcome, ExpireRequests, Resolve, UndeliveredReason,
};
pub use file::{DropFiles, FileStored, StoreFile};
pub use fleet::{
    Introduce, MoveConversation, MoveOutcome, Release, Released, SetNodeState, StoreSegments,
    TakeOver, TakenOver,
};
pub use intake::{
    Adopted, Extras, Import, ImportTasks, Imported, LoopLimits, MidTurn, NOTHING_TO_DO, OldEvent,
    OldTask, Receive, ReceivePage, Received, Verdict,
};
pub use loan::{EndLoan, KeepLoan, Lend, LendOutcome, LentTurn, LoanOpened, ReturnLoan};
pub use operator::{
    AddLogin, AddToken, Cancel, CancelOutcome, Discard, Incarnate, IncarnationGone, Keep,
    LoginAdded, OpenSession, Prune, PruneThreads, REDRIVE_REASON, Record, Redrive, RedriveOutcome,
    RevokeToken, SenderStopped, StopCause, StopSender, ThreadDeleted, TokenAdded, UseToken,
    login_of,
};
pub use quota::{FreeHeld, NoteQuota, QuotaNoted};
pub use receiver::{AddDevice, DeviceAdded, DropDevice, KeepPushKey, SetAlertTargets};
pub use regenerate::regenerate;
pub use reply::{Confirm, Send, SendFailed, SendOutcome};
pub use schedule::{Claim, ClaimOutcome, Claims, TurnsPerSender};
pub use subscription::{
    DropPush, EventDelivery, NotifyBegin, NotifyEnd, NotifyStep, PushStored, PutPush,
    delivery_is_due,
};
pub use task::{StartTask, SteerStored, SteerTask, TaskStarted};
pub use task_input::{
    AcceptInput, AnswerTask, InputAccepted, InputTarget, ReserveSequence, TaskAnswered,
};
pub use turn::{
    Answered, Attach, Begin, Begun, Bind, DeferReconcile, Fail, Join, JoinUnknown, Leave, Lose,
    Name, Note, Pace, Reconcile, Resume, Suspend, Tell, TellOutcome, Unbind,
};
pub use tx::Tx;

use crate::port::{Change, Rows, RowsError};
use crate::value::{ConversationId, Message, MessageId, RequestId, StateName, Timestamp};

/// One arrow of the message machine. It is pure, so a copy of it can be run again when a transaction is lost.
pub trait Transition: Clone + core::marker::Send + 'static {
    /// What the caller learns.
    type Outcome: core::marker::Send + 'static;

    /// Its verb, for errors and traces.
    const NAME: &'static str;

    /// Reads, decides and writes in one pass. It reads what the decision needs and nothing else: the cost of a message
    /// must not grow with history. What can be refused is refused before the first change, because undoing a change
    /// costs its whole batch.
    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Self::Outcome, RunError>;

    /// Runs over an open transaction.
    fn run(self, rows: &mut dyn Rows, now: Timestamp) -> Result<Applied<Self::Outcome>, RunError>
    where
        Self: Sized,
    {
        let mut tx = Tx::new(rows);
        let outcome = self.apply(&mut tx, now)?;
        Ok(tx.finish(outcome))
    }
}

/// What a transition did: its changes in their order, what is left to do, and what the caller learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied<O> {
    /// Written in one transaction, in this order.
    pub changes: Vec<Change>,
    /// Done after the commit.
    pub actions: Vec<Action>,
    pub outcome: O,
}

/// The closed list of what the bridge may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Look for a message to claim.
    Schedule,
    /// Look again at this time.
    ScheduleAt { at: Timestamp },
    /// A claimed message: make its thread ready, begin its turn and follow it.
    Work { message_id: MessageId },
    /// A turn whose end we did not see: look, and decide.
    Reconcile { message_id: MessageId },
    /// A waiting message that the running turn of its conversation may be given.
    Join { message_id: MessageId },
    /// Somebody stopped this message: end its turn.
    Interrupt { message_id: MessageId },
    /// A lane with something to send.
    Deliver { conversation_id: ConversationId },
    /// An approval request of Codex was decided: tell Codex.
    Answer { request_id: RequestId },
    /// Notify watchers of this message that its rows changed.
    Announce { message_id: MessageId },
}

/// The rows say no: the message is not where the transition starts. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{transition} message {message_id}: it is {}", found.map_or("unknown", StateName::as_str))]
pub struct Refused {
    /// The transition's verb.
    pub transition: &'static str,
    pub message_id: MessageId,
    /// Where it is; absent when there is no such message.
    pub found: Option<StateName>,
}

impl Refused {
    fn new(transition: &'static str, message_id: &MessageId, message: Option<&Message>) -> Self {
        Self {
            transition,
            message_id: message_id.clone(),
            found: message.map(|message| message.life.state.name()),
        }
    }
}

/// Why a transition inside an open transaction did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// See [`Refused`].
    #[error(transparent)]
    Refused(#[from] Refused),
    /// See [`RowsError`].
    #[error(transparent)]
    Rows(#[from] RowsError),
}
