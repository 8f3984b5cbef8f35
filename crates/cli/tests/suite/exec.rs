//! Turns over `codex exec`: a process of the real Codex for every turn, and what is promised about its text, its thread,
//! its end and its death.

use crate::agent::{Codex, codex, end, spec};
use crate::world::{Daemon, Ended, Running, World, gone, processes_with, within};
use bridge_core::port::{Agent, Reads, Steer, Steered, ThreadSpec, TurnSpec, TurnTransport};
use bridge_core::value::ClientId;
use bridge_sim::codex_for_tests;
use std::os::unix::fs::PermissionsExt;

const EXEC: &str = "[exec]\nconversations = [\"*\"]\n";
const IMPATIENT: &str = "[turn]\nbackoff_base_ms = 10\n";

#[track_caller]
fn answered(ended: &Ended, answer: &str) {
    let said = (ended.code, ended.stdout.as_str());
    assert_eq!(said, (Some(0), answer), "{ended:?}");
}

/// The pid of the one `codex exec` of this world, without the keeper around it.
#[track_caller]
fn run_of(world: &World) -> i32 {
    let runs = runs_of(world);
    assert_eq!(runs.len(), 1, "one run: {:#?}", world.processes());
    runs[0]
}

fn runs_of(world: &World) -> Vec<i32> {
    let runs = world.processes().into_iter();
    runs.filter(|(_, line)| line.contains(" exec --skip") && !line.contains(" keeper"))
        .map(|(pid, _)| pid)
        .collect()
}

/// A message whose turn waits at the model's gate, on a run of its own.
async fn held(world: &World, text: &str) -> (Running, String, i32) {
    let mut send = world.start(&["send", "-c", "a", text]).await;
    let message_id = send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    (send, message_id, run_of(world))
}

#[tokio::test]
async fn messages_of_one_conversation_resume_one_thread() {
    let world = World::with_settings(EXEC).await;
    let daemon = world.daemon().await;
    world.ask("a", "My cat is called Tom.").await;
    let memory = "I have seen 2 messages from you; before this one: \"My cat is called Tom.\"";
    assert_eq!(world.ask("a", "remember:").await, memory);
    let flag = "--dangerously-bypass-approvals-and-sandbox echo:a text";
    let sent = world.run(&["send", "-c", "a", "--", flag]).await;
    answered(&sent, "a text\n");
    assert_eq!(world.shown_with(flag).len(), 3);
    world.ask("b", "echo:elsewhere").await;
    let threads: Vec<_> = world.model.requests();
    let threads: Vec<_> = threads.iter().map(|seen| &seen.thread_id).collect();
    assert!(threads[0].is_some() && threads[0] == threads[1] && threads[1] == threads[2]);
    assert_ne!(threads[0], threads[3]);
    assert!(runs_of(&world).is_empty(), "a run ends with its turn");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// A Codex whose `exec` fails, and whose app-server is the real one.
async fn failing(script: &str) -> World {
    let mut world = World::with_settings(&format!("{EXEC}{IMPATIENT}")).await;
    replace_exec(&mut world, script);
    world
}

/// Runs this script where Codex would run `exec`.
pub(crate) fn replace_exec(world: &mut World, script: &str) {
    let codex = world.path().join("codex");
    let real = codex_for_tests().unwrap();
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = exec ]; then {script}; fi\nexec {} \"$@\"\n",
        real.display()
    );
    std::fs::write(&codex, text).unwrap();
    std::fs::set_permissions(&codex, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.set_env("CODEX_BRIDGE_CODEX_BIN", &codex.display().to_string());
}

