//! Each rule of `tidy` fails when it is broken, with the place and what to do, and a
//! good tree passes; and this repository is such a tree.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy allows these in test functions, but not in their helpers"
)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use xtask::tidy::{self, MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_TEST_FILE_LINES};

const WORKSPACE: &str = r#"
[workspace]
resolver = "3"
members = ["crates/*", "xtask"]

[workspace.lints.rust]
unsafe_code = "forbid"

[workspace.dependencies]
bridge-core = { path = "crates/core" }
bridge-store = { path = "crates/store" }
"#;

/// A small tree of the right shape.
struct Tree {
    dir: TempDir,
}

impl Tree {
    fn good() -> Self {
        let tree = Self {
            dir: TempDir::new().unwrap(),
        };
        tree.write("Cargo.toml", WORKSPACE);
        tree.add_crate("core", "[dependencies]\nthiserror = \"2\"\n");
        tree.add_crate(
            "codex",
            "[dependencies]\nbridge-core.workspace = true\nserde = \"1\"\n",
        );
        tree.add_crate("sim", "");
        tree.add_crate(
            "store",
            "[dependencies]\nbridge-core.workspace = true\nrusqlite = \"0.41\"\n\
             [dev-dependencies]\nbridge-sim = { path = \"../sim\" }\n",
        );
        tree.add_crate("host", "[dependencies]\nbridge-core.workspace = true\n");
        tree.add_crate(
            "daemon",
            "[dependencies]\nbridge-store.workspace = true\n\
             [dev-dependencies]\nbridge-sim = { path = \"../sim\" }\n",
        );
        tree.add_crate(
            "demo",
            "[dependencies]\nbridge-daemon = { path = \"../daemon\" }\nbridge-sim = { path = \"../sim\" }\n",
        );
        tree.add_crate(
            "cli",
            "[dependencies]\nbridge-daemon = { path = \"../daemon\" }\n\
             bridge-demo = { path = \"../demo\", optional = true }\n",
        );
        tree.add_crate_at("xtask", "xtask", "");
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn add_crate(&self, room: &str, rest: &str) {
        self.add_crate_at(&format!("crates/{room}"), &format!("bridge-{room}"), rest);
    }

    fn add_crate_at(&self, folder: &str, name: &str, rest: &str) {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nedition = \"2024\"\n[lints]\nworkspace = true\n{rest}"
        );
        self.write(&format!("{folder}/Cargo.toml"), &manifest);
        self.write(&format!("{folder}/src/lib.rs"), "//! A room.\n");
    }

    fn findings(&self) -> Vec<String> {
        let findings = tidy::check(self.dir.path()).unwrap();
        findings.iter().map(ToString::to_string).collect()
    }

    /// Exactly one finding, at this place, with these words.
    fn finds(&self, place: &str, words: &str) {
        let findings = self.findings();
        let [finding] = findings.as_slice() else {
            panic!("one finding at {place} was expected: {findings:#?}");
        };
        assert!(finding.starts_with(&format!("{place}: ")), "{finding}");
        assert!(finding.contains(words), "{finding}");
    }
}

/// Code in a file of a room breaks a rule, or does not.
#[track_caller]
fn refused(path: &str, code: &str, line: usize, words: &str) {
    let tree = Tree::good();
    tree.write(path, &format!("//! A file.\n{code}"));
    tree.finds(&format!("{path}:{line}"), words);
}

#[track_caller]
fn accepted(path: &str, code: &str) {
    let tree = Tree::good();
    tree.write(path, &format!("//! A file.\n{code}"));
    assert_eq!(tree.findings(), [""; 0]);
}

#[test]
fn this_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let findings = tidy::check(root).unwrap();
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, [""; 0], "run `cargo xtask tidy`");
}

#[test]
fn a_good_tree_passes() {
    assert_eq!(Tree::good().findings(), [""; 0]);
}

#[test]
fn an_edge_may_not_use_another_edge() {
    let tree = Tree::good();
    tree.add_crate("host", "[dependencies]\nbridge-store.workspace = true\n");
    tree.finds(
        "crates/host/Cargo.toml:7",
        "`host` may not depend on `store`",
    );
}

