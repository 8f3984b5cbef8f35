//! Blind: what became of a lost turn can't be looked at now. The message stays `unclear`, and says what it waits
//! for; after a long time a person must look instead.

use super::outbox::Outbox;
use super::touched::View;
use super::{Action, Decision, Refused, Transition, expect};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::value::{EventKind, Failure, Life, MessageId, StateName, Timestamp};

/// Journals why a lost turn can't be looked at yet.
#[derive(Clone, Debug)]
pub struct Blind {
    /// Of which message.
    pub message_id: MessageId,
    /// What stands in the way.
    pub failure: Failure,
}

impl Transition for Blind {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "blind";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        View::load(rows, &self.message_id)
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let View {
            message,
            replies,
            last_event,
            ..
        } = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Unclear],
        )?;
        let life = Life {
            failure: Some(self.failure.clone()),
            ..message.life.clone()
        };
        let why = &self.failure.reason;
        let mut changes = Vec::new();
        if now.since_ms(message.received_at) > limits::HELD_AGE_MAX_MS {
            let reason = format!("what became of its turn could not be seen for too long: {why}");
            let outbox = Outbox::of(message, replies.len(), None);
            let actions = outbox.bury(&life, reason, now, &mut changes);
            return Ok(Decision {
                changes,
                actions,
                outcome: (),
            });
        }
        let told = format!("what became of the turn can't be seen yet: {why}");
        let event = super::note::event(message, last_event, EventKind::Bridge, &told, now);
        changes.extend(event);
        changes.push(Change::Live {
            message_id: self.message_id.clone(),
            from: StateName::Unclear,
            life,
        });
        Ok(Decision {
            changes,
            actions: vec![Action::Announce {
                message_id: self.message_id,
            }],
            outcome: (),
        })
    }
}
