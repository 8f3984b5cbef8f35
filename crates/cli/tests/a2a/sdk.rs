//! The example `examples/a2a_client.py`, unchanged, with the official SDK: every step of it, in both versions and both
//! bindings. `cargo xtask test` (or `cargo xtask a2a-sdk`) installs the SDK; without it these tests fail.

use crate::world::{Running, World, within};
use crate::{base, peer_token};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// Names the Python to use instead of the installed one.
const VAR: &str = "CODEX_BRIDGE_A2A_PYTHON";

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn python() -> PathBuf {
    let named = std::env::var_os(VAR).filter(|value| !value.is_empty());
    let installed = here()
        .ancestors()
        .map(|dir| dir.join("target/tools/a2a-sdk/bin/python"));
    let mut found = named.map(PathBuf::from).into_iter().chain(installed);
    found.find(|python| python.is_file()).unwrap_or_else(|| {
        panic!("no A2A SDK ({VAR}, then target/tools/a2a-sdk): run `cargo xtask a2a-sdk`")
    })
}

/// What the example prints, when it is a peer with a token that says these things.
async fn example(protocol: &str, binding: &str) -> String {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = receiver.local_addr().unwrap().port();
    drop(receiver);
    let settings = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[a2a]\nallow_origins = [\"http://127.0.0.1:{port}\"]\n"
    );
    let world = World::with_settings(&settings).await;
    let daemon = world.daemon().await;
    let token = world.path().join("token");
    std::fs::write(&token, peer_token(&world).await).unwrap();
    let mut command = Command::new(python());
    command
        .arg(here().join("../../examples/a2a_client.py"))
        .arg(base(&world))
        .arg("--token-file")
        .arg(&token)
        .args(["--protocol", protocol, "--binding", binding])
        .args(["--ask", "echo:hello there", "--ask-streaming", "stream:20"])
        .args(["--ask-again", "remember:", "--ask-long", "hang:long"])
        .args(["--receiver", &port.to_string()])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let said = within("the example", Running::of(command).ended()).await;
    assert_eq!(said.code, Some(0), "{}\n{}", said.stdout, said.stderr);
    daemon.stop().await;
    said.stdout
}

/// The same whichever way it is said.
fn expect(said: &str, protocol: &str, binding: &str) {
    let spoken = format!("A2A {protocol} over {binding}");
    let twenty: String = (0..20).map(|n| format!("w{n} ")).collect();
    let lines: Vec<&str> = said.lines().collect();
    let wanted = [
        ("card: ", spoken.as_str()),
        ("send: completed: hello there", ""),
        ("stream: ", twenty.trim_end()),
        ("again: completed: I have seen 2 messages", "stream:20"),
        ("cancel: canceled", ""),
        ("push: completed", ""),
    ];
    assert_eq!(lines.len(), wanted.len(), "{said}");
    for (line, (begins, holds)) in lines.iter().zip(wanted) {
        assert!(line.starts_with(begins) && line.contains(holds), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_client_works_over_json_rpc() {
    let said = example("1.0", "JSONRPC").await;
    expect(&said, "1.0", "JSONRPC");
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_client_works_over_http_json() {
    let said = example("1.0", "HTTP+JSON").await;
    expect(&said, "1.0", "HTTP+JSON");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_still_speaks_0_3() {
    let said = example("0.3", "JSONRPC").await;
    expect(&said, "0.3", "JSONRPC");
}
