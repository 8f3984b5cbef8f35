//! The promises of the bridge, as rules over one state of the model.

use crate::codex::Thread;
use crate::setup::Setup;
use crate::world::{Broken, World, conversation_id, message_id};
use bridge_core::port::Read;
use bridge_core::value::{ReplyKind, StateName};

/// The rule that this state breaks. A quiet state is one where nothing more happens without a fault.
pub(crate) fn broken(world: &World, setup: &Setup, quiet: bool) -> Option<&'static str> {
    let always = noticed(world)
        .or_else(|| seen_once(world, setup))
        .or_else(|| touched_once(world, setup))
        .or_else(|| one_live_turn(world))
        .or_else(|| in_order(world))
        .or_else(|| done_is_seen(world, setup))
        .or_else(|| thread_is_kept(world));
    always.or_else(|| quiet.then(|| finished(world, setup)).flatten())
}

fn noticed(world: &World) -> Option<&'static str> {
    world.broken.map(|broken| match broken {
        Broken::CalledAfterAnswer => "the model was called for a message that has an answer",
        Broken::LedgerConflict => "a transition met rows that it did not expect",
        Broken::DuplicateTaken => "a row that was shown twice became two messages",
    })
}

fn seen_once(world: &World, setup: &Setup) -> Option<&'static str> {
    let shown = &world.platform.shown;
    let twice = shown.iter().enumerate().any(|(at, one)| {
        let same = |other: &&_| place(one) == place(other);
        shown.iter().skip(at + 1).any(|other| same(&other))
    });
    let two_answers =
        (0..setup.messages).any(|message| world.platform.sees(message, ReplyKind::Answer) > 1);
    (twice || two_answers).then_some("a reply is seen twice")
}

fn place(shown: &crate::platform::Shown) -> (u8, u32) {
    (shown.message, shown.ordinal)
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

fn in_order(world: &World) -> Option<&'static str> {
    let sorted = world.platform.shown.iter().map(place).is_sorted();
    (!sorted).then_some("replies are out of order")
}

fn done_is_seen(world: &World, setup: &Setup) -> Option<&'static str> {
    let unseen = (0..setup.messages).any(|message| {
        world.state(message) == Some(StateName::Done)
            && world.platform.sees(message, ReplyKind::Answer) == 0
    });
    unseen.then_some("a message is done and its answer was never seen")
}

/// Codex never loses a record here, so a conversation never has a reason to leave its thread.
fn thread_is_kept(world: &World) -> Option<&'static str> {
    let conversation = world.rows.conversation(&conversation_id()).unwrap()?;
    let recorded = world.codex.threads.contains(&Thread::Recorded);
    (recorded && conversation.thread.is_none())
        .then_some("a thread that Codex has kept was given up")
}

fn finished(world: &World, setup: &Setup) -> Option<&'static str> {
    for message in 0..setup.messages {
        match world.state(message) {
            Some(StateName::Done) => {}
            Some(StateName::Dead) if told(world, message) => {}
            Some(StateName::Dead) => return Some("a message is dead and nobody was told"),
            None
            | Some(
                StateName::Received
                | StateName::Claimed
                | StateName::Starting
                | StateName::Running
                | StateName::Unclear
                | StateName::Answered
                | StateName::Sending
                | StateName::Replied
                | StateName::Cancelled,
            ) => return Some("nothing more happens and a message is not finished"),
        }
    }
    None
}

/// Every reply is settled, and there is one: seen, or refused for good with its text kept.
fn told(world: &World, message: u8) -> bool {
    let replies = world.rows.replies(&message_id(message)).unwrap();
    !replies.is_empty() && replies.iter().all(|reply| reply.state.settled())
}
