//! A message and where it is in its life.
//!
//! The state carries what only that state needs, so an impossible combination does not compile. Who moves a
//! message from which state to which is in [`crate::step`].

use super::{
    Attachment, ChannelId, ConversationId, ExternalId, Failure, MessageId, Round, Seq, Tier,
    Timestamp, TraceParent, TurnId,
};
use crate::channels;

/// One inbound message: what was said, by whom, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Ours.
    pub message_id: MessageId,
    /// The conversation it belongs to.
    pub conversation_id: ConversationId,
    /// Its place in that conversation.
    pub seq: Seq,
    /// The channel it came from.
    pub channel: ChannelId,
    /// The platform's id; unique on the channel.
    pub external_id: ExternalId,
    /// Whether a person or an agent waits for the answer.
    pub kind: SenderKind,
    /// Who sent it, by the channel's authenticated field.
    pub sender: String,
    /// What the sender may do.
    pub tier: Tier,
    pub body: String,
    /// The files that came with it.
    pub attachments: Vec<Attachment>,
    /// When it was said, by the platform's own clock where it tells, or when it goes on if the loop guard let it wait;
    /// only compared with others of its sender.
    pub said_at: Timestamp,
    /// How many agents answered each other before it, as far as they say so.
    pub hops: u32,
    /// Its round among the waiting messages of all senders: the scheduler serves lower rounds first.
    pub round: Round,
    /// When we took custody.
    pub received_at: Timestamp,
    /// The caller's span that it hangs under, where the caller gave one.
    pub trace: Option<TraceParent>,
    /// The only part that changes.
    pub life: Life,
}

/// Ends the sender's own id in a platform's id, where that one holds more.
const SENDER_ID_END: char = '#';
/// Longest id of a sender that is quoted.
const SENDER_ID_MAX_CHARS: usize = 128;

impl Message {
    /// The sender's own id for it, where the channel keeps one and it can be quoted as it is. It never tells two
    /// messages apart.
    #[must_use]
    pub fn sender_message_id(&self) -> Option<&str> {
        let (id, _) = self.external_id.as_str().split_once(SENDER_ID_END)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        let quotable = !id.is_empty() && id.len() <= SENDER_ID_MAX_CHARS && id.chars().all(fits);
        quotable.then_some(id)
    }
}

impl Message {
    /// Begins the channel's id of a task's message that was taken over; those that come in begin otherwise.
    pub(crate) const IMPORTED: &'static str = "import:";

    /// Whether it was taken over from the older tool.
    #[must_use]
    pub fn is_imported(&self) -> bool {
        self.channel.as_str() == channels::TASK
            && self.external_id.as_str().starts_with(Self::IMPORTED)
    }

    /// Begins our id of what was said at a Codex terminal; the rest is Codex's id of the turn.
    pub(crate) const TERMINAL_TURN: &'static str = "terminal:";

    /// Whether it was taken over from the older tool, where it failed.
    #[must_use]
    pub fn failed_elsewhere(&self) -> bool {
        self.is_imported() && self.life.failure.is_some()
    }
}

/// The part of a message that transitions rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Where it is.
    pub state: MessageState,
    /// Ordinal of the newest attempt; only ever grows, it is part of the client id.
    pub attempt: u32,
    /// Attempts that count against the budget.
    pub spent: u32,
    /// Continue-turns already used.
    pub continues: u32,
    /// Codex died under an earlier attempt of it. The first such death costs nothing, because others may have
    /// caused it; from then on it is tried with no other suspect beside it, and deaths count.
    pub suspect: bool,
    /// What the next turn will be given.
    pub input: NextInput,
    /// Somebody wants it stopped: who and why. It ends as cancelled unless its answer comes first.
    pub stop: Option<String>,
    /// The newest failure, for `why` and for dead letters.
    pub failure: Option<Failure>,
    /// When the state last changed.
    pub updated_at: Timestamp,
}

impl Life {
    /// The life of a message that was just received.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            state: MessageState::Received { hold: None },
            attempt: 0,
            spent: 0,
            continues: 0,
            suspect: false,
            input: NextInput::Message,
            stop: None,
            failure: None,
            updated_at: now,
        }
    }

    /// The same life in another state.
    #[must_use]
    pub fn moved(&self, state: MessageState, now: Timestamp) -> Self {
        Self {
            state,
            updated_at: now,
            ..self.clone()
        }
    }
}

