//! The daemon: how it commits, what it then starts, how messages come in, and whose turn it is. What its tasks do is
//! in `work`, `follow` and `reconcile`, in the order in which the real ones do it.

use crate::codex::number;
use crate::steps::{Nexts, Step};
use crate::world::{Broken, DUE, Lane, Memory, NOW, Task, World, conversation_id, message_id};
use crate::{follow, reconcile, work};
use bridge_core::port::Read;
use bridge_core::step::{
    Action, Claim, ClaimOutcome, Pace, Receive, Received, RunError, Transition,
};
use bridge_core::value::{AckMode, ChannelId, ExternalId, SenderKind, Tier, Timestamp};

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
    match world.rows.transact(transition, now) {
        Ok(committed) => {
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
            Action::Deliver { .. } if memory.lane == Lane::Closed => memory.lane = Lane::Open,
            Action::Deliver { .. }
            | Action::Schedule
            | Action::ScheduleAt { .. }
            | Action::Acknowledge { .. }
            | Action::Announce { .. } => {}
        }
    }
}

pub(crate) fn steps(nexts: &mut Nexts<'_>, memory: &Memory) {
    if !memory.stopping {
        receive(nexts);
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

/// The source shows its rows in order, and each of them twice.
fn receive(nexts: &mut Nexts<'_>) {
    let world = nexts.from;
    let Some(message) = (0..nexts.setup.messages).find(|at| world.message(*at).is_none()) else {
        return;
    };
    nexts.add(Step::of("commit receive", message), |world| {
        let row = Receive {
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
            ack: AckMode::None,
        };
        commit(world, row.clone(), NOW);
        if commit(world, row, NOW) != Some(Received::Duplicate(message_id(message))) {
            world.broken = Some(Broken::DuplicateTaken);
        }
    });
}

fn claim(nexts: &mut Nexts<'_>) {
    let heads = nexts.from.rows.heads(DUE, 1).unwrap();
    let Some(head) = heads.first() else {
        return;
    };
    let message = number(head.message.message_id.as_str());
    let mut world = nexts.from.clone();
    let claim = Claim {
        turns_max: TURNS_MAX,
        now: DUE,
    };
    let what = match commit(&mut world, claim, DUE) {
        Some(ClaimOutcome::Claimed { .. }) => "commit claim",
        Some(ClaimOutcome::Buried) => "commit claim: buried",
        Some(ClaimOutcome::Idle { .. } | ClaimOutcome::Full) | None => return,
    };
    nexts.add(Step::of(what, message), |next| *next = world);
}
