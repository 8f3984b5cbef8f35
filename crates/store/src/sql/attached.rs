//! The stored form of attachments: a list in JSON, and nothing at all where there are none.

use super::fields::Fields;
use crate::sql::{self, Conn};
use bridge_core::port::RowsError;
use bridge_core::value::{Attachment, FileDigest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One file as it is stored. Names of fields are never changed, only added.
#[derive(Debug, Serialize, Deserialize)]
struct StoredAttachment {
    name: String,
    media_type: String,
    sha256: String,
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
            sha256: file.digest.to_string(),
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
    let files = stored.into_iter().map(|file| {
        let digest = FileDigest::parse(&file.sha256);
        Ok(Attachment {
            digest: fields.required("the name of a file is no digest", digest)?,
            name: file.name,
            media_type: file.media_type,
            bytes: file.bytes,
        })
    });
    files.collect()
}

/// Every list of files there is. The indexes hold nothing else, so that texts without files cost nothing.
const ALL: [&str; 2] = [
    "SELECT row, files FROM message_text INDEXED BY message_files WHERE files IS NOT NULL",
    "SELECT row, files FROM reply_text INDEXED BY reply_files WHERE files IS NOT NULL",
];

/// Of these files, those that no row names. A list that can't be read may name any of them, so it is an error.
pub(crate) fn unnamed(conn: Conn<'_>, files: &[FileDigest]) -> Result<Vec<FileDigest>, RowsError> {
    let mut unnamed: BTreeSet<FileDigest> = files.iter().copied().collect();
    for query in ALL {
        sql::find(conn, query, [], |row| {
            let mut fields = Fields::of("files of", row);
            let _row: i64 = fields.next()?;
            for file in read(&mut fields)? {
                unnamed.remove(&file.digest);
            }
            Ok(None::<()>)
        })?;
    }
    Ok(unnamed.into_iter().collect())
}
