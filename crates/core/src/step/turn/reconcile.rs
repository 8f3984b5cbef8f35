//! Lost turns: the only exits from `unclear`.
//!
//! The agent's history has been read while holding its writer; this decides what it means. Reading twice gives the same
//! answer, and nothing is guessed.

use super::end::{Answered, EndedAttempt, Pace, end_turn, touched};
use super::followers;
use super::retry::{AttemptCost, Retry};
use super::start::lost_notice;
use crate::limits;
use crate::port::{Change, RecordedTurn, RowsError, TurnHistory, TurnStatus};
use crate::step::{Action, RunError, Transition, Tx, reply};
use crate::value::{
    AnswerSource, Attachment, BootId, Class, CutPolicy, EventKind, Failure, Hold, Life, Message,
    MessageId, MessageState, NextInput, StateName, Timestamp, Turn, TurnState, Usage,
};

/// Journals what the history says of a lost turn.
#[derive(Clone, Debug)]
pub struct Reconcile {
    pub message_id: MessageId,
    pub found: TurnHistory,
    /// The machine's boot now: after a reboot "not found" proves nothing.
    pub boot_id: BootId,
    /// Files to send with the answer, if it has one.
    pub attachments: Vec<Attachment>,
    /// Longest reply the channel takes.
    pub reply_max_chars: Option<usize>,
    /// What happens if it was cut after it may have changed something.
    pub on_cut: CutPolicy,
    pub pace: Pace,
}

impl Transition for Reconcile {
    /// Whether the turn still runs and must be followed.
    type Outcome = bool;
    const NAME: &'static str = "reconcile";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<bool, RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Unclear])?;
        tx.expect_home(Self::NAME, &message)?;
        let turn = tx.turn_of(&message)?;
        let case = Case {
            message: &message,
            turn,
            on_cut: self.on_cut,
            pace: self.pace,
            now,
        };
        match self.found {
            TurnHistory::Turn(turn) if turn.status == TurnStatus::InProgress => {
                case.reattach(tx, turn)?;
                return Ok(true);
            }
            TurnHistory::Turn(turn)
                if turn.status == TurnStatus::Completed || turn.answer.is_some() =>
            {
                case.harvest(tx, turn, self.attachments, self.reply_max_chars)?;
            }
            TurnHistory::Turn(turn) if turn.status == TurnStatus::Failed => {
                case.failed(tx, turn)?;
            }
            TurnHistory::Turn(turn) => case.interrupted(tx, turn)?,
            TurnHistory::Absent => {
                let why = "the turn was lost before Codex had kept anything of it";
                case.absent(tx, &self.boot_id, why)?;
            }
            TurnHistory::Foreign => {
                let why = "the turn was lost, and somebody else used its thread meanwhile";
                case.absent(tx, &self.boot_id, why)?;
            }
            TurnHistory::Unreadable { why } => case.unreadable(tx, &why)?,
        }
        Ok(false)
    }
}

struct Case<'a> {
    message: &'a Message,
    turn: Option<Turn>,
    on_cut: CutPolicy,
    pace: Pace,
    now: Timestamp,
}

