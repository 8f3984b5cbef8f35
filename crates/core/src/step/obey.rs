//! A chat command is done and answered in the transaction that takes it in, so it never waits behind a turn, and a
//! row that is shown twice does it once.

use super::decide::{Authority, DecideOutcome};
use super::outbox::Outbox;
use super::question::{self, Question};
use super::seat::Seated;
use super::{Action, Cancel, CancelOutcome, CancelView, Refused, Transition};
use crate::limits::STOP_MAX;
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Actor, Command, ConversationId, DecidedBy, Message, MessageState, ReplyKind, RequestDecision,
    RequestVerdict, StateName, Timestamp,
};

/// How many questions back a late word is recognized.
const RECALLED_MAX: u32 = 20;

/// What a command of the chat is about, as far as its conversation goes.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The messages that have no answer yet, with the number of replies each has.
    unanswered: Vec<(Message, usize)>,
    /// The open questions, or those with the code that was named.
    asked: Vec<Question>,
}

impl Pending {
    /// Whether a text that reads like a command is one. `answer within 5 minutes` is none: an answer has a question.
    pub(super) fn concerns(&self, command: &Command) -> bool {
        match command {
            Command::Answer { .. } => !self.asked.is_empty(),
            Command::New | Command::Stop | Command::Status | Command::Decide { .. } => true,
        }
    }

    pub(super) fn load(
        rows: &dyn Read,
        id: &ConversationId,
        command: &Command,
    ) -> Result<Self, RowsError> {
        let mut pending = Self::default();
        match command {
            Command::New | Command::Stop | Command::Status => {
                pending.ask(rows, id, "")?;
                for message in rows.unanswered_of(id, STOP_MAX)? {
                    let replies = rows.replies(&message.message_id)?.len();
                    pending.unanswered.push((message, replies));
                }
            }
            Command::Decide { code, .. } => {
                pending.ask(rows, id, code)?;
                if pending.asked.is_empty() {
                    pending.recall(rows, id, code)?;
                }
            }
            Command::Answer { code, .. } => pending.ask(rows, id, code)?,
        }
        Ok(pending)
    }

    /// Who comes late hears who was first.
    fn recall(
        &mut self,
        rows: &dyn Read,
        id: &ConversationId,
        code: &str,
    ) -> Result<(), RowsError> {
        for request in rows.newest_requests(false, None, RECALLED_MAX)? {
            if request.request_id.code() == code && self.asked.is_empty() {
                let question = Question::load(rows, request)?;
                let here = |question: &Question| question.message.conversation_id == *id;
                self.asked.extend(question.filter(here));
            }
        }
        Ok(())
    }

    fn ask(&mut self, rows: &dyn Read, id: &ConversationId, code: &str) -> Result<(), RowsError> {
        for request in rows.requests_by_code(id, code)? {
            self.asked.extend(Question::load(rows, request)?);
        }
        Ok(())
    }
}

