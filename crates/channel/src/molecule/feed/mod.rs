//! Reading the feed forward: from the cursor, or from nearer the newest row after an event. Every row goes into the
//! ledger before the cursor moves.
//!
//! Reading backward is in `backward`. When the feed is read, and what happens when it can't be, is `source`'s business.

pub(crate) mod backward;
pub(crate) mod cursor;
pub(crate) mod order;
pub(crate) mod source;
pub(crate) mod wake;

use crate::http::HttpError;
use crate::inbox::{Arrival, Inbox, Page, check_key};
use crate::molecule::Molecule;
use crate::molecule::client::{FeedQuery, PAGE_ROWS, QUICK_PAGE_ROWS};
use crate::molecule::feed::backward::Search;
use crate::molecule::feed::cursor::{Cursor, Edition, SeenRows};
use crate::molecule::feed::order::{Edge, FeedRound, Trail, places};
use crate::molecule::files::intake::Sorted;
use crate::molecule::files::intake::UploadAcks;
use crate::molecule::files::{FilePatience, Later};
use crate::molecule::push::is_answered;
use crate::molecule::row::identity;
use crate::molecule::row::origin::Origin;
use crate::molecule::row::{self, Reading, RowContext};
use crate::molecule::wire::{FeedPage, Row, Stamp};
use crate::poll::Unkept;
use bridge_core::port::{LedgerError, TRACE};
use bridge_core::step::Received;
use bridge_core::value::Tier;
use std::collections::HashSet;
use uuid::Uuid;

/// Pages that one look reads forward; more than a platform keeps.
const FORWARD_PAGES_MAX: u32 = 10_000;
/// How often one look begins again because rows came while it was read; what is left then comes with the next look,
/// so that acks and sweeps have their turn however many rows come.
const ROUNDS_MAX: u32 = 4;

/// Why a look ended early. Nothing is lost: the cursor stands where everything before it is in the ledger.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The platform did not show its rows.
    #[error(transparent)]
    Call(#[from] HttpError),
    /// Too much waits already.
    #[error("too many messages wait already; the platform keeps the rest")]
    Full,
    /// The ledger could not keep them.
    #[error("the database can't take them: {0}")]
    Ledger(#[from] LedgerError),
    /// A file of a message did not come, and the message waits for it.
    #[error(transparent)]
    Files(#[from] Later),
}

/// What a reader of the feed remembers between two looks.
#[derive(Debug, Default)]
pub(crate) struct FeedReader {
    /// As the ledger has it.
    pub(crate) cursor: Option<Cursor>,
    /// Where a quick look begins.
    pub(crate) trail: Trail,
    pub(crate) seen: SeenRows,
    /// Rows to ask for at once.
    limit: Limit,
    /// The same for a quick look.
    quick_limit: Limit,
    /// A search for the place that was interrupted.
    pub(crate) search: Option<Search>,
    /// The time of a row that the platform has forgotten, until its place is found.
    pub(crate) lost: Option<Stamp>,
    unkept: Unkept,
    /// How often files of rows did not come.
    pub(crate) patience: FilePatience,
    /// Uploads whose messages are on disk.
    pub(crate) acks: UploadAcks,
    /// The log has said that unmarked messages are those of peers.
    warned_of_unmarked: bool,
}

impl From<Option<Cursor>> for FeedReader {
    fn from(cursor: Option<Cursor>) -> Self {
        Self {
            cursor,
            quick_limit: Limit::new(QUICK_PAGE_ROWS),
            ..Self::default()
        }
    }
}

/// Rows to ask for at once: fewer after a page that was too long.
#[derive(Debug)]
pub(crate) struct Limit {
    rows: usize,
    most: usize,
}

impl Limit {
    fn new(most: usize) -> Self {
        Self { rows: most, most }
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self::new(PAGE_ROWS)
    }
}

/// How many rows a page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageSize {
    Usual,
    Quick,
    One,
}

/// Whether the cursor may move over a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// It follows on what was read from the cursor on.
    Following {
        /// Only over rows from before this: others of this moment may be on the next page.
        before: Option<Stamp>,
    },
    /// It is a look ahead or back.
    Aside,
}

impl Holds {
    pub(crate) const FOLLOWING: Self = Self::Following { before: None };

    fn before(self, before: Option<Stamp>) -> Self {
        match self {
            Self::Following { .. } => Self::Following { before },
            Self::Aside => Self::Aside,
        }
    }
}

