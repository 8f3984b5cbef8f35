//! What fronts ask of a ledger, with little and with a history behind it: a list, a story, a status must cost the same.

use super::growth;
use super::place::Place;
use crate::stats::{median, millis};
use bridge_core::port::{Ledger, LedgerError, Read, RowsError};
use bridge_core::value::{MessageId, StateName, Timestamp};
use bridge_hot::fill::fill;
use bridge_hot::life::{EPOCH_MS, Lives};
use std::time::Instant;

/// A page, as the fronts give it.
const PAGE: u32 = 50;

/// How often each question is asked; the first time does not count.
const TIMES: usize = 15;

/// Finished messages behind the smaller ledger: more than any question looks at.
pub(crate) const LITTLE: u64 = 3_000;

/// A day in the time of these ledgers, in which a message takes some milliseconds: 2,000 to 3,000 messages.
const DAY_MS: i64 = 24_000;

/// What is asked: the words for the table, and the reads; the number of rows is checked to be the same.
type Ask = fn(&dyn Read, &MessageId) -> Result<usize, RowsError>;

const QUESTIONS: [(&str, Ask); 8] = [
    ("status: messages by state", |rows, _| {
        Ok(rows.counts()?.len())
    }),
    ("status: figures of a day", |rows, _| {
        let newest = rows.newest_time()?.unwrap_or(Timestamp(EPOCH_MS));
        let figures = rows.figures(newest.plus_ms(-DAY_MS))?;
        Ok(usize::from(figures.answered > 0))
    }),
    ("list of messages, first page", |rows, _| {
        Ok(rows.newest_messages(PAGE)?.len())
    }),
    ("list of messages, next page", |rows, newest| {
        Ok(rows.older_messages(newest, PAGE)?.len())
    }),
    ("list of conversations", |rows, _| {
        Ok(rows.conversations(None, PAGE)?.len())
    }),
    ("list of dead letters", |rows, _| {
        Ok(rows.messages_in(StateName::Dead, None, PAGE)?.len())
    }),
    ("one message by the beginning of its id", |rows, newest| {
        Ok(rows.message_ids_by_prefix(newest.as_str(), 2)?.len())
    }),
    ("why: one message and all that happened to it", story),
];

fn story(rows: &dyn Read, newest: &MessageId) -> Result<usize, RowsError> {
    let Some(message) = rows.message(newest)? else {
        return Ok(0);
    };
    let parts = [
        usize::from(rows.conversation(&message.conversation_id)?.is_some()),
        usize::from(rows.turn(newest, message.life.attempt)?.is_some()),
        usize::from(rows.answer(newest)?.is_some()),
        rows.replies(newest)?.len(),
        rows.events(newest, 0, PAGE)?.len(),
        rows.requests(newest)?.len(),
        rows.audit_of(newest, PAGE)?.len(),
    ];
    Ok(parts.iter().sum())
}

/// One question and what it takes in milliseconds, with little and with the history behind.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) words: &'static str,
    pub(crate) without: f64,
    pub(crate) with: f64,
}

/// The larger ledger was measured before.
pub(crate) async fn measure(place: &Place, behind: u64) -> anyhow::Result<Vec<Asked>> {
    let (small, large) = (place.file("little.db"), place.file(&growth::name(behind)));
    fill(&small, LITTLE).await?;
    let without = Lives::open(&small, LITTLE)?;
    let with = Lives::open(&large, behind)?;
    let mut all = Vec::new();
    for (words, ask) in QUESTIONS {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for time in 0..=TIMES {
            let (few, fast) = timed(&without, ask).await?;
            let (many, slow) = timed(&with, ask).await?;
            anyhow::ensure!(
                few == many,
                "{words}: {few} rows with little behind and {many} with much"
            );
            if time > 0 {
                one.push(fast);
                other.push(slow);
            }
        }
        all.push(Asked {
            words,
            without: median(&one),
            with: median(&other),
        });
    }
    without.close(&small).await?;
    with.close(&large).await?;
    Ok(all)
}

async fn timed(lives: &Lives, ask: Ask) -> Result<(usize, f64), LedgerError> {
    let newest = lives.ledger().read(|rows| rows.newest_messages(1)).await?;
    let newest = newest.into_iter().next().map(|message| message.message_id);
    let newest = newest.unwrap_or_else(|| MessageId::new("none"));
    let began = Instant::now();
    let rows = lives.ledger().read(move |rows| ask(rows, &newest)).await?;
    Ok((rows, millis(began.elapsed())))
}
