//! Reading the feed: forward from the cursor, from the newest row when something was heard, backward when the place is
//! not known or rows may have appeared late. Every row goes into the ledger before anything is moved.
//!
//! When it is read, and what happens when it can't be, is `source`'s business.

use super::Molecule;
use super::client::{Feed, PAGE_ROWS};
use super::cursor::{Cursor, Edition, Seen};
use super::custody::Sorted;
use super::edge::Edge;
use super::files::{Later, Patience};
use super::identity;
use super::owed::Owed;
use super::row::{self, Ground, Reading};
use super::wire::{FeedPage, Row, Stamp};
use crate::door::{Arrival, Door, Page, check_key};
use crate::http::CallError;
use crate::poll::{Unkept, now};
use bridge_core::port::{LedgerError, TRACE};
use bridge_core::step::Received;
use std::collections::HashSet;
use uuid::Uuid;

/// How far back a sweep looks for rows that appeared late, in seconds.
const SWEEP_SECS: u64 = 120;
/// The same in milliseconds, for times of the platform.
const SWEEP_MS: i64 = 120_000;
/// Pages of one sweep: 2,000 rows in two minutes are more than any workspace shows.
const SWEEP_PAGES_MAX: u32 = 40;
/// Pages that one look reads forward; more than a platform keeps.
const FORWARD_PAGES_MAX: u32 = 10_000;
/// Pages that a search for the place goes back; more than a platform keeps.
const BACK_PAGES_MAX: u32 = 10_000;

/// Why a look ended early. Nothing is lost: the cursor stands where everything before it is in the ledger.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The platform did not show its rows.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Too much waits already.
    #[error("too many messages wait already; the platform keeps the rest")]
    Full,
    /// The ledger could not keep them.
    #[error("the ledger can't take them: {0}")]
    Ledger(#[from] LedgerError),
    /// A file of a message did not come, and the message waits for it.
    #[error(transparent)]
    Files(#[from] Later),
}

/// What a reader of the feed remembers between two looks.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// As the ledger has it.
    pub(super) cursor: Option<Cursor>,
    /// The newest row that was read: where a quick look begins.
    tip: Option<Uuid>,
    seen: Seen,
    /// Rows to ask for at once: fewer after a page that was too long.
    limit: Limit,
    /// A search for the place that was interrupted.
    search: Option<Search>,
    /// The time of a row that the platform has forgotten, until its place is found.
    lost: Option<Stamp>,
    unkept: Unkept,
    /// How often files of rows did not come.
    pub(super) patience: Patience,
    /// Uploads whose messages are on disk.
    pub(super) owed: Owed,
}

impl From<Option<Cursor>> for Reader {
    fn from(cursor: Option<Cursor>) -> Self {
        Self {
            cursor,
            ..Self::default()
        }
    }
}

#[derive(Debug)]
struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(PAGE_ROWS)
    }
}

/// A search, going back page by page.
#[derive(Debug)]
struct Search {
    /// Rows before this are known or not wanted.
    floor: Stamp,
    before: Option<Stamp>,
    /// The oldest row found so far.
    oldest: Option<(Uuid, Stamp)>,
    pages: u32,
}

/// Whether the cursor may move over a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// It follows on what was read from the cursor on.
    Following {
        /// Only over rows from before this: others of this moment may be on the next page.
        before: Option<Stamp>,
    },
    /// It is a look ahead or back.
    Aside,
}

impl Holds {
    const FOLLOWING: Self = Self::Following { before: None };

    fn before(self, before: Option<Stamp>) -> Self {
        match self {
            Self::Following { .. } => Self::Following { before },
            Self::Aside => Self::Aside,
        }
    }
}

impl Molecule {
    /// Reads everything after the cursor, and finds the cursor's place if it has none or lost it.
    pub(super) async fn look<D: Door>(&self, door: &D, reader: &mut Reader) -> Result<(), Trouble> {
        let Some(row) = reader.cursor.as_ref().and_then(|cursor| cursor.row) else {
            return self.find_place(door, reader).await;
        };
        match self.forward(door, reader, row, Holds::FOLLOWING).await {
            Err(Trouble::Call(error)) if is_gone(&error) => {
                reader.lost = reader.cursor.as_ref().map(|cursor| cursor.at);
                reader.tip = None;
                self.find_place(door, reader).await
            }
            read => read,
        }
    }

