//! Texts of a running turn between nodes: sent in parts, and put together again.

use bridge_core::port::{Extent, TextUpdate};
use bridge_core::value::MessageId;
use bridge_store::{LiveNote, piece};
use std::collections::VecDeque;
use std::sync::Arc;

/// Items of a turn whose texts wait to be sent; of more of them the oldest are not shown elsewhere.
const ITEMS_MAX: usize = 16;

/// The newest text of a turn on another node, as far as it came.
#[derive(Debug, Default)]
pub(super) struct ReceivedText {
    text: Option<TextUpdate>,
    /// No part is missing.
    is_whole: bool,
}

impl ReceivedText {
    /// Whether nothing came yet, or a part is missing.
    pub(super) fn lacks(&self) -> bool {
        !self.is_whole
    }

    /// Whether this is the text that was received, and not one of another turn.
    pub(super) fn is_in(&self, text: &TextUpdate) -> bool {
        let received = self.text.as_ref();
        received.is_some_and(|received| received.item_id == text.item_id)
    }

    /// The text with a part that came. Nothing where the part is known: it was sent again for another node.
    pub(super) fn add(&mut self, from: usize, part: TextUpdate) -> Option<TextUpdate> {
        let known = self.text.as_ref();
        let known = known.filter(|known| known.item_id == part.item_id);
        let text = known.map_or("", |known| known.text.as_str());
        let Some((before, rest)) = text.split_at_checked(from) else {
            self.is_whole = false;
            return None;
        };
        self.is_whole = true;
        // A text is whole where its last part ends, and no earlier part says so.
        if known.is_some() && part.extent != Extent::Whole && rest.starts_with(&part.text) {
            return None;
        }
        let text = before.to_owned() + &part.text;
        let now = TextUpdate { text, ..part };
        if known == Some(&now) {
            return None;
        }
        Some(self.text.insert(now).clone())
    }
}

/// Texts of a turn on their way to other nodes.
#[derive(Debug, Default)]
pub(super) struct SentTexts {
    /// The newest of each item that is not sent yet: an item ends with its whole text, which the next one must not replace.
    unsent: VecDeque<Arc<TextUpdate>>,
    /// What was sent last, and how many bytes of it.
    sent: Option<(Arc<TextUpdate>, usize)>,
}

impl SentTexts {
    pub(super) fn put(&mut self, text: Arc<TextUpdate>) {
        match self.unsent.back_mut() {
            Some(last) if last.item_id == text.item_id => *last = text,
            _ => {
                if self.unsent.len() >= ITEMS_MAX {
                    self.unsent.pop_front();
                }
                self.unsent.push_back(text);
            }
        }
    }

    /// Somebody lacks some of the text: all of it goes again, and who knows it passes over it.
    pub(super) fn again(&mut self, current: Option<Arc<TextUpdate>>) {
        self.sent = None;
        if self.unsent.is_empty() {
            self.unsent.extend(current);
        }
    }

    /// Sends in parts what was not sent; what finds no room now goes with the next call.
    pub(super) fn send(&mut self, message_id: &MessageId, mut tell: impl FnMut(LiveNote) -> bool) {
        while let Some(update) = self.unsent.front() {
            let from = match &self.sent {
                Some((before, bytes)) if begins_alike(before, update, *bytes) => *bytes,
                Some(_) | None => 0,
            };
            let rest = update.text.get(from..).unwrap_or_default();
            let part = piece(rest);
            let is_last = part.len() == rest.len();
            let taken = tell(LiveNote::Text {
                message_id: message_id.clone(),
                item_id: update.item_id.clone(),
                phase: update.phase,
                extent: match update.extent {
                    Extent::Whole if !is_last => Extent::Head,
                    extent => extent,
                },
                from,
                text: part.to_owned(),
            });
            if !taken {
                return;
            }
            self.sent = Some((Arc::clone(update), from.saturating_add(part.len())));
            if is_last {
                self.unsent.pop_front();
            }
        }
    }
}

