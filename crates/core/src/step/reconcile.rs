//! Reconcile: the only exit from `unclear` (T8). The agent's history has been read while holding its writer;
//! this decides what it means. Reading twice gives the same answer, and nothing is guessed.

use super::answer::{Rows, Said, journal};
use super::fail::{Ended, Pace, touched};
use super::followers::{self, Follower};
use super::outbox::Outbox;
use super::touched::{Again, Budget, View, anchor, ended};
use super::{Action, Decision, Refused, Staged, expect};
use crate::port::{Change, Read, RecordedTurn, RowsError, TurnHistory, TurnStatus};
use crate::value::{
    AnswerSource, Attachment, BootId, Class, CutPolicy, Failure, Message, MessageId, MessageState,
    NextInput, ReplyKind, StateName, Timestamp, Turn, TurnState, Usage,
};

/// Journals what became of a turn that was lost from sight.
#[derive(Clone, Debug)]
pub struct Reconcile {
    /// Of which message.
    pub message_id: MessageId,
    /// What the history says.
    pub found: TurnHistory,
    /// The machine's boot now: after a reboot "not found" proves nothing.
    pub boot_id: BootId,
    /// Files that it is to send, if it has its answer.
    pub attachments: Vec<Attachment>,
    /// Longest reply the channel takes.
    pub reply_max_chars: Option<usize>,
    /// What happens if it was cut after it may have changed something.
    pub on_cut: CutPolicy,
    /// How soon it is tried again.
    pub pace: Pace,
}

impl Staged for Reconcile {
    type View = View;
    /// Whether the turn still runs and must be followed.
    type Outcome = bool;
    const NAME: &'static str = "reconcile";

    fn load(&self, rows: &dyn Read) -> Result<View, RowsError> {
        View::load(rows, &self.message_id)
    }

    fn decide(self, view: View, now: Timestamp) -> Result<Decision<bool>, Refused> {
        let View {
            message,
            turn,
            replies,
            last_event,
            followers,
        } = view;
        let message = expect(
            Self::NAME,
            &self.message_id,
            message.as_ref(),
            &[StateName::Unclear],
        )?;
        let case = Case {
            message,
            turn,
            replies: replies.len(),
            last_event,
            followers,
            attachments: self.attachments,
            on_cut: self.on_cut,
            pace: self.pace,
            now,
        };
        match self.found {
            TurnHistory::Turn(finding) => Ok(case.found(finding, self.reply_max_chars)),
            TurnHistory::Absent => Ok(case.absent(
                &self.boot_id,
                "the turn was lost before Codex had kept anything of it",
            )),
            TurnHistory::Foreign => Ok(case.absent(
                &self.boot_id,
                "the turn was lost, and somebody else used its thread meanwhile",
            )),
            TurnHistory::Unreadable { why } => Ok(case.unreadable(&why)),
        }
    }
}

struct Case<'a> {
    message: &'a Message,
    turn: Option<Turn>,
    replies: usize,
    last_event: u32,
    followers: Vec<Follower>,
    attachments: Vec<Attachment>,
    on_cut: CutPolicy,
    pace: Pace,
    now: Timestamp,
}

