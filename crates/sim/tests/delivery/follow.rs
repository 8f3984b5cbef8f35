//! A turn that is followed: what its stream brings becomes a note, an answer, a failure, or a turn lost from sight.

use crate::codex::{Stage, turn_id};
use crate::daemon::{commit, end_with, set};
use crate::setup::Mutant;
use crate::steps::{Nexts, Step};
use crate::work::fail;
use crate::world::{DUE, NOW, Task, World, conversation_id, message_id};
use bridge_core::port::Read;
use bridge_core::step::{Answered, Confirm, Lose, Note, Send, Suspend};
use bridge_core::value::{Class, EventKind, Usage};

/// What the stream may bring: an effect, the end, or nothing more because the process is gone.
pub(crate) fn follow(nexts: &mut Nexts<'_>, message: u8, turn: u8, stopping: bool) {
    let codex_turn = *nexts.from.codex.turn(turn);
    if codex_turn.touched && !noted(nexts.from, message) {
        nexts.add(Step::of("commit note", message), |world| {
            let note = Note {
                message_id: message_id(message),
                kind: EventKind::Started,
                text: "rm".to_owned(),
                effect: true,
            };
            commit(world, note, NOW);
        });
    }
    if codex_turn.live() && stopping {
        nexts.add(Step::of("interrupt the turn", message), |world| {
            world.codex.turn_mut(turn).cut = true;
        });
    }
    let said = codex_turn.cut && codex_turn.stage == Stage::Said;
    if codex_turn.stage == Stage::Completed || said {
        answered(nexts, message, turn);
    } else if codex_turn.stage == Stage::Failed {
        nexts.add(Step::of("commit fail: the turn failed", message), |world| {
            fail(world, message, Class::Transient, codex_turn.touched);
        });
    } else if codex_turn.cut {
        nexts.add(Step::of("commit suspend", message), |world| {
            let message_id = message_id(message);
            end_with(world, message, Suspend { message_id });
        });
    }
    if codex_turn.gone {
        lose(nexts, message);
    }
}

fn noted(world: &World, message: u8) -> bool {
    let attempt = world.message(message).map_or(0, |row| row.life.attempt);
    let turn = world.rows.turn(&message_id(message), attempt).unwrap();
    turn.is_none_or(|turn| turn.touched)
}

fn answered(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    if nexts.setup.has(Mutant::AnswerNotJournaled) {
        let step = Step::of("send an answer that is not on disk", message);
        return nexts.add(step, |world| {
            let key = turn_id(turn);
            world.platform.take_unwritten(message, key.as_str());
            set(world, message, Task::Told { turn });
        });
    }
    nexts.add(Step::of("commit answer", message), |world| {
        end_with(world, message, answer(message, turn));
    });
}

fn answer(message: u8, turn: u8) -> Answered {
    Answered {
        message_id: message_id(message),
        turn_id: turn_id(turn),
        text: Some("the answer".to_owned()),
        usage: Usage::default(),
        reply_max_chars: None,
    }
}

pub(crate) fn journal_late(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    nexts.add(
        Step::of("commit answer, send and confirm", message),
        |world| {
            end_with(world, message, answer(message, turn));
            let send = Send {
                conversation_id: conversation_id(),
            };
            commit(world, send, DUE);
            let confirm = Confirm {
                message_id: message_id(message),
                ordinal: 0,
                receipt: "receipt".to_owned(),
            };
            commit(world, confirm, NOW);
        },
    );
}

fn lose(nexts: &mut Nexts<'_>, message: u8) {
    if nexts.setup.has(Mutant::BlindRerun) {
        return nexts.add(Step::of("commit fail instead of lose", message), |world| {
            fail(world, message, Class::Transient, false);
        });
    }
    nexts.add(Step::of("commit lose", message), |world| {
        let lose = Lose {
            message_id: message_id(message),
            why: "the process died".to_owned(),
        };
        end_with(world, message, lose);
    });
}
