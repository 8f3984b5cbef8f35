//! The daemon: how it commits, what it then starts, how messages come in, and whose turn it is. What its tasks do is
//! in `work`, `follow`, `join` and `reconcile`, in the order in which the real ones do it.

use crate::codex::number;
use crate::setup::{Mutant, Setup};
use crate::steps::{Nexts, Step};
use crate::world::{
    Broken, DUE, Join, LATE, Lane, Memory, NOW, Task, World, conversation_id, message_id,
};
use crate::{fleet, follow, join, reconcile, work};
use bridge_core::step::{
    Action, Claim, ClaimOutcome, Pace, Receive, Received, RunError, Transition, Verdict,
};
use bridge_core::value::{ChannelId, ExternalId, SenderKind, StateName, Tier, Timestamp};

pub(crate) const PACE: Pace = Pace {
    backoff_base_ms: 2_000,
    config_probe_ms: 15_000,
    jitter: 0,
};

/// More than there are messages.
const TURNS_MAX: u32 = 16;

/// Commits a transition and starts what it asks for. A refusal changes nothing, as in the daemon.
pub(crate) fn commit<T: Transition>(
    world: &mut World,
    transition: T,
    now: Timestamp,
) -> Option<T::Outcome> {
    if !fleet::enter(world, T::NAME) {
        return None;
    }
    let now = world.machine_clock(now);
    let ran = world.rows.transact(transition, now);
    fleet::leave(world);
    match ran {
        Ok(committed) => {
            world.wrote();
            perform(world, committed.actions);
            Some(committed.outcome)
        }
        Err(RunError::Refused(_)) => None,
        Err(RunError::Rows(_)) => {
            world.broken = Some(Broken::LedgerConflict);
            None
        }
    }
}

/// The scheduler looks at rows by itself, and a followed turn sees on its row that it was stopped.
pub(crate) fn perform(world: &mut World, actions: Vec<Action>) {
    let Some(memory) = &mut world.daemon else {
        return;
    };
    for action in actions {
        match action {
            Action::Work { message_id } => memory.set(number(message_id.as_str()), Task::Work),
            Action::Reconcile { message_id } => {
                memory.set(number(message_id.as_str()), Task::Reconcile);
            }
            Action::Join { message_id } => {
                memory.set_join(number(message_id.as_str()), Join::Wanted);
            }
            Action::Deliver { .. } if memory.lane == Lane::Closed => memory.lane = Lane::Open,
            Action::Deliver { .. }
            | Action::Schedule
            | Action::ScheduleAt { .. }
            | Action::Interrupt { .. }
            | Action::Answer { .. }
            | Action::Announce { .. } => {}
        }
    }
}

pub(crate) fn steps(nexts: &mut Nexts<'_>, memory: &Memory) {
    if !memory.stopping {
        receive(nexts);
        shown_again(nexts);
        claim(nexts);
    }
    for message in 0..nexts.setup.messages {
        match memory.task(message) {
            Task::None => {}
            Task::Work => work::work(nexts, message),
            Task::Opened { thread, life } => work::bind(nexts, message, thread, life),
            Task::Ready { thread, life } => work::begin(nexts, message, thread, life),
            Task::Begun { thread, life } => work::ask(nexts, message, thread, life),
            Task::Asked { turn } => work::response(nexts, message, turn),
            Task::AskedEarly { turn } => work::begin_late(nexts, message, turn),
            Task::Started { turn } => work::attach(nexts, message, turn),
            Task::Following { turn } => follow::follow(nexts, message, turn, memory.stopping),
            Task::Told { turn } => follow::journal_late(nexts, message, turn),
            Task::Reconcile => reconcile::look(nexts, message),
            Task::Looked(seen) => reconcile::reconcile(nexts, message, seen),
        }
        join::steps(nexts, message, memory.join(message));
    }
}

pub(crate) fn set(world: &mut World, message: u8, task: Task) {
    if let Some(memory) = &mut world.daemon {
        memory.set(message, task);
    }
}

/// Ends the task, then commits: what the transition asks for may be the next task.
pub(crate) fn end_with<T: Transition>(
    world: &mut World,
    message: u8,
    transition: T,
) -> Option<T::Outcome> {
    set(world, message, Task::None);
    commit(world, transition, NOW)
}

fn row(message: u8, setup: &Setup) -> Receive {
    Receive {
        message_id: message_id(message),
        conversation_id: conversation_id(),
        workdir: "/w".to_owned(),
        channel: ChannelId::new("local"),
        external_key: "k".to_owned(),
        external_id: ExternalId::new(format!("e{message}")),
        kind: SenderKind::Person,
        sender: "me".to_owned(),
        tier: Tier::Owner,
        body: "do it".to_owned(),
        mid_turn: setup.mid_turn,
        verdict: Verdict::Fit,
        extras: bridge_core::step::Extras::default(),
    }
}

/// The source shows its rows in order.
fn receive(nexts: &mut Nexts<'_>) {
    let (world, setup) = (nexts.from, nexts.setup);
    let Some(message) = (0..setup.messages).find(|at| world.message(*at).is_none()) else {
        return;
    };
    nexts.add(Step::of("commit receive", message), |world| {
        commit(world, row(message, setup), NOW);
    });
}

/// The source may show a row again at any time, which must change nothing.
fn shown_again(nexts: &mut Nexts<'_>) {
    let (world, setup) = (nexts.from, nexts.setup);
    if !world.has_lease() {
        return;
    }
    for message in 0..setup.messages {
        if world.message(message).is_some() {
            let step = Step::of("commit receive: shown again", message);
            nexts.add(step.fault(), |world| show_again(world, message, setup));
        }
    }
}

fn show_again(world: &mut World, message: u8, setup: &Setup) {
    let mut row = row(message, setup);
    if setup.has(Mutant::DuplicateTaken) {
        row.message_id = message_id(message + 1);
        row.external_id = ExternalId::new("another");
    }
    if commit(world, row, NOW) != Some(Received::Duplicate(message_id(message))) {
        world.broken = Some(Broken::DuplicateTaken);
    }
}

fn claim(nexts: &mut Nexts<'_>) {
    if let Some(message) = nexts.from.sight.head {
        claim_at(nexts, message, DUE);
    }
    let parked = |at: &u8| nexts.from.state(*at) == Some(StateName::Parked);
    if let Some(message) = (0..nexts.setup.messages).find(parked) {
        claim_at(nexts, message, LATE);
    }
}

fn claim_at(nexts: &mut Nexts<'_>, message: u8, now: Timestamp) {
    let mut world = nexts.from.clone();
    let claim = Claim {
        turns_max: TURNS_MAX,
        turns_reserved: 0,
        turns_per_channel: TURNS_MAX,
        per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
        one_writer: Vec::new(),
        readers: Vec::new(),
        budgets: std::sync::Arc::default(),
        leave_written: nexts.setup.leaves_written(),
        now,
    };
    let what = match commit(&mut world, claim, now) {
        Some(ClaimOutcome::Claimed { .. }) => "commit claim",
        Some(ClaimOutcome::Buried) if now == LATE => "commit claim: nobody said how it goes on",
        Some(ClaimOutcome::Buried) => "commit claim: buried",
        Some(ClaimOutcome::Held | ClaimOutcome::Idle { .. } | ClaimOutcome::Full { .. }) | None => {
            return;
        }
    };
    nexts.add(Step::of(what, message), |next| *next = world);
}
