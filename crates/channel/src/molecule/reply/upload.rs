//! Files of a reply: uploaded before the bubble that shows them. The text is what somebody waits for, so no file
//! keeps it back for long.

use crate::files::{FILE_TRIES_MAX, FileStore, clean};
use crate::http::{ANSWER_MAX_BYTES, HttpError, read};
use crate::molecule::client::Client;
use crate::molecule::wire::NewAttachment;
use bridge_core::value::{Attachment, Reply};
use futures_util::{StreamExt, stream};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, StatusCode};
use serde::Deserialize;
use std::time::Duration;
use tokio_util::io::ReaderStream;
use uuid::Uuid;

/// How long one upload may take.
const UPLOAD_DEADLINE: Duration = Duration::from_secs(120);

/// The platform's answer to an upload.
#[derive(Debug, Deserialize)]
struct Uploaded {
    files: Vec<UploadPlace>,
}

#[derive(Debug, Deserialize)]
struct UploadPlace {
    uri: String,
}

/// Why a file does not go with its reply.
#[derive(Debug)]
enum Unsent {
    /// The platform will not have it; the reply can go without it.
    Refused(String),
    /// It may be taken later; the reply waits.
    Later(HttpError),
}

/// Uploads the files of a reply; gives what its bubble shows, and words about what does not go with it.
pub(crate) async fn upload_all(
    client: &Client,
    file_store: Option<&FileStore>,
    reply: &Reply,
) -> Result<(Vec<NewAttachment>, String), HttpError> {
    let patient = reply.tries <= FILE_TRIES_MAX;
    let (mut sent, mut refused) = (Vec::new(), Vec::new());
    let mut lost = None;
    for file in &reply.attachments {
        let why = match lost.clone() {
            // One lost upload is enough: the text does not wait for each of the others.
            Some(why) => why,
            None => match send(client, file_store, file).await {
                Ok(place) => {
                    sent.push(place);
                    continue;
                }
                Err(Unsent::Refused(why)) => why,
                Err(Unsent::Later(error)) if patient => return Err(error),
                Err(Unsent::Later(error)) => lost.insert(error.to_string()).clone(),
            },
        };
        refused.push(format!("`{}`: {why}", file.name));
    }
    let refused = match refused.as_slice() {
        [] => String::new(),
        refused => format!(
            "[codex-bridge] Files that could not be sent along: {}.",
            refused.join("; ")
        ),
    };
    Ok((sent, refused))
}

/// Peers have no right to read our workspace's uploads, and we have none to write to theirs.
pub(crate) fn for_peers(files: &[Attachment]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|file| format!("`{}`", file.name))
        .collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(
            "[codex-bridge] Files that can't be sent between agents on this platform: {}.",
            names.join(", ")
        ),
    }
}

/// Uploads a file. If its answer is lost, the platform has an upload that no bubble shows and that it forgets.
async fn send(
    client: &Client,
    file_store: Option<&FileStore>,
    file: &Attachment,
) -> Result<NewAttachment, Unsent> {
    let Some(copy) = file_store.map(|file_store| file_store.path_of(&file.digest)) else {
        return Err(Unsent::Refused("this channel keeps no files".to_owned()));
    };
    let opened = tokio::fs::File::open(&copy).await;
    let opened =
        opened.map_err(|error| Unsent::Refused(format!("our copy can't be read ({error})")))?;
    let boundary = Uuid::new_v4().simple().to_string();
    let name = clean(&file.name);
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\nContent-Type: {}\r\n\r\n",
        file.media_type
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    let framing = u64::try_from(head.len() + tail.len()).unwrap_or(0);
    let framed = |text: String| stream::once(async move { Ok(text.into()) });
    let body = framed(head)
        .chain(ReaderStream::new(opened))
        .chain(framed(tail));
    let call = client
        .post(&["chat", "uploads"])
        .header(
            CONTENT_TYPE,
            format!("multipart/form-data; boundary={boundary}"),
        )
        .header(CONTENT_LENGTH, framing.saturating_add(file.bytes))
        .body(Body::wrap_stream(body))
        .timeout(UPLOAD_DEADLINE);
    let uploaded: Uploaded = read(call, ANSWER_MAX_BYTES).await.map_err(|error| {
        if refuses(&error) {
            Unsent::Refused(error.to_string())
        } else {
            Unsent::Later(error)
        }
    })?;
    match uploaded.files.into_iter().next() {
        Some(place) => Ok(NewAttachment {
            uri: place.uri,
            name,
            mime_type: file.media_type.clone(),
            size: file.bytes,
        }),
        None => {
            let why = "it names no uploaded file".to_owned();
            Err(Unsent::Later(HttpError::Unreadable(why)))
        }
    }
}

/// The platform's own clear no: it will not be a yes later. A proxy's word for "too large" is one too; anything
/// else may be about the token, the route or the moment.
pub(crate) fn refuses(error: &HttpError) -> bool {
    let HttpError::Status(refused) = error else {
        return false;
    };
    match refused.status {
        StatusCode::PAYLOAD_TOO_LARGE => true,
        StatusCode::UNAUTHORIZED | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            false
        }
        status => status.is_client_error() && refused.json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ErrorResponse;

    #[test]
    fn upload_refusals_differ_from_transient_errors() {
        for (status, json, refused) in [
            (400, true, true),
            (402, true, true),
            (403, true, true),
            (404, true, true),
            (409, true, true),
            (415, true, true),
            (422, true, true),
            (413, true, true),
            (413, false, true),
            (401, true, false),
            (408, true, false),
            (429, true, false),
            (403, false, false),
            (404, false, false),
            (500, true, false),
            (503, true, false),
        ] {
            let error = HttpError::Status(ErrorResponse {
                status: StatusCode::from_u16(status).unwrap(),
                retry_after: None,
                json,
                said: String::new(),
            });
            assert_eq!(refuses(&error), refused, "{status} {json}");
        }
        assert!(!refuses(&HttpError::Broken(String::new())));
    }
}
