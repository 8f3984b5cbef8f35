//! The files of the console, embedded. A file of `crates/front/console` that is not named here fails a test.

use axum::body::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::LazyLock;

/// A file as it is served.
pub(super) struct Asset {
    pub(super) media: &'static str,
    /// The SHA-256 of its bytes, as an entity tag.
    pub(super) tag: String,
    pub(super) bytes: &'static [u8],
    pub(super) gzip: Bytes,
}

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../console/", $path)))),*]
    };
}

#[cfg(feature = "console")]
const FILES: &[(&str, &[u8])] = files![
    "app.css",
    "app.js",
    "icon.svg",
    "index.html",
    "manifest.webmanifest",
    "screens/admin.js",
    "screens/work.js",
    "sw.js",
    "vendor/hooks.mjs",
    "vendor/htm.mjs",
    "vendor/preact.mjs",
];
#[cfg(not(feature = "console"))]
const FILES: &[(&str, &[u8])] = files![];

/// Tags and gzip forms are made when the first of them is asked for, and kept.
static ASSETS: LazyLock<BTreeMap<&str, Asset>> = LazyLock::new(|| {
    let assets = FILES
        .iter()
        .map(|(path, bytes)| (*path, asset(path, bytes)));
    assets.collect()
});

pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.get(path)
}

fn asset(path: &str, bytes: &'static [u8]) -> Asset {
    let digest = HEXLOWER.encode(&Sha256::digest(bytes));
    Asset {
        media: media(path),
        // Weak: the same for both forms.
        tag: format!("W/\"{digest}\""),
        bytes,
        gzip: gzip(bytes).into(),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let _written = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

fn media(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("webmanifest") => "application/manifest+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
#[cfg(feature = "console")]
mod tests {
    use super::*;
    use std::path::Path;

    fn found(directory: &Path, root: &Path, paths: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found(&path, root, paths);
            } else {
                let path = path.strip_prefix(root).unwrap();
                paths.push(path.to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_is_in_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        let mut paths = Vec::new();
        found(&root, &root, &mut paths);
        // Not for browsers.
        paths.retain(|path| !path.ends_with(".md") && !path.ends_with(".LICENSE"));
        paths.sort();
        let table: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        assert_eq!(table, paths, "name the files in FILES, sorted");
    }
}
