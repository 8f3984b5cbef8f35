//! Intake: a row of a source becomes a message, once, or a dead letter at once when it can't be one.
//!
//! What is not a message at all (own echoes, other methods) is filtered by the channel before this.

mod command;
mod conversation;
mod import;
mod import_tasks;
mod loop_guard;

pub use self::import::{Adopted, Import, Imported};
pub use self::import_tasks::{ImportTasks, OldEvent, OldTask};
pub use self::loop_guard::LoopLimits;

use self::command::Subject;
use self::conversation::Candidates;
use self::loop_guard::{Guarded, Wait, loop_guard};
use super::{Action, RunError, Transition, Tx, reply};
use crate::channels::{session_of, token_of};
use crate::limits::{self, PAGE_ROWS_MAX};
use crate::port::{AgentMessage, Change, Read, RowsError, StoredBytes};
use crate::storage::{self, OverBudget, StorageBudget};
use crate::value::{
    Answer, AnswerSource, Attachment, ChannelId, Class, Command, ConversationId, ExternalId,
    Failure, Hold, Life, Message, MessageId, MessageState, ReplyKind, Sandbox, SenderKind, Seq,
    StateName, Tier, Timestamp, TraceParent,
};
use core::cmp::Reverse;

/// Takes custody of one inbound text.
#[derive(Clone, Debug)]
pub struct Receive {
    /// Id for the message if it is new.
    pub message_id: MessageId,
    /// Id for the conversation if it is new.
    pub conversation_id: ConversationId,
    /// Where the conversation works if it is new.
    pub workdir: String,
    pub channel: ChannelId,
    /// The platform's name for the conversation.
    pub external_key: String,
    /// The platform's id for the message.
    pub external_id: ExternalId,
    /// Who waits for the answer.
    pub kind: SenderKind,
    pub sender: String,
    /// What they may do.
    pub tier: Tier,
    pub body: String,
    /// What happens to it if a turn of its conversation runs.
    pub mid_turn: MidTurn,
    /// Whether the channel found it fit.
    pub verdict: Verdict,
    /// What only some channels know of.
    pub extras: Extras,
}

/// What comes with a message on channels that have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The platform's name for the present talk; another one begins another conversation.
    pub context: Option<String>,
    /// The directory of the conversation if it is new, where the sender names one.
    pub cwd: Option<String>,
    /// The model of the conversation if it is new.
    pub model: Option<String>,
    /// The sandbox of the conversation if it is new.
    pub sandbox: Option<Sandbox>,
    /// Files, stored already.
    pub attachments: Vec<Attachment>,
    /// When it was said, by the platform's own clock.
    pub said_at: Option<Timestamp>,
    /// How many agents answered each other before it.
    pub hops: u32,
    /// The text is meant for the bridge.
    pub command: Option<Command>,
    /// The caller's span that it hangs under.
    pub trace: Option<TraceParent>,
    /// What its sender may store.
    pub storage: StorageBudget,
    /// When its sender is taken for a loop.
    pub loop_limits: LoopLimits,
    /// Agents of this channel hold many talks at once, so that a loop of two is counted within one, and all together
    /// against a larger budget.
    pub by_talk: bool,
    /// The id under which an earlier version stored the same message: one that is known by it is not taken in again.
    pub former_id: Option<ExternalId>,
}

/// What happens to a message that arrives while a turn of its conversation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum MidTurn {
    /// It waits for its own turn.
    Queue,
    /// The running turn is given its text, and one answer answers both.
    Steer,
}

/// What the channel thinks of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is a message.
    Fit,
    /// It can never be one (malformed, too large, forbidden): it becomes a dead letter.
    Unfit {
        /// Why, as a sentence.
        reason: String,
        /// Whether its sender gets a notice.
        tell: bool,
    },
}

/// Result of [`Receive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is a new message, on disk.
    New(MessageId),
    /// It was here before; this is its message.
    Duplicate(MessageId),
    /// Too much waits already: the source keeps it and shows it again.
    Full,
    /// Its sender has stored as much as it may; nothing was stored.
    OverBudget(OverBudget),
    /// The token that it was sent with was revoked while it was on its way; nothing was stored.
    Revoked,
    /// It names terms for a new conversation, and another message began that one meanwhile on others; nothing was
    /// stored.
    OtherTerms,
}

