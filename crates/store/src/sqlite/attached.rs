//! The stored form of attachments: a list in JSON, and nothing at all where there are none.

use super::fields::Fields;
use bridge_core::port::RowsError;
use bridge_core::value::Attachment;
use serde::{Deserialize, Serialize};

/// One file as it is stored. Names of fields are never changed, only added.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    name: String,
    media_type: String,
    path: String,
    bytes: u64,
}

/// The column's text.
pub(super) fn text(files: &[Attachment]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let stored: Vec<Stored> = files
        .iter()
        .map(|file| Stored {
            name: file.name.clone(),
            media_type: file.media_type.clone(),
            path: file.path.clone(),
            bytes: file.bytes,
        })
        .collect();
    // Plain strings and numbers: there is nothing in it that could not be written.
    serde_json::to_string(&stored).ok()
}

/// Reads the next column.
pub(super) fn read(fields: &mut Fields<'_, '_>) -> Result<Vec<Attachment>, RowsError> {
    let Some(text) = fields.next::<Option<String>>()? else {
        return Ok(Vec::new());
    };
    let stored: Vec<Stored> = serde_json::from_str(&text)
        .map_err(|error| fields.damaged(format!("its files can't be read ({error})")))?;
    let files = stored.into_iter().map(|file| Attachment {
        name: file.name,
        media_type: file.media_type,
        path: file.path,
        bytes: file.bytes,
    });
    Ok(files.collect())
}
