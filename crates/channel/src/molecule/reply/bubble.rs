//! Whether a bubble on the canvas is a certain reply's. The platform gives a bubble no key of ours, so bubbles with the
//! reply's text are counted against the replies that are known to have shown one.
//!
//! Every reply with that text that is confirmed takes a bubble from between its first try and its confirmation; what
//! is left over and not older than our first try is ours. So two replies that say the same never confirm each other.

use crate::locked;
use crate::molecule::wire::Stamp;
use crate::poll::now;
use bridge_core::value::{ReplyKey, Timestamp, Twin};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

/// How far our clock, corrected by the platform's, may still be off: the platform tells whole seconds.
const SLACK_MS: i64 = 3_000;
/// Confirmed replies that are remembered until the ledger surely shows them.
const CONFIRMED_MAX: usize = 512;
/// Names texts; any fixed value does.
const TEXTS: Uuid = Uuid::from_u128(0x8a0c_31f4_6d5e_4a7b_9c1d_2e3f_4a5b_6c7d);

/// Our clock against the platform's.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// What must be added to ours, in milliseconds.
    ahead_ms: AtomicI64,
}

impl Clocks {
    /// Notes what time the platform says it is.
    pub(crate) fn note(&self, date: Option<Stamp>) {
        if let Some(date) = date {
            let ahead = (date.0 / 1_000).saturating_sub(now().0);
            self.ahead_ms.store(ahead, Ordering::Relaxed);
        }
    }

    /// A time of ours on the platform's clock.
    fn theirs(&self, at: Timestamp) -> Stamp {
        let ms = at.0.saturating_add(self.ahead_ms.load(Ordering::Relaxed));
        Stamp(ms.saturating_mul(1_000))
    }

    /// Bubbles of a reply are not older than this.
    pub(crate) fn window(&self, first_try: Timestamp) -> Stamp {
        self.theirs(first_try).plus_ms(-SLACK_MS)
    }

    /// Bubbles of a reply are not younger than this.
    fn window_end(&self, sent: Timestamp) -> Stamp {
        self.theirs(sent).plus_ms(SLACK_MS)
    }
}

/// A bubble that shows a certain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bubble {
    pub(crate) row: String,
    pub(crate) at: Stamp,
}

/// Replies confirmed since the start, so that two replies of unknown outcome never claim the same bubble.
#[derive(Debug, Default)]
pub(crate) struct Bubbles {
    confirmed: Mutex<VecDeque<(Uuid, Twin)>>,
    /// Texts that are being shown or looked for now.
    turns: Mutex<HashMap<Uuid, Arc<tokio::sync::Mutex<()>>>>,
}

impl Bubbles {
    /// Waits until no other reply with this text is being shown or looked for. A bubble whose confirmation is still on
    /// its way would be taken for the one that is looked for, and that one would never be sent.
    pub(crate) async fn alone(&self, text: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = locked(&self.turns);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(name(text)).or_default())
        };
        turn.lock_owned().await
    }

    pub(crate) fn confirm(&self, text: &str, twin: Twin) {
        let mut confirmed = locked(&self.confirmed);
        confirmed.push_back((name(text), twin));
        if confirmed.len() > CONFIRMED_MAX {
            confirmed.pop_front();
        }
    }

    /// Other replies with this text that show a bubble: those of the ledger, and those it may not show yet.
    pub(crate) fn others(&self, text: &str, key: &ReplyKey, twins: &[Twin]) -> Vec<Twin> {
        let text = name(text);
        let confirmed = locked(&self.confirmed);
        let here = confirmed.iter().filter(|(named, _)| *named == text);
        let mut others: Vec<Twin> = twins.to_vec();
        for (_, twin) in here {
            if others.iter().all(|known| known.key != twin.key) {
                others.push(twin.clone());
            }
        }
        others.retain(|other| other.key != *key);
        others
    }
}

fn name(text: &str) -> Uuid {
    Uuid::new_v5(&TEXTS, text.as_bytes())
}

