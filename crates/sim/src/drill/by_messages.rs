//! Faults by the progress of messages: two daemons, or two runs, are told the same, and so many ended messages bring
//! so many kills, outages and old rows, however fast they are. What is measured under faults is measured so.

use super::DaemonStage;
use super::play::{BAD_WEATHER, Play, Victim};
use super::traffic::Place;
use crate::history::RowId;
use crate::molecule::Weather;
use crate::{Dice, Error};
use std::time::Duration;
use tokio::time::Instant;

/// Messages that end between two kills.
const KILL_EVERY: usize = 8;
/// A kill comes so many milliseconds after a turn began, so that most of them cut one.
const KILL_AFTER: (u64, u64) = (0, 150);
/// Messages that end between two outages of the platform.
const OUTAGE_EVERY: usize = 30;
/// Messages that end between two rows that are shown again.
const AGAIN_EVERY: usize = 10;
/// How often it is looked what ended and what began.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The longest time that one message may take on average; a daemon that needs more has given up on them.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(4);
/// Rows that are tried to be shown again before it is left for another time.
const AGAIN_TRIES: u64 = 8;

/// What comes next.
struct Plan {
    messages: usize,
    say: Instant,
    kill: Kill,
    outage: usize,
    back: Option<Instant>,
    again: usize,
    tell: Instant,
    /// Old rows and the moments of kills: their own numbers, so that they do not depend on how fast anything goes.
    dice: Dice,
}

/// The next kill, as far as it has come; it belongs to so many ended messages, whenever it finds its victim.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// It comes once they have ended.
    Far { ends: usize, victim: Victim },
    /// It comes with the next turn: so many had begun.
    Near {
        ends: usize,
        begun: usize,
        victim: Victim,
    },
    /// It comes at this time.
    Due {
        ends: usize,
        at: Instant,
        victim: Victim,
    },
}

impl<S: DaemonStage> Play<S> {
    pub(super) async fn run_by_messages(&mut self, messages: usize) -> Result<(), Error> {
        // An old row with every so many messages, not with every so many looks at the feed.
        self.scene.talks.platform.set_weather(Weather {
            repeat: 0,
            ..BAD_WEATHER
        });
        let start = Instant::now();
        let end = start + MESSAGE_PATIENCE * u32::try_from(messages).unwrap_or(u32::MAX);
        let mut plan = Plan {
            messages,
            say: start,
            kill: Kill::Far {
                ends: KILL_EVERY,
                victim: Victim::Daemon,
            },
            outage: OUTAGE_EVERY,
            back: None,
            again: AGAIN_EVERY,
            tell: start + Self::TELL_EVERY,
            dice: Dice::of(self.seed, &[0]),
        };
        while self.ended() < messages && Instant::now() < end {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => self.look(&mut plan).await?,
                ended = self.stage.ended() => self.revive(ended)?,
            }
        }
        Ok(())
    }

    async fn look(&mut self, plan: &mut Plan) -> Result<(), Error> {
        self.hear();
        let (now, ended) = (Instant::now(), self.ended());
        if now >= plan.say
            && self.traffic.said() < plan.messages
            && self.traffic.say(&self.scene.talks, Place::ItsOwn)?
        {
            plan.say = self.next_word();
        }
        if ended >= plan.outage {
            plan.back = Some(self.outage().await);
            plan.outage += OUTAGE_EVERY;
        }
        if plan.back.is_some_and(|back| now >= back) {
            self.back().await?;
            plan.back = None;
        }
        if ended >= plan.again {
            self.show_again(&mut plan.dice);
            plan.again += AGAIN_EVERY;
        }
        plan.kill = self.near(plan.kill, &mut plan.dice).await?;
        if now >= plan.tell {
            self.tell(&format!("{ended:>4} of {} ended", plan.messages));
            plan.tell = now + Self::TELL_EVERY;
        }
        Ok(())
    }

    /// One step of the next kill; daemon and Codex die in turn.
    async fn near(&mut self, kill: Kill, dice: &mut Dice) -> Result<Kill, Error> {
        Ok(match kill {
            Kill::Far { ends, victim } if self.ended() >= ends => Kill::Near {
                ends,
                begun: self.begun(),
                victim,
            },
            Kill::Near {
                ends,
                begun,
                victim,
            } if self.begun() > begun => {
                let (low, high) = KILL_AFTER;
                let at = Instant::now() + Duration::from_millis(dice.between(low, high));
                Kill::Due { ends, at, victim }
            }
            Kill::Due { ends, at, victim } if Instant::now() >= at => {
                if self.kill(victim).await? {
                    Kill::Far {
                        ends: ends + KILL_EVERY,
                        victim: victim.other(),
                    }
                } else {
                    Kill::Near {
                        ends,
                        begun: self.begun(),
                        victim,
                    }
                }
            }
            Kill::Far { .. } | Kill::Near { .. } | Kill::Due { .. } => kill,
        })
    }

    /// Shows an old row again.
    fn show_again(&mut self, dice: &mut Dice) {
        let said = self.traffic.said() as u64;
        let first = dice.below(said);
        let rows = (0..AGAIN_TRIES.min(said)).map(|step| RowId((first + step) % said + 1));
        for row in rows {
            if self.scene.talks.show_again(row) {
                return;
            }
        }
    }
}