    /// Reads what is newer than the newest row we know: one call for what was just heard of.
    pub(super) async fn look_ahead<D: Door>(
        &self,
        door: &D,
        reader: &mut Reader,
    ) -> Result<(), Trouble> {
        match reader.tip {
            Some(tip) => match self.forward(door, reader, tip, Holds::Aside).await {
                Err(Trouble::Call(error)) if is_gone(&error) => {
                    reader.tip = None;
                    self.look(door, reader).await
                }
                read => read,
            },
            None => self.look(door, reader).await,
        }
    }

    /// Looks back for rows that became visible behind everything that was read.
    pub(super) async fn sweep<D: Door>(
        &self,
        door: &D,
        reader: &mut Reader,
    ) -> Result<(), Trouble> {
        let mut feed = Feed {
            since_secs: Some(SWEEP_SECS),
            ..Feed::default()
        };
        let mut floor = None;
        for _ in 0..SWEEP_PAGES_MAX {
            let (page, whole) = self.page(&mut reader.limit, &feed).await?;
            let Some(span) = Span::of(&page) else {
                return Ok(());
            };
            let floor = *floor.get_or_insert(span.newest.plus_ms(-SWEEP_MS));
            self.take(door, reader, page, Holds::Aside).await?;
            if whole || span.oldest < floor {
                return Ok(());
            }
            feed = Feed {
                before: Some(step_back(feed.before, span.oldest)),
                ..Feed::default()
            };
        }
        tracing::warn!(channel = %self.channel(), "more rows in two minutes than a sweep looks at");
        Ok(())
    }

