//! What people say during a drill: short turns in several conversations, some of which leave a line in a file.
//! Each message has a mark of its own, by which its answer, its model calls and its line are known again.

use crate::history::RowId;
use crate::{Dice, Error, NEW, SinkKind, Talks};
use std::collections::BTreeMap;

/// Conversations at the same time.
pub(super) const LANES: usize = 8;
/// Messages that one conversation may have waiting: more than one, so that order can be broken.
const WAITING_MAX: usize = 2;
/// Messages after which a lane starts a new conversation, so that histories stay short: with another peer, or by the
/// chat command, which is a message of its own.
const CONVERSATION_MAX: u32 = 20;

/// The file in a conversation's working directory that messages leave their mark in.
pub(super) const EFFECTS: &str = "effects.txt";

/// Who says what, and what was said.
#[derive(Debug)]
pub(super) struct Traffic {
    seed: u64,
    lanes: Vec<Lane>,
    /// Model calls that the messages need when nothing goes wrong.
    needed: usize,
    said: BTreeMap<u64, RowId>,
    /// What was said before each message in its conversation.
    before: BTreeMap<RowId, Vec<RowId>>,
}

/// Which conversations a message may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The one that the seed chose, or the next that has room: nothing stands still behind one that is slow.
    Anywhere,
    /// Only that one: two daemons are then told the same in the same conversations.
    ItsOwn,
}

#[derive(Debug)]
struct Lane {
    conversation: String,
    generation: u32,
    said: u32,
    /// What was said since the conversation began.
    earlier: Vec<RowId>,
}

impl Lane {
    fn new(number: usize, generation: u32) -> Self {
        Self {
            conversation: format!("drill-{number}-{generation}"),
            generation,
            said: 0,
            earlier: Vec::new(),
        }
    }

    /// Messages that it may have waiting. Before and after a new conversation begins there is one: two conversations of
    /// one canvas are worked on side by side, so their answers have no order.
    fn room(&self) -> usize {
        match self.said {
            0 | CONVERSATION_MAX.. => 1,
            _ => WAITING_MAX,
        }
    }
}

impl Traffic {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            needed: 0,
            lanes: (1..=LANES).map(|number| Lane::new(number, 1)).collect(),
            said: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    pub(super) fn said(&self) -> usize {
        self.said.len()
    }

    pub(super) fn needed(&self) -> usize {
        self.needed
    }

    /// Says the next message if a conversation that it may go to has room. The message itself is decided by the seed
    /// alone, so that every daemon hears the same.
    pub(super) fn say(&mut self, talks: &Talks, place: Place) -> Result<bool, Error> {
        let mark = self.said.len() as u64 + 1;
        let mut dice = Dice::of(self.seed, &[mark]);
        let waiting = talks.waiting();
        let first = usize::try_from(dice.below(LANES as u64)).unwrap_or(0);
        let free = |at: &usize| {
            let lane = self.lanes.get(*at);
            lane.is_some_and(|lane| {
                waiting.get(&lane.conversation).copied().unwrap_or(0) < lane.room()
            })
        };
        let places = match place {
            Place::Anywhere => LANES,
            Place::ItsOwn => 1,
        };
        let found = (0..places)
            .map(|step| (first + step) % LANES)
            .find(|at| free(at));
        let Some((at, lane)) = found.and_then(|at| Some((at, self.lanes.get_mut(at)?))) else {
            return Ok(false);
        };
        let ends = lane.said >= CONVERSATION_MAX;
        if ends && talks.kind() != SinkKind::Probeable {
            *lane = Lane::new(at + 1, lane.generation + 1);
        }
        let (text, calls) = match lane.said {
            CONVERSATION_MAX.. => (NEW.to_owned(), 0),
            _ => text(mark, &mut dice),
        };
        let row = talks.post(&lane.conversation, &text)?;
        self.said.insert(mark, row);
        self.needed += calls;
        if text == NEW {
            lane.said = 0;
            lane.earlier.clear();
        } else {
            lane.said += 1;
            self.before.insert(row, lane.earlier.clone());
            lane.earlier.push(row);
        }
        Ok(true)
    }

