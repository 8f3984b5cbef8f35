//! Which file `find` settles on, for the layouts that people really have, and what it
//! says about the ones it refuses. Every codex here is a small shell script.

use std::os::unix::fs::symlink;

use super::*;

/// A directory tree that is gone at the end of the test.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let name = format!("codex-bridge-{}", uuid::Uuid::now_v7());
        let root = std::env::temp_dir().join(name);
        fs::create_dir(&root).unwrap();
        Self {
            root: fs::canonicalize(root).unwrap(),
        }
    }

    pub(crate) fn dir(&self, path: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Written by a child: a descriptor of our own, open for writing, could be
    /// inherited by a process that another test starts, and make the file "busy".
    pub(crate) fn file(&self, path: &str, mode: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let status = Command::new("/bin/sh")
            .args(["-c", r#"printf %s "$2" > "$0" && chmod "$1" "$0""#])
            .arg(&path)
            .args([mode, text])
            .status()
            .unwrap();
        assert!(status.success());
        path
    }

    pub(crate) fn codex(&self, path: &str, version: &str) -> PathBuf {
        self.file(path, "755", &script_of(version))
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn path_var(&self, dirs: &[&str]) -> std::ffi::OsString {
        let dirs = dirs.iter().map(|dir| self.root.join(dir));
        std::env::join_paths(dirs).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

pub(crate) fn script_of(version: &str) -> String {
    format!("#!/bin/sh\necho warning >&2\necho codex-cli {version}\n")
}

fn native(modules: &str) -> String {
    let native = native_in(Path::new(modules)).expect("codex is published for this platform");
    native.to_str().unwrap().to_owned()
}

fn on(path: &OsStr) -> Vars<'_> {
    let (path, home) = (Some(path), None);
    Vars { path, home }
}

fn find_at(path: &Path) -> Result<Binary, BinaryError> {
    find(Some(path), Vars::default())
}

const NODE: &str = "#!/usr/bin/env node\nthrow new Error('never run');\n";

#[test]
fn resolves_explicit_executable_through_symlink() {
    let tree = Tree::new();
    let path = tree.codex("opt/codex", "0.166.0");
    tree.link("opt/alias", "codex");
    let found = find_at(&tree.root.join("opt/alias")).unwrap();
    let version = Version::new(0, 166, 0);
    assert_eq!(
        found,
        Binary {
            path,
            shim: None,
            version
        }
    );
}

/// As Volta and mise have it.
#[test]
fn f1_starts_program_by_link_name() {
    let tree = Tree::new();
    let body =
        "#!/bin/sh\ncase \"$0\" in */codex) echo codex-cli 0.166.0;; *) echo multi 1;; esac\n";
    tree.file("opt/multi", "755", body);
    tree.link("bin/codex", "../opt/multi");
    let found = find(None, on(&tree.path_var(&["bin"]))).unwrap();
    assert_eq!(found.path, tree.root.join("bin/codex"));
    let refused = find_at(&tree.root.join("opt/multi")).unwrap_err();
    assert!(
        matches!(refused, BinaryError::VersionUnreadable { .. }),
        "{refused}"
    );
}

/// And not what this process happens to have.
#[test]
fn version_managers_get_the_given_home() {
    let tree = Tree::new();
    let body = "#!/bin/sh\n[ \"$HOME\" = /given ] && echo codex-cli 0.166.0 || echo \"$HOME\"\n";
    tree.file("codex", "755", body);
    let vars = Vars {
        home: Some(OsStr::new("/given")),
        ..Vars::default()
    };
    assert!(find(Some(&tree.root.join("codex")), vars).is_ok());
    let refused = find_at(&tree.root.join("codex")).unwrap_err().to_string();
    let own = std::env::var("HOME").unwrap_or_default();
    assert!(own.is_empty() || !refused.contains(&own), "{refused}");
}

#[test]
fn path_is_searched_as_a_shell_does() {
    let tree = Tree::new();
    tree.dir("one/codex");
    tree.file("two/codex", "644", "text");
    let third = tree.codex("three/codex", "0.160.0");
    tree.codex("four/codex", "0.166.0");
    let path_var = tree.path_var(&["absent", "one", "two", "three", "four"]);
    assert_eq!(find(None, on(&path_var)).unwrap().path, third);
}

#[test]
fn searches_only_absolute_path_entries() {
    let tree = Tree::new();
    let nightly = tree.codex("bin/codex-nightly", "0.170.1");
    let path_var = tree.path_var(&["bin"]);
    let found = find(Some(Path::new("codex-nightly")), on(&path_var)).unwrap();
    assert_eq!(found.path, nightly);

    let here = std::env::current_dir().unwrap();
    let mut relative = PathBuf::from_iter(here.components().skip(1).map(|_| ".."));
    relative.push(tree.root.strip_prefix("/").unwrap());
    assert!(fs::exists(relative.join("bin/codex-nightly")).unwrap());
    let path_var = relative.join("bin").into_os_string();
    let refused = find(Some(Path::new("codex-nightly")), on(&path_var)).unwrap_err();
    assert!(matches!(refused, BinaryError::NotFound { .. }), "{refused}");
}

#[test]
fn npm_global_with_a_nested_platform_package() {
    let tree = Tree::new();
    let shim = tree.file("lib/node_modules/@openai/codex/bin/codex.js", "755", NODE);
    let nested = native("lib/node_modules/@openai/codex/node_modules");
    let path = tree.codex(&nested, "0.166.0");
    tree.link(
        "bin/codex",
        "../lib/node_modules/@openai/codex/bin/codex.js",
    );
    let found = find(None, on(&tree.path_var(&["bin"]))).unwrap();
    assert_eq!((found.path, found.shim), (path, Some(shim)));
}

#[test]
fn npm_local_with_a_sibling_platform_package() {
    let tree = Tree::new();
    let shim = tree.file("node_modules/@openai/codex/bin/codex.js", "755", NODE);
    let path = tree.codex(&native("node_modules"), "0.166.0");
    let found = find_at(&shim).unwrap();
    assert_eq!((found.path, found.shim), (path, Some(shim)));
}

#[test]
fn pnpm_wrapper_with_its_linked_store() {
    let tree = Tree::new();
    let store = "global/5/.pnpm/@openai+codex@0.166.0/node_modules";
    let script = format!("{store}/@openai/codex/bin/codex.js");
    let shim = tree.file(&script, "755", NODE);
    let path = tree.codex(&native(store), "0.166.0");
    let target = "../../.pnpm/@openai+codex@0.166.0/node_modules/@openai/codex";
    tree.link("global/5/node_modules/@openai/codex", target);
    let wrapper = "#!/bin/sh\nexport NODE_PATH=\"/x/@openai/codex/bin/node_modules\"\nexec node  \
                   \"$basedir/global/5/node_modules/@openai/codex/bin/codex.js\" \"$@\"\n";
    tree.file("codex", "755", wrapper);
    let found = find_at(&tree.root.join("codex")).unwrap();
    assert_eq!((found.path, found.shim), (path, Some(shim)));
}

#[test]
fn an_operators_own_wrapper_is_run() {
    let tree = Tree::new();
    let native = tree.codex("native", "0.166.0");
    let wrapper = format!("#!/bin/sh\nexec nice {} \"$@\"\n", native.display());
    let path = tree.file("codex", "755", &wrapper);
    let found = find(Some(&path), on(OsStr::new("/usr/bin:/bin"))).unwrap();
    assert_eq!((found.path, found.shim), (path, None));
}

#[test]
fn refusals_say_what_to_do() {
    let tree = Tree::new();
    let says = |result: Result<Binary, BinaryError>, words: &[&str]| {
        let said = result.unwrap_err().to_string();
        for word in words {
            assert!(said.contains(word), "{said:?} lacks {word:?}");
        }
    };
    let install = format!("npm install -g @openai/codex@{PINNED}");
    says(
        find(None, on(OsStr::new("/nonexistent"))),
        &["no codex on PATH", &install, "--codex-bin"],
    );
    says(find(None, Vars::default()), &["no codex on PATH"]);
    says(
        find_at(&tree.root.join("absent")),
        &["at /", "absent", &install],
    );
    says(find_at(&tree.dir("folder")), &["is a directory"]);
    says(
        find_at(&tree.file("plain", "644", "")),
        &["plain is not executable", "chmod +x"],
    );
    says(
        find_at(&tree.file("lonely/bin/codex.js", "755", NODE)),
        &["npm's shim", "--include=optional"],
    );
    says(
        find_at(&tree.codex("old", "0.149.9")),
        &["0.149.9", &install],
    );
    says(
        find_at(&tree.file("python", "755", "#!/bin/sh\necho Python 3.12.1\n")),
        &["Python 3.12.1", "is it the Codex CLI?"],
    );
    says(
        find_at(&tree.file("garbage", "755", "\u{1}\u{2}\u{3}")),
        &["cannot start", "built for"],
    );
}

#[test]
fn escapes_unreadable_version_output() {
    let tree = Tree::new();
    let path = tree.file("codex", "755", "#!/bin/sh\nprintf 'v1 \\033[2Jx'\n");
    let refused = find_at(&path).unwrap_err();
    let BinaryError::VersionUnreadable { output, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(output, "v1 \\u{1b}[2Jx");
}

#[test]
fn the_version_is_asked_without_our_environment() {
    let tree = Tree::new();
    let script = "#!/bin/sh\n/usr/bin/env >&2\n";
    let refused = find_at(&tree.file("codex", "755", script)).unwrap_err();
    let BinaryError::VersionUnreadable { output, .. } = refused else {
        panic!("{refused}");
    };
    let names = output.lines().filter_map(|line| line.split('=').next());
    for name in names {
        assert!(
            ["HOME", "CODEX_HOME", "PWD", "SHLVL", "_"].contains(&name),
            "{name}"
        );
    }
    assert!(output.contains("CODEX_HOME=/dev/null"));
}
