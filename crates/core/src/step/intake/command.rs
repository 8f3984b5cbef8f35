//! A chat command is done and answered in the transaction that takes it in, so it never waits behind a turn, and a
//! row that is shown twice does it once.

use super::conversation;
use crate::limits::STOP_MAX;
use crate::port::{Read, RowsError};
use crate::step::approval::{RequestCase, json_text, past};
use crate::step::{Authority, Cancel, CancelOutcome, DecideOutcome, RunError, Tx, reply};
use crate::value::{
    Actor, Command, ConversationId, DecidedBy, Message, MessageState, RequestDecision,
    RequestVerdict, StateName, Timestamp,
};

/// How many approval requests back a late decision is recognized.
const RECALLED_MAX: u32 = 20;

/// What a chat command is about, as far as its conversation goes.
#[derive(Default)]
pub(super) struct Subject {
    /// The messages that have no answer yet.
    unanswered: Vec<Message>,
    /// The open approval requests, or those with the code that was named.
    requests: Vec<RequestCase>,
}

impl Subject {
    /// Whether a text that reads like a command is one. `answer within 5 minutes` is none: an answer has a request.
    pub(super) fn concerns(&self, command: &Command) -> bool {
        !matches!(command, Command::Answer { .. }) || !self.requests.is_empty()
    }

    pub(super) fn load(
        rows: &dyn Read,
        id: &ConversationId,
        command: &Command,
    ) -> Result<Self, RowsError> {
        let code = match command {
            Command::New | Command::Stop | Command::Status => "",
            Command::Decide { code, .. } | Command::Answer { code, .. } => code,
        };
        let mut subject = Self::default();
        for request in rows.requests_by_code(id, code)? {
            subject.requests.extend(RequestCase::load(rows, request)?);
        }
        if matches!(command, Command::New | Command::Stop | Command::Status) {
            subject.unanswered = rows.unanswered_of(id, STOP_MAX)?;
        }
        if matches!(command, Command::Decide { .. }) && subject.requests.is_empty() {
            subject.requests.extend(recall(rows, id, code)?);
        }
        Ok(subject)
    }
}

/// The newest approval request with this code: who comes late sees who was first.
fn recall(
    rows: &dyn Read,
    id: &ConversationId,
    code: &str,
) -> Result<Option<RequestCase>, RowsError> {
    for request in rows.newest_requests(false, None, RECALLED_MAX)? {
        if request.request_id.code() == code
            && let Some(case) = RequestCase::load(rows, request)?
            && case.message.conversation_id == *id
        {
            return Ok(Some(case));
        }
    }
    Ok(None)
}

/// Does what a command says. `message` is the command itself, just received; `key` is that of its conversation.
pub(super) fn run(
    tx: &mut Tx<'_>,
    message: &Message,
    key: &str,
    command: Command,
    subject: Subject,
    now: Timestamp,
) -> Result<(), RunError> {
    let words = match command {
        Command::New => {
            conversation::leave(tx, &message.conversation_id, key)?;
            "A new conversation begins with your next message.".to_owned()
        }
        Command::Stop => stop(tx, message, &subject, now)?,
        Command::Status => status(&subject, now),
        Command::Decide { code, accept } => {
            let decision = if accept {
                RequestDecision::Accept
            } else {
                RequestDecision::Decline
            };
            decide(tx, message, &code, decision, None, subject, now)?
        }
        Command::Answer { code, text } => {
            let (decision, answers) = (RequestDecision::Accept, Some(json_text(&text)));
            decide(tx, message, &code, decision, answers, subject, now)?
        }
    };
    tx.set_life(message, message.life.moved(MessageState::Answered, now))?;
    reply::notify(tx, message, &words, now)?;
    tx.deliver(&message.conversation_id);
    Ok(())
}

/// Decides an approval request by the code that was shown with it, in the conversation it was shown in.
fn decide(
    tx: &mut Tx<'_>,
    command: &Message,
    code: &str,
    decision: RequestDecision,
    answers: Option<String>,
    subject: Subject,
    now: Timestamp,
) -> Result<String, RunError> {
    let mut requests = subject.requests.into_iter();
    let case = match (requests.next(), requests.next()) {
        (Some(case), None) => case,
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
    let answered = answers.is_some();
    let verdict = RequestVerdict {
        decision,
        answers,
        by: DecidedBy::caller(&command.sender),
        via: "chat".to_owned(),
        at: now,
    };
    let authority = Authority::Sender {
        conversation_id: command.conversation_id.clone(),
        sender: command.sender.clone(),
        tier: command.tier,
    };
    let allowed = authority.check(decision, &case.request, &case.message, None);
    if allowed.is_ok() && case.request.state.waits() && !case.takes_here(&verdict) {
        return Ok(format!("That does not count. {}.", case.how()));
    }
    let later = match case.decide(tx, verdict, &authority, None, now)? {
        DecideOutcome::Refused(refusal) => return Ok(format!("That does not count: {refusal}.")),
        DecideOutcome::Granted => " Codex is told when it asks again.",
        DecideOutcome::Applied => "",
    };
    let done = if answered {
        "Your answer goes to Codex"
    } else {
        past(decision)
    };
    Ok(format!("{done}: {}.{later}", case.request.headline))
}

fn stop(
    tx: &mut Tx<'_>,
    command: &Message,
    subject: &Subject,
    now: Timestamp,
) -> Result<String, RunError> {
    let (mut ended, mut ending) = (0_u32, 0_u32);
    for message in &subject.unanswered {
        let cancel = Cancel {
            message_id: message.message_id.clone(),
            by: Actor::named(format!("{} in the chat", command.sender)),
        };
        match cancel.stop(tx, message, now)? {
            CancelOutcome::Cancelled => ended = ended.saturating_add(1),
            CancelOutcome::Stopping => ending = ending.saturating_add(1),
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

fn status(subject: &Subject, now: Timestamp) -> String {
    let (mut lines, mut waiting) = (Vec::new(), 0_u32);
    for message in &subject.unanswered {
        let minutes = now.since_ms(message.received_at).max(0) / 60_000;
        match message.life.state.name() {
            StateName::Received | StateName::Steered => waiting = waiting.saturating_add(1),
            StateName::Parked => lines.push(format!(
                "A message of {minutes} min ago waits for a decision ({}).",
                message.message_id
            )),
            state if state.in_flight() => lines.push(format!(
                "Codex works on a message of {minutes} min ago ({}, {}).",
                message.message_id,
                state.as_str()
            )),
            // They have their answer, or need none any more.
            _ => {}
        }
    }
    for case in &subject.requests {
        lines.push(format!(
            "For {}: Codex asks: {}. {}.",
            case.requester(),
            case.request.headline,
            case.how()
        ));
    }
    match (lines.is_empty(), waiting) {
        (true, 0) => return "Nothing runs and nothing waits here.".to_owned(),
        (_, 0) => {}
        (_, waiting) => lines.push(format!("{waiting} waiting.")),
    }
    lines.join("\n")
}
