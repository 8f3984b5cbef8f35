//! Parses a client's message: text for Codex, files, and the form in which it is stored for the history.

use super::error::A2aError;
use super::extension;
use crate::NewFile;
use a2a::{Message, Part, PartContent, Role};
use bridge_core::limits::CONVERSATION_KEY_MAX_CHARS;
use serde_json::Value;
use std::collections::HashMap;

/// Metadata key of a stored file part: the length of the bytes that are not stored.
const BYTES_KEY: &str = "codex-bridge/bytes";

/// Metadata key of a stored text part whose text is that of the message row, so that it is not stored twice.
const TEXT_KEY: &str = "codex-bridge/text";

/// A parsed message of a client.
#[derive(Debug)]
pub(crate) struct ParsedMessage {
    /// The client's message id.
    pub(crate) client_message_id: String,
    pub(crate) context: Option<String>,
    pub(crate) task: Option<String>,
    /// The text for Codex.
    pub(crate) text: String,
    pub(crate) files: Vec<NewFile>,
    /// Agents that answered each other before this message, as claimed by the sender.
    pub(crate) hops: u32,
    /// The idempotency key in its metadata.
    pub(crate) key: Option<String>,
    /// The message without the bytes of files.
    pub(crate) message: Message,
}

impl ParsedMessage {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.files.is_empty()
    }

    /// The message as JSON for the history.
    pub(crate) fn original(&self) -> Result<String, A2aError> {
        to_stored(&self.message)
    }

    /// The same for a message whose row has the text: an identical text part does not repeat it.
    pub(crate) fn stored(&self) -> Result<String, A2aError> {
        let says =
            |part: &Part| matches!(&part.content, PartContent::Text(text) if *text == self.text);
        let Some(place) = self.message.parts.iter().position(says) else {
            return self.original();
        };
        let mut message = self.message.clone();
        if let Some(part) = message.parts.get_mut(place) {
            part.content = PartContent::Text(String::new());
            let metadata = part.metadata.get_or_insert_with(HashMap::new);
            metadata.insert(TEXT_KEY.to_owned(), Value::Bool(true));
        }
        to_stored(&message)
    }

    /// The stored form of a message that a guard refuses: its ids only.
    pub(crate) fn brief(&self) -> Result<String, A2aError> {
        let mut part = Part::text(String::new());
        part.metadata = Some(HashMap::from([(TEXT_KEY.to_owned(), Value::Bool(true))]));
        let message = Message {
            message_id: self.message.message_id.clone(),
            ..Message::new(Role::User, vec![part])
        };
        to_stored(&message)
    }
}

/// The stored form of a message.
pub(crate) fn to_stored(message: &Message) -> Result<String, A2aError> {
    serde_json::to_string(message)
        .map_err(|error| A2aError::internal(format!("the message can't be kept: {error}")))
}

/// Restores a stored message; `text` is that of its row.
pub(crate) fn restore(mut message: Message, text: &str) -> Message {
    for part in &mut message.parts {
        if take_text_key(part) {
            part.content = PartContent::Text(text.to_owned());
        }
    }
    message
}

/// Removes the text mark from a part; returns whether it had one.
fn take_text_key(part: &mut Part) -> bool {
    let marked = part
        .metadata
        .as_mut()
        .is_some_and(|metadata| metadata.remove(TEXT_KEY).is_some());
    if marked && part.metadata.as_ref().is_some_and(HashMap::is_empty) {
        part.metadata = None;
    }
    marked
}

/// Bytes of JSON in the `metadata` of a message and its parts, which are stored and returned with the task.
const METADATA_MAX_BYTES: usize = 64 * 1024;

fn check_metadata(message: &Message) -> Result<(), A2aError> {
    let parts = message.parts.iter().map(|part| &part.metadata);
    let all: Vec<_> = parts.chain([&message.metadata]).flatten().collect();
    let bytes = serde_json::to_vec(&all).map_or(usize::MAX, |json| json.len());
    if bytes <= METADATA_MAX_BYTES {
        Ok(())
    } else {
        let why = "is too long: all metadata of a message may have 64 KiB; send data as a part";
        Err(A2aError::invalid("message.metadata", why))
    }
}

/// Parses a message.
pub(crate) fn parse(mut message: Message) -> Result<ParsedMessage, A2aError> {
    if message.role != Role::User {
        let why = "must be ROLE_USER: what an agent says to us, it says as our user";
        return Err(A2aError::invalid("message.role", why));
    }
    check_metadata(&message)?;
    let (key, hops) = (key_of(&message)?, hops_of(&message));
    let mut texts = Vec::new();
    let mut files = Vec::new();
    for part in &mut message.parts {
        // Only this module sets the mark.
        take_text_key(part);
        match &mut part.content {
            PartContent::Text(text) => texts.push(text.clone()),
            PartContent::Data(data) => texts.push(data.to_string()),
            PartContent::Url(_) => texts.extend(address_of(part)),
            PartContent::Raw(bytes) => {
                let bytes = std::mem::take(bytes);
                note_length(part, bytes.len());
                files.push(NewFile {
                    name: part.filename.clone(),
                    media_type: part.media_type.clone(),
                    bytes,
                });
            }
        }
    }
    Ok(ParsedMessage {
        client_message_id: message.message_id.clone(),
        context: given(message.context_id.as_ref()),
        task: given(message.task_id.as_ref()),
        text: texts.join("\n"),
        files,
        hops,
        key,
        message,
    })
}

fn given(id: Option<&String>) -> Option<String> {
    id.filter(|id| !id.is_empty()).cloned()
}

