//! What Codex is writing for the messages of a task: kept while it may become their answer. Pure.

use super::hold;
use super::scene::Now;
use crate::a2a::task::ARTIFACT_NAME;
use a2a::{Artifact, Part, Task};
use bridge_core::port::{Extent, Phase, TextUpdate};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{ItemId, MessageId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A text up to this size is looked at with every piece; a longer one that is held back only when it has doubled, so
/// that all looks together cost as much as its length.
const LOOKED_AT_ALWAYS: usize = 1024;

/// What is being written.
#[derive(Debug, Default)]
pub(super) struct Drafts(BTreeMap<MessageId, Draft>);

/// One item of Codex that may become an answer.
#[derive(Debug)]
struct Draft {
    item_id: ItemId,
    /// What may be shown of it.
    shown: String,
    /// All of it is held back until it is so long.
    held_below: usize,
}

impl Draft {
    fn of(said: &TextUpdate, before: Option<Self>) -> Self {
        let same = before.filter(|before| before.item_id == said.item_id);
        let held_below = match said.extent {
            Extent::Head | Extent::Middle => same.map_or(0, |same| same.held_below),
            Extent::Whole => 0,
        };
        let item_id = said.item_id.clone();
        let length = said.text.len();
        if length < held_below {
            return Self {
                item_id,
                shown: String::new(),
                held_below,
            };
        }
        let shown = hold::settled(&said.text).to_owned();
        let held_below = if shown.is_empty() && length > LOOKED_AT_ALWAYS {
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
    /// Takes in what Codex says; what it says on the way comes back, once it is whole.
    pub(super) fn hear(&mut self, message_id: &MessageId, said: &TextUpdate) -> Option<String> {
        match (said.phase, said.extent) {
            // Nobody knows how it began; the answer itself comes whole.
            (_, Extent::Middle) | (Phase::Commentary, Extent::Head) => None,
            (Phase::Commentary, Extent::Whole) => Some(said.text.clone()),
            (Phase::Final | Phase::Unmarked, Extent::Head | Extent::Whole) => {
                let draft = Draft::of(said, self.0.remove(message_id));
                self.0.insert(message_id.clone(), draft);
                None
            }
        }
    }

    /// Forgets what was written in turns that are over or cut.
    pub(super) fn keep_flying(&mut self, view: &TaskSnapshot) {
        self.0.retain(|message_id, _| {
            let mut messages = view.messages.iter();
            let found = messages.find(|one| one.message.message_id == *message_id);
            found.is_some_and(|one| {
                one.answer.is_none() && one.message.life.state.name().in_flight()
            })
        });
    }

    /// The task as rows say it, and beside it what is being written.
    pub(super) fn beside(&self, task: &Arc<Task>, doings: Vec<String>) -> Now {
        let answered = |id: &str| {
            let mut known = task.artifacts.iter().flatten();
            known.any(|known| known.artifact_id == id)
        };
        let shown = self.0.iter().filter(|(message_id, draft)| {
            !draft.shown.is_empty() && !answered(message_id.as_str())
        });
        Now {
            rows: Arc::clone(task),
            open: shown
                .map(|(message_id, draft)| begun(message_id.to_string(), &draft.shown))
                .collect(),
            doings,
        }
    }
}

fn begun(artifact_id: String, text: &str) -> Artifact {
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
        let said = TextUpdate {
            item_id: ItemId::new(item),
            phase,
            extent,
            text: text.to_owned(),
        };
        drafts.hear(&id, &said);
        drafts.0[&id].shown.clone()
    }

    #[test]
    fn rechecks_long_draft_on_doubling_or_completion() {
        let mut drafts = Drafts::default();
        let data = format!("[\"{}\"", "x".repeat(LOOKED_AT_ALWAYS));
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