#[test]
fn not_even_in_its_tests() {
    let tree = Tree::good();
    tree.add_crate(
        "host",
        "[dev-dependencies]\nbridge-store.workspace = true\n",
    );
    tree.finds(
        "crates/host/Cargo.toml:7",
        "`host` may not depend on `store`",
    );
}

#[test]
fn testkit_is_for_tests_only() {
    let tree = Tree::good();
    tree.add_crate("testkit", "");
    let testkit = "bridge-testkit = { path = \"../testkit\" }\n";
    tree.add_crate("host", &format!("[dev-dependencies]\n{testkit}"));
    assert_eq!(tree.findings(), [""; 0]);
    tree.add_crate("host", &format!("[dependencies]\n{testkit}"));
    tree.finds(
        "crates/host/Cargo.toml:7",
        "`host` may not depend on `testkit`",
    );
}

#[test]
fn the_core_uses_nothing_of_ours() {
    let tree = Tree::good();
    tree.add_crate("host", "");
    tree.add_crate(
        "core",
        "[dependencies]\nbridge-host = { path = \"../host\" }\n",
    );
    tree.finds("crates/core/Cargo.toml:7", "(only on: nothing)");
}

#[test]
fn the_world_is_simulated_in_tests_only() {
    let tree = Tree::good();
    tree.add_crate(
        "host",
        "[dependencies]\nbridge-sim = { path = \"../sim\" }\n",
    );
    tree.finds("crates/host/Cargo.toml:7", "`host` may not depend on `sim`");
}

#[test]
fn packages_may_leave_the_demo_out() {
    let tree = Tree::good();
    tree.add_crate(
        "cli",
        "[dependencies]\nbridge-demo = { path = \"../demo\" }\n",
    );
    tree.finds("crates/cli/Cargo.toml:7", "only behind its feature");
}

#[test]
fn pure_crate_rejects_io_dependencies() {
    for table in [
        "dependencies",
        "build-dependencies",
        "target.'cfg(unix)'.dependencies",
    ] {
        let tree = Tree::good();
        tree.add_crate("codex", &format!("[{table}]\ntokio = \"1\"\n"));
        tree.finds(
            "crates/codex/Cargo.toml:7",
            "move what needs `tokio` to an edge",
        );
    }
    let tree = Tree::good();
    tree.add_crate(
        "codex",
        "[dependencies]\nrt = { package = \"tokio\", version = \"1\" }\n",
    );
    tree.finds("crates/codex/Cargo.toml:1", "`tokio`");
    let tree = Tree::good();
    tree.add_crate("codex", "[dev-dependencies]\ntempfile = \"3\"\n");
    assert_eq!(tree.findings(), [""; 0]);
}

#[test]
fn only_the_store_has_the_database() {
    let tree = Tree::good();
    tree.add_crate("host", "[dependencies]\nrusqlite = \"0.41\"\n");
    tree.finds("crates/host/Cargo.toml:7", "only `store` opens a database");
    refused(
        "crates/host/src/a.rs",
        "use rusqlite::Connection;\n",
        2,
        "only `store`",
    );
    accepted("crates/store/src/a.rs", "use rusqlite::Connection;\n");
}

#[test]
fn a_new_crate_needs_a_room() {
    let tree = Tree::good();
    tree.add_crate("attic", "");
    tree.finds("crates/attic/Cargo.toml:1", "in no room");
}

#[test]
fn the_lints_hold_everywhere() {
    let tree = Tree::good();
    let manifest = "[package]\nname = \"bridge-host\"\nedition = \"2024\"\n";
    tree.write("crates/host/Cargo.toml", manifest);
    tree.finds("crates/host/Cargo.toml:1", "`[lints]`");
}