    /// The message that a text speaks of: the last mark in it, because what stands before may be a quotation.
    pub(super) fn message_of(&self, text: &str) -> Option<RowId> {
        let (_, after) = text.rsplit_once("[m")?;
        let (mark, _) = after.split_once(']')?;
        self.said.get(&mark.parse().ok()?).copied()
    }

    /// What was said before a message in its conversation.
    pub(super) fn before(&self, row: RowId) -> &[RowId] {
        self.before.get(&row).map_or(&[], Vec::as_slice)
    }

    /// The message that left this line.
    pub(super) fn message_of_line(&self, line: &str) -> Option<RowId> {
        let mark = line.trim().strip_prefix('m')?;
        self.said.get(&mark.parse().ok()?).copied()
    }
}

/// Half of them plain, the rest slow or with an effect; a kill between an effect and its answer is the hard case.
/// With the model calls that it needs: a call for a tool is one more.
fn text(mark: u64, dice: &mut Dice) -> (String, usize) {
    let pause = ["", "sleep:0.1 ", "sleep:0.3 "]
        .get(usize::try_from(dice.below(3)).unwrap_or(0))
        .copied()
        .unwrap_or("");
    let answer = format!("{pause}echo:done m{mark}");
    match dice.below(10) {
        0..5 => (format!("[m{mark}] {answer}"), 1),
        _ => (format!("[m{mark}] append:{EFFECTS}:m{mark} ;; {answer}"), 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TalksOptions;

    async fn said(seed: u64, place: Place) -> (Talks, Traffic) {
        let options = TalksOptions {
            canvases: LANES,
            kind: SinkKind::Probeable,
            ..TalksOptions::default()
        };
        let talks = Talks::start(options).await.unwrap();
        let mut traffic = Traffic::new(seed);
        while traffic.say(&talks, place).unwrap() {}
        (talks, traffic)
    }

    #[tokio::test]
    async fn messages_are_known_again_by_their_marks() {
        let (_talks, traffic) = said(1, Place::Anywhere).await;
        assert_eq!(traffic.said(), LANES * WAITING_MAX, "the rest has to wait");
        let row = RowId(3);
        assert_eq!(traffic.message_of("> [m1] old\n[m3] echo:x"), Some(row));
        assert_eq!(traffic.message_of("nothing"), None);
        assert_eq!(traffic.message_of_line("m3\n"), Some(row));
    }

    #[tokio::test]
    async fn pinned_message_waits_for_its_lane() {
        let (talks, mut traffic) = said(1, Place::ItsOwn).await;
        let before = traffic.said();
        assert!(before < LANES * WAITING_MAX, "another place has room");
        let full = talks.waiting().into_values().max();
        assert_eq!(full, Some(WAITING_MAX));
        assert!(traffic.say(&talks, Place::Anywhere).unwrap());
        assert!((before..=2 * before + 2).contains(&traffic.needed()));
    }

    #[tokio::test]
    async fn long_conversations_are_begun_anew() {
        let (talks, mut traffic) = said(1, Place::Anywhere).await;
        let us = talks.served()[0].clone();
        let answer = |texts: &mut Vec<String>| {
            for message in talks.platform.inbox_of(&us).into_iter().skip(texts.len()) {
                let done = message.text.rsplit_once("echo:");
                let done = done.map_or(
                    "A new conversation begins with your next message.",
                    |(_, done)| done,
                );
                talks.platform.plant_bubble(&us, done).unwrap();
                texts.push(message.text);
            }
        };
        let mut texts = Vec::new();
        while texts.len() < 30 {
            answer(&mut texts);
            traffic.say(&talks, Place::Anywhere).unwrap();
            while traffic.say(&talks, Place::Anywhere).unwrap() {}
            assert!(texts.len() > 2 || talks.waiting().len() > 1);
        }
        let news: Vec<usize> = (0..30).filter(|at| texts[*at] == NEW).collect();
        assert_eq!(news, [20]);
        assert!(!talks.waiting().is_empty());
    }
}
