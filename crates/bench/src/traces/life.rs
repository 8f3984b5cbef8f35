//! One message's life as the daemon's own log tells it (`bridge_trace=debug`): which moment came when, and what every
//! commit waited and took. What the times mean is in `findings`.

use anyhow::{Context, ensure};
use jiff::Timestamp;
use std::time::Duration;

/// The moments of a message from the canvas, in their order. The first and the last are the bench's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// The platform has the row.
    Stored,
    /// The platform's event reached us.
    Heard,
    /// The page of the feed with the row is read.
    Page,
    /// `receive_page` is on disk.
    Received,
    /// `claim` is on disk and the scheduler has heard of it.
    Claimed,
    /// Codex and the thread are there.
    Ready,
    /// `begin` is on disk.
    Begun,
    /// `turn/start` is written.
    Written,
    /// `turn/start` is answered.
    Started,
    /// The first words came to whoever watches.
    Text,
    /// `turn/completed` is read.
    Completed,
    /// Whoever follows the turn has heard of it.
    Ended,
    /// `answer` is on disk.
    Answered,
    /// `send` is on disk, and the reply goes to the platform.
    Handed,
    /// The bubble can be seen.
    Seen,
}

impl Moment {
    pub(crate) const ALL: [Self; 15] = [
        Self::Stored,
        Self::Heard,
        Self::Page,
        Self::Received,
        Self::Claimed,
        Self::Ready,
        Self::Begun,
        Self::Written,
        Self::Started,
        Self::Text,
        Self::Completed,
        Self::Ended,
        Self::Answered,
        Self::Handed,
        Self::Seen,
    ];
}

/// One commit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Commit {
    /// When it was on disk.
    at: Timestamp,
    pub(crate) transition: String,
    pub(crate) waited: Duration,
    pub(crate) took: Duration,
}

/// When each moment was; none is before the one that goes before it, so the pieces between them are the whole.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    moments: Vec<(Moment, Timestamp)>,
    pub(crate) commits: Vec<Commit>,
}

/// One line of a trace.
pub(crate) struct Line<'a> {
    pub(crate) at: Timestamp,
    pub(crate) moment: &'a str,
    text: &'a str,
}

impl<'a> Line<'a> {
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let at = text.split_whitespace().next()?.parse().ok()?;
        let moment = field(text, "at")?;
        Some(Self { at, moment, text })
    }

    fn commit(&self) -> Option<Commit> {
        let micros = |name| Some(Duration::from_micros(field(self.text, name)?.parse().ok()?));
        Some(Commit {
            at: self.at,
            transition: field(self.text, "transition")?.to_owned(),
            waited: micros("waited_us")?,
            took: micros("took_us")?,
        })
    }

    fn is(&self, moment: Moment) -> bool {
        let commits =
            |name| self.moment == "commit" && field(self.text, "transition") == Some(name);
        match moment {
            Moment::Stored | Moment::Seen => false,
            Moment::Heard => self.moment == "woken",
            Moment::Page => self.moment == "page" && field(self.text, "rows") != Some("0"),
            Moment::Received => commits("receive_page"),
            Moment::Claimed => self.moment == "claimed",
            Moment::Ready => self.moment == "ready",
            Moment::Begun => self.moment == "begun",
            Moment::Written => self.moment == "written",
            Moment::Started => self.moment == "started",
            Moment::Text => self.moment == "text",
            Moment::Completed => self.moment == "completed",
            Moment::Ended => self.moment == "ended",
            Moment::Answered => commits("answer"),
            Moment::Handed => self.moment == "handed",
        }
    }
}

/// The value of `name=value` or `name="value"`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches('"'))
}

impl Life {
    /// Reads the lines of one message; fails where one of its moments is missing. What one task tells late, another may
    /// have overtaken: such a moment counts as the one before it.
    pub(crate) fn read(
        lines: &[String],
        stored: Timestamp,
        seen: Timestamp,
    ) -> anyhow::Result<Self> {
        let lines: Vec<Line<'_>> = lines.iter().filter_map(|line| Line::read(line)).collect();
        let mut moments = Vec::new();
        let (mut begun, mut before) = (stored, stored);
        for moment in Moment::ALL {
            let at = match moment {
                Moment::Stored => Some(stored),
                Moment::Seen => Some(seen),
                // Other texts are written to Codex too.
                Moment::Written => first(&lines, moment, begun),
                Moment::Heard
                | Moment::Page
                | Moment::Received
                | Moment::Claimed
                | Moment::Ready
                | Moment::Begun
                | Moment::Started
                | Moment::Text
                | Moment::Completed
                | Moment::Ended
                | Moment::Answered
                | Moment::Handed => first(&lines, moment, stored),
            };
            let at = at.with_context(|| format!("the log says nothing of {moment:?}"))?;
            if moment == Moment::Begun {
                begun = at;
            }
            before = at.min(seen).max(before);
            moments.push((moment, before));
        }
        let commits: Vec<Commit> = lines.iter().filter_map(Line::commit).collect();
        ensure!(!commits.is_empty(), "the log tells of no commits");
        Ok(Self { moments, commits })
    }

