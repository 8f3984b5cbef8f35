//! Claim: the scheduler's one transaction (T2). People go before agents, senders take turns, and the oldest goes
//! first, within the caps. The attempt is counted here, so that a message that kills the daemon each time is buried.

use super::outbox::Outbox;
use super::thrift::UsedUp;
use super::touched::given_up;
use super::{Action, Decision, Refused, Staged};
use crate::budget::Budgets;
use crate::limits;
use crate::port::{
    Change, Flight, Head, HeadFilter, Kept, Read, RowsError, from_owner, is_among, only_reads,
};
use crate::value::{
    ChannelId, Conversation, Message, MessageState, Reply, Round, Sandbox, StateName, Tier,
    Timestamp,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Looks for one message to work on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Turns that may run at the same time.
    pub turns_max: u32,
    /// So many of them are kept for the owner.
    pub turns_reserved: u32,
    /// Turns that may run at the same time for one channel.
    pub turns_per_channel: u32,
    /// Turns that may run at the same time for one sender.
    pub per_sender: Arc<TurnsPerSender>,
    /// Directories that several conversations share and where writing turns take turns.
    pub one_writer: Vec<String>,
    /// Tiers whose turns can't write; a task's can or can't by what it was given.
    pub readers: Vec<Tier>,
    /// What senders may use within a day; who has used it up waits.
    pub budgets: Arc<Budgets>,
    /// The time that due times are compared with: the same `now` the decision gets.
    pub now: Timestamp,
}

/// How many turns one sender may have at the same time. Messages of the owner's tier are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnsPerSender {
    /// So many.
    pub max: u32,
    /// Senders who are the owner whatever their tier: the owner's own tasks run with that of tools.
    pub owners: Vec<(ChannelId, String)>,
}

impl TurnsPerSender {
    /// No limit but that of all turns together.
    pub const UNLIMITED: Self = Self {
        max: u32::MAX,
        owners: Vec::new(),
    };

    /// Whether this sender is the owner, whatever the tier.
    #[must_use]
    pub fn is_owner(&self, channel: &ChannelId, sender: &str) -> bool {
        is_among(&self.owners, channel, sender)
    }

    fn limits(&self, flight: &Flight) -> bool {
        flight.tier != Tier::Owner && !self.is_owner(&flight.channel, &flight.sender)
    }
}

/// Places that turns take, as they are counted against a limit.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    turns: u32,
    waiting: u32,
}

impl Places {
    fn add(&mut self, flight: &Flight) {
        self.turns = self.turns.saturating_add(flight.turns);
        self.waiting = self.waiting.saturating_add(flight.waiting);
    }

    /// A turn that waits for a person takes no place of a working one, up to a bound in all.
    fn fill(self, max: u32) -> bool {
        let with_waiting = max.saturating_mul(limits::WAITING_TURNS_FACTOR);
        self.turns.saturating_sub(self.waiting) >= max || self.turns >= with_waiting
    }
}

/// What the scheduler found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// This one is yours.
    Claimed {
        /// The message, in its new state.
        message: Box<Message>,
        /// Its conversation.
        conversation: Box<Conversation>,
    },
    /// This one had spent its attempts and is buried; ask again.
    Buried,
    /// The sender of this one has used up its budget, and it waits; ask again.
    Held,
    /// Nothing is due.
    Idle {
        /// When the next held message becomes due.
        next_due: Option<Timestamp>,
    },
    /// As many turns run as may.
    Full {
        /// When the next held or parked message becomes due.
        next_due: Option<Timestamp>,
    },
}

/// The rows that decide.
#[derive(Debug)]
pub struct View {
    full: bool,
    overdue: Option<Message>,
    head: Option<Head>,
    /// Its sender's budget is used up.
    used_up: Option<UsedUp>,
    replies: Vec<Reply>,
    round: Round,
    next_due: Option<Timestamp>,
}

impl Claim {
    /// What keeps this claim from taking a message that waits for nothing of its own, if anything does.
    #[must_use]
    pub fn keeps(
        &self,
        flight: &[Flight],
        message: &Message,
        conversation: &Conversation,
        given: Option<Sandbox>,
    ) -> Option<Kept> {
        match self.filter(flight) {
            Some(filter) => filter.keeps(message, conversation, given),
            None => Some(Kept::Slots),
        }
    }

    /// What the turns at work leave room for; nothing when there is no room at all.
    ///
    /// Others than the owner never take more than `turns_max - turns_reserved` places, and the owner's may begin while
    /// fewer than `turns_reserved` of theirs work, whatever else runs: turns that waited for a person and go on all at
    /// once may fill more places than there are.
    fn filter(&self, flight: &[Flight]) -> Option<HeadFilter> {
        let (mut all, mut owner, mut others) =
            (Places::default(), Places::default(), Places::default());
        let mut channels: BTreeMap<&ChannelId, Places> = BTreeMap::new();
        let mut senders: BTreeMap<(&ChannelId, &str), Places> = BTreeMap::new();
        let mut filter = HeadFilter {
            no_suspects: flight.iter().any(|flight| flight.suspects > 0),
            readers: self.readers.clone(),
            owners: self.per_sender.owners.clone(),
            ..HeadFilter::default()
        };
        for flight in flight {
            all.add(flight);
            if self.is_of_owner(flight) {
                owner.add(flight)
            } else {
                others.add(flight)
            }
            channels.entry(&flight.channel).or_default().add(flight);
            if self.per_sender.limits(flight) {
                let sender = (&flight.channel, flight.sender.as_str());
                senders.entry(sender).or_default().add(flight);
            }
            filter.busy_workdirs.extend(self.written_by(flight));
        }
        let full = all.fill(self.turns_max);
        if full && owner.fill(self.turns_reserved) {
            return None;
        }
        let for_others = self.turns_max.saturating_sub(self.turns_reserved);
        filter.owner_only = full || others.fill(for_others);
        let channels = channels.into_iter();
        filter.full_channels = channels
            .filter(|(_, places)| places.fill(self.turns_per_channel))
            .map(|(channel, _)| channel.clone())
            .collect();
        let senders = senders.into_iter();
        filter.full_senders = senders
            .filter(|(_, places)| places.fill(self.per_sender.max))
            .map(|((channel, sender), _)| (channel.clone(), sender.to_owned()))
            .collect();
        Some(filter)
    }

