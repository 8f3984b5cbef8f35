//! One message's whole life, with the transitions that the daemon makes for a plain answer, and the reads beside them:
//! `schedule`, `work`, `follow` and `lane` of the daemon, without a Codex and a platform to wait for.
//!
//! Ids, texts and times come from counters, so that two runs write the same rows.

use bridge_core::port::{Ledger, LedgerError};
use bridge_core::step::{
    Answered, Attach, Begin, Bind, Claim, ClaimOutcome, Claims, Confirm, ExpireOutcome,
    ExpireRequests, Extras, MidTurn, Note, Receive, Send, SendOutcome, Verdict,
};
use bridge_core::value::{
    BootId, ChannelId, ConversationId, EventKind, ExternalId, IncarnationId, Message, MessageId,
    Sandbox, SenderKind, ThreadId, Tier, Timestamp, TurnId, Usage,
};
use bridge_store::key::KEY_BYTES;
use bridge_store::{KeyAge, LedgerKey, Options, SqliteLedger};
use futures_util::future::{join_all, try_join};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The first time of a ledger, in milliseconds; each step takes one.
pub const EPOCH_MS: i64 = 1_700_000_000_000;

/// Spreads what is counted over the whole of 32 bits: the ids of platforms are random.
pub(crate) const SCATTER: u64 = 2_654_435_761;

/// How long closing a ledger may take.
const CLOSE_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether it is closed.
const CLOSE_LOOK: Duration = Duration::from_millis(2);

/// A ledger through which messages live. Handles share it.
#[derive(Clone, Debug)]
pub struct Lives<L = SqliteLedger> {
    ledger: L,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: AtomicI64,
    serial: AtomicU64,
    transitions: AtomicU64,
}

/// A message that the scheduler took, and whether its conversation has its thread.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub message: Message,
    pub bound: bool,
}

impl Lives {
    /// Over the ledger at `path`, behind which `serial` messages lie: the next one gets that number.
    ///
    /// # Errors
    ///
    /// Where it can't be opened.
    pub fn open(path: &Path, serial: u64) -> anyhow::Result<Self> {
        let key = LedgerKey::from_bytes(&[1; KEY_BYTES], KeyAge::New)?;
        let ledger = SqliteLedger::open(path, &key, Options::default())?;
        Ok(Self::over(ledger, serial))
    }

    /// Closes it and waits until its threads have let go of the file.
    ///
    /// # Errors
    ///
    /// Where somebody of this process still has it open.
    pub async fn close(self, path: &Path) -> std::io::Result<()> {
        drop(self);
        let path = path.canonicalize()?;
        let deadline = tokio::time::Instant::now() + CLOSE_MAX;
        while is_open(&path)? {
            if tokio::time::Instant::now() > deadline {
                return Err(std::io::Error::other("the ledger does not close"));
            }
            tokio::time::sleep(CLOSE_LOOK).await;
        }
        Ok(())
    }

    /// The id of a conversation, by its number.
    #[must_use]
    pub fn conversation(number: u64) -> ConversationId {
        conversation_id(number)
    }
}

impl<L: Ledger> Lives<L> {
    /// Over a ledger behind which `serial` messages lie: the next one gets that number.
    pub fn over(ledger: L, serial: u64) -> Self {
        let shared = Shared {
            clock: AtomicI64::new(time_of(serial)),
            serial: AtomicU64::new(serial),
            transitions: AtomicU64::new(0),
        };
        Self {
            ledger,
            shared: Arc::new(shared),
        }
    }

    #[must_use]
    pub fn ledger(&self) -> &L {
        &self.ledger
    }

