//! The version of a release and its notes: one version everywhere, and the section of CHANGELOG.md about it.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

/// The section of what is not released yet.
const UNRELEASED: &str = "Unreleased";

/// The version of the workspace, which every other place must agree with.
pub(super) fn version(root: &Path) -> anyhow::Result<String> {
    let manifest: toml::Table = read(root, "Cargo.toml")?.parse()?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    let version = version.context("Cargo.toml has no workspace.package.version")?;
    let lock: toml::Table = read(root, "Cargo.lock")?.parse()?;
    let locked = lock["package"].as_array().into_iter().flatten();
    let locked = locked.filter(|package| package.get("source").is_none());
    for package in locked {
        let (name, of) = (package["name"].as_str(), package["version"].as_str());
        if of != Some(version) {
            bail!("Cargo.lock has {name:?} at {of:?}, and the workspace is {version}");
        }
    }
    let openapi: Value = serde_json::from_str(&read(root, "docs/openapi.json")?)?;
    if openapi["info"]["version"] != version {
        bail!(
            "docs/openapi.json is of version {}, and the workspace is {version}",
            openapi["info"]["version"]
        );
    }
    Ok(version.to_owned())
}

/// What CHANGELOG.md says about the version; before its release, what is not released yet.
pub(super) fn notes(root: &Path, version: &str) -> anyhow::Result<String> {
    let changelog = read(root, "CHANGELOG.md")?;
    let section = section(&changelog, version).or_else(|| section(&changelog, UNRELEASED));
    let section = section.with_context(|| {
        format!("CHANGELOG.md has no section [{version}] or [{UNRELEASED}]; write one")
    })?;
    Ok(format!("# codex-bridge {version}\n\n{}\n", section.trim()))
}

/// The text below `## [name]`, up to the next heading of its rank.
fn section<'a>(changelog: &'a str, name: &str) -> Option<&'a str> {
    let heading = format!("\n## [{name}]");
    let (_, rest) = changelog.split_once(&heading)?;
    let (_, text) = rest.split_once('\n')?;
    Some(text.split("\n## ").next().unwrap_or(text))
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\nnew\n\n## [0.1.0] - 2026-11-20\n\n### Added\n\n- this\n\n## [0.0.1]\n\nold\n";

    #[test]
    fn notes_are_the_section_of_the_version() {
        assert_eq!(
            section(CHANGELOG, "0.1.0").unwrap().trim(),
            "### Added\n\n- this"
        );
        assert_eq!(section(CHANGELOG, UNRELEASED).unwrap().trim(), "new");
        assert_eq!(section(CHANGELOG, "0.2.0"), None);
    }

    #[test]
    fn versions_of_this_tree_agree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let version = version(&root).unwrap();
        assert!(notes(&root, &version).unwrap().contains("\n- "));
    }

    #[test]
    fn differing_version_is_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Cargo.toml", "[workspace.package]\nversion = '0.2.0'\n");
        write(
            "Cargo.lock",
            "[[package]]\nname = 'ours'\nversion = '0.2.0'\n",
        );
        write("docs/openapi.json", r#"{"info": {"version": "0.1.0"}}"#);
        let error = version(root.path()).unwrap_err().to_string();
        assert!(error.contains("docs/openapi.json"), "{error}");
        write(
            "Cargo.lock",
            "[[package]]\nname = 'ours'\nversion = '0.1.0'\n",
        );
        let error = version(root.path()).unwrap_err().to_string();
        assert!(error.contains("Cargo.lock"), "{error}");
    }
}
