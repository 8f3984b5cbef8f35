//! What people mean by a reference: an id or its end or beginning, `last`, or the name of a conversation.
//!
//! Exact names come before parts of ids, and where several things match all of them are returned: nothing is guessed.

use crate::channels::{LOCAL, OF_TOKENS, TASK};
use crate::limits::{CANDIDATES_MAX, REFERENCE_MIN_CHARS, SHORT_ID_CHARS};
use crate::port::{Read, RowsError};
use crate::value::{ChannelId, Conversation, ConversationId, Message, MessageId, TaskId};

/// What begins the id of a task.
pub const TASK_PREFIX: &str = "codex-";
/// The newest message of whoever asks.
const LAST: &str = "last";

/// Newest messages of one sender that a part of an id is looked for among, and how many are read at a time.
const OWN_LOOKED_AT: usize = 1_000;
const OWN_PAGE: u32 = 100;

/// Whose messages a part of an id may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Everybody's.
    All,
    /// Those of who asks: others' neither show nor take the place of their own.
    Own,
}

/// Something that a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Message(MessageId),
    /// A started task.
    Task(TaskId),
}

/// Looks for what `reference` names; `named` are the conversations that the caller means by it, and `sender` asks. Whole
/// ids are not checked by `scan`: whoever shows what is found looks at it first.
/// Nothing, one, or several among which a person must choose, at most [`CANDIDATES_MAX`].
pub fn find(
    rows: &dyn Read,
    reference: &str,
    named: Vec<Conversation>,
    sender: &str,
    scan: Scan,
) -> Result<Vec<Found>, RowsError> {
    let reference = reference.trim();
    if reference == LAST {
        let own = [LOCAL, TASK].map(ChannelId::new);
        let newest = rows.messages_of_sender(sender, &own, None, 1)?;
        let newest = newest.into_iter().map(|newest| whole(rows, newest));
        return newest.collect();
    }
    let id = reference.to_ascii_lowercase();
    if let Some(message) = rows.message(&MessageId::new(id.as_str()))? {
        return Ok(vec![Found::Message(message.message_id)]);
    }
    if let Some(task) = rows.task(&TaskId::new(id.as_str()))?
        && task.start.is_some()
    {
        return Ok(vec![Found::Task(task.task_id)]);
    }
    let mut found = Vec::new();
    for conversation in named {
        for newest in rows.messages_before(&conversation.conversation_id, None, 1)? {
            found.push(whole(rows, newest)?);
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    match scan {
        Scan::All => by_part(rows, &id),
        Scan::Own => own_by_part(rows, &id, sender),
    }
}

/// The task that a message is of, where it is of one: who names no message means all of it.
fn whole(rows: &dyn Read, message: Message) -> Result<Found, RowsError> {
    let task = rows.started_task(&message.conversation_id)?;
    Ok(match task {
        Some(task) => Found::Task(task.task_id),
        None => Found::Message(message.message_id),
    })
}

/// The conversations that a name means: one by its id, else those with this key. The local one of several is meant,
/// because its name is the only one that people chose here.
pub fn conversations(rows: &dyn Read, name: &str) -> Result<Vec<Conversation>, RowsError> {
    if let Some(conversation) = rows.conversation(&ConversationId::new(name))? {
        return Ok(vec![conversation]);
    }
    if let Some(local) = rows.conversation_by_key(&ChannelId::new(LOCAL), name)? {
        return Ok(vec![local]);
    }
    rows.conversations_by_key(name, CANDIDATES_MAX)
}

/// Ends of message ids first, because those are shown.
fn by_part(rows: &dyn Read, part: &str) -> Result<Vec<Found>, RowsError> {
    if let Some(rest) = part.strip_prefix(TASK_PREFIX) {
        if rest.chars().count() < REFERENCE_MIN_CHARS {
            return Ok(Vec::new());
        }
        let tasks = rows.started_tasks_by_prefix(part, CANDIDATES_MAX)?;
        let tasks = tasks.into_iter().map(|task| Found::Task(task.task_id));
        return Ok(tasks.collect());
    }
    if part.chars().count() < REFERENCE_MIN_CHARS {
        return Ok(Vec::new());
    }
    let mut ids = rows.message_ids_by_end(part, CANDIDATES_MAX)?;
    for id in rows.message_ids_by_prefix(part, CANDIDATES_MAX)? {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.truncate(usize::try_from(CANDIDATES_MAX).unwrap_or(usize::MAX));
    Ok(ids.into_iter().map(Found::Message).collect())
}

/// Among the newest messages of a sender: ends of ids first, as among all.
fn own_by_part(rows: &dyn Read, part: &str, sender: &str) -> Result<Vec<Found>, RowsError> {
    if part.chars().count() < REFERENCE_MIN_CHARS {
        return Ok(Vec::new());
    }
    let channels = OF_TOKENS.map(ChannelId::new);
    let (mut ends, mut beginnings) = (Vec::new(), Vec::new());
    let (mut looked_at, mut before) = (0, None::<MessageId>);
    while looked_at < OWN_LOOKED_AT {
        let page = rows.messages_of_sender(sender, &channels, before.as_ref(), OWN_PAGE)?;
        let Some(last) = page.last() else {
            break;
        };
        looked_at = match page.len() {
            full if full >= OWN_PAGE as usize => looked_at + full,
            _ => OWN_LOOKED_AT,
        };
        before = Some(last.message_id.clone());
        for Message { message_id, .. } in page {
            if message_id.as_str().ends_with(part) {
                ends.push(message_id);
            } else if message_id.as_str().starts_with(part) {
                beginnings.push(message_id);
            }
        }
    }
    ends.append(&mut beginnings);
    ends.truncate(usize::try_from(CANDIDATES_MAX).unwrap_or(usize::MAX));
    Ok(ends.into_iter().map(Found::Message).collect())
}

/// The id that people are shown: its random end. UUIDv7 begin alike for minutes.
#[must_use]
pub fn short_id(id: &MessageId) -> &str {
    let id = id.as_str();
    let from = id
        .char_indices()
        .rev()
        .nth(SHORT_ID_CHARS.saturating_sub(1));
    from.and_then(|(at, _)| id.get(at..)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_random_ends() {
        let id = MessageId::new("01a1e60b-3a0b-7377-98e0-da2da8945be2");
        assert_eq!(short_id(&id), "a8945be2");
        assert_eq!(short_id(&MessageId::new("m1")), "m1");
    }
}
