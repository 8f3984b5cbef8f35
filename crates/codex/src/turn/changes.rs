//! The files of changes that are under way, because a request for approval carries no diff of its own.
//!
//! Bounded: what does not fit is not kept, and the question about it says that its diff is not known.

use std::collections::BTreeMap;

use crate::wire::Notification;
use crate::wire::item::{FileUpdate, Item};
use crate::wire::request_text::diff_lines;
use crate::wire::values::PatchStatus;
use bridge_core::value::ItemId;

/// Changes that may be open at once.
const MAX_OPEN: usize = 64;
/// Bytes that they may have together.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Longest diff that is shown of a change that was made; the files themselves have the rest.
const MAX_DIFF_BYTES: usize = 32 * 1024;

/// The diff of a completed file change; of a long one the beginning.
pub fn completed_diff(notification: &Notification) -> Option<String> {
    match notification {
        Notification::ItemCompleted(notice) => match &notice.item {
            Item::FileChange(change) if change.status == PatchStatus::Completed => {
                Some(diff_lines(&change.changes, MAX_DIFF_BYTES))
            }
            _other => None,
        },
        _other => None,
    }
}

/// The last lines that a completed command wrote, and whether it was declined instead.
pub fn completed_command(notification: &Notification) -> (Option<String>, bool) {
    match notification {
        Notification::ItemCompleted(notice) => {
            (notice.item.output_tail(), notice.item.is_declined())
        }
        _other => (None, false),
    }
}

/// The open file changes of one thread.
#[derive(Debug, Default)]
pub struct OpenChanges {
    by_item: BTreeMap<ItemId, Vec<FileUpdate>>,
    bytes: usize,
}

impl OpenChanges {
    /// Takes in one notification of the thread.
    pub fn notice(&mut self, notification: &Notification) {
        match notification {
            Notification::ItemStarted(notice) => self.open(&notice.item),
            Notification::ItemCompleted(notice) => self.close(notice.item.id()),
            Notification::PatchUpdated(update) if self.by_item.contains_key(&update.item_id) => {
                self.keep(&update.item_id, update.changes.clone());
            }
            _other => {}
        }
    }

    /// Takes in an item of the thread's history.
    pub fn open(&mut self, item: &Item) {
        if let Item::FileChange(change) = item
            && change.status == PatchStatus::InProgress
        {
            self.keep(&change.id, change.changes.clone());
        }
    }

    /// The files of an open change.
    pub fn of(&self, item_id: &ItemId) -> Option<&[FileUpdate]> {
        self.by_item.get(item_id).map(Vec::as_slice)
    }

    fn keep(&mut self, item_id: &ItemId, changes: Vec<FileUpdate>) {
        self.close(item_id);
        let bytes = size(&changes);
        if self.by_item.len() < MAX_OPEN && self.bytes.saturating_add(bytes) <= MAX_BYTES {
            self.bytes = self.bytes.saturating_add(bytes);
            self.by_item.insert(item_id.clone(), changes);
        }
    }

    fn close(&mut self, item_id: &ItemId) {
        if let Some(changes) = self.by_item.remove(item_id) {
            self.bytes = self.bytes.saturating_sub(size(&changes));
        }
    }
}

fn size(changes: &[FileUpdate]) -> usize {
    let of = |change: &FileUpdate| change.path.len().saturating_add(change.diff.len());
    changes.iter().map(of).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn news(method: &str, id: &str, status: &str, diff: &str) -> Notification {
        let changes = json!([{"path": "/a", "kind": {"type": "add"}, "diff": diff}]);
        let item = json!({"type": "fileChange", "id": id, "changes": changes, "status": status});
        let params = json!({"threadId": "t", "turnId": "u", "item": item});
        Notification::parse(method, &params)
    }

    fn diff(open: &OpenChanges, id: &str) -> Option<String> {
        let changes = open.of(&ItemId::new(id))?;
        changes.first().map(|change| change.diff.clone())
    }

    #[test]
    fn open_change_keeps_its_latest_diff() {
        let mut open = OpenChanges::default();
        open.notice(&news("item/started", "a", "inProgress", "one"));
        assert_eq!(diff(&open, "a").as_deref(), Some("one"));
        let update = json!({"threadId": "t", "turnId": "u", "itemId": "a",
                            "changes": [{"path": "/a", "kind": {"type": "add"}, "diff": "two"}]});
        open.notice(&Notification::parse(
            "item/fileChange/patchUpdated",
            &update,
        ));
        assert_eq!(diff(&open, "a").as_deref(), Some("two"));
        open.notice(&news("item/completed", "a", "completed", "two"));
        assert_eq!((diff(&open, "a"), open.bytes), (None, 0));
    }

    #[test]
    fn a_flood_is_not_kept() {
        let mut open = OpenChanges::default();
        open.notice(&news(
            "item/started",
            "big",
            "inProgress",
            &"x".repeat(MAX_BYTES),
        ));
        assert_eq!(diff(&open, "big"), None);
        for n in 0..MAX_OPEN + 10 {
            open.notice(&news("item/started", &n.to_string(), "inProgress", "d"));
        }
        assert_eq!(open.by_item.len(), MAX_OPEN);
    }
}
