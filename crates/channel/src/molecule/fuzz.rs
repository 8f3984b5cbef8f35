//! Entry points for the fuzzer: what the bytes of a Molecule platform go through, without a connection around it.
//! Each returns what was read in words, so that two readings can be compared. No part of the daemon calls them.

use crate::http::parse;
use crate::molecule::feed::wake::Lines;
use crate::molecule::row::origin::{Origin, Origins};
use crate::molecule::row::{Reading, RowContext, read};
use crate::molecule::wire::Row;
use bridge_core::step::Verdict;
use bridge_core::value::{ChannelId, Tier};
use serde_json::value::RawValue;

/// The workspace that reads.
pub const OWN: &str = "2a481319-a8c5-4c0a-90b6-aa3367a34a5a";

/// What one row of a page was read as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRead {
    /// Everything that was read, in words.
    pub words: String,
    /// The text for Codex, if the row is a message that may be answered.
    pub text: Option<String>,
}

/// Reads a page of the feed.
///
/// # Errors
///
/// It is no page.
pub fn page(bytes: &[u8]) -> Result<Vec<RowRead>, String> {
    let channel = ChannelId::new("molecule:fuzz");
    let origins = Origins::of([Origin::Canvas], Tier::Owner);
    let ground = RowContext {
        own: OWN,
        channel: &channel,
        origins: &origins,
    };
    let rows: Vec<Box<RawValue>> = parse(bytes).map_err(|error| error.to_string())?;
    let read_row = |raw: &RawValue| {
        let row = Row::split(raw);
        let reading = read(&row, ground);
        let text = match &reading {
            Reading::Message(incoming) => match incoming.arrival.verdict {
                Verdict::Fit => Some(incoming.arrival.body.clone()),
                Verdict::Unfit { .. } => None,
            },
            Reading::NoMessage | Reading::Platform(_) | Reading::Nothing(_) => None,
        };
        let words = format!("{reading:?} {:?} {:?}", row.at(), row.seq());
        RowRead { words, text }
    };
    Ok(rows.iter().map(|raw| read_row(raw)).collect())
}

/// Reads the first bytes of a page whose rows are too long.
#[must_use]
pub fn head_of_page(bytes: &[u8]) -> String {
    let row = Row::of_head(bytes);
    format!("{:?} {:?} {:?}", row.id(), row.at(), row.seq())
}

/// Reads a stream of events in two pieces; whether any of it may be news.
#[must_use]
pub fn events(first: &[u8], second: &[u8]) -> bool {
    let mut lines = Lines::default();
    let early = lines.push(first);
    lines.push(second) || early
}
