//! The life of a message, one file per transition.
//!
//! A transition loads the few rows it needs, decides as a pure function over them, and says what to write and
//! what to do after the commit. It never acts. An action is a hint that may be lost: [`regenerate`] gives it
//! again from rows after a crash.

mod acknowledge;
mod answer;
mod ask;
mod attach;
mod begin;
mod bind;
mod blind;
mod cancel;
mod claim;
mod claims;
mod confirm;
mod decide;
mod fail;
mod followers;
mod import;
mod incarnate;
mod join;
mod lose;
mod name;
mod note;
mod obey;
mod outbox;
mod page;
mod prune;
mod question;
mod receive;
mod reconcile;
mod record;
mod redrive;
mod refuse;
mod regenerate;
mod resume;
mod seat;
mod send;
mod stop_sender;
mod subscription;
mod suspend;
mod task;
mod task_input;
mod tell;
mod tend;
mod thrift;
mod token;
mod touched;

pub use acknowledge::Acknowledge;
pub use answer::Answered;
pub use ask::{Ask, AskOutcome};
pub use attach::Attach;
pub use begin::{Begin, Begun};
pub use bind::{Bind, Unbind};
pub use blind::Blind;
pub use cancel::{Cancel, CancelOutcome, CancelView};
pub use claim::{Claim, ClaimOutcome, TurnsPerSender};
pub use claims::Claims;
pub use confirm::Confirm;
pub use decide::{Authority, Deaf, Decide, DecideOutcome, DecideRefusal, Resolve, Told, Unheard};
pub use fail::{Fail, Pace};
pub use import::{Adopted, Import, Imported};
pub use incarnate::{Incarnate, IncarnationGone};
pub use join::{Join, Leave};
pub use lose::Lose;
pub use name::Name;
pub use note::Note;
pub use page::ReceivePage;
pub use prune::{Keep, Prune};
pub use receive::{Extras, MidTurn, Receive, Received, Verdict};
pub use reconcile::Reconcile;
pub use record::Record;
pub use redrive::{Discard, Redrive, RedriveOutcome};
pub use refuse::Refuse;
pub use regenerate::regenerate;
pub use resume::Resume;
pub use send::{Send, SendOutcome};
pub use stop_sender::{SenderStopped, StopCause, StopSender};
pub use subscription::{
    DeliveryBegin, DeliveryEnd, DeliveryStep, DropPush, EventDelivery, PushStored, PutPush,
    delivery_is_due,
};
pub use suspend::Suspend;
pub use task::{StartTask, SteerStored, SteerTask, TaskStarted};
pub use task_input::{
    AcceptInput, AnswerTask, InputAccepted, InputTarget, ReserveSequence, TaskAnswered,
};
pub use tell::{Tell, TellOutcome};
pub use tend::{Tend, Tended};
pub use token::{AddToken, RevokeToken, TokenAdded, UseToken};

use crate::port::{Change, Read, Rows, RowsError};
use crate::value::{ConversationId, Message, MessageId, RequestId, StateName, Timestamp};

/// One arrow of the message machine.
pub trait Transition: core::marker::Send + 'static {
    /// The rows it decides over.
    type View;
    /// What the caller learns.
    type Outcome: core::marker::Send + 'static;

    /// Its verb, for errors and traces.
    const NAME: &'static str;

    /// Reads what the decision needs, and nothing else: the cost of a message must not grow with history.
    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError>;

    /// Decides. Pure: same view, same `now`, same decision.
    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<Self::Outcome>, Refused>;

    /// Runs over an open transaction: load, decide, apply. Only what consists of several transitions does it
    /// otherwise: one after the other, each seeing what the ones before it wrote.
    fn run(self, rows: &mut dyn Rows, now: Timestamp) -> Result<Decision<Self::Outcome>, RunError>
    where
        Self: Sized,
    {
        let view = self.load(&*rows)?;
        let decision = self.decide(view, now)?;
        for change in &decision.changes {
            rows.apply(change)?;
        }
        Ok(decision)
    }
}

/// What a transition decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<O> {
    /// Written in one transaction, in this order.
    pub changes: Vec<Change>,
    /// Done after the commit.
    pub actions: Vec<Action>,
    /// What the caller learns.
    pub outcome: O,
}

impl<O> Decision<O> {
    /// A decision that changes nothing.
    pub fn nothing(outcome: O) -> Self {
        Self {
            changes: Vec::new(),
            actions: Vec::new(),
            outcome,
        }
    }
}

/// The closed list of what the bridge may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Look for a message to claim.
    Schedule,
    /// Look again at this time.
    ScheduleAt {
        /// When.
        at: Timestamp,
    },
    /// A claimed message: make its thread ready, begin its turn and follow it.
    Work {
        /// Which.
        message_id: MessageId,
    },
    /// A turn whose end we did not see: look, and decide.
    Reconcile {
        /// Which.
        message_id: MessageId,
    },
    /// A waiting message that the running turn of its conversation may be given.
    Join {
        /// Which.
        message_id: MessageId,
    },
    /// Somebody stopped this message: end its turn.
    Interrupt {
        /// Which.
        message_id: MessageId,
    },
    /// A lane with something to send.
    Deliver {
        /// Which.
        conversation_id: ConversationId,
    },
    /// The source is owed an ack, if nothing of the message is on its way any more.
    Acknowledge {
        /// Which.
        message_id: MessageId,
    },
    /// A question of Codex was decided: tell Codex.
    Answer {
        /// Which.
        request_id: RequestId,
    },
    /// Tell whoever watches this message that its rows changed.
    Announce {
        /// Which.
        message_id: MessageId,
    },
}

/// The rows say no: the message is not where the transition starts. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{transition} message {message_id}: it is {}", found.map_or("unknown", StateName::as_str))]
pub struct Refused {
    /// The transition's verb.
    pub transition: &'static str,
    /// Which message.
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

/// A message that must exist and be in one of `states`.
fn expect<'a>(
    transition: &'static str,
    message_id: &MessageId,
    message: Option<&'a Message>,
    states: &[StateName],
) -> Result<&'a Message, Refused> {
    match message {
        Some(message) if states.contains(&message.life.state.name()) => Ok(message),
        other => Err(Refused::new(transition, message_id, other)),
    }
}
