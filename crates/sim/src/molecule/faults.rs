//! What goes wrong at the platform, on demand: faults of single calls, rows that come into sight late, streams that
//! hang. Playing the faults of calls is the server's business.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::route::Route;
use super::rows::Visible;
use crate::random::Dice;

/// Longest script for one kind of call; what is beyond it is not taken.
const SCRIPT_MOST: usize = 1_024;

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

/// What is still to go wrong.
#[derive(Debug)]
pub(super) struct Faults {
    scripts: HashMap<Route, VecDeque<MoleculeFault>>,
    standing: HashMap<Route, MoleculeFault>,
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

    pub(super) fn stand(&mut self, route: Route, fault: MoleculeFault) {
        self.standing.insert(route, fault);
    }

    /// What the next call of this kind meets.
    pub(super) fn next(&mut self, route: Route) -> MoleculeFault {
        let scripted = self.scripts.get_mut(&route).and_then(VecDeque::pop_front);
        scripted
            .or_else(|| self.standing.get(&route).cloned())
            .unwrap_or_default()
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
