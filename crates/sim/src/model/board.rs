//! What the model knows of itself: requests seen, streams under way, gates opened, failures
//! already played. One value behind a `watch`, so that whoever waits is woken by the change.
//! Nothing here speaks HTTP.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::watch;

use super::quota::QuotaUse;
use super::seen::Seen;

/// How many requests are remembered, the latest ones.
const MOST_SEEN: usize = 4096;
/// How many bytes of their texts; long conversations would hold all of them again and again.
const MOST_SEEN_BYTES: usize = 64 << 20;
/// How many opened gates are remembered, the latest ones.
const MOST_RELEASED: usize = 4096;
/// How many counted prompts (`fail:500:1`) are remembered, the latest ones.
const MOST_SPENT: usize = 4096;
/// How many streams may be under way at once; more are refused.
pub(super) const MOST_ACTIVE: usize = 1024;

/// The state; see the methods of `ScriptedModel` for what each part means.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) seen: VecDeque<Seen>,
    seen_bytes: usize,
    pub(super) total: u64,
    pub(super) active: usize,
    pub(super) max_active: usize,
    pub(super) aborted: u64,
    pub(super) quota: QuotaUse,
    waiting: Vec<String>,
    released: VecDeque<String>,
    spent: VecDeque<(u64, u32)>,
}

impl Board {
    pub(super) fn is_waiting(&self, name: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting == name)
    }

    pub(super) fn is_released(&self, name: &str) -> bool {
        self.released.iter().any(|released| released == name)
    }

    pub(super) fn release(&mut self, name: &str) {
        if self.is_released(name) {
            return;
        }
        self.released.push_back(name.to_owned());
        if self.released.len() > MOST_RELEASED {
            self.released.pop_front();
        }
    }

    /// Takes a request in, and forgets old ones beyond the limits.
    pub(super) fn see(&mut self, mut seen: Seen) {
        seen.number = self.total;
        self.total += 1;
        self.seen_bytes += seen.weight();
        self.seen.push_back(seen);
        while self.seen.len() > MOST_SEEN
            || (self.seen_bytes > MOST_SEEN_BYTES && self.seen.len() > 1)
        {
            let forgotten = self.seen.pop_front().map_or(0, |seen| seen.weight());
            self.seen_bytes = self.seen_bytes.saturating_sub(forgotten);
        }
    }

    /// Whether a failure that plays `times` times (always, without a number) plays once
    /// again. `failure` is whatever tells it from others: its kind, prompt and step.
    pub(super) fn spend(&mut self, failure: impl Hash, times: Option<u32>) -> bool {
        let Some(times) = times else { return true };
        let mut hasher = DefaultHasher::new();
        failure.hash(&mut hasher);
        let key = hasher.finish();
        if let Some((_, spent)) = self.spent.iter_mut().find(|(known, _)| *known == key) {
            *spent = spent.saturating_add(1);
            return *spent <= times;
        }
        self.spent.push_back((key, 1));
        if self.spent.len() > MOST_SPENT {
            self.spent.pop_front();
        }
        times > 0
    }
}

/// The board as its writers hold it.
pub(super) type Shared = Arc<watch::Sender<Board>>;

/// A stream under way. Dropped before it finished, the client has gone: it counts as aborted.
#[derive(Debug)]
pub(super) struct Active {
    board: Shared,
    finished: bool,
}

impl Active {
    /// None if too many are under way already.
    pub(super) fn begin(board: &Shared) -> Option<Self> {
        let begun = board.send_if_modified(|board| {
            let room = board.active < MOST_ACTIVE;
            if room {
                board.active += 1;
                board.max_active = board.max_active.max(board.active);
            }
            room
        });
        begun.then(|| Self {
            board: Arc::clone(board),
            finished: false,
        })
    }

    /// The model has said all it wanted to.
    pub(super) fn finish(&mut self) {
        self.end(|_| ());
    }

    fn end(&mut self, and: impl FnOnce(&mut Board)) {
        if !std::mem::replace(&mut self.finished, true) {
            self.board.send_modify(|board| {
                board.active = board.active.saturating_sub(1);
                and(board);
            });
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.end(|board| board.aborted += 1);
    }
}

/// A stream that is held; dropped when it goes on or its client has gone.
#[derive(Debug)]
pub(super) struct Waiting {
    board: Shared,
    name: String,
}

impl Waiting {
    pub(super) fn begin(board: &Shared, name: &str) -> Self {
        board.send_modify(|board| board.waiting.push(name.to_owned()));
        Self {
            board: Arc::clone(board),
            name: name.to_owned(),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.board.send_modify(|board| {
            if let Some(at) = board.waiting.iter().position(|name| *name == self.name) {
                board.waiting.swap_remove(at);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Shared {
        Arc::new(watch::Sender::new(Board::default()))
    }

    #[test]
    fn counted_failure_plays_limited_times() {
        let mut board = Board::default();
        let mut spend = |kind, times| board.spend((kind, "prompt", 0), times);
        assert_eq!(
            [spend("fail", Some(2)), spend("fail", Some(2))],
            [true, true]
        );
        assert!(!spend("fail", Some(2)));
        assert!(spend("break", Some(1)), "a break is counted apart");
        assert!(spend("fail", None), "without a number it always plays");
        assert!(!spend("other", Some(0)));
    }

    #[test]
    fn seen_requests_are_bounded() {
        let mut board = Board::default();
        for _ in 0..=MOST_SEEN {
            board.see(Seen::default());
        }
        assert_eq!(board.seen.len(), MOST_SEEN);
        assert_eq!(board.seen.front().unwrap().number, 1);
        let large = || Seen {
            users: vec!["x".repeat(MOST_SEEN_BYTES / 2 + 1)],
            ..Seen::default()
        };
        board.see(large());
        board.see(large());
        assert_eq!(board.seen.len(), 1);
    }

    #[test]
    fn dropped_stream_counts_as_aborted() {
        let board = shared();
        let mut done = Active::begin(&board).unwrap();
        let gone = Active::begin(&board).unwrap();
        done.finish();
        drop((done, gone));
        let state = board.borrow();
        assert_eq!((state.active, state.max_active, state.aborted), (0, 2, 1));
    }

    #[test]
    fn too_many_streams_are_refused() {
        let board = shared();
        let all: Vec<_> = (0..=MOST_ACTIVE).map(|_| Active::begin(&board)).collect();
        assert!(all[MOST_ACTIVE - 1].is_some());
        assert!(all[MOST_ACTIVE].is_none());
    }

    #[test]
    fn two_may_wait_at_one_gate() {
        let board = shared();
        let first = Waiting::begin(&board, "a");
        let second = Waiting::begin(&board, "a");
        drop(first);
        assert!(board.borrow().is_waiting("a"));
        drop(second);
        assert!(!board.borrow().is_waiting("a"));
    }
}
