//! Answers that Codex is still writing, per message of a task. Pure.
//!
//! The end of an unfinished answer is held back where more text could turn it into something else: JSON data, or the line
//! that states the outcome. The meaning of the finished answer is decided in `task` and in the core's `outcome`.

use super::snapshot::CurrentTask;
use crate::a2a::task::artifact_with;
use a2a::{Part, Task};
use bridge_core::outcome::Outcome;
use bridge_core::port::{Extent, Phase, TextUpdate};
use bridge_core::task::TaskSnapshot;
use bridge_core::value::{ItemId, MessageId};
use serde::de::IgnoredAny;
use serde_json::Deserializer;
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
        let shown = publishable(&update.text).to_owned();
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
        let open = shown.filter_map(|(message_id, draft)| {
            artifact_with(message_id, vec![Part::text(draft.shown.as_str())])
        });
        CurrentTask {
            rows: Arc::clone(task),
            open: open.collect(),
            progress,
        }
    }
}

const FENCE: &str = "```";

/// The prefix of `text` that stays valid whatever follows. It is at least one character short, so that the last chunk of
/// an answer is never empty.
pub(super) fn publishable(text: &str) -> &str {
    if may_be_json(text) {
        return "";
    }
    let text = text.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let kept = if may_be_outcome(last) {
        before.trim_end()
    } else {
        text
    };
    let last = kept.char_indices().next_back().map_or(0, |(at, _)| at);
    kept.get(..last).unwrap_or_default().trim_end()
}

/// Whether a line may grow into an outcome line. An empty line may.
fn may_be_outcome(line: &str) -> bool {
    let line = line.trim();
    let mut outcomes = Outcome::SAID.into_iter();
    outcomes.any(|outcome| outcome.line().starts_with(line))
}

/// Whether the whole answer may become one JSON object or array, with or without a code block.
fn may_be_json(text: &str) -> bool {
    let text = text.trim_start();
    match text.strip_prefix(FENCE) {
        Some(rest) => may_be_fenced(rest),
        None if FENCE.starts_with(text) => true,
        None => begins_json(text, may_be_outcome),
    }
}

fn may_be_fenced(rest: &str) -> bool {
    let Some((language, inside)) = rest.split_once('\n') else {
        return "json".starts_with(rest.trim());
    };
    if !matches!(language.trim(), "" | "json") {
        return false;
    }
    let inside = inside.trim_start();
    match inside.split_once(FENCE) {
        Some((inside, after)) => begins_json(inside, str::is_empty) && may_be_outcome(after),
        None if inside.is_empty() => true,
        None => begins_json(inside.trim_end_matches('`'), str::is_empty),
    }
}

/// Whether `text` is a prefix of an object or array, or a whole one followed by a rest that `more` accepts.
fn begins_json(text: &str, more: impl Fn(&str) -> bool) -> bool {
    if !text.starts_with(['{', '[']) {
        return false;
    }
    let mut values = Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => {
            let rest = text.get(values.byte_offset()..).unwrap_or_default();
            more(rest.trim())
        }
        Some(Err(error)) => error.is_eof(),
        None => true,
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

    #[test]
    fn text_is_shown_but_for_its_end() {
        assert_eq!(publishable("hello world"), "hello worl");
        assert_eq!(publishable("a\n\nb "), "a");
        assert_eq!(publishable("x"), "");
        assert_eq!(publishable("Grüß Gott ß"), "Grüß Gott");
        assert_eq!(publishable("see [1]\nand [2]"), "see [1]\nand [2");
    }

    #[test]
    fn holds_back_possible_status_markers() {
        for line in [
            "[",
            "[inp",
            "[input-required]",
            "[rejected]\n",
            " [message]",
        ] {
            assert_eq!(
                publishable(&format!("Which one?\n\n{line}")),
                "Which one",
                "{line}"
            );
        }
        assert_eq!(publishable("no [rej"), "no [re");
        assert_eq!(publishable("[rejected]\nnot so"), "[rejected]\nnot s");
        assert_eq!(publishable("[mess"), "");
        assert_eq!(publishable("[messy"), "[mess");
    }

    #[test]
    fn holds_back_possible_json_not_prose() {
        for text in [
            "{\"a\": [1, 2",
            "{\"a\": 1}",
            "[1, 2]\n[input-req",
            "```",
            "```js",
            "```json\n",
            "```json\n{\"a\":",
            "```\n[1]\n``",
            "```\n[1]\n```\n",
            "`",
        ] {
            assert_eq!(publishable(text), "", "{text}");
        }
        for text in [
            "{not json",
            "[link](x) is",
            "{\"a\": 1} is the answer",
            "```rust\nfn main",
            "```\nplain",
            "```json\n{}\n``` and so",
            "42 is the",
        ] {
            assert_ne!(publishable(text), "", "{text}");
        }
    }
}
