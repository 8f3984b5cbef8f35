//! A head whose sender has used up its budget of the day waits until there is room again: shared with `claim`, which
//! looks before every turn. Nothing is spent by it, and nothing is lost.

use super::outbox::Outbox;
use super::touched::{Again, Budget};
use super::{Action, Claim, ClaimOutcome, Decision};
use crate::budget::{self, DayBudget};
use crate::port::{Read, RowsError};
use crate::value::{Class, Failure, Message, Timestamp};

/// A budget that is used up.
#[derive(Debug)]
pub(super) struct UsedUp {
    budget: DayBudget,
    /// When there is room again.
    until: Timestamp,
    replies: usize,
    last_event: u32,
}

impl UsedUp {
    /// Whether the sender of a message has used up its budget. Nothing is read for those who have none.
    pub(super) fn load(
        rows: &dyn Read,
        claim: &Claim,
        message: &Message,
    ) -> Result<Option<Self>, RowsError> {
        let Some(budget) = claim.budgets.of(message) else {
            return Ok(None);
        };
        let since = budget::since(claim.now);
        let reached = rows.budget_reached(&message.channel, &message.sender, since, budget)?;
        let Some(at) = reached else {
            return Ok(None);
        };
        Ok(Some(Self {
            budget,
            until: budget::forgotten(at),
            replies: rows.replies(&message.message_id)?.len(),
            last_event: rows.last_event(&message.message_id)?,
        }))
    }

    /// Lets the message wait, and tells its sender once.
    pub(super) fn hold(self, message: &Message, now: Timestamp) -> Decision<ClaimOutcome> {
        let (words, until) = (self.budget.words(), self.until);
        let reason = format!(
            "its sender has used up its budget of {words}; it goes on at {}",
            until.utc()
        );
        let failure = Failure::new(Class::Capacity { until: Some(until) }, reason);
        let mut changes = Outbox::of(message, self.replies, None).tell_held(&failure, now);
        let again = Again {
            message,
            replies: self.replies + changes.len(),
            last_event: self.last_event,
            failure,
            until,
            budget: Budget::Unspent,
            touched: None,
        };
        let mut actions = again.write(now, &mut changes);
        actions.push(Action::Deliver {
            conversation_id: message.conversation_id.clone(),
        });
        Decision {
            changes,
            actions,
            outcome: ClaimOutcome::Held,
        }
    }
}
