//! A claimed message: its thread, the intent of its turn, the turn, and its id.

use crate::codex::{Stage, Thread, number, thread_id, turn_id};
use crate::daemon::{PACE, commit, end_with, set};
use crate::fleet;
use crate::setup::Mutant;
use crate::setup::Setup;
use crate::steps::{Nexts, Step};
use crate::world::{NOW, Task, World, conversation_id, message_id};
use bridge_core::step::{Attach, Begin, Begun, Bind, Fail, Unbind};
use bridge_core::value::{Class, Epoch, Failure, IncarnationId, NextInput, Sandbox};

pub(crate) fn work(nexts: &mut Nexts<'_>, message: u8) {
    if fleet::restores(nexts, message) {
        return;
    }
    let conversation = nexts.from.sight.conversation.as_ref();
    let bound = conversation.and_then(|row| row.thread.as_ref());
    match bound.map(|id| number(id.as_str())) {
        None => nexts.add(Step::of("open a thread", message), |world| {
            let thread = world.codex.open_thread();
            let life = world.codex.life;
            set(world, message, Task::Opened { thread, life });
        }),
        Some(thread) => match nexts.from.codex.thread(thread) {
            Thread::Loaded | Thread::Recorded => {
                nexts.add(Step::of("resume the thread", message), |world| {
                    let life = world.codex.life;
                    set(world, message, Task::Ready { thread, life });
                });
            }
            Thread::Missing => nexts.add(Step::of("commit unbind", message), |world| {
                let unbind = Unbind {
                    message_id: message_id(message),
                    thread: thread_id(thread),
                    why: "no record".to_owned(),
                };
                commit(world, unbind, NOW);
            }),
        },
    }
}

pub(crate) fn bind(nexts: &mut Nexts<'_>, message: u8, thread: u8, life: u8) {
    nexts.add(Step::of("commit bind", message), |world| {
        set(world, message, Task::Ready { thread, life });
        let bind = Bind {
            conversation_id: conversation_id(),
            thread: thread_id(thread),
        };
        commit(world, bind, NOW);
    });
}

pub(crate) fn begin(nexts: &mut Nexts<'_>, message: u8, thread: u8, life: u8) {
    if nexts.setup.has(Mutant::StartBeforeBegin) {
        return nexts.add(
            Step::of("ask for a turn that is not on disk", message),
            |world| {
                let turn = ask_codex(world, message, thread);
                set(world, message, Task::AskedEarly { turn });
            },
        );
    }
    let sandbox = nexts.setup.sandbox;
    nexts.add(Step::of("commit begin", message), |world| {
        let begin = intent(world, message, thread, sandbox);
        let task = match commit(world, begin, NOW) {
            Some(Begun::Turn { .. }) => Task::Begun { thread, life },
            Some(Begun::Stopped) | None => Task::None,
        };
        set(world, message, task);
    });
}

fn intent(world: &World, message: u8, thread: u8, sandbox: Sandbox) -> Begin {
    Begin {
        message_id: message_id(message),
        thread: thread_id(thread),
        incarnation: IncarnationId::new(format!("i{}", world.codex.life)),
        epoch: Epoch(1),
        boot_id: world.boot_id(),
        sandbox,
    }
}

pub(crate) fn begin_late(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    let sandbox = nexts.setup.sandbox;
    nexts.add(Step::of("commit begin, too late", message), |world| {
        set(world, message, Task::Asked { turn });
        let thread = world.codex.turn(turn).thread;
        let begin = intent(world, message, thread, sandbox);
        commit(world, begin, NOW);
    });
}

fn ask_codex(world: &mut World, message: u8, thread: u8) -> u8 {
    let life = &world.message(message).unwrap().life;
    let (attempt, continues) = (life.attempt, life.input == NextInput::Continue);
    world.codex.ask(message, attempt, thread, continues)
}

/// A Codex that was started again does not have the thread; whether the request was on its way decides what the
/// edge says of it.
pub(crate) fn ask(nexts: &mut Nexts<'_>, message: u8, thread: u8, life: u8) {
    if life == nexts.from.codex.life {
        if !nexts.from.may_act() && !nexts.setup.has(Mutant::LateTurn) {
            return;
        }
        return nexts.add(Step::of("ask for the turn", message), |world| {
            let turn = ask_codex(world, message, thread);
            set(world, message, Task::Asked { turn });
        });
    }
    let setup = nexts.setup;
    for (what, class) in [
        ("commit fail: not begun", Class::Transient),
        ("commit fail: nobody knows", Class::Ambiguous),
    ] {
        nexts.add(Step::of(what, message), |world| {
            fail(world, message, setup, Failure::new(class, "codex"), false);
        });
    }
}

pub(crate) fn fail(world: &mut World, message: u8, setup: &Setup, failure: Failure, touched: bool) {
    let fail = Fail {
        message_id: message_id(message),
        failure,
        touched,
        usage: bridge_core::value::Usage::default(),
        on_cut: setup.on_cut,
        pace: PACE,
    };
    end_with(world, message, fail);
}

pub(crate) fn response(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    let (codex_turn, setup) = (nexts.from.codex.turn(turn), nexts.setup);
    if codex_turn.stage > Stage::Asked {
        nexts.add(Step::of("read the turn's id", message), |world| {
            set(world, message, Task::Started { turn });
        });
    }
    if codex_turn.gone {
        nexts.add(Step::of("commit fail: nobody knows", message), |world| {
            let failure = Failure::new(Class::Ambiguous, "codex");
            fail(world, message, setup, failure, false);
        });
    }
}

pub(crate) fn attach(nexts: &mut Nexts<'_>, message: u8, turn: u8) {
    nexts.add(Step::of("commit attach", message), |world| {
        set(world, message, Task::Following { turn });
        let attach = Attach {
            message_id: message_id(message),
            turn_id: turn_id(turn),
        };
        commit(world, attach, NOW);
    });
}
