//! Finds the real Codex binary for tests, so that every crate looks in the same places.
//! Installing it is `cargo xtask test`'s chore; running it is each test's own.
//! The daemon finds its Codex by other rules; this is not for it.

use std::path::{Path, PathBuf};

use crate::Error;

/// Names the Codex binary to use instead of the pinned one.
pub const CODEX_BIN_VAR: &str = "CODEX_BRIDGE_CODEX_BIN";

/// Where `cargo xtask test` installs the pinned Codex, below the workspace root.
const TOOLS: &str = "target/tools";

/// The folder of one installed version is this and the version.
const FOLDER_PREFIX: &str = "codex-";

/// The native binary inside the npm package: its `codex` is a shim that outlives a kill.
const NATIVE: &str =
    "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex";

/// The Codex binary that tests drive. A missing one is an error, never a reason to skip:
/// a test that silently did not run proves nothing.
pub fn codex_for_tests() -> Result<PathBuf, Error> {
    let named = std::env::var_os(CODEX_BIN_VAR).filter(|value| !value.is_empty());
    match named {
        Some(path) => check_named(PathBuf::from(path)),
        None => installed(Path::new(env!("CARGO_MANIFEST_DIR"))),
    }
}

fn check_named(path: PathBuf) -> Result<PathBuf, Error> {
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::CodexMisnamed {
        var: CODEX_BIN_VAR,
        path,
    })
}

fn installed(from: &Path) -> Result<PathBuf, Error> {
    from.ancestors()
        .find_map(|dir| newest(&dir.join(TOOLS)))
        .ok_or_else(|| Error::CodexMissing {
            looked: format!(
                "{CODEX_BIN_VAR}, then {TOOLS}/{FOLDER_PREFIX}* above {}",
                from.display()
            ),
        })
}

fn newest(tools: &Path) -> Option<PathBuf> {
    std::fs::read_dir(tools)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = version(name.to_str()?.strip_prefix(FOLDER_PREFIX)?);
            let binary = entry.path().join(NATIVE);
            binary.is_file().then_some((version, binary))
        })
        .max()
        .map(|(_, binary)| binary)
}

/// Numbers compare as numbers: 0.99 is older than 0.166.
fn version(text: &str) -> Vec<u64> {
    text.split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(root: &Path, version: &str) -> PathBuf {
        let binary = root
            .join(TOOLS)
            .join(format!("codex-{version}"))
            .join(NATIVE);
        std::fs::create_dir_all(binary.parent().unwrap()).unwrap();
        std::fs::write(&binary, "").unwrap();
        binary
    }

    #[test]
    fn finds_newest_installed_codex() {
        let root = tempfile::tempdir().unwrap();
        install(root.path(), "0.99.0");
        let newest = install(root.path(), "0.166.0");
        let below = root.path().join("crates/sim");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(installed(&below).unwrap(), newest);
    }

    #[test]
    fn missing_codex_error_suggests_command() {
        let root = tempfile::tempdir().unwrap();
        let error = installed(root.path()).unwrap_err();
        assert!(
            format!("{error:?}").contains("run `cargo xtask test`"),
            "{error}"
        );
    }

    #[test]
    fn wrong_codex_path_names_the_variable() {
        let error = check_named(PathBuf::from("/nowhere/codex")).unwrap_err();
        assert!(error.to_string().contains(CODEX_BIN_VAR), "{error}");
    }
}
