//! What a check found, and the file in which it is remembered, by the executable's digest.

use crate::binary::stamp::BinaryStamp;
use bridge_codex::schema::{Finding, Severity};
use bridge_core::value::Timestamp;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Verdicts and files that are remembered; the oldest give way.
pub const VERDICTS_MAX: usize = 16;
/// A file of more bytes than this is not ours.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Findings that a verdict keeps, the worst ones.
pub(crate) const FINDINGS_MAX: usize = 64;
/// Bytes that are hashed at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// The bridge that checked: a newer one may understand what an older one did not.
const BRIDGE: &str = env!("CARGO_PKG_VERSION");

/// The SHA-256 of an executable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BinaryDigest(String);

impl BinaryDigest {
    /// Reads the whole file, 300 MB of it: in a second. Blocks.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = file.read(&mut buffer)?;
            match buffer.get(..read) {
                Some([]) | None => break,
                Some(bytes) => hasher.update(bytes),
            }
        }
        Ok(Self(HEXLOWER.encode(&hasher.finalize())))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BinaryDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BinaryDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a check of one executable found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub digest: BinaryDigest,
    /// As the executable reports it.
    pub version: String,
    pub checked_at: Timestamp,
    bridge: String,
    /// Worst first.
    pub findings: Vec<Finding>,
}

impl Verdict {
    pub(crate) fn new(
        digest: BinaryDigest,
        version: String,
        checked_at: Timestamp,
        mut findings: Vec<Finding>,
    ) -> Self {
        findings.sort_by(|one, other| {
            let by_severity = other.severity.cmp(&one.severity);
            by_severity.then_with(|| one.what.cmp(&other.what))
        });
        findings.dedup();
        findings.truncate(FINDINGS_MAX);
        Self {
            digest,
            version,
            checked_at,
            bridge: BRIDGE.to_owned(),
            findings,
        }
    }

    /// Whether messages may be given to it.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.of(Severity::Breaks).next().is_none()
    }

    /// The findings of one severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        let is_it = move |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(is_it)
    }

    /// What it amounts to, as a clause.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |severity| self.of(severity).count();
        let also = match count(Severity::BlindSpot) {
            0 => String::new(),
            1 => " (1 thing in it is unknown to this bridge)".to_owned(),
            many => format!(" ({many} things in it are unknown to this bridge)"),
        };
        let Some(first) = self.of(Severity::Breaks).next() else {
            return format!("passed the check of this bridge{also}");
        };
        let more = match count(Severity::Breaks).saturating_sub(1) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        format!("failed the check of this bridge: {}{more}", first.what)
    }
}

/// The verdicts that are remembered, in a file that this user alone may read.
#[derive(Clone, Debug)]
pub struct Verdicts {
    path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Remembered {
    verdicts: Vec<Verdict>,
    /// Files whose digest is known, so that it is not computed at every start.
    files: Vec<KnownFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KnownFile {
    stamp: BinaryStamp,
    digest: BinaryDigest,
}

impl Verdicts {
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// What an earlier check of this bridge said of it.
    #[must_use]
    pub fn get(&self, digest: &BinaryDigest) -> Option<Verdict> {
        let found = self.read().verdicts.into_iter();
        let mut found = found.filter(|verdict| verdict.bridge == BRIDGE);
        found.find(|verdict| verdict.digest == *digest)
    }

    /// The same by the file, without reading the whole of it.
    #[must_use]
    pub fn of_file(&self, path: &Path) -> Option<Verdict> {
        let digest = self.known_digest(&BinaryStamp::of(path).ok()?)?;
        self.get(&digest)
    }

    /// Remembers a verdict in the place of an earlier one of the same executable. Blocks for a moment.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn put(&self, verdict: &Verdict) -> io::Result<()> {
        let mut all = self.read();
        all.verdicts.retain(|known| known.digest != verdict.digest);
        all.verdicts.insert(0, verdict.clone());
        all.verdicts.truncate(VERDICTS_MAX);
        self.write(&all)
    }

    /// The digest of a file, which is computed once. Blocks.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub fn digest(&self, path: &Path) -> io::Result<BinaryDigest> {
        let stamp = BinaryStamp::of(path)?;
        if let Some(digest) = self.known_digest(&stamp) {
            return Ok(digest);
        }
        let digest = BinaryDigest::of(path)?;
        let mut all = self.read();
        all.files.retain(|known| known.stamp.path != stamp.path);
        let known = KnownFile {
            stamp,
            digest: digest.clone(),
        };
        all.files.insert(0, known);
        all.files.truncate(VERDICTS_MAX);
        if let Err(error) = self.write(&all) {
            tracing::warn!(%error, file = %self.path.display(), "the digest of a codex is not remembered");
        }
        Ok(digest)
    }

