//! Ask: Codex asked something while a turn runs. The question and its answer are rows.
//!
//! Silence is never consent: what nobody can answer is declined, and the event says so.

use super::{Action, Decision, Refused, Transition};
use crate::port::{Change, Read, RowsError};
use crate::value::{EventKind, Message, MessageId, Request, Timestamp};

/// Journals a question of Codex, with its decision when it has one.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The question.
    pub request: Request,
    /// One line for people about what became of it.
    pub told: String,
}

impl Transition for Ask {
    type View = (Option<Message>, u32);
    type Outcome = ();
    const NAME: &'static str = "ask";

    fn load(&self, rows: &dyn Read) -> Result<Self::View, RowsError> {
        let message_id: &MessageId = &self.request.message_id;
        Ok((rows.message(message_id)?, rows.last_event(message_id)?))
    }

    fn decide(self, view: Self::View, now: Timestamp) -> Result<Decision<()>, Refused> {
        let (Some(message), last_event) = view else {
            return Err(Refused::new(Self::NAME, &self.request.message_id, None));
        };
        let mut changes = Vec::with_capacity(2);
        changes.extend(super::note::event(
            &message,
            last_event,
            EventKind::Asked,
            &self.told,
            now,
        ));
        changes.push(Change::NewRequest(self.request));
        Ok(Decision {
            changes,
            actions: vec![Action::Announce {
                message_id: message.message_id,
            }],
            outcome: (),
        })
    }
}
