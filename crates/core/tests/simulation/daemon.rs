//! The daemon: how it commits, what it then starts, how rows come in, and whose turn it is. Its tasks are in the
//! modules beside this one, one step per duty, so that a death falls between any two of them.

use crate::dials::Mutant;
use crate::queue::{Duty, Event, Settling};
use crate::world::World;
use crate::{follow, lane, reconcile, work};
use bridge_core::retry::backoff_ms;
use bridge_core::step::{
    Action, Claim, ClaimOutcome, Receive, Received, RunError, Transition, Verdict,
};
use bridge_core::value::{
    ChannelId, ConversationId, ExternalId, MessageId, SenderKind, Tier, Timestamp,
};
use bridge_sim::history::{Fact, RowId};

/// Longest sleep of the scheduler.
const SLEEP_MAX_MS: i64 = 60_000;
/// Pause after the ledger failed.
const FAULT_PAUSE_MS: u64 = 1_000;

/// Why a transition brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// The daemon is dead.
    Died,
    Refused,
    /// The ledger said that it failed; that may be wrong.
    Unavailable,
}

/// Commits a transition, then starts what it asks for. The daemon may die on either side of it.
pub(crate) fn commit<T: Transition>(
    world: &mut World,
    transition: T,
) -> Result<T::Outcome, Setback> {
    let (rates, name) = (world.dials.rates, T::NAME);
    if world.fault(rates.die_at_commit / 2) {
        world.daemon_dies(&format!("dies before `{name}` is on disk"));
        if world.daemon.is_none() {
            return Err(Setback::Died);
        }
    }
    if world.fault(rates.ledger_down) {
        world.note(format_args!("the ledger does not take `{name}`"));
        return Err(Setback::Unavailable);
    }
    let now = world.clock();
    match world.rows.transact(transition, now) {
        Ok(committed) => {
            world.note(format_args!("commit {name}: {:?}", committed.actions));
            if world.fault(rates.die_at_commit / 2) {
                world.daemon_dies(&format!("dies when `{name}` is on disk"));
                if world.daemon.is_none() {
                    return Err(Setback::Died);
                }
            }
            if world.fault(rates.ledger_unknown) {
                world.note(format_args!("nobody hears that `{name}` is on disk"));
                return Err(Setback::Unavailable);
            }
            perform(world, committed.actions);
            Ok(committed.outcome)
        }
        Err(RunError::Refused(refused)) => {
            world.note(format_args!("refused: {refused}"));
            Err(Setback::Refused)
        }
        Err(RunError::Rows(error)) => {
            world
                .broken
                .push(format!("the ledger met a conflict in `{name}`: {error}"));
            Err(Setback::Refused)
        }
    }
}

/// Commits a transition that must not be lost, however often it takes.
pub(crate) fn settle(world: &mut World, what: Settling, tries: u32, then: Option<Box<Duty>>) {
    let done = match what.clone() {
        Settling::Attach(it) => commit(world, it),
        Settling::Note(it) => commit(world, it),
        Settling::Answered(it) => commit(world, it),
        Settling::Fail(it) => commit(world, it),
        Settling::Lose(it) => commit(world, it),
        Settling::Leave(it) => commit(world, it),
        Settling::JoinUnknown(it) => commit(world, it),
        Settling::DeferReconcile(it) => commit(world, it),
    };
    match done {
        Ok(()) | Err(Setback::Refused) => {
            if let Some(then) = then {
                act(world, *then);
            }
        }
        Err(Setback::Died) => {}
        Err(Setback::Unavailable) => {
            let jitter = world.jitter();
            let pause = u64::try_from(backoff_ms(tries, 100, 5_000, jitter)).unwrap();
            let tries = tries + 1;
            world.duty(pause, pause, Duty::Settle { what, tries, then });
        }
    }
}