#[tokio::test]
async fn failed_run_reports_exit_and_stderr() {
    let world = failing("cat >/dev/null; echo 'boom: no such luck' >&2; exit 7").await;
    let daemon = world.daemon().await;
    let ended = world.run(&["send", "echo:never"]).await;
    ended.must(1, &["exit=7", "boom: no such luck"]);
    assert_eq!(world.times_asked("echo:never"), 0);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn failed_turn_reports_model_error_and_exit() {
    let world = World::with_settings(&format!("{EXEC}{IMPATIENT}")).await;
    let daemon = world.daemon().await;
    let ended = world.run(&["send", "fail:400"]).await;
    ended.must(1, &["exit=1", "the model refused the request"]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn empty_answer_has_placeholder() {
    let world = World::with_settings(EXEC).await;
    let daemon = world.daemon().await;
    let said = world.ask("a", "echo:").await;
    assert_eq!(said, "(Codex finished this turn without a text answer.)");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A command that leaves a child in a session of its own, out of reach of a group's kill; then the model never ends.
fn escapes(seconds: u32) -> (String, String) {
    let text = format!(
        "shell:setsid nohup sh -c 'touch up; exec sleep {seconds}' >/dev/null 2>&1 & while [ ! -e up ]; do :; done ;; hold:gate echo:never"
    );
    (text, format!("sleep {seconds}"))
}

/// Waits for the child that escapes: it says that it is up before it has its last name.
async fn escapee(command: &str) -> i32 {
    let mut look = tokio::time::interval(std::time::Duration::from_millis(5));
    let found = async {
        loop {
            match escaped(command).as_slice() {
                [pid] => return *pid,
                _ => look.tick().await,
            };
        }
    };
    within("a child that escapes", found).await
}

/// The pids of the children that escaped.
fn escaped(command: &str) -> Vec<i32> {
    let found = processes_with(command).into_iter();
    found
        .filter(|(_, line)| line.starts_with(command))
        .map(|(pid, _)| pid)
        .collect()
}

const UNSANDBOXED: &str = "[tiers.owner]\nsandbox = \"danger-full-access\"\n";

#[tokio::test]
async fn run_timeout_ends_process_tree() {
    let world = World::with_settings(&format!("{EXEC}timeout_secs = 20\n{UNSANDBOXED}")).await;
    let daemon = world.daemon().await;
    let (text, command) = escapes(300_000 + std::process::id());
    let send = world.start(&["send", "-c", "a", &text]).await;
    let grandchild = escapee(&command).await;
    let run = run_of(&world);
    send.ended().await.must(1, &["timed out after 20s"]);
    gone(run).await;
    gone(grandchild).await;
    world.model.release("gate");
    assert_eq!(world.ask("a", "echo:next").await, "next");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

#[tokio::test]
async fn interrupted_run_ends_process_tree() {
    let world = World::with_settings(&format!("{EXEC}{UNSANDBOXED}")).await;
    let daemon = world.daemon().await;
    let (text, command) = escapes(400_000 + std::process::id());
    let (send, message_id, run) = held(&world, &text).await;
    let grandchild = escapee(&command).await;
    let stopped = world.run(&["interrupt", &message_id]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    send.ended().await.must(3, &["stopped: "]);
    gone(run).await;
    gone(grandchild).await;
    // The thread of the stopped run is kept.
    assert_eq!(world.ask("a", "echo:next").await, "next");
    assert_eq!(world.shown_with("echo:next").len(), 2);
    assert_eq!(daemon.stop().await, Some(0));
}

/// K6 over `codex exec`: the run ends with the daemon, by itself; the message is continued, and answered once.
#[tokio::test]
async fn k6_exec_crash_continues_the_message() {
    let world = World::with_settings(EXEC).await;
    let daemon = world.daemon().await;
    let (send, message_id, run) = held(&world, "hold:gate echo:the answer").await;
    daemon.kill_9().await;
    gone(run).await;
    world.model.wait_aborted(1).await.unwrap();
    world.model.release("gate");
    let daemon = world.daemon().await;
    answered(&send.ended().await, "the answer\n");
    let shown = world.shown_with("[codex-bridge]");
    assert_eq!(shown.len(), 2, "the same thread: {shown:?}");
    assert!(shown[1].contains("was cut off before you answered"));
    let story = world.json(&["show", "--json", &message_id]).await;
    assert_eq!(story["attempts"].as_array().unwrap().len(), 2, "{story:#}");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// A message that meets a daemon which dies at `point`, and the next daemon.
async fn answered_after(world: &World, point: &str, text: &str, answer: &str) -> Daemon {
    let mut command = world.command(&["run"]);
    command.env("CODEX_BRIDGE_FAIL_POINT", point);
    let doomed = Daemon::of(command).await;
    let send = world.start(&["send", "-c", "a", text]).await;
    assert_eq!(within("a death", doomed.ended()).await, None, "{point}");
    let daemon = world.daemon().await;
    answered(&send.ended().await, answer);
    daemon
}

/// The answer is in Codex's history, and the run has no client id: it is found by what it was given, behind the last
/// turn that is known.
#[tokio::test]
async fn k8_unseen_exec_answer_is_harvested() {
    let world = World::with_settings(EXEC).await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:before").await;
    assert_eq!(daemon.stop().await, Some(0));
    let daemon = answered_after(&world, "answer.before", "echo:once", "once\n").await;
    assert_eq!(world.times_asked("echo:once"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// RuleDecision 9: a run whose thread is not known yet may have done anything.
#[tokio::test]
async fn run_without_thread_counts_as_touched() {
    let world = World::with_settings(EXEC).await;
    let daemon = answered_after(&world, "name.before", "echo:again", "again\n").await;
    let shown = world.shown_with("[codex-bridge]");
    assert!(shown[0].contains("was cut off before you answered"));
    assert_eq!(world.ask("a", "echo:next").await, "next");
    assert_eq!(
        world.shown_with("echo:next").len(),
        2,
        "the new thread goes on"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// The bind is on disk as soon as the thread has a name: a death right after it goes on there.
#[tokio::test]
async fn thread_is_kept_once_named() {
    let world = World::with_settings(EXEC).await;
    let daemon = answered_after(&world, "name.after", "echo:again", "again\n").await;
    world.ask("a", "echo:next").await;
    let threads: Vec<_> = world.model.requests();
    let mut threads: Vec<_> = threads.iter().map(|seen| seen.thread_id.clone()).collect();
    threads.dedup();
    assert_eq!(threads.len(), 1, "{threads:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// The text and our secrets are in no command line and in no environment.
#[tokio::test]
async fn processes_expose_no_text_or_tokens() {
    let mut world = World::with_settings(EXEC).await;
    world.set_env("MOLECULE_WORKSPACE_TOKEN", "canary-token-5e1d");
    let daemon = world.daemon().await;
    let (send, _, run) = held(&world, "hold:gate echo:canary-text-77a0").await;
    let sender = send.pid();
    for (pid, line) in world.processes() {
        if pid == sender {
            continue;
        }
        assert!(!line.contains("canary-"), "{line}");
        if pid != daemon.pid() {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            assert!(
                !String::from_utf8_lossy(&environ).contains("canary-"),
                "{line}"
            );
        }
    }
    let line = std::fs::read(format!("/proc/{run}/cmdline")).unwrap();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    assert!(line.contains("--sandbox=workspace-write"), "{line}");
    assert!(line.ends_with(" --json - "), "{line}");
    world.model.release("gate");
    answered(&send.ended().await, "canary-text-77a0\n");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A run takes no more text: what arrives waits for its own turn, also where the tier steers.
#[tokio::test]
async fn a_message_that_arrives_mid_turn_waits() {
    let steer = "[tiers.owner]\nmid_turn = \"steer\"\n";
    let world = World::with_settings(&format!("{EXEC}{steer}")).await;
    let daemon = world.daemon().await;
    let (first, _, _) = held(&world, "hold:gate echo:first").await;
    let mut second = world.start(&["send", "-c", "a", "echo:second"]).await;
    second.on_disk().await;
    world.model.release("gate");
    answered(&first.ended().await, "first\n");
    answered(&second.ended().await, "second\n");
    assert_eq!(world.shown_with("echo:second").len(), 2);
    assert_eq!(world.model.requests().len(), 2);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The app-server that lives on has the thread loaded, and with it the right to write it; a run gets it all the same,
/// and the app-server after it.
#[tokio::test]
async fn transport_change_keeps_thread() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    world.ask("a", "echo:one").await;
    daemon.kill_9().await;
    std::fs::write(world.config_file(), EXEC).unwrap();
    let daemon = world.daemon().await;
    world.ask("a", "echo:two").await;
    daemon.kill_9().await;
    std::fs::write(world.config_file(), "").unwrap();
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "echo:three").await, "three");
    assert_eq!(world.shown_with("echo:three").len(), 3);
    let threads: Vec<_> = world.model.requests();
    let mut threads: Vec<_> = threads.iter().map(|seen| seen.thread_id.clone()).collect();
    threads.dedup();
    assert_eq!(threads.len(), 1, "{threads:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// SIGTERM in mid-run: nothing is left behind, and the next daemon goes on.
#[tokio::test]
async fn sigterm_ends_exec_runs() {
    let world = World::with_settings(&format!("{EXEC}[daemon]\ndrain_secs = 0\n")).await;
    let daemon = world.daemon().await;
    let (send, _, _) = held(&world, "hold:gate echo:the answer").await;
    assert_eq!(daemon.stop().await, Some(0));
    let left: Vec<_> = world.processes();
    assert!(left.iter().all(|(pid, _)| *pid == send.pid()), "{left:#?}");
    world.model.release("gate");
    let daemon = world.daemon().await;
    answered(&send.ended().await, "the answer\n");
    assert_eq!(
        world.shown_with("[codex-bridge]").len(),
        2,
        "the same thread"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// A turn of this text over `codex exec`, without a daemon around it.
async fn turn(codex: &Codex, spec: &ThreadSpec, client_id: &str, text: &str) -> TurnSpec {
    TurnSpec {
        thread: codex.open_thread(spec).await.unwrap(),
        spec: spec.clone(),
        client_id: ClientId::new(client_id),
        text: text.to_owned(),
        images: Vec::new(),
        trace: None,
    }
}

/// A shield is given to a run as well: what its sender may not read, its commands can't.
#[tokio::test]
async fn read_isolation_applies_to_exec_runs() {
    let world = World::new().await;
    let codex = codex(&world);
    let secret = world.path().join("secret.txt");
    std::fs::write(&secret, "canary-secret-31c4").unwrap();
    std::fs::create_dir(world.path().join("work")).unwrap();
    let open = ThreadSpec {
        workdir: world.path().join("work").display().to_string(),
        transport: TurnTransport::Exec,
        ..spec(&world)
    };
    let shielded = ThreadSpec {
        reads: Reads::Shielded {
            also: Vec::new(),
            hidden: Vec::new(),
        },
        ..open.clone()
    };
    for (client_id, spec, seen) in [("m1.1", open, true), ("m2.1", shielded, false)] {
        let text = format!(
            "shell:cat {} ; echo end-$((1+1)) ;; echo:{client_id}",
            secret.display()
        );
        let turn = turn(&codex, &spec, client_id, &text).await;
        let started = codex.start_turn(&turn).await.unwrap();
        let ended = end(started.stream).await;
        assert_eq!(ended.answer.as_deref(), Some(client_id), "{ended:?}");
        let requests = world.model.requests();
        let said = requests.last().unwrap().outputs.join("\n");
        assert!(said.contains("end-2"), "the command ran: {said}");
        assert_eq!(said.contains("canary-secret-31c4"), seen, "{said}");
    }
    codex.stop().await;
}

/// What a run can't do is refused with a sentence that says so; and no two runs are on one thread.
#[tokio::test]
async fn run_rejects_steer_and_second_run() {
    let world = World::new().await;
    let codex = codex(&world);
    let spec = ThreadSpec {
        transport: TurnTransport::Exec,
        ..spec(&world)
    };
    let first = turn(&codex, &spec, "m1.1", "hold:gate echo:first").await;
    let started = codex.start_turn(&first).await.unwrap();
    world.model.wait_held("gate").await.unwrap();
    let steer = Steer {
        thread: first.thread.clone(),
        turn_id: started.turn_id.clone(),
        client_id: ClientId::new("m2.1"),
        text: "more".to_owned(),
    };
    let Steered::Refused { why } = codex.steer(&steer).await.unwrap() else {
        panic!("it was taken");
    };
    assert!(
        why.contains("`codex exec`") && why.contains("waits for its own turn"),
        "{why}"
    );
    let second = TurnSpec {
        client_id: ClientId::new("m2.1"),
        ..first
    };
    let refused = codex.start_turn(&second).await.unwrap_err();
    assert!(
        refused.failure.reason.contains("still at work"),
        "{refused}"
    );
    world.model.release("gate");
    assert_eq!(end(started.stream).await.answer.as_deref(), Some("first"));
    codex.stop().await;
}
