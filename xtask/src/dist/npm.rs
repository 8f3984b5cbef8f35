//! The npm packages, as Codex has them: a launcher, and the program of each platform as another version of the same
//! package that npm installs under an alias. Nothing is downloaded after the installation.

use serde_json::{Value, json};

use super::archive::Tree;
use super::product::Product;

const NAME: &str = "codex-bridge";
const LAUNCHER: &str = include_str!("npm/codex-bridge.js");
/// Platforms that may have a package (docs/guides/install.md).
const PLATFORMS: [&str; 2] = ["linux-x64", "linux-arm64"];

/// The package that users name.
pub(super) fn launcher(product: &Product, readme: &str) -> anyhow::Result<Vec<u8>> {
    let version = &product.version;
    let platforms = PLATFORMS.map(|platform| {
        let alias = format!("{NAME}-{platform}");
        (
            alias,
            Value::from(format!("npm:{NAME}@{version}-{platform}")),
        )
    });
    let pages = product.man.iter().map(|(name, _)| format!("man/{name}"));
    let mut manifest = manifest(version);
    manifest["type"] = "module".into();
    manifest["bin"] = json!({ NAME: "bin/codex-bridge.js" });
    manifest["man"] = pages.collect();
    manifest["engines"] = json!({ "node": ">=18" });
    manifest["optionalDependencies"] = platforms.into_iter().collect();
    let mut tree = tree(product, &manifest)?;
    tree.file("bin/codex-bridge.js", 0o755, LAUNCHER);
    tree.file("README.md", 0o644, readme);
    for (name, page) in &product.man {
        tree.file(&format!("man/{name}"), 0o644, page.clone());
    }
    tree.tar_gz("package/", product.epoch)
}

/// The program for a processor, as Node.js calls it.
pub(super) fn platform(product: &Product, cpu: &str) -> anyhow::Result<Vec<u8>> {
    let mut manifest = manifest(&format!("{}-linux-{cpu}", product.version));
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!([cpu]);
    manifest["libc"] = json!(["glibc"]);
    let mut tree = tree(product, &manifest)?;
    tree.file("bin/codex-bridge", 0o755, product.binary.clone());
    tree.tar_gz("package/", product.epoch)
}

fn manifest(version: &str) -> Value {
    json!({
        "name": NAME,
        "version": version,
        "description": "A daemon between people and agents and the OpenAI Codex CLI.",
        "license": "Apache-2.0",
    })
}

fn tree(product: &Product, manifest: &Value) -> anyhow::Result<Tree> {
    let mut tree = Tree::default();
    let text = format!("{}\n", serde_json::to_string_pretty(manifest)?);
    tree.file("package.json", 0o644, text);
    tree.file("LICENSE", 0o644, product.licence.clone());
    Ok(tree)
}
