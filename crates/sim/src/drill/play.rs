//! A drill under way: what is known of it, and the single things that can happen. When they happen is decided by the
//! rhythm (`by_clock`, `by_messages`); then it is calm, and everything must become quiet.

use super::outcome::{Cost, Kills, NodeFaults, Outcome};
use super::outside::{Asked, Death, Outside, elsewhere, forgotten};
use super::traffic::Traffic;
use super::{DaemonStage, Rhythm, Scene, Stage};
use crate::molecule::Weather;
use crate::{Dice, Error};
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// Milliseconds between two messages.
const SAY_EVERY: (u64, u64) = (50, 300);
/// Milliseconds that an outage of the platform takes.
const OUTAGE_TAKES: (u64, u64) = (300, 1_500);
/// How soon everything must be quiet once nothing goes wrong any more: the longest pause between two tries of
/// anything is a minute, and what waits for it may wait for one more.
const QUIET_WITHIN: Duration = Duration::from_secs(180);
/// Quiet is only what lasts: a reply whose outcome is not known is looked for twice, two seconds apart, and shown again
/// after that if it is not there.
const QUIET_LASTS: Duration = Duration::from_secs(5);
const QUIET_PAUSE: Duration = Duration::from_millis(20);

pub(super) const BAD_WEATHER: Weather = Weather {
    refuse: 80,
    lose: 80,
    cut: 40,
    delay: 80,
    feed: 10,
    repeat: 30,
};

/// A drill under way.
#[derive(Debug)]
pub struct Play<S> {
    /// What is drilled.
    pub stage: S,
    pub(super) scene: Scene,
    pub(super) seed: u64,
    /// When something is said, and outages.
    pub(super) dice: Dice,
    /// Who is killed when: its own numbers, so that they do not depend on how fast anything else goes.
    pub(super) deaths: Dice,
    pub(super) traffic: Traffic,
    asked: Asked,
    kills: Kills,
    pub(super) nodes: Option<NodeFaults>,
    pub(super) node_deaths: Vec<Death>,
    /// What was done to the nodes, and when.
    pub(super) faults: Vec<(u64, String)>,
    quiet_after: Option<Duration>,
    problems: Vec<String>,
}

/// Who is killed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Daemon,
    Codex,
}

impl Victim {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Daemon => Self::Codex,
            Self::Codex => Self::Daemon,
        }
    }
}

pub(super) fn due(dice: &mut Dice, (low, high): (u64, u64)) -> Instant {
    Instant::now() + Duration::from_millis(dice.between(low, high))
}

pub(super) fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Drill { what, source }
}

impl<S: Stage> Play<S> {
    /// How often a person is told how it goes.
    pub(super) const TELL_EVERY: Duration = Duration::from_secs(5);

    /// The daemon of the stage must have been started.
    pub fn new(stage: S, scene: Scene, seed: u64) -> Self {
        Self {
            stage,
            scene,
            seed,
            dice: Dice::new(seed),
            deaths: Dice::new(!seed),
            traffic: Traffic::new(seed),
            asked: Asked::default(),
            kills: Kills::default(),
            nodes: None,
            node_deaths: Vec::new(),
            faults: Vec::new(),
            quiet_after: None,
            problems: Vec::new(),
        }
    }

    /// Something that whoever drilled found wrong.
    pub fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Counts what was seen. Nothing of the stage may run any more.
    pub fn close(mut self) -> Result<(S, Outcome), Error> {
        self.hear();
        let cost = Cost {
            calls: self.asked.calls(),
            needed: self.traffic.needed(),
            bytes: self.asked.bytes(),
        };
        let history = self.scene.talks.history();
        let mut forgot = Vec::new();
        if let Some(nodes) = &mut self.nodes {
            forgot = forgotten(&history, &self.asked, &self.traffic);
            nodes.elsewhere_ms = elsewhere(&history, &self.asked, &self.node_deaths);
        }
        let mut outside = Outside::new(history, self.asked);
        outside
            .add_effects(&self.stage.work(), &self.traffic)
            .map_err(failed("read the effects"))?;
        let mut verdict = outside.judge();
        verdict.violations.extend(forgot);
        let outcome = Outcome {
            verdict,
            problems: self.problems,
            kills: self.kills,
            nodes: self.nodes,
            quiet_after: self.quiet_after,
            cost,
            history: outside.lines(&self.faults),
        };
        Ok((self.stage, outcome))
    }

    /// When the next message is due.
    pub(super) fn next_word(&mut self) -> Instant {
        due(&mut self.dice, SAY_EVERY)
    }

