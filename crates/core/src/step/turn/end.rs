//! How a turn is seen to go and to end: with an answer, with a failure, cut by a stop of the daemon, or out of sight.

use super::followers;
use super::retry::{AttemptCost, Retry};
use crate::limits;
use crate::port::{Change, RequestsOf, RowsError};
use crate::retry::backoff_ms;
use crate::step::{Action, RunError, Transition, Tx, regenerate, reply};
use crate::value::{
    Answer, AnswerSource, Attachment, Class, ClientId, CutPolicy, EventKind, Failure, Life,
    Message, MessageId, MessageState, NextInput, ReplyKind, StateName, Timestamp, Turn, TurnId,
    TurnState, Usage,
};

/// What a person sees when Codex finished without saying anything.
const EMPTY_ANSWER: &str = "(Codex finished this turn without a text answer.)";

/// Journals one thing that happened while a message was worked on. The first effect is journaled at once, so that a
/// turn which may have touched the world is never mistaken for one that did not.
#[derive(Clone, Debug)]
pub struct Note {
    pub message_id: MessageId,
    pub kind: EventKind,
    /// One line for people.
    pub text: String,
    /// Whether it may touch the world.
    pub effect: bool,
}

impl Transition for Note {
    type Outcome = ();
    const NAME: &'static str = "note";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        if self.effect
            && let Some(turn) = tx.turn_of(&message)?
            && !turn.touched
        {
            tx.change(Change::Turn(Turn {
                touched: true,
                ..turn
            }))?;
        }
        tx.event(&message, self.kind, &self.text, now)?;
        tx.announce(&self.message_id);
        Ok(())
    }
}

/// Journals what a turn answered: the commit point of the expensive work. The answer and all its replies go to disk
/// together; after this, Codex is never called again for the message.
#[derive(Clone, Debug)]
pub struct Answered {
    pub message_id: MessageId,
    pub turn_id: TurnId,
    pub text: Option<String>,
    /// The client ids of all texts that the turn was given.
    pub received: Vec<ClientId>,
    /// Files to send with the answer.
    pub attachments: Vec<Attachment>,
    pub usage: Usage,
    /// Longest reply the channel takes.
    pub reply_max_chars: Option<usize>,
}

impl Transition for Answered {
    type Outcome = ();
    const NAME: &'static str = "answer";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let states = [StateName::Starting, StateName::Running];
        let message = tx.expect(Self::NAME, &self.message_id, &states)?;
        let turn = tx.turn_of(&message)?;
        Ok(self.write(tx, &message, turn, AnswerSource::Live, now)?)
    }
}

impl Answered {
    /// Writes the answer, live or harvested.
    pub(super) fn write(
        self,
        tx: &mut Tx<'_>,
        message: &Message,
        turn: Option<Turn>,
        source: AnswerSource,
        now: Timestamp,
    ) -> Result<(), RowsError> {
        let message_id = &message.message_id;
        let text = match self.text {
            Some(text) if !text.trim().is_empty() => text,
            _ => EMPTY_ANSWER.to_owned(),
        };
        tx.change(Change::LastTurn {
            conversation_id: message.conversation_id.clone(),
            turn_id: self.turn_id.clone(),
            at: now,
        })?;
        tx.set_life(message, message.life.moved(MessageState::Answered, now))?;
        reply::withdraw(tx, message_id, "its turn has ended")?;
        if let Some(turn) = turn {
            tx.change(Change::Turn(Turn {
                turn_id: Some(self.turn_id),
                state: TurnState::Ended,
                ended_at: Some(now),
                usage: self.usage,
                ..turn
            }))?;
        }
        let (files, max_chars) = (self.attachments, self.reply_max_chars);
        reply::queue(tx, message, ReplyKind::Answer, &text, files, max_chars, now)?;
        tx.deliver(&message.conversation_id);
        tx.act(Action::Schedule);
        tx.announce(message_id);
        followers::share(tx, message_id, &self.received, &text, now)?;
        tx.change(Change::NewAnswer(Answer {
            message_id: message_id.clone(),
            attempt: message.life.attempt,
            source,
            text,
            created_at: now,
        }))
    }
}

/// Journals that an attempt ended without an answer, and that its end was seen. The failure's class decides what
/// follows.
#[derive(Clone, Debug)]
pub struct Fail {
    pub message_id: MessageId,
    pub failure: Failure,
    /// An item that may touch the world was seen by whoever followed the turn to its end.
    pub touched: bool,
    /// What its turn cost all the same, as far as known.
    pub usage: Usage,
    /// What happens if it was cut after it may have changed something.
    pub on_cut: CutPolicy,
    pub pace: Pace,
}

