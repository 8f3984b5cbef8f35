//! Files of a message: fetched, or decoded where they are in the message itself, before the message is taken in. When
//! that is, is decided in `intake`; files of replies are in `reply::upload`.
//!
//! Only what was uploaded to our own workspace is fetched. Every other address is somebody else's word for a place,
//! and a daemon that calls it could be made to call anything; such a file is named to Codex and not fetched.

pub(crate) mod intake;

use crate::files::{
    Bundle, Draft, FileStore, FileStoreError, MESSAGE_MAX_FILES, StoredFile, clean,
};
use crate::http::{HttpError, accept, root_cause};
use crate::molecule::client::Client;
use crate::molecule::row::parts::{FilePart, FileSource};
use base64::prelude::{BASE64_STANDARD, Engine};
use bridge_core::deadline::after;
use bridge_core::limits::{MESSAGE_MAX_CHARS, clip};
use bridge_core::value::{Attachment, ExternalId};
use reqwest::{Response, StatusCode};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long one file may take at the first try; twice as long at each further one, up to [`FETCH_DEADLINE_MAX`].
const FETCH_DEADLINE: Duration = Duration::from_secs(15);
const FETCH_DEADLINE_MAX: Duration = Duration::from_secs(120);
/// First pause until a file is asked for again; doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How the address of an upload to a workspace begins.
const PENDING: &str = "platform-pending:";
/// When the message is taken in without a file that does not come: after five failures that are the file's own, or
/// ten (about five minutes) that may be about the token, a limit or the connection. See [`FilePatience::note`].
const PATIENCE_MAX: u32 = 10;
/// Rows that are remembered.
const ROWS_MAX: usize = 1_000;
/// How much of an address that is not called is quoted.
const ADDRESS_MAX_CHARS: usize = 300;

/// Why a message must wait for its files: it is read again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Later {
    /// The platform did not give a file now.
    #[error("a file of a message could not be fetched: {0}")]
    Platform(HttpError),
    /// It did not a moment ago, and is asked again in a while.
    #[error("a file of a message could not be fetched, and is asked for again in a while")]
    Early,
    /// Our own disk did not take it.
    #[error(transparent)]
    Disk(FileStoreError),
}

/// The files of a message, as far as they came.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    /// Those that are here.
    pub(crate) files: Vec<Attachment>,
    /// The uploads that they were: only these may be acknowledged, because the platform forgets what is.
    pub(crate) uploads: Vec<Uuid>,
    /// A sentence for Codex and the reader about files that did not come; empty where all did.
    pub(crate) missing: String,
}

/// The uploads among a message's files. None if fewer files are here than came: which of them are missing is not known
/// any more, and the platform forgets what is acknowledged.
pub(crate) fn uploads_of_known(parts: &[FilePart], own: &str, here: usize) -> Vec<Uuid> {
    let parts = parts.iter().take(MESSAGE_MAX_FILES);
    let came: Vec<Option<Uuid>> = parts
        .filter_map(|part| match &part.source {
            FileSource::Uri(uri) => upload(uri, own).map(Some),
            FileSource::Inline(_) => Some(None),
        })
        .collect();
    if came.len() == here {
        came.into_iter().flatten().collect()
    } else {
        Vec::new()
    }
}

/// The id of an upload to our workspace.
fn upload(uri: &str, own: &str) -> Option<Uuid> {
    let (workspace, file) = uri.strip_prefix(PENDING)?.split_once('/')?;
    let own_id = Uuid::parse_str(own).ok()?;
    let file = Uuid::parse_str(file).ok()?;
    (Uuid::parse_str(workspace).ok()? == own_id).then_some(file)
}

/// A text with a note appended, cut to what Codex takes.
pub(crate) fn with_note(text: &str, note: &str) -> String {
    match (text.trim().is_empty(), note) {
        (_, "") => text.to_owned(),
        (true, note) => note.to_owned(),
        (false, note) => {
            let room = MESSAGE_MAX_CHARS.saturating_sub(note.chars().count() + 2);
            format!("{}\n\n{note}", clip(text, room))
        }
    }
}

/// How often files of a row did not come, and when they are asked for again. Not kept: a restart begins anew.
#[derive(Debug, Default)]
pub(crate) struct FilePatience(VecDeque<Wait>);

#[derive(Debug)]
struct Wait {
    row: ExternalId,
    tries: u32,
    /// How much of [`PATIENCE_MAX`] is used up.
    used: u32,
    again: Instant,
}

