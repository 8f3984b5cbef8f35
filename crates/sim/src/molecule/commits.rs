//! Commits as the real platform makes them: every insert of a feed waits for the lock of its workspace, so rows are
//! seen one after the other, in an order that is not that of their times and sequence numbers.
//!
//! What stays certain: a sender that waits for its receipt before it writes again has its rows committed in order.

use tokio::time::Instant;

use super::ground::Ground;
use super::ids::WorkspaceId;
use super::rows::Visible;
use super::{MoleculePlatform, Workspace};
use crate::error::Error;

/// Inserts that a lock is given to one of, the oldest that wait: nobody is overtaken for ever.
const OVERTAKING: usize = 5;

impl Ground {
    /// Gives the lock of each workspace that nobody holds to one of the inserts that wait for it.
    pub(super) fn pass_locks(&mut self, now: Instant) {
        let mut waiting: Vec<(WorkspaceId, usize)> = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            if matches!(row.visible, Visible::Waiting(_)) {
                waiting.push((row.workspace, at));
            }
        }
        while let Some((workspace, _)) = waiting.first().copied() {
            let (of_this, rest): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|(id, _)| *id == workspace);
            waiting = rest;
            let is_held = self
                .rows
                .iter()
                .any(|row| row.workspace == workspace && matches!(row.visible, Visible::From(_)));
            if is_held {
                continue;
            }
            let last = u64::try_from(of_this.len().min(OVERTAKING))
                .unwrap_or(1)
                .saturating_sub(1);
            let next = usize::try_from(self.faults.dice.between(0, last)).unwrap_or(0);
            let row = of_this.get(next).and_then(|(_, at)| self.rows.get_mut(*at));
            if let Some(row) = row
                && let Visible::Waiting(hold) = row.visible
            {
                row.visible = Visible::From(now + hold);
            }
        }
    }
}

impl MoleculePlatform {
    /// A peer writes and waits for its receipt, as one that keeps an order does; gives the row's id.
    pub async fn peer_sends(
        &self,
        from: &Workspace,
        to: &Workspace,
        text: &str,
    ) -> Result<String, Error> {
        let row = self.peer_says(from, to, text)?;
        self.committed(&row).await?;
        Ok(row)
    }

    /// Somebody at the canvas writes and waits for the receipt; gives the row's id.
    pub async fn canvas_sends(&self, to: &Workspace, text: &str) -> Result<String, Error> {
        let row = self.canvas_says(to, text)?;
        self.committed(&row).await?;
        Ok(row)
    }

    async fn committed(&self, row: &str) -> Result<(), Error> {
        let seen = |platform: &Self| {
            let ground = platform.ground.borrow();
            ground.row(row).is_none_or(super::rows::Row::is_visible)
        };
        self.wait_until("the commit of a message", seen).await
    }
}
