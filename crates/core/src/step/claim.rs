//! Claim: the scheduler's one transaction (T2). People go before agents, senders take turns, and the oldest goes
//! first, within the caps. The attempt is counted here, so that a message that kills the daemon each time is buried.

use super::outbox::Outbox;
use super::thrift::UsedUp;
use super::{Action, Decision, Refused, Transition};
use crate::budget::Budgets;
use crate::limits;
use crate::port::{Change, Flight, Head, HeadFilter, Kept, Read, RowsError, only_reads};
use crate::value::{
    ChannelId, Conversation, Message, MessageState, Reply, Round, Sandbox, StateName, Tier,
    Timestamp,
};
use std::sync::Arc;

/// Looks for one message to work on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Turns that may run at the same time.
    pub turns_max: u32,
    /// Turns that may run at the same time for one channel.
    pub turns_per_channel: u32,
    /// Directories that several conversations share and where writing turns take turns.
    pub one_writer: Vec<String>,
    /// Tiers whose turns can't write; a task's can or can't by what it was given.
    pub readers: Vec<Tier>,
    /// What senders may use within a day; who has used it up waits.
    pub budgets: Arc<Budgets>,
    /// The time that due times are compared with: the same `now` the decision gets.
    pub now: Timestamp,
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
    fn filter(&self, flight: &[Flight]) -> Option<HeadFilter> {
        let full = |max: u32, ours: &dyn Fn(&Flight) -> bool| {
            let of = flight.iter().filter(|flight| ours(flight));
            let (turns, waiting) = of.fold((0_u32, 0_u32), |(turns, waiting), flight| {
                (
                    turns.saturating_add(flight.turns),
                    waiting.saturating_add(flight.waiting),
                )
            });
            let with_waiting = max.saturating_mul(limits::WAITING_TURNS_FACTOR);
            turns.saturating_sub(waiting) >= max || turns >= with_waiting
        };
        if full(self.turns_max, &|_| true) {
            return None;
        }
        let mut filter = HeadFilter {
            no_suspects: flight.iter().any(|flight| flight.suspects > 0),
            readers: self.readers.clone(),
            ..HeadFilter::default()
        };
        let mut counted: Vec<&ChannelId> = Vec::new();
        for flight in flight {
            let channel = &flight.channel;
            if !counted.contains(&channel) {
                counted.push(channel);
                if full(self.turns_per_channel, &|other| other.channel == *channel) {
                    filter.full_channels.push(channel.clone());
                }
            }
            let writer = flight.at.as_ref().filter(|at| {
                let writes = !only_reads(&self.readers, at.tier, at.given);
                flight.waiting == 0 && writes && self.one_writer.contains(&at.workdir)
            });
            filter
                .busy_workdirs
                .extend(writer.map(|at| at.workdir.clone()));
        }
        Some(filter)
    }
}

impl Transition for Claim {
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
    let reason = format!(
        "given up after {} attempts; the last one: {why}",
        message.life.spent
    );
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