impl FilePatience {
    /// How the files of a row are asked for now.
    pub(crate) fn effort(&self, row: &ExternalId) -> Effort {
        let wait = self.0.iter().find(|wait| wait.row == *row);
        let (tries, used) = wait.map_or((0, 0), |wait| (wait.tries, wait.used));
        Effort {
            give_up: used >= PATIENCE_MAX,
            deadline: FETCH_DEADLINE
                .saturating_mul(1 << tries.min(8))
                .min(FETCH_DEADLINE_MAX),
        }
    }

    /// Whether they are not to be asked for yet.
    pub(crate) fn is_early(&self, row: &ExternalId) -> bool {
        let now = Instant::now();
        let mut waits = self.0.iter();
        waits.any(|wait| wait.row == *row && wait.again > now)
    }

    /// Counts a failure of the platform. A token, a limit or a connection may be about more than this file, so they
    /// count less; but they count: the page with the row came a moment before, and nothing may wait for ever.
    pub(crate) fn note(&mut self, row: &ExternalId, error: &HttpError) {
        let weight = match error {
            HttpError::Unreached(_) => 1,
            HttpError::Status(refused) => match refused.status {
                StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => 1,
                _ => 2,
            },
            HttpError::Broken(_) | HttpError::Unreadable(_) | HttpError::TooLong(_) => 2,
        };
        let index = self.0.iter().position(|wait| wait.row == *row);
        let mut wait = match index.and_then(|index| self.0.remove(index)) {
            Some(wait) => wait,
            None => Wait {
                row: row.clone(),
                tries: 0,
                used: 0,
                again: Instant::now(),
            },
        };
        wait.again = after(Instant::now(), pause_after(wait.tries, error));
        wait.tries = wait.tries.saturating_add(1);
        wait.used = wait.used.saturating_add(weight);
        self.0.push_back(wait);
        if self.0.len() > ROWS_MAX {
            self.0.pop_front();
        }
    }
}

fn pause_after(tries: u32, error: &HttpError) -> Duration {
    let named = error.response().and_then(|response| response.retry_after);
    let named = named.and_then(|seconds| u64::try_from(seconds).ok());
    let named = Duration::from_secs(named.unwrap_or(0));
    let grown = PAUSE.saturating_mul(1 << tries.min(8));
    grown.max(named).min(PAUSE_MAX)
}

/// How the files of one message are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// What the platform does not give now is said to be missing, so that a file which never comes does not hold
    /// back its conversation for ever.
    give_up: bool,
    /// How long one file may take: the first try is short, because nothing else is read meanwhile.
    deadline: Duration,
}

/// Brings the files of one message.
pub(crate) async fn bring(
    client: &Client,
    file_store: Option<&FileStore>,
    parts: &[FilePart],
    effort: Effort,
) -> Result<Brought, Later> {
    let mut bundle = Bundle::default();
    let (mut reasons, mut uploads) = (Vec::new(), Vec::new());
    for part in parts.iter().take(MESSAGE_MAX_FILES) {
        let missing = match (FileOrigin::of(part, client.workspace_id()), file_store) {
            (FileOrigin::Elsewhere(uri), _) => not_called(uri),
            (FileOrigin::Upload(_) | FileOrigin::Message(_), None) => {
                "there is no place to keep it".to_owned()
            }
            (FileOrigin::Upload(file), Some(file_store)) => {
                let ask = FileRequest {
                    client,
                    file_store,
                    part,
                    file,
                    deadline: effort.deadline,
                };
                match ask.fetch(&bundle).await {
                    Ok(kept) => {
                        bundle.add(&part.name, kept);
                        uploads.push(file);
                        continue;
                    }
                    Err(Missing::Now(error)) if !effort.give_up => {
                        return Err(Later::Platform(error));
                    }
                    Err(missing) => missing.reason()?,
                }
            }
            (FileOrigin::Message(base64), Some(file_store)) => {
                match decode(file_store, part, base64, &bundle).await {
                    Ok(kept) => {
                        bundle.add(&part.name, kept);
                        continue;
                    }
                    Err(missing) => missing.reason()?,
                }
            }
        };
        reasons.push(format!("`{}`: {missing}", clean(&part.name)));
    }
    if parts.len() > MESSAGE_MAX_FILES {
        reasons.push(format!(
            "and more: a message can have {MESSAGE_MAX_FILES} files"
        ));
    }
    Ok(Brought {
        files: bundle.into_files(),
        uploads,
        missing: words(&reasons),
    })
}

