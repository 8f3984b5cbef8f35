//! How a page ends that was read forward. What follows from it is `feed`'s business.
//!
//! Older platforms order rows by time alone and show what is younger than a row, so rows of one moment that a page's
//! edge divides would never be shown by going on from its last row.

use super::feed::{Span, id_of};
use super::wire::{FeedPage, Stamp};
use uuid::Uuid;

/// How a page ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// Nothing of its last moment can be missing.
    Whole,
    /// Its last moment is read again, from the last row before it.
    Divided { from: Uuid, moment: Stamp },
    /// All of it is one moment.
    Moment,
}

impl Edge {
    pub(super) fn of(page: &FeedPage, whole: bool) -> Self {
        if whole || page.rows.iter().any(|row| row.seq().is_some()) {
            return Self::Whole;
        }
        let Some(span) = Span::of(page) else {
            return Self::Whole;
        };
        let rows = page
            .rows
            .iter()
            .filter_map(|row| Some((id_of(row)?, row.at()?)));
        let before = rows.filter(|(_, at)| *at < span.newest);
        match before.max_by_key(|(_, at)| *at) {
            Some((from, _)) => Self::Divided {
                from,
                moment: span.newest,
            },
            None => Self::Moment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Row;
    use super::*;
    use serde_json::json;

    /// A page of rows with these numbers, from these microseconds.
    fn page(rows: &[(u128, u32)], numbered: bool) -> FeedPage {
        let row = |(id, micro): &(u128, u32)| {
            let at = format!("2026-11-15T20:00:00.{micro:06}Z");
            let id = Uuid::from_u128(*id).hyphenated().to_string();
            let row = if numbered {
                json!({"id": id, "created_at": at, "seq": 1})
            } else {
                json!({"id": id, "created_at": at})
            };
            Row::split(&serde_json::value::RawValue::from_string(row.to_string()).unwrap())
        };
        FeedPage {
            rows: rows.iter().map(row).collect(),
            date: None,
        }
    }

    #[test]
    fn full_page_rereads_its_last_timestamp() {
        let rows = [(1, 5), (2, 6), (3, 7), (4, 7)];
        let full = page(&rows, false);
        let divided = Edge::Divided {
            from: Uuid::from_u128(2),
            moment: full.rows[3].at().unwrap(),
        };
        assert_eq!(Edge::of(&full, false), divided);
        assert_eq!(Edge::of(&full, true), Edge::Whole);
        assert_eq!(Edge::of(&page(&rows, true), false), Edge::Whole);
        assert_eq!(
            Edge::of(&page(&[(1, 5), (2, 5)], false), false),
            Edge::Moment
        );
        assert_eq!(Edge::of(&page(&[], false), false), Edge::Whole);
    }
}