impl Case<'_> {
    fn can_write(&self) -> bool {
        self.turn
            .as_ref()
            .is_none_or(|turn| turn.sandbox.can_write())
    }

    fn found(mut self, finding: RecordedTurn, reply_max_chars: Option<usize>) -> Decision<bool> {
        if let Some(turn) = &mut self.turn {
            turn.turn_id = Some(finding.turn_id.clone());
        }
        match finding.status {
            TurnStatus::InProgress => self.reattach(finding),
            TurnStatus::Completed => self.harvest(finding, reply_max_chars),
            TurnStatus::Interrupted | TurnStatus::Failed if finding.answer.is_some() => {
                self.harvest(finding, reply_max_chars)
            }
            TurnStatus::Failed => self.failed(finding),
            TurnStatus::Interrupted => {
                let touched = self.can_write();
                let anchor = anchor(self.message, self.turn.as_ref());
                let why = "the turn was cut before it ended".to_owned();
                self.again(why, touched, anchor)
            }
        }
    }

    /// It failed while nobody watched; the class of the failure decides as if we had seen it.
    fn failed(mut self, finding: RecordedTurn) -> Decision<bool> {
        let failure = finding.failure.unwrap_or_else(|| {
            Failure::new(Class::Transient, "the turn failed while nobody watched")
        });
        let mut changes = Vec::new();
        let turn = self.turn.take();
        changes.extend(anchor(self.message, turn.as_ref()));
        let touched = touched(turn.as_ref(), !finding.effects.is_empty());
        let ended = Ended {
            message: self.message,
            touched: touched.then_some(self.on_cut),
            turn,
            replies: self.replies,
            last_event: self.last_event,
            followers: std::mem::take(&mut self.followers),
            failure,
            pace: self.pace,
        };
        let actions = ended.write(self.now, &mut changes);
        Decision {
            changes,
            actions,
            outcome: false,
        }
    }

    /// Nothing of ours is in the history. Codex keeps the message before it calls the model, so the model was
    /// not called, unless the machine lost its memory since.
    fn absent(self, boot_id: &BootId, why: &str) -> Decision<bool> {
        let rebooted = self
            .turn
            .as_ref()
            .is_none_or(|turn| turn.boot_id != *boot_id);
        let touched = touched(self.turn.as_ref(), false) || (rebooted && self.can_write());
        self.again(why.to_owned(), touched, None)
    }

    fn unreadable(mut self, why: &str) -> Decision<bool> {
        let touched = self.can_write();
        let thread = self.turn.as_ref().map(|turn| turn.thread.clone());
        let conversation_id = self.message.conversation_id.clone();
        let mut changes = Vec::new();
        if let Some(thread) = thread {
            changes.push(Change::Bind {
                conversation_id,
                from: Some(thread),
                to: None,
            });
        }
        changes.extend(ended(self.turn.clone(), self.now));
        let reason =
            format!("Codex's record of the thread can't be read ({why}); a new thread is used");
        let told = Outbox::of(self.message, self.replies, None).queue(
            ReplyKind::Notice,
            &super::bind::lost_notice(why),
            self.now,
        );
        self.replies += told.len();
        changes.extend(told);
        let lane = Action::Deliver {
            conversation_id: self.message.conversation_id.clone(),
        };
        let mut actions = self.hold(reason, touched, &mut changes);
        actions.push(lane);
        Decision {
            changes,
            actions,
            outcome: false,
        }
    }

    fn reattach(self, finding: RecordedTurn) -> Decision<bool> {
        let message_id = self.message.message_id.clone();
        let state = MessageState::Running {
            turn_id: finding.turn_id.clone(),
        };
        let mut changes = vec![Change::Live {
            message_id: message_id.clone(),
            from: StateName::Unclear,
            life: self.message.life.moved(state, self.now),
        }];
        let mut actions = Vec::new();
        if self.message.life.stop.is_some() {
            actions.push(Action::Interrupt {
                message_id: message_id.clone(),
            });
        }
        actions.push(Action::Announce { message_id });
        if let Some(turn) = self.turn {
            let touched = turn.touched || !finding.effects.is_empty();
            changes.push(Change::Turn(Turn {
                turn_id: Some(finding.turn_id),
                state: TurnState::Attached,
                touched,
                ..turn
            }));
        }
        Decision {
            changes,
            actions,
            outcome: true,
        }
    }

    fn harvest(self, finding: RecordedTurn, reply_max_chars: Option<usize>) -> Decision<bool> {
        let said = Said {
            attachments: self.attachments,
            turn_id: finding.turn_id,
            text: finding.answer,
            heard: finding.received,
            source: AnswerSource::Harvested,
            usage: self
                .turn
                .as_ref()
                .map_or_else(Usage::default, |turn| turn.usage),
            reply_max_chars,
        };
        let rows = Rows {
            message: self.message,
            turn: self.turn,
            replies: self.replies,
            followers: self.followers,
        };
        let decision = journal(rows, said, self.now);
        Decision {
            changes: decision.changes,
            actions: decision.actions,
            outcome: false,
        }
    }

    fn again(self, why: String, touched: bool, anchor: Option<Change>) -> Decision<bool> {
        let mut changes = Vec::new();
        changes.extend(anchor);
        changes.extend(ended(self.turn.clone(), self.now));
        let actions = self.hold(why, touched, &mut changes);
        Decision {
            changes,
            actions,
            outcome: false,
        }
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
            attempt => self.pace.backoff(attempt - 2, self.now),
        }
    }

    fn hold(mut self, why: String, touched: bool, changes: &mut Vec<Change>) -> Vec<Action> {
        let let_go = std::mem::take(&mut self.followers);
        let mut actions = followers::release(let_go, self.can_write(), self.now, changes);
        if let Some(end) = self.meant_to_end() {
            let mut life = self.message.life.clone();
            if touched {
                // Should a person send it again, it is told to check first.
                life.input = NextInput::Continue;
            }
            let outbox = Outbox::of(self.message, self.replies, None);
            actions.extend(outbox.close(&life, end, self.now, changes));
            return actions;
        }
        let again = Again {
            message: self.message,
            replies: self.replies,
            last_event: self.last_event,
            failure: Failure::new(Class::Transient, why),
            until: self.next_try(),
            budget: Budget::Death,
            touched: touched.then_some(self.on_cut),
        };
        actions.extend(again.write(self.now, changes));
        actions.push(Action::Schedule);
        actions
    }
}

#[cfg(test)]
mod tests;
