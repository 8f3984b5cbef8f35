//! What goes wrong at a platform: faults that a test scripts, and weather that a seed makes.
//! Playing them is the server's business.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::history::RowId;
use crate::random::Dice;

/// Longest script for one kind of call; what is beyond it is not taken.
const SCRIPT_MOST: usize = 1_024;
/// Longest time that the weather delays a call.
const DELAY_MOST_MS: u64 = 300;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Fetching messages.
    Inbox,
    /// Giving a reply.
    Reply,
    /// Asking whether a reply arrived.
    Probe,
    /// Acknowledging a message.
    Ack,
}

/// One thing that goes wrong with one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// An HTTP error; nothing was taken.
    Refuse {
        /// The status.
        status: u16,
        /// Seconds for `Retry-After`.
        retry_after: Option<u32>,
    },
    /// It is taken, and the connection is cut before the answer.
    LoseResponse,
    /// The connection is cut and nothing was taken; the caller can't tell the difference.
    Cut,
    /// It is taken, and no answer comes until the platform goes down.
    Withhold,
    /// It takes longer.
    Delay(Duration),
    /// Nothing goes wrong: a place in a script.
    #[default]
    None,
}

/// Chances in a thousand, per call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// 503, or 429 with a second of `Retry-After`.
    pub refuse: u16,
    /// Taken, answer lost.
    pub lose: u16,
    /// Cut before it was taken.
    pub cut: u16,
    /// Up to 0.3 s later.
    pub delay: u16,
    /// The inbox refuses. Apart from the others, because a daemon waits at least a second after it.
    pub inbox: u16,
    /// With a call of the inbox, a row that was acknowledged is shown again.
    pub redeliver: u16,
}

/// What is still to go wrong.
#[derive(Debug)]
pub(super) struct Faults {
    scripts: HashMap<Call, VecDeque<Fault>>,
    pub(super) weather: Weather,
    pub(super) dice: Dice,
    seed: u64,
    /// Calls so far about each row: as many as the platform has rows, at most.
    tries: HashMap<(Call, RowId), u64>,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            scripts: HashMap::new(),
            weather: Weather::default(),
            dice: Dice::new(seed),
            seed,
            tries: HashMap::new(),
        }
    }

    pub(super) fn script(&mut self, call: Call, faults: Vec<Fault>) {
        let script = self.scripts.entry(call).or_default();
        script.extend(faults);
        script.truncate(SCRIPT_MOST);
    }

    /// What the next call of this kind meets. About a row, the weather is decided by the row and by how often it was
    /// tried, so that another daemon, or a faster machine, meets the same.
    pub(super) fn next(&mut self, call: Call, about: Option<RowId>) -> Fault {
        if let Some(fault) = self.scripts.get_mut(&call).and_then(VecDeque::pop_front) {
            return fault;
        }
        let weather = self.weather;
        match (call, about) {
            (Call::Inbox, _) if self.dice.chance(weather.inbox) => refusal(&mut self.dice),
            (Call::Inbox, _) => Fault::None,
            (Call::Reply | Call::Probe | Call::Ack, None) => rain(weather, &mut self.dice),
            (Call::Reply | Call::Probe | Call::Ack, Some(row)) => {
                rain(weather, &mut self.dice_of(call, row))
            }
        }
    }

    fn dice_of(&mut self, call: Call, row: RowId) -> Dice {
        let tries = self.tries.entry((call, row)).or_default();
        *tries += 1;
        let kind = match call {
            Call::Inbox => 0,
            Call::Reply => 1,
            Call::Probe => 2,
            Call::Ack => 3,
        };
        Dice::of(self.seed, &[kind, row.0, *tries])
    }
}

fn rain(weather: Weather, dice: &mut Dice) -> Fault {
    if dice.chance(weather.refuse) {
        refusal(dice)
    } else if dice.chance(weather.lose) {
        Fault::LoseResponse
    } else if dice.chance(weather.cut) {
        Fault::Cut
    } else if dice.chance(weather.delay) {
        Fault::Delay(Duration::from_millis(dice.between(1, DELAY_MOST_MS)))
    } else {
        Fault::None
    }
}

fn refusal(dice: &mut Dice) -> Fault {
    if dice.chance(500) {
        Fault::Refuse {
            status: 503,
            retry_after: None,
        }
    } else {
        Fault::Refuse {
            status: 429,
            retry_after: Some(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripted_faults_are_used_once() {
        let mut faults = Faults::new(1);
        faults.script(Call::Reply, vec![Fault::Cut, Fault::LoseResponse]);
        assert_eq!(faults.next(Call::Ack, None), Fault::None);
        assert_eq!(faults.next(Call::Reply, None), Fault::Cut);
        assert_eq!(faults.next(Call::Reply, None), Fault::LoseResponse);
        assert_eq!(faults.next(Call::Reply, None), Fault::None);
    }

    #[test]
    fn a_seed_makes_the_same_weather() {
        let days = |seed| -> Vec<Fault> {
            let mut faults = Faults::new(seed);
            faults.weather = Weather {
                refuse: 300,
                lose: 300,
                cut: 300,
                delay: 300,
                ..Weather::default()
            };
            (0..20).map(|_| faults.next(Call::Reply, None)).collect()
        };
        assert_eq!(days(3), days(3));
        assert_ne!(days(3), days(4));
        assert!(days(3).contains(&Fault::LoseResponse));
    }

    #[test]
    fn row_weather_is_independent_of_other_calls() {
        let weather = Weather {
            refuse: 300,
            lose: 300,
            cut: 300,
            delay: 300,
            ..Weather::default()
        };
        let days = |others: usize| -> Vec<Fault> {
            let mut faults = Faults::new(3);
            faults.weather = weather;
            let rows = (1..=20).flat_map(|row| [RowId(row), RowId(row)]);
            rows.map(|row| {
                for other in 0..others {
                    faults.next(Call::Ack, Some(row));
                    faults.next(Call::Reply, Some(RowId(100 + other as u64)));
                }
                faults.next(Call::Reply, Some(row))
            })
            .collect()
        };
        assert_eq!(days(0), days(2));
        let twice = days(0);
        let differ = twice.chunks(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(differ > 5, "a second try meets its own: {twice:?}");
        assert!(twice.contains(&Fault::LoseResponse) && twice.contains(&Fault::Cut));
    }

    #[test]
    fn a_script_is_bounded() {
        let mut faults = Faults::new(1);
        faults.script(Call::Ack, vec![Fault::Cut; SCRIPT_MOST + 1]);
        let cut = (0..=SCRIPT_MOST)
            .filter(|_| faults.next(Call::Ack, None) == Fault::Cut)
            .count();
        assert_eq!(cut, SCRIPT_MOST);
    }
}
