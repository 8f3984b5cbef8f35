//! The drill itself: messages, kills, bad weather and outages at times that the seed decides; then calm.

use super::outside::{Asked, Outside};
use super::report::{Figures, Report};
use super::stage::Stage;
use super::traffic::Traffic;
use crate::cli::DrillArgs;
use crate::term;
use anyhow::Context;
use bridge_sim::{Dice, Weather};
use std::time::Duration;
use tokio::time::Instant;

/// Milliseconds between two kills, from and to.
const KILL_EVERY: (u64, u64) = (1_900, 3_300);
/// Milliseconds between two messages.
const SAY_EVERY: (u64, u64) = (50, 300);
/// Milliseconds between two outages of the platform, and how long one takes.
const OUTAGE_EVERY: (u64, u64) = (10_000, 25_000);
const OUTAGE_TAKES: (u64, u64) = (300, 1_500);
/// How soon a kill is tried again that found no Codex, or came too early.
const KILL_AGAIN: Duration = Duration::from_millis(100);
/// So many messages must have ended since the last kill: a machine on which a turn takes longer than the time between
/// two kills would only show that what is always cut is given up. No kill waits longer for it than that.
const ENDS_BETWEEN: usize = 4;
const ENDS_PATIENCE: Duration = Duration::from_secs(5);
/// How often a person is told how it goes.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// How soon everything must be quiet once nothing goes wrong any more: the longest pause between two tries of
/// anything is a minute, and what waits for it may wait for one more.
const QUIET_WITHIN: Duration = Duration::from_secs(180);
const QUIET_PAUSE: Duration = Duration::from_millis(20);

const BAD_WEATHER: Weather = Weather {
    refuse: 80,
    lose: 80,
    cut: 40,
    delay: 80,
    inbox: 10,
    redeliver: 30,
};

/// A drill under way.
pub(super) struct Play {
    stage: Stage,
    /// What is said, when it is said, and outages.
    dice: Dice,
    /// Who is killed when: its own numbers, so that they do not depend on how fast anything else goes.
    deaths: Dice,
    traffic: Traffic,
    asked: Asked,
    daemon_kills: usize,
    codex_kills: usize,
    quiet_after: Option<Duration>,
    problems: Vec<String>,
}

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

/// Who is killed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Daemon,
    Codex,
}

impl Plan {
    fn next(&self) -> Instant {
        let times = [self.end, self.say, self.kill, self.outage, self.tell];
        let soonest = times.into_iter().min().unwrap_or(self.end);
        self.back.map_or(soonest, |back| back.min(soonest))
    }
}

fn after(dice: &mut Dice, (low, high): (u64, u64)) -> Instant {
    Instant::now() + Duration::from_millis(dice.between(low, high))
}

impl Play {
    pub(super) fn new(stage: Stage, seed: u64) -> Self {
        Self {
            stage,
            dice: Dice::new(seed),
            deaths: Dice::new(!seed),
            traffic: Traffic::new(),
            asked: Asked::default(),
            daemon_kills: 0,
            codex_kills: 0,
            quiet_after: None,
            problems: Vec::new(),
        }
    }

    fn after(&mut self, times: (u64, u64)) -> Instant {
        after(&mut self.dice, times)
    }

    /// Messages that came to their end.
    fn ended(&self) -> usize {
        let waiting: usize = self.stage.platform.waiting().values().sum();
        self.traffic.said().saturating_sub(waiting)
    }

    fn next_death(&mut self) -> (Instant, Victim) {
        let victim = match self.deaths.chance(500) {
            true => Victim::Daemon,
            false => Victim::Codex,
        };
        (after(&mut self.deaths, KILL_EVERY), victim)
    }

    /// Plays for `duration`, then waits until everything is quiet.
    pub(super) async fn run(&mut self, duration: Duration) -> anyhow::Result<()> {
        self.stage.platform.set_weather(BAD_WEATHER);
        let start = Instant::now();
        let (kill, victim) = self.next_death();
        let mut plan = Plan {
            end: start + duration,
            say: start,
            kill,
            victim,
            ends: ENDS_BETWEEN,
            latest: kill + ENDS_PATIENCE,
            outage: self.after(OUTAGE_EVERY),
            back: None,
            tell: start + TELL_EVERY,
        };
        while Instant::now() < plan.end {
            tokio::select! {
                () = tokio::time::sleep_until(plan.next()) => self.act(&mut plan).await?,
                ended = self.stage.daemon_ended() => self.revive(&ended?)?,
            }
        }
        self.stage.platform.set_weather(Weather::default());
        self.stage.platform.up().await?;
        self.calm().await
    }

