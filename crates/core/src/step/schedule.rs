//! Claim: the scheduler's one transaction. People go before agents, senders take turns, and the oldest goes
//! first, within the caps. The attempt is counted here, so that a message that kills the daemon each time is buried.

use super::turn::{AttemptCost, Retry, given_up};
use super::{Action, RunError, Transition, Tx, fleet, reply};
use crate::budget::{self, Budgets, DayBudget};
use crate::limits::{self, CLAIMS_AT_ONCE_MAX};
use crate::port::{
    Change, Flight, Head, HeadFilter, Kept, NodeFilter, RowsError, from_owner, is_among, only_reads,
};
use crate::quota::{QuotaGates, QuotaWait};
use crate::value::{
    ChannelId, Class, Conversation, Failure, Message, MessageState, NodeId, Quota, Sandbox, Tier,
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
    /// In a fleet: conversations that wrote files wait for a node that is gone, because their directories are there alone.
    pub leave_written: bool,
    /// The time that due times are compared with: the same `now` the decision gets.
    pub now: Timestamp,
}

/// How many turns one sender may have at the same time. Messages of the owner's tier are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnsPerSender {
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
        conversation: Box<Conversation>,
    },
    /// This one had spent its attempts and is buried; ask again.
    Buried,
    /// The sender of this one has used up its budget, or what is left of the account is not for it: it waits; ask again.
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

impl Claim {
    /// What keeps this claim from taking a message that waits for nothing of its own, if anything does.
    #[must_use]
    pub fn keeps(
        &self,
        flight: &[Flight],
        node: Option<&NodeId>,
        gates: &QuotaGates,
        (message, conversation): (&Message, &Conversation),
        given: Option<Sandbox>,
        codex_home: Option<&str>,
    ) -> Option<Kept> {
        match self.filter(flight, node, gates) {
            Some(filter) => filter.keeps(message, conversation, given, codex_home),
            None => Some(Kept::Slots),
        }
    }

    /// Who waits for the accounts of a node.
    #[must_use]
    pub fn gates(&self, quotas: &[Quota], node: Option<&NodeId>) -> QuotaGates {
        QuotaGates::of(quotas, node, &self.budgets.quota, self.now)
    }

    /// What a message waits for, if it waits for its account.
    #[must_use]
    pub fn quota_wait(
        &self,
        gates: &QuotaGates,
        message: &Message,
        codex_home: Option<&str>,
    ) -> Option<QuotaWait> {
        gates.holds(message, codex_home, &self.per_sender.owners)
    }