pub(crate) fn perform(world: &mut World, actions: Vec<Action>) {
    for action in actions {
        match action {
            Action::Schedule | Action::ScheduleAt { .. } => wake(world),
            Action::Work { message_id } => world.soon(Duty::Work(message_id)),
            Action::Reconcile { message_id } => world.soon(Duty::Look {
                message_id,
                tries: 0,
            }),
            Action::Deliver { conversation_id } => deliver(world, conversation_id),
            Action::Join { message_id } => world.soon(Duty::Join(message_id)),
            // The simulated Codex asks nothing.
            Action::Interrupt { .. } | Action::Answer { .. } | Action::Announce { .. } => {}
        }
    }
}

pub(crate) fn act(world: &mut World, duty: Duty) {
    match duty {
        Duty::Poll { number } => poll(world, number),
        Duty::Schedule { number } => schedule(world, number),
        Duty::Work(message_id) => work::work(world, message_id),
        Duty::Bind {
            message_id,
            conversation_id,
            thread,
            codex,
        } => {
            work::bind(world, message_id, conversation_id, thread, codex);
        }
        Duty::Begin {
            message_id,
            thread,
            codex,
        } => work::begin(world, message_id, thread, codex),
        Duty::Ask {
            message_id,
            thread,
            client_id,
            text,
            codex,
        } => {
            work::ask(world, message_id, &thread, client_id, &text, codex);
        }
        Duty::Named { message_id, turn } => work::named(world, message_id, turn),
        Duty::Freed { turn } => follow::freed(world, turn),
        Duty::Follow { turn } => follow::follow(world, turn),
        Duty::Settle { what, tries, then } => settle(world, what, tries, then),
        Duty::Look { message_id, tries } => reconcile::look(world, message_id, tries),
        Duty::Looked {
            message_id,
            found,
            turn,
            tries,
        } => {
            reconcile::decide(world, message_id, found, turn, tries);
        }
        Duty::Join(message_id) => follow::join(world, message_id),
        Duty::Tell { message_id, steer } => follow::tell(world, message_id, &steer),
        Duty::Lane(conversation_id) => lane::lane(world, conversation_id),
        Duty::Hand {
            message,
            reply,
            again,
        } => lane::hand(world, message, reply, again),
        Duty::Heard {
            message,
            reply,
            verdict,
        } => lane::heard(world, &message, &reply, verdict),
    }
}

/// A turn got on or is gone: whoever waits for it looks.
pub(crate) fn news_of(world: &mut World, turn: usize) {
    let Some(memory) = &mut world.daemon else {
        return;
    };
    if memory.following.contains_key(&turn) {
        return world.soon(Duty::Follow { turn });
    }
    let Some(message_id) = memory.asked.remove(&turn) else {
        return;
    };
    world.soon(Duty::Named { message_id, turn });
}

pub(crate) fn wake(world: &mut World) {
    let Some(memory) = &mut world.daemon else {
        return;
    };
    memory.wakes += 1;
    let number = memory.wakes;
    world.duty(0, 3, Duty::Schedule { number });
}

pub(crate) fn wake_poll(world: &mut World) {
    let Some(memory) = &mut world.daemon else {
        return;
    };
    memory.polls += 1;
    let number = memory.polls;
    world.duty(1, 200, Duty::Poll { number });
}

pub(crate) fn deliver(world: &mut World, lane: ConversationId) {
    let Some(memory) = &mut world.daemon else {
        return;
    };
    if let Some(again) = memory.lanes.get_mut(&lane) {
        *again = true;
        return;
    }
    memory.lanes.insert(lane.clone(), false);
    world.soon(Duty::Lane(lane));
}

/// How long until a time, within the longest sleep.
fn until(world: &World, due: Option<Timestamp>) -> u64 {
    let ms = due.map_or(SLEEP_MAX_MS, |due| {
        due.since_ms(world.clock()).clamp(1, SLEEP_MAX_MS)
    });
    u64::try_from(ms).unwrap()
}

