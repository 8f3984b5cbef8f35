//! Decides when a running turn is ended: its time is used up, or it was silent for too long. `follow` acts on it.
//!
//! The idle clock stands still while a command runs, because a
//! long build says nothing for a long time. A command whose approval request Codex has not settled does not run yet.

use bridge_core::deadline::after;
use bridge_core::port::{RequestKey, TurnEvent};
use bridge_core::value::{ItemId, RequestKind};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long an interrupt may take to end a turn.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(10);

/// Longer than anybody may take to decide.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Items at work and requests that are remembered; a turn with more of them is not idle anyway.
const WORKING_MAX: usize = 1_024;

/// Watches one turn.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// When its time is used up.
    deadline: Instant,
    /// How long it may be silent.
    idle: Duration,
    last_sign: Instant,
    /// Commands and other effects that began and did not end.
    working: BTreeSet<ItemId>,
    /// What is at work is not known yet: the turn ran before it was watched.
    unknown: bool,
    /// What Codex asked and has not settled. A call of our tool is not among them: we are at work on it.
    unsettled: HashSet<RequestKey>,
    /// Since when a person must decide something; no clock runs meanwhile.
    person: Option<Instant>,
    stage: WatchdogStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchdogStage {
    Watching,
    /// It was interrupted for this reason and must end by then.
    Ending(Cause, Instant),
}

/// Why a turn is ended before its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its time was used up.
    Timeout,
    /// It was silent.
    Silence,
    /// A person stopped it.
    Stopped,
}

impl Cause {
    /// The words in the log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "its time is used up",
            Self::Silence => "it was silent",
            Self::Stopped => "a person stopped it",
        }
    }
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Ask whether Codex is there at all, then interrupt.
    Probe,
    /// Interrupt the turn.
    Interrupt,
    /// It does not end: end its Codex.
    EndLife,
}

impl Watchdog {
    /// A watchdog over a turn with this much time left.
    pub(crate) fn new(left: Duration, idle: Duration, now: Instant) -> Self {
        Self {
            deadline: after(now, left),
            idle,
            last_sign: now,
            working: BTreeSet::new(),
            unknown: false,
            unsettled: HashSet::new(),
            person: None,
            stage: WatchdogStage::Watching,
        }
    }

    /// A person must decide something, or has done so: the time between is nobody's but theirs.
    pub(crate) fn person(&mut self, asked: bool, now: Instant) {
        match (asked, self.person.take()) {
            (true, since) => self.person = since.or(Some(now)),
            (false, Some(since)) => {
                self.deadline = after(self.deadline, now.saturating_duration_since(since));
                self.last_sign = now;
            }
            (false, None) => {}
        }
    }

    /// The turn ran before it was watched: until its first item arrives, a command may be at work.
    pub(crate) fn know_nothing(&mut self) {
        self.unknown = true;
    }

    /// When to look again.
    pub(crate) fn wake(&self) -> Instant {
        match self.stage {
            WatchdogStage::Ending(_, until) => until,
            WatchdogStage::Watching if let Some(since) = self.person => after(since, NEVER),
            WatchdogStage::Watching if self.may_run_silently() => self.deadline,
            WatchdogStage::Watching => self.deadline.min(after(self.last_sign, self.idle)),
        }
    }

    fn may_run_silently(&self) -> bool {
        let at_work = self.unknown || !self.working.is_empty();
        at_work && self.unsettled.is_empty()
    }

    /// Takes an event of the turn in.
    pub(crate) fn observe(&mut self, event: &TurnEvent, now: Instant) {
        self.last_sign = now;
        match event {
            TurnEvent::Item(item) => {
                self.unknown = false;
                if item.effect {
                    self.item(&item.item_id, item.completed);
                }
            }
            TurnEvent::Request(asked)
                if asked.kind != RequestKind::ToolCall && self.unsettled.len() < WORKING_MAX =>
            {
                self.unsettled.insert(asked.key.clone());
            }
            TurnEvent::Confirmed(asked) | TurnEvent::Resolved(asked) => {
                self.unsettled.remove(asked);
            }
            _ => {}
        }
    }