    /// From one moment to a later one.
    pub(crate) fn between(&self, from: Moment, to: Moment) -> Duration {
        let passed = self.at(to).duration_since(self.at(from));
        Duration::try_from(passed).unwrap_or_default()
    }

    /// The last commit of a transition that was on disk between two moments.
    pub(crate) fn commit(&self, transition: &str, from: Moment, to: Moment) -> Option<&Commit> {
        let (from, to) = (self.at(from), self.at(to));
        let mut latest = self.commits.iter().rev();
        latest.find(|one| one.transition == transition && one.at > from && one.at <= to)
    }

    fn at(&self, wanted: Moment) -> Timestamp {
        let found = self.moments.iter().find(|(moment, _)| *moment == wanted);
        found.map(|(_, at)| *at).unwrap_or_default()
    }
}

fn first(lines: &[Line<'_>], moment: Moment, not_before: Timestamp) -> Option<Timestamp> {
    let mut found = lines.iter().filter(|line| line.at >= not_before);
    found.find(|line| line.is(moment)).map(|line| line.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u32) -> String {
        format!("2026-11-16T12:00:00.{micros:06}Z DEBUG")
    }

    fn lines() -> Vec<String> {
        vec![
            format!("{} at=\"woken\" channel=molecule:a", at(100)),
            format!("{} at=\"page\" channel=molecule:a rows=0", at(150)),
            format!("{} at=\"page\" channel=molecule:a rows=1", at(200)),
            format!(
                "{} at=\"commit\" transition=\"receive_page\" waited_us=7 took_us=90",
                at(300)
            ),
            format!("{} at=\"claimed\" message_id=m", at(400)),
            format!("{} at=\"written\"", at(450)),
            format!("{} at=\"ready\" message_id=m", at(500)),
            format!("{} at=\"begun\" message_id=m", at(600)),
            format!("{} at=\"written\"", at(650)),
            format!("{} at=\"started\" message_id=m", at(700)),
            format!("{} at=\"text\" message_id=m", at(800)),
            format!("{} at=\"text\" message_id=m", at(850)),
            format!("{} at=\"completed\" turn_id=t", at(900)),
            format!("{} at=\"ended\" message_id=m", at(910)),
            format!(
                "{} at=\"commit\" transition=\"answer\" waited_us=8 took_us=80",
                at(950)
            ),
            format!("{} at=\"handed\" message_id=m ordinal=0", at(970)),
            "something else".to_owned(),
        ]
    }

    fn time(micros: i64) -> Timestamp {
        let noon: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        noon + jiff::SignedDuration::from_micros(micros)
    }

    #[test]
    fn a_life_is_read_from_the_log() {
        let life = Life::read(&lines(), time(0), time(990)).unwrap();
        let between = |from, to| life.between(from, to).as_micros();
        assert_eq!(between(Moment::Heard, Moment::Page), 100);
        assert_eq!(between(Moment::Begun, Moment::Written), 50);
        assert_eq!(between(Moment::Written, Moment::Text), 150);
        assert_eq!(between(Moment::Stored, Moment::Seen), 990);
        assert_eq!(life.commits.len(), 2);
        assert_eq!(life.commits[1].transition, "answer");
        assert_eq!(life.commits[1].took, Duration::from_micros(80));
        let (ended, answered) = (Moment::Ended, Moment::Answered);
        assert!(life.commit("answer", ended, answered).is_some());
        assert_eq!(life.commit("answer", answered, Moment::Seen), None);
        assert_eq!(life.commit("receive_page", ended, answered), None);
    }

    #[test]
    fn late_log_lines_preserve_total_time() {
        let mut lines = lines();
        lines.push(format!("{} at=\"completed\" turn_id=t", at(750)));
        lines.retain(|line| !line.contains(".000900Z"));
        // The platform showed it before our own log had told that it was handed over.
        let life = Life::read(&lines, time(0), time(960)).unwrap();
        let pieces = Moment::ALL.windows(2).map(|pair| {
            let [from, to] = pair else { return 0 };
            life.between(*from, *to).as_micros()
        });
        assert_eq!(pieces.sum::<u128>(), 960);
        assert_eq!(
            life.between(Moment::Text, Moment::Completed),
            Duration::ZERO
        );
        assert_eq!(life.between(Moment::Handed, Moment::Seen), Duration::ZERO);
    }

    #[test]
    fn a_missing_moment_is_no_figure() {
        for gone in ["handed", "claimed", "rows=1"] {
            let kept: Vec<String> = lines();
            let kept: Vec<String> = kept
                .into_iter()
                .filter(|line| !line.contains(gone))
                .collect();
            assert!(Life::read(&kept, time(0), time(990)).is_err(), "{gone}");
        }
    }
}
