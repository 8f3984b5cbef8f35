//! The derived column `queue` of a message, on which all partial indexes rest.
//!
//! At most one message of a conversation is `ready` or `held`: its first waiting one, while nothing of the
//! conversation is in flight or kept. So the scheduler finds work at the head of an index, however much waits behind.
//! Only this file and `message` write the column.

use super::fields::Fields;
use crate::sql::{self, Conn, Row};
use bridge_core::port::RowsError;
use bridge_core::value::{MessageState, StateName, UnknownWord};
use std::str::FromStr;

/// Value of the column; a finished message has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePlace {
    /// The first of its conversation, claimable.
    Ready,
    /// The first of its conversation, claimable later.
    Held,
    /// Waits for another message of its conversation.
    Behind,
    /// With Codex.
    Flight,
    /// Holds its conversation back without taking the place of a turn.
    Kept,
    /// Has its answer.
    Out,
}

impl QueuePlace {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Held => "held",
            Self::Behind => "queued",
            Self::Flight => "in_flight",
            Self::Kept => "blocking",
            Self::Out => "outbox",
        }
    }
}

impl FromStr for QueuePlace {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Ok(match word {
            "ready" => Self::Ready,
            "held" => Self::Held,
            "queued" => Self::Behind,
            "in_flight" => Self::Flight,
            "blocking" => Self::Kept,
            "outbox" => Self::Out,
            _ => return Err(UnknownWord),
        })
    }
}

/// What a state alone says about the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueRole {
    Waiting,
    Flight,
    Kept,
    Out,
    Finished,
}

impl QueueRole {
    pub(crate) fn of(state: &MessageState) -> Self {
        match state {
            MessageState::Received { .. } => Self::Waiting,
            MessageState::Claimed
            | MessageState::Starting
            | MessageState::Running { .. }
            | MessageState::Unclear { hold: None } => Self::Flight,
            MessageState::Unclear { hold: Some(_) }
            | MessageState::Steered { .. }
            | MessageState::Parked { .. } => Self::Kept,
            MessageState::Answered | MessageState::Sending => Self::Out,
            MessageState::Done | MessageState::Dead { .. } | MessageState::Cancelled { .. } => {
                Self::Finished
            }
        }
    }
}

/// Whether two states have the same queue and no column of their own beside a turn's id: then a new life needs no
/// read of the conversation.
pub(crate) fn same_spot(from: StateName, to: StateName) -> bool {
    let working = |state| {
        matches!(
            state,
            StateName::Claimed | StateName::Starting | StateName::Running
        )
    };
    let out = |state| matches!(state, StateName::Answered | StateName::Sending);
    (working(from) && working(to)) || (out(from) && out(to))
}

/// One message of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueueEntry {
    row: i64,
    seq: i64,
}

/// The other messages of a conversation, seen from one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// One of them is in flight, or kept.
    busy: bool,
    /// The one that is ready or held.
    first: Option<QueueEntry>,
    /// The lowest of those behind.
    behind: Option<QueueEntry>,
}

/// Changes of the column that one message's new state causes in its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueMoves {
    /// The message's own place.
    pub(crate) mine: Option<QueuePlace>,
    demote: Option<i64>,
    promote: Option<i64>,
}

/// One arm per place: SQLite would build a table for `IN` at every call.
pub(crate) const OTHERS: &str = "\
     SELECT queue, seq, row FROM message INDEXED BY message_queue \
     WHERE queue = 'in_flight' AND conversation_id = ?1 AND row <> ?2 \
     UNION ALL SELECT queue, seq, row FROM message INDEXED BY message_queue \
     WHERE queue = 'blocking' AND conversation_id = ?1 AND row <> ?2 \
     UNION ALL SELECT queue, seq, row FROM message INDEXED BY message_queue \
     WHERE queue = 'ready' AND conversation_id = ?1 AND row <> ?2 \
     UNION ALL SELECT queue, seq, row FROM message INDEXED BY message_queue \
     WHERE queue = 'held' AND conversation_id = ?1 AND row <> ?2 \
     UNION ALL SELECT * FROM (\
         SELECT queue, seq, row FROM message INDEXED BY message_queue \
         WHERE queue = 'queued' AND conversation_id = ?1 AND row <> ?2 ORDER BY seq LIMIT 1) AS behind";

/// The rest of a conversation; `row` is left out.
pub(crate) fn neighbours(
    conn: Conn<'_>,
    conversation_id: &str,
    row: i64,
) -> Result<Neighbours, RowsError> {
    let mut neighbours = Neighbours::default();
    for (place, spot) in sql::many(conn, OTHERS, (conversation_id, row), read)? {
        match place {
            QueuePlace::Flight | QueuePlace::Kept => neighbours.busy = true,
            QueuePlace::Ready | QueuePlace::Held => neighbours.first = Some(spot),
            QueuePlace::Behind => neighbours.behind = Some(spot),
            QueuePlace::Out => {}
        }
    }
    Ok(neighbours)
}

