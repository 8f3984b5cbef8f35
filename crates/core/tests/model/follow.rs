//! A turn that is followed: what its stream brings becomes a note, an answer, a failure, or a turn lost from sight.

use crate::codex::{CodexTurn, Stage, turn_id};
use crate::daemon::{commit, end_with, set};
use crate::fleet;
use crate::setup::{Mutant, Setup};
use crate::steps::{Nexts, Step};
use crate::work::fail;
use crate::world::{DUE, NOW, Task, World, conversation_id, message_id};
use bridge_core::step::{Answered, Confirm, Lose, Note, Send, Suspend};
use bridge_core::value::{Class, ClientId, EventKind, Failure, MessageState, ReplyKey, Usage};

/// What the stream may bring: an effect, the end, or nothing more because the process is gone.
pub(crate) fn follow(nexts: &mut Nexts<'_>, message: u8, turn: u8, stopping: bool) {
    let codex_turn = *nexts.from.codex.turn(turn);
    let setup = nexts.setup;
    let row = nexts.from.message(message);
    let stopped = row.is_some_and(|row| row.life.stop.is_some());
    if codex_turn.touched && !noted(nexts.from, message) {
        note(nexts, message);
    }
    fleet::stores_early(nexts, message, turn);
    if codex_turn.live() && (stopping || stopped) {
        nexts.add(Step::of("interrupt the turn", message), |world| {
            world.codex.turn_mut(turn).cut = true;
        });
    }
    let said = codex_turn.cut && codex_turn.stage == Stage::Said;
    if codex_turn.stage == Stage::Completed || said {
        answered(nexts, message, turn);
    } else if codex_turn.stage == Stage::Failed {
        nexts.add(Step::of("commit fail: the turn failed", message), |world| {
            let failure = codex_turn.why.failure();
            fail(world, message, setup, failure, codex_turn.touched);
        });
    } else if codex_turn.cut && stopped {
        nexts.add(Step::of("commit fail: it was stopped", message), |world| {
            let failure = Failure::new(Class::Transient, "it was interrupted");
            fail(world, message, setup, failure, codex_turn.touched);
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

fn note(nexts: &mut Nexts<'_>, message: u8) {
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

fn noted(world: &World, message: u8) -> bool {
    let turn = world.row(message).and_then(|row| row.turn.as_ref());
    turn.is_none_or(|turn| turn.touched)
}

fn answered(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    if nexts.setup.has(Mutant::AnswerNotJournaled) {
        let step = Step::of("send an answer that is not on disk", message);
        return nexts.add(step, |world| {
            let key = ReplyKey::of(&message_id(message), 1_000 + world.platform.count());
            world.platform.take_unwritten(message, &key);
            set(world, message, Task::Told { turn });
        });
    }
    if fleet::stores(nexts, message, "commit store_segments: before the answer") {
        return;
    }
    let setup = nexts.setup;
    nexts.add(Step::of("commit answer", message), |world| {
        let answer = answer(world, message, turn, setup);
        end_with(world, message, answer);
    });
}

fn answer(world: &World, message: u8, turn: u8, setup: &Setup) -> Answered {
    Answered {
        attachments: Vec::new(),
        message_id: message_id(message),
        turn_id: turn_id(turn),
        text: Some("the answer".to_owned()),
        received: heard(world, world.codex.turn(turn), false, setup),
        usage: Usage::default(),
        reply_max_chars: None,
    }
}

/// What a turn heard, as whoever followed it or looked at it says.
pub(crate) fn heard(
    world: &World,
    turn: &CodexTurn,
    on_disk: bool,
    setup: &Setup,
) -> Vec<ClientId> {
    let mut heard = turn.heard(on_disk);
    if setup.has(Mutant::UnheardAnswered) {
        let steered = (0..setup.messages).filter_map(|at| world.message(at));
        let steered = steered.filter(|row| matches!(row.life.state, MessageState::Steered { .. }));
        heard.extend(steered.map(|row| ClientId::of(&row.message_id, row.life.attempt)));
    }
    heard
}

pub(crate) fn journal_late(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    let setup = nexts.setup;
    nexts.add(
        Step::of("commit answer, send and confirm", message),
        |world| {
            let answer = answer(world, message, turn, setup);
            end_with(world, message, answer);
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
    let setup = nexts.setup;
    if setup.has(Mutant::BlindRerun) {
        return nexts.add(Step::of("commit fail instead of lose", message), |world| {
            let failure = Failure::new(Class::Transient, "codex");
            fail(world, message, setup, failure, false);
        });
    }
    nexts.add(Step::of("commit lose", message), |world| {
        let lose = Lose {
            message_id: message_id(message),
            why: "the process died".to_owned(),
            end: None,
        };
        end_with(world, message, lose);
    });
}
