//! The stored form of attachments: a list in JSON, and nothing at all where there are none.

use super::fields::Fields;
use crate::sql::{self, Conn};
use bridge_core::port::RowsError;
use bridge_core::value::Attachment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One file as it is stored. Names of fields are never changed, only added.
#[derive(Debug, Serialize, Deserialize)]
struct StoredAttachment {
    name: String,
    media_type: String,
    path: String,
    bytes: u64,
}

/// The column's text.
pub(crate) fn text(files: &[Attachment]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let stored: Vec<StoredAttachment> = files
        .iter()
        .map(|file| StoredAttachment {
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
pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Vec<Attachment>, RowsError> {
    let Some(text) = fields.next::<Option<String>>()? else {
        return Ok(Vec::new());
    };
    let stored: Vec<StoredAttachment> = serde_json::from_str(&text)
        .map_err(|error| fields.unreadable(format!("its files can't be read ({error})")))?;
    let files = stored.into_iter().map(|file| Attachment {
        name: file.name,
        media_type: file.media_type,
        path: file.path,
        bytes: file.bytes,
    });
    Ok(files.collect())
}

/// Every list of files there is. The indexes hold nothing else, so that texts without files cost nothing.
const ALL: [&str; 2] = [
    "SELECT row, files FROM message_text INDEXED BY message_files WHERE files IS NOT NULL",
    "SELECT row, files FROM reply_text INDEXED BY reply_files WHERE files IS NOT NULL",
];

/// Of these files, those that no row names. A list that can't be read may name any of them, so it is an error.
pub(crate) fn unnamed(conn: Conn<'_>, paths: &[String]) -> Result<Vec<String>, RowsError> {
    let mut unnamed: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    for query in ALL {
        sql::find(conn, query, [], |row| {
            let mut fields = Fields::of("files of", row);
            let _row: i64 = fields.next()?;
            for file in read(&mut fields)? {
                unnamed.remove(file.path.as_str());
            }
            Ok(None::<()>)
        })?;
    }
    Ok(unnamed.into_iter().map(ToOwned::to_owned).collect())
}
