//! What can happen on a node of a fleet: all that can happen to one daemon, and that its lease ends, that it takes over
//! what another one had, and that people move work.

use super::{LEASE_MS, NOT_HERE, node_id};
use crate::codex::CodexTurn;
use crate::daemon::{commit, perform};
use crate::setup::{Mutant, Setup};
use crate::steps::{Next, Nexts, Step, codex_dies, codex_works};
use crate::world::{Lane, Memory, NOW, Task, World, conversation_id};
use crate::{daemon, lane, people, restart};
use bridge_core::port::{Change, FleetChange, FleetRead, Read, Rows};
use bridge_core::step::{
    MoveConversation, MoveOutcome, Release, Released, Resume, SetNodeState, TakeOver, regenerate,
};
use bridge_core::value::{Home, NodeState, StateName, Timestamp};

/// Everything that can happen in this state.
pub(crate) fn all(world: &World, setup: &Setup) -> Vec<Next> {
    let mut all = of_node(world, setup);
    let turned = world.clone().turned();
    let others = of_node(&turned, setup);
    all.extend(others.into_iter().map(|next| Next {
        world: next.world.turned(),
        ..next
    }));
    all
}

fn of_node(world: &World, setup: &Setup) -> Vec<Next> {
    let at = world.fleet().at;
    let mut nexts = Nexts {
        from: world,
        setup,
        all: Vec::new(),
    };
    if world.leased(at) {
        codex_dies(&mut nexts);
        codex_works(&mut nexts);
        lease_ends(&mut nexts);
        if let Some(memory) = &world.daemon {
            works(&mut nexts, memory);
            dies(&mut nexts);
            stops(&mut nexts, memory);
            if !memory.stopping {
                leads(&mut nexts);
            }
            misses(&mut nexts, memory);
            moves(&mut nexts);
            drains(&mut nexts);
        }
    } else {
        outlives(&mut nexts);
        if let Some(memory) = &world.daemon {
            works(&mut nexts, memory);
        }
        // What has no lease may also never move again: the other node must get along without it.
        for next in &mut nexts.all {
            next.step.fault = true;
        }
        if world.daemon.is_some() {
            // Unless that one may not have what was written here: then this node is back some time.
            let mut step = Step::plain("sees that its lease has ended");
            step.fault = !setup.leaves_written();
            nexts.add(step, World::stops);
        }
    }
    if world.daemon.is_none() && !world.fleet().side().lost {
        starts(&mut nexts);
    }
    for next in &mut nexts.all {
        next.step.node = Some(at);
    }
    nexts.all
}

fn works(nexts: &mut Nexts<'_>, memory: &Memory) {
    daemon::steps(nexts, memory);
    lane::steps(nexts, memory);
    if nexts.from.has_lease() {
        people::steps(nexts);
    }
}

fn dies(nexts: &mut Nexts<'_>) {
    if nexts.from.faults.daemon > 0 {
        // Its Codex goes on as long as the lease lasts.
        nexts.add(Step::plain("THE DAEMON DIES").fault(), |world| {
            world.faults.daemon -= 1;
            world.daemon_ends();
        });
    }
    if nexts.from.fleet().faults.lost > 0 {
        nexts.add(Step::plain("THE HOST IS LOST").fault(), |world| {
            world.fleet_mut().faults.lost -= 1;
            world.stops();
            let side = world.fleet_mut().side_mut();
            (side.lost, side.generation) = (true, 0);
            world.codex.turns.fill(NOT_HERE);
            world.codex.threads.fill(crate::codex::Thread::Missing);
        });
    }
}

/// The daemon is stopped by the one who runs it: it ends its Codex and says that it leaves.
fn stops(nexts: &mut Nexts<'_>, memory: &Memory) {
    let setup = nexts.setup;
    if memory.stopping {
        nexts.add(
            Step::plain("the daemon ends its codex and leaves"),
            |world| {
                world.codex.die();
                release(world, setup);
                leave(world);
            },
        );
    } else if nexts.from.faults.stop > 0 {
        nexts.add(Step::plain("the daemon is told to stop").fault(), |world| {
            world.faults.stop -= 1;
            if let Some(memory) = &mut world.daemon {
                memory.stopping = true;
            }
        });
    }
}

