//! What people are shown about a message: where it is, whom or what it waits for, and what happens next.
//!
//! Every state has a sentence; a state without an owner and a next step would be a bug.

mod position;
mod rows;

pub use rows::WhyRows;

use crate::find::short_id;
use crate::limits;
use crate::port::Kept;
use crate::quota::QuotaWait;
use crate::requester::requester;
use crate::value::{
    Class, Deciders, Hold, Loan, Message, MessageState, Reply, ReplyState, Request, RequestState,
    StateName, Timestamp,
};

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
pub fn explain(case: &WhyRows, now: Timestamp) -> Why {
    let message = &case.message;
    let (mut says, mut next) = place(case, now);
    if let Some(asked) = case.asked.first() {
        let more = case.asked.len().saturating_sub(1);
        (says, next) = asks(&says, &next, message, asked, more, now);
    }
    if let Some(stopped) = &message.life.stop {
        let state = message.life.state.name();
        if state.in_flight() {
            says = format!("{says}; {stopped}");
            next = "it ends as stopped when its turn has ended, unless its answer comes first"
                .to_owned();
        } else if state == StateName::Steered {
            says = format!("{says}; {stopped}");
            next = "it ends as stopped when that turn has ended".to_owned();
        }
    }
    if !case.followers.is_empty() {
        let followers: Vec<_> = case.followers.iter().map(short_id).collect();
        says = format!(
            "{says}; its turn was also given the text of {}",
            followers.join(", ")
        );
    }
    if let Some(push) = case.given_up.first() {
        let why = push.error.as_deref().unwrap_or("nobody knows why");
        says = format!(
            "{says}; its owner is told nothing more through push configuration {:?}: {why}",
            push.subscription_id
        );
    }
    Why { now: says, next }
}

