//! A workspace that never registered: the platform takes it for one that is pushed to and busy, answers 202, and stores
//! each message in two rows with one `messageId`. The first register ends that.

use serde_json::json;

use super::a2a::receipt;
use super::ground::Ground;
use super::ids::{WorkspaceId, fresh_id};
use super::options::Edition;
use super::rows::Entry;
use super::wire::Answer;
use super::{MoleculePlatform, Workspace};

pub(super) const BUSY: &str =
    "workspace agent busy — request queued, will dispatch when capacity available";

impl MoleculePlatform {
    /// From now until it registers, messages to this workspace are pushed, as to one that was only just made.
    pub fn push_until_registered(&self, workspace: &Workspace) {
        self.change(|ground| {
            let office = ground.office_mut(&workspace.id);
            office.map(|office| office.pushed_to = true)
        });
    }
}

impl Ground {
    pub(super) fn is_pushed_to(&self, id: WorkspaceId) -> bool {
        self.edition != Edition::Seed
            && self.offices.get(&id).is_some_and(|office| office.pushed_to)
    }

    /// What a sender gets for a message to such a workspace.
    pub(super) fn busy(&self, to: WorkspaceId) -> Answer {
        let of_this = self.rows.iter().filter(|row| row.workspace == to);
        let depth = of_this.filter(|row| row.entry.message_id.is_some()).count();
        Answer::json(
            202,
            json!({"queued": true, "queue_id": fresh_id(), "queue_depth": depth, "message": BUSY}),
        )
    }

    /// It registered, so what waits is handed over: the first row of each message gets the receipt.
    pub(super) fn poll_from_now_on(&mut self, id: WorkspaceId) {
        let was = self.is_pushed_to(id);
        if let Some(office) = self.offices.get_mut(&id) {
            office.pushed_to = false;
        }
        if !was {
            return;
        }
        let of_this = self.rows.iter_mut().filter(|row| row.workspace == id);
        for row in of_this.filter(|row| row.entry.message_id.is_some() && row.is_message()) {
            let method = row.entry.method.as_deref().unwrap_or_default();
            row.entry.response = Some(receipt(method));
        }
    }
}

/// The second row of a message: the same but for what the platform says of it, and without its `message_id`.
pub(super) fn second_row(first: &Entry) -> Entry {
    let summary = first.summary.as_deref().unwrap_or_default();
    Entry {
        summary: Some(summary.replace("(ingest)", "(queued: target busy)")),
        message_id: None,
        ..first.clone()
    }
}
