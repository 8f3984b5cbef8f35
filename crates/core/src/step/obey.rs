//! A chat command is done and answered in the transaction that takes it in, so it never waits behind a turn, and a
//! row that is shown twice does it once.

use super::outbox::Outbox;
use super::seat::Seated;
use super::{Action, Cancel, CancelOutcome, Refused, Transition};
use crate::limits::STOP_MAX;
use crate::port::{Change, Read, RowsError};
use crate::value::{
    Command, ConversationId, Message, MessageState, ReplyKind, StateName, Timestamp,
};

/// The messages of a conversation that have no answer yet, with the number of replies each has.
#[derive(Debug, Default)]
pub(super) struct Pending(Vec<(Message, usize)>);

impl Pending {
    pub(super) fn load(rows: &dyn Read, id: &ConversationId) -> Result<Self, RowsError> {
        let waiting = rows.unanswered_of(id, STOP_MAX)?;
        let with_replies = waiting.into_iter().map(|message| {
            let replies = rows.replies(&message.message_id)?.len();
            Ok((message, replies))
        });
        with_replies.collect::<Result<_, _>>().map(Self)
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

fn stop(
    command: &Message,
    pending: Pending,
    now: Timestamp,
    changes: &mut Vec<Change>,
    actions: &mut Vec<Action>,
) -> Result<String, Refused> {
    let (mut ended, mut ending) = (0_u32, 0_u32);
    for (message, replies) in pending.0 {
        let cancel = Cancel {
            message_id: message.message_id.clone(),
            by: format!("{} in the chat", command.sender),
        };
        let decision = cancel.decide((Some(message), replies), now)?;
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
    for (message, _) in &pending.0 {
        let minutes = (now.0 - message.received_at.0).max(0) / 60_000;
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
                state.word()
            )),
            // They have their answer, or need none any more.
            StateName::Answered
            | StateName::Sending
            | StateName::Replied
            | StateName::Done
            | StateName::Dead
            | StateName::Cancelled => {}
        }
    }
    match (lines.is_empty(), waiting) {
        (true, 0) => return "Nothing runs and nothing waits here.".to_owned(),
        (_, 0) => {}
        (_, waiting) => lines.push(format!("{waiting} waiting.")),
    }
    lines.join("\n")
}
