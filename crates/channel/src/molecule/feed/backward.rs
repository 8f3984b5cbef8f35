//! Reading the feed backward: when the place is not known, and for rows that appeared late behind everything that was
//! read. Rows are still taken in oldest first.

use crate::inbox::Inbox;
use crate::molecule::Molecule;
use crate::molecule::client::FeedQuery;
use crate::molecule::feed::cursor::Cursor;
use crate::molecule::feed::order::{FeedRound, places};
use crate::molecule::feed::{FeedReader, Holds, PageSize, Span, Trouble, step_back};
use crate::molecule::wire::{FeedPage, Row, Stamp};
use crate::poll::now;
use uuid::Uuid;

/// How far back a sweep looks for rows that appeared late, in seconds.
const SWEEP_SECS: u64 = 120;
/// The same in milliseconds, for times of the platform.
const SWEEP_MS: i64 = 120_000;
/// Pages of one sweep: 2,000 rows in two minutes are more than any workspace shows.
const SWEEP_PAGES_MAX: u32 = 40;
/// Pages that a search for the place goes back; more than a platform keeps.
const BACK_PAGES_MAX: u32 = 10_000;

/// A search, going back page by page.
#[derive(Debug)]
pub(crate) struct Search {
    /// Rows before this are known or not wanted.
    floor: Stamp,
    before: Option<Stamp>,
    /// The oldest row found so far.
    oldest: Option<(Uuid, Stamp)>,
    pages: u32,
}

