//! What goes wrong at the platform, on demand and by chance: faults of single calls, rows that come into sight late,
//! streams that hang. Playing the faults of calls is the server's business.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::route::Route;
use super::rows::Visible;
use crate::random::Dice;

/// Longest script for one kind of call; what is beyond it is not taken.
const SCRIPT_MOST: usize = 1_024;
/// Longest time that the weather delays a call.
const DELAY_MOST_MS: u64 = 300;
/// Replies whose tries are counted; the weather of further ones does not depend on their text.
const REPLIES_MOST: usize = 100_000;

/// What an answer that is not the platform's own carries.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultBody {
    /// JSON, as the platform would write it.
    Json(Value),
    /// A page for people, as a proxy in between would write it.
    Html,
    /// Nothing.
    Empty,
}

/// One thing that goes wrong with one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum MoleculeFault {
    /// Something in between answers; nothing was taken.
    Refuse {
        /// The status.
        status: u16,
        /// Seconds for `Retry-After`.
        retry_after: Option<u32>,
        /// What the answer carries.
        body: FaultBody,
    },
    /// It is taken, and the connection is cut before the answer.
    LoseAnswer,
    /// The connection is cut and nothing was taken; the caller can't tell the difference.
    Cut,
    /// It is taken, and no answer comes until the platform goes down.
    Withhold,
    /// It waits at a gate of this name and is taken once a test opens that.
    Hold(String),
    /// It is taken, and the answer waits at a gate of this name.
    HoldAnswer(String),
    /// It takes longer.
    Delay(Duration),
    /// The answer comes one byte at a time, with this pause between two.
    Trickle(Duration),
    /// The connection is cut in the middle of the answer.
    ResetMidBody,
    /// The answer ends in the middle of its JSON, as if that were all.
    Garble,
    /// A feed shows its last page again.
    Repeat,
    /// A page comes with its rows the other way round.
    Reverse,
    /// Nothing goes wrong: a place in a script.
    #[default]
    None,
}

impl MoleculeFault {
    /// A refusal with the JSON that the platform itself uses for errors.
    #[must_use]
    pub fn refuse(status: u16, error: &str) -> Self {
        Self::Refuse {
            status,
            retry_after: None,
            body: FaultBody::Json(serde_json::json!({ "error": error })),
        }
    }

    /// A refusal for too many calls.
    #[must_use]
    pub fn too_many(retry_after: u32) -> Self {
        let body = serde_json::json!({"error": "rate limit exceeded", "retry_after": retry_after});
        Self::Refuse {
            status: 429,
            retry_after: Some(retry_after),
            body: FaultBody::Json(body),
        }
    }

    /// A proxy's page for a platform that it can't reach.
    #[must_use]
    pub fn bad_gateway() -> Self {
        Self::Refuse {
            status: 502,
            retry_after: None,
            body: FaultBody::Html,
        }
    }
}

/// When a row can be seen that was written now. Its `created_at` is of now in any case, so that a late one appears
/// behind rows that were read already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// At once.
    #[default]
    Never,
    /// After some looks at its feed, by chance none to this many.
    Looks(u32),
    /// When a test says so.
    Held,
    /// After some time, by chance none to this much; on the newer platform its sender waits for the receipt so long.
    Within(Duration),
    /// As the real platform commits: `created_at` and `seq` are taken first, then the insert waits for the lock of its
    /// workspace, holds it by chance none to this long, and is seen. Who gets the lock next is chance too.
    Locked(Duration),
}

/// What becomes of an event stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventStream {
    /// It works.
    #[default]
    On,
    /// There is none: 404.
    Off,
    /// It opens and never says anything.
    Silent,
    /// It opens and ends at once.
    Ends,
}

/// Chances in a thousand, per call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// A reply, a look for one or an ack gets 503, or 429 with a second of `Retry-After`.
    pub refuse: u16,
    /// It is taken, and its answer is lost.
    pub lose: u16,
    /// It is cut before it is taken.
    pub cut: u16,
    /// It takes up to 0.3 s longer.
    pub delay: u16,
    /// A look at the feed is refused. Apart from the others, because a daemon waits at least a second after it.
    pub feed: u16,
    /// With a look at the feed, a message that is there already is stored in a second row.
    pub repeat: u16,
}

/// Which weather a call meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exposure {
    /// A look at the feed.
    Feed,
    /// A reply, by the hash of its text.
    Reply(u64),
    /// A look for a reply, or an ack.
    Other,
    /// None.
    Sheltered,
}

