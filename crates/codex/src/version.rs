//! The version of Codex on the other side: the pinned one, the oldest supported one, and how a version is read.

pub use semver::Version;
use thiserror::Error;

/// The version whose schema, golden transcripts and tests this crate was written against.
pub const PINNED: &str = "0.166.0";

/// The newest version that the whole matrix passed on (`docs/codex-versions.md`). A newer one is checked before it is used.
pub const TESTED_UP_TO: Version = Version::new(0, 169, 0);

/// The oldest supported version: the first one with a single-writer lock on a thread.
/// Without it two processes interleave one history and reconciling is guesswork.
pub const FLOOR: Version = Version::new(0, 150, 0);

/// Longest version text that is read; a `--version` that prints more is not Codex.
const MAX_VERSION_BYTES: usize = 512;

/// A text without a Codex version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no version number in {0:?}; is this the Codex binary?")]
pub struct VersionError(String);

/// Reads the output of `codex --version`: `codex-cli 0.166.0`.
pub fn from_cli(output: &str) -> Result<Version, VersionError> {
    bounded(output)
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .ok_or_else(|| not_found(output))
}

/// Reads `userAgent` of the initialize response: `name/0.166.0 (Debian 12.0.0; x86_64) …`.
///
/// Only the number after the first slash counts: the rest names the operating system and the
/// client, which have versions of their own.
pub fn from_user_agent(user_agent: &str) -> Result<Version, VersionError> {
    bounded(user_agent)
        .split_once('/')
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| not_found(user_agent))
}

/// Whether the bridge works with this version at all.
pub fn is_supported(version: &Version) -> bool {
    *version >= FLOOR
}

fn bounded(text: &str) -> &str {
    crate::text::head(text, MAX_VERSION_BYTES)
}

fn not_found(text: &str) -> VersionError {
    VersionError(crate::text::one_line(text, 80))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn reads_what_the_binary_prints() {
        assert_eq!(from_cli("codex-cli 0.166.0\n"), Ok(version(PINNED)));
        assert_eq!(
            from_cli("WARNING: no helpers\ncodex-cli 0.167.0-alpha.3"),
            Ok(version("0.167.0-alpha.3"))
        );
        assert_eq!(
            from_user_agent("lab/0.166.0 (Debian 12.0.0; x86_64) xterm (lab; 0)"),
            Ok(Version::new(0, 166, 0))
        );
        assert_eq!(
            from_user_agent("codex_cli_rs/0.72.0"),
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
            "18446744073709551616.0.0",
        ] {
            assert!(from_cli(text).is_err(), "{text:?}");
        }
        for agent in ["", "/", "lab", "lab/", "lab/x (Debian 12.0.0)", "0.166.0"] {
            assert!(from_user_agent(agent).is_err(), "{agent:?}");
        }
        let long = "é".repeat(10_000);
        assert!(from_cli(&long).unwrap_err().to_string().len() < 200);
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
    fn supports_pinned_and_floor_but_nothing_older() {
        assert!(is_supported(&version(PINNED)) && is_supported(&FLOOR));
        assert!(!is_supported(&Version::new(0, 140, 0)));
    }
}
