//! The rows that an explanation rests on. Loading only; the words are in [`super`].

use crate::limits;
use crate::port::{Kept, QueuePosition, Read, RowsError};
use crate::quota::QuotaWait;
use crate::step::Claim;
use crate::value::{
    Loan, Message, MessageId, MessageState, NodeId, Reply, Request, StateName, Subscription,
    SubscriptionState, Turn,
};

/// Everything that `why` looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyRows {
    pub message: Message,
    /// The turn of its newest attempt.
    pub turn: Option<Turn>,
    /// Its replies.
    pub replies: Vec<Reply>,
    /// An earlier message of its conversation that goes first.
    pub behind: Option<Box<Message>>,
    /// Messages whose texts were given to its turn.
    pub followers: Vec<MessageId>,
    /// The reply of an earlier message that its own replies wait for.
    pub lane: Option<Box<Reply>>,
    /// What keeps the scheduler from claiming it, beside its own hold.
    pub kept: Option<Kept>,
    /// How agents are slowed down, if that is what keeps it.
    pub slowed: Option<QuotaWait>,
    /// Its place in the order of service while it waits as the first of its conversation.
    pub position: Option<QueuePosition>,
    /// Messages that were answered within [`limits::PACE_WINDOW_MS`]; counted only with a position.
    pub answered_lately: u64,
    /// What Codex asked for it and nobody has decided.
    pub asked: Vec<Request>,
    /// Subscriptions of its task that were given up.
    pub given_up: Vec<Subscription>,
    /// The loan of its conversation, where it waits for that.
    pub loan: Option<Loan>,
}

impl WhyRows {
    /// Reads the rows of one message. `claim` is the scheduler's question as it would be asked now, so that the
    /// reason people are shown is the one that holds.
    pub fn load(
        rows: &dyn Read,
        message_id: &MessageId,
        claim: &Claim,
    ) -> Result<Option<Self>, RowsError> {
        let Some(message) = rows.message(message_id)? else {
            return Ok(None);
        };
        let behind = if message.life.state.name().awaits_answer() {
            rows.unanswered_before(&message.conversation_id, message.seq)?
        } else {
            None
        };
        let behind = match behind {
            Some(first) => rows.message(&first)?.map(Box::new),
            None => None,
        };
        let replies = rows.replies(message_id)?;
        let loan = match message.life.state {
            MessageState::Received { .. } => rows.loan(&message.conversation_id)?,
            _ => None,
        };
        let (kept, slowed) = match (&behind, &loan) {
            (None, Some(_)) => (Some(Kept::Lent), None),
            (None, None) => kept(rows, &message, claim)?,
            (Some(_), _) => (None, None),
        };
        let received = message.life.state.name() == StateName::Received;
        let waits = received && behind.is_none() && loan.is_none();
        let (position, answered_lately) = if waits {
            let since = claim.now.plus_ms(-limits::PACE_WINDOW_MS);
            let position = rows.queue_position(&message)?;
            (Some(position), rows.figures(since)?.answered)
        } else {
            (None, 0)
        };
        let followers = if message.life.state.name().in_flight() {
            rows.followers(message_id)?
        } else {
            Vec::new()
        };
        let mut asked = if message.life.state.name().awaits_answer() {
            rows.live_requests(message_id)?
        } else {
            Vec::new()
        };
        asked.retain(|request| request.state.waits());
        let mut given_up = match rows.task_of_message(message_id)? {
            Some(task_id) => rows.subscriptions_of(&task_id)?,
            None => Vec::new(),
        };
        given_up
            .retain(|it| it.push().is_some() && matches!(it.state, SubscriptionState::Dead { .. }));
        Ok(Some(Self {
            asked,
            given_up,
            loan,
            turn: rows.turn(message_id, message.life.attempt)?,
            followers: followers.into_iter().map(|m| m.message_id).collect(),
            lane: lane(rows, &message, &replies)?,
            behind,
            kept,
            slowed,
            position,
            answered_lately,
            replies,
            message,
        }))
    }
}

type KeptBy = (Option<Kept>, Option<QuotaWait>);

fn kept(rows: &dyn Read, message: &Message, claim: &Claim) -> Result<KeptBy, RowsError> {
    let due = match &message.life.state {
        MessageState::Received { hold } => hold.as_ref().is_none_or(|hold| hold.until <= claim.now),
        _ => false,
    };
    let conversation = if due {
        rows.conversation(&message.conversation_id)?
    } else {
        None
    };
    match conversation {
        Some(conversation) => {
            let task = rows.started_task(&conversation.conversation_id)?;
            let terms = task.as_ref().and_then(|task| task.terms());
            let home = terms.and_then(|terms| terms.codex_home.as_deref());
            let given = terms.map(|terms| terms.sandbox);
            let node = match whose(rows, message, claim)? {
                Whose::Node(node) => node,
                Whose::Nobodys => return Ok((Some(Kept::NodeGone), None)),
            };
            let flight = rows.flight(&claim.one_writer)?;
            let gates = claim.gates(&rows.quotas()?, node.as_ref());
            let its = (message, &conversation);
            let kept = claim.keeps(&flight, node.as_ref(), &gates, its, given, home);
            let slowed = kept.and_then(|_| gates.home(home).slowed);
            Ok((kept, slowed))
        }
        None => Ok((None, None)),
    }
}

/// Whose scheduler claims a message.
enum Whose {
    /// That of this node; absent where there is one daemon.
    Node(Option<NodeId>),
    /// Its node is gone, and it waits for that one.
    Nobodys,
}

fn whose(rows: &dyn Read, message: &Message, claim: &Claim) -> Result<Whose, RowsError> {
    let this = rows.this_node();
    let home = match &this {
        Some(_) => rows.home(&message.conversation_id)?,
        None => None,
    };
    let Some(holder) = home.and_then(|home| home.node_id) else {
        return Ok(Whose::Node(this));
    };
    if rows.node(&holder)?.is_some_and(|node| node.keeps()) {
        return Ok(Whose::Node(Some(holder)));
    }
    let left = claim.leave_written && rows.wrote_files(&message.conversation_id)?;
    Ok(if left {
        Whose::Nobodys
    } else {
        Whose::Node(this)
    })
}

fn lane(
    rows: &dyn Read,
    message: &Message,
    replies: &[Reply],
) -> Result<Option<Box<Reply>>, RowsError> {
    if replies.iter().all(|reply| reply.state.settled()) {
        return Ok(None);
    }
    let first = rows.next_reply(&message.conversation_id)?;
    Ok(first
        .filter(|reply| reply.message_id != message.message_id)
        .map(Box::new))
}