    /// Messages that came to their end.
    pub(super) fn ended(&self) -> usize {
        let waiting: usize = self.scene.talks.waiting().values().sum();
        self.traffic.said().saturating_sub(waiting)
    }

    /// Turns that began, as far as was heard.
    pub(super) fn begun(&self) -> usize {
        self.asked.begun()
    }

    /// Takes in what the model was asked.
    pub(super) fn hear(&mut self) {
        let requests = self.scene.model.requests_from(self.asked.next());
        self.asked.note(&requests, &self.traffic);
    }

    pub(super) fn next_victim(&mut self) -> Victim {
        if self.deaths.chance(500) {
            Victim::Daemon
        } else {
            Victim::Codex
        }
    }

    /// The platform is gone until then.
    pub(super) async fn outage(&mut self) -> Instant {
        self.scene.talks.platform.down().await;
        due(&mut self.dice, OUTAGE_TAKES)
    }

    pub(super) async fn back(&mut self) -> Result<(), Error> {
        let up = self.scene.talks.platform.up().await;
        up.map_err(failed("serve the platform again"))
    }

    pub(super) fn start(&mut self) -> Result<(), Error> {
        self.stage.start().map_err(failed("start the daemon"))
    }

    /// A daemon that ends by itself breaks a promise too; it is started again, so that the rest can be seen.
    pub(super) fn revive(&mut self, ended: io::Result<String>) -> Result<(), Error> {
        let problem = ended.map_err(failed("wait for the daemon"))?;
        self.stage.tell(&problem);
        self.problems.push(problem);
        self.start()
    }

    pub(super) fn tell(&mut self, progress: &str) {
        self.hear();
        let waiting: usize = self.scene.talks.waiting().values().sum();
        let faults = match &self.nodes {
            None => format!(
                "killed {} x daemon, {} x Codex",
                self.kills.daemon, self.kills.codex
            ),
            Some(nodes) => format!(
                "{} deaths of nodes, {} of them with their disk, {} freezes",
                nodes.deaths,
                nodes.disks_lost,
                nodes.daemons_frozen + nodes.machines_frozen
            ),
        };
        self.stage.tell(&format!(
            "  {progress}: {} sent, {waiting} of them waiting; {faults}",
            self.traffic.said(),
        ));
    }

    /// The weather is fine and the platform is there from now on; waits until everything is quiet.
    pub(super) async fn end_faults(&mut self) -> Result<(), Error> {
        self.scene.talks.platform.set_weather(Weather::default());
        self.back().await?;
        self.calm().await
    }

    /// Nothing goes wrong any more: every message must come to its end, and then nothing may be said any more.
    async fn calm(&mut self) -> Result<(), Error> {
        self.stage.tell("  calm: waiting until everything is quiet");
        let start = Instant::now();
        // Since when every message has its end, and the replies and looks for replies until then.
        let mut quiet: Option<(Instant, u64)> = None;
        loop {
            let talks = &self.scene.talks;
            let waiting: usize = talks.waiting().values().sum();
            let calls = talks.platform.reply_calls();
            quiet = match quiet {
                _ if waiting > 0 => None,
                Some((since, known)) if known == calls => Some((since, known)),
                Some(_) | None => Some((Instant::now(), calls)),
            };
            if let Some((since, _)) = quiet.filter(|(since, _)| since.elapsed() >= QUIET_LASTS) {
                self.quiet_after = Some(since.duration_since(start));
                return Ok(());
            }
            if start.elapsed() > QUIET_WITHIN {
                self.problems.push(format!(
                    "not quiet within {} s: {waiting} messages without an end",
                    QUIET_WITHIN.as_secs()
                ));
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(QUIET_PAUSE) => {}
                ended = self.stage.ended() => self.revive(ended)?,
            }
        }
    }
}

impl<S: DaemonStage> Play<S> {
    /// Lets things go wrong in this rhythm, then waits until everything is quiet.
    pub async fn run(&mut self, rhythm: Rhythm) -> Result<(), Error> {
        match rhythm {
            Rhythm::Clock(duration) => self.run_by_clock(duration).await?,
            Rhythm::Messages(messages) => self.run_by_messages(messages).await?,
        }
        self.end_faults().await
    }

    /// False when the victim was not there.
    pub(super) async fn kill(&mut self, victim: Victim) -> Result<bool, Error> {
        match victim {
            Victim::Daemon => {
                self.stage.kill().await.map_err(failed("kill the daemon"))?;
                self.start()?;
                self.kills.daemon += 1;
                Ok(true)
            }
            Victim::Codex => {
                let killed = self.stage.kill_codex();
                self.kills.codex += usize::from(killed);
                Ok(killed)
            }
        }
    }
}
