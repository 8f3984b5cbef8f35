//! One page of a source: all of its rows and how far the source was read, in one transaction. So the cursor is
//! never ahead of what is on disk, and never behind it either.

use super::{Decision, Receive, Received, Refused, RunError, Transition};
use crate::limits::PAGE_ROWS_MAX;
use crate::port::{Change, Read, Rows, RowsError};
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
    type View = ();
    /// One for each row, as far as there was room.
    type Outcome = Vec<Received>;
    const NAME: &'static str = "receive_page";

    fn load(&self, _rows: &dyn Read) -> Result<(), RowsError> {
        Ok(())
    }

    /// The page's own decision: the cursor moves. Its rows were decided one by one before; it never moves over one
    /// that was not.
    fn decide(self, (): (), now: Timestamp) -> Result<Decision<Vec<Received>>, Refused> {
        if let Some(undecided) = self.rows.first() {
            return Err(Refused::new(Self::NAME, &undecided.message_id, None));
        }
        let changes = self.position.map(|position| Change::Cursor {
            channel: self.channel,
            position,
            at: now,
        });
        Ok(Decision {
            changes: changes.into_iter().collect(),
            actions: Vec::new(),
            outcome: Vec::new(),
        })
    }

    fn run(
        mut self,
        rows: &mut dyn Rows,
        now: Timestamp,
    ) -> Result<Decision<Vec<Received>>, RunError> {
        let mut page = Decision::nothing(Vec::new());
        if self.rows.len() > PAGE_ROWS_MAX {
            self.rows.truncate(PAGE_ROWS_MAX);
            self.position = None;
        }
        for row in core::mem::take(&mut self.rows) {
            let decision = row.run(rows, now)?;
            let full = decision.outcome == Received::Full;
            page.changes.extend(decision.changes);
            page.actions.extend(decision.actions);
            page.outcome.push(decision.outcome);
            if full {
                // The rest must be shown again, so the source stays where it was.
                self.position = None;
                break;
            }
        }
        self.load(&*rows)?;
        let own = self.decide((), now)?;
        for change in &own.changes {
            rows.apply(change)?;
        }
        page.changes.extend(own.changes);
        Ok(page)
    }
}
