//! The environment of Codex: an allow-list, never all of ours.
//!
//! Nothing here reads the environment; the bridge's configuration does, and passes it in.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

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

/// Makes the directory that Codex takes for its own where nobody named one. Codex makes it too, but only after its socket
/// needs it: the first start over a socket would fail. A failure is left to Codex, which says more about it.
pub(crate) fn make_default_home(env: &[(OsString, OsString)]) {
    let of = |name: &str| env.iter().find(|(known, _)| known == name);
    if of("CODEX_HOME").is_some() {
        return;
    }
    if let Some((_, home)) = of("HOME") {
        let _ = DirBuilder::new()
            .mode(0o700)
            .create(Path::new(home).join(".codex"));
    }
}

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
    fn default_home_is_made_unless_named() {
        let directory = tempfile::tempdir().unwrap();
        let home = ("HOME".into(), directory.path().into());
        let named = ("CODEX_HOME".into(), "/elsewhere".into());
        make_default_home(&[home.clone(), named]);
        assert!(!directory.path().join(".codex").exists());
        make_default_home(&[home]);
        assert!(directory.path().join(".codex").is_dir());
    }

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