/// A daemon joins. While the other node works this is a fault: that one must not wait for it, unless it may not have what
/// was written here.
fn starts(nexts: &mut Nexts<'_>) {
    let (world, setup) = (nexts.from, nexts.setup);
    let other = world.fleet().other();
    let alone = world.fleet().other_daemon.is_none() || !world.leased(other);
    let mut step = Step::plain("the daemon starts");
    step.fault = !alone && !setup.leaves_written();
    nexts.add(step, |world| {
        if !world.leased(world.fleet().at) {
            // The keeper ended it with the lease.
            world.stops();
        }
        let World { rows, fleet, .. } = world;
        let fleet = fleet.as_mut().unwrap();
        fleet.join(rows, fleet.at);
        restart::start(world, setup);
    });
}

fn lease_ends(nexts: &mut Nexts<'_>) {
    let faults = nexts.from.fleet().faults;
    if nexts.from.daemon.is_none() {
        return nexts.add(Step::plain("its lease ends"), |world| {
            world.codex.die();
            lapse(world);
        });
    }
    if faults.frozen > 0 {
        let step = Step::plain("ITS DAEMON IS FROZEN, and its lease ends");
        nexts.add(step.fault(), |world| {
            world.fleet_mut().faults.frozen -= 1;
            world.codex.die();
            lapse(world);
        });
    }
    if faults.whole > 0 {
        let step = Step::plain("ALL OF IT IS FROZEN, and its lease ends");
        nexts.add(step.fault(), |world| {
            let turns = world.codex.turns.len();
            world.fleet_mut().faults.whole -= 1;
            let side = world.fleet_mut().side_mut();
            (side.whole, side.turns) = (true, turns);
            lapse(world);
        });
    }
}

/// The lease of this node ends, and that of the other one does not.
fn lapse(world: &mut World) {
    let World { rows, fleet, .. } = world;
    let fleet = fleet.as_mut().unwrap();
    for wait_ms in [0, LEASE_MS / 2, LEASE_MS / 2] {
        fleet.clock_ms += wait_ms;
        fleet.renew(rows, fleet.other());
    }
    rows.set_clock(Timestamp(fleet.clock_ms));
}

/// A Codex that was frozen with its keeper wakes: it goes on until the keeper has ended it.
fn outlives(nexts: &mut Nexts<'_>) {
    if !nexts.from.fleet().side().whole {
        return;
    }
    let from = nexts.all.len();
    codex_works(nexts);
    // Nothing ends a Codex whose keeper believes that the lease lasts.
    if nexts.setup.has(Mutant::SleepingClock) {
        return;
    }
    for next in nexts.all.iter_mut().skip(from) {
        excuse(nexts.from, &mut next.world);
    }
    nexts.add(Step::plain("the keeper ends codex"), |world| {
        world.codex.die();
        world.fleet_mut().side_mut().whole = false;
    });
}

/// What a turn does that was begun before the lease ended is held against nobody.
fn excuse(from: &World, next: &mut World) {
    let begun = |world: &World| {
        let turns = world.codex.turns.iter();
        let turns: Vec<CodexTurn> = turns.take(from.fleet().side().turns).copied().collect();
        turns
    };
    if begun(from) == begun(next) {
        return;
    }
    next.broken = from.broken;
    let (before, after) = (from.codex.effects, next.codex.effects);
    let unfenced = &mut next.fleet_mut().unfenced;
    for ((unfenced, after), before) in unfenced.iter_mut().zip(after).zip(before) {
        *unfenced += after - before;
    }
}

/// Takes over what a node that is gone had.
fn leads(nexts: &mut Nexts<'_>) {
    let other = nexts.from.fleet().other();
    if nexts.from.home_node() == Some(other) && nexts.setup.has(Mutant::TakeOverLiving) {
        return nexts.add(Step::plain("take over what a living node has"), seize);
    }
    let (leave_written, fleet) = (nexts.setup.leaves_written(), nexts.from.fleet());
    let mut world = nexts.from.clone();
    world.rows.set_clock(fleet.lease_clock(fleet.at));
    let stranded = world.rows.stranded(1, leave_written).unwrap();
    if stranded.is_empty() {
        return;
    }
    let taken = commit(
        &mut world,
        TakeOver {
            limit: 10,
            leave_written,
        },
        NOW,
    );
    if taken.is_none_or(|taken| taken.conversations.is_empty()) {
        return;
    }
    if nexts.setup.has(Mutant::LostCountsClean) {
        forget_touched(nexts.from, &mut world);
    }
    nexts.add(Step::plain("commit take_over"), |next| *next = world);
}

