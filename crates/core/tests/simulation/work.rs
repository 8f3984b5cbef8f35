//! A claimed message: its thread, the intent of its turn, the turn, and its id.

use crate::codex::{Text, Thread, number};
use crate::daemon::{Setback, commit, settle};
use crate::dials::Mutant;
use crate::queue::{Duty, Event, Settling};
use crate::world::{Followed, World};
use bridge_core::limits::RECAP_EXCHANGES;
use bridge_core::port::{Exchange, Read};
use bridge_core::prompt::turn_text;
use bridge_core::step::{Attach, Begin, Begun, Bind, Fail, Pace, Unbind};
use bridge_core::value::{
    Class, ClientId, Conversation, ConversationId, Epoch, Failure, IncarnationId, Message,
    MessageId, ThreadId, TurnId,
};

pub(crate) fn pace(world: &mut World) -> Pace {
    Pace {
        backoff_base_ms: 2_000,
        config_probe_ms: 15_000,
        jitter: world.jitter(),
    }
}

pub(crate) fn load(world: &World, message_id: &MessageId) -> (Message, Conversation) {
    let message = world.rows.message(message_id).unwrap().unwrap();
    let conversation = world.rows.conversation(&message.conversation_id).unwrap();
    (message, conversation.unwrap())
}

pub(crate) fn failed(
    world: &mut World,
    message_id: MessageId,
    failure: Failure,
    touched: bool,
) -> Fail {
    Fail {
        message_id,
        failure,
        touched,
        usage: bridge_core::value::Usage::default(),
        on_cut: world.dials.on_cut,
        pace: pace(world),
    }
}

pub(crate) fn fail(world: &mut World, message_id: MessageId, failure: Failure, touched: bool) {
    let fail = failed(world, message_id, failure, touched);
    settle(world, Settling::Fail(fail), 0, None);
}

/// A step of the work did not come through.
fn set_back(world: &mut World, message_id: MessageId, setback: Setback) {
    match setback {
        Setback::Died => {}
        Setback::Refused | Setback::Unavailable => {
            fail(
                world,
                message_id,
                Failure::new(Class::Transient, "the ledger"),
                false,
            );
        }
    }
}

pub(crate) fn work(world: &mut World, message_id: MessageId) {
    let (_, conversation) = load(world, &message_id);
    let codex = world.codex.life;
    if let Some(thread) = conversation.thread.clone() {
        match world.codex.threads.get(number(thread.as_str())).unwrap() {
            Thread::Loaded | Thread::Recorded => {
                return world.soon(Duty::Begin {
                    message_id,
                    thread,
                    codex,
                });
            }
            Thread::Missing => {
                let unbind = Unbind {
                    message_id: message_id.clone(),
                    thread,
                    why: "no record".to_owned(),
                };
                if let Err(setback) = commit(world, unbind) {
                    return set_back(world, message_id, setback);
                }
            }
        }
    }
    world.codex.threads.push(Thread::Loaded);
    let thread = ThreadId::new(format!("t{}", world.codex.threads.len() - 1));
    let conversation_id = conversation.conversation_id;
    world.soon(Duty::Bind {
        message_id,
        conversation_id,
        thread,
        codex,
    });
}

pub(crate) fn bind(
    world: &mut World,
    message_id: MessageId,
    conversation_id: ConversationId,
    thread: ThreadId,
    codex: u32,
) {
    let bind = Bind {
        conversation_id,
        thread: thread.clone(),
    };
    match commit(world, bind) {
        Ok(()) => world.soon(Duty::Begin {
            message_id,
            thread,
            codex,
        }),
        Err(setback) => set_back(world, message_id, setback),
    }
}

fn recap(world: &World, message: &Message, thread: &ThreadId, of: &Conversation) -> Vec<Exchange> {
    if of.thread.as_ref() == Some(thread) && of.last_turn.is_none() {
        let exchanges = world
            .rows
            .exchanges(&of.conversation_id, message.seq, RECAP_EXCHANGES);
        exchanges.unwrap()
    } else {
        Vec::new()
    }
}

pub(crate) fn begin(world: &mut World, message_id: MessageId, thread: ThreadId, codex: u32) {
    let (message, conversation) = load(world, &message_id);
    let recap = recap(world, &message, &thread, &conversation);
    let begin = Begin {
        message_id: message_id.clone(),
        thread: thread.clone(),
        incarnation: IncarnationId::new(format!("i{}", world.codex.life)),
        epoch: Epoch(i64::from(world.life)),
        boot_id: world.boot_id(),
        sandbox: world.dials.sandbox,
    };
    match commit(world, begin) {
        Ok(Begun::Turn { client_id }) => {
            let text = if world.dials.has(Mutant::BlindRerun) {
                message.body
            } else {
                turn_text(&message, &recap)
            };
            world.soon(Duty::Ask {
                message_id,
                thread,
                client_id,
                text,
                codex,
            });
        }
        Ok(Begun::Stopped) => {}
        Err(setback) => set_back(world, message_id, setback),
    }
}

/// A Codex that was started again does not have the thread; if the request was on its way, nobody knows.
pub(crate) fn ask(
    world: &mut World,
    message_id: MessageId,
    thread: &ThreadId,
    client_id: ClientId,
    text: &str,
    codex: u32,
) {
    if world.codex.life != codex {
        let class = if world.dice.chance(500) {
            Class::Transient
        } else {
            Class::Ambiguous
        };
        return fail(
            world,
            message_id,
            Failure::new(class, "codex was started again"),
            false,
        );
    }
    let thread = number(thread.as_str());
    let busy = world
        .codex
        .turns
        .iter()
        .any(|turn| turn.thread == thread && turn.runs());
    if busy {
        world
            .broken
            .push(format!("a second turn was begun on thread t{thread}"));
    }
    let turn = world.codex.ask(thread, Text::read(client_id, text));
    world.note(format_args!(
        "codex is asked for turn u{turn} of {message_id} on t{thread}"
    ));
    world
        .daemon
        .as_mut()
        .unwrap()
        .asked
        .insert(turn, message_id);
    let at = world.now_ms + world.dice.between(5, 50);
    world.queue.push(at, Event::Advance { turn });
}

/// Codex named the turn, or died first, or nobody heard the name.
pub(crate) fn named(world: &mut World, message_id: MessageId, turn: usize) {
    let gone = world.codex.turn(turn).gone;
    if gone || world.fault(world.dials.rates.start_unheard) {
        let failure = Failure::new(
            Class::Ambiguous,
            "codex did not say whether it took the turn",
        );
        return fail(world, message_id, failure, false);
    }
    follow_turn(world, message_id.clone(), turn, true);
    let attach = Attach {
        message_id,
        turn_id: TurnId::new(format!("u{turn}")),
    };
    let then = Box::new(Duty::Freed { turn });
    settle(world, Settling::Attach(attach), 0, Some(then));
}

/// Follows a turn; `busy` while a transition of it is on its way.
pub(crate) fn follow_turn(world: &mut World, message_id: MessageId, turn: usize, busy: bool) {
    let followed = Followed {
        message_id,
        noted: false,
        busy,
    };
    let memory = world.daemon.as_mut().unwrap();
    memory.following.insert(turn, followed);
}
