//! Looks for a text in the newest messages and their answers: no index of words, because both engines must find the same,
//! and an index would cost every message.

use super::fields::Fields;
use crate::page;
use crate::sql::{self, Conn};
use bridge_core::port::{FoundIn, RowsError, SearchHit, SearchPage, SearchQuery};
use bridge_core::value::MessageId;

/// The texts stay where they are: of each message there is its number and where the text stands.
pub(crate) const SEARCH: &str = "SELECT message_id, row, \
     CASE WHEN body LIKE ?2 ESCAPE '!' THEN 1 WHEN answer.text LIKE ?2 ESCAPE '!' THEN 2 ELSE 0 END \
     FROM (SELECT row, message_id FROM message WHERE row < ?1 ORDER BY row DESC LIMIT ?3) AS newest \
     JOIN message_text USING (row) LEFT JOIN answer USING (message_id) ORDER BY row DESC";

pub(crate) fn page_of(conn: Conn<'_>, query: &SearchQuery) -> Result<SearchPage, RowsError> {
    let wanted = page(query.limit);
    let before = query.before.unwrap_or(i64::MAX);
    let mut found = SearchPage::default();
    let mut last = None;
    let of = (before, pattern(&query.text), query.reach);
    sql::find(conn, SEARCH, of, |row| {
        let mut fields = Fields::of("message", row);
        let message_id = fields.id(MessageId::new)?;
        last = Some(fields.next::<i64>()?);
        found.looked_at = found.looked_at.saturating_add(1);
        let place = match fields.next::<i64>()? {
            0 => return Ok(None),
            1 => FoundIn::Text,
            _ => FoundIn::Answer,
        };
        found.found.push(SearchHit { message_id, place });
        Ok((u32::try_from(found.found.len()) == Ok(wanted)).then_some(()))
    })?;
    let is_full = u32::try_from(found.found.len()) == Ok(wanted);
    let is_cut = is_full || found.looked_at == query.reach;
    found.next = last.filter(|_| is_cut);
    Ok(found)
}

/// Anything before and behind it, and nothing in it that stands for something else.
fn pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for c in text.chars() {
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}
