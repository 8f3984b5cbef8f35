//! Where a message is, in the six words that people read. The only place that maps states to them.

use crate::value::{Class, Message, MessageState, StateName};

/// Where a message is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It waits for its turn.
    Queued,
    /// Codex works on it, or its answer is on its way.
    Working,
    /// It goes on when a person has done something.
    WaitingForYou,
    /// It was answered.
    Done,
    /// It was given up.
    Failed,
    /// Somebody stopped it.
    Stopped,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Working,
        Self::WaitingForYou,
        Self::Done,
        Self::Failed,
        Self::Stopped,
    ];

    /// The phase of a message. One that failed under the older tool is stored as cancelled, because nobody can send it
    /// again.
    #[must_use]
    pub fn of_message(message: &Message, asked: bool) -> Self {
        if message.failed_elsewhere() {
            return Self::Failed;
        }
        Self::of(&message.life.state, asked)
    }

    /// The phase of a message in this state. `asked`: Codex asks something for it, and nobody has decided.
    #[must_use]
    pub fn of(state: &MessageState, asked: bool) -> Self {
        if asked && state.name().awaits_answer() {
            return Self::WaitingForYou;
        }
        let operator = state
            .hold()
            .is_some_and(|hold| hold.failure.class == Class::Config);
        match state {
            MessageState::Received { .. } | MessageState::Unclear { .. } if operator => {
                Self::WaitingForYou
            }
            state => Self::of_name(state.name()),
        }
    }

    /// The phase of a message as far as the name of its state says.
    #[must_use]
    pub fn of_name(state: StateName) -> Self {
        match state {
            StateName::Received | StateName::Claimed => Self::Queued,
            StateName::Starting
            | StateName::Running
            | StateName::Unclear
            | StateName::Steered
            | StateName::Answered
            | StateName::Sending => Self::Working,
            StateName::Parked => Self::WaitingForYou,
            StateName::Done => Self::Done,
            StateName::Dead => Self::Failed,
            StateName::Cancelled => Self::Stopped,
        }
    }

    /// The words that are shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Working => "working",
            Self::WaitingForYou => "waiting for you",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether nothing more happens to it by itself.
    #[must_use]
    pub fn over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::Phase;
    use crate::value::{
        Class, Failure, Hold, MessageId, MessageState, StateName, Timestamp, TurnId,
    };

    fn hold(class: Class) -> Option<Hold> {
        Some(Hold {
            until: Timestamp(9),
            failure: Failure::new(class, "r"),
        })
    }

    fn plain(state: StateName) -> MessageState {
        let reason = "r".to_owned();
        match state {
            StateName::Received => MessageState::Received { hold: None },
            StateName::Claimed => MessageState::Claimed,
            StateName::Starting => MessageState::Starting,
            StateName::Running => MessageState::Running {
                turn_id: TurnId::new("t"),
            },
            StateName::Unclear => MessageState::Unclear { hold: None },
            StateName::Steered => MessageState::Steered {
                leader: MessageId::new("m"),
            },
            StateName::Parked => MessageState::Parked {
                until: Timestamp(9),
                reason,
            },
            StateName::Answered => MessageState::Answered,
            StateName::Sending => MessageState::Sending,
            StateName::Done => MessageState::Done,
            StateName::Dead => MessageState::Dead { reason },
            StateName::Cancelled => MessageState::Cancelled { reason },
        }
    }

    const NAMES: [(StateName, Phase); 12] = [
        (StateName::Received, Phase::Queued),
        (StateName::Claimed, Phase::Queued),
        (StateName::Starting, Phase::Working),
        (StateName::Running, Phase::Working),
        (StateName::Unclear, Phase::Working),
        (StateName::Steered, Phase::Working),
        (StateName::Parked, Phase::WaitingForYou),
        (StateName::Answered, Phase::Working),
        (StateName::Sending, Phase::Working),
        (StateName::Done, Phase::Done),
        (StateName::Dead, Phase::Failed),
        (StateName::Cancelled, Phase::Stopped),
    ];

    #[test]
    fn every_state_has_its_phase() {
        for (state, phase) in NAMES {
            assert_eq!(Phase::of(&plain(state), false), phase, "{state:?}");
        }
    }

    #[test]
    fn a_question_waits_until_the_answer() {
        for (state, phase) in NAMES {
            let expected = if state.awaits_answer() {
                Phase::WaitingForYou
            } else {
                phase
            };
            assert_eq!(Phase::of(&plain(state), true), expected, "{state:?}");
        }
    }

    #[test]
    fn only_a_configuration_hold_waits_for_people() {
        for class in [
            Class::Transient,
            Class::Capacity { until: None },
            Class::Ambiguous,
            Class::Bug,
        ] {
            let held = MessageState::Received {
                hold: hold(class.clone()),
            };
            assert_eq!(Phase::of(&held, false), Phase::Queued, "{class:?}");
            let unclear = MessageState::Unclear {
                hold: hold(class.clone()),
            };
            assert_eq!(Phase::of(&unclear, false), Phase::Working, "{class:?}");
        }
        let held = MessageState::Received {
            hold: hold(Class::Config),
        };
        assert_eq!(Phase::of(&held, false), Phase::WaitingForYou);
        let unclear = MessageState::Unclear {
            hold: hold(Class::Config),
        };
        assert_eq!(Phase::of(&unclear, false), Phase::WaitingForYou);
    }

    #[test]
    fn words_are_all_different() {
        let mut words: Vec<_> = Phase::ALL.iter().map(|phase| phase.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Phase::ALL.len());
    }
}