/// Codex asks something: until when, and how it is decided.
fn asks(
    says: &str,
    next: &str,
    message: &Message,
    asked: &Request,
    more: usize,
    now: Timestamp,
) -> (String, String) {
    let headline = &asked.headline;
    let code = asked.request_id.code();
    let whose = requester(message);
    let more = match more {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let who = match asked.deciders {
        Deciders::Owner => "the owner of this bridge",
        Deciders::Sender => "whoever sent it, or the owner of this bridge,",
    };
    let accept = asked.accept_command();
    let decide = format!(
        "{who} decides: `{accept}` or `codex-bridge decline {code}`; without a word it is declined {}",
        in_words(asked.deadline, now)
    );
    match asked.state {
        RequestState::Orphaned => (
            format!("{says}; Codex died while it asked, for {whose}: {headline}{more}"),
            format!("{next}; {decide}; the decision counts when Codex asks the same again"),
        ),
        RequestState::Open
        | RequestState::Decided(_)
        | RequestState::Granted(_)
        | RequestState::Withdrawn { .. } => (
            format!("{says}, and waits for a decision, for {whose}: {headline}{more}"),
            decide,
        ),
    }
}

/// It waits for its turn: for a time, behind another one, or for room.
fn received(case: &WhyRows, now: Timestamp) -> (String, String) {
    let hold = case.message.life.state.hold();
    let begun = |first: &Message| first.life.state.name() != StateName::Received;
    if let Some(loan) = &case.loan
        && !case.behind.as_deref().is_some_and(begun)
    {
        return lent(loan, now);
    }
    let (says, next) = match (&case.behind, hold) {
        (Some(first), _) => return behind(first),
        (None, Some(hold)) if hold.until > now || case.kept.is_none() => (
            format!("it waits: {}", hold.failure.reason),
            format!("the scheduler tries it again {}", in_words(hold.until, now)),
        ),
        (None, _) => match case.slowed {
            Some(wait) if case.kept == Some(Kept::Quota) => slowed(&wait, now),
            Some(_) | None => room(case.kept),
        },
    };
    (says, format!("{next}{}", position::of(case, now)))
}

/// Agents are slowed down before the account's limit is reached.
fn slowed(wait: &QuotaWait, now: Timestamp) -> (String, String) {
    let when = match wait.until > now {
        true => format!("the next of them begins {}", in_words(wait.until, now)),
        false => "the next of them begins when the one at work has ended".to_owned(),
    };
    (format!("it waits: {}", wait.words()), when)
}

/// Somebody has its conversation at a terminal.
fn lent(loan: &Loan, now: Timestamp) -> (String, String) {
    let who = &loan.borrower;
    if !loan.is_over(now) {
        return (
            format!("it waits: its conversation is lent to {who}, in a Codex terminal"),
            format!(
                "it is worked on when that terminal has ended, or a little after the loan ends {}; `codex-bridge return` ends it now",
                in_words(loan.until, now)
            ),
        );
    }
    let says =
        "it waits: its conversation was lent to a Codex terminal, and the bridge takes it back";
    match &loan.error {
        None => (
            says.to_owned(),
            "what was said there is read, then it is worked on".to_owned(),
        ),
        Some(error) => (
            format!("{says}: {error}"),
            "the bridge tries it again every few seconds; then it is worked on".to_owned(),
        ),
    }
}

/// Whoever waits behind a message waits for what that one waits for.
fn behind(first: &Message) -> (String, String) {
    let short = short_id(&first.message_id);
    let says = format!("it waits behind message {short} of the same conversation");
    match &first.life.state {
        MessageState::Parked { reason, .. } => (
            format!("{says}, which waits for a person: {reason}"),
            format!(
                "`codex-bridge retry {short}` goes on with that one, `codex-bridge discard {short}` gives it up; then this one is worked on"
            ),
        ),
        state => (
            match state.hold() {
                Some(hold) => format!("{says}, which waits: {}", hold.failure.reason),
                None => says,
            },
            "it is worked on when that one is answered".to_owned(),
        ),
    }
}

fn room(kept: Option<Kept>) -> (String, String) {
    let (says, next) = match kept {
        None => (
            "it is on disk and waits for a free turn",
            "the scheduler claims it: people first, senders in turn, oldest first",
        ),
        Some(Kept::Slots) => (
            "it waits: as many turns run as may at the same time (`daemon.turns_max`)",
            "the scheduler claims it when a turn has ended: people first, senders in turn, oldest first",
        ),
        Some(Kept::Reserved) => (
            "it waits: the places that are left are kept for the owner (`daemon.turns_reserved`)",
            "the scheduler claims it when a turn of somebody who is not a person has ended: senders in turn, oldest first",
        ),
        Some(Kept::Sender) => (
            "it waits: its sender has as many turns as one sender may at the same time (`daemon.turns_per_sender`)",
            "the scheduler claims it when a turn of that sender has ended",
        ),
        Some(Kept::Channel) => (
            "it waits: its channel has as many turns as it may at the same time (`daemon.turns_per_channel`)",
            "the scheduler claims it when a turn of that channel has ended",
        ),
        Some(Kept::Suspect) => (
            "it waits: Codex died while it worked on it, and another message like that is being tried",
            "the scheduler claims it when that one has ended: they are tried one at a time, so that the cause is found",
        ),
        Some(Kept::NodeGone) => (
            "it waits: the node that worked on its conversation is gone, and the files that were written there with it (`fleet.on_node_lost`)",
            "it goes on when that node is back; `codex-bridge move` gives it to another one, without the files",
        ),
        Some(Kept::Lent) => (
            "it waits: its conversation is lent to a Codex terminal",
            "it is worked on when that terminal has ended; `codex-bridge return` ends the loan",
        ),
        Some(Kept::Quota) => (
            "it waits: most of the account's limit is used, so agents and programs take turns one at a time (`quota.slow_percent`)",
            "the scheduler claims it when its turn comes; `codex-bridge status` shows the limit",
        ),
        Some(Kept::Writer) => (
            "it waits: another turn writes in its directory, where they take turns (`one_writer`)",
            "the scheduler claims it when that turn has ended",
        ),
    };
    (says.to_owned(), next.to_owned())
}

/// Where it is, and what happens next by itself.
fn place(case: &WhyRows, now: Timestamp) -> (String, String) {
    let message = &case.message;
    let (attempt, short) = (message.life.attempt, short_id(&message.message_id));
    match &message.life.state {
        MessageState::Received { .. } => received(case, now),
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
            "Codex's answer is stored as soon as the turn ends".to_owned(),
        ),
        MessageState::Unclear { hold } => unclear(message, hold.as_ref(), now),
        MessageState::Steered { leader } => steered(message, short_id(leader)),
        MessageState::Parked { until, reason } => (
            format!("it waits for a person: {reason}"),
            format!(
                "`codex-bridge retry {short}` goes on with it, `codex-bridge discard {short}` gives it up; it is given up {}",
                in_words(*until, now),
            ),
        ),
        MessageState::Answered => answered(case, now),
        MessageState::Sending => sending(case, now),
        MessageState::Done => (
            "it was answered and the reply was delivered".to_owned(),
            "nothing".to_owned(),
        ),
        MessageState::Dead { reason } => (
            format!("it failed: {reason}"),
            format!(
                "a person decides: `codex-bridge retry {short}` sends it again, `codex-bridge discard {short}` gives it up",
            ),
        ),
        MessageState::Cancelled { reason } if message.failed_elsewhere() => {
            (format!("it failed: {reason}"), "nothing".to_owned())
        }
        MessageState::Cancelled { reason } => {
            let says = match reason.strip_prefix("stopped ") {
                Some(by) => format!("it was stopped {by}"),
                None => format!("it was stopped: {reason}"),
            };
            (says, "nothing".to_owned())
        }
    }
}

