//! What every drill by the clock has: messages, outages of the platform, and words on how it goes.

use super::Stage;
use super::play::{BAD_WEATHER, Play, due};
use super::traffic::Place;
use crate::Error;
use std::time::Duration;
use tokio::time::Instant;

/// Milliseconds between two outages of the platform.
const OUTAGE_EVERY: (u64, u64) = (10_000, 25_000);

/// When what happens next.
pub(super) struct Course {
    pub(super) end: Instant,
    say: Instant,
    outage: Instant,
    back: Option<Instant>,
    tell: Instant,
}

impl Course {
    pub(super) fn next(&self) -> Instant {
        let times = [self.end, self.say, self.outage, self.tell];
        let soonest = times.into_iter().min().unwrap_or(self.end);
        self.back.map_or(soonest, |back| back.min(soonest))
    }
}

impl<S: Stage> Play<S> {
    pub(super) fn begin(&mut self, duration: Duration) -> Course {
        self.scene.talks.platform.set_weather(BAD_WEATHER);
        let start = Instant::now();
        Course {
            end: start + duration,
            say: start,
            outage: due(&mut self.dice, OUTAGE_EVERY),
            back: None,
            tell: start + Self::TELL_EVERY,
        }
    }

    /// Does everything that is due.
    pub(super) async fn go_on(&mut self, course: &mut Course, now: Instant) -> Result<(), Error> {
        if now >= course.say {
            self.traffic.say(&self.scene.talks, Place::Anywhere)?;
            course.say = self.next_word();
        }
        if now >= course.outage {
            course.back = Some(self.outage().await);
            course.outage = due(&mut self.dice, OUTAGE_EVERY);
        }
        if course.back.is_some_and(|back| now >= back) {
            self.back().await?;
            course.back = None;
        }
        if now >= course.tell {
            let left = course.end.saturating_duration_since(now);
            self.tell(&format!("{:>4} s left", left.as_secs()));
            course.tell = now + Self::TELL_EVERY;
        }
        Ok(())
    }
}