    fn item(&mut self, item_id: &ItemId, completed: bool) {
        if completed {
            self.working.remove(item_id);
            self.unsettled
                .retain(|asked| asked.item_id.as_ref() != Some(item_id));
        } else if self.working.len() < WORKING_MAX {
            self.working.insert(item_id.clone());
        }
    }

    /// A person stopped the turn.
    pub(crate) fn stop(&mut self, now: Instant) -> Option<Duty> {
        match self.stage {
            WatchdogStage::Ending(..) => None,
            WatchdogStage::Watching => Some(self.end(Cause::Stopped, Duty::Interrupt, now)),
        }
    }

    /// What is due now.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Duty> {
        match self.stage {
            _ if now < self.wake() => None,
            WatchdogStage::Ending(cause, _) => Some(self.end(cause, Duty::EndLife, now)),
            WatchdogStage::Watching if now >= self.deadline => {
                Some(self.end(Cause::Timeout, Duty::Interrupt, now))
            }
            WatchdogStage::Watching => Some(self.end(Cause::Silence, Duty::Probe, now)),
        }
    }

    fn end(&mut self, cause: Cause, duty: Duty, now: Instant) -> Duty {
        self.stage = WatchdogStage::Ending(cause, after(now, INTERRUPT_PATIENCE));
        duty
    }

    /// Why the turn is being ended, if it is.
    pub(crate) fn cause(&self) -> Option<Cause> {
        match self.stage {
            WatchdogStage::Watching => None,
            WatchdogStage::Ending(cause, _) => Some(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_core::port::{ApprovalRequest, ItemNote};
    use bridge_core::rules::Effect;
    use bridge_core::value::{IncarnationId, Wants};

    const SECOND: Duration = Duration::from_secs(1);

    fn command(id: &str, completed: bool) -> TurnEvent {
        TurnEvent::Item(ItemNote {
            item_id: ItemId::new(id),
            kind: "commandExecution".to_owned(),
            completed,
            headline: "ran a build".to_owned(),
            effect: true,
            diff: None,
            output: None,
            declined: false,
        })
    }

    #[test]
    fn f10_any_timeout_can_be_configured() {
        let start = Instant::now();
        let mut dog = Watchdog::new(Duration::MAX, Duration::from_secs(u64::MAX), start);
        dog.person(true, start);
        dog.person(false, start + SECOND);
        assert!(dog.wake() > start + 3_600 * SECOND);
        assert_eq!(dog.due(start + 3_600 * SECOND), None);
    }

    #[test]
    fn silence_is_probed_and_ends_the_turn() {
        let start = Instant::now();
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.observe(&TurnEvent::Alive, start + 200 * SECOND);
        assert_eq!(dog.due(start + 499 * SECOND), None);
        assert_eq!(dog.due(start + 500 * SECOND), Some(Duty::Probe));
        assert_eq!(dog.cause(), Some(Cause::Silence));
        assert_eq!(dog.due(start + 509 * SECOND), None);
        assert_eq!(dog.due(start + 510 * SECOND), Some(Duty::EndLife));
    }

    #[test]
    fn silent_command_runs_until_turn_timeout() {
        let start = Instant::now();
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.observe(&command("a", false), start);
        assert_eq!(dog.due(start + 1_799 * SECOND), None);
        assert_eq!(dog.due(start + 1_800 * SECOND), Some(Duty::Interrupt));
        assert_eq!(dog.cause(), Some(Cause::Timeout));
    }

    #[test]
    fn idle_timer_resumes_after_command_ends() {
        let start = Instant::now();
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.observe(&command("a", false), start);
        dog.observe(&command("a", true), start + 1_000 * SECOND);
        assert_eq!(dog.wake(), start + 1_300 * SECOND);
        assert_eq!(dog.due(start + 1_300 * SECOND), Some(Duty::Probe));
    }

    #[test]
    fn recovered_turn_may_have_running_command() {
        let start = Instant::now();
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.know_nothing();
        assert_eq!(dog.due(start + 1_000 * SECOND), None);
        dog.observe(&command("a", true), start + 1_000 * SECOND);
        assert_eq!(dog.due(start + 1_300 * SECOND), Some(Duty::Probe));
    }

    #[test]
    fn no_clock_runs_while_a_person_decides() {
        let start = Instant::now();
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.person(true, start + 100 * SECOND);
        dog.person(true, start + 200 * SECOND);
        assert_eq!(dog.due(start + 5_000 * SECOND), None);
        dog.person(false, start + 5_100 * SECOND);
        assert_eq!(dog.due(start + 5_399 * SECOND), None);
        dog.observe(&command("a", false), start + 5_399 * SECOND);
        assert_eq!(dog.due(start + 6_799 * SECOND), None);
        assert_eq!(dog.due(start + 6_800 * SECOND), Some(Duty::Interrupt));
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.person(true, start);
        assert_eq!(dog.stop(start + SECOND), Some(Duty::Interrupt));
        assert_eq!(dog.due(start + 11 * SECOND), Some(Duty::EndLife));
    }

    fn asks(item: &str, kind: RequestKind) -> TurnEvent {
        TurnEvent::Request(ApprovalRequest {
            key: named(item),
            method: "item/commandExecution/requestApproval".to_owned(),
            kind,
            headline: String::new(),
            shown: String::new(),
            effect: Effect::default(),
            payload: "{}".to_owned(),
            wants: Wants::Approval,
            secret_answer: false,
            tool_arguments: None,
        })
    }

    fn named(item: &str) -> RequestKey {
        RequestKey {
            incarnation: IncarnationId::new("i"),
            rpc_id: "0".to_owned(),
            item_id: Some(ItemId::new(item)),
        }
    }

    /// The command's item begins before it is asked about, so it alone does not say that the command runs.
    #[test]
    fn f5_an_unconfirmed_command_does_not_run() {
        let start = Instant::now();
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.observe(&command("a", false), start);
        dog.observe(&asks("a", RequestKind::Command), start);
        dog.person(true, start);
        dog.person(false, start + 600 * SECOND);
        assert_eq!(dog.wake(), start + 900 * SECOND);
        dog.observe(&TurnEvent::Confirmed(named("a")), start + 700 * SECOND);
        assert_eq!(dog.due(start + 1_500 * SECOND), None, "now it runs");

        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.know_nothing();
        dog.observe(&asks("a", RequestKind::Command), start);
        assert_eq!(dog.due(start + 300 * SECOND), Some(Duty::Probe));
    }

    #[test]
    fn f5_a_settled_request_stops_no_clock() {
        let start = Instant::now();
        for settled in [
            TurnEvent::Resolved(named("a")),
            TurnEvent::Confirmed(named("a")),
            command("a", true),
        ] {
            let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
            dog.observe(&command("b", false), start);
            dog.observe(&asks("a", RequestKind::Command), start);
            dog.observe(&settled, start);
            assert_eq!(dog.wake(), start + 1_800 * SECOND, "{settled:?}");
        }
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        dog.observe(&command("call", false), start);
        dog.observe(&asks("call", RequestKind::ToolCall), start);
        assert_eq!(dog.due(start + 301 * SECOND), None, "we work on it");
    }

    #[test]
    fn a_person_stops_it_once() {
        let start = Instant::now();
        let mut dog = Watchdog::new(1_800 * SECOND, 300 * SECOND, start);
        assert_eq!(dog.stop(start), Some(Duty::Interrupt));
        assert_eq!(dog.stop(start), None);
        assert_eq!(dog.due(start + 10 * SECOND), Some(Duty::EndLife));
        assert_eq!(dog.cause(), Some(Cause::Stopped));
    }
}
