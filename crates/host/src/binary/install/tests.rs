//! The private installation, with a shell script in npm's place: what it is asked for,
//! what is there afterwards, and what is not.

use std::thread;

use bridge_codex::version::PINNED;

use super::*;
use crate::binary::tests::{Tree, script_of};

/// Puts into `--prefix` what npm would, with a native executable that says `version`.
fn fake_npm(tree: &Tree, version: &str) -> PathBuf {
    let native = binary::native_in(Path::new("node_modules")).unwrap();
    let script = format!(
        r#"#!/bin/sh
echo "$@" >> "{log}"
while [ "$1" != --prefix ]; do shift; done
cd "$2" || exit 1
mkdir -p node_modules/@openai/codex "{folder}"
echo '{{"version": "{version}"}}' > node_modules/@openai/codex/package.json
cp "{model}" "{native}"
"#,
        log = tree.root.join("npm.log").display(),
        folder = native.parent().unwrap().display(),
        model = tree.file("model", "755", &script_of(version)).display(),
        native = native.display(),
    );
    tree.file("npm", "755", &script)
}

fn pinned() -> Version {
    PINNED.parse().unwrap()
}

fn calls(tree: &Tree) -> usize {
    let log = fs::read_to_string(tree.root.join("npm.log"));
    log.map_or(0, |log| log.lines().count())
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != LOCK)
        .collect();
    names.sort();
    names
}

fn quiet(npm: &Path, tools: &Path) -> Result<PathBuf, InstallError> {
    install_by(npm, tools, &pinned(), &[], &mut |_| {})
}

#[test]
fn it_is_installed_once_and_found_again() {
    let tree = Tree::new();
    let npm = fake_npm(&tree, PINNED);
    let tools = tree.root.join("a/tools");
    assert_eq!(installed(&tools, &pinned()), None);
    let path = quiet(&npm, &tools).unwrap();
    assert_eq!(installed(&tools, &pinned()), Some(path.clone()));
    assert!(path.starts_with(tools.join(format!("codex-{PINNED}/node_modules/@openai"))));
    assert_eq!(quiet(&npm, &tools).unwrap(), path);
    assert_eq!(calls(&tree), 1);
    assert_eq!(entries(&tools), [format!("codex-{PINNED}")]);

    let log = fs::read_to_string(tree.root.join("npm.log")).unwrap();
    assert!(log.starts_with("install --no-audit --no-fund"), "{log}");
    assert!(log.contains("--no-global"), "{log}");
    assert!(
        log.trim_end().ends_with(&format!("@openai/codex@{PINNED}")),
        "{log}"
    );
}

#[test]
fn several_at_once_end_with_one() {
    let tree = Tree::new();
    let npm = fake_npm(&tree, PINNED);
    let tools = tree.dir("tools");
    let paths: Vec<PathBuf> = thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| quiet(&npm, &tools)))
            .collect();
        runs.into_iter()
            .map(|run| run.join().unwrap().unwrap())
            .collect()
    });
    assert!(
        paths
            .iter()
            .all(|path| Some(path) == installed(&tools, &pinned()).as_ref())
    );
    assert_eq!(entries(&tools), [format!("codex-{PINNED}")]);
}

#[test]
fn a_broken_one_is_replaced() {
    let tree = Tree::new();
    let npm = fake_npm(&tree, PINNED);
    let tools = tree.dir("tools");
    tree.file(&format!("tools/codex-{PINNED}/leftover"), "644", "");
    let path = quiet(&npm, &tools).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(installed(&tools, &pinned()), None);
    assert_eq!(quiet(&npm, &tools).unwrap(), path);
    assert_eq!(calls(&tree), 2);
    assert_eq!(entries(&tools), [format!("codex-{PINNED}")]);
}

#[test]
fn failed_install_reports_npm_and_cleans_up() {
    let tree = Tree::new();
    let script = "#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n";
    let npm = tree.file("npm", "755", script);
    let tools = tree.dir("tools");
    let said = quiet(&npm, &tools).unwrap_err().to_string();
    assert!(
        said.contains("ENOTFOUND") && said.contains("--codex-bin"),
        "{said}"
    );
    assert_eq!(entries(&tools), [""; 0]);
}

#[test]
fn another_version_than_asked_for_is_refused() {
    let tree = Tree::new();
    let npm = fake_npm(&tree, "0.150.0");
    let tools = tree.dir("tools");
    let refused = quiet(&npm, &tools).unwrap_err();
    assert!(
        matches!(refused, InstallError::OtherVersion { .. }),
        "{refused}"
    );
    assert_eq!(entries(&tools), [""; 0]);
}

#[test]
fn npm_without_the_executable_is_refused() {
    let tree = Tree::new();
    let npm = tree.file("npm", "755", "#!/bin/sh\nexit 0\n");
    let refused = quiet(&npm, &tree.dir("tools")).unwrap_err();
    assert!(
        matches!(refused, InstallError::NoNative { .. }),
        "{refused}"
    );
}

#[test]
fn a_missing_npm_is_named() {
    let tree = Tree::new();
    let refused = quiet(&tree.root.join("absent"), &tree.dir("tools")).unwrap_err();
    assert!(matches!(refused, InstallError::NpmMissing), "{refused}");
}

#[test]
fn only_abandoned_directories_are_swept() {
    let tree = Tree::new();
    let tools = tree.dir("tools");
    tree.dir(&format!("tools/{SCRATCH_PREFIX}living"));
    let old = tree.dir(&format!("tools/{SCRATCH_PREFIX}old"));
    let other = tree.dir("tools/other");
    let long_ago = SystemTime::now() - ABANDONED_AFTER * 2;
    for dir in [&old, &other] {
        File::open(dir).unwrap().set_modified(long_ago).unwrap();
    }
    sweep(&tools);
    assert_eq!(
        entries(&tools),
        [&format!("{SCRATCH_PREFIX}living"), "other"]
    );
}
