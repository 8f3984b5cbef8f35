//! The parts of a message: its text and the files that it names.

use serde_json::Value;

/// File parts of one message that are looked at; the door takes fewer.
pub(super) const FILE_PARTS_MAX: usize = 100;

/// A file that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePart {
    pub(super) uri: String,
    pub(super) name: String,
    /// What the sender says it is.
    pub(super) mime: Option<String>,
    /// How long the sender says it is.
    pub(super) size: Option<u64>,
}

/// The first list of parts that has any, in the places where senders of different ages put it.
pub(super) fn parts(body: &Value) -> Option<&Vec<Value>> {
    let places = ["/params/message/parts", "/params/parts", "/parts"];
    let mut lists = places
        .iter()
        .filter_map(|place| body.pointer(place)?.as_array());
    let first = lists.clone().find(|list| !list.is_empty());
    first.or_else(|| lists.next())
}

pub(super) fn text_of(parts: &[Value]) -> String {
    let texts = parts.iter().filter(|part| is(part, "text"));
    let texts: Vec<&str> = texts
        .filter_map(|part| part.get("text")?.as_str())
        .collect();
    texts.join("\n")
}

/// Old and new senders disagree about the name of this field.
fn is(part: &Value, kind: &str) -> bool {
    let named = part.get("kind").or_else(|| part.get("type"));
    named.and_then(Value::as_str) == Some(kind)
}

pub(super) fn file(part: &Value) -> Option<FilePart> {
    if !is(part, "file") {
        return None;
    }
    let file = part.get("file").unwrap_or(part);
    let text = |name: &str| Some(file.get(name)?.as_str()?.to_owned());
    Some(FilePart {
        uri: text("uri")?,
        name: text("name").unwrap_or_default(),
        mime: text("mimeType").or_else(|| text("mime_type")),
        size: file.get("size").and_then(Value::as_u64),
    })
}
