//! Answers that Codex is still writing, per message of a task. Pure.

use super::holdback;
use super::snapshot::CurrentTask;
use crate::a2a::task::ARTIFACT_NAME;
use a2a::{Artifact, Part, Task};
use bridge_core::port::{Extent, Phase, TextUpdate};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{ItemId, MessageId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A draft up to this size is checked with every update. A longer one that is held back is checked only when it has
/// doubled, which keeps the total cost linear in its length.
const ALWAYS_CHECKED_BYTES: usize = 1024;

/// The drafts of all messages of a task.
#[derive(Debug, Default)]
pub(super) struct Drafts(BTreeMap<MessageId, AnswerDraft>);

/// A Codex item that may become an answer.
#[derive(Debug)]
struct AnswerDraft {
    item_id: ItemId,
    /// The prefix that may be published.
    shown: String,
    /// Below this length all of it is held back without a check.
    held_below: usize,
}

impl AnswerDraft {
    fn of(update: &TextUpdate, before: Option<Self>) -> Self {
        let same = before.filter(|before| before.item_id == update.item_id);
        let held_below = match update.extent {
            Extent::Head | Extent::Middle => same.map_or(0, |same| same.held_below),
            Extent::Whole => 0,
        };
        let item_id = update.item_id.clone();
        let length = update.text.len();
        if length < held_below {
            return Self {
                item_id,
                shown: String::new(),
                held_below,
            };
        }
        let shown = holdback::publishable(&update.text).to_owned();
        let held_below = if shown.is_empty() && length > ALWAYS_CHECKED_BYTES {
            length.saturating_mul(2)
        } else {
            0
        };
        Self {
            item_id,
            shown,
            held_below,
        }
    }
}

impl Drafts {
    /// Applies a text update. Returns the text of a finished commentary item, which is progress and not an answer.
    pub(super) fn apply(&mut self, message_id: &MessageId, update: &TextUpdate) -> Option<String> {
        match (update.phase, update.extent) {
            // The start of the text is missing; the answer itself arrives whole.
            (_, Extent::Middle) | (Phase::Commentary, Extent::Head) => None,
            (Phase::Commentary, Extent::Whole) => Some(update.text.clone()),
            (Phase::Final | Phase::Unmarked, Extent::Head | Extent::Whole) => {
                let draft = AnswerDraft::of(update, self.0.remove(message_id));
                self.0.insert(message_id.clone(), draft);
                None
            }
        }
    }

    /// Drops the drafts of turns that ended or were interrupted.
    pub(super) fn retain_in_flight(&mut self, view: &TaskSnapshot) {
        self.0.retain(|message_id, _| {
            let mut messages = view.messages.iter();
            let found = messages.find(|one| one.message.message_id == *message_id);
            found.is_some_and(|one| {
                one.answer.is_none() && one.message.life.state.name().in_flight()
            })
        });
    }

    /// The task of the rows together with the drafts.
    pub(super) fn merge(&self, task: &Arc<Task>, progress: Vec<String>) -> CurrentTask {
        let answered = |id: &str| {
            let mut known = task.artifacts.iter().flatten();
            known.any(|known| known.artifact_id == id)
        };
        let shown = self.0.iter().filter(|(message_id, draft)| {
            !draft.shown.is_empty() && !answered(message_id.as_str())
        });
        CurrentTask {
            rows: Arc::clone(task),
            open: shown
                .map(|(message_id, draft)| open_artifact(message_id.to_string(), &draft.shown))
                .collect(),
            progress,
        }
    }
}

fn open_artifact(artifact_id: String, text: &str) -> Artifact {
    Artifact {
        artifact_id,
        name: Some(ARTIFACT_NAME.to_owned()),
        description: None,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::value::ItemId;

    fn shown(drafts: &mut Drafts, item: &str, extent: Extent, text: &str) -> String {
        let (id, phase) = (MessageId::new("m"), Phase::Final);
        let update = TextUpdate {
            item_id: ItemId::new(item),
            phase,
            extent,
            text: text.to_owned(),
        };
        drafts.apply(&id, &update);
        drafts.0[&id].shown.clone()
    }

    #[test]
    fn rechecks_long_draft_on_doubling_or_completion() {
        let mut drafts = Drafts::default();
        let data = format!("[\"{}\"", "x".repeat(ALWAYS_CHECKED_BYTES));
        assert_eq!(shown(&mut drafts, "i", Extent::Head, &data), "");
        let prose = format!("{data}] is no data");
        assert_eq!(shown(&mut drafts, "i", Extent::Head, &prose), "");
        let doubled = prose.clone() + &"y".repeat(data.len());
        assert!(shown(&mut drafts, "i", Extent::Head, &doubled).len() > data.len());
        assert_eq!(shown(&mut drafts, "j", Extent::Head, &data), "");
        assert_ne!(shown(&mut drafts, "j", Extent::Whole, &prose), "");
        assert_eq!(shown(&mut drafts, "k", Extent::Head, &data), "");
        assert_ne!(shown(&mut drafts, "l", Extent::Head, &prose), "");
    }
}