#[test]
fn pure_crate_rejects_io_code() {
    for code in [
        "use tokio::sync::mpsc;\n",
        "use std::fs;\n",
        "use std::{net::TcpStream, fmt};\n",
        "fn f() { std::process::exit(1) }\n",
        "fn f() -> bool { std::env::var_os(\"HOME\").is_some() }\n",
        "use std::time::{Duration, Instant};\n",
        "fn f() -> u64 { elapsed(SystemTime::now()) }\n",
        "fn f() { thread::sleep(A_WHILE) }\n",
        "fn f() -> u8 { rand::random() }\n",
    ] {
        refused("crates/core/src/a.rs", code, 2, "which is pure");
        refused("crates/codex/src/a.rs", code, 2, "which is pure");
    }
}

#[test]
fn purity_check_ignores_comments_and_tests() {
    accepted(
        "crates/core/src/a.rs",
        "//! Never std::fs.\n/* SystemTime */\nconst A: &str = \"tokio::spawn\";\n\
         async fn f(rand: u8) -> Duration { Duration::from_secs(rand) }\n",
    );
    accepted(
        "crates/core/src/a.rs",
        "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
    );
    accepted("crates/codex/tests/golden.rs", "use std::fs;\n");
}

#[test]
fn only_the_host_spawns() {
    for code in [
        "fn f() { std::process::Command::new(\"sh\") }\n",
        "use std::process::{Command, Stdio};\n",
        "use tokio::process::Child;\n",
    ] {
        refused(
            "crates/cli/src/a.rs",
            code,
            2,
            "only `host` starts processes",
        );
        accepted("crates/host/src/a.rs", code);
        accepted("xtask/src/a.rs", code);
        accepted("crates/cli/tests/a.rs", code);
    }
    accepted(
        "crates/cli/src/a.rs",
        "fn f() { clap::Command::new(\"x\") }\nuse std::process::ExitCode;\n",
    );
}

#[test]
fn configuration_does_not_use_the_daemon() {
    let file = "crates/daemon/src/config/keys.rs";
    refused(file, "use crate::settings::Settings;\n", 2, "may not use");
    accepted(
        file,
        "use crate::config::Config;\nuse crate::term::escape;\n",
    );
    accepted(
        "crates/daemon/src/run.rs",
        "use crate::settings::Settings;\n",
    );
}

#[test]
fn every_file_says_what_it_is_for() {
    for text in [
        "fn f() {}\n",
        "//!\nfn f() {}\n",
        "",
        "// A file.\n",
        "/// A file.\nfn f() {}\n",
    ] {
        let tree = Tree::good();
        tree.write("crates/host/src/a.rs", text);
        tree.finds("crates/host/src/a.rs:1", "`//!`");
    }
}

#[test]
fn a_file_has_an_end() {
    let consts = |count: usize| "const A: u8 = 0;\n".repeat(count);
    accepted("crates/host/src/a.rs", &consts(MAX_FILE_LINES - 1));
    refused(
        "crates/host/src/a.rs",
        &consts(MAX_FILE_LINES),
        MAX_FILE_LINES,
        "701 lines",
    );
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", consts(MAX_FILE_LINES));
    accepted("crates/host/src/a.rs", &tests);
    accepted("crates/host/tests/a.rs", &consts(MAX_TEST_FILE_LINES - 1));
    refused(
        "crates/host/tests/a.rs",
        &consts(MAX_TEST_FILE_LINES),
        MAX_TEST_FILE_LINES,
        "1501 lines",
    );
}

#[test]
fn a_function_has_an_end() {
    let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    g(\"}\");\n".repeat(lines - 2));
    accepted("crates/host/src/a.rs", &function(MAX_FUNCTION_LINES));
    refused(
        "crates/host/src/a.rs",
        &function(MAX_FUNCTION_LINES + 1),
        2,
        "`f` has 91 lines",
    );
}

#[test]
fn tests_do_not_sleep() {
    for call in [
        "std::thread::sleep(A)",
        "tokio::time::sleep(A).await",
        "sleep(A)",
        "clock.sleep_until(A)",
    ] {
        let code = format!("async fn f() {{\n    {call};\n}}\n");
        refused("crates/host/tests/a.rs", &code, 3, "a test sleeps");
        refused("crates/host/src/tests.rs", &code, 3, "a test sleeps");
        let inside = format!("#[cfg(test)]\nmod tests {{\n    {call};\n}}\n");
        refused("crates/host/src/a.rs", &inside, 4, "a test sleeps");
        accepted("crates/host/src/a.rs", &code);
    }
    accepted(
        "crates/host/tests/a.rs",
        "const SCRIPT: &str = \"sleep(1)\"; // never sleep()\n",
    );
}

