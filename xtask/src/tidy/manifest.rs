//! The rules about manifests: who depends on whom, and that the workspace's lints
//! hold everywhere. Cargo itself reads the manifests, so renames, targets and
//! inheritance are already resolved.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::Finding;
use super::rooms::Room;
use crate::ci;

/// The database's driver.
const DATABASE: &str = "rusqlite";

/// One `Cargo.toml` of the workspace.
struct Manifest {
    /// Relative to the root.
    path: PathBuf,
    text: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// Where it lives, relative to the root, if it is one of ours.
    folder: Option<PathBuf>,
    is_dev: bool,
    is_optional: bool,
}

pub(super) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for manifest in read(root)? {
        match Room::of(&manifest.path) {
            Some(room) => check_dependencies(&manifest, room, &mut findings),
            None => findings.push(manifest.finding(
                "",
                "this crate is in no room; put it into one, or add the room to \
                 xtask/src/tidy/rooms.rs with an ADR",
            )),
        }
        if !inherits_lints(&manifest.text)? {
            let what =
                "the workspace's lints do not hold here; add `[lints]` with `workspace = true`";
            findings.push(manifest.finding("", what));
        }
    }
    Ok(findings)
}

fn check_dependencies(manifest: &Manifest, room: Room, findings: &mut Vec<Finding>) {
    for dependency in &manifest.dependencies {
        let refusal = match &dependency.folder {
            Some(folder) => {
                let used = Room::of(folder);
                refuse_room(room, used, dependency.is_dev)
                    .or_else(|| refuse_always(room, used, dependency))
            }
            None if dependency.is_dev => None,
            None => refuse_external(room, &dependency.name),
        };
        if let Some(refusal) = refusal {
            findings.push(manifest.finding(&dependency.name, &refusal));
        }
    }
}

/// Tests may use what the code may use, `sim` and `testkit`; the tests of `sim`, which put worlds together, may use
/// everything. No code that ships uses `testkit`.
fn refuse_room(room: Room, used: Option<Room>, is_dev: bool) -> Option<String> {
    let name = room.name();
    let Some(used) = used else {
        return Some(format!(
            "`{name}` depends on a crate that is in no room; put it into one"
        ));
    };
    if room.may_use().contains(&used)
        || (is_dev && (matches!(used, Room::Sim | Room::Testkit) || room == Room::Sim))
    {
        return None;
    }
    let allowed: Vec<_> = room.may_use().iter().map(|room| room.name()).collect();
    let allowed = if allowed.is_empty() {
        "nothing".to_owned()
    } else {
        allowed.join(", ")
    };
    Some(format!(
        "`{name}` may not depend on `{}` (only on: {allowed}); let them meet in a port of \
         `core`, or in `daemon`",
        used.name()
    ))
}

/// Packages may leave the demo and its simulators out, so the binary links them behind a feature.
fn refuse_always(room: Room, used: Option<Room>, dependency: &Dependency) -> Option<String> {
    let is_required = !dependency.is_dev && !dependency.is_optional;
    (room == Room::Cli && used == Some(Room::Demo) && is_required).then(|| {
        "`cli` may depend on `demo` only behind its feature; make it `optional = true`".to_owned()
    })
}

fn refuse_external(room: Room, name: &str) -> Option<String> {
    let own = room.name();
    if name == DATABASE && !room.may_open_database() {
        return Some(format!(
            "`{own}` may not use `{name}`; only `store` opens a database"
        ));
    }
    let allowed = room.may_use_external()?;
    if allowed.contains(&name) {
        return None;
    }
    Some(format!(
        "`{own}` is pure and may use only {}; move what needs `{name}` to an edge",
        allowed.join(", ")
    ))
}

fn inherits_lints(text: &str) -> anyhow::Result<bool> {
    let manifest: toml::Table = toml::from_str(text)?;
    let inherits = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    Ok(inherits == Some(true))
}

impl Manifest {
    /// A finding on the line that names `word`, or on the first.
    fn finding(&self, word: &str, what: &str) -> Finding {
        let names = |line: &str| {
            let key = line.trim_start().trim_start_matches('"');
            let rest = key.strip_prefix(word);
            !word.is_empty() && rest.is_some_and(|rest| rest.starts_with([' ', '.', '=', '"']))
        };
        let line = self.text.lines().position(names).map_or(1, |at| at + 1);
        Finding::new(&self.path, line, what)
    }
}

fn read(root: &Path) -> anyhow::Result<Vec<Manifest>> {
    let metadata = metadata(root)?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    packages
        .context("cargo metadata has no packages")?
        .iter()
        .map(|package| read_package(root, package))
        .collect()
}

fn metadata(root: &Path) -> anyhow::Result<Value> {
    let output = ci::cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn read_package(root: &Path, package: &Value) -> anyhow::Result<Manifest> {
    let path = package.get("manifest_path").and_then(Value::as_str);
    let path = Path::new(path.context("a package without a manifest")?);
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let dependencies = package.get("dependencies").and_then(Value::as_array);
    let dependencies = dependencies
        .context("a package without a list of dependencies")?
        .iter()
        .filter_map(|dependency| read_dependency(root, dependency))
        .collect();
    Ok(Manifest {
        path: relative(root, path),
        text,
        dependencies,
    })
}

fn read_dependency(root: &Path, dependency: &Value) -> Option<Dependency> {
    let word = |key: &str| dependency.get(key).and_then(Value::as_str);
    Some(Dependency {
        name: word("name")?.to_owned(),
        folder: word("path").map(|path| relative(root, Path::new(path))),
        is_dev: word("kind") == Some("dev"),
        is_optional: dependency.get("optional").and_then(Value::as_bool) == Some(true),
    })
}

fn relative(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}
