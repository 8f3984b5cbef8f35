//! A message and where it is in its life.
//!
//! The state carries what only that state needs, so an impossible combination does not compile. Who moves a
//! message from which state to which is in [`crate::step`], one file per arrow.

use super::{
    Attachment, ChannelId, ConversationId, ExternalId, Failure, MessageId, Round, Seq, Tier,
    Timestamp, TurnId,
};

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
    /// The text.
    pub body: String,
    /// The files that came with it.
    pub attachments: Vec<Attachment>,
    /// When it was said, by the platform's own clock where it tells; only compared with others of its sender.
    pub said_at: Timestamp,
    /// How many agents answered each other before it, as far as they say so.
    pub hops: u32,
    /// Its round among the waiting messages of all senders: the scheduler serves lower rounds first.
    pub round: Round,
    /// When we took custody.
    pub received_at: Timestamp,
    /// The only part that changes.
    pub life: Life,
}

/// Ends the sender's own id in a platform's id, where that one holds more.
const THEIR_ID_END: char = '#';
/// Longest id of a sender that is quoted.
const THEIR_ID_MAX_CHARS: usize = 128;

impl Message {
    /// The sender's own id for it, where the channel keeps one and it can be quoted as it is. It never tells two
    /// messages apart.
    #[must_use]
    pub fn their_id(&self) -> Option<&str> {
        let (id, _) = self.external_id.as_str().split_once(THEIR_ID_END)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
        let quotable = !id.is_empty() && id.len() <= THEIR_ID_MAX_CHARS && id.chars().all(fits);
        quotable.then_some(id)
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

/// Whether a person or an agent waits for the answer; people go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SenderKind {
    /// A human being at a terminal or a chat.
    Person,
    /// Another program.
    Agent,
}

impl SenderKind {
    /// The stored word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Agent => "agent",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Person, Self::Agent]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }
}

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
    Running {
        /// Codex's turn.
        turn_id: TurnId,
    },
    /// A turn was begun and its end was not seen. Reconcile is the only exit.
    Unclear {
        /// Set while what became of the turn can't be looked at; it takes no turn's place then.
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
        /// What happened.
        reason: String,
    },
    /// The answer and its replies are on disk. Codex is never called again for this message.
    Answered,
    /// A reply has been handed to the platform at least once.
    Sending,
    /// Finished.
    Done,
    /// Given up with a reason; a person can see it and send it again.
    Dead {
        /// Why.
        reason: String,
    },
    /// Stopped by a person before it had an answer.
    Cancelled {
        /// Who and why.
        reason: String,
    },
}

/// A state without its data: for guards, counts and storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    /// See [`MessageState::Received`].
    Received,
    /// See [`MessageState::Claimed`].
    Claimed,
    /// See [`MessageState::Starting`].
    Starting,
    /// See [`MessageState::Running`].
    Running,
    /// See [`MessageState::Unclear`].
    Unclear,
    /// See [`MessageState::Steered`].
    Steered,
    /// See [`MessageState::Parked`].
    Parked,
    /// See [`MessageState::Answered`].
    Answered,
    /// See [`MessageState::Sending`].
    Sending,
    /// See [`MessageState::Done`].
    Done,
    /// See [`MessageState::Dead`].
    Dead,
    /// See [`MessageState::Cancelled`].
    Cancelled,
}

impl StateName {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 12] = [
        Self::Received,
        Self::Claimed,
        Self::Starting,
        Self::Running,
        Self::Unclear,
        Self::Steered,
        Self::Parked,
        Self::Answered,
        Self::Sending,
        Self::Done,
        Self::Dead,
        Self::Cancelled,
    ];

    /// The word that is stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Claimed => "claimed",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Unclear => "unclear",
            Self::Steered => "steered",
            Self::Parked => "parked",
            Self::Answered => "answered",
            Self::Sending => "sending",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the stored word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether a turn may be alive at Codex, so that the conversation's next message must wait.
    #[must_use]
    pub fn in_flight(self) -> bool {
        match self {
            Self::Claimed | Self::Starting | Self::Running | Self::Unclear => true,
            Self::Received
            | Self::Steered
            | Self::Parked
            | Self::Answered
            | Self::Sending
            | Self::Done
            | Self::Dead
            | Self::Cancelled => false,
        }
    }

    /// Whether its answer is still to come, so that later messages of its conversation wait.
    #[must_use]
    pub fn awaits_answer(self) -> bool {
        matches!(self, Self::Received | Self::Steered | Self::Parked) || self.in_flight()
    }

    /// Whether nothing moves it any more without a person.
    #[must_use]
    pub fn finished(self) -> bool {
        match self {
            Self::Done | Self::Dead | Self::Cancelled => true,
            Self::Received
            | Self::Claimed
            | Self::Starting
            | Self::Running
            | Self::Unclear
            | Self::Steered
            | Self::Parked
            | Self::Answered
            | Self::Sending => false,
        }
    }
}

impl MessageState {
    /// Whether it takes the place of a turn: a lost one that can't be looked at does not.
    #[must_use]
    pub fn takes_place(&self) -> bool {
        match self {
            Self::Unclear { hold } => hold.is_none(),
            Self::Claimed | Self::Starting | Self::Running { .. } => true,
            Self::Received { .. }
            | Self::Steered { .. }
            | Self::Parked { .. }
            | Self::Answered
            | Self::Sending
            | Self::Done
            | Self::Dead { .. }
            | Self::Cancelled { .. } => false,
        }
    }

    /// The message whose running turn was given this one's text.
    #[must_use]
    pub fn leader(&self) -> Option<&MessageId> {
        match self {
            Self::Steered { leader } => Some(leader),
            Self::Received { .. }
            | Self::Claimed
            | Self::Starting
            | Self::Running { .. }
            | Self::Unclear { .. }
            | Self::Parked { .. }
            | Self::Answered
            | Self::Sending
            | Self::Done
            | Self::Dead { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    /// Why it must not be claimed, or can't be looked at, yet.
    #[must_use]
    pub fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Received { hold } | Self::Unclear { hold } => hold.as_ref(),
            Self::Claimed
            | Self::Starting
            | Self::Running { .. }
            | Self::Steered { .. }
            | Self::Parked { .. }
            | Self::Answered
            | Self::Sending
            | Self::Done
            | Self::Dead { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    /// The state without its data.
    #[must_use]
    pub fn name(&self) -> StateName {
        match self {
            Self::Received { .. } => StateName::Received,
            Self::Claimed => StateName::Claimed,
            Self::Starting => StateName::Starting,
            Self::Running { .. } => StateName::Running,
            Self::Unclear { .. } => StateName::Unclear,
            Self::Steered { .. } => StateName::Steered,
            Self::Parked { .. } => StateName::Parked,
            Self::Answered => StateName::Answered,
            Self::Sending => StateName::Sending,
            Self::Done => StateName::Done,
            Self::Dead { .. } => StateName::Dead,
            Self::Cancelled { .. } => StateName::Cancelled,
        }
    }
}