    /// Transitions so far.
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.shared.transitions.load(Ordering::Relaxed)
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.shared.clock.fetch_add(1, Ordering::Relaxed))
    }

    async fn commit<T: bridge_core::step::Transition>(
        &self,
        transition: T,
    ) -> Result<T::Outcome, LedgerError> {
        self.shared.transitions.fetch_add(1, Ordering::Relaxed);
        let committed = self.ledger.transact(transition, self.now()).await?;
        Ok(committed.outcome)
    }

    /// The next message arrives in a conversation.
    ///
    /// # Errors
    ///
    /// The ledger's, here and below.
    pub async fn receive(&self, conversation: u64) -> Result<(), LedgerError> {
        let serial = self.shared.serial.fetch_add(1, Ordering::Relaxed);
        let received = Receive {
            message_id: message_id(serial),
            conversation_id: conversation_id(conversation),
            workdir: "/work".to_owned(),
            channel: ChannelId::new("local"),
            external_key: format!("key-{conversation:06}"),
            external_id: ExternalId::new(external_id(serial)),
            kind: SenderKind::Person,
            sender: "somebody".to_owned(),
            tier: Tier::Owner,
            body: "Please look at the failing test and tell me why it fails.".repeat(4),
            mid_turn: MidTurn::Queue,
            verdict: Verdict::Fit,
            extras: Extras::default(),
        };
        self.commit(received).await?;
        Ok(())
    }

    /// One round of the scheduler, as many claims at once as it wants; where one finds nothing, a look at what is due.
    pub async fn claim(&self, times: usize) -> Result<Vec<Claimed>, LedgerError> {
        let claims = (0..times).map(|_| self.claim_one());
        let mut found = Vec::new();
        for claimed in join_all(claims).await {
            found.extend(claimed?);
        }
        if found.len() < times {
            let tend = ExpireRequests {
                now: self.now(),
                reminder_ms: None,
            };
            match self.commit(tend).await? {
                ExpireOutcome::Did(_) | ExpireOutcome::Idle { .. } => {}
            }
        }
        Ok(found)
    }

    async fn claim_one(&self) -> Result<Option<Claimed>, LedgerError> {
        let claim = Claim {
            turns_max: u32::MAX,
            turns_reserved: 0,
            turns_per_channel: u32::MAX,
            per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
            one_writer: Vec::new(),
            readers: Vec::new(),
            budgets: Arc::default(),
            leave_written: false,
            now: self.now(),
        };
        Ok(match self.commit(claim).await? {
            ClaimOutcome::Claimed {
                message,
                conversation,
            } => Some(Claimed {
                message: *message,
                bound: conversation.thread.is_some(),
            }),
            ClaimOutcome::Buried
            | ClaimOutcome::Held
            | ClaimOutcome::Idle { .. }
            | ClaimOutcome::Full { .. } => None,
        })
    }

    /// A claimed message up to its turn.
    pub async fn begin(&self, claimed: &Claimed) -> Result<(), LedgerError> {
        let message = &claimed.message;
        self.look(message).await?;
        let thread = ThreadId::new(message.conversation_id.as_str());
        if !claimed.bound {
            let conversation_id = message.conversation_id.clone();
            let thread = thread.clone();
            self.commit(Bind {
                conversation_id,
                thread,
            })
            .await?;
            self.look_back(message).await?;
        }
        self.commit(Begin {
            message_id: message.message_id.clone(),
            thread,
            incarnation: IncarnationId::new("incarnation"),
            epoch: self.ledger.epoch(),
            boot_id: BootId::new("boot"),
            sandbox: Sandbox::ReadOnly,
        })
        .await?;
        Ok(())
    }

    /// Codex took the turn and thinks.
    pub async fn attach(&self, message: &Message) -> Result<(), LedgerError> {
        self.commit(Attach {
            message_id: message.message_id.clone(),
            turn_id: turn_id(message),
        })
        .await?;
        self.look(message).await?;
        self.commit(Note {
            message_id: message.message_id.clone(),
            kind: EventKind::Started,
            text: "reasoning".to_owned(),
            effect: false,
        })
        .await
    }

    /// Codex answered.
    pub async fn answer(&self, message: &Message) -> Result<(), LedgerError> {
        try_join(self.look(message), self.look(message)).await?;
        self.commit(Answered {
            attachments: Vec::new(),
            message_id: message.message_id.clone(),
            turn_id: turn_id(message),
            text: Some("It fails because the clock of the machine went back.".repeat(8)),
            received: Vec::new(),
            usage: Usage::default(),
            reply_max_chars: None,
        })
        .await
    }

    /// The lane of a conversation until it is empty; gives the number of replies that the platform took.
    pub async fn deliver(&self, message: &Message) -> Result<u64, LedgerError> {
        let mut taken = 0;
        loop {
            let send = Send {
                conversation_id: message.conversation_id.clone(),
            };
            let reply = match self.commit(send).await? {
                SendOutcome::Send { reply, .. } => reply,
                SendOutcome::Empty | SendOutcome::Later(_) => return Ok(taken),
            };
            self.commit(Confirm {
                message_id: reply.message_id,
                ordinal: reply.ordinal,
                receipt: "receipt".to_owned(),
            })
            .await?;
            taken += 1;
            if self.is_lane_empty(message).await? {
                return Ok(taken);
            }
        }
    }

    async fn is_lane_empty(&self, message: &Message) -> Result<bool, LedgerError> {
        let lane = message.conversation_id.clone();
        let next = self.ledger.read(move |rows| rows.next_reply(&lane));
        Ok(next.await?.is_none())
    }

    /// A message and its conversation, as the daemon loads them.
    async fn look(&self, message: &Message) -> Result<(), LedgerError> {
        let message_id = message.message_id.clone();
        let read = self.ledger.read(move |rows| {
            let Some(message) = rows.message(&message_id)? else {
                return Ok(false);
            };
            let conversation = rows.conversation(&message.conversation_id)?;
            Ok(conversation.is_some())
        });
        read.await.map(drop)
    }

    /// Whether a thread must be told of what was before it.
    async fn look_back(&self, message: &Message) -> Result<(), LedgerError> {
        let id = message.conversation_id.clone();
        let read = self.ledger.read(move |rows| {
            let conversation = rows.conversation(&id)?;
            Ok(conversation.is_some_and(|found| found.last_turn.is_none()))
        });
        read.await.map(drop)
    }

    /// `each` messages in each of `width` conversations, all of them at the same step at the same time, one transition
    /// after the other.
    pub async fn side_by_side(&self, width: u64, each: u64) -> Result<u64, LedgerError> {
        let mut taken = 0;
        for _ in 0..each {
            for conversation in 0..width {
                self.receive(conversation).await?;
            }
            let mut claimed = Vec::new();
            let mut claims = Claims::default();
            loop {
                let found = self.claim(claims.now()).await?;
                let all = found.len() == claims.now();
                claims.round(all);
                claimed.extend(found);
                if !all {
                    break;
                }
            }
            for one in &claimed {
                self.begin(one).await?;
            }
            for one in &claimed {
                self.attach(&one.message).await?;
            }
            for one in &claimed {
                self.answer(&one.message).await?;
            }
            for one in &claimed {
                taken += self.deliver(&one.message).await?;
            }
        }
        Ok(taken)
    }
}

/// Whether this process has the file open.
fn is_open(path: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        if std::fs::read_link(entry?.path()).is_ok_and(|open| open == path) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// When the message with this number arrives, in a ledger where all of them lived one after the other.
pub(crate) fn time_of(serial: u64) -> i64 {
    EPOCH_MS.saturating_add_unsigned(serial.saturating_mul(STEPS_PER_LIFE))
}

/// Steps of the clock that a life takes.
pub(crate) const STEPS_PER_LIFE: u64 = 12;

pub(crate) fn message_id(serial: u64) -> MessageId {
    MessageId::new(format!("0199c0de-0000-7000-8000-{serial:012}"))
}

pub(crate) fn conversation_id(conversation: u64) -> ConversationId {
    ConversationId::new(format!("conversation-{conversation:06}"))
}

pub(crate) fn external_id(serial: u64) -> String {
    let scattered = serial.wrapping_mul(SCATTER) & u64::from(u32::MAX);
    format!("{scattered:08x}-{serial:012}")
}

fn turn_id(message: &Message) -> TurnId {
    TurnId::new(format!("turn-{}", message.message_id))
}