    fn known_digest(&self, stamp: &BinaryStamp) -> Option<BinaryDigest> {
        let found = self.read().files.into_iter();
        let mut found = found.filter(|known| known.stamp == *stamp);
        found.next().map(|known| known.digest)
    }

    /// A file that can't be read holds nothing: what is not remembered is checked again.
    fn read(&self) -> Remembered {
        let text = File::open(&self.path).and_then(|file| {
            let mut text = Vec::new();
            file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
            Ok(text)
        });
        let Ok(text) = text else {
            return Remembered::default();
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, file = %self.path.display(), "the checks of codex could not be read; they are made again");
            Remembered::default()
        })
    }

    /// In one step: two processes may write at once, and one of them may be killed.
    fn write(&self, all: &Remembered) -> io::Result<()> {
        let fresh = self
            .path
            .with_extension(format!("{}.new", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&fresh).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(all)?)?;
            fs::rename(&fresh, &self.path)
        });
        written.inspect_err(|_| {
            let _left = fs::remove_file(&fresh);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn verdict(digest: &str, severities: &[Severity]) -> Verdict {
        let finding = |severity: &Severity| Finding {
            severity: *severity,
            what: format!("something {}", severity.as_str()),
        };
        let findings = severities.iter().map(finding).collect();
        let digest = BinaryDigest(digest.to_owned());
        Verdict::new(digest, "0.170.0".to_owned(), Timestamp(1), findings)
    }

    #[test]
    fn only_what_breaks_fails() {
        let passed = verdict("a", &[Severity::Harmless, Severity::BlindSpot]);
        assert!(passed.passed());
        assert!(passed.summary().contains("1 thing in it is unknown"));
        let failed = verdict("a", &[Severity::Harmless, Severity::Breaks]);
        assert!(!failed.passed());
        assert_eq!(failed.findings[0].severity, Severity::Breaks);
        assert!(failed.summary().contains("something breaks"));
    }

    #[test]
    fn verdicts_are_kept_by_digest_and_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("codex-checks.json");
        let verdicts = Verdicts::at(path.clone());
        let failed = verdict("a", &[Severity::Breaks]);
        assert_eq!(verdicts.get(&failed.digest), None);
        verdicts.put(&failed).unwrap();
        assert_eq!(verdicts.get(&failed.digest), Some(failed.clone()));
        let passed = verdict("a", &[]);
        verdicts.put(&passed).unwrap();
        assert_eq!(verdicts.get(&failed.digest), Some(passed));
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        for n in 0..VERDICTS_MAX {
            verdicts.put(&verdict(&format!("b{n}"), &[])).unwrap();
        }
        assert_eq!(verdicts.get(&failed.digest), None, "the oldest gave way");
        let mut other = verdict("c", &[]);
        other.bridge = "0.0.1".to_owned();
        verdicts.put(&other).unwrap();
        assert_eq!(verdicts.get(&other.digest), None, "another bridge checked");
        std::fs::write(&path, "torn").unwrap();
        assert_eq!(verdicts.get(&failed.digest), None);
    }

    #[test]
    fn replaced_executable_has_another_digest() {
        let directory = tempfile::tempdir().unwrap();
        let codex = directory.path().join("codex");
        std::fs::write(&codex, "old").unwrap();
        let verdicts = Verdicts::at(directory.path().join("codex-checks.json"));
        let old = verdicts.digest(&codex).unwrap();
        assert_eq!(verdicts.digest(&codex).unwrap(), old);
        assert_eq!(old, BinaryDigest::of(&codex).unwrap());
        assert_eq!(verdicts.of_file(&codex), None);
        let mut failed = verdict("x", &[Severity::Breaks]);
        failed.digest = old.clone();
        verdicts.put(&failed).unwrap();
        assert_eq!(verdicts.of_file(&codex), Some(failed));
        std::fs::write(directory.path().join("new"), "new").unwrap();
        std::fs::rename(directory.path().join("new"), &codex).unwrap();
        assert_eq!(verdicts.of_file(&codex), None);
        assert_ne!(verdicts.digest(&codex).unwrap(), old);
    }
}
