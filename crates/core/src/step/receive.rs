//! Receive: a row of a source becomes a message (T1), once (T1d), or a dead letter at once when it can't be one (T1x).
//!
//! What is not a message at all (own echoes, other methods) is filtered by the channel before this.

use super::obey::{Pending, obey};
use super::outbox::Outbox;
use super::seat::Seat;
use super::{Action, Decision, Refused, Transition};
use crate::channels::token_of;
use crate::limits::{self, PairBudget};
use crate::port::{Change, Heard, Read, RowsError, StoredBytes};
use crate::storage::{self, OverBudget, StorageBudget, StoredHour};
use crate::value::{
    Ack, AckMode, AckState, Attachment, ChannelId, Class, Command, ConversationId, ExternalId,
    Failure, Life, Message, MessageId, MessageState, Round, SenderKind, Seq, StateName, Tier,
    Timestamp,
};

/// Takes custody of one inbound text.
#[derive(Clone, Debug)]
pub struct Receive {
    /// Id for the message if it is new.
    pub message_id: MessageId,
    /// Id for the conversation if it is new.
    pub conversation_id: ConversationId,
    /// Where the conversation works if it is new.
    pub workdir: String,
    /// The channel.
    pub channel: ChannelId,
    /// The platform's name for the conversation.
    pub external_key: String,
    /// The platform's id for the message.
    pub external_id: ExternalId,
    /// Who waits for the answer.
    pub kind: SenderKind,
    /// Who sent it.
    pub sender: String,
    /// What they may do.
    pub tier: Tier,
    /// The text.
    pub body: String,
    /// What is owed to the source.
    pub ack: AckMode,
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
    /// Files, stored already.
    pub attachments: Vec<Attachment>,
    /// When it was said, by the platform's own clock.
    pub said_at: Option<Timestamp>,
    /// How many agents answered each other before it.
    pub hops: u32,
    /// The text is meant for the bridge.
    pub command: Option<Command>,
    /// What its sender may store.
    pub storage: StorageBudget,
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
        /// Whether its sender is told.
        tell: bool,
    },
}

/// What became of an inbound text.
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
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    known: Option<(Message, Option<Ack>)>,
    revoked: bool,
    seat: Seat,
    last_seq: Option<Seq>,
    backlog: u32,
    round: Round,
    last_round: Option<Round>,
    running: bool,
    /// What was heard of this agent before.
    past: Past,
    /// What its sender stored within a day; not looked up where that is not counted.
    stored: Vec<StoredHour>,
    /// What a command of the chat is about.
    pending: Pending,
}

