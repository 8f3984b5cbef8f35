//! The daemon as it serves: peers of a Molecule platform in a box, over the real Codex, whose model answers by script.
//! What is asked of it, and what is made of the answers, belongs to the parts.

use super::Place;
use super::daemon::{Daemon, DaemonOptions};
use super::process::{self, Reading};
use crate::ground::Ground;
use anyhow::{Context, ensure};
use bridge_sim::history::{Fact, RowId, Word};
use bridge_sim::{Options, ScriptedModel, Talks, TalksOptions};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The longest answer of the bench comes in one reply.
const WHOLE_ANSWERS: &str = "max_reply_chars = 1000000";
/// How much of a wrong answer is shown.
const SHOWN_CHARS: usize = 80;

#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) daemon: Daemon,
    pub(crate) talks: Talks,
    pub(crate) model: ScriptedModel,
    /// Last, so that it goes when nobody uses it any more.
    _place: Place,
}

/// The processes of one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    pub(crate) bridge: i32,
    /// Our own process beside Codex, which outlives a crash of the daemon.
    pub(crate) keepers: Vec<i32>,
    pub(crate) codex: Vec<i32>,
}

impl Party {
    /// Everything below the daemon, by the program that runs.
    pub(crate) fn of(daemon: &Daemon) -> anyhow::Result<Self> {
        let bridge = daemon.pid()?;
        let own = process::program(bridge);
        let below = process::below(bridge);
        let (keepers, codex) = below
            .into_iter()
            .partition(|pid| process::program(*pid) == own);
        Ok(Self {
            bridge,
            keepers,
            codex,
        })
    }

    /// All that we brought along: the daemon and its keeper.
    pub(crate) fn ours(&self) -> Vec<i32> {
        [&[self.bridge], self.keepers.as_slice()].concat()
    }

    pub(crate) fn all(&self) -> Vec<i32> {
        [self.ours(), self.codex.clone()].concat()
    }

    pub(crate) fn ticks(&self) -> Ticks {
        let sum = |pids: &[i32]| pids.iter().filter_map(|pid| process::ticks(*pid)).sum();
        Ticks {
            ours: sum(&self.ours()),
            codex: sum(&self.codex),
        }
    }

    pub(crate) fn read(&self) -> anyhow::Result<Readings> {
        Ok(Readings {
            bridge: Reading::of(&[self.bridge])?,
            keeper: Reading::of(&self.keepers)?,
            codex: Reading::of(&self.codex)?,
            all: Reading::of(&self.all())?,
        })
    }
}

/// One tick of the kernel's clock, in which it counts processor time.
pub(crate) const TICK_MS: f64 = 10.0;

/// Processor time, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    pub(crate) ours: u64,
    pub(crate) codex: u64,
}

impl Ticks {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            ours: self.ours.saturating_sub(before.ours),
            codex: self.codex.saturating_sub(before.codex),
        }
    }
}

/// What the processes of one daemon have at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Readings {
    pub(crate) bridge: Reading,
    pub(crate) keeper: Reading,
    pub(crate) codex: Reading,
    pub(crate) all: Reading,
}

/// The settings of a daemon behind this platform, with as much freedom as a bare thread of the bench has.
pub(crate) fn settings(talks: &Talks, place: &Place, turns: usize) -> anyhow::Result<String> {
    let platform = talks
        .settings(place.path(), WHOLE_ANSWERS)
        .context("write the platform's tokens")?;
    Ok(format!(
        "[daemon]\nturns_max = {turns}\nturns_reserved = 0\nturns_per_sender = {turns}\ndrain_secs = 0\n\
         [loop_guard]\nmessages_per_ten_minutes = 500\nmessages_per_day = 500\n\
         [tiers.peer]\nreads = \"disk\"\napproval_policy = \"never\"\n{platform}"
    ))
}

impl Served {
    /// Starts everything, with so many turns at the same time, and waits until Codex is up.
    pub(crate) async fn start(ground: &Ground, turns: usize) -> anyhow::Result<Self> {
        Self::start_with(ground, turns, "").await
    }

    /// The same with these settings, each on a line of its own with its whole name.
    pub(crate) async fn start_with(
        ground: &Ground,
        turns: usize,
        more: &str,
    ) -> anyhow::Result<Self> {
        let model = ScriptedModel::start(Options::default()).await?;
        let talks = Talks::start(TalksOptions::default()).await?;
        let place = Place::new(&model.codex_config())?;
        let options = DaemonOptions {
            settings: format!("{more}{}", settings(&talks, &place, turns)?),
            ..DaemonOptions::default()
        };
        let daemon = Daemon::start(ground, &place, options).await?;
        codex_is_up(&daemon).await?;
        Ok(Self {
            daemon,
            talks,
            model,
            _place: place,
        })
    }

    pub(crate) fn party(&self) -> anyhow::Result<Party> {
        let party = Party::of(&self.daemon)?;
        ensure!(!party.codex.is_empty(), "no Codex below the daemon");
        Ok(party)
    }

    /// Says each of these in its conversation at once; the rows are what [`Served::answered`] waits for.
    pub(crate) fn say(&self, texts: &[(String, String)]) -> anyhow::Result<Vec<RowId>> {
        let rows = texts
            .iter()
            .map(|(conversation, text)| self.talks.post(conversation, text));
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Waits until each row has a reply that ends its wait, and compares the text: the platform knows the answers of
    /// echoes alone and takes a stream for a refusal. Gives when the last was seen.
    pub(crate) async fn answered(&self, rows: &[RowId], answer: &str) -> anyhow::Result<Instant> {
        let mut left: BTreeSet<RowId> = rows.iter().copied().collect();
        let mut read = 0;
        let until = |events: &[bridge_sim::history::Event]| {
            for event in events.get(read..).unwrap_or_default() {
                if let Fact::Visible { row, word, .. } = &event.fact
                    && *word != Word::Waits
                {
                    left.remove(row);
                }
            }
            read = events.len();
            left.is_empty()
        };
        let waited = self.talks.wait_for("all answers", until).await;
        waited.with_context(|| {
            let (without, all, log) = (left.len(), rows.len(), self.daemon.log.tail());
            format!(
                "{without} of {all} messages have no answer; the daemon's log ends with {log:#?}"
            )
        })?;
        let seen = Instant::now();
        let wanted: BTreeSet<RowId> = rows.iter().copied().collect();
        let visible = self.talks.visible();
        let ours = visible.iter().filter(|(row, _)| wanted.contains(row));
        for (row, text) in ours {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            ensure!(
                text.trim_end() == answer.trim_end(),
                "{row} was answered with {} bytes that begin with {shown:?}",
                text.len()
            );
        }
        Ok(seen)
    }

    /// The same text to all these conversations at once, until the last answer can be seen.
    pub(crate) async fn ask(
        &self,
        conversations: &[String],
        answer: &str,
    ) -> anyhow::Result<Duration> {
        let text = format!("echo:{answer}");
        let texts: Vec<(String, String)> = conversations
            .iter()
            .map(|conversation| (conversation.clone(), text.clone()))
            .collect();
        let began = Instant::now();
        let rows = self.say(&texts)?;
        let seen = self.answered(&rows, answer).await?;
        Ok(seen.duration_since(began))
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.daemon.stop().await?;
        self.model.stop().await;
        Ok(())
    }
}

/// Codex is started right after the daemon is ready.
pub(crate) async fn codex_is_up(daemon: &Daemon) -> anyhow::Result<()> {
    let is_up = |line: &str| line.contains("codex is up").then_some(());
    let up = daemon.log.wait(0, "a Codex that is up", is_up).await;
    up.context("Codex does not start")
}
