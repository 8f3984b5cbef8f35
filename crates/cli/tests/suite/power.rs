//! What a turn may do comes from the configuration alone: its commands can't write elsewhere, and can't talk back
//! to the daemon or to Codex to give themselves more.

use crate::world::{World, outside_every_sandbox};

/// The newest output of a command that Codex ran.
fn last_output(world: &World) -> String {
    let requests = world.model.requests();
    requests
        .iter()
        .rev()
        .find_map(|seen| seen.outputs.last().cloned())
        .unwrap()
}

/// Threat 25: a command that Codex runs asks our API, or Codex's own socket, for a favour.
#[tokio::test]
async fn threat_25_turn_commands_cannot_reach_sockets() {
    for sandbox in ["read-only", "workspace-write"] {
        let world = World::with_settings(&format!("[tiers.owner]\nsandbox = {sandbox:?}\n")).await;
        let daemon = world.daemon().await;
        let bridge = env!("CARGO_BIN_EXE_codex-bridge");
        let state = world.state_dir().display().to_string();
        let ask_api = format!("shell:{bridge} --state-dir {state} status; echo code=$? ;; echo:ok");
        assert_eq!(world.ask("a", &ask_api).await, "ok");
        let said = last_output(&world);
        assert!(
            said.contains("you may not use the daemon"),
            "{sandbox}: {said}"
        );
        assert!(said.contains("code=1"), "{sandbox}: {said}");
        let outside = world.run(&["status"]).await;
        assert_eq!(
            outside.code,
            Some(0),
            "outside of a turn it answers: {outside:?}"
        );

        let run = std::fs::read_dir(world.state_dir().join("run"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let socket = run.path().join("c.sock");
        let connect = format!(
            "require('net').connect('{}').on('error', e => {{ console.log('Error', e.code); process.exit(1) }}).on('connect', () => process.exit(0))",
            socket.display()
        );
        let ask_codex = format!("shell:node -e \"{connect}\"; echo code=$? ;; echo:ok");
        assert_eq!(world.ask("a", &ask_codex).await, "ok");
        let said = last_output(&world);
        assert!(
            said.contains("code=1") && said.contains("Error"),
            "{sandbox}: {said}"
        );
        daemon.stop().await;
    }
}

/// Threat 25 over TCP: a command that knows where the API listens, and even its token, does not reach it.
#[tokio::test]
async fn threat_25_turn_commands_cannot_reach_tcp() {
    for sandbox in ["read-only", "workspace-write"] {
        let settings =
            format!("[http]\nlisten = \"127.0.0.1:0\"\n[tiers.owner]\nsandbox = {sandbox:?}\n");
        let world = World::with_settings(&settings).await;
        let daemon = world.daemon().await;
        let listen = std::fs::read_to_string(world.state_dir().join("listen")).unwrap();
        let call = format!(
            "fetch('http://{}/v1/tasks', {{headers: {{authorization: 'Bearer {}'}}}}).then(r => console.log('status', r.status), e => console.log('Error', e.cause.code))",
            listen.trim(),
            world.owner_token().await
        );
        let outside = std::process::Command::new("node")
            .args(["-e", &call])
            .output()
            .unwrap();
        let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
        assert_eq!(outside.trim(), "status 200", "outside of a turn it answers");
        let asks = format!("shell:node -e \"{call}\" ;; echo:ok");
        assert_eq!(world.ask("a", &asks).await, "ok");
        let said = last_output(&world);
        assert!(
            said.contains("Error") && !said.contains("status 200"),
            "{sandbox}: {said}"
        );
        daemon.stop().await;
    }
}

/// Threat 25: where the disk is shielded, a command can't read where the API is or whose tokens it takes.
#[tokio::test]
async fn threat_25_isolated_commands_cannot_read_state() {
    let settings = "[tiers.owner]\nreads = \"shielded\"\n[http]\nlisten = \"127.0.0.1:0\"\n";
    let world = World::with_settings(settings).await;
    let daemon = world.daemon().await;
    for name in ["listen", "ledger.db"] {
        let path = world.state_dir().join(name);
        assert!(path.exists(), "{name}");
        let reads = format!(
            "shell:wc -c {} 2>&1; echo code=$? ;; echo:ok",
            path.display()
        );
        assert_eq!(world.ask("a", &reads).await, "ok");
        let said = last_output(&world);
        assert!(said.contains("code=1"), "{name}: {said}");
    }
    daemon.stop().await;
}

/// Without a sandbox the socket can be opened; who is at its other end is looked at, also after a fork that lets go of
/// its parent.
#[tokio::test]
async fn threat_25_unsandboxed_commands_cannot_control_bridge() {
    let settings = "[tiers.owner]\nsandbox = \"danger-full-access\"\n";
    let world = World::with_settings(settings).await;
    let daemon = world.daemon().await;
    let bridge = env!("CARGO_BIN_EXE_codex-bridge");
    let status = format!(
        "{bridge} --state-dir {} status",
        world.state_dir().display()
    );
    let direct = format!("shell:{status} 2>&1; echo code=$? ;; echo:ok");
    let detached =
        format!("shell:mkfifo said && (setsid {status} >said 2>&1 &) && cat said ;; echo:ok");
    for command in [direct, detached] {
        assert_eq!(world.ask("a", &command).await, "ok");
        let said = last_output(&world);
        assert!(said.contains("does not control the bridge"), "{said}");
    }
    assert_eq!(world.run(&["status"]).await.code, Some(0));
    daemon.stop().await;
}

/// The sandbox that was asked for is the one in force: inside it writes, outside it does not.
#[tokio::test]
async fn turn_writes_only_where_sandbox_allows() {
    let outside = outside_every_sandbox();
    for (sandbox, inside) in [("read-only", false), ("workspace-write", true)] {
        let world = World::with_settings(&format!("[tiers.owner]\nsandbox = {sandbox:?}\n")).await;
        let daemon = world.daemon().await;
        let target = outside.path().join(sandbox);
        let text = format!("shell:touch here; touch {} ;; echo:ok", target.display());
        assert_eq!(world.ask("a", &text).await, "ok");
        assert!(!target.exists(), "{sandbox} let a command write outside");
        let work = world.state_dir().join("work");
        let made = std::fs::read_dir(work)
            .unwrap()
            .any(|dir| dir.unwrap().path().join("here").exists());
        assert_eq!(made, inside, "{sandbox}");
        daemon.stop().await;
    }
}
