//! Faults at times that the seed decides: what a user's own drill is, because kills then fall anywhere.

use super::DaemonStage;
use super::play::{BAD_WEATHER, Play, Victim, due};
use super::traffic::Place;
use crate::Error;
use std::time::Duration;
use tokio::time::Instant;

/// Milliseconds between two kills, from and to.
const KILL_EVERY: (u64, u64) = (1_900, 3_300);
/// Milliseconds between two outages of the platform.
const OUTAGE_EVERY: (u64, u64) = (10_000, 25_000);
/// How soon a kill is tried again that found no Codex, or came too early.
const KILL_AGAIN: Duration = Duration::from_millis(100);
/// So many messages must have ended since the last kill: a machine on which a turn takes longer than the time between
/// two kills would only show that what is always cut is given up. No kill waits longer for it than that.
const ENDS_BETWEEN: usize = 4;
const ENDS_PATIENCE: Duration = Duration::from_secs(5);

/// When what happens next.
struct Plan {
    end: Instant,
    say: Instant,
    kill: Instant,
    victim: Victim,
    /// Messages that must have ended before it, or when it comes all the same.
    ends: usize,
    latest: Instant,
    outage: Instant,
    back: Option<Instant>,
    tell: Instant,
}

impl Plan {
    fn next(&self) -> Instant {
        let times = [self.end, self.say, self.kill, self.outage, self.tell];
        let soonest = times.into_iter().min().unwrap_or(self.end);
        self.back.map_or(soonest, |back| back.min(soonest))
    }
}

impl<S: DaemonStage> Play<S> {
    fn next_death(&mut self) -> (Instant, Victim) {
        let victim = self.next_victim();
        (due(&mut self.deaths, KILL_EVERY), victim)
    }

    pub(super) async fn run_by_clock(&mut self, duration: Duration) -> Result<(), Error> {
        self.scene.talks.platform.set_weather(BAD_WEATHER);
        let start = Instant::now();
        let (kill, victim) = self.next_death();
        let mut plan = Plan {
            end: start + duration,
            say: start,
            kill,
            victim,
            ends: ENDS_BETWEEN,
            latest: kill + ENDS_PATIENCE,
            outage: due(&mut self.dice, OUTAGE_EVERY),
            back: None,
            tell: start + Self::TELL_EVERY,
        };
        while Instant::now() < plan.end {
            tokio::select! {
                () = tokio::time::sleep_until(plan.next()) => self.act(&mut plan).await?,
                ended = self.stage.ended() => self.revive(ended)?,
            }
        }
        Ok(())
    }

    /// Does everything that is due.
    async fn act(&mut self, plan: &mut Plan) -> Result<(), Error> {
        let now = Instant::now();
        if now >= plan.say {
            self.traffic.say(&self.scene.talks, Place::Anywhere)?;
            plan.say = self.next_word();
        }
        if now >= plan.outage {
            plan.back = Some(self.outage().await);
            plan.outage = due(&mut self.dice, OUTAGE_EVERY);
        }
        if plan.back.is_some_and(|back| now >= back) {
            self.back().await?;
            plan.back = None;
        }
        if now >= plan.kill {
            let ready = self.ended() >= plan.ends || now >= plan.latest;
            if ready && self.kill(plan.victim).await? {
                (plan.kill, plan.victim) = self.next_death();
                plan.ends = self.ended() + ENDS_BETWEEN;
                plan.latest = plan.kill + ENDS_PATIENCE;
            } else {
                plan.kill = now + KILL_AGAIN;
            }
        }
        if now >= plan.tell {
            let left = plan.end.saturating_duration_since(now);
            self.tell(&format!("{:>4} s left", left.as_secs()));
            plan.tell = now + Self::TELL_EVERY;
        }
        Ok(())
    }
}
