//! Credentials as they are stored: each is encrypted for its own row and column, and those of a push for its address
//! too, so that a value that is moved, or whose address is changed, can't be read.

use crate::key::{LedgerKey, Unreadable};
use crate::sql::{self, Conn};
use bridge_core::port::RowsError;
use bridge_core::value::FileDigest;

/// Where a value is stored; what it is encrypted for.
#[derive(Debug)]
pub(crate) struct SealContext(Vec<u8>);

impl SealContext {
    fn of(parts: &[&str]) -> Self {
        let mut place = Vec::new();
        for part in parts {
            // With its length, so that no text can move from one part to the next.
            place.extend_from_slice(format!("{}:{part}", part.len()).as_bytes());
        }
        Self(place)
    }

    pub(crate) fn push_url(task_id: &str, config_id: &str) -> Self {
        Self::of(&["push", "url", task_id, config_id])
    }

    pub(crate) fn push_token(task_id: &str, config_id: &str, url: &str) -> Self {
        Self::of(&["push", "token", task_id, config_id, url])
    }

    pub(crate) fn push_credentials(task_id: &str, config_id: &str, url: &str) -> Self {
        Self::of(&["push", "credentials", task_id, config_id, url])
    }

    pub(crate) fn segment(thread: &str, path: &str, start: i64) -> Self {
        Self::of(&["segment", thread, path, &start.to_string()])
    }

    pub(crate) fn file_piece(digest: &FileDigest, start: i64) -> Self {
        Self::of(&["file", &digest.to_string(), &start.to_string()])
    }

    pub(crate) fn receiver(part: &str, receiver_id: &str) -> Self {
        Self::of(&["receiver", part, receiver_id])
    }

    pub(crate) fn push_key() -> Self {
        Self::of(&["instance", "push key"])
    }

    pub(crate) fn answers(request_id: &str) -> Self {
        Self::of(&["request", "answers", request_id])
    }
}

pub(crate) fn seal(key: &LedgerKey, place: &SealContext, clear: &str) -> Result<String, RowsError> {
    key.seal(&place.0, clear).map_err(|_| RowsError::Backend {
        what: "a credential could not be encrypted, because the system gives no random numbers; nothing was written"
            .to_owned(),
    })
}

pub(crate) fn open(
    key: &LedgerKey,
    place: &SealContext,
    stored: &str,
) -> Result<String, Unreadable> {
    key.open(&place.0, stored)
}

pub(crate) fn seal_bytes(
    key: &LedgerKey,
    place: &SealContext,
    clear: &[u8],
) -> Result<Vec<u8>, RowsError> {
    let sealed = key.seal_bytes(&place.0, clear);
    sealed.map_err(|_| RowsError::Backend {
        what: "bytes of a thread or a file could not be encrypted, because the system gives no random numbers; nothing was written"
            .to_owned(),
    })
}

pub(crate) fn open_bytes(
    key: &LedgerKey,
    place: &SealContext,
    stored: Vec<u8>,
) -> Result<Vec<u8>, Unreadable> {
    key.open_bytes(&place.0, stored)
}

/// One row of `push` as it is stored.
struct StoredPush {
    task_id: String,
    config_id: String,
    url: String,
    token: Option<String>,
    credentials: Option<String>,
}

impl StoredPush {
    fn all(conn: Conn<'_>) -> Result<Vec<Self>, RowsError> {
        let query = "SELECT task_id, subscription_id, target, token, credentials FROM subscription WHERE kind = 'push'";
        sql::many(conn, query, [], |row| {
            let text = |at| row.get(at).map_err(sql::failed);
            let maybe = |at| row.get(at).map_err(sql::failed);
            Ok(Self {
                task_id: text(0)?,
                config_id: text(1)?,
                url: text(2)?,
                token: maybe(3)?,
                credentials: maybe(4)?,
            })
        })
    }

    fn is_readable(&self, key: &LedgerKey) -> bool {
        let (task, config) = (&self.task_id, &self.config_id);
        let Ok(url) = open(key, &SealContext::push_url(task, config), &self.url) else {
            return false;
        };
        let readable = |place: SealContext, stored: &Option<String>| {
            let stored = stored.as_ref();
            stored.is_none_or(|stored| open(key, &place, stored).is_ok())
        };
        readable(SealContext::push_token(task, config, &url), &self.token)
            && readable(
                SealContext::push_credentials(task, config, &url),
                &self.credentials,
            )
    }
}

/// How many push configurations there are, and how many of them this key can't read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedPushes {
    /// All of them.
    pub all: usize,
    /// Those whose address or credentials can't be decrypted.
    pub unreadable: usize,
}

/// Looks at all of them.
pub(crate) fn pushes(conn: Conn<'_>, key: &LedgerKey) -> Result<SealedPushes, RowsError> {
    let pushes = StoredPush::all(conn)?;
    let unreadable = pushes.iter().filter(|push| !push.is_readable(key));
    Ok(SealedPushes {
        unreadable: unreadable.count(),
        all: pushes.len(),
    })
}