/// How soon a message without an answer is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// First wait before the next try; doubles each time.
    pub backoff_base_ms: i64,
    /// How soon a message that waits for an operator is looked at again.
    pub config_probe_ms: i64,
    /// Random number in 0..=1000.
    pub jitter: u16,
}

impl Pace {
    /// When to try again after so many tries.
    pub(super) fn backoff(&self, tries: u32, now: Timestamp) -> Timestamp {
        now.plus_ms(backoff_ms(
            tries,
            self.backoff_base_ms,
            limits::TURN_BACKOFF_MAX_MS,
            self.jitter,
        ))
    }
}

impl Transition for Fail {
    type Outcome = ();
    const NAME: &'static str = "fail";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let states = [StateName::Claimed, StateName::Starting, StateName::Running];
        let message = tx.expect(Self::NAME, &self.message_id, &states)?;
        let usage = self.usage;
        let turn = tx.turn_of(&message)?.map(|turn| Turn { usage, ..turn });
        let begun = message.life.state.name() != StateName::Claimed;
        // Before a turn is begun nothing can have happened, whatever the edge says.
        if begun && self.failure.class == Class::Ambiguous {
            return Ok(unclear(tx, &message, turn, self.failure, now)?);
        }
        let ended = EndedAttempt {
            message: &message,
            touched: touched(turn.as_ref(), self.touched).then_some(self.on_cut),
            turn,
            failure: self.failure,
            pace: self.pace,
        };
        Ok(ended.write(tx, now)?)
    }
}

/// Whether a turn may have touched the world: by what was seen now, or by whoever followed it before.
pub(super) fn touched(turn: Option<&Turn>, seen_now: bool) -> bool {
    turn.is_some_and(|turn| turn.sandbox.can_write() && (seen_now || turn.touched))
}

/// Records that the end of a turn is known.
pub(super) fn end_turn(
    tx: &mut Tx<'_>,
    turn: Option<Turn>,
    now: Timestamp,
) -> Result<(), RowsError> {
    let Some(turn) = turn else {
        return Ok(());
    };
    tx.change(Change::Turn(Turn {
        state: TurnState::Ended,
        ended_at: Some(now),
        ..turn
    }))
}

/// An attempt that certainly ended without an answer.
pub(super) struct EndedAttempt<'a> {
    pub(super) message: &'a Message,
    pub(super) turn: Option<Turn>,
    pub(super) failure: Failure,
    /// Set when the world may have been touched.
    pub(super) touched: Option<CutPolicy>,
    pub(super) pace: Pace,
}

impl EndedAttempt<'_> {
    pub(super) fn write(mut self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RowsError> {
        let message = self.message;
        let turn = self.turn.take();
        let can_write = turn.as_ref().is_some_and(|turn| turn.sandbox.can_write());
        end_turn(tx, turn, now)?;
        followers::release(tx, &message.message_id, can_write, now)?;
        let cost = match self.failure.class {
            Class::Permanent | Class::Bug => {
                let mut life = Life {
                    failure: Some(self.failure.clone()),
                    ..message.life.clone()
                };
                if self.touched.is_some() {
                    // Should a person send it again, it is asked to check first.
                    life.input = NextInput::Continue;
                }
                return reply::close(tx, message, &life, self.failure.reason, now);
            }
            Class::Capacity { .. } | Class::Config => {
                reply::notify_held(tx, message, &self.failure, now)?;
                AttemptCost::Returned
            }
            Class::Transient | Class::Ambiguous => AttemptCost::Spent,
        };
        let retry = Retry {
            until: self.next_try(now),
            message,
            failure: self.failure,
            cost,
            touched: self.touched,
        };
        retry.write(tx, now)?;
        tx.act(Action::Schedule);
        tx.deliver(&message.conversation_id);
        Ok(())
    }

    /// A time that the other side named is believed within reason: not in the past, or the wait would be a hot
    /// loop, and not beyond the age at which a held message is given up.
    fn next_try(&self, now: Timestamp) -> Timestamp {
        let life = &self.message.life;
        match &self.failure.class {
            Class::Capacity { until } => {
                let soonest = self.pace.backoff(life.attempt, now);
                let latest = now.plus_ms(limits::HELD_AGE_MAX_MS).max(soonest);
                until.unwrap_or(soonest).clamp(soonest, latest)
            }
            Class::Config => now.plus_ms(self.pace.config_probe_ms),
            Class::Transient | Class::Permanent | Class::Ambiguous | Class::Bug => {
                self.pace.backoff(life.spent.saturating_sub(1), now)
            }
        }
    }
}