impl Transition for Receive {
    type Outcome = Received;
    const NAME: &'static str = "receive";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Received, RunError> {
        if let Some(known) = self.known(&**tx)? {
            return Ok(Received::Duplicate(known.message_id));
        }
        let candidates = Candidates::load(&**tx, &self)?;
        if candidates.has_other_terms(&self) {
            return Ok(Received::OtherTerms);
        }
        let present = candidates.conversation_id().cloned();
        let (said_at, wait, stopped) = match self.guard(tx, present.as_ref(), now)? {
            Admitted::Yes { counts_at } => (counts_at, None, None),
            Admitted::Later(wait) => (wait.until, Some(wait), None),
            Admitted::AsDeadLetter(unfit) => (now, None, Some(unfit)),
            Admitted::No(turned_away) => return Ok(turned_away),
        };
        let last_seq = match &present {
            Some(id) => tx.last_seq(id)?,
            None => None,
        };
        let joins = match &present {
            Some(id) => self.joins(&**tx, id)?,
            None => false,
        };
        // Read before the message is a row: a command is not about itself.
        let subject = match (&present, &self.extras.command) {
            (Some(id), Some(command)) => Subject::load(&**tx, id, command)?,
            _ => Subject::default(),
        };
        let served = tx.round()?;
        let last_round = tx.last_round(&self.channel, &self.sender)?;
        let conversation_id = candidates.resolve(tx, &self, now)?;
        self.count(tx, stopped.is_some(), now)?;
        // What a guard refuses is not kept: many such messages would fill the disk.
        let (body, attachments) = match &stopped {
            Some(_) => (limits::excerpt(&self.body), Vec::new()),
            None => (self.body, self.extras.attachments),
        };
        let unfit = stopped.or_else(|| Unfit::of(self.verdict));
        let message = Message {
            message_id: self.message_id,
            conversation_id,
            seq: Seq(last_seq.map_or(1, |seq| seq.0.saturating_add(1))),
            channel: self.channel,
            external_id: self.external_id,
            kind: self.kind,
            sender: self.sender,
            tier: self.tier,
            body,
            attachments,
            said_at,
            hops: self.extras.hops,
            round: last_round.map_or(served, |last| last.next().max(served)),
            received_at: now,
            trace: self.extras.trace,
            life: Life::new(now),
        };
        tx.change(Change::NewMessage(message.clone()))?;
        // An empty message over the rate is not answered each time: two agents could go on with that for ever.
        let silent = wait
            .as_ref()
            .filter(|wait| !wait.tell && says_nothing(&message));
        let silent = silent.map(|wait| self::stopped(wait.failure.reason.clone(), false));
        let unfit = unfit.or(silent);
        let command = self.extras.command;
        match (unfit, command.filter(|command| subject.concerns(command))) {
            (Some(unfit), _) => unfit.bury(tx, &message, now)?,
            (None, Some(command)) => {
                command::run(tx, &message, &self.external_key, command, subject, now)?;
            }
            (None, None) if says_nothing(&message) => answer_nothing(tx, &message, now)?,
            (None, None) => match wait {
                Some(wait) => wait.write(tx, &message, now)?,
                None => {
                    tx.act(Action::Schedule);
                    if joins {
                        tx.act(Action::Join {
                            message_id: message.message_id.clone(),
                        });
                    }
                }
            },
        }
        Ok(Received::New(message.message_id))
    }
}

/// Whether a text is taken in.
enum Admitted {
    Yes {
        /// When its sender is held to have said it.
        counts_at: Timestamp,
    },
    /// It is a message, and waits for room.
    Later(Wait),
    /// It is kept, but gets no turn.
    AsDeadLetter(Unfit),
    /// Nothing of it is stored.
    No(Received),
}

impl Receive {
    /// The conversation that the text belongs to, if that exists.
    pub(super) fn present(&self, rows: &dyn Read) -> Result<Option<ConversationId>, RowsError> {
        let candidates = Candidates::load(rows, self)?;
        Ok(candidates.conversation_id().cloned())
    }

    /// The message of this text if it is here already, under its id or its former one.
    fn known(&self, rows: &dyn Read) -> Result<Option<Message>, RowsError> {
        let known = rows.message_by_external(&self.channel, &self.external_id)?;
        match (known, &self.extras.former_id) {
            (None, Some(former)) => rows.message_by_external(&self.channel, former),
            (known, _) => Ok(known),
        }
    }

    /// Whether the running turn of a conversation may be given this text.
    pub(super) fn joins(&self, rows: &dyn Read, id: &ConversationId) -> Result<bool, RowsError> {
        if !self.may_join() {
            return Ok(false);
        }
        let leader = rows.in_flight_of(id)?;
        Ok(leader.is_some_and(|leader| leader.life.state.name() == StateName::Running))
    }