/// The bubble that must be ours, if there is one. Oldest first, each bubble goes to that one of the others it can
/// belong to which was confirmed first: no other way gives more of them a bubble.
pub(crate) fn ours(
    mut bubbles: Vec<Bubble>,
    mut others: Vec<Twin>,
    first_try: Timestamp,
    clocks: &Clocks,
) -> Option<Bubble> {
    bubbles.sort_by_key(|bubble| bubble.at);
    others.sort_by_key(|other| other.sent_at);
    let belongs = |bubble: &Bubble, other: &Twin| {
        let begun = bubble.at >= clocks.window(other.first_try_at);
        begun && bubble.at <= clocks.window_end(other.sent_at)
    };
    bubbles.retain(|bubble| {
        let owner = others.iter().position(|other| belongs(bubble, other));
        owner.map(|owner| others.remove(owner)).is_none()
    });
    let window = clocks.window(first_try);
    bubbles.into_iter().find(|bubble| bubble.at >= window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bubbles(seconds: &[i64]) -> Vec<Bubble> {
        let bubble = |second: &i64| Bubble {
            row: format!("b{second}"),
            at: Stamp(second * 1_000_000),
        };
        seconds.iter().map(bubble).collect()
    }

    fn found(shown: &[i64], others: &[i64], first_try: i64) -> Option<String> {
        let at_once: Vec<(i64, i64)> = others.iter().map(|second| (*second, *second)).collect();
        found_among(shown, &at_once, first_try)
    }

    /// The others with their first try and their confirmation.
    fn found_among(shown: &[i64], others: &[(i64, i64)], first_try: i64) -> Option<String> {
        let other = |(tried, sent): &(i64, i64)| Twin {
            key: ReplyKey::new(tried.to_string()),
            first_try_at: Timestamp(tried * 1_000),
            sent_at: Timestamp(sent * 1_000),
        };
        let others = others.iter().map(other).collect();
        let first_try = Timestamp(first_try * 1_000);
        ours(bubbles(shown), others, first_try, &Clocks::default()).map(|bubble| bubble.row)
    }

    #[test]
    fn bubble_confirms_exactly_one_reply() {
        let bubble = |second: i64| Some(format!("b{second}"));
        // Nobody else said it.
        assert_eq!(found(&[], &[], 100), None);
        assert_eq!(found(&[101], &[], 100), bubble(101));
        // A bubble from long before is somebody else's.
        assert_eq!(found(&[50], &[], 100), None);
        // The answer before said the same and was confirmed: its bubble is not ours.
        assert_eq!(found(&[99], &[99], 100), None);
        assert_eq!(found(&[99, 101], &[99], 100), bubble(101));
        // Another conversation said the same at the same time.
        assert_eq!(found(&[100], &[100], 100), None);
        assert_eq!(found(&[100, 102], &[100], 100), bubble(102));
        // One that was tried after us and confirmed, with one bubble and with two.
        assert_eq!(found(&[103], &[102], 100), None);
        assert_eq!(found(&[101, 103], &[103], 100), bubble(103));
    }

    #[test]
    fn long_retried_reply_has_one_bubble() {
        let bubble = |second: i64| Some(format!("b{second}"));
        // Tried for a quarter of an hour and shown just before we were cut off: not ours.
        assert_eq!(found_among(&[900], &[(0, 900)], 901), None);
        assert_eq!(found_among(&[900, 902], &[(0, 900)], 901), bubble(902));
        // Shown at its first try and confirmed late: ours is ours.
        assert_eq!(found_among(&[1, 901], &[(0, 900)], 901), bubble(901));
        // A third one, long over, keeps its own bubble, so that the long one has the late one.
        assert_eq!(found_among(&[1, 900], &[(0, 900), (0, 2)], 901), None);
        // What is shown long after a reply was confirmed is not that reply's.
        assert_eq!(found_among(&[60], &[(40, 41)], 50), bubble(60));
    }

    #[test]
    fn platform_clock_skew_is_corrected() {
        let clocks = Clocks::default();
        let ahead = now().plus_ms(3_600_000);
        clocks.note(Some(Stamp(ahead.0 * 1_000)));
        let shown = Bubble {
            row: "b".to_owned(),
            at: Stamp(ahead.0 * 1_000),
        };
        let found = ours(vec![shown.clone()], Vec::new(), now(), &clocks);
        assert_eq!(found.as_ref(), Some(&shown));
        let later = now().plus_ms(60_000);
        assert_eq!(ours(vec![shown], Vec::new(), later, &clocks), None);
    }

    #[tokio::test]
    async fn equal_texts_are_serialized() {
        use futures_util::FutureExt;
        let memory = Bubbles::default();
        let first = memory.alone("ok").await;
        assert!(memory.alone("ok").now_or_never().is_none());
        let other = memory.alone("no").now_or_never().unwrap();
        drop(first);
        let second = memory.alone("ok").now_or_never().unwrap();
        drop((second, other));
        drop(memory.alone("new").await);
        assert_eq!(memory.turns.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_reply_is_no_other_to_itself() {
        let memory = Bubbles::default();
        let twin = |key: &str| Twin {
            key: ReplyKey::new(key),
            first_try_at: Timestamp(1),
            sent_at: Timestamp(2),
        };
        memory.confirm("ok", twin("a"));
        memory.confirm("ok", twin("b"));
        memory.confirm("no", twin("c"));
        assert_eq!(
            memory.others("ok", &ReplyKey::new("a"), &[twin("b"), twin("d")]),
            [twin("b"), twin("d")]
        );
    }
}
