//! The bill of materials (CycloneDX 1.6): every crate that is compiled into the program or runs while it is built, with
//! the checksum that Cargo.lock holds it to. Made from `cargo metadata`, so nothing else is installed for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::ci::cargo;

/// The crate of the program.
const ROOT: &str = "codex-bridge";

/// The document for a program with these arguments of cargo for its features.
pub(super) fn document(root: &Path, target: &str, features: &[&str]) -> anyhow::Result<String> {
    let manifest = root.join("crates/cli/Cargo.toml");
    let output = cargo(root)
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            target,
        ])
        .arg("--manifest-path")
        .arg(manifest)
        .args(features)
        .output()
        .context("cannot run cargo metadata")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata = serde_json::from_slice(&output.stdout)?;
    let lock = fs::read_to_string(root.join("Cargo.lock"))?.parse()?;
    let text = serde_json::to_string_pretty(&bill(&metadata, &lock)?)?;
    Ok(format!("{text}\n"))
}

fn bill(metadata: &Value, lock: &toml::Table) -> anyhow::Result<Value> {
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let root = packages
        .iter()
        .find(|(_, package)| package["name"] == ROOT)
        .map(|(id, _)| *id)
        .with_context(|| format!("cargo metadata knows no {ROOT}"))?;
    let edges = edges(metadata);
    let mut used = BTreeSet::from([root]);
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        for below in edges.get(id).into_iter().flatten() {
            if used.insert(below) {
                open.push(below);
            }
        }
    }
    let checksums = checksums(lock);
    let reference = |id: &str| packages.get(id).map(|package| purl(package));
    let component = |id: &&str| component(packages.get(id)?, &checksums);
    let below = |id: &str| {
        let mut names: Vec<_> = edges
            .get(id)
            .into_iter()
            .flatten()
            .filter_map(|id| reference(id))
            .collect();
        names.sort();
        names
    };
    let components = used.iter().filter(|id| **id != root).filter_map(component);
    let mut components: Vec<Value> = components.collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let mut dependencies: Vec<Value> = used
        .iter()
        .filter_map(|id| Some(json!({ "ref": reference(id)?, "dependsOn": below(id) })))
        .collect();
    dependencies.sort_by_key(|one| one["ref"].to_string());
    let mut program = component(&root).context("the program is no package")?;
    program["type"] = "application".into();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": program },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// What each package needs to be built or to run; tests need more.
fn edges(metadata: &Value) -> BTreeMap<&str, Vec<&str>> {
    let ships = |dependency: &&Value| {
        let kinds = list(dependency, "dep_kinds");
        kinds.iter().any(|kind| kind["kind"] != "dev")
    };
    list(&metadata["resolve"], "nodes")
        .iter()
        .filter_map(|node| {
            let below = list(node, "deps").iter().filter(ships);
            let below = below.filter_map(|dependency| dependency["pkg"].as_str());
            Some((node["id"].as_str()?, below.collect()))
        })
        .collect()
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
    let purl = purl(package);
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    });
    if let Some(licence) = package["license"].as_str() {
        // Old manifests write `A/B`.
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    Some(component)
}

fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    // A version's build metadata follows a `+`, which a purl writes as %2B.
    format!(
        "pkg:cargo/{}@{}",
        text("name"),
        text("version").replace('+', "%2B")
    )
}

fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    packages
        .into_iter()
        .flatten()
        .filter_map(|one| {
            Some((
                (text(one, "name")?, text(one, "version")?),
                text(one, "checksum")?,
            ))
        })
        .collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bill_lists_what_ships() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0+a", "license": "MIT/Apache-2.0" });
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package(ROOT), package("linked"), package("builds"), package("tests")],
            "resolve": { "nodes": [
                { "id": ROOT, "deps": [dep("linked", Value::Null), dep("tests", "dev".into())] },
                { "id": "linked", "deps": [dep("builds", "build".into())] },
                { "id": "builds", "deps": [] },
                { "id": "tests", "deps": [] },
            ]},
        });
        let lock = "[[package]]\nname = 'linked'\nversion = '1.0.0+a'\nchecksum = 'ab12'\n";
        let bill = bill(&metadata, &lock.parse().unwrap()).unwrap();
        let names: Vec<_> = list(&bill, "components")
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["builds", "linked"]);
        let linked = &bill["components"][1];
        assert_eq!(linked["purl"], "pkg:cargo/linked@1.0.0%2Ba");
        assert_eq!(linked["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(linked["hashes"][0]["content"], "ab12");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
    }
}