/// Does what a command says. `message` is the command itself, just received.
pub(super) fn obey(
    message: &Message,
    seated: &Seated,
    command: Command,
    pending: Pending,
    now: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Vec<Action>, Refused> {
    let mut actions = Vec::new();
    let words = match command {
        Command::New => {
            changes.push(seated.leave());
            "A new conversation begins with your next message.".to_owned()
        }
        Command::Stop => stop(message, pending, now, changes, &mut actions)?,
        Command::Status => status(&pending, now),
        Command::Decide { code, accept } => {
            let decision = if accept {
                RequestDecision::Accept
            } else {
                RequestDecision::Decline
            };
            let said = Said {
                decision,
                answers: None,
            };
            decide(message, &code, said, pending, now, changes, &mut actions)?
        }
        Command::Answer { code, text } => {
            let said = Said {
                decision: RequestDecision::Accept,
                answers: Some(question::json_text(&text)),
            };
            decide(message, &code, said, pending, now, changes, &mut actions)?
        }
    };
    changes.push(Change::Live {
        message_id: message.message_id.clone(),
        from: StateName::Received,
        life: message.life.moved(MessageState::Answered, now),
    });
    changes.extend(Outbox::of(message, 0, None).queue(ReplyKind::Notice, &words, now));
    actions.push(Action::Deliver {
        conversation_id: message.conversation_id.clone(),
    });
    Ok(actions)
}

/// What a person said to a question.
struct Said {
    decision: RequestDecision,
    answers: Option<String>,
}

/// A word to a question of Codex: by the code that was shown with it, in the conversation it was shown in.
fn decide(
    command: &Message,
    code: &str,
    said: Said,
    pending: Pending,
    now: Timestamp,
    changes: &mut Vec<Change>,
    actions: &mut Vec<Action>,
) -> Result<String, Refused> {
    let mut asked = pending.asked.into_iter();
    let question = match (asked.next(), asked.next()) {
        (Some(question), None) => question,
        (None, _) => {
            return Ok(format!(
                "There is no open question with the code {code} here."
            ));
        }
        (Some(_), Some(_)) => {
            return Ok(format!(
                "Two open questions have the code {code}: decide them on the command line."
            ));
        }
    };
    let verdict = RequestVerdict {
        decision: said.decision,
        answers: said.answers,
        by: DecidedBy::caller(&command.sender),
        via: "chat".to_owned(),
        at: now,
    };
    let authority = Authority::Sender {
        conversation_id: command.conversation_id.clone(),
        sender: command.sender.clone(),
        tier: command.tier,
    };
    let headline = question.request.headline.clone();
    let answered = verdict.answers.is_some();
    let may = question.may(&authority).is_ok() && question.request.state.waits();
    if may && !question.takes_here(&verdict) {
        return Ok(format!("That does not count. {}.", question.how()));
    }
    Ok(match question.rule(verdict, &authority, now, changes)? {
        Ok(ruled) => {
            actions.extend(ruled.actions);
            let later = match ruled.outcome {
                DecideOutcome::Granted => " Codex is told when it asks again.",
                DecideOutcome::Applied | DecideOutcome::Refused(_) => "",
            };
            let done = if answered {
                "Your answer goes to Codex"
            } else {
                question::past(said.decision)
            };
            format!("{done}: {headline}.{later}")
        }
        Err(refusal) => format!("That does not count: {refusal}."),
    })
}

fn stop(
    command: &Message,
    pending: Pending,
    now: Timestamp,
    changes: &mut Vec<Change>,
    actions: &mut Vec<Action>,
) -> Result<String, Refused> {
    let (mut ended, mut ending) = (0_u32, 0_u32);
    for (message, replies) in pending.unanswered {
        let cancel = Cancel {
            message_id: message.message_id.clone(),
            by: Actor::named(format!("{} in the chat", command.sender)),
        };
        let decision = cancel.decide(CancelView::of(message, replies), now)?;
        changes.extend(decision.changes);
        actions.extend(decision.actions);
        match decision.outcome {
            CancelOutcome::Cancelled => ended += 1,
            CancelOutcome::Stopping => ending += 1,
            CancelOutcome::Steered(_) | CancelOutcome::TooLate => {}
        }
    }
    Ok(match (ending, ended) {
        (0, 0) => "There is nothing to stop here.".to_owned(),
        (0, ended) => format!("Stopped: {ended} that waited."),
        (_, 0) => "Codex is being stopped.".to_owned(),
        (_, ended) => format!("Codex is being stopped, and {ended} that waited."),
    })
}

fn status(pending: &Pending, now: Timestamp) -> String {
    let (mut lines, mut waiting) = (Vec::new(), 0_u32);
    for (message, _) in &pending.unanswered {
        let minutes = now.since_ms(message.received_at).max(0) / 60_000;
        match message.life.state.name() {
            StateName::Received | StateName::Steered => waiting += 1,
            StateName::Parked => lines.push(format!(
                "A message of {minutes} min ago waits for a decision ({}).",
                message.message_id
            )),
            state @ (StateName::Claimed
            | StateName::Starting
            | StateName::Running
            | StateName::Unclear) => lines.push(format!(
                "Codex works on a message of {minutes} min ago ({}, {}).",
                message.message_id,
                state.as_str()
            )),
            // They have their answer, or need none any more.
            StateName::Answered
            | StateName::Sending
            | StateName::Done
            | StateName::Dead
            | StateName::Cancelled => {}
        }
    }
    for question in &pending.asked {
        let headline = &question.request.headline;
        let whose = question.requester();
        lines.push(format!(
            "For {whose}: Codex asks: {headline}. {}.",
            question.how()
        ));
    }
    match (lines.is_empty(), waiting) {
        (true, 0) => return "Nothing runs and nothing waits here.".to_owned(),
        (_, 0) => {}
        (_, waiting) => lines.push(format!("{waiting} waiting.")),
    }
    lines.join("\n")
}
