//! What people say during a drill: short turns in several conversations, some of which leave a line in a file.
//! Each message has a mark of its own, by which its answer, its model calls and its line are known again.

use bridge_sim::history::RowId;
use bridge_sim::{Dice, Platform};
use std::collections::BTreeMap;

/// Conversations at the same time.
const LANES: usize = 8;
/// Messages that one conversation may have waiting: more than one, so that order can be broken.
const WAITING_MAX: usize = 2;
/// Messages after which a lane starts a new conversation, so that histories stay short.
const CONVERSATION_MAX: u32 = 20;

/// The file in a conversation's working directory that messages leave their mark in.
pub(super) const EFFECTS: &str = "effects.txt";

/// Who says what, and what was said.
#[derive(Debug)]
pub(super) struct Traffic {
    lanes: Vec<Lane>,
    said: BTreeMap<u64, RowId>,
}

#[derive(Debug)]
struct Lane {
    conversation: String,
    generation: u32,
    said: u32,
}

impl Lane {
    fn new(number: usize, generation: u32) -> Self {
        Self {
            conversation: format!("drill-{number}-{generation}"),
            generation,
            said: 0,
        }
    }
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self {
            lanes: (1..=LANES).map(|number| Lane::new(number, 1)).collect(),
            said: BTreeMap::new(),
        }
    }

    pub(super) fn said(&self) -> usize {
        self.said.len()
    }

    /// Says something in a conversation that has room for it, if there is one.
    pub(super) fn say(&mut self, platform: &Platform, dice: &mut Dice) -> anyhow::Result<()> {
        let waiting = platform.waiting();
        let first = usize::try_from(dice.below(LANES as u64))?;
        let places = (0..LANES).map(|step| (first + step) % LANES);
        let free = |at: &usize| {
            let lane = self.lanes.get(*at);
            lane.is_some_and(|lane| {
                waiting.get(&lane.conversation).copied().unwrap_or(0) < WAITING_MAX
            })
        };
        let Some(at) = places.into_iter().find(free) else {
            return Ok(());
        };
        let Some(lane) = self.lanes.get_mut(at) else {
            return Ok(());
        };
        let mark = u64::try_from(self.said.len())? + 1;
        let row = platform.post(&lane.conversation, "drill", &text(mark, dice))?;
        self.said.insert(mark, row);
        lane.said += 1;
        if lane.said >= CONVERSATION_MAX {
            *lane = Lane::new(at + 1, lane.generation + 1);
        }
        Ok(())
    }

    /// The message that a text speaks of: the last mark in it, because what stands before may be a quotation.
    pub(super) fn message_of(&self, text: &str) -> Option<RowId> {
        let (_, after) = text.rsplit_once("[m")?;
        let (mark, _) = after.split_once(']')?;
        self.said.get(&mark.parse().ok()?).copied()
    }

    /// The message that left this line.
    pub(super) fn message_of_line(&self, line: &str) -> Option<RowId> {
        let mark = line.trim().strip_prefix('m')?;
        self.said.get(&mark.parse().ok()?).copied()
    }

    /// Whether an answer is the one to this message.
    pub(super) fn is_own(&self, row: RowId, answer: &str) -> bool {
        let mark = answer.trim().strip_prefix("done m");
        let mark = mark.and_then(|mark| mark.parse().ok());
        mark.and_then(|mark: u64| self.said.get(&mark)) == Some(&row)
    }
}

/// Half of them plain, the rest slow or with an effect; a kill between an effect and its answer is the hard case.
fn text(mark: u64, dice: &mut Dice) -> String {
    let pause = ["", "sleep:0.1 ", "sleep:0.3 "]
        .get(usize::try_from(dice.below(3)).unwrap_or(0))
        .copied()
        .unwrap_or("");
    match dice.below(10) {
        0..5 => format!("[m{mark}] {pause}echo:done m{mark}"),
        _ => format!("[m{mark}] append:{EFFECTS}:m{mark} ;; {pause}echo:done m{mark}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_sim::PlatformOptions;

    #[tokio::test]
    async fn messages_are_known_again_by_their_marks() {
        let platform = Platform::start(PlatformOptions::default()).await.unwrap();
        let (mut traffic, mut dice) = (Traffic::new(), Dice::new(1));
        for _ in 0..100 {
            traffic.say(&platform, &mut dice).unwrap();
        }
        assert_eq!(traffic.said(), LANES * WAITING_MAX, "the rest has to wait");
        let row = RowId(3);
        assert_eq!(traffic.message_of("> [m1] old\n[m3] echo:x"), Some(row));
        assert_eq!(traffic.message_of("nothing"), None);
        assert_eq!(traffic.message_of_line("m3\n"), Some(row));
        assert!(traffic.is_own(row, "done m3\n"));
        assert!(!traffic.is_own(row, "done m2") && !traffic.is_own(row, "done"));
    }
}
