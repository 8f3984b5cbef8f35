//! The daemon's reply lane: intent, platform, verdict. A verdict that was not journaled is lost in a crash.

use crate::codex::number;
use crate::daemon::commit;
use crate::setup::{Mutant, Setup};
use crate::steps::{Nexts, Step};
use crate::world::{DUE, Lane, Memory, NOW, Piece, Verdict, World, conversation_id, message_id};
use bridge_core::port::{Approach, Read};
use bridge_core::step::{Confirm, Send, SendFailed, SendOutcome};
use bridge_core::value::{Class, Failure, Reply, ReplyKey};

pub(crate) fn steps(nexts: &mut Nexts<'_>, memory: &Memory) {
    let late = nexts.setup.has(Mutant::FreshKey);
    match memory.lane {
        Lane::Closed => {}
        Lane::Open if late => nexts.add(
            Step::plain("the lane takes the next reply without a word to the ledger"),
            |world| {
                let next = world.rows.next_reply(&conversation_id()).unwrap();
                set(
                    world,
                    next.map_or(Lane::Closed, |reply| sending(&reply, false)),
                );
            },
        ),
        Lane::Open => nexts.add(Step::plain("commit send"), |world| {
            let lane = match intend(world) {
                Some((reply, again)) => sending(&reply, again),
                None => Lane::Closed,
            };
            set(world, lane);
        }),
        // Whoever sends looks at its own lease right before. A host that is frozen between this look and the bytes can't
        // be fenced: no platform knows our leases.
        Lane::Sending { .. } | Lane::Handing(_)
            if !nexts.from.may_act() && !nexts.setup.has(Mutant::LateReply) => {}
        Lane::Sending { piece, again } => approach(nexts, piece, again),
        Lane::Handing(piece) => platform(nexts, piece),
        Lane::Heard(piece, verdict) => {
            nexts.add(Step::of(journaled(verdict), piece.message), |world| {
                if late {
                    intend(world);
                }
                set(world, Lane::Open);
                journal(world, piece, verdict);
                let next = world.rows.next_reply(&conversation_id()).unwrap();
                if next.is_none() {
                    set(world, Lane::Closed);
                }
            });
        }
    }
}

fn set(world: &mut World, lane: Lane) {
    if let Some(memory) = &mut world.daemon {
        memory.lane = lane;
    }
}

fn intend(world: &mut World) -> Option<(Reply, bool)> {
    let send = Send {
        conversation_id: conversation_id(),
    };
    match commit(world, send, DUE)? {
        SendOutcome::Send { reply, again, .. } => Some((*reply, again)),
        SendOutcome::Later(_) | SendOutcome::Empty => None,
    }
}

fn sending(reply: &Reply, again: bool) -> Lane {
    let piece = Piece {
        message: number(reply.message_id.as_str()),
        ordinal: reply.ordinal,
    };
    Lane::Sending { piece, again }
}

/// What the platform's class allows for a reply that may have arrived before.
fn approach(nexts: &mut Nexts<'_>, piece: Piece, again: bool) {
    let class = nexts.setup.sink;
    match class.approach(again) {
        Approach::Send => platform(nexts, piece),
        Approach::Probe if nexts.setup.has(Mutant::ProbeSkipped) => platform(nexts, piece),
        Approach::Probe => probe(nexts, piece),
        Approach::GiveUp(_) => {
            let step = Step::of("the lane gives the reply up", piece.message);
            nexts.add(step, |world| {
                set(world, Lane::Heard(piece, Verdict::Forbidden));
            });
        }
    }
}

fn probe(nexts: &mut Nexts<'_>, piece: Piece) {
    let there = nexts.from.platform.has(&reply(nexts.from, piece).key);
    let (what, lane) = if there {
        (
            "the lane finds the reply",
            Lane::Heard(piece, Verdict::Taken),
        )
    } else {
        ("the lane does not find the reply", Lane::Handing(piece))
    };
    nexts.add(Step::of(what, piece.message), |world| set(world, lane));
    if nexts.from.faults.probe > 0 {
        // Whatever the platform says of its failed look, the reply is as unknown as before.
        let verdict = if nexts.setup.has(Mutant::ProbeFailureRefuses) {
            Verdict::Refused
        } else {
            Verdict::Unknown
        };
        let step = Step::of("the look for the reply fails", piece.message);
        nexts.add(step.fault(), |world| {
            world.faults.probe -= 1;
            set(world, Lane::Heard(piece, verdict));
        });
    }
}

/// What the platform may make of a reply, and what the daemon hears of it.
fn platform(nexts: &mut Nexts<'_>, piece: Piece) {
    let (setup, message) = (nexts.setup, piece.message);
    let heard = |verdict| Lane::Heard(piece, verdict);
    nexts.add(Step::of("the platform takes the reply", message), |world| {
        shows(world, piece, setup);
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
            world.platform.doubts += 1;
            shows(world, piece, setup);
            set(world, heard(Verdict::Unknown));
        });
        let step = Step::of("the reply is lost on its way", message);
        nexts.add(step.fault(), |world| {
            world.faults.unknown -= 1;
            set(world, heard(Verdict::Unknown));
        });
    }
    if faults.refused > 0 {
        let later = if setup.has(Mutant::ConfirmEarly) {
            Verdict::Taken
        } else {
            Verdict::Refused
        };
        for (what, verdict) in [
            ("the platform refuses the reply for now", later),
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

fn reply(world: &World, piece: Piece) -> &Reply {
    let mut replies = world.row(piece.message).unwrap().replies.iter();
    replies
        .find(|reply| reply.ordinal == piece.ordinal)
        .unwrap()
}

fn shows(world: &mut World, piece: Piece, setup: &Setup) {
    let reply = reply(world, piece).clone();
    let key = if setup.has(Mutant::FreshKey) {
        ReplyKey::of(&reply.message_id, 1_000 + world.platform.count())
    } else {
        reply.key.clone()
    };
    world.platform.take(piece.message, &reply, &key, setup.sink);
}

fn journaled(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Taken => "commit confirm",
        Verdict::Unknown => "commit send_failed: nobody knows",
        Verdict::Refused => "commit send_failed: later",
        Verdict::Forbidden => "commit send_failed: never",
    }
}

fn journal(world: &mut World, piece: Piece, verdict: Verdict) {
    let (message_id, ordinal) = (message_id(piece.message), piece.ordinal);
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
    let failed = SendFailed {
        message_id,
        ordinal,
        failure: Failure::new(class, "the platform"),
        jitter: 0,
    };
    commit(world, failed, NOW);
}