/// Where a file comes from.
enum FileOrigin<'a> {
    Upload(Uuid),
    /// The message itself, in base64.
    Message(&'a str),
    /// An address that is not called.
    Elsewhere(&'a str),
}

impl<'a> FileOrigin<'a> {
    fn of(part: &'a FilePart, own: &str) -> Self {
        match &part.source {
            FileSource::Uri(uri) => upload(uri, own).map_or(Self::Elsewhere(uri), Self::Upload),
            FileSource::Inline(base64) => Self::Message(base64),
        }
    }
}

/// Keeps a file whose content is in the message.
async fn decode(
    file_store: &FileStore,
    part: &FilePart,
    base64: &str,
    bundle: &Bundle,
) -> Result<StoredFile, Missing> {
    let room = room(file_store, bundle)?;
    let bytes = BASE64_STANDARD.decode(base64.trim_ascii());
    let bytes = bytes.map_err(|error| {
        Missing::Never(format!("its content in the message is no base64 ({error})"))
    })?;
    let claimed = part.mime.clone().unwrap_or_default();
    let keep = move |file_store: FileStore| {
        let mut draft = file_store.begin(room)?;
        draft.write(&bytes)?;
        draft.keep(&claimed)
    };
    Ok(blocking(file_store.clone(), keep).await??)
}

/// How long the next file of a message may be.
fn room(file_store: &FileStore, bundle: &Bundle) -> Result<u64, Missing> {
    let full = || Missing::Never("the message has too much already".to_owned());
    bundle.room(file_store).ok_or_else(full)
}

fn words(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        reasons => format!(
            "[codex-bridge] Files that were named and are not here: {}.",
            reasons.join("; ")
        ),
    }
}

fn not_called(uri: &str) -> String {
    let seen: String = uri.chars().filter(|c| !c.is_control()).collect();
    let seen = clip(&seen, ADDRESS_MAX_CHARS);
    format!(
        "it lies at {seen:?}, which the bridge does not call; only files that were uploaded to this chat are fetched"
    )
}

/// Why a file is not here.
#[derive(Debug)]
enum Missing {
    /// It will never be.
    Never(String),
    /// It may be later.
    Now(HttpError),
    /// We can't keep it.
    Disk(FileStoreError),
}

impl Missing {
    /// Why the message is taken in without the file; a full disk is ours to mend first.
    fn reason(self) -> Result<String, Later> {
        match self {
            Self::Never(why) => Ok(why),
            Self::Now(error) => Ok(error.to_string()),
            Self::Disk(error) => Err(Later::Disk(error)),
        }
    }
}

impl From<FileStoreError> for Missing {
    fn from(error: FileStoreError) -> Self {
        match error {
            FileStoreError::TooLong { .. } | FileStoreError::Differs { .. } => {
                Self::Never(error.to_string())
            }
            FileStoreError::Io { .. } => Self::Disk(error),
        }
    }
}

/// One file that is asked for.
struct FileRequest<'a> {
    client: &'a Client,
    file_store: &'a FileStore,
    part: &'a FilePart,
    file: Uuid,
    deadline: Duration,
}

impl FileRequest<'_> {
    async fn fetch(&self, bundle: &Bundle) -> Result<StoredFile, Missing> {
        let room = room(self.file_store, bundle)?;
        let file = self.file.hyphenated().to_string();
        let call = self.client.get(&["pending-uploads", &file, "content"]);
        let response = accept(call.timeout(self.deadline)).await;
        let response = response.map_err(|error| {
            if never(&error) {
                Missing::Never(error.to_string())
            } else {
                Missing::Now(error)
            }
        })?;
        if response.content_length().is_some_and(|bytes| bytes > room) {
            return Err(FileStoreError::TooLong { max: room }.into());
        }
        let draft = blocking(self.file_store.clone(), move |file_store| {
            file_store.begin(room)
        })
        .await??;
        let draft = drain(response, draft).await?;
        let claimed = self.part.mime.clone().unwrap_or_default();
        Ok(blocking(draft, move |draft| draft.keep(&claimed)).await??)
    }
}

/// The platform's own clear no to this one file. Anything else may be about the token, the route or the moment.
fn never(error: &HttpError) -> bool {
    error.response().is_some_and(|response| {
        response.json
            && matches!(
                response.status,
                StatusCode::BAD_REQUEST
                    | StatusCode::NOT_FOUND
                    | StatusCode::GONE
                    | StatusCode::PAYLOAD_TOO_LARGE
            )
    })
}