    /// Whether a running turn may be given this text: files and commands can't be.
    fn may_join(&self) -> bool {
        self.mid_turn == MidTurn::Steer
            && self.extras.attachments.is_empty()
            && self.extras.command.is_none()
            && self.verdict == Verdict::Fit
    }

    /// What it takes on disk, whole or as what is kept of a refused one. Files count either way: they are stored before
    /// anything is decided.
    fn bytes(&self, refused: bool) -> u64 {
        let length = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
        let texts = if refused {
            length(&limits::excerpt(&self.body))
        } else {
            length(&self.body).saturating_add(self.extras.storage.beside)
        };
        let files = self.extras.attachments.iter();
        let files = files.fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
        texts
            .saturating_add(files)
            .saturating_add(limits::MESSAGE_ROW_BYTES)
    }

    /// Looks whether anything stops it at the door.
    fn guard(
        &self,
        tx: &Tx<'_>,
        present: Option<&ConversationId>,
        now: Timestamp,
    ) -> Result<Admitted, RowsError> {
        // Its caller was looked at when the call began, and files take a while. All that waited of this sender may be
        // cancelled since, so that nothing more of it may come in.
        let session = || session_of(&self.channel, &self.sender, &self.external_id);
        if let Some(name) = token_of(&self.channel, &self.sender).or_else(session)
            && tx.token(name)?.is_some_and(|token| !token.is_live(now))
        {
            return Ok(Admitted::No(Received::Revoked));
        }
        if tx.backlog()? >= limits::BACKLOG_MAX {
            return Ok(Admitted::No(Received::Full));
        }
        let past = self.past(&**tx, present)?;
        let admitted = match loop_guard(self, &past, now) {
            Guarded::Passes(counts_at) => Admitted::Yes { counts_at },
            Guarded::Waits(wait) => Admitted::Later(wait),
            Guarded::Stopped(unfit) => Admitted::AsDeadLetter(unfit),
        };
        let storage = &self.extras.storage;
        if storage.bytes_per_day.is_none() {
            return Ok(admitted);
        }
        let refused = matches!(admitted, Admitted::AsDeadLetter(_));
        let stored = tx.stored(&self.channel, &self.sender)?;
        Ok(match storage.over(&stored, self.bytes(refused), now) {
            Some(over) if storage.refusable => Admitted::No(Received::OverBudget(over)),
            Some(over) if !refused => {
                Admitted::AsDeadLetter(stopped(over.to_string(), !past.newest_stopped()))
            }
            Some(_) | None => admitted,
        })
    }

    /// Counts it against what its sender may store.
    fn count(&self, tx: &mut Tx<'_>, refused: bool, now: Timestamp) -> Result<(), RowsError> {
        if self.extras.storage.bytes_per_day.is_none() {
            return Ok(());
        }
        tx.change(Change::Stored(StoredBytes {
            channel: self.channel.clone(),
            sender: self.sender.clone(),
            hour: storage::hour_of(now),
            bytes: self.bytes(refused),
        }))
    }

    /// What is counted against the sender's budgets.
    fn past(&self, rows: &dyn Read, present: Option<&ConversationId>) -> Result<Past, RowsError> {
        let looked_at = self.extras.loop_limits.looked_at();
        let (channel, sender) = (&self.channel, &self.sender);
        match (self.kind, self.extras.by_talk) {
            (SenderKind::Person, _) => Ok(Past::default()),
            (SenderKind::Agent, false) => Ok(Past {
                messages: rows.agent_messages(channel, sender, looked_at)?,
                ..Past::default()
            }),
            (SenderKind::Agent, true) => {
                let mut messages = match present {
                    Some(id) => rows.agent_messages_in(id, sender, looked_at)?,
                    None => Vec::new(),
                };
                messages.sort_by_key(|message| Reverse(message.said_at));
                let nth = self.extras.loop_limits.per_day_in_all;
                Ok(Past {
                    messages,
                    talks: rows.said_nth_newest(channel, sender, nth)?,
                    newest: rows.agent_messages(channel, sender, 1)?.pop(),
                })
            }
        }
    }
}

/// Earlier messages of an agent.
#[derive(Debug, Default)]
struct Past {
    /// Newest first; in this talk only, where talks are counted one by one.
    messages: Vec<AgentMessage>,
    /// When it said the message that would use up the budget of all its talks.
    talks: Option<Timestamp>,
    /// The newest in all its talks, where they are counted one by one.
    newest: Option<AgentMessage>,
}

