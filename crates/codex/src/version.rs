//! Which Codex is on the other side, and what that version can do.
//!
//! The one place for the pinned version, the floor, and every boundary between versions;
//! nothing else compares version numbers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The version whose schema, golden transcripts and tests this crate was written against.
pub const PINNED: &str = "0.166.0";

/// The oldest version we work with: the first one with a single-writer lock on a thread.
/// Without it two processes interleave one history and reconciling is guesswork.
pub const FLOOR: Version = Version::new(0, 150, 0);

/// Longest version text we look at; a `--version` that prints a novel is not Codex.
const MAX_VERSION_BYTES: usize = 512;

/// A Codex version, ordered so that a pre-release comes before its release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
    /// `alpha.3` of `0.167.0-alpha.3`; empty for a release.
    pub pre: String,
}

/// Why a text is not a Codex version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VersionError {
    #[error("no version number in {0:?}; is this the Codex binary?")]
    NotFound(String),
}

impl Version {
    /// A release version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
            pre: String::new(),
        }
    }

    /// Reads the output of `codex --version`: `codex-cli 0.166.0`.
    pub fn from_cli(output: &str) -> Result<Self, VersionError> {
        bounded(output)
            .split_whitespace()
            .find_map(|word| word.parse().ok())
            .ok_or_else(|| not_found(output))
    }

    /// Reads `userAgent` of the initialize response: `name/0.166.0 (Debian 12.0.0; x86_64) …`.
    ///
    /// Only the number after the first slash counts: the rest names the operating system and the
    /// client, which have versions of their own.
    pub fn from_user_agent(user_agent: &str) -> Result<Self, VersionError> {
        bounded(user_agent)
            .split_once('/')
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| not_found(user_agent))
    }

    /// True when we work with this version at all.
    pub fn is_supported(&self) -> bool {
        *self >= FLOOR
    }

    /// `app-server --listen unix://PATH` exists.
    pub fn has_socket(&self) -> bool {
        *self >= Self::new(0, 125, 0)
    }

    /// A second process on one thread is refused instead of interleaving histories.
    pub fn has_writer_lock(&self) -> bool {
        *self >= Self::new(0, 150, 0)
    }

    /// `thread/queue/*` exists.
    pub fn has_queue(&self) -> bool {
        *self >= Self::new(0, 150, 0)
    }

    /// An unreachable model is waited for without end unless the feature
    /// `unbounded_connection_retries` is switched off.
    pub fn waits_for_network_for_ever(&self) -> bool {
        *self >= Self::new(0, 150, 0)
    }

    /// New threads keep a paginated history, so `thread/turns/list` is the way to read it.
    pub fn has_paginated_history(&self) -> bool {
        *self >= Self::new(0, 158, 0)
    }

    /// A permission profile that denies reading was seen to hold. Denies did nothing in 0.130, and
    /// what lies between was not tested, so it counts as not enforced.
    pub fn enforces_permission_profiles(&self) -> bool {
        *self >= Self::new(0, 166, 0)
    }
}

fn bounded(text: &str) -> &str {
    crate::text::head(text, MAX_VERSION_BYTES)
}

fn not_found(text: &str) -> VersionError {
    VersionError::NotFound(crate::text::one_line(text, 80))
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (core, pre) = match text.split_once('-') {
            Some((core, pre)) => (core, pre),
            None => (text, ""),
        };
        let mut numbers = core.split('.').map(str::parse::<u32>);
        match (
            numbers.next(),
            numbers.next(),
            numbers.next(),
            numbers.next(),
        ) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Ok(Self {
                major,
                minor,
                patch,
                pre: pre.to_owned(),
            }),
            _ => Err(not_found(text)),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        Ok(())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch, v.pre.is_empty());
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| self.pre.cmp(&other.pre))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn reads_what_the_binary_prints() {
        assert_eq!(
            Version::from_cli("codex-cli 0.166.0\n"),
            Ok(version(PINNED))
        );
        assert_eq!(
            Version::from_cli("WARNING: no helpers\ncodex-cli 0.167.0-alpha.3"),
            Ok(version("0.167.0-alpha.3"))
        );
        assert_eq!(
            Version::from_user_agent("lab/0.166.0 (Debian 12.0.0; x86_64) xterm (lab; 0)"),
            Ok(Version::new(0, 166, 0))
        );
        assert_eq!(
            Version::from_user_agent("codex_cli_rs/0.72.0"),
            Ok(Version::new(0, 72, 0))
        );
    }

    #[test]
    fn refuses_what_is_not_a_version() {
        for text in [
            "",
            "codex-cli",
            "v1",
            "1.2",
            "1.2.3.4",
            "1.2.x",
            "4294967296.0.0",
        ] {
            assert!(Version::from_cli(text).is_err(), "{text:?}");
        }
        for agent in ["", "/", "lab", "lab/", "lab/x (Debian 12.0.0)", "0.166.0"] {
            assert!(Version::from_user_agent(agent).is_err(), "{agent:?}");
        }
        let long = "é".repeat(10_000);
        assert!(Version::from_cli(&long).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn orders_pre_releases_before_releases() {
        assert!(version("0.150.0-alpha.1") < FLOOR);
        assert!(version("0.149.9") < FLOOR);
        assert!(version("0.150.0") >= FLOOR);
        assert!(version("0.9.0") < version("0.10.0"));
        assert_eq!(version("0.167.0-alpha.3").to_string(), "0.167.0-alpha.3");
    }

    #[test]
    fn knows_the_boundaries() {
        let pinned = version(PINNED);
        assert!(pinned.is_supported() && pinned.has_socket() && pinned.has_queue());
        assert!(pinned.has_paginated_history() && pinned.enforces_permission_profiles());
        let floor = FLOOR;
        assert!(floor.has_writer_lock() && floor.waits_for_network_for_ever());
        assert!(!floor.has_paginated_history() && !floor.enforces_permission_profiles());
        assert!(!Version::new(0, 140, 0).is_supported());
        assert!(!Version::new(0, 100, 0).has_socket());
    }
}
