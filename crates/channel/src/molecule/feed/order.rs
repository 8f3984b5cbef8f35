//! Where a look begins and how much of it is taken in, so that one sender's messages keep their order.
//!
//! An insert takes its time and its number first and is seen when it commits, so rows become visible behind the newest.
//! But a sender who waits for the platform's answer has its row committed before the next one is begun. A page is one
//! snapshot: if it shows a sender's row, it shows the earlier ones too, provided that it begins before them. So a look
//! begins some time behind the newest row; and of a look that takes several pages, each a snapshot of its own, only
//! rows that were begun before the first page was read are taken in. See ADR 0057.
//!
//! Older platforms order rows by time alone and show what is younger than a row, so rows of one moment that a page's
//! edge divides would never be shown by going on from its last row: [`Edge`] says where to go on.

use crate::molecule::feed::{Span, id_of};
use crate::molecule::wire::{FeedPage, Row, Stamp};
use std::collections::VecDeque;
use uuid::Uuid;

/// How far behind the newest row a look begins. With every connection of the platform inserting into one workspace
/// (25, its pool), PostgreSQL 15 showed a row 220 ms late at worst; this is nine times that.
pub(crate) const OVERLAP_MS: i64 = 2_000;
/// Rows nearer to each other than this are one place: a look that begins a little earlier is as good, and the places
/// that are remembered stay few.
const STEP_US: i64 = 100_000;

/// Rows that were taken in lately, from which a look may begin.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    /// Nothing can become visible behind this row any more.
    start: Option<Uuid>,
    /// Rows after it, oldest first, behind which something can.
    unsettled: VecDeque<(Stamp, Uuid)>,
}

impl Trail {
    /// The row after which a look begins; absent when no row is old enough.
    pub(crate) fn start(&self) -> Option<Uuid> {
        self.start
    }

    /// A row from long ago, if none is known yet.
    pub(crate) fn start_at(&mut self, row: Uuid) {
        self.start.get_or_insert(row);
    }

    /// Notes rows, oldest first, that were taken in after all that the platform showed before them; `as_of` is a time
    /// of the platform that had come when they were read.
    pub(crate) fn note(&mut self, rows: &[(Uuid, Stamp)], as_of: Stamp) {
        for (row, at) in rows {
            let newest = self.unsettled.back();
            let is_further = newest.is_none_or(|(newest, _)| *at >= newest.plus_us(STEP_US));
            if is_further && *at <= as_of {
                self.unsettled.push_back((*at, *row));
            }
        }
        let settled = as_of.plus_ms(-OVERLAP_MS);
        while let Some((_, row)) = self.unsettled.pop_front_if(|(at, _)| *at <= settled) {
            self.start = Some(row);
        }
    }
}

/// The pages that are read one after the other from one start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FeedRound {
    /// A time of the platform that had come when the first page was read; absent before that.
    as_of: Option<Stamp>,
}

impl FeedRound {
    /// A round of which something was read already, at this time of the platform or later.
    pub(crate) fn since(as_of: Option<Stamp>) -> Self {
        Self { as_of }
    }

    /// Whether no page was read yet.
    pub(crate) fn is_new(self) -> bool {
        self.as_of.is_none()
    }

    /// Takes rows out of a page before which an earlier one of the same sender may have become visible, behind what
    /// this round has read; `true` if there were any. `newest` is the newest time that the platform has shown so far.
    pub(crate) fn cut(&mut self, page: &mut FeedPage, newest: Option<Stamp>) -> bool {
        page.rows.sort_by_key(|row| (row.at(), row.seq()));
        let Some(as_of) = self.as_of else {
            self.as_of = newest;
            return false;
        };
        let rows = page.rows.len();
        page.rows
            .retain(|row| row.at().is_none_or(|at| at <= as_of));
        page.rows.len() < rows
    }

    pub(crate) fn as_of(self) -> Option<Stamp> {
        self.as_of
    }
}

