//! The loop guard: two agents that answer each other stop at the door, and who sends too much waits. Its numbers come
//! with the message, from the configuration in force when it arrived.

use super::{Past, Receive, Unfit, stopped};
use crate::limits;
use crate::value::{Class, Failure, SenderKind, Timestamp};

const TEN_MINUTES_MS: i64 = 10 * 60_000;
const DAY_MS: i64 = 24 * 3_600_000;

/// How much agents may say to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopLimits {
    /// Agents that may answer each other, where they count it.
    pub hops: u32,
    /// Messages of one agent within ten minutes, by its own clock; in one talk, where talks are counted one by one.
    pub per_ten_minutes: u32,
    /// The same within a day. At most [`limits::PAGE_MAX`]: that many are looked at.
    pub per_day: u32,
    /// Messages of one agent in all its talks within a day, where they are counted one by one.
    pub per_day_in_all: u32,
}

impl Default for LoopLimits {
    fn default() -> Self {
        Self {
            hops: limits::HOPS_DEFAULT,
            per_ten_minutes: limits::AGENT_MESSAGES_PER_TEN_MINUTES_DEFAULT,
            per_day: limits::AGENT_MESSAGES_PER_DAY_DEFAULT,
            per_day_in_all: limits::AGENT_MESSAGES_PER_DAY_IN_ALL_DEFAULT,
        }
    }
}

/// So many messages of an agent within a time.
#[derive(Clone, Copy, Debug)]
struct Budget {
    messages: u32,
    window_ms: i64,
    scope: &'static str,
    key: &'static str,
}

impl LoopLimits {
    fn in_talk(&self) -> [Budget; 2] {
        [
            Budget {
                messages: self.per_ten_minutes,
                window_ms: TEN_MINUTES_MS,
                scope: "",
                key: "messages_per_ten_minutes",
            },
            Budget {
                messages: self.per_day,
                window_ms: DAY_MS,
                scope: "",
                key: "messages_per_day",
            },
        ]
    }

    fn in_all(&self) -> Budget {
        Budget {
            messages: self.per_day_in_all,
            window_ms: DAY_MS,
            scope: " in all its talks",
            key: "messages_per_day_in_all",
        }
    }

    /// Messages of an agent that must be looked at to count them.
    pub(super) fn looked_at(&self) -> u32 {
        self.per_ten_minutes.max(self.per_day)
    }
}

/// What the guard says about a text.
pub(super) enum Guarded {
    /// It gets its turn, and counts at this time.
    Passes(Timestamp),
    /// It gets its turn when there is room.
    Waits(Wait),
    /// It gets none.
    Stopped(Unfit),
}

/// Until when a text waits, and whether its sender is notified.
pub(super) struct Wait {
    pub(super) until: Timestamp,
    pub(super) failure: Failure,
    pub(super) tell: bool,
}

/// Two agents that answer each other stop here by the hops that they count themselves. Who sends more than it may
/// within a time waits for room, and a text that waits counts at the time at which it goes on: so a flood goes on at
/// the rate that is allowed. The first one that waits gets a notice; later ones meet silence, because every notice of
/// ours could be answered again. Times are those at which it was said, so that what waited for us to come back is not
/// taken for a flood.
pub(super) fn loop_guard(receive: &Receive, past: &Past, now: Timestamp) -> Guarded {
    match receive.kind {
        SenderKind::Person => return Guarded::Passes(receive.extras.said_at.unwrap_or(now)),
        SenderKind::Agent => {}
    }
    let limits = &receive.extras.loop_limits;
    let hops = receive.extras.hops;
    let quiet = past.newest_stopped();
    if hops >= limits.hops {
        let reason = format!(
            "the loop guard stopped it: {hops} agents answered each other before it, and {} may (`loop_guard.hops`)",
            limits.hops
        );
        return Guarded::Stopped(stopped(reason, hops == limits.hops && !quiet));
    }
    let said_at = receive.extras.said_at.map_or(now, |said| said.min(now));
    let in_talk = limits.in_talk().into_iter();
    let in_talk = in_talk.filter_map(|budget| Some((budget.room_after(past)?, budget)));
    let in_all = limits.in_all();
    let in_all = past
        .talks
        .map(|talks| (talks.plus_ms(in_all.window_ms), in_all));
    let last = in_talk.chain(in_all).max_by_key(|(until, _)| *until);
    let Some((until, budget)) = last.filter(|(until, _)| *until > said_at) else {
        return Guarded::Passes(said_at);
    };
    if until <= now {
        return Guarded::Passes(until);
    }
    let notified = past.waited_since(said_at.plus_ms(-budget.window_ms)) || quiet;
    if until > now.plus_ms(limits::LOOP_WAIT_MAX_MS) {
        let reason = format!(
            "the loop guard stopped it: {}, and as many wait as could go on within a day",
            budget.words()
        );
        return Guarded::Stopped(stopped(reason, !notified));
    }
    let reason = format!(
        "the loop guard lets it wait: {}; it goes on at {}",
        budget.words(),
        until.utc()
    );
    Guarded::Waits(Wait {
        until,
        failure: Failure::new(Class::Capacity { until: Some(until) }, reason),
        tell: !notified,
    })
}

impl Budget {
    /// When there is room for one more, if that many were sent.
    fn room_after(&self, past: &Past) -> Option<Timestamp> {
        let nth = usize::try_from(self.messages).ok()?.checked_sub(1)?;
        let reached = past.messages.get(nth)?;
        Some(reached.said_at.plus_ms(self.window_ms))
    }

    fn words(&self) -> String {
        format!(
            "this agent sent {} messages{} within {} minutes (`loop_guard.{}`)",
            self.messages,
            self.scope,
            self.window_ms / 60_000,
            self.key
        )
    }
}
