//! Other users of the machine: who may not reach the daemon is told so, and people of a group have a socket of their own,
//! on which they are never the owner.

use crate::json_schema::must_fit;
use crate::requests::api;
use crate::world::{Daemon, Ended, Running, World, signal};
use bridge_sim::codex_for_tests;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;

/// Two users that are in one group on every Debian, and on most other systems.
const GROUP: &str = "nogroup";
const ADA: &str = "65534:65534";
const BOB: &str = "42:65534";
/// A user who is not in it.
const STRANGER: &str = "1:1";

/// A world with a group, and what its people see of it. Only root can be several users.
struct Shared {
    world: World,
    run: PathBuf,
}

impl Shared {
    async fn new(settings: &str) -> Option<Self> {
        let world = World::new().await;
        let known = nix::unistd::Group::from_name(GROUP).ok().flatten();
        let user = |uid: u32| nix::unistd::User::from_uid(uid.into()).ok().flatten();
        let is_there = known.is_some_and(|group| group.gid.as_raw() == 65_534);
        if !nix::unistd::geteuid().is_root() || !is_there || user(42).is_none() {
            return None;
        }
        let run = world.path().join("run");
        std::fs::create_dir(&run).unwrap();
        for open in [world.path(), run.as_path()] {
            std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let socket = run.join("group.sock");
        let text = format!("[daemon]\ngroup = {GROUP:?}\ngroup_socket = {socket:?}\n{settings}");
        std::fs::write(world.config_file(), text).unwrap();
        Some(Self { world, run })
    }

    fn socket(&self) -> PathBuf {
        self.run.join("group.sock")
    }

    /// A command of this user, over the group's socket.
    fn command(&self, user: &str, args: &[&str]) -> Command {
        let mut command = self.command_without_socket(user, args);
        command.env("CODEX_BRIDGE_GROUP_SOCKET", self.socket());
        command
    }

    fn command_without_socket(&self, user: &str, args: &[&str]) -> Command {
        let (uid, gid) = user.split_once(':').unwrap();
        let mut command = Command::new("setpriv");
        command
            .args([
                &format!("--reuid={uid}"),
                &format!("--regid={gid}"),
                "--clear-groups",
            ])
            .arg(env!("CARGO_BIN_EXE_codex-bridge"))
            .arg("--state-dir")
            .arg(self.world.state_dir())
            .args(args)
            .env("HOME", "/nonexistent")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, user: &str, args: &[&str]) -> Ended {
        Running::of(self.command(user, args)).ended().await
    }

    /// A call of this user on the group's socket.
    async fn call(&self, user: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
        let (uid, gid) = user.split_once(':').unwrap();
        let output = Command::new("setpriv")
            .args([
                &format!("--reuid={uid}"),
                &format!("--regid={gid}"),
                "--clear-groups",
            ])
            .args([
                "curl",
                "-s",
                "-w",
                "\n%{http_code}",
                "-X",
                method,
                "--unix-socket",
            ])
            .arg(self.socket())
            .args([
                "-H",
                "Content-Type: application/json",
                "-H",
                "Idempotency-Key: k1",
            ])
            .args(["-d", &body.to_string()])
            .arg(format!("http://localhost{path}"))
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (text, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap_or(0), text.to_owned())
    }
}

#[tokio::test]
async fn another_user_is_told_of_permissions() {
    let Some(shared) = Shared::new("").await else {
        return;
    };
    let daemon = shared.world.daemon().await;
    for args in [
        &["send", "echo:hi"][..],
        &["status"],
        &["backup"],
        &["why", "01a1"],
        &["doctor"],
    ] {
        let command = shared.command_without_socket(STRANGER, args);
        let ended = Running::of(command).ended().await;
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(1), "{args:?}: {said}");
        assert!(
            said.contains("you may not use the daemon of"),
            "{args:?}: {said}"
        );
        assert!(said.contains("belongs to root"), "{args:?}: {said}");
        assert!(!said.contains("no daemon runs"), "{args:?}: {said}");
    }
    for args in [
        &["send", "echo:hi"][..],
        &["start", "echo:hi"],
        &["status"],
        &["status", "--watch"],
        &["watch"],
        &["ls"],
        &["token", "list"],
        &["backup"],
        &["audit"],
    ] {
        let args = [args, &["--json"]].concat();
        let strangers = [
            shared.command_without_socket(STRANGER, &args),
            shared.command(STRANGER, &args),
        ];
        for command in strangers {
            let ended = Running::of(command).ended().await;
            assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
            let told: Value = serde_json::from_str(&ended.stdout).unwrap();
            must_fit("error", &told);
            let (title, detail) = (&told["error"]["title"], &told["error"]["detail"]);
            assert_eq!(title, "not permitted", "{args:?}: {told:#}");
            let detail = detail.as_str().unwrap();
            assert!(detail.contains("you may not use the daemon"), "{detail}");
        }
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn people_of_a_group_send_and_read() {
    let Some(shared) = Shared::new("").await else {
        return;
    };
    let daemon = shared.world.daemon().await;
    let found = std::fs::metadata(shared.socket()).unwrap();
    assert_eq!((found.mode() & 0o777, found.gid()), (0o660, 65_534));
    let sent = shared.run(ADA, &["send", "echo:hello ada"]).await;
    assert_eq!(
        (sent.code, sent.stdout.as_str()),
        (Some(0), "hello ada\n"),
        "{sent:?}"
    );
    let (_, list) = api(&shared.world, "GET", "/v1/messages", &Value::Null).await;
    let message = &list["messages"][0];
    assert_eq!(message["sender"], "user nobody", "{list:#}");
    let (_, list) = api(&shared.world, "GET", "/v1/conversations", &Value::Null).await;
    assert_eq!(
        list["conversations"][0]["key"], "@user nobody/main",
        "{list:#}"
    );
    let shown = shared
        .run(ADA, &["show", message["message_id"].as_str().unwrap()])
        .await;
    assert!(shown.stdout.contains("hello ada"), "{shown:?}");
    assert_eq!(daemon.stop().await, Some(0));
    assert!(!shared.socket().exists());
}

#[tokio::test]
async fn members_reach_only_what_is_theirs() {
    let Some(shared) = Shared::new("").await else {
        return;
    };
    let daemon = shared.world.daemon().await;
    shared.world.ask("main", "echo:the owner's").await;
    let sent = shared.run(ADA, &["send", "echo:ada's"]).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let (_, list) = api(&shared.world, "GET", "/v1/messages", &Value::Null).await;
    let all: Vec<_> = list["messages"].as_array().unwrap().clone();
    assert_eq!(all.len(), 2, "{list:#}");
    let (_, talks) = api(&shared.world, "GET", "/v1/conversations", &Value::Null).await;
    for message in &all {
        let id = message["message_id"].as_str().unwrap();
        for path in [
            format!("/v1/messages/{id}"),
            format!("/v1/messages/{id}/events"),
        ] {
            let (status, said) = shared.call(BOB, "GET", &path, &Value::Null).await;
            assert_eq!(status, 404, "{path}: {said}");
        }
    }
    for talk in talks["conversations"].as_array().unwrap() {
        let path = format!(
            "/v1/conversations/{}",
            talk["conversation_id"].as_str().unwrap()
        );
        let (status, said) = shared.call(BOB, "GET", &path, &Value::Null).await;
        assert_eq!(status, 404, "{path}: {said}");
    }
    for path in ["/v1/messages", "/v1/conversations"] {
        let (status, said) = shared.call(BOB, "GET", path, &Value::Null).await;
        assert_eq!(status, 200, "{said}");
        assert!(!said.contains("ada") && !said.contains("owner"), "{said}");
    }
    let body = json!({"text": "echo:x", "conversation": "main"});
    let (status, said) = shared.call(BOB, "POST", "/v1/messages", &body).await;
    assert_eq!(status, 201, "{said}");
    let (_, talks) = api(&shared.world, "GET", "/v1/conversations", &Value::Null).await;
    let keys: Vec<_> = talks["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|talk| talk["key"].clone())
        .collect();
    assert!(
        keys.contains(&json!("@user _apt/main")) && keys.len() == 3,
        "{keys:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn members_stop_only_their_own() {
    let Some(shared) = Shared::new("").await else {
        return;
    };
    let daemon = shared.world.daemon().await;
    let body = json!({"text": "hold:adas echo:x"});
    let (_, said) = shared.call(ADA, "POST", "/v1/messages", &body).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    let adas = said["message_id"].as_str().unwrap().to_owned();
    let sent = ["send", "--no-wait", "--json", "hold:owners echo:x"];
    let owners = shared.world.json(&sent).await["message_id"].to_string();
    let owners = owners.trim_matches('"').to_owned();
    for held in ["adas", "owners"] {
        shared.world.model.wait_held(held).await.unwrap();
    }
    for (user, id) in [(BOB, &adas), (BOB, &owners), (ADA, &owners)] {
        let path = format!("/v1/messages/{id}/cancel");
        let (status, said) = shared.call(user, "POST", &path, &json!({})).await;
        assert_eq!(status, 404, "{user}: {said}");
        let ended = shared.run(user, &["stop", id]).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
    }
    let stopped = shared.run(ADA, &["stop", &adas]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.stdout.contains("is stopped"), "{stopped:?}");
    let acts = shared.world.json(&["show", "--json", &adas]).await;
    assert_eq!(acts["phase"], "stopped", "{acts:#}");
    let still = shared.world.json(&["show", "--json", &owners]).await;
    assert_eq!(still["phase"], "working", "{still:#}");
    shared.world.model.release("owners");
    shared.world.finished(&owners).await;
    assert_eq!(daemon.stop().await, Some(0));
}

/// Every route that is not for members is refused, with or without a token's header, and no message is read as a command.
#[tokio::test]
async fn members_never_act_as_owner() {
    let Some(shared) = Shared::new("").await else {
        return;
    };
    let daemon = shared.world.daemon().await;
    let open = [
        "/healthz",
        "/readyz",
        "/v1/messages",
        "/v1/conversations",
        "/v1/find",
        "/.well-known/",
        "/console",
    ];
    for route in bridge_daemon::routes() {
        // Leads to the console; says who calls; ends the session that calls, which a member has not.
        let is_post = route.verb == bridge_front::api::Verb::Post;
        if ["/", "/v1/session"].contains(&route.path) && !is_post {
            continue;
        }
        if open.iter().any(|open| route.path.starts_with(open)) && !route.path.contains("}/") {
            continue;
        }
        if ["/v1/messages/{id}/events", "/v1/messages/{id}/cancel"].contains(&route.path) {
            continue;
        }
        let path = route
            .path
            .replace("{id}", "01a1e602")
            .replace("{name}", "x")
            .replace("{config}", "c");
        let method = match route.verb {
            bridge_front::api::Verb::Get => "GET",
            bridge_front::api::Verb::Delete => "DELETE",
            bridge_front::api::Verb::Post | bridge_front::api::Verb::Any => "POST",
        };
        let (status, said) = shared.call(ADA, method, &path, &json!({})).await;
        assert_eq!(status, 403, "{method} {path}: {said}");
    }
    let (status, said) = shared
        .call(STRANGER, "GET", "/v1/messages", &Value::Null)
        .await;
    assert_eq!(status, 0, "the file's mode keeps strangers out: {said}");
    let opened = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(shared.socket(), opened).unwrap();
    let (status, said) = shared
        .call(STRANGER, "GET", "/v1/messages", &Value::Null)
        .await;
    assert_eq!(status, 403, "{said}");
    assert!(said.contains("is not in the group"), "{said}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// What Codex runs can't use the group's socket either, also where its user is in the group.
#[tokio::test]
async fn codex_cannot_use_the_group_socket() {
    let Some(shared) = Shared::new("[tiers.owner]\nsandbox = \"danger-full-access\"\n").await
    else {
        return;
    };
    let daemon = shared.world.daemon().await;
    let socket = shared.socket().display().to_string();
    let curl = format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups curl -s --unix-socket {socket} http://localhost/v1/messages > {}/said",
        shared.world.path().display()
    );
    shared
        .world
        .ask("a", &format!("shell:{curl} ;; echo:done"))
        .await;
    let said = std::fs::read_to_string(shared.world.path().join("said")).unwrap();
    assert!(said.contains("was started by a Codex"), "{said}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn unknown_group_stops_the_start() {
    let world = World::with_settings("[daemon]\ngroup = \"no-such-group\"\n").await;
    let ended = world.run(&["run"]).await;
    ended.must(1, &["there is no group \"no-such-group\"", "groupadd"]);
    let world = World::with_settings("[daemon]\ngroup_scopes = [\"approve\"]\n").await;
    world.run(&["run"]).await.must(1, &["daemon.group_scopes"]);
}

#[tokio::test]
async fn a_closed_pipe_is_no_failure() {
    let world = World::new().await;
    for args in [
        "api schema",
        "config schema",
        "config check",
        "api permissions",
        "completions bash",
        "--help",
    ] {
        let program = env!("CARGO_BIN_EXE_codex-bridge");
        let line = format!("{program} {args} | true; exit ${{PIPESTATUS[0]}}");
        let mut command = Command::new("bash");
        command.args(["-c", &line]).env("HOME", world.path());
        let output = command.output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{args}: {output:?}");
        assert!(output.stderr.is_empty(), "{args}: {output:?}");
    }
}

#[tokio::test]
async fn doctor_makes_nothing() {
    let mut world = World::new().await;
    let home = world.path().join("fresh");
    std::fs::create_dir(&home).unwrap();
    world.set_env("HOME", home.to_str().unwrap());
    let codex_home = home.join(".codex");
    world.set_env("CODEX_HOME", codex_home.to_str().unwrap());
    let state = home.join(".local/state/codex-bridge");
    let ended = Running::of(world.command_on(&state, &["doctor"]))
        .ended()
        .await;
    assert!(
        ended
            .stdout
            .contains("is not there yet; the daemon makes it"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("codex login"), "{ended:?}");
    let left: Vec<_> = std::fs::read_dir(&home)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// As it does when a daemon makes the databases of a new CODEX_HOME at the same moment.
#[tokio::test]
async fn doctor_asks_again_where_codex_fell() {
    let mut world = World::new().await;
    let (codex, fell) = (world.path().join("codex"), world.path().join("fell"));
    let real = codex_for_tests().unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *app-server*) if mkdir {} 2>/dev/null; then echo 'Error: failed to initialize sqlite state runtime' >&2; exit 1; fi;; esac\nexec {} \"$@\"\n",
        fell.display(),
        real.display(),
    );
    std::fs::write(&codex, script).unwrap();
    std::fs::set_permissions(&codex, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.set_env("CODEX_BRIDGE_CODEX_BIN", codex.to_str().unwrap());
    let ended = world.run(&["doctor"]).await;
    assert!(fell.exists(), "{ended:?}");
    let loads = "codex configuration: it loads, and a thread can be opened";
    assert!(ended.stdout.contains(loads), "{ended:?}");
}

#[tokio::test]
async fn doctor_says_that_a_daemon_stops() {
    let world = World::with_settings("[daemon]\ndrain_secs = 3600\n").await;
    let mut daemon: Daemon = world.daemon().await;
    let send = world.start(&["send", "hold:gate echo:x"]).await;
    world.model.wait_held("gate").await.unwrap();
    daemon.terminate();
    daemon.log.wait_for("waiting for running turns").await;
    let line = daemon.log.text();
    assert!(
        line.contains("turns=1 ids=") && line.contains("a second Ctrl-C"),
        "{line}"
    );
    let ended = world.run(&["doctor"]).await;
    assert!(ended.stdout.contains("stopping, pid"), "{ended:?}");
    signal(daemon.pid(), Signal::SIGTERM);
    assert_eq!(daemon.ended().await, Some(0));
    drop(send);
}

#[tokio::test]
async fn service_commands_explain_missing_systemd() {
    let mut world = World::new().await;
    world.set_env(
        "XDG_CONFIG_HOME",
        world
            .path()
            .join("config")
            .to_str()
            .unwrap()
            .to_owned()
            .as_str(),
    );
    for verb in ["start", "stop", "restart", "status", "logs"] {
        let ended = world.run(&["service", verb, "--user"]).await;
        ended.must(1, &["service install --user"]);
    }
    let installed = world.run(&["service", "install", "--user"]).await;
    assert_eq!(installed.code, Some(0), "{installed:?}");
    world.set_env("PATH", "/nonexistent");
    for verb in ["start", "stop", "restart", "status", "logs"] {
        let ended = world.run(&["service", verb]).await;
        ended.must(1, &["systemd does not run here", "codex-bridge run"]);
    }
    let wants = world
        .path()
        .join("config/systemd/user/default.target.wants");
    std::fs::create_dir_all(&wants).unwrap();
    std::os::unix::fs::symlink(
        "../codex-bridge.service",
        wants.join("codex-bridge.service"),
    )
    .unwrap();
    let removed = world.run(&["service", "uninstall", "--user"]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    let (stop, reload) = (
        removed.stdout.find("stop codex"),
        removed.stdout.find("daemon-reload"),
    );
    assert!(stop.is_some() && stop < reload, "{removed:?}");
    assert!(!wants.join("codex-bridge.service").is_symlink());
}