    /// Does everything that is due.
    async fn act(&mut self, plan: &mut Plan) -> anyhow::Result<()> {
        let now = Instant::now();
        if now >= plan.say {
            self.traffic.say(&self.stage.platform, &mut self.dice)?;
            plan.say = self.after(SAY_EVERY);
        }
        if now >= plan.outage {
            self.stage.platform.down().await;
            plan.back = Some(self.after(OUTAGE_TAKES));
            plan.outage = self.after(OUTAGE_EVERY);
        }
        if plan.back.is_some_and(|back| now >= back) {
            self.stage.platform.up().await?;
            plan.back = None;
        }
        if now >= plan.kill {
            let due = self.ended() >= plan.ends || now >= plan.latest;
            if due && self.kill(plan.victim).await? {
                (plan.kill, plan.victim) = self.next_death();
                plan.ends = self.ended() + ENDS_BETWEEN;
                plan.latest = plan.kill + ENDS_PATIENCE;
            } else {
                plan.kill = now + KILL_AGAIN;
            }
        }
        if now >= plan.tell {
            self.tell(plan.end.saturating_duration_since(now));
            plan.tell = now + TELL_EVERY;
        }
        Ok(())
    }

    /// False when the victim was not there.
    async fn kill(&mut self, victim: Victim) -> anyhow::Result<bool> {
        match victim {
            Victim::Daemon => {
                self.stage.kill_daemon().await?;
                self.stage.start_daemon()?;
                self.daemon_kills += 1;
                Ok(true)
            }
            Victim::Codex => {
                let killed = self.stage.kill_codex();
                self.codex_kills += usize::from(killed);
                Ok(killed)
            }
        }
    }

    /// A daemon that ends by itself breaks a promise too; it is started again, so that the rest can be seen.
    fn revive(&mut self, status: &str) -> anyhow::Result<()> {
        let problem = format!("the daemon ended by itself: {status}; see daemon.log");
        term::complain(&problem);
        self.problems.push(problem);
        self.stage.start_daemon()
    }

    fn tell(&mut self, left: Duration) {
        let requests = self.stage.model.requests_from(self.asked.next());
        self.asked.note(&requests, &self.traffic);
        let waiting: usize = self.stage.platform.waiting().values().sum();
        term::complain(&format!(
            "  {:>4} s left: {} sent, {waiting} of them waiting; killed {} x daemon, {} x Codex",
            left.as_secs(),
            self.traffic.said(),
            self.daemon_kills,
            self.codex_kills,
        ));
    }

    /// Nothing goes wrong any more: every message must come to its end, and every row must be acknowledged.
    async fn calm(&mut self) -> anyhow::Result<()> {
        term::complain("  calm: waiting until everything is quiet");
        let start = Instant::now();
        loop {
            let platform = &self.stage.platform;
            if platform.waiting().is_empty() && platform.open().is_empty() {
                self.quiet_after = Some(start.elapsed());
                return Ok(());
            }
            if start.elapsed() > QUIET_WITHIN {
                let waiting: usize = platform.waiting().values().sum();
                let problem = format!(
                    "not quiet within {} s: {waiting} messages without an end, {} rows without an ack",
                    QUIET_WITHIN.as_secs(),
                    platform.open().len()
                );
                self.problems.push(problem);
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(QUIET_PAUSE) => {}
                ended = self.stage.daemon_ended() => self.revive(&ended?)?,
            }
        }
    }

    pub(super) fn figures(&self, args: &DrillArgs, seed: u64) -> Figures {
        Figures {
            seed,
            minutes: args.minutes,
            transport: args.transport,
            sink: args.sink,
            daemon_kills: self.daemon_kills,
            codex_kills: self.codex_kills,
            quiet_after: self.quiet_after,
            keep: args.keep,
        }
    }

    /// Counts what was seen, and clears up; the directory is kept if a promise was broken.
    pub(super) async fn close(mut self, figures: Figures) -> anyhow::Result<Report> {
        let requests = self.stage.model.requests_from(self.asked.next());
        self.asked.note(&requests, &self.traffic);
        if let Err(error) = self.stage.stop_daemon().await {
            self.problems.push(error.to_string());
        }
        self.stage.clear().await;
        let Self {
            stage,
            traffic,
            asked,
            problems,
            ..
        } = self;
        let platform = &stage.platform;
        let mut outside = Outside::new(platform.history(), &platform.visible(), &traffic, asked);
        outside
            .add_effects(&stage.work(), &traffic)
            .context("read the effects")?;
        let mut report = Report::new(figures, outside.judge(), problems);
        if !report.keeps() {
            stage.remove()?;
        } else {
            let history = stage.path().join("history.txt");
            std::fs::write(history, outside.lines()).context("write the history")?;
            report.kept = Some(stage.keep());
        }
        Ok(report)
    }

    /// Ends everything without counting.
    pub(super) async fn abandon(mut self) {
        self.stage.clear().await;
        if let Err(error) = self.stage.remove() {
            term::complain(&format!("{error:#}"));
        }
    }
}
