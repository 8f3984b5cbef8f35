//! Secrets of the operator: values that are never printed, and the files that hold them.

use reqwest::header::{HeaderValue, InvalidHeaderValue};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A value that must not be printed. It goes into the header of a call and nowhere else.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for a header or for finding it in a text that must not hold it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The text of a file that holds a secret.
pub(crate) struct SecretFile {
    /// At most one byte more than the limit, so that a longer file can be noticed.
    pub(crate) text: String,
    /// Whether only its owner may read it.
    pub(crate) is_private: bool,
}

impl SecretFile {
    pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Self> {
        // Asked first: opening a pipe would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let file = File::open(path)?;
        let is_private = file.metadata()?.mode() & 0o077 == 0;
        let mut text = String::new();
        file.take(max_bytes.saturating_add(1))
            .read_to_string(&mut text)?;
        Ok(Self { text, is_private })
    }
}

/// The `Authorization` header that carries a token.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}
