//! The start of a daemon after any end, as `recover` does it: rows left in the middle are resumed, and every
//! action is generated again from rows.

use crate::daemon::{PACE, commit, perform};
use crate::setup::{Mutant, Setup};
use crate::world::{Lane, Memory, NOW, World, conversation_id, message_id};
use bridge_core::port::Read;
use bridge_core::step::{Fail, Resume, regenerate};
use bridge_core::value::{Class, Failure, StateName};

pub(crate) fn start(world: &mut World, setup: &Setup) {
    world.daemon = Some(Memory::new());
    for message in 0..setup.messages {
        let Some(row) = world.message(message) else {
            continue;
        };
        let message_id = message_id(message);
        match row.life.state.name() {
            StateName::Claimed | StateName::Starting | StateName::Running
                if setup.has(Mutant::RestartForgets) =>
            {
                let failure = Failure::new(Class::Transient, "forgotten");
                let fail = Fail {
                    message_id,
                    failure,
                    touched: false,
                    usage: bridge_core::value::Usage::default(),
                    on_cut: setup.on_cut,
                    pace: PACE,
                };
                commit(world, fail, NOW);
            }
            StateName::Starting | StateName::Running if setup.has(Mutant::RestartLeaves) => {}
            StateName::Claimed | StateName::Starting | StateName::Running => {
                commit(world, Resume { message_id }, NOW);
            }
            StateName::Received
            | StateName::Unclear
            | StateName::Steered
            | StateName::Parked
            | StateName::Answered
            | StateName::Sending => perform(world, regenerate(row)),
            StateName::Done | StateName::Dead | StateName::Cancelled => {}
        }
    }
    let lanes = world.rows.lanes(None, 1).unwrap();
    if let (Some(memory), true) = (&mut world.daemon, lanes.contains(&conversation_id())) {
        memory.lane = Lane::Open;
    }
}
