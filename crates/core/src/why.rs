//! What people are told about a message: where it is, whom or what it waits for, and what happens next.
//!
//! Every state has a sentence; a state without an owner and a next step would be a bug.

use crate::limits;
use crate::port::{Read, RowsError};
use crate::value::{Class, Message, MessageId, MessageState, Reply, ReplyState, Timestamp, Turn};

/// Everything that `why` looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The message.
    pub message: Message,
    /// The turn of its newest attempt.
    pub turn: Option<Turn>,
    /// Its replies.
    pub replies: Vec<Reply>,
    /// An earlier message of its conversation that goes first.
    pub behind: Option<MessageId>,
}

impl Case {
    /// Reads the rows of one message.
    pub fn load(rows: &dyn Read, message_id: &MessageId) -> Result<Option<Self>, RowsError> {
        let Some(message) = rows.message(message_id)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            turn: rows.turn(message_id, message.life.attempt)?,
            replies: rows.replies(message_id)?,
            behind: rows.unanswered_before(&message.conversation_id, message.seq)?,
            message,
        }))
    }
}

/// The explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// Where it is and whom it waits for.
    pub now: String,
    /// What happens next, and who does it.
    pub next: String,
}

/// Explains where a message is. True for every state, or it is a bug.
#[must_use]
pub fn explain(case: &Case, now: Timestamp) -> Why {
    let message = &case.message;
    let attempt = message.life.attempt;
    let (says, next) = match &message.life.state {
        MessageState::Received { hold: None } => received(case),
        MessageState::Received { hold: Some(hold) } => (
            format!("it waits: {}", hold.failure.reason),
            format!("the scheduler tries it again {}", in_words(hold.until, now)),
        ),
        MessageState::Claimed => (
            format!(
                "attempt {attempt}: the bridge makes Codex and the conversation's thread ready"
            ),
            "its turn is written down, then given to Codex".to_owned(),
        ),
        MessageState::Starting => (
            format!("attempt {attempt}: its turn is written down and is being given to Codex"),
            "Codex names the turn; if that is not seen, the bridge looks what became of it"
                .to_owned(),
        ),
        MessageState::Running { turn_id } => (
            format!("attempt {attempt}: Codex works on it (turn {turn_id})"),
            "Codex's answer is journaled as soon as the turn ends".to_owned(),
        ),
        MessageState::Unclear { hold: None } => (
            format!(
                "the end of attempt {attempt} was not seen: {}",
                reason(message)
            ),
            "the bridge reads the thread's history and decides; nothing is run again blindly"
                .to_owned(),
        ),
        MessageState::Unclear { hold: Some(hold) } => (
            format!(
                "the end of attempt {attempt} was not seen, and can't be looked up yet: {}",
                hold.failure.reason
            ),
            format!(
                "the bridge looks again {}; other conversations go on meanwhile",
                in_words(hold.until, now)
            ),
        ),
        MessageState::Steered { leader } => (
            format!("its text was given to the running turn of message {leader}"),
            format!(
                "it is answered together with {leader}; if that turn did not hear it, it gets its own"
            ),
        ),
        MessageState::Parked { until, reason } => (
            format!("it waits for a person: {reason}"),
            format!(
                "`codex-bridge dead redrive {id}` goes on with it, `codex-bridge dead drop {id}` gives it up; it is given up {}",
                in_words(*until, now),
                id = message.message_id,
            ),
        ),
        MessageState::Answered => (
            "it is answered, and the answer is on disk".to_owned(),
            "the reply goes out when its place in the conversation's lane comes".to_owned(),
        ),
        MessageState::Sending => sending(&case.replies, now),
        MessageState::Replied => (
            "the reply was delivered".to_owned(),
            "the source is told that the message is finished".to_owned(),
        ),
        MessageState::Done => (
            "it was answered and the reply was delivered".to_owned(),
            "nothing".to_owned(),
        ),
        MessageState::Dead { reason } => (
            format!("it is a dead letter: {reason}"),
            format!(
                "a person decides: `codex-bridge dead redrive {id}` sends it again, `codex-bridge dead drop {id}` gives it up",
                id = message.message_id,
            ),
        ),
        MessageState::Cancelled { reason } => {
            (format!("it was cancelled: {reason}"), "nothing".to_owned())
        }
    };
    match &message.life.stop {
        Some(stopped) if message.life.state.name().in_flight() => Why {
            now: format!("{says}; {stopped}"),
            next: "it ends as cancelled when its turn has ended, unless its answer comes first"
                .to_owned(),
        },
        Some(_) | None => Why { now: says, next },
    }
}

fn received(case: &Case) -> (String, String) {
    match &case.behind {
        Some(first) => (
            format!("it waits behind message {first} of the same conversation"),
            "it is worked on when that one is answered".to_owned(),
        ),
        None => (
            "it is on disk and waits for a free turn".to_owned(),
            "the scheduler claims it: people first, senders in turn, oldest first".to_owned(),
        ),
    }
}

fn sending(replies: &[Reply], now: Timestamp) -> (String, String) {
    let open = replies.iter().find(|reply| !reply.state.settled());
    let sent = replies.iter().filter(|reply| reply.state.settled()).count();
    let says = format!(
        "it is answered; {sent} of {} replies are delivered",
        replies.len()
    );
    let next = match open.map(|reply| (&reply.state, reply.tries)) {
        Some((
            ReplyState::Queued {
                not_before: Some(at),
            },
            tries,
        )) => {
            format!(
                "the reply is sent again {} (after {tries} tries)",
                in_words(*at, now)
            )
        }
        Some(_) | None => "the platform's receipt for the reply is awaited".to_owned(),
    };
    (says, next)
}

fn reason(message: &Message) -> &str {
    message
        .life
        .failure
        .as_ref()
        .map_or("no reason was recorded", |failure| &failure.reason)
}

/// "in 12 s", or "now" for what is due.
#[must_use]
pub fn in_words(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.since_ms(now).max(0).saturating_add(999) / 1000;
    match seconds {
        0 => "now".to_owned(),
        1..120 => format!("in {seconds} s"),
        120..7200 => format!("in {} min", seconds / 60),
        _ => format!("in {} h", seconds / 3600),
    }
}

/// Whether people who wait for an answer should stop waiting: it is finished, or an operator must act first.
#[must_use]
pub fn worth_waiting(message: &Message, now: Timestamp) -> bool {
    match &message.life.state {
        MessageState::Received { hold: Some(hold) } => {
            hold.failure.class != Class::Config
                && hold.until.since_ms(now) <= limits::WAIT_WORTHWHILE_MS
        }
        MessageState::Unclear { hold } => hold
            .as_ref()
            .is_none_or(|hold| hold.failure.class != Class::Config),
        MessageState::Parked { .. } => false,
        state => !state.name().finished(),
    }
}

#[cfg(test)]
mod tests;
