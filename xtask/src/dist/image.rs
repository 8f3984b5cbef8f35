//! The container image, written as an OCI archive without a daemon: Debian with git, the pinned Codex, and codex-bridge,
//! as a user that is not root. `podman load` and `skopeo copy oci-archive:` read it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use bridge_host::version::PINNED;
use serde_json::{Value, json};

use super::archive::{Tree, gzip, sha256};
use super::product::Product;
use crate::ci::run_command;
use crate::tools;

/// What the base is made of beside Debian's smallest system.
const PACKAGES: &str = "ca-certificates,git";
const SUITE: &str = "bookworm";
/// User and group in the image; fixed, because volumes keep the number.
const USER: u32 = 10_001;
const HOME: &str = "/var/lib/codex-bridge";
/// Where the image has Codex.
const CODEX: &str = "usr/local/lib/codex";

/// A blob and how a manifest names it.
struct Blob {
    media: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

struct Layer {
    /// Of the tar.
    digest: String,
    blob: Blob,
    made_by: String,
}

/// Writes the archive.
pub(super) fn archive(
    root: &Path,
    product: &Product,
    architecture: &str,
) -> anyhow::Result<Vec<u8>> {
    let base = base(root, product.epoch)?;
    let codex = codex(root, product.epoch)?;
    let mut own = product.system();
    for directory in ["", "/state", "/codex"] {
        let path = format!("{}{directory}", HOME.trim_start_matches('/'));
        own.directory(&path, 0o700, USER);
    }
    let own = own.tar("", product.epoch)?;
    let layers = [
        Layer::new(
            base,
            format!("mmdebstrap --variant=minbase {SUITE} with {PACKAGES}"),
        )?,
        Layer::new(codex, format!("@openai/codex@{PINNED} of npm"))?,
        Layer::new(own, format!("codex-bridge {}", product.version))?,
    ];
    layout(product, architecture, layers)
}

/// Debian's smallest system with the user, as a tar. It depends on what Debian's mirror has that day.
fn base(root: &Path, epoch: u64) -> anyhow::Result<Vec<u8>> {
    let file = root.join("target/dist-base.tar");
    let user = format!(
        "useradd --root \"$1\" --uid {USER} --user-group --home-dir {HOME} --shell /usr/sbin/nologin codex-bridge"
    );
    let mut command = Command::new("mmdebstrap");
    command
        .args(["--quiet", "--variant=minbase", "--format=tar"])
        .arg(format!("--include={PACKAGES}"))
        .arg(format!("--customize-hook={user}"))
        .args([SUITE.as_ref(), file.as_os_str()])
        .env("SOURCE_DATE_EPOCH", epoch.to_string());
    run_command(&mut command)?;
    let bytes = fs::read(&file)?;
    fs::remove_file(&file)?;
    Ok(bytes)
}

/// The native Codex without its launcher, which needs Node.js.
fn codex(root: &Path, epoch: u64) -> anyhow::Result<Vec<u8>> {
    let program = tools::codex(root)?;
    let vendor = program.parent().and_then(Path::parent);
    let vendor = vendor.context("the pinned Codex lies elsewhere than npm puts it")?;
    let mut tree = Tree::default();
    copy(vendor, CODEX, &mut tree)?;
    tree.link("usr/local/bin/codex", "../lib/codex/bin/codex");
    tree.tar("", epoch)
}

fn copy(from: &Path, to: &str, tree: &mut Tree) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let to = format!("{to}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &to, tree)?;
        } else if kind.is_file() {
            let executable = entry.metadata()?.permissions().mode() & 0o111 != 0;
            let mode = if executable { 0o755 } else { 0o644 };
            tree.file(&to, mode, fs::read(entry.path())?);
        } else {
            bail!(
                "{} is neither a file nor a directory",
                entry.path().display()
            );
        }
    }
    Ok(())
}

impl Layer {
    fn new(tar: Vec<u8>, made_by: String) -> anyhow::Result<Self> {
        Ok(Self {
            digest: digest(&tar)?,
            blob: Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&tar)?)?,
            made_by,
        })
    }
}

