//! What `status` counts in memory, row by row.

use super::MemoryRows;
use bridge_core::port::Figures;
use bridge_core::value::{Class, Message, MessageState, Reply, ReplyState, StateName, Timestamp};

pub(super) fn of(rows: &MemoryRows, since: Timestamp) -> Figures {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let unanswered = || {
        rows.open_messages()
            .filter(|message| message.life.state.name().awaits_answer())
    };
    let answered = rows.messages.iter().filter(|(_, message)| {
        message.life.state.name() == StateName::Done && message.life.updated_at >= since
    });
    let retried = rows.replies.iter().filter(|(_, reply)| is_retried(reply));
    let waiting = rows
        .requests
        .iter()
        .filter(|(_, request)| request.state.waits());
    Figures {
        answered: count(answered.count()),
        oldest_unanswered: unanswered().map(|message| message.received_at).min(),
        suspects: count(unanswered().filter(|message| message.life.suspect).count()),
        operator: count(
            unanswered()
                .filter(|message| needs_operator(message))
                .count(),
        ),
        replies_retried: count(retried.count()),
        requests_waiting: count(waiting.count()),
    }
}

fn needs_operator(message: &Message) -> bool {
    match &message.life.state {
        MessageState::Received { hold: Some(hold) } => hold.failure.class == Class::Config,
        _ => false,
    }
}

/// A first send that is under way is no retry.
fn is_retried(reply: &Reply) -> bool {
    match reply.state {
        ReplyState::Queued { .. } => reply.tries > 0,
        ReplyState::Sending => reply.tries > 1,
        ReplyState::Sent { .. } | ReplyState::Dead { .. } => false,
    }
}
