//! The daemon's ack lane: it tells the source, then journals that it did. It lives on rows alone.

use crate::daemon::commit;
use crate::setup::Mutant;
use crate::steps::{Nexts, Step};
use crate::world::{Acks, Broken, Memory, NOW, World, message_id};
use bridge_core::step::Acknowledge;
use bridge_core::value::{AckMode, AckState, StateName};

pub(crate) fn steps(nexts: &mut Nexts<'_>, memory: &Memory) {
    match memory.acks {
        Acks::Idle => {
            let mut due = nexts.from.sight.ack_due;
            if nexts.setup.has(Mutant::AckAtAnswered) {
                due = due.or_else(|| answered(nexts));
            }
            if let Some(message) = due {
                tell(nexts, message);
            }
        }
        Acks::Told { message, taken } => {
            nexts.add(Step::of("commit acknowledge", message), |world| {
                set(world, Acks::Idle);
                let message_id = message_id(message);
                commit(world, Acknowledge { message_id, taken }, NOW);
            });
        }
    }
}

fn answered(nexts: &Nexts<'_>) -> Option<u8> {
    let world = nexts.from;
    (0..nexts.setup.messages).find(|at| {
        let due = world.row(*at).map(|row| row.ack.state) == Some(AckState::Due);
        world.state(*at) == Some(StateName::Answered) && due
    })
}

fn set(world: &mut World, acks: Acks) {
    if let Some(memory) = &mut world.daemon {
        memory.acks = acks;
    }
}

/// The source does not show the message any more.
fn taken(world: &mut World, message: u8, mode: AckMode) {
    world.platform.set_acked(message);
    let state = world.state(message);
    let over = state.is_some_and(StateName::finished) || world.platform.sees_any(message);
    if mode == AckMode::AfterReply && !over {
        world.broken = Some(Broken::AckedEarly);
    }
}

fn tell(nexts: &mut Nexts<'_>, message: u8) {
    let mode = nexts.setup.ack;
    let told = |taken| Acks::Told { message, taken };
    nexts.add(Step::of("the source takes the ack", message), |world| {
        taken(world, message, mode);
        set(world, told(true));
    });
    if nexts.from.faults.ack == 0 {
        return;
    }
    let step = Step::of("the source takes the ack, and nobody hears of it", message);
    nexts.add(step.fault(), |world| {
        world.faults.ack -= 1;
        taken(world, message, mode);
    });
    nexts.add(Step::of("the ack is lost", message).fault(), |world| {
        world.faults.ack -= 1;
    });
    let step = Step::of("the source forgets the ack", message);
    nexts.add(step.fault(), |world| {
        world.faults.ack -= 1;
        set(world, told(true));
    });
    let step = Step::of("the source refuses the ack for good", message);
    nexts.add(step.fault(), |world| {
        world.faults.ack -= 1;
        set(world, told(false));
    });
}