fn forget_touched(from: &World, world: &mut World) {
    let before = from.sight.rows.iter().flatten();
    for turn in before.filter_map(|row| row.turn.clone()) {
        let state = world.rows.turn(&turn.message_id, turn.attempt).unwrap();
        let now = state.unwrap();
        let touched = turn.touched;
        let clean = bridge_core::value::Turn { touched, ..now };
        world.rows.apply(&Change::Turn(clean)).unwrap();
    }
    world.wrote();
}

fn seize(world: &mut World) {
    let home = world.home().unwrap();
    let at = world.fleet().at;
    let change = Change::Fleet(FleetChange::Home {
        from: home.node_id,
        to: Home {
            node_id: Some(node_id(at)),
            generation: home.generation + 1,
            ..home
        },
    });
    world.rows.apply(&change).unwrap();
    world.wrote();
    let in_flight = world.rows.in_flight_of(&conversation_id()).unwrap();
    if let Some(message) = in_flight {
        let message_id = message.message_id;
        commit(world, Resume { message_id }, NOW);
    }
}

/// Looks at the rows of its conversations for what nobody told it of.
fn misses(nexts: &mut Nexts<'_>, memory: &Memory) {
    let everywhere = nexts.setup.has(Mutant::SendAnywhere);
    if !nexts.from.is_home() && !everywhere {
        return;
    }
    for message in 0..nexts.setup.messages {
        let unclear = nexts.from.state(message) == Some(StateName::Unclear);
        if unclear && memory.task(message) == Task::None {
            nexts.add(Step::of("look for a lost turn", message), |world| {
                perform(world, regenerate(world.message(message).unwrap()));
            });
        }
    }
    let next = nexts.from.rows.next_reply(&conversation_id()).unwrap();
    if memory.lane == Lane::Closed && next.is_some() {
        nexts.add(Step::plain("look for replies"), |world| {
            if let Some(memory) = &mut world.daemon {
                memory.lane = Lane::Open;
            }
        });
    }
}

fn moves(nexts: &mut Nexts<'_>) {
    let fleet = nexts.from.fleet();
    let (at, other) = (fleet.at, fleet.other());
    // Where files keep a conversation with a node that is gone, a person moves it in the end.
    let rescues = nexts.setup.leaves_written();
    let gone = nexts
        .from
        .home_node()
        .is_some_and(|node| !nexts.from.leased(node));
    if fleet.faults.moved > 0 && (gone || !rescues) {
        for to in [at, other] {
            let mut world = nexts.from.clone();
            let moves = MoveConversation {
                conversation_id: conversation_id(),
                to: node_id(to),
                actor: "somebody".to_owned(),
            };
            if commit(&mut world, moves, NOW) == Some(MoveOutcome::Moved) {
                world.fleet_mut().faults.moved -= 1;
                world.fleet_mut().wrote_at = None;
                let mut step = Step::plain("A PERSON MOVES THE CONVERSATION");
                step.fault = !rescues;
                nexts.add(step, |next| *next = world);
            }
        }
    }
}

/// A node that is drained hands over what it may, and leaves when nothing is under way any more.
fn drains(nexts: &mut Nexts<'_>) {
    let fleet = nexts.from.fleet();
    match nexts.from.node_state(fleet.at) {
        NodeState::Active if fleet.faults.drained > 0 => {
            nexts.add(Step::plain("A PERSON DRAINS IT").fault(), |world| {
                world.fleet_mut().faults.drained -= 1;
                set_state(world, NodeState::Draining);
            });
        }
        NodeState::Draining => {
            let mut world = nexts.from.clone();
            let released = release(&mut world, nexts.setup).unwrap_or_default();
            if released.released > 0 {
                nexts.add(Step::plain("commit release"), |next| *next = world);
            } else if released.busy == 0 {
                nexts.add(Step::plain("commit leave"), leave);
            }
        }
        NodeState::Active | NodeState::Left => {}
    }
}

fn release(world: &mut World, setup: &Setup) -> Option<Released> {
    let release = Release {
        after: None,
        limit: 10,
        leave_written: setup.leaves_written() && !setup.has(Mutant::WrittenReleased),
    };
    commit(world, release, NOW)
}

fn leave(world: &mut World) {
    set_state(world, NodeState::Left);
    world.stops();
}

fn set_state(world: &mut World, state: NodeState) {
    let set = SetNodeState {
        node_id: node_id(world.fleet().at),
        state,
        actor: None,
    };
    commit(world, set, NOW);
}