#[test]
fn tests_are_not_switched_off() {
    for attribute in [
        "#[ignore]",
        "#[ignore = \"slow\"]",
        "#[cfg_attr(miri, ignore)]",
    ] {
        let code = format!("#[test]\n{attribute}\nfn f() {{}}\n");
        refused("crates/host/tests/a.rs", &code, 3, "switched off");
    }
    refused(
        "crates/host/src/a.rs",
        "/// ```ignore\n/// f()\n/// ```\n",
        2,
        "doc test",
    );
    accepted("crates/host/src/a.rs", "#[serde(ignore)]\nstruct A;\n");
}

#[test]
fn notes_are_explained() {
    for note in [
        "// TODO",
        "// TODO: later",
        "/* FIXME this */",
        "// XXX: hm",
    ] {
        refused(
            "crates/host/src/a.rs",
            &format!("{note}\n"),
            2,
            "note without explanation",
        );
    }
    accepted(
        "crates/host/src/a.rs",
        "// TODO: windows has no process groups\nconst A: &str = \"TODO\";\n",
    );
}

/// A tree with this matrix and one test, which is named after a fault.
fn with_matrix(rows: &str) -> Tree {
    let tree = Tree::good();
    tree.write(
        "crates/sim/tests/faults.rs",
        "//! Faults.\n#[test]\nfn k1_a_death() {}\n",
    );
    tree.write(
        "docs/faults.md",
        &format!("# Faults\n| id | tests |\n| --- | --- |\n{rows}"),
    );
    tree
}

#[test]
fn a_promised_fault_needs_a_test() {
    let findings = with_matrix("| K1 | `k1_a_death` |\n").findings();
    let untested = |id: &str| {
        let words = format!("docs/faults.md:1: {id} has no test");
        findings.iter().any(|finding| finding.starts_with(&words))
    };
    assert!(!untested("K1"), "{findings:#?}");
    for id in ["F1", "F10", "K2", "K15", "C1", "C22", "S11", "T3", "N12"] {
        assert!(untested(id), "{id}: {findings:#?}");
    }
}

#[test]
fn matrix_and_tests_must_match() {
    let gone = with_matrix("| K1 | `k1_a_death`, `k1_gone` |\n").findings();
    let words = "docs/faults.md:4: K1 names `k1_gone`, and there is no such test";
    assert!(gone.contains(&words.to_owned()), "{gone:#?}");
    let unlisted = with_matrix("| K2 | |\n").findings();
    let words = "crates/sim/tests/faults.rs:3: `k1_a_death` is named after a fault; add it to docs/faults.md";
    assert!(unlisted.contains(&words.to_owned()), "{unlisted:#?}");
}

#[test]
fn attacks_and_their_rows_name_each_other() {
    let tree = with_matrix("| Attack: floods | `flood_is_bounded`, `k1_a_death`, `helper` |\n");
    tree.write(
        "crates/sim/tests/attacks/floods.rs",
        "//! Floods.\nfn helper() {}\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn flood_is_bounded() {}\n#[test]\nfn other_is_bounded() {}\n",
    );
    let findings = tree.findings();
    let said = |words: &str| findings.iter().any(|finding| finding == words);
    assert!(said(
        "docs/faults.md:4: Attack: floods names `helper`, and there is no such test"
    ));
    assert!(said(
        "crates/sim/tests/attacks/floods.rs:6: `other_is_bounded` is an attack; add it to docs/faults.md"
    ));
    let known = [
        "names `flood_is_bounded`",
        "names `k1_a_death`",
        "`flood_is_bounded` is an attack",
    ];
    for words in known {
        let none = !findings.iter().any(|finding| finding.contains(words));
        assert!(none, "{words}: {findings:#?}");
    }
}