/// Whether what was sent of one text is the beginning of the other one.
fn begins_alike(one: &TextUpdate, other: &TextUpdate, bytes: usize) -> bool {
    let (begun, now) = (one.text.get(..bytes), other.text.get(..bytes));
    one.item_id == other.item_id && now.is_some() && begun == now
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::Phase;
    use bridge_core::value::ItemId;

    fn update(item: &str, text: &str) -> TextUpdate {
        TextUpdate {
            item_id: ItemId::new(item),
            phase: Phase::Unmarked,
            extent: Extent::Whole,
            text: text.to_owned(),
        }
    }

    fn notes(texts: &mut SentTexts, update: TextUpdate) -> Vec<LiveNote> {
        let mut notes = Vec::new();
        texts.put(Arc::new(update));
        texts.send(&MessageId::new("m"), |note| {
            notes.push(note);
            true
        });
        notes
    }

    /// The texts that watchers see of some notes.
    fn seen(received: &mut ReceivedText, notes: Vec<LiveNote>) -> Vec<String> {
        let mut texts = Vec::new();
        for note in notes {
            let LiveNote::Text {
                item_id,
                phase,
                extent,
                from,
                text,
                ..
            } = note
            else {
                panic!("{note:?}");
            };
            let part = TextUpdate {
                item_id,
                phase,
                extent,
                text,
            };
            texts.extend(received.add(from, part).map(|update| update.text));
        }
        texts
    }

    #[test]
    fn pieces_make_the_whole_text() {
        let (mut received, mut sent) = (ReceivedText::default(), SentTexts::default());
        let (long, longer) = ("ä".repeat(5_000), "ä".repeat(5_200));
        for text in [
            ("one", &long),
            ("one", &longer),
            ("two", &"short".to_owned()),
        ] {
            let notes = notes(&mut sent, update(text.0, text.1));
            assert_eq!(seen(&mut received, notes).last(), Some(text.1));
        }
    }

    #[test]
    fn lost_pieces_come_when_sent_again() {
        let mut received = ReceivedText::default();
        let whole = "x".repeat(5_000);
        let mut first = notes(&mut SentTexts::default(), update("one", &whole));
        first.remove(1);
        assert_eq!(seen(&mut received, first).len(), 1);
        assert!(received.lacks());
        let again = notes(&mut SentTexts::default(), update("one", &whole));
        let shown = seen(&mut received, again);
        assert!(shown.is_sorted_by_key(String::len), "it only grows");
        assert!(shown[0].len() > 1_200, "what is known is not shown again");
        assert_eq!(shown.last(), Some(&whole));
        assert!(!received.lacks());
    }

    #[test]
    fn what_is_known_is_not_shown_again() {
        let mut received = ReceivedText::default();
        for extent in [Extent::Head, Extent::Whole] {
            let text = TextUpdate {
                extent,
                ..update("one", &"word ".repeat(1_000))
            };
            for is_new in [true, false] {
                let notes = notes(&mut SentTexts::default(), text.clone());
                assert_eq!(!seen(&mut received, notes).is_empty(), is_new, "{extent:?}");
            }
        }
    }

    #[test]
    fn text_with_another_beginning_is_replaced() {
        let (mut received, mut sent) = (ReceivedText::default(), SentTexts::default());
        let joined = TextUpdate {
            extent: Extent::Middle,
            ..update("one", "the end")
        };
        let whole = update("one", "From its beginning to the end");
        for text in [joined, whole] {
            let notes = notes(&mut sent, text.clone());
            assert_eq!(seen(&mut received, notes), [text.text]);
        }
    }

    #[test]
    fn text_without_room_is_sent_later() {
        let (mut received, mut sent) = (ReceivedText::default(), SentTexts::default());
        let long = "x".repeat(20_000);
        sent.put(Arc::new(update("one", &long)));
        sent.put(Arc::new(update("two", "short")));
        let (mut taken, mut calls) = (Vec::new(), 0);
        while !sent.unsent.is_empty() {
            let before = taken.len();
            sent.send(&MessageId::new("m"), |note| {
                let has_room = taken.len() < before + 3;
                taken.extend(has_room.then_some(note));
                has_room
            });
            calls += 1;
        }
        assert_eq!(calls, 6);
        let texts = seen(&mut received, taken);
        assert!(texts.contains(&long));
        assert_eq!(texts.last().unwrap(), "short");
    }
}
