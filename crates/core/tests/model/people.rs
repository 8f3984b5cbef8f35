//! What people do beside sending messages: they stop one, and they send a dead letter again.

use crate::codex::Why;
use crate::daemon::{commit, set};
use crate::setup::Mutant;
use crate::steps::{Nexts, Step};
use crate::world::{NOW, Task, World, message_id};
use bridge_core::port::{Change, Rows};
use bridge_core::step::{Cancel, Fail, Redrive};
use bridge_core::value::{CutPolicy, Life, MessageState, StateName};

pub(crate) fn steps(nexts: &mut Nexts<'_>) {
    for message in 0..nexts.setup.messages {
        match nexts.from.state(message) {
            Some(StateName::Dead | StateName::Parked) if nexts.from.faults.redrive > 0 => {
                redrive(nexts, message);
            }
            Some(state) if state.awaits_answer() && nexts.from.faults.cancel > 0 => {
                cancel(nexts, message);
            }
            Some(_) | None => {}
        }
    }
}

fn cancel(nexts: &mut Nexts<'_>, message: u8) {
    let forgets = nexts.setup.has(Mutant::CancelForgetsTurn);
    let running = nexts.from.state(message) == Some(StateName::Running);
    nexts.add(Step::of("A PERSON STOPS IT", message).fault(), |world| {
        world.faults.cancel -= 1;
        let message_id = message_id(message);
        if forgets && running {
            set(world, message, Task::None);
            let fail = Fail {
                message_id,
                failure: Why::Final.failure(),
                touched: false,
                usage: bridge_core::value::Usage::default(),
                on_cut: CutPolicy::Bury,
                pace: crate::daemon::PACE,
            };
            commit(world, fail, NOW);
            return;
        }
        let by = bridge_core::value::Actor::named("somebody");
        commit(world, Cancel { message_id, by }, NOW);
    });
}

fn redrive(nexts: &mut Nexts<'_>, message: u8) {
    let reruns = nexts.setup.has(Mutant::RedriveReruns);
    let step = Step::of("A PERSON SENDS IT AGAIN", message);
    nexts.add(step.fault(), |world| {
        world.faults.redrive -= 1;
        let dead = world.state(message) == Some(StateName::Dead);
        if let Some(redriven) = world.redriven.get_mut(usize::from(message)) {
            *redriven |= dead;
        }
        let message_id = message_id(message);
        let answer = world.row(message).and_then(|row| row.answer);
        if reruns && answer.is_some() {
            return wait_again(world, message);
        }
        let by = "somebody".to_owned();
        commit(
            world,
            Redrive {
                message_id,
                by,
                not_before: None,
            },
            NOW,
        );
    });
}

/// Puts a row back as if nothing had been done for it.
fn wait_again(world: &mut World, message: u8) {
    let row = world.message(message).unwrap().clone();
    let state = MessageState::Received { hold: None };
    let change = Change::UpdateState {
        message_id: row.message_id,
        from: StateName::Dead,
        life: Life {
            spent: 0,
            ..row.life.moved(state, NOW)
        },
    };
    world.rows.apply(&change).unwrap();
    world.wrote();
}
