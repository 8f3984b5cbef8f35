//! The daemon's reply lane: intent, platform, verdict. A verdict that was not journaled is lost in a crash.

use crate::codex::number;
use crate::daemon::commit;
use crate::setup::Mutant;
use crate::steps::{Nexts, Step};
use crate::world::{DUE, Lane, Memory, NOW, Verdict, World, conversation_id, message_id};
use bridge_core::port::Read;
use bridge_core::step::{Confirm, Refuse, Send, SendOutcome};
use bridge_core::value::{Class, Failure, Reply};

pub(crate) fn steps(nexts: &mut Nexts<'_>, memory: &Memory) {
    let late = nexts.setup.has(Mutant::FreshKey);
    match memory.lane {
        Lane::Closed => {}
        Lane::Open if late => nexts.add(
            Step::plain("the lane takes the next reply without a word to the ledger"),
            |world| {
                let next = world.rows.next_reply(&conversation_id()).unwrap();
                set(world, next.map_or(Lane::Closed, |reply| sending(&reply)));
            },
        ),
        Lane::Open => nexts.add(Step::plain("commit send"), |world| {
            let lane = match intend(world) {
                Some(reply) => sending(&reply),
                None => Lane::Closed,
            };
            set(world, lane);
        }),
        Lane::Sending { message, ordinal } => platform(nexts, message, ordinal),
        Lane::Heard {
            message,
            ordinal,
            verdict,
        } => nexts.add(Step::of(journaled(verdict), message), |world| {
            if late {
                intend(world);
            }
            set(world, Lane::Open);
            journal(world, message, ordinal, verdict);
        }),
    }
}

fn set(world: &mut World, lane: Lane) {
    if let Some(memory) = &mut world.daemon {
        memory.lane = lane;
    }
}

fn intend(world: &mut World) -> Option<Reply> {
    let send = Send {
        conversation_id: conversation_id(),
    };
    match commit(world, send, DUE)? {
        SendOutcome::Send { reply, .. } => Some(*reply),
        SendOutcome::Later(_) | SendOutcome::Empty => None,
    }
}

fn sending(reply: &Reply) -> Lane {
    Lane::Sending {
        message: number(reply.message_id.as_str()),
        ordinal: reply.ordinal,
    }
}

/// What the platform may make of a reply, and what the daemon hears of it.
fn platform(nexts: &mut Nexts<'_>, message: u8, ordinal: u32) {
    let fresh = nexts.setup.has(Mutant::FreshKey);
    let heard = |verdict| Lane::Heard {
        message,
        ordinal,
        verdict,
    };
    nexts.add(Step::of("the platform takes the reply", message), |world| {
        shows(world, message, ordinal, fresh);
        set(world, heard(Verdict::Taken));
    });
    let faults = nexts.from.faults;
    if faults.unknown > 0 {
        let step = Step::of(
            "the platform takes the reply, and nobody hears of it",
            message,
        );
        nexts.add(step.fault(), |world| {
            world.faults.unknown -= 1;
            shows(world, message, ordinal, fresh);
            set(world, heard(Verdict::Unknown));
        });
        let step = Step::of("the reply is lost on its way", message);
        nexts.add(step.fault(), |world| {
            world.faults.unknown -= 1;
            set(world, heard(Verdict::Unknown));
        });
    }
    if faults.refused > 0 {
        for (what, verdict) in [
            ("the platform refuses the reply for now", Verdict::Refused),
            (
                "the platform refuses the reply for good",
                Verdict::Forbidden,
            ),
        ] {
            nexts.add(Step::of(what, message).fault(), |world| {
                world.faults.refused -= 1;
                set(world, heard(verdict));
            });
        }
    }
}

fn shows(world: &mut World, message: u8, ordinal: u32, fresh: bool) {
    let replies = world.rows.replies(&message_id(message)).unwrap();
    let reply = replies
        .iter()
        .find(|reply| reply.ordinal == ordinal)
        .unwrap();
    let key = match fresh {
        true => format!("fresh{}", world.platform.shown.len()),
        false => reply.key.as_str().to_owned(),
    };
    world.platform.take(message, reply, &key);
}

fn journaled(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Taken => "commit confirm",
        Verdict::Unknown => "commit refuse: nobody knows",
        Verdict::Refused => "commit refuse: later",
        Verdict::Forbidden => "commit refuse: never",
    }
}

fn journal(world: &mut World, message: u8, ordinal: u32, verdict: Verdict) {
    let message_id = message_id(message);
    let class = match verdict {
        Verdict::Taken => {
            let confirm = Confirm {
                message_id,
                ordinal,
                receipt: "receipt".to_owned(),
            };
            commit(world, confirm, NOW);
            return;
        }
        Verdict::Unknown => Class::Ambiguous,
        Verdict::Refused => Class::Transient,
        Verdict::Forbidden => Class::Permanent,
    };
    let refuse = Refuse {
        message_id,
        ordinal,
        failure: Failure::new(class, "the platform"),
        jitter: 0,
    };
    commit(world, refuse, NOW);
}