impl Blob {
    fn new(media: &'static str, bytes: Vec<u8>) -> anyhow::Result<Self> {
        Ok(Self {
            media,
            digest: digest(&bytes)?,
            bytes,
        })
    }

    fn json(media: &'static str, value: &Value) -> anyhow::Result<Self> {
        Self::new(media, serde_json::to_vec(value)?)
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media,
            "digest": self.digest,
            "size": self.bytes.len(),
        })
    }

    fn put(self, tree: &mut Tree) {
        let path = self.digest.replace(':', "/");
        tree.file(&format!("blobs/{path}"), 0o644, self.bytes);
    }
}

fn layout<const N: usize>(
    product: &Product,
    architecture: &str,
    layers: [Layer; N],
) -> anyhow::Result<Vec<u8>> {
    let created = jiff::Timestamp::from_second(i64::try_from(product.epoch)?)?.to_string();
    let history = layers
        .iter()
        .map(|layer| json!({ "created": created, "created_by": layer.made_by }));
    let config = json!({
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                format!("HOME={HOME}"),
                format!("CODEX_HOME={HOME}/codex"),
                format!("CODEX_BRIDGE_STATE_DIR={HOME}/state"),
            ],
            "Entrypoint": ["codex-bridge"],
            "Cmd": ["--config", "/etc/codex-bridge/codex-bridge.toml", "run"],
            "WorkingDir": HOME,
            "Volumes": { HOME: {} },
            // Running turns finish first.
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "codex-bridge",
                "org.opencontainers.image.version": product.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| layer.digest.as_str()).collect::<Vec<_>>(),
        },
        "history": history.collect::<Vec<_>>(),
    });
    let config = Blob::json("application/vnd.oci.image.config.v1+json", &config)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor(),
        "layers": layers.iter().map(|layer| layer.blob.descriptor()).collect::<Vec<_>>(),
    });
    let manifest = Blob::json("application/vnd.oci.image.manifest.v1+json", &manifest)?;
    let mut descriptor = manifest.descriptor();
    descriptor["platform"] = json!({ "architecture": architecture, "os": "linux" });
    // The name that the image has once it is loaded.
    let name = format!("codex-bridge:{}", product.version);
    descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    });
    let mut tree = Tree::default();
    tree.file("oci-layout", 0o644, r#"{"imageLayoutVersion":"1.0.0"}"#);
    tree.file("index.json", 0o644, serde_json::to_vec(&index)?);
    config.put(&mut tree);
    manifest.put(&mut tree);
    for layer in layers {
        layer.blob.put(&mut tree);
    }
    tree.tar("", product.epoch)
}

fn digest(bytes: &[u8]) -> anyhow::Result<String> {
    Ok(format!("sha256:{}", sha256(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    #[test]
    fn image_names_its_blobs_by_content() {
        let product = Product::sample();
        let layer = |text: &str| Layer::new(text.into(), text.to_owned()).unwrap();
        let bytes = layout(&product, "amd64", [layer("one"), layer("two")]).unwrap();
        let mut read = tar::Archive::new(bytes.as_slice());
        let mut files = BTreeMap::new();
        for entry in read.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(path, bytes);
        }
        let blob = |descriptor: &Value| {
            let named = descriptor["digest"].as_str().unwrap();
            let bytes = &files[&format!("blobs/{}", named.replace(':', "/"))];
            assert_eq!(digest(bytes).unwrap(), named);
            assert_eq!(descriptor["size"], bytes.len());
            bytes
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let manifest: Value = serde_json::from_slice(blob(&index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(blob(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "10001:10001");
        assert_eq!(config["rootfs"]["diff_ids"][1], digest(b"two").unwrap());
        assert_eq!(manifest["layers"].as_array().unwrap().len(), 2);
        manifest["layers"]
            .as_array()
            .unwrap()
            .iter()
            .for_each(|layer| {
                blob(layer);
            });
    }
}
