//! A message that arrives while a turn of its conversation runs is given to that turn: intent, then the text.

use crate::codex::number;
use crate::daemon::commit;
use crate::setup::Mutant;
use crate::steps::{Nexts, Step};
use crate::world::{Join, NOW, World, conversation_id, message_id};
use bridge_core::port::Read;
use bridge_core::step;
use bridge_core::value::MessageState;

/// One after the other, in the order in which they came: a text that is told must not overtake an earlier one.
pub(crate) fn steps(nexts: &mut Nexts<'_>, message: u8, join: Join) {
    let memory = nexts.from.daemon.as_ref();
    let before = memory.into_iter().flat_map(|memory| memory.joins);
    if before
        .take(usize::from(message))
        .any(|join| join != Join::None)
    {
        return;
    }
    match join {
        Join::None => {}
        Join::Wanted if nexts.setup.has(Mutant::SteerBeforeJoin) => {
            let step = Step::of("tell the turn without a word to the ledger", message);
            nexts.add(step, |world| {
                let attempt = world.message(message).unwrap().life.attempt + 1;
                let leader = running(world).filter(|turn| world.codex.listens(*turn));
                set(world, message, leader.map_or(Join::None, |_| Join::Late));
                if let Some(turn) = leader {
                    world.codex.tell(turn, message, attempt);
                }
            });
        }
        Join::Wanted | Join::Late => nexts.add(Step::of("commit join", message), |world| {
            set(world, message, Join::None);
            let message_id = message_id(message);
            let steer = commit(world, step::Join { message_id }, NOW).flatten();
            if let (Some(steer), Join::Wanted) = (steer, join) {
                let turn = number(steer.turn_id.as_str());
                set(world, message, Join::Telling { turn });
            }
        }),
        Join::Telling { turn } => tell(nexts, message, turn),
        Join::Refused => nexts.add(Step::of("commit leave", message), |world| {
            set(world, message, Join::None);
            let message_id = message_id(message);
            commit(world, step::Leave { message_id }, NOW);
        }),
        Join::Unknown => nexts.add(Step::of("commit join_unknown", message), |world| {
            set(world, message, Join::None);
            let message_id = message_id(message);
            let why = "codex did not say".to_owned();
            commit(world, step::JoinUnknown { message_id, why }, NOW);
        }),
    }
}

fn set(world: &mut World, message: u8, join: Join) {
    if let Some(memory) = &mut world.daemon {
        memory.set_join(message, join);
    }
}

fn running(world: &World) -> Option<u8> {
    let leader = world.rows.in_flight_of(&conversation_id()).unwrap()?;
    match leader.life.state {
        MessageState::Running { turn_id } => Some(number(turn_id.as_str())),
        _ => None,
    }
}

/// The turn takes the text, or it is over, or nobody ever hears of it because Codex is gone.
fn tell(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    if !nexts.from.may_act() {
        return;
    }
    let unknown = if nexts.setup.has(Mutant::UnknownForgotten) {
        Join::None
    } else {
        Join::Unknown
    };
    if nexts.from.codex.listens(turn) {
        nexts.add(
            Step::of("the running turn takes the text", message),
            |world| {
                let attempt = world.message(message).unwrap().life.attempt;
                world.codex.tell(turn, message, attempt);
                set(world, message, Join::None);
            },
        );
        if nexts.from.faults.deaf > 0 {
            let step = Step::of("the running turn takes no text", message);
            nexts.add(step.fault(), |world| {
                world.faults.deaf -= 1;
                set(world, message, Join::Refused);
            });
            let taken = Step::of("the turn takes the text, and nobody knows", message);
            nexts.add(taken.fault(), |world| {
                world.faults.deaf -= 1;
                let attempt = world.message(message).unwrap().life.attempt;
                world.codex.tell(turn, message, attempt);
                set(world, message, unknown);
            });
            let lost = Step::of("the text is lost, and nobody knows", message);
            nexts.add(lost.fault(), |world| {
                world.faults.deaf -= 1;
                set(world, message, unknown);
            });
        }
        return;
    }
    let step = Step::of("the turn for the text is over", message);
    nexts.add(step, |world| set(world, message, Join::Refused));
    if nexts.from.codex.turn(turn).gone {
        let step = Step::of("nobody hears what became of the text", message);
        nexts.add(step, |world| set(world, message, unknown));
    }
}
