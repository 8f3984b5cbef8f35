//! The README and the guides: every `sh` snippet is run as it is printed, beside a daemon that serves, or is marked with
//! the reason why not (`<!-- not run: REASON -->` on the line before it).

use crate::world::{Daemon, Running, World};
use bridge_sim::codex_for_tests;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// Most words of the README.
const README_WORDS: usize = 900;

/// What a line before a snippet begins with if the snippet is not run.
const MARK: &str = "<!-- not run:";

/// A snippet of a document.
#[derive(Debug)]
struct Snippet {
    /// The line of its fence.
    line: usize,
    text: String,
    /// Why it is not run.
    not_run: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn snippets(document: &str) -> Vec<Snippet> {
    let mut found: Vec<Snippet> = Vec::new();
    let mut before = "";
    // Whether the block that is open is a snippet, and how far it is indented.
    let mut open: Option<(bool, usize)> = None;
    for (at, line) in document.lines().enumerate() {
        let text = line.trim_start();
        match (text.strip_prefix("```"), open) {
            (Some(language), None) => {
                let language = language.trim();
                assert!(
                    !["bash", "shell", "zsh"].contains(&language),
                    "line {}: call it `sh`, then it is run",
                    at + 1
                );
                open = Some((language == "sh", line.len() - text.len()));
                if language == "sh" {
                    found.push(Snippet {
                        line: at + 1,
                        text: String::new(),
                        not_run: reason(before),
                    });
                }
            }
            (Some(_), Some(_)) => open = None,
            (None, Some((true, indent))) => {
                let snippet = found.last_mut().unwrap();
                snippet.text.push_str(line.get(indent..).unwrap_or(text));
                snippet.text.push('\n');
            }
            (None, _) => {}
        }
        before = text;
    }
    found
}

fn reason(line: &str) -> Option<String> {
    let reason = line.strip_prefix(MARK)?.strip_suffix("-->")?.trim();
    assert!(!reason.is_empty(), "a mark without a reason");
    Some(reason.to_owned())
}

/// Runs the snippets of a document, each in a home of its own with a project in it.
async fn run_all(document: &str) {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    for snippet in snippets(&text) {
        if snippet.not_run.is_none() {
            run(document, &snippet).await;
        }
    }
}

async fn run(document: &str, snippet: &Snippet) {
    let mut world = World::new().await;
    // Below the world's directory, so that its end is the end of everything that was started.
    let home = world.path().join("ada");
    std::fs::create_dir_all(home.join("project")).unwrap();
    world.set_env("HOME", &home.display().to_string());
    let state = home.join(".local/state/codex-bridge");
    let run = world.command_on(&state, &["run", "--listen", "127.0.0.1:0"]);
    let mut daemon = Daemon::of(run).await;
    // Two Codex processes can't make the databases of a new CODEX_HOME at the same time; `doctor` starts one.
    daemon.log.wait_for("codex is up").await;
    let ended = Running::of(bash(&world, &home, &snippet.text))
        .ended()
        .await;
    let line = snippet.line;
    assert_eq!(ended.code, Some(0), "{document}:{line}: {ended:#?}");
    assert_eq!(daemon.stop().await, Some(0), "{document}:{line}");
}

/// A shell that stops at the first command that fails, or at a variable that nobody set.
fn bash(world: &World, home: &Path, text: &str) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_codex-bridge"));
    let mut path = binary.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-eu", "-o", "pipefail", "-c", text])
        .env("PATH", path)
        .env("HOME", home)
        .env("CODEX_HOME", world.codex_home())
        .env("CODEX_BRIDGE_CODEX_BIN", codex_for_tests().unwrap())
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for name in [
        "BASH_ENV",
        "CODEX_BRIDGE_STATE_DIR",
        "OPENAI_API_KEY",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
    ] {
        bash.env_remove(name);
    }
    bash
}

#[test]
fn every_document_with_snippets_is_run() {
    let run = [
        "README.md",
        "a2a.md",
        "control.md",
        "from-a2a-executor.md",
        "from-codex-channel-molecule.md",
        "http.md",
    ];
    let guides = std::fs::read_dir(root().join("docs/guides")).unwrap();
    let guides = guides.map(|entry| entry.unwrap().path());
    let guides = guides.filter(|path| path.is_file());
    for path in guides.chain([root().join("README.md")]) {
        let found = snippets(&std::fs::read_to_string(&path).unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        let unmarked = found.iter().any(|snippet| snippet.not_run.is_none());
        assert_eq!(unmarked, run.contains(&name), "{name}: {found:#?}");
    }
}

#[test]
fn readme_is_short() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let words = text.split_whitespace().count();
    assert!(words < README_WORDS, "{words} words");
}

#[test]
fn snippets_are_found_with_their_marks() {
    let document = "a\n```toml\nb = 1\n```\n   ```sh\n   one\n     two\n   ```\n<!-- not run: never ends -->\n```sh\nthree\n```\n";
    let found = snippets(document);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].line, found[0].text.as_str()), (5, "one\n  two\n"));
    assert_eq!(found[0].not_run, None);
    assert_eq!(found[1].not_run.as_deref(), Some("never ends"));
}

#[tokio::test]
async fn readme_snippets_run_as_printed() {
    run_all("README.md").await;
}

#[tokio::test]
async fn control_snippets_run_as_printed() {
    run_all("docs/guides/control.md").await;
}

#[tokio::test]
async fn http_snippets_run_as_printed() {
    run_all("docs/guides/http.md").await;
}

#[tokio::test]
async fn a2a_snippets_run_as_printed() {
    run_all("docs/guides/a2a.md").await;
}

#[tokio::test]
async fn moving_snippets_run_as_printed() {
    run_all("docs/guides/from-a2a-executor.md").await;
    run_all("docs/guides/from-codex-channel-molecule.md").await;
}
