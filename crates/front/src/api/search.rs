//! Looking for a text in what was said and answered lately.

use super::extract::Params;
use super::{Context, ProblemResponse};
use crate::{BridgeService, Time};
use axum::Json;
use axum::extract::State;
use bridge_core::limits::{SEARCH_CHUNK, SEARCH_SCAN_MAX};
use bridge_core::phase::Phase;
use bridge_core::port::{FoundIn, Read, RowsError, SearchHit, SearchPage, SearchQuery, readable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const LIMIT_DEFAULT: u32 = 20;
const LIMIT_MAX: u32 = 100;
/// Longest text that is looked for.
const TEXT_MAX_CHARS: usize = 200;
/// What is shown before and behind the place.
const BEFORE_CHARS: usize = 60;
const BEHIND_CHARS: usize = 140;

/// Answer to `GET /v1/search`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SearchList {
    /// Newest first.
    pub found: Vec<FoundMessage>,
    /// How many messages were looked through.
    pub looked_at: u32,
    /// The same as a sentence.
    pub detail: String,
    /// What to give as `before` to go on with older ones; absent when all were looked through.
    pub next: Option<i64>,
}

/// A message that has the text, or whose answer has it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FoundMessage {
    pub message_id: String,
    pub conversation_id: String,
    pub channel: String,
    /// The conversation's key.
    pub conversation: String,
    pub sender: String,
    /// When it came.
    pub received_at: Time,
    /// Where it is, in the words of people.
    pub phase: String,
    /// `text` or `answer`: where the text stands.
    pub place: String,
    /// What stands around it, on one line.
    pub excerpt: String,
}

/// What is looked for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchParams {
    /// The text, as it is, at most 200 characters; ASCII letters are the same in both cases.
    text: String,
    /// How many, at most; 20 when absent.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<u32>,
    /// The `next` of the page before.
    before: Option<i64>,
}

pub(super) async fn list<D: BridgeService>(
    State(context): State<Context<D>>,
    Params(params): Params<SearchParams>,
) -> Result<Json<SearchList>, ProblemResponse> {
    let text = params.text;
    let length = text.chars().count();
    if text.trim().is_empty() || length > TEXT_MAX_CHARS || text.contains('\0') {
        return Err(ProblemResponse::unprocessable(format!(
            "`text` is what is looked for, 1 to {TEXT_MAX_CHARS} characters"
        )));
    }
    let mut query = SearchQuery {
        text,
        before: params.before,
        limit: params.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX),
        reach: SEARCH_CHUNK,
    };
    // One search at a time and in pieces, so that it holds one reader for a moment.
    let _turn = context.shared.searching.lock().await;
    let (mut found, mut looked_at) = (Vec::new(), 0_u32);
    let next = loop {
        let piece = query.clone();
        let piece = context.service.read(move |rows| look(rows, &piece)).await?;
        looked_at = looked_at.saturating_add(piece.looked_at);
        query.limit = query.limit.saturating_sub(piece.hits);
        query.before = piece.next;
        found.extend(piece.found);
        if piece.next.is_none() || query.limit == 0 || looked_at >= SEARCH_SCAN_MAX {
            break piece.next;
        }
    };
    let detail = match (next, params.before) {
        (Some(_), _) => format!("searched {looked_at} messages; older ones were not looked at"),
        (None, Some(_)) => format!("searched the oldest {looked_at} messages"),
        (None, None) => format!("searched all {looked_at} messages"),
    };
    Ok(Json(SearchList {
        found,
        looked_at,
        detail,
        next,
    }))
}

/// What one look found.
struct SearchPiece {
    found: Vec<FoundMessage>,
    /// With those whose rows can't be read.
    hits: u32,
    looked_at: u32,
    next: Option<i64>,
}

fn look(rows: &dyn Read, query: &SearchQuery) -> Result<SearchPiece, RowsError> {
    let SearchPage {
        found: hits,
        looked_at,
        next,
    } = rows.search(query)?;
    let count = u32::try_from(hits.len()).unwrap_or(u32::MAX);
    let mut found = Vec::with_capacity(hits.len());
    for hit in hits {
        found.extend(readable(in_detail(rows, hit, &query.text))?.flatten());
    }
    Ok(SearchPiece {
        found,
        hits: count,
        looked_at,
        next,
    })
}

fn in_detail(
    rows: &dyn Read,
    found: SearchHit,
    text: &str,
) -> Result<Option<FoundMessage>, RowsError> {
    let Some(message) = rows.message(&found.message_id)? else {
        return Ok(None);
    };
    let conversation = rows.conversation(&message.conversation_id)?;
    let (place, excerpt) = match found.place {
        FoundIn::Text => ("text", excerpt(&message.body, text)),
        FoundIn::Answer => {
            let answer = rows.answer(&found.message_id)?;
            let answer = answer.map_or_else(String::new, |answer| answer.text);
            ("answer", excerpt(&answer, text))
        }
    };
    Ok(Some(FoundMessage {
        message_id: message.message_id.to_string(),
        conversation_id: message.conversation_id.to_string(),
        channel: message.channel.to_string(),
        conversation: conversation.map_or_else(String::new, |found| found.external_key),
        phase: Phase::of_message(&message, false).as_str().to_owned(),
        received_at: message.received_at.into(),
        place: place.to_owned(),
        excerpt,
        sender: message.sender,
    }))
}

/// What stands around the first place of a text in another.
fn excerpt(whole: &str, text: &str) -> String {
    // Both keep the places of their bytes.
    let place = whole.to_ascii_lowercase().find(&text.to_ascii_lowercase());
    let (before, behind) = whole
        .split_at_checked(place.unwrap_or(0))
        .unwrap_or(("", whole));
    let skipped = before.chars().count().saturating_sub(BEFORE_CHARS);
    let head = before.chars().skip(skipped);
    let tail = behind.chars().take(BEHIND_CHARS);
    let line: String = head.chain(tail).collect();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    let is_long = behind.chars().nth(BEHIND_CHARS).is_some();
    format!("{}{line}{}", cut(skipped > 0), cut(is_long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_show_the_place() {
        assert_eq!(excerpt("Say\n  HELLO world", "hello"), "Say HELLO world");
        let long = format!("{}Käse{}", "ä".repeat(200), "ö".repeat(200));
        let shown = excerpt(&long, "käse".to_ascii_uppercase().as_str());
        assert!(shown.starts_with('…') || shown.starts_with('ä'), "{shown}");
        let shown = excerpt(&long, "Käse");
        assert!(shown.contains("äKäseö") && shown.starts_with('…') && shown.ends_with('…'));
        assert_eq!(excerpt("", "x"), "");
    }
}