/// The rows of a page that a look can begin after.
pub(crate) fn places(rows: &[Row]) -> Vec<(Uuid, Stamp)> {
    let places = rows.iter().filter_map(|row| Some((id_of(row)?, row.at()?)));
    places.collect()
}

/// How a page ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Nothing of its last moment can be missing.
    Whole,
    /// Its last moment is read again, from the last row before it.
    Divided { from: Uuid, moment: Stamp },
    /// All of it is one moment.
    Moment,
}

impl Edge {
    pub(crate) fn of(page: &FeedPage, whole: bool) -> Self {
        if whole || page.rows.iter().any(|row| row.seq().is_some()) {
            return Self::Whole;
        }
        let Some(span) = Span::of(page) else {
            return Self::Whole;
        };
        let rows = places(&page.rows).into_iter();
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
    use super::*;
    use serde_json::json;

    fn id(number: i64) -> Uuid {
        Uuid::from_u128(u128::try_from(number).unwrap())
    }

    fn noted(trail: &mut Trail, ms: &[i64], as_of: i64) -> Option<Uuid> {
        let rows: Vec<_> = ms.iter().map(|ms| (id(*ms), Stamp(ms * 1_000))).collect();
        trail.note(&rows, Stamp(as_of * 1_000));
        trail.start()
    }

    fn page(ms: &[i64]) -> FeedPage {
        let row = |ms: &i64| {
            let at = Stamp(ms * 1_000).to_string();
            let raw = json!({"id": id(*ms), "created_at": at}).to_string();
            Row::split(&serde_json::value::RawValue::from_string(raw).unwrap())
        };
        FeedPage {
            rows: ms.iter().map(row).collect(),
            date: None,
        }
    }

    #[test]
    fn d3_look_starts_behind_newest_row() {
        let mut trail = Trail::default();
        assert_eq!(noted(&mut trail, &[1_000, 2_000], 2_000), None);
        trail.start_at(id(7));
        assert_eq!(noted(&mut trail, &[2_050, 2_500], 2_500), Some(id(7)));
        assert_eq!(noted(&mut trail, &[4_020], 4_020), Some(id(2_000)));
        // What is read again is no new place, and a time that has not come yet is none.
        assert_eq!(noted(&mut trail, &[1_000, 99_000], 4_020), Some(id(2_000)));
        assert_eq!(noted(&mut trail, &[6_020], 6_020), Some(id(4_020)));
    }

    #[test]
    fn d3_places_stay_few() {
        let mut trail = Trail::default();
        for ms in 0..100_000 {
            noted(&mut trail, &[ms], ms);
            assert!(trail.unsettled.len() <= 21);
        }
        assert_eq!(trail.start(), Some(id(97_900)));
    }

    #[test]
    fn d3_later_pages_wait_for_next_round() {
        let mut round = FeedRound::default();
        let mut first = page(&[10, 20, 30]);
        assert!(!round.cut(&mut first, Some(Stamp(30_000))));
        assert_eq!(first.rows.len(), 3);
        let mut second = page(&[40, 25, 30]);
        assert!(round.cut(&mut second, Some(Stamp(40_000))));
        let kept: Vec<_> = places(&second.rows)
            .into_iter()
            .map(|(row, _)| row)
            .collect();
        assert_eq!(kept, [id(25), id(30)]);
    }

    /// A page of rows with these numbers, from these microseconds.
    fn page_of(rows: &[(u128, u32)], numbered: bool) -> FeedPage {
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
        let full = page_of(&rows, false);
        let divided = Edge::Divided {
            from: Uuid::from_u128(2),
            moment: full.rows[3].at().unwrap(),
        };
        assert_eq!(Edge::of(&full, false), divided);
        assert_eq!(Edge::of(&full, true), Edge::Whole);
        assert_eq!(Edge::of(&page_of(&rows, true), false), Edge::Whole);
        assert_eq!(
            Edge::of(&page_of(&[(1, 5), (2, 5)], false), false),
            Edge::Moment
        );
        assert_eq!(Edge::of(&page_of(&[], false), false), Edge::Whole);
    }
}
