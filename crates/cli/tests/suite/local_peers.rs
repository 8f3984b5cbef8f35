//! Who is believed on `api.sock` (finding F2): not what Codex runs, however it comes by a connection; what the daemon
//! keeps from other processes of its user; and what the audit says of programs that act for the owner.

use crate::world::{World, within};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::io::{BufRead, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

/// Tells this program that it is what Codex runs: the socket that it attacks.
const ATTACKER: &str = "CODEX_BRIDGE_TEST_F2_SOCKET";
/// Tells it to connect this inherited descriptor to the socket, and to end.
const CONNECTS: &str = "CODEX_BRIDGE_TEST_F2_FD";
/// More than `api.sock` has places.
const IDLE: usize = 600;
/// Asks for a token that can do everything.
const TAKE_OVER: &str = r#"{"name":"pwn","scopes":["read","control","approve","admin"]}"#;
/// Planted in the daemon's environment.
const CANARY: &str = "canary-f2-51d7";

fn call(mut stream: &UnixStream, method: &str, path: &str, body: &str) -> String {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // A connection that was closed meanwhile is refused as well.
    let _closed = stream.write_all(head.as_bytes());
    let mut answer = String::new();
    let _closed = stream.read_to_string(&mut answer);
    answer
}

fn say(line: &str) {
    println!("\n{line}");
    std::io::stdout().flush().unwrap();
}

/// Runs this test again, as another process.
fn again() -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let test = std::thread::current().name().unwrap().to_owned();
    command.args(["--exact", "--nocapture", "--test-threads=1", &test]);
    command
}

/// The exploit: take all places, let a child connect that ends at once, and use the connection it leaves.
fn attack(path: &Path) {
    let idle: Vec<_> = (0..IDLE).map(|_| UnixStream::connect(path)).collect();
    let orphan = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::empty(),
        None,
    )
    .unwrap();
    let connected = again()
        .env(CONNECTS, orphan.as_raw_fd().to_string())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(connected.success());
    say("idle");
    std::io::stdin().lock().lines().next();
    drop(idle);
    let orphan = UnixStream::from(orphan);
    let answer = call(&orphan, "POST", "/v1/tokens", TAKE_OVER);
    say(&format!("orphan {answer:?}"));
    // While the idle ones are still being refused, more are closed without an answer.
    let plain = || {
        let plain = UnixStream::connect(path).unwrap();
        call(&plain, "POST", "/v1/tokens", TAKE_OVER)
    };
    let mut answers = (0..1_000).map(|_| plain());
    let answer = answers.find(|answer| !answer.is_empty());
    say(&format!("plain {:?}", answer.unwrap_or_default()));
}