/// Describes a file by address to Codex, quoted as data. The address is not fetched.
fn address_of(part: &Part) -> Option<String> {
    let PartContent::Url(url) = &part.content else {
        return None;
    };
    let mut named_file = serde_json::Map::new();
    named_file.insert("url".to_owned(), Value::from(url.as_str()));
    let named = [("name", &part.filename), ("mediaType", &part.media_type)];
    for (key, value) in named {
        named_file.extend(
            value
                .as_ref()
                .map(|value| (key.to_owned(), Value::from(value.as_str()))),
        );
    }
    let named_file = Value::Object(named_file);
    Some(format!(
        "(a file that the sender names and that was not fetched: {named_file})"
    ))
}

fn note_length(part: &mut Part, length: usize) {
    let metadata = part.metadata.get_or_insert_with(HashMap::new);
    metadata.insert(BYTES_KEY.to_owned(), Value::from(length));
}

fn hops_of(message: &Message) -> u32 {
    let metadata = message.metadata.as_ref();
    let said = metadata.and_then(|metadata| metadata.get(extension::HOPS_KEY)?.as_u64());
    said.map_or(0, |hops| u32::try_from(hops).unwrap_or(u32::MAX))
}

fn key_of(message: &Message) -> Result<Option<String>, A2aError> {
    let metadata = message.metadata.as_ref();
    match metadata.and_then(|metadata| metadata.get(extension::IDEMPOTENCY)) {
        Some(value) => key(value.as_str(), "message.metadata").map(Some),
        None => Ok(None),
    }
}

/// Checks an idempotency key.
pub(crate) fn key(value: Option<&str>, field: &str) -> Result<String, A2aError> {
    let key = value.map(str::trim).unwrap_or_default();
    let fits = !key.is_empty()
        && key.chars().count() <= CONVERSATION_KEY_MAX_CHARS
        && !key.chars().any(char::is_control);
    if fits {
        Ok(key.to_owned())
    } else {
        Err(A2aError::invalid(
            field,
            format!(
                "the idempotency key must be 1 to {CONVERSATION_KEY_MAX_CHARS} printable characters"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(parts: Value) -> Message {
        let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": parts});
        serde_json::from_value(message).unwrap()
    }

    #[test]
    fn accepts_all_part_kinds_without_duplicating_bytes() {
        let parsed = parse(message(json!([
            {"text": "look"},
            {"data": {"a": 1}},
            {"url": "https://x.test/f", "filename": "f\")"},
            {"raw": "dGNr", "filename": "tck.txt", "mediaType": "text/plain"},
        ])))
        .unwrap();
        let named_file = r#"{"name":"f\")","url":"https://x.test/f"}"#;
        assert_eq!(
            parsed.text,
            format!(
                "look\n{{\"a\":1}}\n(a file that the sender names and that was not fetched: {named_file})"
            )
        );
        assert_eq!(parsed.files[0].bytes, b"tck");
        assert_eq!(parsed.files[0].name.as_deref(), Some("tck.txt"));
        let original: Value = serde_json::from_str(&parsed.original().unwrap()).unwrap();
        assert_eq!(original["parts"][3]["raw"], "");
        assert_eq!(original["parts"][3]["metadata"][BYTES_KEY], 3);
    }

    #[test]
    fn f4_a_text_is_kept_once() {
        let parts =
            json!([{"text": "x".repeat(1000), "metadata": {TEXT_KEY: true}}, {"raw": "dGNr"}]);
        let parsed = parse(message(parts)).unwrap();
        assert!(
            parsed.message.parts[0].metadata.is_none(),
            "nobody sets our mark"
        );
        let stored = parsed.stored().unwrap();
        assert!(stored.len() < 500, "{stored}");
        let read = serde_json::from_str(&stored).unwrap();
        assert_eq!(restore(read, &parsed.text), parsed.message);
        let brief = serde_json::from_str(&parsed.brief().unwrap()).unwrap();
        let brief = restore(brief, "xx");
        assert_eq!(
            (brief.message_id.as_str(), &brief.parts),
            ("m", &vec![Part::text("xx")])
        );
        let two = parse(message(json!([{"text": "a"}, {"text": "b"}]))).unwrap();
        assert_eq!(two.stored().unwrap(), two.original().unwrap());
    }

    #[test]
    fn nobody_speaks_as_us() {
        let mut spoof = message(json!([{"text": "I agree"}]));
        spoof.role = Role::Agent;
        assert!(parse(spoof).is_err());
    }

    #[test]
    fn hops_and_keys_are_read_from_metadata() {
        let mut sent = message(json!([{"text": "a"}]));
        sent.metadata = Some(HashMap::from([
            (extension::HOPS_KEY.to_owned(), json!(3)),
            (extension::IDEMPOTENCY.to_owned(), json!("k")),
        ]));
        let parsed = parse(sent.clone()).unwrap();
        assert_eq!((parsed.hops, parsed.key.as_deref()), (3, Some("k")));
        sent.metadata = Some(HashMap::from([
            (extension::HOPS_KEY.to_owned(), json!("many")),
            (extension::IDEMPOTENCY.to_owned(), json!(7)),
        ]));
        assert!(parse(sent).is_err(), "a key that is no text");
    }

    #[test]
    fn metadata_is_bounded_wherever_it_stands() {
        let note = |bytes: usize| {
            Some(HashMap::from([(
                "note".to_owned(),
                json!("x".repeat(bytes)),
            )]))
        };
        let mut sent = message(json!([{"text": "a"}]));
        sent.metadata = note(METADATA_MAX_BYTES / 2);
        assert!(parse(sent.clone()).is_ok());
        sent.parts[0].metadata = note(METADATA_MAX_BYTES / 2);
        assert!(
            parse(sent).is_err(),
            "of the message and its parts together"
        );
    }
}
