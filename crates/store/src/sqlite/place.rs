//! Where a message stands in the queues: the derived column `place`, on which all partial indexes rest.
//!
//! At most one message of a conversation is `ready` or `held`: its first waiting one, while nothing of the
//! conversation is in flight or kept. So the scheduler finds work at the head of an index, however much waits behind.
//! Only this file and `message` write the column.

use super::fields::Fields;
use super::sql;
use bridge_core::port::RowsError;
use bridge_core::value::{MessageState, StateName};
use rusqlite::{Connection, Row};

/// A stored place; a finished message has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
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

impl Place {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Held => "held",
            Self::Behind => "queued",
            Self::Flight => "in_flight",
            Self::Kept => "blocking",
            Self::Out => "outbox",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [
            Self::Ready,
            Self::Held,
            Self::Behind,
            Self::Flight,
            Self::Kept,
            Self::Out,
        ]
        .into_iter()
        .find(|place| place.as_str() == word)
    }
}

/// What a state alone says about the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Waiting,
    Flight,
    Kept,
    Out,
    Finished,
}

impl Standing {
    pub(super) fn of(state: &MessageState) -> Self {
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

/// Whether two states have the same place and no column of their own beside a turn's id: then a new life needs no
/// look at the conversation.
pub(super) fn same_spot(from: StateName, to: StateName) -> bool {
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
struct Spot {
    row: i64,
    seq: i64,
}

/// The rest of a conversation, seen from one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// One of them is in flight, or kept.
    busy: bool,
    /// The one that is ready or held.
    first: Option<Spot>,
    /// The lowest of those behind.
    behind: Option<Spot>,
}

/// What one message's change means for its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moves {
    /// The message's own place.
    pub(super) mine: Option<Place>,
    demote: Option<i64>,
    promote: Option<i64>,
}

/// One arm per place: SQLite would build a table for `IN` at every call.
pub(super) const OTHERS: &str = "\
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
         WHERE queue = 'queued' AND conversation_id = ?1 AND row <> ?2 ORDER BY seq LIMIT 1)";

/// The rest of a conversation; `row` is left out.
pub(super) fn others(
    conn: &Connection,
    conversation_id: &str,
    row: i64,
) -> Result<Others, RowsError> {
    let mut others = Others::default();
    for (place, spot) in sql::many(conn, OTHERS, (conversation_id, row), read)? {
        match place {
            Place::Flight | Place::Kept => others.busy = true,
            Place::Ready | Place::Held => others.first = Some(spot),
            Place::Behind => others.behind = Some(spot),
            Place::Out => {}
        }
    }
    Ok(others)
}

fn read(row: &Row<'_>) -> Result<(Place, Spot), RowsError> {
    let mut fields = Fields::of("place", row);
    let place = fields.word(Place::from_word)?;
    let seq = fields.next()?;
    let row = fields.next()?;
    Ok((place, Spot { row, seq }))
}

impl Others {
    /// Where a message with this standing goes, and who makes room or moves up.
    pub(super) fn settle(self, standing: Standing, seq: i64, held: bool) -> Moves {
        let waiting = standing == Standing::Waiting;
        let busy = self.busy || matches!(standing, Standing::Flight | Standing::Kept);
        let mine = waiting.then_some(Spot { row: 0, seq });
        let winner = [mine, self.first, self.behind]
            .into_iter()
            .flatten()
            .min_by_key(|spot| spot.seq)
            .filter(|_| !busy);
        let wins = |spot: &Spot| Some(*spot) == winner;
        Moves {
            mine: match standing {
                Standing::Waiting if mine.as_ref().is_some_and(wins) && held => Some(Place::Held),
                Standing::Waiting if mine.as_ref().is_some_and(wins) => Some(Place::Ready),
                Standing::Waiting => Some(Place::Behind),
                Standing::Flight => Some(Place::Flight),
                Standing::Kept => Some(Place::Kept),
                Standing::Out => Some(Place::Out),
                Standing::Finished => None,
            },
            demote: self.first.filter(|spot| !wins(spot)).map(|spot| spot.row),
            promote: self.behind.filter(wins).map(|spot| spot.row),
        }
    }
}

impl Moves {
    /// Moves the others; the message itself is written by its own statement.
    pub(super) fn write(self, conn: &Connection) -> Result<(), RowsError> {
        if let Some(row) = self.demote {
            let demote = "UPDATE message SET queue = 'queued' WHERE row = ?1";
            sql::write(conn, demote, [row], || format!("place of row {row}"))?;
        }
        if let Some(row) = self.promote {
            let promote = "UPDATE message SET queue = iif(hold_until IS NULL, 'ready', 'held') \
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

    /// What becomes of message 5 with this standing: its own place, who is demoted, who is promoted.
    fn settle(
        standing: Standing,
        others: (bool, Option<i64>, Option<i64>),
    ) -> (Option<Place>, Option<i64>, Option<i64>) {
        let spot = |seq| Spot { row: seq, seq };
        let (busy, first, behind) = others;
        let others = Others {
            busy,
            first: first.map(spot),
            behind: behind.map(spot),
        };
        let moves = others.settle(standing, ME, false);
        (moves.mine, moves.demote, moves.promote)
    }

    #[test]
    fn the_lowest_waiting_message_is_first() {
        let waits = |others| settle(Standing::Waiting, others);
        let ready = Some(Place::Ready);
        let behind = Some(Place::Behind);
        assert_eq!(waits((false, None, None)), (ready, None, None));
        assert_eq!(waits((false, Some(1), None)), (behind, None, None));
        assert_eq!(waits((false, Some(9), None)), (ready, Some(9), None));
        assert_eq!(waits((false, None, Some(9))), (ready, None, None));
        assert_eq!(waits((false, None, Some(1))), (behind, None, Some(1)));
    }

    #[test]
    fn in_flight_message_blocks_waiting_ones() {
        let flight = Some(Place::Flight);
        let waits = settle(Standing::Waiting, (true, None, None));
        assert_eq!(waits, (Some(Place::Behind), None, None));
        let claimed = settle(Standing::Flight, (false, None, Some(9)));
        assert_eq!(claimed, (flight, None, None));
        let overtakes = settle(Standing::Flight, (false, Some(1), None));
        assert_eq!(overtakes, (flight, Some(1), None));
    }

    #[test]
    fn who_leaves_makes_room() {
        let leaves = |standing| settle(standing, (false, None, Some(9)));
        assert_eq!(leaves(Standing::Out), (Some(Place::Out), None, Some(9)));
        assert_eq!(leaves(Standing::Finished), (None, None, Some(9)));
        let beside = settle(Standing::Out, (true, None, Some(9)));
        assert_eq!(beside, (Some(Place::Out), None, None));
    }

    #[test]
    fn a_hold_is_kept_in_the_place() {
        let moves = Others::default().settle(Standing::Waiting, 1, true);
        assert_eq!(moves.mine, Some(Place::Held));
    }
}