    fn is_of_owner(&self, flight: &Flight) -> bool {
        let Flight {
            kind,
            tier,
            channel,
            sender,
            ..
        } = flight;
        from_owner(&self.per_sender.owners, *kind, *tier, channel, sender)
    }

    /// The directory that a turn writes in, where writing turns take turns.
    fn written_by(&self, flight: &Flight) -> Option<String> {
        let at = flight.at.as_ref().filter(|_| flight.waiting == 0)?;
        let writes = !only_reads(&self.readers, at.tier, at.given);
        (writes && self.one_writer.contains(&at.workdir)).then(|| at.workdir.clone())
    }
}

impl Staged for Claim {
    type View = View;
    type Outcome = ClaimOutcome;
    const NAME: &'static str = "claim";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        let filter = self.filter(&rows.flight(&self.one_writer)?);
        let overdue = rows.overdue(self.now)?;
        let heads = match (&filter, &overdue) {
            (Some(filter), None) => rows.heads(self.now, filter, 1)?,
            (None, _) | (_, Some(_)) => Vec::new(),
        };
        let head = heads.into_iter().next();
        let ends = match (&overdue, &head) {
            (Some(message), _) => Some(message),
            (None, Some(head)) if head.message.life.spent >= limits::ATTEMPTS_MAX => {
                Some(&head.message)
            }
            (None, _) => None,
        };
        let replies = match ends {
            Some(message) => rows.replies(&message.message_id)?,
            None => Vec::new(),
        };
        let used_up = match &head {
            Some(head) => UsedUp::load(rows, self, &head.message)?,
            None => None,
        };
        let next_due = match head {
            None => rows.next_due(self.now)?,
            Some(_) => None,
        };
        Ok(View {
            full: filter.is_none(),
            overdue,
            head,
            used_up,
            replies,
            round: rows.round()?,
            next_due,
        })
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<ClaimOutcome>, Refused> {
        if let Some(message) = &view.overdue {
            return Ok(unheard(message, view.replies.len(), now));
        }
        if view.full {
            return Ok(Decision::nothing(ClaimOutcome::Full {
                next_due: view.next_due,
            }));
        }
        let Some(head) = &view.head else {
            return Ok(Decision::nothing(ClaimOutcome::Idle {
                next_due: view.next_due,
            }));
        };
        let Head {
            message,
            conversation,
            given: _,
        } = head.clone();
        if message.life.spent >= limits::ATTEMPTS_MAX {
            return Ok(bury(&message, view.replies.len(), now));
        }
        if let Some(used_up) = view.used_up {
            return Ok(used_up.hold(&message, now));
        }
        let mut life = message.life.moved(MessageState::Claimed, now);
        life.attempt = life.attempt.saturating_add(1);
        life.spent = life.spent.saturating_add(1);
        let message_id = message.message_id.clone();
        let mut changes = vec![Change::Live {
            message_id: message_id.clone(),
            from: StateName::Received,
            life: life.clone(),
        }];
        if message.round > view.round {
            changes.push(Change::Round(message.round));
        }
        Ok(Decision {
            changes,
            actions: vec![
                Action::Work {
                    message_id: message_id.clone(),
                },
                Action::Announce { message_id },
            ],
            outcome: ClaimOutcome::Claimed {
                message: Box::new(Message { life, ..message }),
                conversation: Box::new(conversation),
            },
        })
    }
}

fn bury(message: &Message, replies: usize, now: Timestamp) -> Decision<ClaimOutcome> {
    let why = message
        .life
        .failure
        .as_ref()
        .map_or("no reason was recorded", |f| &f.reason);
    let reason = given_up(&message.life, why);
    let mut changes = Vec::new();
    let actions =
        Outbox::of(message, replies, None).close(&message.life, reason, now, &mut changes);
    Decision {
        changes,
        actions,
        outcome: ClaimOutcome::Buried,
    }
}

/// Nobody said how a parked message goes on; silence is never consent.
fn unheard(message: &Message, replies: usize, now: Timestamp) -> Decision<ClaimOutcome> {
    let reason = match &message.life.state {
        MessageState::Parked { reason, .. } => reason.as_str(),
        _ => "no reason was recorded",
    };
    let reason = format!("nobody said how it goes on: {reason}");
    let mut changes = Vec::new();
    let actions =
        Outbox::of(message, replies, None).close(&message.life, reason, now, &mut changes);
    Decision {
        changes,
        actions,
        outcome: ClaimOutcome::Buried,
    }
}
