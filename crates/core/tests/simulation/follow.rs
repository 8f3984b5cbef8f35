//! A turn that is followed, and a message that is given to it while it runs.

use crate::codex::{Stage, Text, number};
use crate::daemon::{Setback, commit, settle};
use crate::queue::{Duty, Settling};
use crate::work::fail;
use crate::world::World;
use bridge_core::port::Steer;
use bridge_core::step::{Answered, Join, JoinUnknown, Leave, Lose, Note};
use bridge_core::value::{EventKind, MessageId, TurnId, Usage};

/// A transition of a followed turn is through, and its stream is read on.
pub(crate) fn freed(world: &mut World, turn: usize) {
    let memory = world.daemon.as_mut().unwrap();
    if let Some(followed) = memory.following.get_mut(&turn) {
        followed.busy = false;
    }
    follow(world, turn);
}

/// What the stream brought since the last look.
pub(crate) fn follow(world: &mut World, at: usize) {
    let turn = world.codex.turn(at).clone();
    let memory = world.daemon.as_mut().unwrap();
    let Some(followed) = memory.following.get_mut(&at) else {
        return;
    };
    let message_id = followed.message_id.clone();
    if followed.busy {
        return;
    }
    // What a process did last before it died may not have been said.
    let unsaid = turn.gone && turn.stage == Stage::Touched;
    if turn.touched && !followed.noted && !unsaid {
        (followed.noted, followed.busy) = (true, true);
        let note = Note {
            message_id,
            kind: EventKind::Started,
            text: "rm".to_owned(),
            effect: true,
        };
        let then = Box::new(Duty::Freed { turn: at });
        return settle(world, Settling::Note(note), 0, Some(then));
    }
    let over = turn.gone || turn.stage >= Stage::Failed;
    if !over {
        return;
    }
    memory.following.remove(&at);
    match turn.stage {
        Stage::Completed | Stage::Durable => {
            let answered = Answered {
                attachments: Vec::new(),
                message_id,
                turn_id: TurnId::new(format!("u{at}")),
                text: Some(turn.answer()),
                received: turn.heard(false),
                usage: Usage::default(),
                reply_max_chars: None,
            };
            settle(world, Settling::Answered(answered), 0, None);
        }
        Stage::Failed => {
            let failure = turn.failure.clone().unwrap();
            fail(world, message_id, failure, turn.touched);
        }
        Stage::Asked
        | Stage::Named
        | Stage::Kept
        | Stage::Called
        | Stage::Touched
        | Stage::Noted
        | Stage::Said => {
            let why = "codex died".to_owned();
            settle(
                world,
                Settling::Lose(Lose {
                    message_id,
                    why,
                    end: None,
                }),
                0,
                None,
            );
        }
    }
}

pub(crate) fn join(world: &mut World, message_id: MessageId) {
    let join = Join {
        message_id: message_id.clone(),
    };
    match commit(world, join) {
        Ok(Some(steer)) => world.soon(Duty::Tell { message_id, steer }),
        // It may be on disk all the same, and its text was not given.
        Err(Setback::Unavailable) => settle(world, Settling::Leave(Leave { message_id }), 0, None),
        Ok(None) | Err(Setback::Refused | Setback::Died) => {}
    }
}

pub(crate) fn tell(world: &mut World, message_id: MessageId, steer: &Steer) {
    let at = number(steer.turn_id.as_str());
    let deaf = world.fault(world.dials.rates.steer_deaf);
    if world.codex.turn(at).listens() {
        // Without a clear word it has the text or not, and in the second case the daemon may learn that or not.
        if !deaf || world.dice.chance(500) {
            let text = Text::read(steer.client_id.clone(), &steer.text);
            world.note(format_args!("turn u{at} is given {message_id}"));
            world.codex.turn_mut(at).texts.push(text);
            if deaf {
                unknown(world, message_id);
            }
            return;
        }
        if world.dice.chance(300) {
            return unknown(world, message_id);
        }
    } else if world.codex.turn(at).gone && world.dice.chance(500) {
        return unknown(world, message_id);
    }
    settle(world, Settling::Leave(Leave { message_id }), 0, None);
}

/// Whether the turn has the text or not, nobody learned it.
fn unknown(world: &mut World, message_id: MessageId) {
    world.note(format_args!("nobody knows whether {message_id} arrived"));
    let why = "codex did not say".to_owned();
    let unknown = JoinUnknown { message_id, why };
    settle(world, Settling::JoinUnknown(unknown), 0, None);
}
