//! What the rows say, read once after each write: most steps of the world write nothing, and every state is read
//! many times.

use crate::codex::number;
use crate::setup::MESSAGES_MAX;
use crate::world::{DUE, conversation_id, message_id};
use bridge_core::port::{HeadFilter, Read};
use bridge_core::value::{AnswerSource, Conversation, Message, Reply, Turn};
use bridge_testkit::MemoryRows;

/// A message and what hangs on it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) message: Message,
    /// The turn of its newest attempt.
    pub(crate) turn: Option<Turn>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) answer: Option<AnswerSource>,
}

/// All rows that matter.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    pub(crate) rows: [Option<Row>; MESSAGES_MAX],
    pub(crate) conversation: Option<Conversation>,
    /// What could be claimed, once everything is due.
    pub(crate) head: Option<u8>,
}

impl Sight {
    pub(crate) fn of(rows: &MemoryRows) -> Self {
        let heads = rows.heads(DUE, &HeadFilter::default(), 1).unwrap();
        let mut sight = Self {
            rows: [None, None, None],
            conversation: rows.conversation(&conversation_id()).unwrap(),
            head: heads
                .first()
                .map(|head| number(head.message.message_id.as_str())),
        };
        for (at, row) in (0_u8..).zip(&mut sight.rows) {
            let id = message_id(at);
            *row = rows.message(&id).unwrap().map(|message| Row {
                turn: rows.turn(&id, message.life.attempt).unwrap(),
                replies: rows.replies(&id).unwrap(),
                answer: rows.answer(&id).unwrap().map(|answer| answer.source),
                message,
            });
        }
        sight
    }
}