impl Case<'_> {
    fn can_write(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_none_or(|turn| turn.sandbox.can_write())
    }

    fn reattach(self, tx: &mut Tx<'_>, found: RecordedTurn) -> Result<(), RowsError> {
        let message = self.message;
        let running = MessageState::Running {
            turn_id: found.turn_id.clone(),
        };
        tx.set_life(message, message.life.moved(running, self.now))?;
        if message.life.stop.is_some() {
            tx.act(Action::Interrupt {
                message_id: message.message_id.clone(),
            });
        }
        tx.announce(&message.message_id);
        followers::recheck(tx, &message.message_id, &found.received, self.now)?;
        if let Some(turn) = self.turn {
            tx.change(Change::Turn(Turn {
                turn_id: Some(found.turn_id),
                state: TurnState::Attached,
                touched: turn.touched || !found.effects.is_empty(),
                ..turn
            }))?;
        }
        Ok(())
    }

    fn harvest(
        self,
        tx: &mut Tx<'_>,
        found: RecordedTurn,
        attachments: Vec<Attachment>,
        reply_max_chars: Option<usize>,
    ) -> Result<(), RowsError> {
        let turn = self.turn;
        let answered = Answered {
            message_id: self.message.message_id.clone(),
            turn_id: found.turn_id,
            text: found.answer,
            received: found.received,
            attachments,
            usage: turn.as_ref().map_or_else(Usage::default, |turn| turn.usage),
            reply_max_chars,
        };
        answered.write(tx, self.message, turn, AnswerSource::Harvested, self.now)
    }

    /// It failed while nobody watched; the class of the failure decides as if we had seen it.
    fn failed(mut self, tx: &mut Tx<'_>, found: RecordedTurn) -> Result<(), RowsError> {
        self.anchor(tx, &found)?;
        let unwatched = || Failure::new(Class::Transient, "the turn failed while nobody watched");
        let touched = touched(self.turn.as_ref(), !found.effects.is_empty());
        let ended = EndedAttempt {
            message: self.message,
            touched: touched.then_some(self.on_cut),
            turn: self.turn,
            failure: found.failure.unwrap_or_else(unwatched),
            pace: self.pace,
        };
        ended.write(tx, self.now)
    }

    /// Its text was on Codex's disk, so in a sandbox that can write it may have touched the world.
    fn interrupted(mut self, tx: &mut Tx<'_>, found: RecordedTurn) -> Result<(), RowsError> {
        self.anchor(tx, &found)?;
        let touched = self.can_write();
        end_turn(tx, self.turn.clone(), self.now)?;
        self.hold(tx, "the turn was cut before it ended".to_owned(), touched)
    }

    /// Nothing of ours is in the history. Codex keeps the message before it calls the model, so the model was
    /// not called, unless the machine lost its memory since.
    fn absent(self, tx: &mut Tx<'_>, boot_id: &BootId, why: &str) -> Result<(), RowsError> {
        let turn = self.turn.as_ref();
        let rebooted = turn.is_none_or(|turn| turn.boot_id != *boot_id);
        let touched = touched(turn, false) || (rebooted && self.can_write());
        end_turn(tx, self.turn.clone(), self.now)?;
        self.hold(tx, why.to_owned(), touched)
    }

    fn unreadable(self, tx: &mut Tx<'_>, why: &str) -> Result<(), RowsError> {
        let message = self.message;
        let touched = self.can_write();
        if let Some(turn) = &self.turn {
            tx.change(Change::Bind {
                conversation_id: message.conversation_id.clone(),
                from: Some(turn.thread.clone()),
                to: None,
            })?;
        }
        end_turn(tx, self.turn.clone(), self.now)?;
        reply::notify(tx, message, &lost_notice(why), self.now)?;
        let reason =
            format!("Codex's record of the thread can't be read ({why}); a new thread is used");
        self.hold(tx, reason, touched)?;
        tx.deliver(&message.conversation_id);
        Ok(())
    }

    /// A turn that was found in the history is the one that reconcile looks behind from now on. A turn that was only
    /// announced may be gone after a kill, and a history without its anchor proves nothing.
    fn anchor(&mut self, tx: &mut Tx<'_>, found: &RecordedTurn) -> Result<(), RowsError> {
        let Some(turn) = &mut self.turn else {
            return Ok(());
        };
        turn.turn_id = Some(found.turn_id.clone());
        tx.change(Change::LastTurn {
            conversation_id: self.message.conversation_id.clone(),
            turn_id: found.turn_id.clone(),
            at: self.now,
        })
    }

    /// Why its turn was to end for good when it was lost: its time was used up, say.
    fn meant_to_end(&self) -> Option<String> {
        let failure = self.message.life.failure.as_ref();
        failure
            .filter(|failure| failure.class == Class::Permanent)
            .map(|failure| failure.reason.clone())
    }

    /// At once the first time: most losses are a restart. Later ones wait, or a message that kills Codex before
    /// it is kept would be tried without a pause.
    fn next_try(&self) -> Timestamp {
        match self.message.life.attempt {
            0 | 1 => self.now,
            attempt => self.pace.backoff(attempt.saturating_sub(2), self.now),
        }
    }

    fn hold(self, tx: &mut Tx<'_>, why: String, touched: bool) -> Result<(), RowsError> {
        let message = self.message;
        followers::release(tx, &message.message_id, self.can_write(), self.now)?;
        if let Some(end) = self.meant_to_end() {
            let mut life = message.life.clone();
            if touched {
                // Should a person send it again, it is asked to check first.
                life.input = NextInput::Continue;
            }
            return reply::close(tx, message, &life, end, self.now);
        }
        let retry = Retry {
            message,
            failure: Failure::new(Class::Transient, why),
            until: self.next_try(),
            cost: AttemptCost::Death,
            touched: touched.then_some(self.on_cut),
        };
        retry.write(tx, self.now)?;
        tx.act(Action::Schedule);
        Ok(())
    }
}

/// Journals why a lost turn can't be looked at yet. The message stays `unclear`, says what it waits for, and lets other
/// conversations have its place; after a long time a person must look instead.
#[derive(Clone, Debug)]
pub struct DeferReconcile {
    pub message_id: MessageId,
    /// What stands in the way.
    pub failure: Failure,
    /// When the next look is due.
    pub until: Timestamp,
}

impl Transition for DeferReconcile {
    type Outcome = ();
    const NAME: &'static str = "defer_reconcile";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), RunError> {
        let message = tx.expect(Self::NAME, &self.message_id, &[StateName::Unclear])?;
        tx.expect_home(Self::NAME, &message)?;
        let mut life = Life {
            failure: Some(self.failure.clone()),
            ..message.life.clone()
        };
        let why = &self.failure.reason;
        if now.since_ms(message.received_at) > limits::HELD_AGE_MAX_MS {
            let reason = format!("what became of its turn could not be seen for too long: {why}");
            let turn = tx.turn_of(&message)?;
            if turn.is_none_or(|turn| turn.sandbox.can_write()) {
                life.input = NextInput::Continue;
            }
            followers::release(tx, &self.message_id, true, now)?;
            return Ok(reply::close(tx, &message, &life, reason, now)?);
        }
        // Journaled once per reason; the age and the next look count every time.
        if message.life.state.hold().map(|hold| &hold.failure) != Some(&self.failure) {
            let line = format!("what became of the turn can't be seen yet: {why}");
            tx.event(&message, EventKind::Bridge, &line, now)?;
        }
        let hold = Hold {
            until: self.until,
            failure: self.failure,
        };
        life.state = MessageState::Unclear { hold: Some(hold) };
        tx.set_life(&message, life)?;
        tx.act(Action::Schedule);
        tx.announce(&self.message_id);
        Ok(())
    }
}