fn read(row: &Row<'_>) -> Result<(QueuePlace, QueueEntry), RowsError> {
    let mut fields = Fields::of("place", row);
    let place = fields.word()?;
    let seq = fields.next()?;
    let row = fields.next()?;
    Ok((place, QueueEntry { row, seq }))
}

impl Neighbours {
    /// Where a message with this role goes, and who makes room or moves up.
    pub(crate) fn settle(self, role: QueueRole, seq: i64, held: bool) -> QueueMoves {
        let waiting = role == QueueRole::Waiting;
        let busy = self.busy || matches!(role, QueueRole::Flight | QueueRole::Kept);
        let mine = waiting.then_some(QueueEntry { row: 0, seq });
        let winner = [mine, self.first, self.behind]
            .into_iter()
            .flatten()
            .min_by_key(|spot| spot.seq)
            .filter(|_| !busy);
        let wins = |spot: &QueueEntry| Some(*spot) == winner;
        QueueMoves {
            mine: match role {
                QueueRole::Waiting if mine.as_ref().is_some_and(wins) && held => {
                    Some(QueuePlace::Held)
                }
                QueueRole::Waiting if mine.as_ref().is_some_and(wins) => Some(QueuePlace::Ready),
                QueueRole::Waiting => Some(QueuePlace::Behind),
                QueueRole::Flight => Some(QueuePlace::Flight),
                QueueRole::Kept => Some(QueuePlace::Kept),
                QueueRole::Out => Some(QueuePlace::Out),
                QueueRole::Finished => None,
            },
            demote: self.first.filter(|spot| !wins(spot)).map(|spot| spot.row),
            promote: self.behind.filter(wins).map(|spot| spot.row),
        }
    }
}

impl QueueMoves {
    /// QueueMoves the neighbours; the message itself is written by its own statement.
    pub(crate) fn write(self, conn: Conn<'_>) -> Result<(), RowsError> {
        if let Some(row) = self.demote {
            let demote = "UPDATE message SET queue = 'queued' WHERE row = ?1";
            sql::write(conn, demote, [row], || format!("place of row {row}"))?;
        }
        if let Some(row) = self.promote {
            let promote = "UPDATE message SET queue = CASE WHEN hold_until IS NULL THEN 'ready' ELSE 'held' END \
                 WHERE row = ?1";
            sql::write(conn, promote, [row], || format!("place of row {row}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: i64 = 5;

    /// What becomes of message 5 with this role: its own place, who is demoted, who is promoted.
    fn settle(
        role: QueueRole,
        neighbours: (bool, Option<i64>, Option<i64>),
    ) -> (Option<QueuePlace>, Option<i64>, Option<i64>) {
        let spot = |seq| QueueEntry { row: seq, seq };
        let (busy, first, behind) = neighbours;
        let neighbours = Neighbours {
            busy,
            first: first.map(spot),
            behind: behind.map(spot),
        };
        let moves = neighbours.settle(role, ME, false);
        (moves.mine, moves.demote, moves.promote)
    }

    #[test]
    fn the_lowest_waiting_message_is_first() {
        let waits = |neighbours| settle(QueueRole::Waiting, neighbours);
        let ready = Some(QueuePlace::Ready);
        let behind = Some(QueuePlace::Behind);
        assert_eq!(waits((false, None, None)), (ready, None, None));
        assert_eq!(waits((false, Some(1), None)), (behind, None, None));
        assert_eq!(waits((false, Some(9), None)), (ready, Some(9), None));
        assert_eq!(waits((false, None, Some(9))), (ready, None, None));
        assert_eq!(waits((false, None, Some(1))), (behind, None, Some(1)));
    }

    #[test]
    fn in_flight_message_blocks_waiting_ones() {
        let flight = Some(QueuePlace::Flight);
        let waits = settle(QueueRole::Waiting, (true, None, None));
        assert_eq!(waits, (Some(QueuePlace::Behind), None, None));
        let claimed = settle(QueueRole::Flight, (false, None, Some(9)));
        assert_eq!(claimed, (flight, None, None));
        let overtakes = settle(QueueRole::Flight, (false, Some(1), None));
        assert_eq!(overtakes, (flight, Some(1), None));
    }

    #[test]
    fn who_leaves_makes_room() {
        let leaves = |role| settle(role, (false, None, Some(9)));
        assert_eq!(
            leaves(QueueRole::Out),
            (Some(QueuePlace::Out), None, Some(9))
        );
        assert_eq!(leaves(QueueRole::Finished), (None, None, Some(9)));
        let beside = settle(QueueRole::Out, (true, None, Some(9)));
        assert_eq!(beside, (Some(QueuePlace::Out), None, None));
    }

    #[test]
    fn a_hold_is_kept_in_the_place() {
        let moves = Neighbours::default().settle(QueueRole::Waiting, 1, true);
        assert_eq!(moves.mine, Some(QueuePlace::Held));
    }
}
