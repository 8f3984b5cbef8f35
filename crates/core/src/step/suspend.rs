//! Suspend: we stop, and cut the work ourselves. It costs the message nothing: the next start goes on with it.

use super::followers;
use super::outbox::Outbox;
use super::touched::{View, ended};
use super::{Action, Decision, Refused, Staged, expect};
use crate::port::{Change, Read, RequestsOf, RowsError};
use crate::value::{MessageId, MessageState, NextInput, StateName, Timestamp};

/// Journals that a stop of the daemon cut an attempt, and that its end was seen.
#[derive(Clone, Debug)]
pub struct Suspend {
    /// Of which message.
    pub message_id: MessageId,
}

impl Staged for Suspend {
    type View = View;
    type Outcome = ();
    const NAME: &'static str = "suspend";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        View::load(rows, &self.message_id)
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let View {
            message,
            turn,
            replies,
            followers,
            ..
        } = view;
        let states = [StateName::Claimed, StateName::Starting, StateName::Running];
        let message = expect(Self::NAME, &self.message_id, message.as_ref(), &states)?;
        let mut life = message
            .life
            .moved(MessageState::Received { hold: None }, now);
        life.spent = life.spent.saturating_sub(1);
        let begun = message.life.state.name() != StateName::Claimed;
        let turn = turn.filter(|_| begun);
        let can_write = turn.as_ref().is_some_and(|turn| turn.sandbox.can_write());
        if can_write {
            life.input = NextInput::Continue;
        }
        let mut changes = Vec::new();
        changes.extend(ended(turn, now));
        let mut actions = followers::release(followers, can_write, now, &mut changes);
        if let Some(stopped) = message.life.stop.clone() {
            let outbox = Outbox::of(message, replies.len(), None);
            actions.extend(outbox.cancel(&life, stopped, now, &mut changes));
            return Ok(Decision {
                changes,
                actions,
                outcome: (),
            });
        }
        if begun {
            changes.push(Change::Orphan(RequestsOf::Message(self.message_id.clone())));
        }
        changes.push(Change::Live {
            message_id: self.message_id.clone(),
            from: message.life.state.name(),
            life,
        });
        actions.push(Action::Announce {
            message_id: self.message_id,
        });
        Ok(Decision {
            changes,
            actions,
            outcome: (),
        })
    }
}
