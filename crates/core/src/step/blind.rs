//! Blind: what became of a lost turn can't be looked at now. The message stays `unclear`, says what it waits for,
//! and lets other conversations have its place; after a long time a person must look instead.

use super::followers;
use super::outbox::Outbox;
use super::touched::View;
use super::{Action, Decision, Refused, Staged, expect};
use crate::limits;
use crate::port::{Change, Read, RowsError};
use crate::value::{
    EventKind, Failure, Hold, Life, MessageId, MessageState, NextInput, StateName, Timestamp,
};

/// Journals why a lost turn can't be looked at yet.
#[derive(Clone, Debug)]
pub struct Blind {
    /// Of which message.
    pub message_id: MessageId,
    /// What stands in the way.
    pub failure: Failure,
    /// When the next look is due.
    pub until: Timestamp,
}

impl Staged for Blind {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "blind";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        View::load(rows, &self.message_id)
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let View {
            message,
            turn,
            replies,
            last_event,
            followers,
        } = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Unclear],
        )?;
        let mut life = Life {
            failure: Some(self.failure.clone()),
            ..message.life.clone()
        };
        let why = self.failure.reason.clone();
        let mut changes = Vec::new();
        if now.since_ms(message.received_at) > limits::HELD_AGE_MAX_MS {
            let reason = format!("what became of its turn could not be seen for too long: {why}");
            if turn.is_none_or(|turn| turn.sandbox.can_write()) {
                life.input = NextInput::Continue;
            }
            let outbox = Outbox::of(message, replies.len(), None);
            let let_go = followers::release(followers, true, now, &mut changes);
            let mut actions = outbox.close(&life, reason, now, &mut changes);
            actions.extend(let_go);
            return Ok(Decision {
                changes,
                actions,
                outcome: (),
            });
        }
        let told = format!("what became of the turn can't be seen yet: {why}");
        // Journaled once per reason; the age and the next look count every time.
        if message.life.state.hold().map(|hold| &hold.failure) != Some(&self.failure) {
            let event = super::note::event(message, last_event, EventKind::Bridge, &told, now);
            changes.extend(event);
        }
        let hold = Hold {
            until: self.until,
            failure: self.failure,
        };
        changes.push(Change::Live {
            message_id: self.message_id.clone(),
            from: StateName::Unclear,
            life: Life {
                state: MessageState::Unclear { hold: Some(hold) },
                ..life
            },
        });
        Ok(Decision {
            changes,
            actions: vec![
                Action::Schedule,
                Action::Announce {
                    message_id: self.message_id,
                },
            ],
            outcome: (),
        })
    }
}
