//! The workspace's token: where it comes from, what it is now, and that it never shows.
//!
//! The platform revokes the old token the moment a new one is made, so a refused token is read again from its file.

use crate::locked;
use crate::secret::{Secret, SecretFile, bearer};
use reqwest::header::HeaderValue;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The longest token; real ones have 43 characters.
const TOKEN_MAX_BYTES: u64 = 4_096;
/// How many tokens that were replaced are still kept out of replies.
const OLD_TOKENS_MAX: usize = 8;

/// Where a workspace's token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// Given at the start, from the environment; a new one needs a restart.
    Value(Secret),
    /// A file, read again when the platform refuses what it held.
    File(PathBuf),
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The file can't be read.
    #[error(
        "the token file {path} can't be read ({why}): put the workspace's token there, readable by this user alone"
    )]
    Unreadable {
        path: String,
        /// Why not.
        why: String,
    },
    /// What is there is no token.
    #[error(
        "{place} holds no usable token ({why}): copy it from the canvas, External Connect or the Tokens tab"
    )]
    Unfit {
        /// Where it was looked for.
        place: String,
        /// What is wrong with it, without showing it.
        why: &'static str,
    },
}

/// The token as it is now.
pub(crate) struct WorkspaceToken {
    source: TokenSource,
    known: Mutex<KnownToken>,
}

struct KnownToken {
    header: HeaderValue,
    value: Secret,
    /// Tokens that were replaced, newest last: old ones stay secrets.
    old: Vec<Secret>,
}

impl fmt::Debug for WorkspaceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkspaceToken")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl WorkspaceToken {
    pub(crate) fn open(source: TokenSource) -> Result<Self, TokenError> {
        let (value, header) = look(&source)?;
        let known = KnownToken {
            header,
            value,
            old: Vec::new(),
        };
        Ok(Self {
            source,
            known: Mutex::new(known),
        })
    }

    /// The `Authorization` header.
    pub(crate) fn header(&self) -> HeaderValue {
        locked(&self.known).header.clone()
    }

    /// Looks at the source again; `true` when it holds another token now.
    pub(crate) fn look_again(&self) -> Result<bool, TokenError> {
        let (value, header) = look(&self.source)?;
        let mut known = locked(&self.known);
        if known.value == value {
            return Ok(false);
        }
        let old = std::mem::replace(&mut known.value, value);
        known.header = header;
        known.old.push(old);
        if known.old.len() > OLD_TOKENS_MAX {
            known.old.remove(0);
        }
        Ok(true)
    }

    /// Every value that must not be in a reply.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let known = locked(&self.known);
        let now = std::iter::once(&known.value);
        now.chain(&known.old).cloned().collect()
    }

    /// Where a new one should be put, for people.
    pub(crate) fn place(&self) -> String {
        place(&self.source)
    }
}

fn place(source: &TokenSource) -> String {
    match source {
        TokenSource::Value(_) => "the environment".to_owned(),
        TokenSource::File(path) => path.display().to_string(),
    }
}

fn look(source: &TokenSource) -> Result<(Secret, HeaderValue), TokenError> {
    let text = match source {
        TokenSource::Value(secret) => secret.expose().to_owned(),
        TokenSource::File(path) => read_file(path)?,
    };
    let unfit = |why| TokenError::Unfit {
        place: place(source),
        why,
    };
    let token = text.trim();
    if token.is_empty() {
        return Err(unfit("it is empty"));
    }
    if !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(unfit("it holds characters that no token has"));
    }
    let header = bearer(token).map_err(|_| unfit("it can't be sent in a header"))?;
    Ok((Secret::new(token), header))
}

fn read_file(path: &Path) -> Result<String, TokenError> {
    let unreadable = |why: String| TokenError::Unreadable {
        path: path.display().to_string(),
        why,
    };
    let file = SecretFile::read(path, TOKEN_MAX_BYTES);
    let text = file.map_err(|error| unreadable(error.to_string()))?.text;
    match u64::try_from(text.len()) {
        Ok(length) if length <= TOKEN_MAX_BYTES => Ok(text),
        Ok(_) | Err(_) => Err(unreadable("it is too long for a token".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_shows() {
        let source = TokenSource::Value(Secret::new("canary-1"));
        let token = WorkspaceToken::open(source.clone()).unwrap();
        let shown = format!("{source:?} {token:?} {:?}", token.header());
        assert!(!shown.contains("canary-1"), "{shown}");
        assert_eq!(token.header().to_str().unwrap(), "Bearer canary-1");
    }

    #[test]
    fn changed_file_keeps_old_token_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let token = WorkspaceToken::open(TokenSource::File(path.clone())).unwrap();
        assert_eq!(token.look_again(), Ok(false));
        std::fs::write(&path, " two ").unwrap();
        assert_eq!(token.look_again(), Ok(true));
        assert_eq!(token.header().to_str().unwrap(), "Bearer two");
        assert_eq!(token.secrets(), [Secret::new("two"), Secret::new("one")]);
        std::fs::remove_file(&path).unwrap();
        assert!(token.look_again().is_err());
        assert_eq!(token.header().to_str().unwrap(), "Bearer two");
    }

    #[test]
    fn invalid_token_is_rejected_without_echo() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for bad in ["", " \n", "two words", "caf\u{e9}", &"x".repeat(5_000)] {
            std::fs::write(&path, bad).unwrap();
            let error = WorkspaceToken::open(TokenSource::File(path.clone())).unwrap_err();
            assert!(bad.trim().is_empty() || !error.to_string().contains(bad));
        }
        assert!(WorkspaceToken::open(TokenSource::File(dir.path().to_owned())).is_err());
    }
}