    /// Reads forward until nothing is left; a look ahead is content with a page that is not full.
    async fn forward<D: Door>(
        &self,
        door: &D,
        reader: &mut Reader,
        from: Uuid,
        holds: Holds,
    ) -> Result<(), Trouble> {
        let (mut after, mut asked_again) = (from, false);
        reader.tip.get_or_insert(from);
        for _ in 0..FORWARD_PAGES_MAX {
            let feed = Feed {
                since_id: Some(after.hyphenated().to_string()),
                ..Feed::default()
            };
            let (page, whole) = self.page(&mut reader.limit, &feed).await?;
            let last = page.rows.iter().rev().find_map(id_of);
            let (edge, rows) = (Edge::of(&page, whole), page.rows.len());
            let moment = match edge {
                Edge::Divided { moment, .. } => Some(moment),
                Edge::Whole | Edge::Moment => None,
            };
            self.take(door, reader, page, holds.before(moment)).await?;
            match (edge, last) {
                (Edge::Divided { from, .. }, _) if from != after => after = from,
                // A page that was cut short for its length is longer the next time.
                (Edge::Moment, Some(_)) if !asked_again && reader.limit.0 > rows => {
                    asked_again = true;
                    continue;
                }
                // Nothing to go on from, or a platform that does not move.
                (_, None) => return Ok(()),
                (_, Some(last)) if last == after => return Ok(()),
                (edge, Some(last)) => {
                    if edge == Edge::Moment && rows > 1 {
                        tracing::warn!(channel = %self.channel(), rows, "a whole page of one moment: if the platform has more of that moment, they are not shown");
                    }
                    after = last;
                }
            }
            asked_again = false;
            reader.tip = Some(after);
            if whole && holds == Holds::Aside {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Goes back to the newest row that is known or not wanted, and reads forward from there, so that rows come into
    /// the ledger oldest first however many there are.
    async fn find_place<D: Door>(&self, door: &D, reader: &mut Reader) -> Result<(), Trouble> {
        loop {
            let feed = Feed {
                before: reader.search.as_ref().and_then(|search| search.before),
                ..Feed::default()
            };
            let (page, _) = self.page(&mut reader.limit, &feed).await?;
            let search = match &mut reader.search {
                Some(search) => search,
                None => {
                    let floor = self.floor(reader.cursor.as_ref(), &page);
                    reader.search.insert(Search::new(floor))
                }
            };
            let floor = search.floor;
            match search.step(&page) {
                Step::Further => {}
                Step::Anchor(row, at) => {
                    reader.search = None;
                    self.tell_gap(reader, Some(at));
                    let mut cursor = cursor_at(reader, floor);
                    cursor.move_to(row, at, None);
                    self.store(door, reader, cursor).await?;
                    return self.forward(door, reader, row, Holds::FOLLOWING).await;
                }
                Step::Start(oldest) => {
                    reader.search = None;
                    self.tell_gap(reader, oldest.map(|(_, at)| at));
                    let mut cursor = cursor_at(reader, floor);
                    cursor.row = None;
                    self.store(door, reader, cursor).await?;
                    return self.read_from_start(door, reader, oldest).await;
                }
            }
        }
    }

    /// Reads from the feed's first row on, that one included.
    async fn read_from_start<D: Door>(
        &self,
        door: &D,
        reader: &mut Reader,
        oldest: Option<(Uuid, Stamp)>,
    ) -> Result<(), Trouble> {
        let Some((row, at)) = oldest else {
            return Ok(());
        };
        let feed = Feed {
            before: Some(at.plus_us(1)),
            ..Feed::default()
        };
        let (page, _) = self.page(&mut reader.limit, &feed).await?;
        self.take(door, reader, page, Holds::FOLLOWING).await?;
        self.forward(door, reader, row, Holds::FOLLOWING).await
    }

    /// How far back a search goes: to what is in the ledger, or as far as the operator wants a first start to.
    fn floor(&self, cursor: Option<&Cursor>, page: &FeedPage) -> Stamp {
        if let Some(cursor) = cursor {
            return cursor.at.plus_ms(-SWEEP_MS).max(cursor.from);
        }
        let ours = || Stamp(now().0.saturating_mul(1_000));
        let now = page.date.unwrap_or_else(ours);
        match i64::from(self.0.settings.first_start.minutes) {
            // The platform tells whole seconds: what it shows now was there before.
            0 => Span::of(page).map_or(now, |span| span.newest.plus_us(1).max(now)),
            minutes => now.plus_ms(minutes.saturating_mul(-60_000)),
        }
    }

    /// Says what may be missing after the platform has forgotten the row that was read last.
    fn tell_gap(&self, reader: &mut Reader, oldest: Option<Stamp>) {
        let Some(last) = reader.lost.take() else {
            return;
        };
        let shown = oldest.map_or_else(|| "nothing".to_owned(), |at| at.to_string());
        let channel = self.channel();
        match oldest.is_some_and(|oldest| oldest <= last) {
            true => {
                tracing::info!(%channel, last_journaled = %last, oldest_shown = shown, "the platform has forgotten the row that was read last; its feed reaches further back, so nothing is missing")
            }
            false => {
                tracing::warn!(%channel, last_journaled = %last, oldest_shown = shown, "the platform has forgotten the row that was read last; what came between these times and was forgotten too is lost")
            }
        }
    }

    /// One page, however long its rows are; and whether the platform has no more of them for this question.
    pub(super) async fn one_page(
        &self,
        limit: &mut usize,
        feed: &Feed,
    ) -> Result<(FeedPage, bool), CallError> {
        loop {
            match self.0.client.feed(feed, *limit).await {
                Ok(page) => {
                    let rows = page.rows.len();
                    tracing::debug!(target: TRACE, at = "page", channel = %self.channel(), rows);
                    let whole = rows < *limit;
                    *limit = limit.saturating_mul(2).min(PAGE_ROWS);
                    self.0.clocks.note(page.date);
                    return Ok((page, whole));
                }
                Err(CallError::TooLong(_)) if *limit > 1 => *limit = (*limit / 4).max(1),
                Err(CallError::TooLong(_)) => {
                    let rows = vec![self.0.client.feed_head(feed).await?];
                    return Ok((FeedPage { rows, date: None }, false));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn page(&self, limit: &mut Limit, feed: &Feed) -> Result<(FeedPage, bool), CallError> {
        self.one_page(&mut limit.0, feed).await
    }

    /// Puts a page into the ledger, with how far the feed was read if that moved.
    async fn take<D: Door>(
        &self,
        door: &D,
        reader: &mut Reader,
        mut page: FeedPage,
        holds: Holds,
    ) -> Result<(), Trouble> {
        page.rows.sort_by_key(|row| (row.at(), row.seq()));
        for at in page.rows.iter().filter_map(Row::at) {
            reader.seen.note_time(at, page.date);
        }
        let from = reader.cursor.as_ref().map(|cursor| cursor.from);
        let (mut sorted, mut ids) = (Sorted::default(), Vec::new());
        let mut notices = Vec::new();
        // Two rows of one page may carry one message.
        let mut named = HashSet::new();
        for row in &page.rows {
            let Some(id) = row.id().filter(|id| check_key(id).is_ok()) else {
                let shown = serde_json::Value::Null;
                let why = row.broken.as_deref().unwrap_or("it has no id");
                reader.unkept.note(self.channel().as_str(), &shown, why);
                continue;
            };
            let old = row.at().is_some_and(|at| Some(at) < from);
            if !reader.seen.has(&id) && !old {
                match row::read(row, self.ground()) {
                    Reading::Message(mut incoming) => {
                        identity::assign(&mut incoming.arrival, row);
                        let known = incoming.arrival.external_id.to_string();
                        if !reader.seen.has(&known) && named.insert(known) {
                            sorted.add(*incoming);
                        }
                    }
                    Reading::NoMessage => {}
                    Reading::Platform(notice) => notices.push(notice),
                    Reading::Nothing(why) => {
                        let shown = serde_json::Value::String(id.clone());
                        reader.unkept.note(self.channel().as_str(), &shown, &why);
                    }
                }
            }
            ids.push(id);
        }
        let ready = std::mem::take(&mut sorted.ready);
        if !sorted.is_ready() {
            self.commit(door, reader, ready, None).await?;
            let taken = self.take_waiting(door, reader, sorted).await;
            reader.owed.pay(&self.0.client).await;
            taken?;
            let moved = self.moved(reader, &page.rows, holds);
            self.commit(door, reader, Vec::new(), moved).await?;
        } else {
            let moved = self.moved(reader, &page.rows, holds);
            self.commit(door, reader, ready, moved).await?;
            reader.owed.pay(&self.0.client).await;
        }
        ids.into_iter().for_each(|id| reader.seen.add(id));
        self.answer_notices(&notices).await;
        Ok(())
    }

    /// Where the cursor goes over a page, if it does.
    fn moved(&self, reader: &Reader, rows: &[Row], holds: Holds) -> Option<Cursor> {
        let (mut cursor, before) = match holds {
            Holds::Following { before } => (reader.cursor.clone()?, before),
            Holds::Aside => return None,
        };
        for row in rows {
            cursor.edition = match (cursor.edition, row.seq()) {
                (_, Some(_)) => Edition::Sequenced,
                (Edition::Unknown, None) => Edition::Plain,
                (edition, None) => edition,
            };
            if let (Some(id), Some(text), Some(at)) = (id_of(row), row.id(), row.at())
                && at >= cursor.at
                && before.is_none_or(|before| at < before)
                && reader.seen.is_settled(row, &text)
            {
                cursor.move_to(id, at, row.seq());
            }
        }
        (Some(&cursor) != reader.cursor.as_ref()).then_some(cursor)
    }

    async fn store<D: Door>(
        &self,
        door: &D,
        reader: &mut Reader,
        cursor: Cursor,
    ) -> Result<(), Trouble> {
        if reader.cursor.as_ref() == Some(&cursor) {
            return Ok(());
        }
        self.commit(door, reader, Vec::new(), Some(cursor)).await
    }

    pub(super) async fn commit<D: Door>(
        &self,
        door: &D,
        reader: &mut Reader,
        arrivals: Vec<Arrival>,
        moved: Option<Cursor>,
    ) -> Result<(), Trouble> {
        if arrivals.is_empty() && moved.is_none() {
            return Ok(());
        }
        self.remember_contexts(&arrivals);
        for arrival in &arrivals {
            let row = arrival.extras.former_id.as_ref();
            let row = row.unwrap_or(&arrival.external_id);
            tracing::debug!(channel = %self.channel(), %row, external_id = %arrival.external_id, "a message");
        }
        let ids: Vec<String> = arrivals
            .iter()
            .map(|arrival| arrival.external_id.to_string())
            .collect();
        let page = Page {
            channel: self.channel().clone(),
            position: moved.as_ref().and_then(Cursor::write),
            arrivals,
        };
        let received = door.take_page(page).await?;
        let news = received
            .iter()
            .filter(|got| matches!(got, Received::New(_)));
        let news = news.count();
        if news > 0 {
            tracing::debug!(channel = %self.channel(), news, "taken in");
        }
        if received.contains(&Received::Full) {
            return Err(Trouble::Full);
        }
        ids.into_iter().for_each(|id| reader.seen.add(id));
        if let Some(cursor) = moved {
            self.learn(cursor.edition);
            reader.cursor = Some(cursor);
        }
        Ok(())
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            own: self.0.client.workspace_id(),
            channel: self.channel(),
            origins: &self.0.settings.origins,
        }
    }
}

fn cursor_at(reader: &Reader, floor: Stamp) -> Cursor {
    match &reader.cursor {
        Some(cursor) => cursor.clone(),
        None => Cursor::begin(floor),
    }
}

/// What one page of a search amounts to.
enum Step {
    Further,
    /// The newest row from before the floor.
    Anchor(Uuid, Stamp),
    /// The feed begins here.
    Start(Option<(Uuid, Stamp)>),
}

impl Search {
    fn new(floor: Stamp) -> Self {
        Self {
            floor,
            before: None,
            oldest: None,
            pages: 0,
        }
    }

    fn step(&mut self, page: &FeedPage) -> Step {
        self.pages = self.pages.saturating_add(1);
        let rows = page
            .rows
            .iter()
            .filter_map(|row| Some((id_of(row)?, row.at()?)));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|(_, at)| *at);
        if let Some((row, at)) = rows.iter().rev().find(|(_, at)| *at < self.floor) {
            return Step::Anchor(*row, *at);
        }
        let Some(oldest) = rows.first().copied() else {
            return Step::Start(self.oldest);
        };
        let stuck = self.oldest == Some(oldest);
        self.before = Some(match stuck {
            // A whole page of one microsecond, or the feed's first row once more: go on before it.
            true => oldest.1,
            false => step_back(self.before, oldest.1),
        });
        self.oldest = Some(oldest);
        match self.pages >= BACK_PAGES_MAX {
            true => Step::Start(self.oldest),
            false => Step::Further,
        }
    }
}

/// From when to when the rows of a page are.
pub(super) struct Span {
    pub(super) newest: Stamp,
    oldest: Stamp,
}

impl Span {
    pub(super) fn of(page: &FeedPage) -> Option<Self> {
        let times = || page.rows.iter().filter_map(Row::at);
        Some(Self {
            newest: times().max()?,
            oldest: times().min()?,
        })
    }
}

/// Where the next page back ends. Rows of the same microsecond may be on both sides of a page's edge, so the oldest
/// moment is asked for again, unless that would ask the same question twice.
pub(super) fn step_back(before: Option<Stamp>, oldest: Stamp) -> Stamp {
    let with_its_twins = oldest.plus_us(1);
    match before == Some(with_its_twins) {
        true => oldest,
        false => with_its_twins,
    }
}

pub(super) fn id_of(row: &Row) -> Option<Uuid> {
    Uuid::parse_str(&row.id()?).ok()
}

fn is_gone(error: &CallError) -> bool {
    error.status() == Some(reqwest::StatusCode::GONE)
}