#[tokio::test]
async fn f2_an_orphaned_connection_is_refused() {
    if let Ok(path) = std::env::var(ATTACKER) {
        match std::env::var(CONNECTS) {
            Ok(fd) => {
                let address = UnixAddr::new(Path::new(&path)).unwrap();
                connect(fd.parse().unwrap(), &address).unwrap();
            }
            Err(_) => attack(Path::new(&path)),
        }
        return;
    }
    let world = World::new().await;
    let daemon = world.daemon().await;
    // Known as one of our keepers by its arguments, like the one above Codex.
    let program = again();
    let words: Vec<_> = [program.get_program()]
        .into_iter()
        .chain(program.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let script = format!("{}\nexit $?\n", words.join(" "));
    std::fs::write(world.path().join("keeper"), script).unwrap();
    let mut keeper = Command::new("sh")
        .args(["keeper", "--directory"])
        .arg(world.state_dir().join("run/x"))
        .env(ATTACKER, world.state_dir().join("api.sock"))
        .current_dir(world.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(keeper.stdout.take().unwrap()).lines();
    let mut next = async |word: &str| {
        let found = async {
            loop {
                let line = said.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("the attacker did not get to {word}"));
                if line.starts_with(word) {
                    return line;
                }
            }
        };
        within(word, found).await
    };
    next("idle").await;
    world.run(&["status"]).await.must(0, &[]);
    let mut stdin = keeper.stdin.take().unwrap();
    stdin.write_all(b"\n").await.unwrap();
    let orphan = next("orphan").await;
    assert!(!orphan.contains("HTTP/1.1 2"), "{orphan}");
    let plain = next("plain").await;
    assert!(plain.contains("HTTP/1.1 403"), "{plain}");
    assert!(plain.contains("does not control the bridge"), "{plain}");
    assert!(within("its end", keeper.wait()).await.unwrap().success());
    let tokens = world.run(&["token", "list"]).await;
    tokens.must(0, &[]);
    assert!(!tokens.stdout.contains("pwn"), "{tokens:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// What Codex runs gets into a session of its own, kills its keeper and comes back as nobody's.
const KILLS_ITS_KEEPER: &str = r#"
keeper=$$
until tr '\0' ' ' < /proc/$keeper/cmdline | grep -q ' keeper --directory '; do
    keeper=$(sed 's/.*) . \([0-9]*\) .*/\1/' /proc/$keeper/stat)
done
kill -9 $keeper
while [ -d /proc/$keeper ]; do sleep 0.01; done
"$BRIDGE" --state-dir "$STATE" token add pwn --scope admin > "$SAID.part" 2>&1
echo "code $?" >> "$SAID.part"
mv "$SAID.part" "$SAID"
"#;

#[tokio::test]
async fn f2_killing_its_keeper_hides_no_command() {
    let world = World::new().await;
    let place = |name: &str| world.path().join(name).display().to_string();
    let (attack, said, codex) = (place("attack.sh"), place("said"), place("codex"));
    let (bridge, state) = (env!("CARGO_BIN_EXE_codex-bridge"), world.state_dir());
    let variables = format!(
        "BRIDGE='{bridge}' STATE='{}' SAID='{said}'",
        state.display()
    );
    let (real, once) = (crate::fake::binary(), place("once"));
    // Codex is also looked at without a keeper, before it is used.
    let run = state.join("run").display().to_string();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *unix://'{run}/'*) mkdir '{once}' 2>/dev/null && {variables} setsid sh '{attack}' & ;; esac\nexec '{real}' \"$@\"\n"
    );
    std::fs::write(&attack, KILLS_ITS_KEEPER).unwrap();
    std::fs::write(&codex, script).unwrap();
    std::fs::set_permissions(&codex, std::fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = world.daemon_with(&["--codex-bin", &codex]).await;
    let mut look = tokio::time::interval(std::time::Duration::from_millis(20));
    let told = async {
        loop {
            look.tick().await;
            if let Ok(told) = std::fs::read_to_string(&said) {
                return told;
            }
        }
    };
    let told = within("the attacker's word", told).await;
    assert!(told.contains("does not control the bridge"), "{told}");
    assert!(!told.contains("code 0"), "{told}");
    let tokens = world.run(&["token", "list"]).await;
    tokens.must(0, &[]);
    assert!(!tokens.stdout.contains("pwn"), "{tokens:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A connection whose process ends after it was let in is worth nothing to whoever inherited it.
#[tokio::test]
async fn f2_inherited_connection_is_refused() {
    if let (Ok(path), Ok(fd)) = (std::env::var(ATTACKER), std::env::var(CONNECTS)) {
        connect(
            fd.parse().unwrap(),
            &UnixAddr::new(Path::new(&path)).unwrap(),
        )
        .unwrap();
        let shared = UnixStream::connect(Path::new(&path)).unwrap();
        // Its own connection answers, so that the other one was accepted before.
        assert!(call(&shared, "GET", "/healthz", "").contains("HTTP/1.1 200"));
        return;
    }
    let world = World::new().await;
    let daemon = world.daemon().await;
    let path = world.state_dir().join("api.sock");
    let inherited = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::empty(),
        None,
    )
    .unwrap();
    let mut child = again();
    child
        .env(ATTACKER, &path)
        .env(CONNECTS, inherited.as_raw_fd().to_string());
    let answer = tokio::task::spawn_blocking(move || {
        assert!(child.output().unwrap().status.success());
        call(
            &UnixStream::from(inherited),
            "POST",
            "/v1/tokens",
            TAKE_OVER,
        )
    });
    let answer = within("an answer", answer).await.unwrap();
    assert!(answer.contains("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("has ended"), "{answer}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn f2_the_daemons_environment_holds_no_secret() {
    let mut world = World::new().await;
    for name in ["MOLECULE_WORKSPACE_TOKEN", "OPENAI_API_KEY", "MY_PROVIDER"] {
        world.set_env(name, CANARY);
    }
    world.set_env("F2_NAME", "odd=\u{e9}\n");
    let daemon = world.daemon().await;
    let proc_file = |name: &str| {
        let bytes = std::fs::read(format!("/proc/{}/{name}", daemon.pid())).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let environ = proc_file("environ");
    // Not shown when it fails: it may hold secrets of whoever runs the tests.
    assert!(!environ.contains(CANARY));
    assert!(environ.contains("PATH="));
    assert_eq!(proc_file("comm"), "codex-bridge\n");
    assert!(proc_file("cmdline").starts_with(env!("CARGO_BIN_EXE_codex-bridge")));
    let limits = proc_file("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core"));
    let words: Vec<_> = core.unwrap().split_whitespace().collect();
    assert_eq!(words.get(4..6), Some(&["0", "0"][..]), "{limits}");
    // What was handed over is still known: no text may carry it to people.
    let told = world.ask("a", &format!("echo:{CANARY}")).await;
    assert!(!told.contains(CANARY), "{told}");
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
    for file in open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok()) {
        assert!(!file.to_string_lossy().contains("memfd"), "{file:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// The kernel gives what can't be traced to root, whoever runs it.
#[tokio::test]
async fn f2_a_daemon_process_is_not_dumpable() {
    let world = World::new().await;
    std::fs::set_permissions(
        world.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut command = Command::new("setpriv");
    if nix::unistd::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    let mut mcp = command
        .arg(env!("CARGO_BIN_EXE_codex-bridge"))
        .arg("--state-dir")
        .arg(world.path().join("nobodys"))
        .arg("mcp")
        .env("HOME", world.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(mcp.stderr.take().unwrap()).lines();
    // It starts a daemon or says why it can't.
    within("a word", said.next_line()).await.unwrap().unwrap();
    let environ = format!("/proc/{}/environ", mcp.id().unwrap());
    let owner = std::fs::metadata(environ).unwrap().uid();
    assert_eq!(owner, 0);
    drop(mcp.stdin.take());
    within("its end", mcp.wait()).await.unwrap();
}

#[tokio::test]
async fn f2_the_audit_names_the_program() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let path = world.state_dir().join("api.sock");
    let asked = tokio::task::spawn_blocking(move || {
        let stream = UnixStream::connect(path).unwrap();
        call(
            &stream,
            "POST",
            "/v1/tokens",
            r#"{"name":"raw","scopes":["read"]}"#,
        )
    });
    let answer = within("an answer", asked).await.unwrap();
    assert!(answer.contains("HTTP/1.1 201"), "{answer}");
    let bridge = env!("CARGO_BIN_EXE_codex-bridge");
    let add = |name: &str| {
        let state = world.state_dir().display().to_string();
        let words = [
            "--state-dir",
            &state,
            "token",
            "add",
            name,
            "--scope",
            "read",
        ];
        words.map(str::to_owned)
    };
    let alone = Command::new("setsid")
        .arg("--wait")
        .arg(bridge)
        .args(add("alone"))
        .stdout(Stdio::null())
        .status();
    assert!(within("a token", alone).await.unwrap().success());
    let pty = nix::pty::openpty(None, None).unwrap();
    let person = Command::new("setsid")
        .args(["--wait", "--ctty", bridge])
        .args(add("person"))
        .stdin(pty.slave)
        .stdout(Stdio::null())
        .status();
    assert!(within("a token", person).await.unwrap().success());
    let audit = world.json(&["audit", "--json"]).await;
    let actor = |subject: &str| {
        let entries = audit["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["subject"] == subject);
        entry.unwrap_or_else(|| panic!("{subject}: {audit:#}"))["actor"].clone()
    };
    let raw = actor("token raw");
    assert!(
        raw.as_str()
            .unwrap()
            .starts_with("local owner (program suite-"),
        "{raw}"
    );
    assert_eq!(
        actor("token alone"),
        "local owner (codex-bridge without a terminal)"
    );
    assert_eq!(actor("token person"), "local owner");
    assert_eq!(audit["ok"], true);
    assert_eq!(daemon.stop().await, Some(0));
}