impl Transition for Receive {
    type View = View;
    type Outcome = Received;
    const NAME: &'static str = "receive";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let known = match self.known(rows)? {
            Some(message) => {
                let ack = rows.ack(&message.message_id)?;
                Some((message, ack))
            }
            None => None,
        };
        let context = self.extras.context.as_deref();
        let seat = Seat::load(rows, &self.channel, &self.external_key, context)?;
        let seated = seat.conversation_id().cloned();
        let (mut last_seq, mut running, mut pending) = (None, false, Pending::default());
        if let Some(conversation_id) = seat.conversation_id() {
            last_seq = rows.last_seq(conversation_id)?;
            if self.may_join() {
                running = rows
                    .in_flight_of(conversation_id)?
                    .is_some_and(|message| message.life.state.name() == StateName::Running);
            }
            if let Some(command) = &self.extras.command {
                pending = Pending::load(rows, conversation_id, command)?;
            }
        }
        let token = match token_of(&self.channel, &self.sender) {
            Some(name) => rows.token(name)?,
            None => None,
        };
        Ok(View {
            known,
            revoked: token.is_some_and(|token| !token.is_live()),
            seat,
            last_seq,
            backlog: rows.backlog()?,
            round: rows.round()?,
            last_round: rows.last_round(&self.channel, &self.sender)?,
            running,
            past: self.past(rows, seated.as_ref())?,
            stored: match self.extras.storage.bytes_per_day {
                Some(_) => rows.stored(&self.channel, &self.sender)?,
                None => Vec::new(),
            },
            pending,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<Received>, Refused> {
        if let Some((known, ack)) = view.known {
            return Ok(shown_again(known, ack));
        }
        let stopped = match self.guard(&view, now) {
            Ok(stopped) => stopped,
            Err(turned_away) => return Ok(Decision::nothing(turned_away)),
        };
        let mut changes = Vec::with_capacity(3);
        let seated = view.seat.take(&self, now, &mut changes);
        changes.extend(self.counted(stopped.is_some(), now));
        let ack = Ack {
            mode: self.ack,
            state: match self.ack {
                AckMode::None => AckState::NotNeeded,
                AckMode::OnCustody | AckMode::AfterReply => AckState::Due,
            },
        };
        // What a guard refuses is not kept: many such messages would fill the disk.
        let (body, attachments) = match &stopped {
            Some(_) => (limits::excerpt(&self.body), Vec::new()),
            None => (self.body, self.extras.attachments),
        };
        let verdict = match (stopped, self.verdict) {
            (Some(stopped), _) => Some(stopped),
            (None, Verdict::Fit) => None,
            (None, Verdict::Unfit { reason, tell }) => Some(Unfit {
                class: Class::Permanent,
                reason,
                tell,
            }),
        };
        let message_id = self.message_id.clone();
        let round = view
            .last_round
            .map_or(view.round, |last| last.next().max(view.round));
        let message = Message {
            message_id: self.message_id,
            conversation_id: seated.conversation_id.clone(),
            seq: Seq(view.last_seq.map_or(1, |seq| seq.0.saturating_add(1))),
            channel: self.channel,
            external_id: self.external_id,
            kind: self.kind,
            sender: self.sender,
            tier: self.tier,
            body,
            attachments,
            said_at: self.extras.said_at.unwrap_or(now),
            hops: self.extras.hops,
            round,
            received_at: now,
            life: Life::new(now),
        };
        changes.push(Change::NewMessage {
            message: message.clone(),
            ack,
        });
        let command = self
            .extras
            .command
            .filter(|told| view.pending.concerns(told));
        let mut actions = match (verdict, command) {
            (Some(unfit), _) => bury(&message, unfit, now, &mut changes),
            (None, Some(command)) => {
                obey(&message, &seated, command, view.pending, now, &mut changes)?
            }
            (None, None) => {
                if view.running {
                    vec![
                        Action::Schedule,
                        Action::Join {
                            message_id: message_id.clone(),
                        },
                    ]
                } else {
                    vec![Action::Schedule]
                }
            }
        };
        if self.ack == AckMode::OnCustody {
            actions.push(Action::Acknowledge {
                message_id: message_id.clone(),
            });
        }
        Ok(Decision {
            changes,
            actions,
            outcome: Received::New(message_id),
        })
    }
}

impl Receive {
    /// The message of this text if it is here already, under its id or its former one.
    fn known(&self, rows: &dyn Read) -> Result<Option<Message>, RowsError> {
        let known = rows.message_by_external(&self.channel, &self.external_id)?;
        match (known, &self.extras.former_id) {
            (None, Some(former)) => rows.message_by_external(&self.channel, former),
            (known, _) => Ok(known),
        }
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

    /// What stops it at the door, if anything does; an error where nothing of it is stored.
    fn guard(&self, view: &View, now: Timestamp) -> Result<Option<Unfit>, Received> {
        // Its caller was looked at when the call began, and files take a while. All that waited of this sender may be
        // cancelled since, so that nothing more of it may come in.
        if view.revoked {
            return Err(Received::Revoked);
        }
        if view.backlog >= limits::BACKLOG_MAX {
            return Err(Received::Full);
        }
        let View { past, stored, .. } = view;
        let said_at = self.extras.said_at.unwrap_or(now);
        let looped = loop_guard(self, past, said_at);
        let bytes = self.bytes(looped.is_some());
        match self.extras.storage.over(stored, bytes, now) {
            Some(over) if self.extras.storage.refusable => Err(Received::OverBudget(over)),
            Some(over) => {
                let told = past.heard.first().is_some_and(|newest| newest.stopped);
                Ok(looped.or_else(|| Some(stopped(over.to_string(), !told))))
            }
            None => Ok(looped),
        }
    }

    /// Counts it against what its sender may store.
    fn counted(&self, refused: bool, now: Timestamp) -> Option<Change> {
        self.extras.storage.bytes_per_day?;
        Some(Change::Stored(StoredBytes {
            channel: self.channel.clone(),
            sender: self.sender.clone(),
            hour: storage::hour_of(now),
            bytes: self.bytes(refused),
        }))
    }

    /// What is counted against the sender's budgets.
    fn past(&self, rows: &dyn Read, seated: Option<&ConversationId>) -> Result<Past, RowsError> {
        match (self.kind, self.extras.by_talk) {
            (SenderKind::Person, _) => Ok(Past::default()),
            (SenderKind::Agent, false) => Ok(Past {
                heard: rows.heard_of_agent(&self.channel, &self.sender, limits::PAIR_LOOKED_AT)?,
                talks: None,
            }),
            (SenderKind::Agent, true) => {
                let heard = match seated {
                    Some(id) => rows.heard_in_talk(id, &self.sender, limits::PAIR_LOOKED_AT)?,
                    None => Vec::new(),
                };
                let nth = limits::TALKS_BUDGET.messages;
                let reached = rows.said_nth_newest(&self.channel, &self.sender, nth)?;
                let talks = match reached {
                    Some(reached) => {
                        let newest = rows.heard_of_agent(&self.channel, &self.sender, 1)?;
                        let told = newest.first().is_some_and(|newest| newest.stopped);
                        Some((reached, told))
                    }
                    None => None,
                };
                Ok(Past { heard, talks })
            }
        }
    }
}

/// What an agent said before.
#[derive(Debug, Default)]
struct Past {
    /// Newest first; in this talk only, where talks are counted one by one.
    heard: Vec<Heard>,
    /// When it said the message that would use up the budget of all its talks, and whether it was told so.
    talks: Option<(Timestamp, bool)>,
}

/// Why a row does not become a turn.
struct Unfit {
    class: Class,
    reason: String,
    tell: bool,
}

/// Two agents that answer each other stop here: by the hops that they count themselves, or by how often one of them
/// was heard, by its own time, so that what waited for us to come back is not taken for a loop. The first word too
/// many is told why; later ones meet silence, because every word of ours could be answered again.
fn loop_guard(receive: &Receive, past: &Past, said_at: Timestamp) -> Option<Unfit> {
    let hops = receive.extras.hops;
    let told = past.heard.first().is_some_and(|newest| newest.stopped);
    match receive.kind {
        SenderKind::Person => return None,
        SenderKind::Agent => {}
    }
    if hops >= limits::HOPS_MAX {
        let reason = format!(
            "the loop guard stopped it: {hops} agents answered each other before it, and {} may",
            limits::HOPS_MAX
        );
        return Some(stopped(reason, hops == limits::HOPS_MAX && !told));
    }
    let within = |budget: &PairBudget| said_at.plus_ms(-budget.window_ms);
    let in_talk = limits::PAIR_BUDGETS.iter().find(|budget| {
        let recent = past.heard.iter();
        let recent = recent.filter(|heard| heard.said_at > within(budget));
        recent.count() >= budget.messages as usize
    });
    if let Some(budget) = in_talk {
        return Some(stopped(too_many(budget, ""), !told));
    }
    let budget = &limits::TALKS_BUDGET;
    let (_, told) = past
        .talks
        .filter(|(reached, _)| *reached > within(budget))?;
    Some(stopped(too_many(budget, " in all its talks"), !told))
}

fn too_many(budget: &PairBudget, scope: &str) -> String {
    format!(
        "the loop guard stopped it: this agent sent {} messages{scope} within {} minutes; it is heard again after a pause",
        budget.messages,
        budget.window_ms / 60_000
    )
}

/// Not for good: an operator may send it again.
fn stopped(reason: String, tell: bool) -> Unfit {
    Unfit {
        class: Class::Capacity { until: None },
        reason,
        tell,
    }
}

/// A row that was here before. If its source should know already, it is told again: an ack may be lost.
fn shown_again(known: Message, ack: Option<Ack>) -> Decision<Received> {
    let message_id = known.message_id;
    let outcome = Received::Duplicate(message_id.clone());
    let Some(ack) = ack else {
        return Decision::nothing(outcome);
    };
    match ack.state {
        AckState::NotNeeded => Decision::nothing(outcome),
        AckState::Due => Decision {
            changes: Vec::new(),
            actions: vec![Action::Acknowledge { message_id }],
            outcome,
        },
        AckState::Given | AckState::Refused => Decision {
            changes: vec![Change::Ack {
                message_id: message_id.clone(),
                state: AckState::Due,
            }],
            actions: vec![Action::Acknowledge { message_id }],
            outcome,
        },
    }
}

fn bury(message: &Message, unfit: Unfit, now: Timestamp, changes: &mut Vec<Change>) -> Vec<Action> {
    let Unfit {
        class,
        reason,
        tell,
    } = unfit;
    let life = Life {
        failure: Some(Failure::new(class, &reason)),
        ..message.life.clone()
    };
    if tell {
        return Outbox::of(message, 0, None).bury(&life, reason, now, changes);
    }
    let message_id = message.message_id.clone();
    changes.push(Change::Live {
        message_id: message_id.clone(),
        from: StateName::Received,
        life: life.moved(MessageState::Dead { reason }, now),
    });
    vec![Action::Acknowledge { message_id }]
}
