//! Faults at times that the seed decides: what a user's own drill is, because kills then fall anywhere.

use super::DaemonStage;
use super::course::Course;
use super::play::{Play, Victim, due};
use crate::Error;
use std::time::Duration;
use tokio::time::Instant;

/// Milliseconds between two kills, from and to.
const KILL_EVERY: (u64, u64) = (1_900, 3_300);
/// How soon a kill is tried again that found no Codex, or came too early.
const KILL_AGAIN: Duration = Duration::from_millis(100);
/// So many messages must have ended since the last kill: a machine on which a turn takes longer than the time between
/// two kills would only show that what is always cut is given up. No kill waits longer for it than that.
const ENDS_BETWEEN: usize = 4;
const ENDS_PATIENCE: Duration = Duration::from_secs(5);

/// When what happens next.
struct Plan {
    course: Course,
    kill: Instant,
    victim: Victim,
    /// Messages that must have ended before it, or when it comes all the same.
    ends: usize,
    latest: Instant,
}

impl<S: DaemonStage> Play<S> {
    fn next_death(&mut self) -> (Instant, Victim) {
        let victim = self.next_victim();
        (due(&mut self.deaths, KILL_EVERY), victim)
    }

    pub(super) async fn run_by_clock(&mut self, duration: Duration) -> Result<(), Error> {
        let (kill, victim) = self.next_death();
        let mut plan = Plan {
            course: self.begin(duration),
            kill,
            victim,
            ends: ENDS_BETWEEN,
            latest: kill + ENDS_PATIENCE,
        };
        while Instant::now() < plan.course.end {
            let next = plan.kill.min(plan.course.next());
            tokio::select! {
                () = tokio::time::sleep_until(next) => self.act(&mut plan).await?,
                ended = self.stage.ended() => self.revive(ended)?,
            }
        }
        Ok(())
    }

    /// Does everything that is due.
    async fn act(&mut self, plan: &mut Plan) -> Result<(), Error> {
        let now = Instant::now();
        self.go_on(&mut plan.course, now).await?;
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
        Ok(())
    }
}
