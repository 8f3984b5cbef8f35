//! What people name: a message or a task by its id, the end or beginning of it, the name of a conversation, or `last`.
//! Every command that takes such a name resolves it here.

use super::api::{ApiClient, ClientError};
use bridge_core::find::TASK_PREFIX;
use bridge_daemon::term::{cells, escape_line};
use bridge_front::{CandidateView, FoundView};
use std::fmt::Write;

/// Hexadecimal digits of a task's id behind its prefix.
const TASK_DIGITS: usize = 12;
/// Letters of a text in the list of candidates.
const TEXT_MAX_CHARS: usize = 28;
/// Letters of a conversation's name there.
const NAME_MAX_CHARS: usize = 20;

/// One thing that was named, by its whole id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Message(String),
    Task(String),
}

impl Target {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Message(id) | Self::Task(id) => id,
        }
    }

    /// A whole id needs no question.
    fn whole(reference: &str) -> Option<Self> {
        let task = reference.strip_prefix(TASK_PREFIX);
        if task.is_some_and(|rest| rest.len() == TASK_DIGITS && is_hex(rest)) {
            return Some(Self::Task(reference.to_owned()));
        }
        let groups: Vec<&str> = reference.split('-').collect();
        let fits = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && groups.iter().all(|group| is_hex(group));
        fits.then(|| Self::Message(reference.to_owned()))
    }
}

fn is_hex(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_digit() || matches!(c, 'a'..='f'))
}

/// The one thing that a reference means.
pub(crate) async fn resolve(client: &ApiClient, reference: &str) -> Result<Target, ClientError> {
    if let Some(whole) = Target::whole(reference) {
        return Ok(whole);
    }
    let mut candidates = candidates(client, reference).await?;
    let Some(first) = candidates.pop() else {
        return Err(ClientError::NotFound(reference.to_owned()));
    };
    if !candidates.is_empty() {
        candidates.push(first);
        let reference = reference.to_owned();
        return Err(ClientError::Several {
            reference,
            candidates,
        });
    }
    Ok(match first.kind.as_str() {
        "task" => Target::Task(first.id),
        _ => Target::Message(first.id),
    })
}

/// The message that a reference means; of a task its newest.
pub(crate) async fn resolve_message(
    client: &ApiClient,
    reference: &str,
) -> Result<String, ClientError> {
    match resolve(client, reference).await? {
        Target::Message(id) => Ok(id),
        Target::Task(id) => newest_of(client, &id).await,
    }
}

/// The newest message of a task.
pub(crate) async fn newest_of(client: &ApiClient, task: &str) -> Result<String, ClientError> {
    let envelope = client.task(task).await?;
    let messages = envelope["task"]["message_ids"].as_array();
    let newest = messages.and_then(|all| all.last()?.as_str());
    newest
        .map(ToOwned::to_owned)
        .ok_or_else(|| ClientError::NotFound(task.to_owned()))
}

/// All that a reference may mean.
pub(crate) async fn candidates(
    client: &ApiClient,
    reference: &str,
) -> Result<Vec<CandidateView>, ClientError> {
    if reference.trim().is_empty() {
        return Err(ClientError::NotFound(reference.to_owned()));
    }
    let path = path_with("/v1/find", &[("ref", reference)])?;
    let found: FoundView = client.get(&path).await?;
    Ok(found.candidates)
}

/// The conversation that is meant, by its own name or by something in it.
pub(crate) async fn conversation_of(client: &ApiClient, name: &str) -> Result<String, ClientError> {
    let mut found = candidates(client, name).await?;
    found.dedup_by(|a, b| a.conversation == b.conversation);
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one.conversation),
        (Some(one), false) => {
            found.push(one);
            Err(ClientError::Several {
                reference: name.to_owned(),
                candidates: found,
            })
        }
        (None, _) => Err(ClientError::NotFound(name.to_owned())),
    }
}

/// A path of these parts; what people write stays in its own.
pub(crate) fn path_to(parts: &[&str]) -> Result<String, ClientError> {
    let no_path = |why: &dyn std::fmt::Display| ClientError::Unreadable(why.to_string());
    let mut url = reqwest::Url::parse("http://localhost").map_err(|error| no_path(&error))?;
    url.path_segments_mut()
        .map_err(|()| no_path(&"it has no path"))?
        .clear()
        .extend(parts);
    Ok(url.path().to_owned())
}

/// A path with its query; what people write can't leave its parameter.
pub(crate) fn path_with(path: &str, query: &[(&str, &str)]) -> Result<String, ClientError> {
    let url = reqwest::Url::parse_with_params(&format!("http://localhost{path}"), query)
        .map_err(|error| ClientError::Unreadable(error.to_string()))?;
    Ok(format!("{}?{}", url.path(), url.query().unwrap_or("")))
}

/// The end of a message's id that people are shown; a task's id as it is.
pub(crate) fn short(id: &str) -> &str {
    if id.starts_with(TASK_PREFIX) {
        return id;
    }
    let cut = id.len().saturating_sub(bridge_core::limits::SHORT_ID_CHARS);
    id.get(cut..).unwrap_or(id)
}

/// The candidates, one line each.
pub(crate) fn several_words(reference: &str, candidates: &[CandidateView]) -> String {
    let mut words = format!("{} may mean any of these:", escape_line(reference));
    let rows: Vec<[String; 3]> = candidates
        .iter()
        .map(|one| {
            let name = clip(&one.conversation, NAME_MAX_CHARS);
            [one.short_id.clone(), name, one.phase.clone()]
        })
        .collect();
    let wide = |at: usize| {
        rows.iter()
            .map(|row| row.get(at).map_or(0, |cell| cells(cell)))
            .max()
    };
    let (ids, names, phases) = (wide(0), wide(1), wide(2));
    for ([id, name, phase], one) in rows.iter().zip(candidates) {
        let pad =
            |text: &str, to: Option<usize>| " ".repeat(to.unwrap_or(0).saturating_sub(cells(text)));
        let _written = write!(
            words,
            "\n  {id}{}  {name}{}  {phase}{}  {}",
            pad(id, ids),
            pad(name, names),
            pad(phase, phases),
            clip(&one.text, TEXT_MAX_CHARS)
        );
    }
    words
}

/// The beginning of a line, with a mark where it goes on.
pub(crate) fn clip(text: &str, max: usize) -> String {
    bridge_core::limits::clip(&escape_line(text), max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_ids_need_no_question() {
        let message = "01a1e60b-3a0b-7377-98e0-da2da8945be2";
        let task = "codex-3f2a9c01d5aa";
        assert_eq!(
            Target::whole(message),
            Some(Target::Message(message.to_owned()))
        );
        assert_eq!(Target::whole(task), Some(Target::Task(task.to_owned())));
        for part in [
            "a8945be2",
            "codex-3f2a",
            "last",
            "main",
            "",
            "codex-",
            "x-y",
        ] {
            assert_eq!(Target::whole(part), None, "{part}");
        }
        assert_eq!((short(message), short(task)), ("a8945be2", task));
    }

    #[test]
    fn names_stay_in_their_parameter() {
        let path = path_with("/v1/find", &[("ref", "a&b=c/../x #1")]).unwrap();
        assert_eq!(path, "/v1/find?ref=a%26b%3Dc%2F..%2Fx+%231");
        let path = path_to(&["v1", "nodes", "a/../b?c#%1", "drain"]).unwrap();
        assert_eq!(path, "/v1/nodes/a%2F..%2Fb%3Fc%23%251/drain");
    }
}
