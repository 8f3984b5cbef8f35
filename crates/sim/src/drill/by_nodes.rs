//! Faults of a fleet, at times that the seed decides: machines die, lose their disks, or stand still until their lease
//! has ended, and the database's server dies. At least one machine always serves.

use super::course::Course;
use super::outcome::NodeFaults;
use super::outside::Death;
use super::play::{Play, due, failed};
use super::{FleetStage, Frozen, Loss};
use crate::clock::now_ms;
use crate::{Dice, Error};
use std::time::Duration;
use tokio::time::Instant;

/// Milliseconds between two faults of nodes.
const FAULT_EVERY: (u64, u64) = (1_500, 3_500);
/// How soon a fault is tried again that found too few machines alive.
const FAULT_AGAIN: Duration = Duration::from_millis(50);
/// Of a thousand faults of nodes so many are deaths; the rest are freezes, of the daemon or of the whole machine.
const DEATHS_PERMILLE: u16 = 720;
/// Of a thousand deaths so many lose the disk, and of these half come back under another name.
const LOSSES_PERMILLE: u16 = 380;
/// How long a machine is dead, in thousandths of a lease: sometimes it is back before anybody missed it.
const DEAD_PERMILLE: (u64, u64) = (20, 1_300);
/// A machine that stands still goes on so many milliseconds after its lease has ended.
const THAW_AFTER: (u64, u64) = (300, 2_500);
/// When the database's server is restarted first, and the time between two restarts: short drills have one too.
const FIRST_RESTART: Duration = Duration::from_secs(6);
const RESTART_EVERY: Duration = Duration::from_secs(30);

/// How the faults of a fleet come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetRhythm {
    /// How long things go wrong.
    pub duration: Duration,
    /// How long a node may be silent.
    pub lease: Duration,
    /// Whether the database's server dies, too.
    pub restart_database: bool,
}

/// What a machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    /// It is dead until then.
    Dead(Instant),
    /// It stands still until then.
    Frozen(Instant),
}

impl Wait {
    fn until(self) -> Option<Instant> {
        match self {
            Self::Nothing => None,
            Self::Dead(until) | Self::Frozen(until) => Some(until),
        }
    }
}

/// When what happens next.
struct Plan {
    rhythm: FleetRhythm,
    course: Course,
    fault: Instant,
    machines: Vec<Wait>,
    restart: Option<Instant>,
}

impl Plan {
    fn next(&self) -> Instant {
        let waits = self.machines.iter().filter_map(|wait| wait.until());
        let others = waits.chain(self.restart);
        others.fold(self.fault.min(self.course.next()), Instant::min)
    }
}

impl<S: FleetStage> Play<S> {
    /// Lets things go wrong for a while, then waits until everything is quiet.
    pub async fn run_fleet(&mut self, rhythm: FleetRhythm) -> Result<(), Error> {
        self.nodes = Some(NodeFaults::default());
        let start = Instant::now();
        let mut plan = Plan {
            rhythm,
            course: self.begin(rhythm.duration),
            fault: due(&mut self.deaths, FAULT_EVERY),
            machines: vec![Wait::Nothing; self.stage.nodes()],
            restart: rhythm.restart_database.then(|| start + FIRST_RESTART),
        };
        while Instant::now() < plan.course.end {
            tokio::select! {
                () = tokio::time::sleep_until(plan.next()) => self.act_on_fleet(&mut plan).await?,
                ended = self.stage.ended() => self.revive(ended)?,
            }
        }
        self.bring_all_back(&mut plan).await?;
        self.end_faults().await?;
        let (leases_lost, database_restarts) = self.stage.counted();
        if let Some(nodes) = &mut self.nodes {
            (nodes.leases_lost, nodes.database_restarts) = (leases_lost, database_restarts);
        }
        Ok(())
    }