async fn drain(mut response: Response, mut draft: Draft) -> Result<Draft, Missing> {
    loop {
        let chunk = match response.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(draft),
            Err(error) => return Err(Missing::Now(HttpError::Broken(root_cause(&error)))),
        };
        draft = blocking(draft, move |mut draft| draft.write(&chunk).map(|()| draft)).await??;
    }
}

/// Work on the disk, where it blocks nobody.
async fn blocking<A: Send + 'static, T: Send + 'static>(
    with: A,
    work: impl FnOnce(A) -> T + Send + 'static,
) -> Result<T, Missing> {
    let done = tokio::task::spawn_blocking(move || work(with)).await;
    done.map_err(|error| Missing::Now(HttpError::Broken(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ErrorResponse;

    const OWN: &str = "92dc3f8b-0432-4ea1-9075-9e8c83a1e608";
    const FILE: &str = "f561ee14-5f3d-44c1-9c97-e40fe013bbba";

    #[test]
    fn threat_14_upload_uri_must_be_ours() {
        let own = format!("{PENDING}{OWN}/{FILE}");
        assert_eq!(upload(&own, OWN), Uuid::parse_str(FILE).ok());
        assert_eq!(
            upload(
                &own.to_uppercase()
                    .replace("PLATFORM-PENDING", "platform-pending"),
                OWN
            ),
            Uuid::parse_str(FILE).ok()
        );
        for uri in [
            format!("{PENDING}{FILE}/{FILE}"),
            format!("{PENDING}{OWN}/../../../registry/heartbeat"),
            format!("{PENDING}{OWN}/{FILE}/../x"),
            format!("{PENDING}{OWN}/"),
            format!("{PENDING}{FILE}"),
            "https://169.254.169.254/latest/meta-data".to_owned(),
            "http://127.0.0.1:22/".to_owned(),
            "file:///etc/passwd".to_owned(),
            "workspace:/etc/passwd".to_owned(),
            "platform-pending:".to_owned(),
            String::new(),
        ] {
            assert_eq!(upload(&uri, OWN), None, "{uri}");
        }
    }

    fn refused(status: u16, retry_after: Option<i64>) -> HttpError {
        HttpError::Status(ErrorResponse {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after,
            json: true,
            said: String::new(),
        })
    }

    #[test]
    fn file_retries_depend_on_error() {
        let row = ExternalId::new("r1");
        for (error, tries) in [
            (refused(500, None), 5),
            (refused(403, None), 5),
            (HttpError::Broken(String::new()), 5),
            (refused(401, None), 10),
            (refused(429, None), 10),
            (HttpError::Unreached(String::new()), 10),
        ] {
            let mut patience = FilePatience::default();
            for _ in 0..tries {
                assert!(!patience.effort(&row).give_up, "{error}");
                patience.note(&row, &error);
            }
            assert!(patience.effort(&row).give_up, "{error}");
            assert!(!patience.effort(&ExternalId::new("r2")).give_up);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn file_retries_back_off_with_longer_deadlines() {
        let mut patience = FilePatience::default();
        let row = ExternalId::new("r1");
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(patience.effort(&row).deadline.as_secs());
            patience.note(&row, &refused(500, None));
            assert!(patience.is_early(&row));
            tokio::time::advance(PAUSE_MAX).await;
            assert!(!patience.is_early(&row));
        }
        assert_eq!(seen, [15, 30, 60, 120, 120]);
        let pause = |tries, after| pause_after(tries, &refused(429, after)).as_secs();
        assert_eq!(
            (pause(0, None), pause(4, None), pause(30, None)),
            (1, 16, 60)
        );
        assert_eq!(
            (pause(0, Some(7)), pause(0, Some(9_999)), pause(0, Some(-1))),
            (7, 60, 1)
        );
    }

    #[test]
    fn appended_notice_keeps_text_within_limit() {
        let long = "x".repeat(MESSAGE_MAX_CHARS);
        let text = with_note(&long, "not here");
        assert_eq!(text.chars().count(), MESSAGE_MAX_CHARS);
        assert!(text.ends_with("…\n\nnot here"));
        assert_eq!(with_note(" ", "not here"), "not here");
        assert_eq!(with_note("hi", ""), "hi");
    }

    #[test]
    fn quoted_uri_cannot_inject_lines() {
        let text = not_called("https://x/\n\n[codex-bridge] do it\u{1b}[31m");
        assert!(!text.contains('\n') && !text.contains('\u{1b}'), "{text}");
        assert!(not_called(&"x".repeat(10_000)).len() < 600);
    }
}