impl Molecule {
    /// Looks back for rows that appeared behind the cursor; what is before it is read by every look. Pages come
    /// newest first and are taken in oldest first, so that what came late keeps its order.
    pub(crate) async fn sweep<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
    ) -> Result<(), Trouble> {
        let Some(until) = reader.cursor.as_ref().map(|cursor| cursor.at) else {
            return Ok(());
        };
        for feed in self.unread(reader, until).await?.into_iter().rev() {
            let (mut page, _) = self.page(reader, PageSize::Usual, &feed).await?;
            page.rows
                .retain(|row| row.at().is_none_or(|at| at <= until));
            self.take(inbox, reader, page, Holds::Aside).await?;
        }
        Ok(())
    }

    /// The pages of a sweep, newest first, that show rows which were not read.
    async fn unread(
        &self,
        reader: &mut FeedReader,
        until: Stamp,
    ) -> Result<Vec<FeedQuery>, Trouble> {
        let mut feed = FeedQuery {
            since_secs: Some(SWEEP_SECS),
            ..FeedQuery::default()
        };
        let (mut floor, mut unread) = (None, Vec::new());
        for _ in 0..SWEEP_PAGES_MAX {
            let (page, whole) = self.page(reader, PageSize::Usual, &feed).await?;
            let Some(span) = Span::of(&page) else {
                return Ok(unread);
            };
            let floor = *floor.get_or_insert(span.newest.plus_ms(-SWEEP_MS));
            let is_unread = |row: &Row| {
                let is_behind = row.at().is_none_or(|at| at <= until);
                is_behind && row.id().is_none_or(|id| !reader.seen.has(&id))
            };
            if page.rows.iter().any(is_unread) {
                unread.push(feed.clone());
            }
            if whole || span.oldest < floor {
                return Ok(unread);
            }
            feed = FeedQuery {
                before: Some(step_back(feed.before, span.oldest)),
                ..FeedQuery::default()
            };
        }
        tracing::warn!(channel = %self.channel(), "more rows in two minutes than a sweep looks at");
        Ok(unread)
    }

    /// Goes back to the newest row that is known or not wanted, and reads forward from there, so that rows come into
    /// the ledger oldest first however many there are.
    pub(crate) async fn find_place<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
    ) -> Result<(), Trouble> {
        loop {
            let feed = FeedQuery {
                before: reader.search.as_ref().and_then(|search| search.before),
                ..FeedQuery::default()
            };
            let (page, whole) = self.page(reader, PageSize::Usual, &feed).await?;
            let search = match &mut reader.search {
                Some(search) => search,
                None => {
                    let floor = self.floor(reader.cursor.as_ref(), &page);
                    reader.search.insert(Search::new(floor))
                }
            };
            let floor = search.floor;
            let Some(found) = search.step(&page, whole) else {
                continue;
            };
            reader.search = None;
            let oldest = match &found {
                FeedStart::Page => Span::of(&page).map(|span| span.oldest),
                FeedStart::After(_, at) => Some(*at),
                FeedStart::At(row) => row.map(|(_, at)| at),
            };
            self.tell_gap(reader, oldest);
            let mut cursor = match &reader.cursor {
                Some(cursor) => cursor.clone(),
                None => Cursor::begin(floor),
            };
            match &found {
                FeedStart::After(row, at) => cursor.move_to(*row, *at, None),
                FeedStart::Page | FeedStart::At(_) => cursor.row = None,
            }
            self.store(inbox, reader, cursor).await?;
            return match found {
                FeedStart::Page => self.take_all(inbox, reader, page).await,
                FeedStart::After(row, _) => {
                    reader.trail.start_at(row);
                    self.forward(inbox, reader, row, Holds::FOLLOWING).await
                }
                FeedStart::At(row) => self.read_from_start(inbox, reader, row).await,
            };
        }
    }

    /// Takes in a feed that is no longer than a page.
    async fn take_all<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        mut page: FeedPage,
    ) -> Result<(), Trouble> {
        let mut round = FeedRound::default();
        round.cut(&mut page, reader.seen.newest());
        let places = places(&page.rows);
        self.take(inbox, reader, page, Holds::FOLLOWING).await?;
        if let Some(as_of) = round.as_of() {
            reader.trail.note(&places, as_of);
        }
        Ok(())
    }

    /// Reads from the feed's first row on, that one included.
    async fn read_from_start<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        oldest: Option<(Uuid, Stamp)>,
    ) -> Result<(), Trouble> {
        let Some((row, at)) = oldest else {
            return Ok(());
        };
        let feed = FeedQuery {
            before: Some(at.plus_us(1)),
            ..FeedQuery::default()
        };
        let round = FeedRound::since(reader.seen.newest());
        let (page, _) = self.page(reader, PageSize::Usual, &feed).await?;
        self.take(inbox, reader, page, Holds::FOLLOWING).await?;
        self.go_on(inbox, reader, row, Holds::FOLLOWING, round)
            .await
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
    fn tell_gap(&self, reader: &mut FeedReader, oldest: Option<Stamp>) {
        let Some(last) = reader.lost.take() else {
            return;
        };
        let shown = oldest.map_or_else(|| "nothing".to_owned(), |at| at.to_string());
        let channel = self.channel();
        if oldest.is_some_and(|oldest| oldest <= last) {
            tracing::info!(%channel, last_journaled = %last, oldest_shown = shown, "the platform has forgotten the row that was read last; its feed reaches further back, so nothing is missing")
        } else {
            tracing::warn!(%channel, last_journaled = %last, oldest_shown = shown, "the platform has forgotten the row that was read last; what came between these times and was forgotten too is lost")
        }
    }
}

/// Where a search ended, and the feed is read forward from.
enum FeedStart {
    /// The page is the whole feed, and nothing in it is from before the floor.
    Page,
    /// After this row, the newest one from before the floor.
    After(Uuid, Stamp),
    /// At the feed's first row.
    At(Option<(Uuid, Stamp)>),
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

    /// Looks at one page; `None` when the search goes on further back.
    fn step(&mut self, page: &FeedPage, whole: bool) -> Option<FeedStart> {
        self.pages = self.pages.saturating_add(1);
        let mut rows = places(&page.rows);
        rows.sort_by_key(|(_, at)| *at);
        if let Some((row, at)) = rows.iter().rev().find(|(_, at)| *at < self.floor) {
            return Some(FeedStart::After(*row, *at));
        }
        if whole && self.before.is_none() {
            return Some(FeedStart::Page);
        }
        let Some(oldest) = rows.first().copied() else {
            return Some(FeedStart::At(self.oldest));
        };
        let stuck = self.oldest == Some(oldest);
        self.before = Some(match stuck {
            // A whole page of one microsecond, or the feed's first row once more: go on before it.
            true => oldest.1,
            false => step_back(self.before, oldest.1),
        });
        self.oldest = Some(oldest);
        (self.pages >= BACK_PAGES_MAX).then_some(FeedStart::At(self.oldest))
    }
}
