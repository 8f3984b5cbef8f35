//! The promises of the bridge, as rules over one state of the model.

use crate::codex::Thread;
use crate::platform::Shown;
use crate::setup::Setup;
use crate::world::{Broken, World};
use bridge_core::port::{OnUnknown, SinkClass};
use bridge_core::value::{AnswerSource, MessageState, Reply, ReplyKind, ReplyState, StateName};
use std::sync::Arc;

/// The rule that this state breaks. A quiet state is one where nothing more happens without a fault.
pub(crate) fn broken(world: &World, setup: &Setup, quiet: bool) -> Option<&'static str> {
    if setup.fleet.is_some() {
        return crate::fleet::broken(world, setup, quiet);
    }
    let always = messages_are_kept(world, setup)
        .or_else(|| touched_once(world, setup))
        .or_else(|| one_live_turn(world))
        .or_else(|| thread_is_kept(world, setup));
    always.or_else(|| quiet.then(|| finished(world, setup)).flatten())
}

/// What is promised of messages and replies, whoever works on them.
pub(crate) fn messages_are_kept(world: &World, setup: &Setup) -> Option<&'static str> {
    noticed(world)
        .or_else(|| seen_once(world, setup))
        .or_else(|| in_order(world))
        .or_else(|| ends_are_told(world, setup))
        .or_else(|| answers_are_real(world, setup))
}

fn noticed(world: &World) -> Option<&'static str> {
    world.broken.map(|broken| match broken {
        Broken::CalledAfterAnswer => "the model was called for a message that has an answer",
        Broken::LedgerConflict => "a transition met rows that it did not expect",
        Broken::DuplicateTaken => "a row that was shown twice became two messages",
    })
}

/// Once, and on a platform that can't be asked once more for each send whose outcome nobody learned.
fn seen_once(world: &World, setup: &Setup) -> Option<&'static str> {
    let shown = &world.platform.shown;
    let times = |one: &Shown| {
        let same =
            |other: &&Arc<Shown>| (one.message, one.ordinal) == (other.message, other.ordinal);
        shown.iter().filter(same).count()
    };
    let most = match setup.sink {
        SinkClass::Blind { on_unknown } => {
            let doubts = match on_unknown {
                OnUnknown::Resend => world.platform.doubts,
                OnUnknown::Hold => 0,
            };
            // Whoever sends a given-up reply again accepts that it may be there.
            1 + usize::from(doubts + setup.faults.redrive - world.faults.redrive)
        }
        SinkClass::Idempotent | SinkClass::Probeable => 1,
    };
    let two_answers =
        (0..setup.messages).any(|message| world.platform.sees(message, ReplyKind::Answer) > most);
    (two_answers || shown.iter().any(|one| times(one) > most)).then_some("a reply is seen twice")
}

fn touched_once(world: &World, setup: &Setup) -> Option<&'static str> {
    let most = u8::from(setup.sandbox.can_write());
    let over = world.codex.effects.iter().any(|times| *times > most);
    over.then_some("an effect was executed twice")
}

fn one_live_turn(world: &World) -> Option<&'static str> {
    let live = world.codex.turns.iter().filter(|turn| turn.live());
    let threads: Vec<u8> = live.map(|turn| turn.thread).collect();
    let two = threads
        .iter()
        .enumerate()
        .any(|(at, thread)| threads.iter().skip(at + 1).any(|other| other == thread));
    two.then_some("two turns of one thread are live")
}

/// In the order of the conversation. A dead letter that a person sent again has lost its place, and that a waiting
/// message was stopped is said at once.
fn in_order(world: &World) -> Option<&'static str> {
    let elsewhere = |shown: &Arc<Shown>| {
        let redriven = world.redriven.get(usize::from(shown.message)) == Some(&true);
        redriven || world.state(shown.message) == Some(StateName::Cancelled)
    };
    let kept = world.platform.shown.iter().filter(|s| !elsewhere(s));
    let sorted = kept.map(|shown| (shown.seq, shown.ordinal)).is_sorted();
    (!sorted).then_some("replies are out of order")
}

/// Done is seen, and every other end has a reason that a person can read.
fn ends_are_told(world: &World, setup: &Setup) -> Option<&'static str> {
    for message in 0..setup.messages {
        let Some(row) = world.row(message) else {
            continue;
        };
        match &row.message.life.state {
            MessageState::Done => {
                let shared = row.answer == Some(AnswerSource::Shared);
                let kind = if shared {
                    ReplyKind::Notice
                } else {
                    ReplyKind::Answer
                };
                if world.platform.sees(message, kind) == 0 {
                    return Some("a message is done and its answer was never seen");
                }
            }
            MessageState::Dead { reason } | MessageState::Cancelled { reason }
                if reason.trim().is_empty() =>
            {
                return Some("a message ended without a reason");
            }
            _ => {}
        }
    }
    None
}

/// Whoever has an answer was heard by a turn that gave one.
fn answers_are_real(world: &World, setup: &Setup) -> Option<&'static str> {
    let unheard = (0..setup.messages).any(|message| {
        let answered = world.row(message).is_some_and(|row| row.answer.is_some());
        answered && world.codex.said.get(usize::from(message)) == Some(&false)
    });
    unheard.then_some("a message has the answer of a turn that never heard it")
}

/// Without a reboot Codex never loses a record, so a conversation never has a reason to leave its thread.
fn thread_is_kept(world: &World, setup: &Setup) -> Option<&'static str> {
    if world.faults.reboot < setup.faults.reboot {
        return None;
    }
    let conversation = world.sight.conversation.as_ref()?;
    let recorded = world.codex.threads.contains(&Thread::Recorded);
    (recorded && conversation.thread.is_none())
        .then_some("a thread that Codex has kept was given up")
}

pub(crate) fn finished(world: &World, setup: &Setup) -> Option<&'static str> {
    for message in 0..setup.messages {
        let Some(row) = world.row(message) else {
            return Some("nothing more happens and a row was not taken");
        };
        let life = &row.message.life;
        if !life.state.name().finished() {
            return Some("nothing more happens and a message is not finished");
        }
        if !told(world, message, &row.replies) {
            return Some("a message is over and nobody was told");
        }
        let dead = life.state.name() == StateName::Dead;
        if life.stop.is_some() && dead && row.answer.is_none() {
            return Some("a stopped message is neither cancelled nor answered");
        }
    }
    None
}

/// Every reply is settled, and the last one is seen, or given up with its text kept.
fn told(world: &World, message: u8, replies: &[Reply]) -> bool {
    let settled = replies.iter().all(|reply| reply.state.settled());
    let last = replies.last().is_some_and(|reply| match &reply.state {
        ReplyState::Dead { reason } => !reason.is_empty(),
        ReplyState::Sent { .. } => {
            let seen =
                |shown: &Arc<Shown>| shown.message == message && shown.ordinal == reply.ordinal;
            world.platform.shown.iter().any(seen)
        }
        ReplyState::Queued { .. } | ReplyState::Sending => false,
    });
    settled && last
}