fn steered(message: &Message, leader: &str) -> (String, String) {
    let given = format!("its text was given to the running turn of message {leader}");
    let says = match &message.life.failure {
        Some(unknown) if unknown.class == Class::Ambiguous => format!(
            "{given}, which may not have received it: {}; later messages wait behind it",
            unknown.reason
        ),
        _ => given,
    };
    let next = format!(
        "it is answered together with {leader}; if that turn did not receive it, it gets its own"
    );
    (says, next)
}

fn unclear(message: &Message, hold: Option<&Hold>, now: Timestamp) -> (String, String) {
    let attempt = message.life.attempt;
    match hold {
        None => (
            format!(
                "the end of attempt {attempt} was not seen: {}",
                reason(message)
            ),
            "the bridge reads the thread's history and decides; nothing is run again blindly"
                .to_owned(),
        ),
        Some(hold) => (
            format!(
                "the end of attempt {attempt} was not seen, and can't be looked up yet: {}",
                hold.failure.reason
            ),
            format!(
                "the bridge looks again {}; other conversations go on meanwhile",
                in_words(hold.until, now)
            ),
        ),
    }
}

fn answered(case: &WhyRows, now: Timestamp) -> (String, String) {
    match &case.lane {
        Some(first) => blocked("it is answered, and the answer is on disk", first, now),
        None => (
            "it is answered, and the answer is on disk".to_owned(),
            "the reply goes out when its place in the conversation's lane comes".to_owned(),
        ),
    }
}

fn sending(case: &WhyRows, now: Timestamp) -> (String, String) {
    let replies = &case.replies;
    let sent = replies.iter().filter(|reply| reply.state.settled()).count();
    let says = format!(
        "it is answered; {sent} of {} replies are delivered",
        replies.len()
    );
    if let Some(first) = &case.lane {
        return blocked(&says, first, now);
    }
    let open = replies.iter().find(|reply| !reply.state.settled());
    let next = match open {
        Some(reply) => format!("the {}", sent_again(reply, now)),
        None => "the platform's receipt for the reply is awaited".to_owned(),
    };
    (says, next)
}

/// Replies of a conversation go out in order.
fn blocked(says: &str, first: &Reply, now: Timestamp) -> (String, String) {
    let id = short_id(&first.message_id);
    (
        format!("{says}; its reply waits for the one to message {id} of the same conversation"),
        format!(
            "for message {id} the {}; then this one goes out",
            sent_again(first, now)
        ),
    )
}

fn sent_again(reply: &Reply, now: Timestamp) -> String {
    match reply.state {
        ReplyState::Queued {
            not_before: Some(at),
        } => {
            format!(
                "reply is sent again {} (after {} tries)",
                in_words(at, now),
                reply.tries
            )
        }
        ReplyState::Queued { not_before: None }
        | ReplyState::Sending
        | ReplyState::Sent { .. }
        | ReplyState::Dead { .. } => "platform's receipt for the reply is awaited".to_owned(),
    }
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
