//! The promises of a fleet: those of one daemon, and what a node believes of a thread that was elsewhere.

use super::Stored;
use crate::codex::{Codex, CodexTurn, Stage, number};
use crate::rules;
use crate::setup::Setup;
use crate::world::World;
use bridge_core::value::AnswerSource;

/// The rule that this state breaks.
pub(crate) fn broken(world: &World, setup: &Setup, quiet: bool) -> Option<&'static str> {
    let turned = world.clone().turned();
    let always = rules::messages_are_kept(world, setup)
        .or_else(|| touched_once(world, setup))
        .or_else(|| one_live_turn(world, &turned))
        .or_else(|| believed(world))
        .or_else(|| believed(&turned))
        .or_else(|| thread_is_kept(world))
        .or_else(|| files_stay(world, setup));
    always.or_else(|| quiet.then(|| rules::finished(world, setup)).flatten())
}

/// What a Codex did that had outlived its lease is not held against anybody.
fn touched_once(world: &World, setup: &Setup) -> Option<&'static str> {
    let most = u8::from(setup.sandbox.can_write());
    let effects = world.codex.effects.iter().zip(world.fleet().unfenced);
    let mut fenced = effects.map(|(all, unfenced)| *all - unfenced);
    fenced
        .any(|times| times > most)
        .then_some("an effect was executed twice")
}

fn one_live_turn(world: &World, turned: &World) -> Option<&'static str> {
    let leased = [world, turned]
        .into_iter()
        .filter(|world| world.has_lease());
    let turns = leased.flat_map(|world| &world.codex.turns);
    let live: Vec<u8> = turns
        .filter(|turn| turn.live())
        .map(|turn| turn.thread)
        .collect();
    let two = live
        .iter()
        .enumerate()
        .any(|(at, thread)| live.iter().skip(at + 1).any(|other| other == thread));
    two.then_some("two turns of one thread are live")
}

/// A node that goes on with a thread knows every turn of it whose answer was stored.
fn believed(world: &World) -> Option<&'static str> {
    if !world.has_lease() || !world.is_current() {
        return None;
    }
    let conversation = world.sight.conversation.as_ref()?;
    let thread = number(conversation.thread.as_ref()?.as_str());
    let answered = world.sight.rows.iter().flatten();
    let answered = answered.filter(|row| match row.answer {
        Some(AnswerSource::Live | AnswerSource::Harvested) => true,
        Some(_) | None => false,
    });
    let turns = answered.filter_map(|row| row.turn.as_ref());
    let turns = turns.filter(|turn| number(turn.thread.as_str()) == thread);
    let ids = turns.filter_map(|turn| turn.turn_id.as_ref());
    let missing = ids
        .map(|id| number(id.as_str()))
        .any(|turn| !knows(&world.codex, turn));
    missing.then_some("a node goes on with a thread that lacks an answered turn")
}

fn knows(codex: &Codex, turn: u8) -> bool {
    let said = |turn: &CodexTurn| turn.kept() && turn.stage >= Stage::Said;
    codex.turns.get(usize::from(turn)).is_some_and(said)
}

fn thread_is_kept(world: &World) -> Option<&'static str> {
    let conversation = world.sight.conversation.as_ref()?;
    let stored: &Stored = &world.fleet().stored;
    let any = (0_u8..)
        .take(stored.codex.threads.len())
        .any(|thread| stored.has(thread));
    (any && conversation.thread.is_none()).then_some("a thread that is stored was given up")
}

fn files_stay(world: &World, setup: &Setup) -> Option<&'static str> {
    let wrote_at = world.fleet().wrote_at?;
    let left = setup.leaves_written() && world.home_node() != Some(wrote_at);
    left.then_some("a conversation left the node that has its files")
}
