//! Files: what is uploaded waits, with a row of its own in the feed, until its workspace fetched and acknowledged it.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};

use super::faults::Late;
use super::ground::{Ground, Upload};
use super::ids::{FileId, WorkspaceId};
use super::options::Edition;
use super::rows::{Entry, RECEIVE};
use super::wire::{Answer, Call, Content};

/// How long a file waits.
const WAITS: Duration = Duration::from_secs(24 * 3_600);
/// Files that one message may carry.
const ATTACHMENTS_MOST: u32 = 10;
/// Parts of one upload that are read.
const PARTS_MOST: usize = 64;

/// One file of an upload.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    name: String,
    media_type: String,
    bytes: Bytes,
}

impl Ground {
    pub(super) fn upload(&mut self, call: &Call) -> Result<Answer, Answer> {
        let id = self.admit(call)?;
        if call.body.len() > self.edition.upload_most() {
            return Err(Answer::error(413, "upload exceeds the size limit"));
        }
        let kind = call.header("content-type").unwrap_or_default();
        let parts = files_of(kind, &call.body);
        if parts.is_empty() {
            return Err(Answer::error(400, "no files field in request"));
        }
        let files: Vec<Value> = parts
            .into_iter()
            .map(|part| self.take_file(id, part))
            .collect();
        Ok(Answer::ok(json!({ "files": files })))
    }

    /// Keeps a file and logs that it is there; gives its description, as a message names it.
    pub(super) fn leave_file(
        &mut self,
        id: WorkspaceId,
        name: &str,
        media_type: &str,
        bytes: Bytes,
    ) -> Value {
        let part = Part {
            name: name.to_owned(),
            media_type: media_type.to_owned(),
            bytes,
        };
        self.take_file(id, part)
    }

    fn take_file(&mut self, id: WorkspaceId, part: Part) -> Value {
        let file = FileId::fresh();
        let described = json!({
            "uri": format!("platform-pending:{id}/{file}"),
            "name": part.name,
            "mimeType": part.media_type,
            "size": part.bytes.len(),
        });
        let mut request = described.clone();
        super::rows::put(&mut request, "file_id", json!(file.to_string()));
        let entry = Entry {
            kind: RECEIVE.to_owned(),
            method: Some("chat_upload_receive".to_owned()),
            target: Some(id.to_string()),
            summary: Some(format!("chat_upload_receive: {}", part.name)),
            status: "ok".to_owned(),
            request: Some(request),
            ..Entry::default()
        };
        let upload = Upload {
            workspace: id,
            name: part.name,
            media_type: part.media_type,
            bytes: part.bytes,
            since: self.clock.now(),
            acked: false,
        };
        self.keep_upload(file, upload);
        self.log(id, entry, Late::Never);
        described
    }

    pub(super) fn pending_content(&mut self, call: &Call) -> Result<Answer, Answer> {
        let upload = self.pending(call)?;
        let content = Content::File {
            name: upload.name.clone(),
            media_type: upload.media_type.clone(),
            bytes: upload.bytes.clone(),
        };
        let mut answer = Answer::empty(200);
        answer.content = content;
        Ok(answer)
    }

    pub(super) fn pending_ack(&mut self, call: &Call) -> Result<Answer, Answer> {
        self.pending(call)?.acked = true;
        Ok(Answer::ok(json!({ "acked": true })))
    }

    fn pending(&mut self, call: &Call) -> Result<&mut Upload, Answer> {
        let id = self.admit(call)?;
        let edition = self.edition;
        let oldest = self.clock.now().before(WAITS);
        let file =
            FileId::read(&call.place.part).ok_or_else(|| Answer::error(400, "invalid file_id"))?;
        let waits = |upload: &&mut Upload| {
            let gone = edition == Edition::Seed && upload.acked;
            upload.workspace == id && upload.since >= oldest && !gone
        };
        let why = match edition {
            Edition::Seed => "pending upload not found, expired, or already acked",
            Edition::New | Edition::August => "pending upload not found or expired",
        };
        self.uploads
            .get_mut(&file)
            .filter(waits)
            .ok_or_else(|| Answer::error(404, why))
    }

    pub(super) fn upload_limits(&self) -> Answer {
        let most = self.edition.upload_most();
        Answer::ok(json!({
            "per_file_bytes": most,
            "per_request_bytes": most,
            "max_attachments_per_message": ATTACHMENTS_MOST,
        }))
    }
}

/// The `files` of a multipart body; what can't be read has none.
fn files_of(content_type: &str, body: &Bytes) -> Vec<Part> {
    let Some((_, boundary)) = content_type.split_once("boundary=") else {
        return Vec::new();
    };
    let boundary = boundary
        .split(';')
        .next()
        .unwrap_or_default()
        .trim_matches('"');
    let fence = format!("--{boundary}");
    let mut found = Vec::new();
    let mut at = find(body, fence.as_bytes(), 0);
    for _ in 0..PARTS_MOST {
        let Some(start) = at.map(|at| at + fence.len()) else {
            break;
        };
        let end = find(body, format!("\r\n{fence}").as_bytes(), start);
        let Some(end) = end else { break };
        found.extend(file_of(&body.slice(start..end)));
        at = Some(end + 2);
    }
    found
}

fn file_of(part: &Bytes) -> Option<Part> {
    let head_end = find(part, b"\r\n\r\n", 0)?;
    let head = String::from_utf8_lossy(part.get(..head_end)?).into_owned();
    let header = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.trim()
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let disposition = header("content-disposition")?;
    let label = |name: &str| {
        let mut labels = disposition.split(';').map(str::trim);
        labels.find_map(|label| {
            let (key, value) = label.split_once('=')?;
            (key == name).then(|| value.trim_matches('"').to_owned())
        })
    };
    if label("name")? != "files" {
        return None;
    }
    Some(Part {
        name: label("filename")?,
        media_type: header("content-type").unwrap_or_else(|| "application/octet-stream".to_owned()),
        bytes: part.slice(head_end + 4..),
    })
}

fn find(body: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = body.get(from..)?;
    let found = rest.windows(what.len()).position(|window| window == what)?;
    Some(from + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipart_form_yields_only_files() {
        let body = "--B\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nx\r\n\
                    --B\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.txt\"\r\n\
                    Content-Type: text/plain\r\n\r\nhello\r\n\r\nfile\r\n\
                    --B\r\nContent-Disposition: form-data; name=\"files\"; filename=\"b\"\r\n\r\n\r\n--B--\r\n";
        let files = files_of("multipart/form-data; boundary=B", &Bytes::from(body));
        let named: Vec<_> = files
            .iter()
            .map(|part| {
                (
                    part.name.as_str(),
                    part.media_type.as_str(),
                    part.bytes.as_ref(),
                )
            })
            .collect();
        assert_eq!(
            named,
            [
                ("a.txt", "text/plain", b"hello\r\n\r\nfile".as_slice()),
                ("b", "application/octet-stream", b"".as_slice()),
            ]
        );
        assert!(files_of("multipart/form-data; boundary=B", &Bytes::from("--B--\r\n")).is_empty());
        assert!(files_of("text/plain", &Bytes::from(body)).is_empty());
    }
}
