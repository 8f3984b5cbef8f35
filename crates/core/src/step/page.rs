//! One page of a source: all of its rows and how far the source was read, in one transaction. So the cursor is
//! never ahead of what is on disk, and never behind it either.

use super::{Receive, Received, RunError, Transition, Tx};
use crate::limits::PAGE_ROWS_MAX;
use crate::port::Change;
use crate::value::{ChannelId, Timestamp};

/// Takes in a page.
#[derive(Clone, Debug)]
pub struct ReceivePage {
    /// The source.
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