    /// What the turns at work leave room for; nothing when there is no room at all. The places are those of this node,
    /// the limits of channels and senders are those of the fleet.
    ///
    /// Others than the owner never take more than `turns_max - turns_reserved` places, and the owner's may begin while
    /// fewer than `turns_reserved` of theirs work, whatever else runs: turns that waited for a person and go on all at
    /// once may fill more places than there are.
    fn filter(
        &self,
        flight: &[Flight],
        node: Option<&NodeId>,
        gates: &QuotaGates,
    ) -> Option<HeadFilter> {
        let (mut all, mut owner, mut others) =
            (Places::default(), Places::default(), Places::default());
        let mut channels: BTreeMap<&ChannelId, Places> = BTreeMap::new();
        let mut senders: BTreeMap<(&ChannelId, &str), Places> = BTreeMap::new();
        let mut filter = HeadFilter {
            no_suspects: flight.iter().any(|flight| flight.suspects > 0),
            readers: self.readers.clone(),
            owners: self.per_sender.owners.clone(),
            people_only: gates.busy_homes(flight, &self.per_sender.owners, self.now),
            node: node.map(|node_id| NodeFilter {
                node_id: node_id.clone(),
                leave_written: self.leave_written,
            }),
            ..HeadFilter::default()
        };
        for flight in flight {
            if flight.node.as_ref() == node {
                all.add(flight);
                if self.is_of_owner(flight) {
                    owner.add(flight)
                } else {
                    others.add(flight)
                }
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

impl Transition for Claim {
    type Outcome = ClaimOutcome;
    const NAME: &'static str = "claim";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<ClaimOutcome, RunError> {
        let node = tx.this_node();
        let gates = self.gates(&tx.quotas()?, node.as_ref());
        let filter = self.filter(&tx.flight(&self.one_writer)?, node.as_ref(), &gates);
        let next_due = |tx: &Tx<'_>| -> Result<_, RowsError> {
            let held = tx.next_due(self.now)?;
            Ok(held.into_iter().chain(gates.next_due(self.now)).min())
        };
        if let Some(message) = tx.overdue(self.now)? {
            return give_up_parked(tx, &message, now);
        }
        let Some(filter) = filter else {
            let next_due = next_due(tx)?;
            return Ok(ClaimOutcome::Full { next_due });
        };
        if node.is_some() && !fleet::takes_work(tx)? {
            return Ok(ClaimOutcome::Idle { next_due: None });
        }
        let Some(head) = tx.heads(self.now, &filter, 1)?.into_iter().next() else {
            let next_due = next_due(tx)?;
            return Ok(ClaimOutcome::Idle { next_due });
        };
        let Head {
            message,
            conversation,
            given: _,
            codex_home,
        } = head;
        if message.life.spent >= limits::ATTEMPTS_MAX {
            return bury(tx, &message, now);
        }
        if let Some(wait) = self.quota_wait(&gates, &message, codex_home.as_deref()) {
            return hold(tx, &message, wait.failure(), wait.until, now);
        }
        if let Some(held) = self.budget_hold(tx, &message)? {
            return hold(tx, &message, held.failure(), held.until, now);
        }
        // In a conversation whose next message waits no turn is under way.
        tx.take_home(&message.conversation_id, now)?;
        let round = tx.round()?;
        let mut life = message.life.moved(MessageState::Claimed, now);
        life.attempt = life.attempt.saturating_add(1);
        life.spent = life.spent.saturating_add(1);
        tx.set_life(&message, life.clone())?;
        if message.round > round {
            tx.change(Change::Round(message.round))?;
        }
        tx.act(Action::Work {
            message_id: message.message_id.clone(),
        });
        tx.announce(&message.message_id);
        Ok(ClaimOutcome::Claimed {
            message: Box::new(Message { life, ..message }),
            conversation: Box::new(conversation),
        })
    }
}

fn bury(tx: &mut Tx<'_>, message: &Message, now: Timestamp) -> Result<ClaimOutcome, RunError> {
    let failure = message.life.failure.as_ref();
    let why = failure.map_or("no reason was recorded", |failure| &failure.reason);
    let reason = given_up(&message.life, why);
    reply::close(tx, message, &message.life, reason, now)?;
    Ok(ClaimOutcome::Buried)
}

/// Nobody said how a parked message goes on; silence is never consent.
fn give_up_parked(
    tx: &mut Tx<'_>,
    message: &Message,
    now: Timestamp,
) -> Result<ClaimOutcome, RunError> {
    let reason = match &message.life.state {
        MessageState::Parked { reason, .. } => reason.as_str(),
        _ => "no reason was recorded",
    };
    let reason = format!("nobody said how it goes on: {reason}");
    reply::close(tx, message, &message.life, reason, now)?;
    Ok(ClaimOutcome::Buried)
}

/// The sender of a message has used up its budget of the day: the message waits until there is room again. Nothing is
/// spent by it, and nothing is lost.
struct BudgetHold {
    budget: DayBudget,
    /// When there is room again.
    until: Timestamp,
}

impl Claim {
    /// Whether the sender of a message has used up its budget. Nothing is read for those who have none.
    fn budget_hold(&self, tx: &Tx<'_>, message: &Message) -> Result<Option<BudgetHold>, RowsError> {
        let Some(budget) = self.budgets.of(message) else {
            return Ok(None);
        };
        let since = budget::since(self.now);
        let reached = tx.budget_reached(&message.channel, &message.sender, since, budget)?;
        Ok(reached.map(|at| BudgetHold {
            budget,
            until: budget::forgotten(at),
        }))
    }
}

impl BudgetHold {
    fn failure(&self) -> Failure {
        let (words, until) = (self.budget.words(), self.until);
        let reason = format!(
            "its sender has used up its budget of {words}; it goes on at {}",
            until.utc()
        );
        Failure::new(Class::Capacity { until: Some(until) }, reason)
    }
}

/// Lets a message wait, and tells its sender once.
fn hold(
    tx: &mut Tx<'_>,
    message: &Message,
    failure: Failure,
    until: Timestamp,
    now: Timestamp,
) -> Result<ClaimOutcome, RunError> {
    reply::notify_held(tx, message, &failure, now)?;
    let retry = Retry {
        message,
        failure,
        until,
        cost: AttemptCost::Unspent,
        touched: None,
    };
    retry.write(tx, now)?;
    tx.deliver(&message.conversation_id);
    Ok(ClaimOutcome::Held)
}

/// How many claims the scheduler asks for at the same time. Each waits for the disk, and those that are asked for
/// together wait together; but whoever finds nothing has looked in vain, so a lone message is looked for alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    now: usize,
    /// Whether the last round found something in every place.
    found: bool,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            now: 1,
            found: false,
        }
    }
}

impl Claims {
    /// So many now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now
    }

    /// What the round was: whether each of its claims found something. The second round is as small as the first.
    pub fn round(&mut self, found: bool) {
        *self = match (found, self.found) {
            (true, true) => Self {
                now: self.now.saturating_mul(2).min(CLAIMS_AT_ONCE_MAX),
                found,
            },
            (true, false) => Self { now: 1, found },
            (false, _) => Self::default(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_rounds_double_then_reset() {
        let mut claims = Claims::default();
        let rounds = [true, true, true, true, true, true, true, false, true];
        let widths = rounds.map(|found| {
            let now = claims.now();
            claims.round(found);
            now
        });
        assert_eq!(widths, [1, 1, 2, 4, 8, 16, 16, 16, 1]);
    }
}