impl Molecule {
    /// Reads everything after the cursor, and finds the cursor's place if it has none or lost it.
    pub(crate) async fn look<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
    ) -> Result<(), Trouble> {
        let Some(row) = reader.cursor.as_ref().and_then(|cursor| cursor.row) else {
            return self.find_place(inbox, reader).await;
        };
        reader.trail.start_at(row);
        match self.forward(inbox, reader, row, Holds::FOLLOWING).await {
            Err(Trouble::Call(error)) if is_gone(&error) => {
                reader.lost = reader.cursor.as_ref().map(|cursor| cursor.at);
                reader.trail = Trail::default();
                self.find_place(inbox, reader).await
            }
            read => read,
        }
    }

    /// Reads what may be new after an event: one call.
    pub(crate) async fn look_ahead<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
    ) -> Result<(), Trouble> {
        match reader.trail.start() {
            Some(start) => match self.forward(inbox, reader, start, Holds::Aside).await {
                Err(Trouble::Call(error)) if is_gone(&error) => {
                    reader.trail = Trail::default();
                    self.look(inbox, reader).await
                }
                read => read,
            },
            None => self.look(inbox, reader).await,
        }
    }

    /// Reads forward until nothing is left; a look ahead is content with a page that is not full.
    pub(crate) async fn forward<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        from: Uuid,
        holds: Holds,
    ) -> Result<(), Trouble> {
        self.go_on(inbox, reader, from, holds, FeedRound::default())
            .await
    }

    /// Reads forward in a round. Rows that came while it was read may be ahead of others of their sender; they are
    /// left for another round, which begins before all of them.
    pub(crate) async fn go_on<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        from: Uuid,
        holds: Holds,
        mut round: FeedRound,
    ) -> Result<(), Trouble> {
        let (mut after, mut asked_again, mut asked_newest, mut rounds) = (from, false, false, 0);
        let size = match holds {
            Holds::Following { .. } => PageSize::Usual,
            Holds::Aside => PageSize::Quick,
        };
        for _ in 0..FORWARD_PAGES_MAX {
            let feed = FeedQuery {
                since_id: Some(after.hyphenated().to_string()),
                ..FeedQuery::default()
            };
            let (mut page, whole) = self.page(reader, size, &feed).await?;
            let last = page.rows.iter().rev().find_map(id_of);
            let (edge, rows) = (Edge::of(&page, whole), page.rows.len());
            let moment = match edge {
                Edge::Divided { moment, .. } => Some(moment),
                Edge::Whole | Edge::Moment => None,
            };
            let is_first = round.is_new();
            let left = round.cut(&mut page, reader.seen.newest());
            let places = places(&page.rows);
            self.take(inbox, reader, page, holds.before(moment)).await?;
            if let Some(as_of) = round.as_of() {
                reader.trail.note(&places, as_of);
            }
            // More pages follow, and nothing newer than this one was ever seen: without a later time, each would have
            // to be read twice.
            let is_newest = places.last().map(|(_, at)| *at) == round.as_of();
            let is_unknown = is_first && !whole && !asked_newest && is_newest;
            if is_unknown {
                asked_newest = true;
                self.page(reader, PageSize::One, &FeedQuery::default())
                    .await?;
            }
            if left || is_unknown {
                rounds += 1;
                match reader.trail.start().filter(|_| rounds < ROUNDS_MAX) {
                    Some(start) => after = start,
                    None => {
                        self.0.bell.notify_one();
                        return Ok(());
                    }
                }
                (round, asked_again) = (FeedRound::default(), false);
                continue;
            }
            match (edge, last) {
                (Edge::Divided { from, .. }, _) if from != after => after = from,
                // A page that was cut short for its length is longer the next time.
                (Edge::Moment, Some(_)) if !asked_again && reader.asks_for(size) > rows => {
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
            if whole && holds == Holds::Aside {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One page, however long its rows are; and whether the platform has no more of them for this question.
    pub(crate) async fn one_page(
        &self,
        limit: &mut Limit,
        feed: &FeedQuery,
    ) -> Result<(FeedPage, bool), HttpError> {
        loop {
            match self.0.client.feed(feed, limit.rows).await {
                Ok(page) => {
                    let rows = page.rows.len();
                    tracing::debug!(target: TRACE, at = "page", channel = %self.channel(), rows);
                    let whole = rows < limit.rows;
                    limit.rows = limit.rows.saturating_mul(2).min(limit.most);
                    self.0.clocks.note(page.date);
                    return Ok((page, whole));
                }
                Err(HttpError::TooLong(_)) if limit.rows > 1 => {
                    limit.rows = (limit.rows / 4).max(1);
                }
                Err(HttpError::TooLong(_)) => {
                    let rows = vec![self.0.client.feed_head(feed).await?];
                    return Ok((FeedPage { rows, date: None }, false));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A page that the reader knows the times of.
    pub(crate) async fn page(
        &self,
        reader: &mut FeedReader,
        size: PageSize,
        feed: &FeedQuery,
    ) -> Result<(FeedPage, bool), HttpError> {
        let mut one = Limit::new(1);
        let limit = match size {
            PageSize::Usual => &mut reader.limit,
            PageSize::Quick => &mut reader.quick_limit,
            PageSize::One => &mut one,
        };
        let (page, whole) = self.one_page(limit, feed).await?;
        for at in page.rows.iter().filter_map(Row::at) {
            reader.seen.note_time(at, page.date);
        }
        Ok((page, whole))
    }

    /// Puts a page into the ledger, with how far the feed was read if that moved.
    pub(crate) async fn take<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        mut page: FeedPage,
        holds: Holds,
    ) -> Result<(), Trouble> {
        page.rows.sort_by_key(|row| (row.at(), row.seq()));
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
            // What an agent answered when the platform called it, us or one before us, is no news.
            if !reader.seen.has(&id) && !old && !is_answered(row) {
                match row::read(row, self.ground()) {
                    Reading::Message(mut incoming) => {
                        identity::assign(&mut incoming.arrival, row);
                        let known = incoming.arrival.external_id.to_string();
                        if !reader.seen.has(&known) && named.insert(known) {
                            self.warn_of_unmarked(reader, &incoming.arrival);
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
            // The cursor must not pass a message that waits for a file, so it moves in a commit of its own, last.
            self.commit(inbox, reader, ready, None).await?;
            let taken = self.take_waiting(inbox, reader, sorted).await;
            reader.acks.send_due(&self.0.client).await;
            taken?;
            let moved = self.moved(reader, &page.rows, holds);
            self.commit(inbox, reader, Vec::new(), moved).await?;
        } else {
            let moved = self.moved(reader, &page.rows, holds);
            self.commit(inbox, reader, ready, moved).await?;
            reader.acks.send_due(&self.0.client).await;
        }
        // Last, because a row that is marked as seen is never read again.
        ids.into_iter().for_each(|id| reader.seen.add(id));
        self.answer_notices(&notices).await;
        Ok(())
    }

    /// Where the cursor goes over a page, if it does.
    fn moved(&self, reader: &FeedReader, rows: &[Row], holds: Holds) -> Option<Cursor> {
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

    pub(crate) async fn store<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
        cursor: Cursor,
    ) -> Result<(), Trouble> {
        if reader.cursor.as_ref() == Some(&cursor) {
            return Ok(());
        }
        self.commit(inbox, reader, Vec::new(), Some(cursor)).await
    }

    pub(crate) async fn commit<D: Inbox>(
        &self,
        inbox: &D,
        reader: &mut FeedReader,
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
        let received = inbox.take_page(page).await?;
        self.0.pushes.committed();
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
        // Only after the commit: rows of a page that failed or did not fit are read again by the next look.
        ids.into_iter().for_each(|id| reader.seen.add(id));
        if let Some(cursor) = moved {
            self.learn(cursor.edition);
            reader.cursor = Some(cursor);
        }
        Ok(())
    }

    /// Says once where the operator trusts the canvas and the platform does not mark it.
    fn warn_of_unmarked(&self, reader: &mut FeedReader, arrival: &Arrival) {
        let origins = &self.0.settings.origins;
        let unsaid = !origins.tiers.contains_key(&Origin::Unmarked);
        let trusted = origins.tier(Origin::Canvas) == Tier::Owner;
        let unmarked = arrival.sender == Origin::Unmarked.as_str();
        if unmarked && trusted && unsaid && !reader.warned_of_unmarked {
            reader.warned_of_unmarked = true;
            tracing::warn!(channel = %self.channel(), "the platform did not mark who wrote a message, so its writer is a peer; a platform older than July 2026 marks nobody: say `unmarked = \"owner\"` under [molecule.origins] if nobody but you can write there without a workspace's token");
        }
    }

    pub(crate) fn ground(&self) -> RowContext<'_> {
        RowContext {
            own: self.0.client.workspace_id(),
            channel: self.channel(),
            origins: &self.0.settings.origins,
        }
    }
}

impl FeedReader {
    fn asks_for(&self, size: PageSize) -> usize {
        match size {
            PageSize::Usual => self.limit.rows,
            PageSize::Quick => self.quick_limit.rows,
            PageSize::One => 1,
        }
    }
}

/// From when to when the rows of a page are.
pub(crate) struct Span {
    pub(crate) newest: Stamp,
    pub(crate) oldest: Stamp,
}

impl Span {
    pub(crate) fn of(page: &FeedPage) -> Option<Self> {
        let times = || page.rows.iter().filter_map(Row::at);
        Some(Self {
            newest: times().max()?,
            oldest: times().min()?,
        })
    }
}

/// Where the next page back ends. Rows of the same microsecond may be on both sides of a page's edge, so the oldest
/// moment is asked for again, unless that would ask the same question twice.
pub(crate) fn step_back(before: Option<Stamp>, oldest: Stamp) -> Stamp {
    let with_its_twins = oldest.plus_us(1);
    if before == Some(with_its_twins) {
        oldest
    } else {
        with_its_twins
    }
}

pub(crate) fn id_of(row: &Row) -> Option<Uuid> {
    Uuid::parse_str(&row.id()?).ok()
}

fn is_gone(error: &HttpError) -> bool {
    error.status() == Some(reqwest::StatusCode::GONE)
}