/// Moves a message to `unclear`: its turn may have happened, and from here only reconcile leads on.
fn unclear(
    tx: &mut Tx<'_>,
    message: &Message,
    turn: Option<Turn>,
    failure: Failure,
    now: Timestamp,
) -> Result<(), RowsError> {
    let unclear = MessageState::Unclear { hold: None };
    let life = Life {
        failure: Some(failure),
        ..message.life.moved(unclear, now)
    };
    tx.set_life(message, life)?;
    if let Some(turn) = turn {
        tx.change(Change::Turn(Turn {
            state: TurnState::Lost,
            ..turn
        }))?;
    }
    tx.act(Action::Reconcile {
        message_id: message.message_id.clone(),
    });
    tx.announce(&message.message_id);
    Ok(())
}

/// Journals that a turn which was begun is out of sight.
#[derive(Clone, Debug)]
pub struct Lose {
    pub message_id: MessageId,
    pub why: String,
    /// Set when the turn was to end for good: unless its answer is found, the message ends with this.
    pub end: Option<Failure>,
}

impl Transition for Lose {
    type Outcome = ();
    const NAME: &'static str = "lose";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let states = [StateName::Starting, StateName::Running];
        let message = tx.expect(Self::NAME, &self.message_id, &states)?;
        let turn = tx.turn_of(&message)?;
        let lost = || Failure::new(Class::Ambiguous, self.why);
        let failure = self.end.unwrap_or_else(lost);
        Ok(unclear(tx, &message, turn, failure, now)?)
    }
}

/// Journals that a stop of the daemon cut an attempt, and that its end was seen. It costs the message nothing: the next
/// start goes on with it.
#[derive(Clone, Debug)]
pub struct Suspend {
    pub message_id: MessageId,
}

impl Transition for Suspend {
    type Outcome = ();
    const NAME: &'static str = "suspend";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let states = [StateName::Claimed, StateName::Starting, StateName::Running];
        let message = tx.expect(Self::NAME, &self.message_id, &states)?;
        let waiting = MessageState::Received { hold: None };
        let mut life = message.life.moved(waiting, now);
        life.spent = life.spent.saturating_sub(1);
        let begun = message.life.state.name() != StateName::Claimed;
        let turn = tx.turn_of(&message)?.filter(|_| begun);
        let can_write = turn.as_ref().is_some_and(|turn| turn.sandbox.can_write());
        if can_write {
            life.input = NextInput::Continue;
        }
        end_turn(tx, turn, now)?;
        followers::release(tx, &self.message_id, can_write, now)?;
        if let Some(stopped) = message.life.stop.clone() {
            return Ok(reply::cancel(tx, &message, &life, stopped, now)?);
        }
        if begun {
            let requests = RequestsOf::Message(self.message_id.clone());
            tx.change(Change::Orphan(requests))?;
        }
        tx.set_life(&message, life)?;
        tx.announce(&self.message_id);
        Ok(())
    }
}

/// Brings a message that an earlier daemon left in the middle to a state from which it can go on.
///
/// Claimed: nothing was said to Codex, it waits again; the death counts from the second time on, so that a message
/// which kills the daemon is given up. Starting or running: its end was not seen. What another node of a fleet works on
/// is none of this one's.
#[derive(Clone, Debug)]
pub struct Resume {
    pub message_id: MessageId,
}

impl Transition for Resume {
    type Outcome = ();
    const NAME: &'static str = "resume";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.existing(Self::NAME, &self.message_id)?;
        if message.life.state.name().in_flight() && !tx.is_home(&message.conversation_id)? {
            return Ok(());
        }
        resume(tx, message, now)?;
        Ok(())
    }
}

/// The same, for whoever knows that the conversation's node is gone or is this one.
pub(in crate::step) fn resume(
    tx: &mut Tx<'_>,
    message: Message,
    now: Timestamp,
) -> Result<(), RowsError> {
    match message.life.state {
        MessageState::Claimed => {
            let waiting = MessageState::Received { hold: None };
            let mut life = message.life.moved(waiting, now);
            AttemptCost::Death.settle(&mut life);
            life.failure = Some(Failure::new(
                Class::Transient,
                "the daemon stopped before Codex was given this message",
            ));
            tx.set_life(&message, life)?;
            tx.act(Action::Schedule);
        }
        MessageState::Starting | MessageState::Running { .. } => {
            let failure = Failure::new(
                Class::Ambiguous,
                "the daemon stopped while Codex worked on this message",
            );
            let turn = tx.turn_of(&message)?;
            unclear(tx, &message, turn, failure, now)?;
        }
        _ => regenerate(&message)
            .into_iter()
            .for_each(|action| tx.act(action)),
    }
    Ok(())
}
