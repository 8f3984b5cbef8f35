//! The Codex binary under test, and the schema it generates about itself.
//!
//! Installing it belongs to `cargo xtask test`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use bridge_codex::version::{self, PINNED, Version};

use serde_json::Value;

const NATIVE: &str =
    "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex";

fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("CODEX_BRIDGE_CODEX_BIN") {
        return PathBuf::from(path);
    }
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let path = tools.join(format!("codex-{PINNED}")).join(NATIVE);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo xtask test`, which installs the pinned Codex",
        path.display()
    );
    path
}

/// What the binary calls itself, and its schema, experimental parts included.
pub(crate) fn schema() -> (Version, BTreeMap<String, Value>) {
    let binary = binary();
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(&binary)
            .args(args)
            .env("CODEX_HOME", home.path())
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = version::from_cli(&run(&["--version"])).unwrap();
    let out = home.path().join("schema");
    let out_arg = out.to_str().unwrap();
    run(&[
        "app-server",
        "generate-json-schema",
        "--experimental",
        "--out",
        out_arg,
    ]);
    (version, load(&out))
}

fn load(folder: &Path) -> BTreeMap<String, Value> {
    let mut files = BTreeMap::new();
    for part in ["", "v1", "v2"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ext| ext == "json") {
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                let text = std::fs::read_to_string(&path).unwrap();
                files.insert(name, serde_json::from_str(&text).unwrap());
            }
        }
    }
    files
}