/// What is still to go wrong.
#[derive(Debug)]
pub(super) struct Faults {
    scripts: HashMap<Route, VecDeque<MoleculeFault>>,
    standing: HashMap<Route, MoleculeFault>,
    /// Of looks for a reply, which are calls of the feed too.
    looks: VecDeque<MoleculeFault>,
    pub(super) weather: Weather,
    seed: u64,
    /// Calls so far with each reply.
    tries: HashMap<u64, u64>,
    /// Of messages.
    pub(super) late: Late,
    /// Of the echoes of bubbles.
    pub(super) late_echo: Late,
    pub(super) dice: Dice,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            scripts: HashMap::new(),
            standing: HashMap::new(),
            looks: VecDeque::new(),
            weather: Weather::default(),
            seed,
            tries: HashMap::new(),
            late: Late::Never,
            late_echo: Late::Never,
            dice: Dice::new(seed),
        }
    }

    pub(super) fn script(&mut self, route: Route, faults: Vec<MoleculeFault>) {
        let script = self.scripts.entry(route).or_default();
        script.extend(faults);
        script.truncate(SCRIPT_MOST);
    }

    pub(super) fn script_looks(&mut self, faults: Vec<MoleculeFault>) {
        self.looks.extend(faults);
        self.looks.truncate(SCRIPT_MOST);
    }

    pub(super) fn stand(&mut self, route: Route, fault: MoleculeFault) {
        self.standing.insert(route, fault);
    }

    /// What the next call of this kind meets: its script, what stands for its kind, the weather.
    pub(super) fn next(&mut self, route: Route, exposure: Exposure) -> MoleculeFault {
        let look = match (route, exposure) {
            (Route::Activity, Exposure::Other) => self.looks.pop_front(),
            _ => None,
        };
        let scripts = &mut self.scripts;
        look.or_else(|| scripts.get_mut(&route).and_then(VecDeque::pop_front))
            .or_else(|| self.standing.get(&route).cloned())
            .unwrap_or_else(|| self.by_chance(exposure))
    }

    /// The weather of a reply is decided by its text and by how often it was tried, so that another daemon, or a faster
    /// machine, meets the same.
    fn by_chance(&mut self, exposure: Exposure) -> MoleculeFault {
        let weather = self.weather;
        match exposure {
            Exposure::Feed if self.dice.chance(weather.feed) => refusal(&mut self.dice),
            Exposure::Feed | Exposure::Sheltered => MoleculeFault::None,
            Exposure::Other => rain(weather, &mut self.dice),
            Exposure::Reply(_) if weather == Weather::default() => MoleculeFault::None,
            Exposure::Reply(text) => {
                let is_new = !self.tries.contains_key(&text);
                if is_new && self.tries.len() >= REPLIES_MOST {
                    return rain(weather, &mut self.dice);
                }
                let tries = self.tries.entry(text).or_default();
                *tries += 1;
                rain(weather, &mut Dice::of(self.seed, &[text, *tries]))
            }
        }
    }

    pub(super) fn visibility(&mut self, late: Late) -> Visible {
        match late {
            Late::Never => Visible::Now,
            Late::Looks(most) => {
                let looks = self.dice.between(0, u64::from(most));
                match u32::try_from(looks).unwrap_or(0) {
                    0 => Visible::Now,
                    looks => Visible::AfterLooks(looks),
                }
            }
            Late::Held => Visible::Held,
            Late::Within(most) => {
                let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
                let wait = Duration::from_micros(self.dice.between(0, most));
                Visible::From(Instant::now() + wait)
            }
            Late::Locked(most) => {
                let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
                Visible::Waiting(Duration::from_micros(self.dice.between(0, most)))
            }
        }
    }
}

fn rain(weather: Weather, dice: &mut Dice) -> MoleculeFault {
    if dice.chance(weather.refuse) {
        refusal(dice)
    } else if dice.chance(weather.lose) {
        MoleculeFault::LoseAnswer
    } else if dice.chance(weather.cut) {
        MoleculeFault::Cut
    } else if dice.chance(weather.delay) {
        MoleculeFault::Delay(Duration::from_millis(dice.between(1, DELAY_MOST_MS)))
    } else {
        MoleculeFault::None
    }
}

fn refusal(dice: &mut Dice) -> MoleculeFault {
    if dice.chance(500) {
        MoleculeFault::refuse(503, "unavailable")
    } else {
        MoleculeFault::too_many(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORM: Weather = Weather {
        refuse: 300,
        lose: 300,
        cut: 300,
        delay: 300,
        feed: 0,
        repeat: 0,
    };

    fn stormy(seed: u64) -> Faults {
        let mut faults = Faults::new(seed);
        faults.weather = STORM;
        faults
    }

    #[test]
    fn scripted_faults_are_used_once() {
        let mut faults = Faults::new(1);
        let script = vec![MoleculeFault::Cut, MoleculeFault::LoseAnswer];
        faults.script(Route::Notify, script);
        let mut next = |route| faults.next(route, Exposure::Other);
        assert_eq!(next(Route::Ack), MoleculeFault::None);
        assert_eq!(next(Route::Notify), MoleculeFault::Cut);
        assert_eq!(next(Route::Notify), MoleculeFault::LoseAnswer);
        assert_eq!(next(Route::Notify), MoleculeFault::None);
    }

    #[test]
    fn a_script_is_bounded() {
        let mut faults = Faults::new(1);
        faults.script(Route::Ack, vec![MoleculeFault::Cut; SCRIPT_MOST + 1]);
        let cut = (0..=SCRIPT_MOST)
            .filter(|_| faults.next(Route::Ack, Exposure::Other) == MoleculeFault::Cut)
            .count();
        assert_eq!(cut, SCRIPT_MOST);
    }

    #[test]
    fn a_seed_makes_the_same_weather() {
        let days = |seed| -> Vec<MoleculeFault> {
            let mut faults = stormy(seed);
            (0..20)
                .map(|_| faults.next(Route::Notify, Exposure::Other))
                .collect()
        };
        assert_eq!(days(3), days(3));
        assert_ne!(days(3), days(4));
        assert!(days(3).contains(&MoleculeFault::LoseAnswer));
    }

    #[test]
    fn reply_weather_is_independent_of_other_calls() {
        let days = |others: u64| -> Vec<MoleculeFault> {
            let mut faults = stormy(3);
            let texts = (1..=20).flat_map(|text| [text, text]);
            texts
                .map(|text| {
                    for other in 0..others {
                        faults.next(Route::Ack, Exposure::Other);
                        faults.next(Route::A2a, Exposure::Reply(100 + other));
                    }
                    faults.next(Route::Notify, Exposure::Reply(text))
                })
                .collect()
        };
        let twice = days(0);
        assert_eq!(twice, days(2));
        let differ = twice.chunks(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(differ > 5, "a second try meets its own: {twice:?}");
        assert!(twice.contains(&MoleculeFault::LoseAnswer));
        assert!(twice.contains(&MoleculeFault::Cut));
    }
}