    /// Does everything that is due.
    async fn act_on_fleet(&mut self, plan: &mut Plan) -> Result<(), Error> {
        let now = Instant::now();
        self.go_on(&mut plan.course, now).await?;
        if plan.restart.is_some_and(|restart| now >= restart) {
            self.faults.push((now_ms(), "the database dies".to_owned()));
            self.stage.restart_database();
            plan.restart = Some(now + RESTART_EVERY);
        }
        self.bring_back(plan, now)?;
        if now >= plan.fault {
            plan.fault = match self.victim() {
                Some(node) => {
                    self.strike(plan, node).await?;
                    due(&mut self.deaths, FAULT_EVERY)
                }
                None => now + FAULT_AGAIN,
            };
        }
        Ok(())
    }

    /// A machine that serves while another one does, too.
    fn victim(&mut self) -> Option<usize> {
        let all = 0..self.stage.nodes();
        let serving: Vec<usize> = all.filter(|node| self.stage.serves(*node)).collect();
        if serving.len() < 2 {
            return None;
        }
        let at = usize::try_from(self.deaths.below(serving.len() as u64)).ok()?;
        serving.get(at).copied()
    }

    async fn strike(&mut self, plan: &mut Plan, node: usize) -> Result<(), Error> {
        let Some(faults) = &mut self.nodes else {
            return Ok(());
        };
        let dice = &mut self.deaths;
        let lease = plan.rhythm.lease;
        let wait = if dice.chance(DEATHS_PERMILLE) {
            let loss = any_loss(dice);
            faults.deaths += 1;
            faults.disks_lost += usize::from(loss != Loss::Nothing);
            faults.renamed += usize::from(loss == Loss::DiskAndName);
            let (low, high) = DEAD_PERMILLE;
            let share = u32::try_from(dice.between(low, high)).unwrap_or(u32::MAX);
            let name = self.stage.name(node);
            self.faults
                .push((now_ms(), format!("{name} dies, losing {loss:?}")));
            self.node_deaths.push(Death {
                at_ms: now_ms(),
                node: name,
            });
            let killed = self.stage.kill_node(node, loss).await;
            killed.map_err(failed("kill a node"))?;
            Wait::Dead(Instant::now() + lease * share / 1_000)
        } else {
            let what = if dice.chance(500) {
                faults.daemons_frozen += 1;
                Frozen::Daemon
            } else {
                faults.machines_frozen += 1;
                Frozen::Machine
            };
            let name = self.stage.name(node);
            self.faults
                .push((now_ms(), format!("{name} freezes: {what:?}")));
            let frozen = self.stage.freeze(node, what);
            frozen.map_err(failed("freeze a node"))?;
            Wait::Frozen(due(dice, THAW_AFTER) + lease)
        };
        if let Some(machine) = plan.machines.get_mut(node) {
            *machine = wait;
        }
        Ok(())
    }

    /// Everything that is dead or stands still comes back in its time: what goes on before its lease has ended would
    /// show nothing.
    async fn bring_all_back(&mut self, plan: &mut Plan) -> Result<(), Error> {
        while let Some(next) = plan.machines.iter().filter_map(|wait| wait.until()).min() {
            tokio::select! {
                () = tokio::time::sleep_until(next) => self.bring_back(plan, Instant::now())?,
                ended = self.stage.ended() => self.revive(ended)?,
            }
        }
        Ok(())
    }

    /// Machines whose time has come by now are started, or go on.
    fn bring_back(&mut self, plan: &mut Plan, now: Instant) -> Result<(), Error> {
        for (node, wait) in plan.machines.iter_mut().enumerate() {
            if wait.until().is_none_or(|until| until > now) {
                continue;
            }
            match wait {
                Wait::Nothing => {}
                Wait::Dead(_) => {
                    let started = self.stage.start_node(node);
                    started.map_err(failed("start a node"))?;
                }
                Wait::Frozen(_) => self.stage.thaw(node),
            }
            let name = self.stage.name(node);
            self.faults.push((now_ms(), format!("{name} is back")));
            *wait = Wait::Nothing;
        }
        Ok(())
    }
}

fn any_loss(dice: &mut Dice) -> Loss {
    match (dice.chance(LOSSES_PERMILLE), dice.chance(500)) {
        (false, _) => Loss::Nothing,
        (true, false) => Loss::Disk,
        (true, true) => Loss::DiskAndName,
    }
}
