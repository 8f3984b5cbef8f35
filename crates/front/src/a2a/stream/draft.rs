//! What Codex is writing for the messages of an errand: kept while it may become their answer. Pure.

use super::hold;
use super::scene::Now;
use crate::a2a::task::ARTIFACT_NAME;
use a2a::{Artifact, Part, Task};
use bridge_core::errand::ErrandView;
use bridge_core::port::{Extent, Phase, Said};
use bridge_core::value::MessageId;
use std::collections::{BTreeMap, BTreeSet};

/// What is being written.
#[derive(Debug, Default)]
pub(super) struct Drafts(BTreeMap<MessageId, String>);

impl Drafts {
    /// Takes in what Codex says; what it says on the way comes back, once it is whole.
    pub(super) fn hear(&mut self, message_id: &MessageId, said: &Said) -> Option<String> {
        match (said.phase, said.extent) {
            // Nobody knows how it began; the answer itself comes whole.
            (_, Extent::Middle) | (Phase::Commentary, Extent::Head) => None,
            (Phase::Commentary, Extent::Whole) => Some(said.text.clone()),
            (Phase::Final | Phase::Unmarked, Extent::Head | Extent::Whole) => {
                self.0.insert(message_id.clone(), said.text.clone());
                None
            }
        }
    }

    /// Forgets what was written in turns that are over or cut.
    pub(super) fn keep_flying(&mut self, view: &ErrandView) {
        self.0.retain(|message_id, _| {
            let mut messages = view.messages.iter();
            let found = messages.find(|one| one.message.message_id == *message_id);
            found.is_some_and(|one| {
                one.answer.is_none() && one.message.life.state.name().in_flight()
            })
        });
    }

    /// The task as rows say it, and beside it what is being written.
    pub(super) fn beside(&self, task: &Task, doings: Vec<String>) -> Now {
        let mut task = task.clone();
        let artifacts = task.artifacts.get_or_insert_default();
        let mut open = BTreeSet::new();
        for (message_id, text) in self.shown() {
            let id = message_id.to_string();
            if artifacts.iter().all(|known| known.artifact_id != id) {
                artifacts.push(begun(id.clone(), text));
                open.insert(id);
            }
        }
        Now { task, open, doings }
    }

    /// What may be shown of each.
    fn shown(&self) -> impl Iterator<Item = (&MessageId, &str)> {
        let settled = self.0.iter().map(|(id, text)| (id, hold::settled(text)));
        settled.filter(|(_, text)| !text.is_empty())
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
