//! The environment of Codex: an allow-list, never all of ours.
//!
//! Nothing here reads the environment; the bridge's configuration does, and passes it in.

use std::ffi::{OsStr, OsString};

/// Variables that Codex and its commands need to work as in the operator's own terminal.
const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "CODEX_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];
/// Families of variables that are allowed with any ending.
const PREFIXES: &[&str] = &["LC_", "SSL_CERT_"];

/// The environment for Codex: the allow-list, and what the operator names in `codex.env_pass`.
pub fn allowed(
    all: impl IntoIterator<Item = (OsString, OsString)>,
    env_pass: &[String],
) -> Vec<(OsString, OsString)> {
    all.into_iter()
        .filter(|(name, _)| is_allowed(name, env_pass))
        .collect()
}

fn is_allowed(name: &OsStr, env_pass: &[String]) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || env_pass.iter().any(|pass| pass == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_names_pass() {
        let all = [
            "PATH",
            "LC_ALL",
            "SSL_CERT_FILE",
            "MOLECULE_WORKSPACE_TOKEN",
            "AWS_SECRET",
            "KEY",
        ]
        .map(|name| (OsString::from(name), OsString::from("v")));
        let names: Vec<_> = allowed(all, &["KEY".to_owned()])
            .into_iter()
            .filter_map(|(name, _)| name.into_string().ok())
            .collect();
        assert_eq!(names, ["PATH", "LC_ALL", "SSL_CERT_FILE", "KEY"]);
    }
}