impl Past {
    fn all(&self) -> impl Iterator<Item = &AgentMessage> {
        self.newest.iter().chain(&self.messages)
    }

    /// Whether the newest message was stopped already, with a notice.
    fn newest_stopped(&self) -> bool {
        let newest = self.newest.as_ref().or(self.messages.first());
        newest.is_some_and(|newest| newest.stopped)
    }

    /// Whether one of them waits or waited since then, so that the agent knows.
    fn waited_since(&self, since: Timestamp) -> bool {
        self.all().any(|one| one.waited && one.said_at > since)
    }
}

impl Wait {
    /// Lets the message wait, and notifies its sender, once.
    fn write(self, tx: &mut Tx<'_>, message: &Message, now: Timestamp) -> Result<(), RowsError> {
        if self.tell {
            reply::notify_held(tx, message, &self.failure, now)?;
            tx.deliver(&message.conversation_id);
        }
        let hold = Some(Hold {
            until: self.until,
            failure: self.failure,
        });
        tx.set_life(
            message,
            message.life.moved(MessageState::Received { hold }, now),
        )?;
        tx.act(Action::ScheduleAt { at: self.until });
        Ok(())
    }
}

/// Whether there is nothing to work on.
fn says_nothing(message: &Message) -> bool {
    message.body.trim().is_empty() && message.attachments.is_empty()
}

/// What a message without text and files is answered.
pub const NOTHING_TO_DO: &str = "(empty prompt — nothing to do)";

/// Answers it without a turn.
fn answer_nothing(tx: &mut Tx<'_>, message: &Message, now: Timestamp) -> Result<(), RowsError> {
    tx.set_life(message, message.life.moved(MessageState::Answered, now))?;
    let (kind, text) = (ReplyKind::Answer, NOTHING_TO_DO);
    reply::queue(tx, message, kind, text, Vec::new(), None, now)?;
    tx.change(Change::NewAnswer(Answer {
        message_id: message.message_id.clone(),
        attempt: message.life.attempt,
        source: AnswerSource::Live,
        text: text.to_owned(),
        created_at: now,
    }))?;
    tx.deliver(&message.conversation_id);
    tx.announce(&message.message_id);
    Ok(())
}

/// Why a row does not become a turn.
struct Unfit {
    class: Class,
    reason: String,
    tell: bool,
}

impl Unfit {
    fn of(verdict: Verdict) -> Option<Self> {
        match verdict {
            Verdict::Fit => None,
            Verdict::Unfit { reason, tell } => Some(Self {
                class: Class::Permanent,
                reason,
                tell,
            }),
        }
    }

    fn bury(self, tx: &mut Tx<'_>, message: &Message, now: Timestamp) -> Result<(), RowsError> {
        let life = Life {
            failure: Some(Failure::new(self.class, &self.reason)),
            ..message.life.clone()
        };
        if self.tell {
            return reply::bury(tx, message, &life, self.reason, now);
        }
        let dead = MessageState::Dead {
            reason: self.reason,
        };
        tx.set_life(message, life.moved(dead, now))
    }
}

/// Not for good: an operator may send it again.
fn stopped(reason: String, tell: bool) -> Unfit {
    Unfit {
        class: Class::Capacity { until: None },
        reason,
        tell,
    }
}

/// Takes in one page of a source: all of its rows and how far the source was read, in one transaction. So the cursor is
/// never ahead of what is on disk, and never behind it either.
#[derive(Clone, Debug)]
pub struct ReceivePage {
    pub channel: ChannelId,
    /// Its messages, in the order they are to be answered.
    pub rows: Vec<Receive>,
    /// How far it was read with them; absent when it stays where it is.
    pub position: Option<String>,
}

impl Transition for ReceivePage {
    /// One for each row, as far as there was room.
    type Outcome = Vec<Received>;
    const NAME: &'static str = "receive_page";

    fn apply(mut self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Received>, RunError> {
        let mut outcome = Vec::new();
        if self.rows.len() > PAGE_ROWS_MAX {
            self.rows.truncate(PAGE_ROWS_MAX);
            self.position = None;
        }
        for row in self.rows {
            let received = row.apply(tx, now)?;
            let full = received == Received::Full;
            outcome.push(received);
            if full {
                // The rest must be shown again, so the source stays where it was.
                self.position = None;
                break;
            }
        }
        if let Some(position) = self.position {
            tx.change(Change::Cursor {
                channel: self.channel,
                position,
                at: now,
            })?;
        }
        Ok(outcome)
    }
}