fn schedule(world: &mut World, number: u64) {
    if world.daemon.as_ref().unwrap().wakes != number {
        return;
    }
    let sleep = loop {
        let claim = Claim {
            turns_max: 2,
            turns_reserved: 0,
            turns_per_channel: 2,
            per_sender: std::sync::Arc::new(bridge_core::step::TurnsPerSender::UNLIMITED),
            one_writer: Vec::new(),
            readers: Vec::new(),
            budgets: std::sync::Arc::default(),
            leave_written: false,
            now: world.clock(),
        };
        match commit(world, claim) {
            Ok(ClaimOutcome::Claimed { .. } | ClaimOutcome::Buried | ClaimOutcome::Held) => {}
            Ok(ClaimOutcome::Idle { next_due } | ClaimOutcome::Full { next_due }) => {
                break until(world, next_due);
            }
            Err(Setback::Died) => return,
            Err(Setback::Refused | Setback::Unavailable) => break FAULT_PAUSE_MS,
        }
    };
    let number = world.daemon.as_ref().unwrap().wakes;
    world.duty(sleep, sleep, Duty::Schedule { number });
}

/// The source shows what is new, some of it twice, and again what it forgot was read.
fn poll(world: &mut World, number: u64) {
    if world.daemon.as_ref().unwrap().polls != number {
        return;
    }
    let now = world.now_ms;
    let shown: Vec<RowId> = world
        .platform
        .rows
        .iter()
        .filter(|posted| !posted.read && posted.show_at <= now)
        .map(|posted| posted.row)
        .collect();
    for row in shown {
        let times = 1 + u64::from(world.fault(world.dials.rates.shown_twice));
        for _ in 0..times {
            match take_in(world, row) {
                Ok(Received::New(_) | Received::Duplicate(_)) => {}
                Err(Setback::Died) => return,
                Ok(
                    Received::Full
                    | Received::OverBudget(_)
                    | Received::Revoked
                    | Received::OtherTerms,
                )
                | Err(Setback::Refused | Setback::Unavailable) => {
                    return world.duty(FAULT_PAUSE_MS, FAULT_PAUSE_MS, Duty::Poll { number });
                }
            }
        }
        read(world, row);
    }
    let waiting = world.platform.rows.iter().filter(|posted| !posted.read);
    if let Some(next) = waiting.map(|posted| posted.show_at).min() {
        let pause = next.saturating_sub(now).max(100);
        world.duty(pause, pause, Duty::Poll { number });
    }
}

/// The source moves on, which may be lost; and it may show the row again although it was not.
fn read(world: &mut World, row: RowId) {
    if world.fault(world.dials.rates.read_lost) {
        let again = world.now_ms + world.dice.between(20_000, 60_000);
        world.platform.row_mut(row).show_at = again;
        return;
    }
    world.platform.row_mut(row).read = true;
    if world.fault(world.dials.rates.redelivered) {
        let at = world.now_ms + world.dice.between(1, 40_000);
        world.queue.push(at, Event::Redeliver(row));
    }
}

fn take_in(world: &mut World, row: RowId) -> Result<Received, Setback> {
    world.record(Fact::Shown { row });
    let posted = world.platform.row_mut(row);
    posted.shown += 1;
    let posted = *posted;
    world.ids += 1;
    let id = world.ids;
    let external_id = if world.dials.has(Mutant::DuplicateTaken) {
        format!("{row}/{}", posted.shown)
    } else {
        row.to_string()
    };
    let receive = Receive {
        message_id: MessageId::new(format!("m{id:04}")),
        conversation_id: ConversationId::new(format!("c{id:04}")),
        workdir: "/w".to_owned(),
        channel: ChannelId::new("platform"),
        external_key: format!("k{}", posted.conversation),
        external_id: ExternalId::new(external_id),
        kind: SenderKind::Person,
        sender: posted.sender.to_owned(),
        tier: Tier::Owner,
        body: format!("row:{row}"),
        mid_turn: world.dials.mid_turn,
        verdict: Verdict::Fit,
        extras: bridge_core::step::Extras::default(),
    };
    commit(world, receive)
}

/// The platform's row of a message.
pub(crate) fn row_of(external_id: &ExternalId) -> RowId {
    let text = external_id.as_str();
    RowId::read(text.split('/').next().unwrap()).unwrap()
}
