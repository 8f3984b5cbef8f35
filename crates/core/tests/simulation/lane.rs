//! The reply lanes: intent, platform, verdict.

use crate::daemon::{Setback, commit, row_of};
use crate::dials::Mutant;
use crate::platform::word;
use crate::queue::Duty;
use crate::world::World;
use bridge_core::port::Approach;
use bridge_core::step::{Confirm, Send, SendFailed, SendOutcome};
use bridge_core::value::{Class, ConversationId, Failure, Message, Reply, Timestamp};
use bridge_sim::history::{Fact, RowId, Word};

/// Pause after the ledger failed under a lane.
const FAULT_PAUSE_MS: u64 = 1_000;

pub(crate) fn lane(world: &mut World, lane: ConversationId) {
    let send = Send {
        conversation_id: lane.clone(),
    };
    match commit(world, send) {
        Ok(SendOutcome::Send {
            message,
            reply,
            again,
        }) => {
            world.soon(Duty::Hand {
                message,
                reply,
                again,
            });
        }
        Ok(SendOutcome::Later(at)) => later(world, lane, at),
        Ok(SendOutcome::Empty) => {
            let memory = world.daemon.as_mut().unwrap();
            if memory.lanes.remove(&lane) == Some(true) {
                memory.lanes.insert(lane.clone(), false);
                world.soon(Duty::Lane(lane));
            }
        }
        Err(Setback::Died) => {}
        Err(Setback::Refused | Setback::Unavailable) => pause(world, lane),
    }
}

fn pause(world: &mut World, lane: ConversationId) {
    world.duty(FAULT_PAUSE_MS, FAULT_PAUSE_MS, Duty::Lane(lane));
}

fn later(world: &mut World, lane: ConversationId, at: Timestamp) {
    if world.dials.has(Mutant::LaneForgets) {
        world.daemon.as_mut().unwrap().lanes.remove(&lane);
        return;
    }
    let ms = u64::try_from(at.since_ms(world.clock()).max(1)).unwrap();
    world.duty(ms, ms, Duty::Lane(lane));
}

/// Hands a reply over; one that may have arrived is looked for first where the platform can be asked.
pub(crate) fn hand(world: &mut World, message: Box<Message>, reply: Box<Reply>, again: bool) {
    let skip = world.dials.has(Mutant::ProbeSkipped);
    let verdict = match world.dials.sink.approach(again) {
        Approach::Probe if !skip => {
            let failed = world.fault(world.dials.rates.probe_fails);
            match world.platform.keys.contains(reply.key.as_str()) {
                _ if failed => Err(Failure::new(Class::Ambiguous, "the look failed")),
                true => Ok("found".to_owned()),
                false => send(world, &message, &reply),
            }
        }
        Approach::Send | Approach::Probe => send(world, &message, &reply),
        Approach::GiveUp(failure) => Err(failure),
    };
    world.note(format_args!(
        "reply {} of {}: {verdict:?}",
        reply.ordinal, reply.message_id
    ));
    world.duty(
        1,
        300,
        Duty::Heard {
            message,
            reply,
            verdict,
        },
    );
}

fn send(world: &mut World, message: &Message, reply: &Reply) -> Result<String, Failure> {
    let rates = world.dials.rates;
    let row = row_of(&message.external_id);
    if world.fault(rates.send_refused) {
        let until = world.clock().plus_ms(30_000);
        let class = if world.dice.chance(500) {
            Class::Transient
        } else {
            Class::Capacity { until: Some(until) }
        };
        return Err(Failure::new(class, "the platform is busy"));
    }
    if world.fault(rates.send_forbidden) {
        world.platform.forbidden.insert(row);
        return Err(Failure::new(
            Class::Permanent,
            "the platform does not want it",
        ));
    }
    let unknown = || Failure::new(Class::Ambiguous, "nobody heard what became of it");
    match (world.fault(rates.send_unknown), world.dice.chance(500)) {
        (false, _) => show(world, row, reply),
        (true, true) => {
            show(world, row, reply);
            return Err(unknown());
        }
        (true, false) => return Err(unknown()),
    }
    Ok("receipt".to_owned())
}

fn show(world: &mut World, row: RowId, reply: &Reply) {
    let mut key = reply.key.as_str().to_owned();
    if world.dials.has(Mutant::FreshKey) {
        world.ids += 1;
        key = format!("{key}/{}", world.ids);
    }
    if !world.platform.take(&key, world.dials.sink) {
        return world.note(format_args!("the platform has {key} already"));
    }
    let word = word(row, reply);
    if word != Word::Waits {
        world.platform.ended.insert(row);
    }
    let ordinal = reply.ordinal;
    world.record(Fact::Visible {
        row,
        ordinal,
        key,
        word,
    });
}

pub(crate) fn heard(
    world: &mut World,
    message: &Message,
    reply: &Reply,
    verdict: Result<String, Failure>,
) {
    let lane = message.conversation_id.clone();
    let (message_id, ordinal) = (message.message_id.clone(), reply.ordinal);
    let done = match verdict {
        Ok(receipt) => {
            let confirm = Confirm {
                message_id,
                ordinal,
                receipt,
            };
            commit(world, confirm).map(|()| None)
        }
        Err(failure) => {
            let jitter = world.jitter();
            commit(
                world,
                SendFailed {
                    message_id,
                    ordinal,
                    failure,
                    jitter,
                },
            )
        }
    };
    match done {
        Ok(None) => world.soon(Duty::Lane(lane)),
        Ok(Some(at)) => later(world, lane, at),
        Err(Setback::Died) => {}
        Err(Setback::Refused | Setback::Unavailable) => pause(world, lane),
    }
}