/// What the next turn of a message is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextInput {
    /// The message itself.
    Message,
    /// A text of the bridge: the last turn was cut after it may have touched the world; check, then finish.
    Continue,
}

words!(NextInput {
    Message => "message",
    Continue => "continue",
});

/// Whether a person or an agent waits for the answer; people go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SenderKind {
    /// A human being at a terminal or a chat.
    Person,
    /// Another program.
    Agent,
}

words!(SenderKind {
    Person => "person",
    Agent => "agent",
});

/// Why a received message is not claimed yet, and when it will be looked at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Not before this.
    pub until: Timestamp,
    /// What it waits for.
    pub failure: Failure,
}

/// Where a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// On disk, waiting for its turn. The scheduler moves it on.
    Received {
        /// Set while it must not be claimed.
        hold: Option<Hold>,
    },
    /// Chosen; the host makes a thread ready. Nothing has been said to Codex.
    Claimed,
    /// The turn's intent is on disk; `turn/start` may or may not have been written.
    Starting,
    /// Codex works on it.
    Running { turn_id: TurnId },
    /// A turn was begun and its end was not seen. Reconcile is the only exit.
    Unclear {
        /// Set while the history of the turn can't be read; it takes no turn's place then.
        hold: Option<Hold>,
    },
    /// Its text was given to the running turn of an earlier message; the answer to that one answers it too.
    Steered {
        /// The message whose turn it is.
        leader: MessageId,
    },
    /// Its work was cut after it may have changed something, and a person must say how it goes on.
    Parked {
        /// Nobody's word until then means that it is given up.
        until: Timestamp,
        reason: String,
    },
    /// The answer and its replies are on disk. Codex is never called again for this message.
    Answered,
    /// A reply has been handed to the platform at least once.
    Sending,
    /// Finished.
    Done,
    /// Given up with a reason; a person can see it and send it again.
    Dead { reason: String },
    /// Stopped by a person before it had an answer.
    Cancelled {
        /// Who and why.
        reason: String,
    },
}

state_names!(
    /// A state without its data: for guards, counts and storage.
    StateName of MessageState {
        Received => "received",
        Claimed => "claimed",
        Starting => "starting",
        Running => "running",
        Unclear => "unclear",
        Steered => "steered",
        Parked => "parked",
        Answered => "answered",
        Sending => "sending",
        Done => "done",
        Dead => "dead",
        Cancelled => "cancelled",
    }
);

impl StateName {
    /// Whether a turn may be alive at Codex, so that the conversation's next message must wait.
    #[must_use]
    pub fn in_flight(self) -> bool {
        matches!(
            self,
            Self::Claimed | Self::Starting | Self::Running | Self::Unclear
        )
    }

    /// Whether its answer is still to come, so that later messages of its conversation wait.
    #[must_use]
    pub fn awaits_answer(self) -> bool {
        matches!(self, Self::Received | Self::Steered | Self::Parked) || self.in_flight()
    }

    /// Whether nothing moves it any more without a person.
    #[must_use]
    pub fn finished(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }

    /// Whether it has no answer and nothing moves it without a person.
    #[must_use]
    pub fn stands_still(self) -> bool {
        matches!(self, Self::Parked | Self::Dead | Self::Cancelled)
    }
}

impl MessageState {
    /// Whether it takes the place of a turn: a lost one that can't be looked at does not.
    #[must_use]
    pub fn takes_place(&self) -> bool {
        match self {
            Self::Unclear { hold } => hold.is_none(),
            state => state.name().in_flight(),
        }
    }

    /// The message whose running turn was given this one's text.
    #[must_use]
    pub fn leader(&self) -> Option<&MessageId> {
        match self {
            Self::Steered { leader } => Some(leader),
            _ => None,
        }
    }

    /// Why it must not be claimed, or can't be looked at, yet.
    #[must_use]
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Received { hold } | Self::Unclear { hold } => hold.as_ref(),
            _ => None,
        }
    }
}
