//! A turn lost from sight: one look at the history, then what the core makes of it. Between the two the world goes on.

use crate::daemon::{Setback, commit, settle};
use crate::queue::{Duty, Settling};
use crate::work::{follow_turn, load, pace};
use crate::world::World;
use bridge_core::limits::RECONCILE_RETRY_MS;
use bridge_core::port::{Read, TurnHistory};
use bridge_core::retry::backoff_ms;
use bridge_core::step::{DeferReconcile, Reconcile};
use bridge_core::value::{Class, Failure, MessageId, StateName};

/// Longest pause between two looks.
const LOOK_PAUSE_MAX_MS: i64 = 60_000;

pub(crate) fn look(world: &mut World, message_id: MessageId, tries: u32) {
    let (message, _) = load(world, &message_id);
    if message.life.state.name() != StateName::Unclear {
        return;
    }
    if world.fault(world.dials.rates.look_fails) {
        return blind(world, message_id, tries);
    }
    let turn = world.rows.turn(&message_id, message.life.attempt).unwrap();
    let Some(turn) = turn else {
        return;
    };
    match world.codex.look(&turn) {
        None => world.duty(50, 50, Duty::Look { message_id, tries }),
        Some((found, turn)) => {
            world.note(format_args!("a look for {message_id} finds {found:?}"));
            world.soon(Duty::Looked {
                message_id,
                found,
                turn,
                tries,
            });
        }
    }
}

fn again(world: &mut World, message_id: MessageId, tries: u32) -> i64 {
    let jitter = world.jitter();
    let pause = backoff_ms(tries, RECONCILE_RETRY_MS, LOOK_PAUSE_MAX_MS, jitter);
    let ms = u64::try_from(pause).unwrap();
    let tries = tries + 1;
    world.duty(ms, ms, Duty::Look { message_id, tries });
    pause
}

fn blind(world: &mut World, message_id: MessageId, tries: u32) {
    let pause = again(world, message_id.clone(), tries);
    let blind = DeferReconcile {
        message_id,
        failure: Failure::new(Class::Transient, "codex does not start"),
        until: world.clock().plus_ms(pause),
    };
    settle(world, Settling::DeferReconcile(blind), 0, None);
}

pub(crate) fn decide(
    world: &mut World,
    message_id: MessageId,
    found: TurnHistory,
    turn: Option<usize>,
    tries: u32,
) {
    let reconcile = Reconcile {
        attachments: Vec::new(),
        message_id: message_id.clone(),
        found,
        boot_id: world.boot_id(),
        reply_max_chars: None,
        on_cut: world.dials.on_cut,
        pace: pace(world),
    };
    match (commit(world, reconcile), turn) {
        (Ok(true), Some(turn)) => {
            follow_turn(world, message_id, turn, false);
            world.soon(Duty::Follow { turn });
        }
        (Ok(_), _) | (Err(Setback::Died | Setback::Refused), _) => {}
        (Err(Setback::Unavailable), _) => {
            again(world, message_id, tries);
        }
    }
}
