//! The real `codex exec` against the scripted model: answers, tool calls, failures, retries,
//! memory across `resume`, and a kill in mid-stream.
//! What only the app-server shows is in `app_server.rs`.

use crate::home::{Home, RUN_LIMIT};
use bridge_sim::{Options, ScriptedModel};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

/// What one run said: its JSON events and whether it succeeded.
struct Run {
    events: Vec<Value>,
    success: bool,
    stderr: String,
}

impl Run {
    fn of(&self, kind: &str) -> Vec<&Value> {
        self.events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }

    fn items(&self, kind: &str) -> Vec<&Value> {
        let completed = self.of("item.completed").into_iter();
        completed
            .map(|event| &event["item"])
            .filter(|item| item["type"] == kind)
            .collect()
    }

    fn answers(&self) -> Vec<&str> {
        let messages = self.items("agent_message").into_iter();
        messages.filter_map(|item| item["text"].as_str()).collect()
    }

    fn thread(&self) -> &str {
        self.of("thread.started")[0]["thread_id"].as_str().unwrap()
    }

    fn failure(&self) -> &str {
        assert!(!self.success);
        self.of("turn.failed")[0]["error"]["message"]
            .as_str()
            .unwrap()
    }

    #[track_caller]
    fn assert_answers(&self, expected: &[&str]) {
        assert_eq!(
            self.answers(),
            expected,
            "{:?}\n{}",
            self.events,
            self.stderr
        );
        assert!(self.success, "{}", self.stderr);
    }
}

async fn exec(home: &Home, flags: &[&str], prompt: &str) -> Run {
    let mut command = home.codex("exec");
    command
        .args(["--json", "--skip-git-repo-check"])
        .args(flags)
        .arg("-");
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(prompt.as_bytes()).await.unwrap();
    drop(stdin);
    let ended = tokio::time::timeout(RUN_LIMIT, child.wait_with_output());
    let output = ended.await.unwrap().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    Run {
        events: stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        success: output.status.success(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

async fn start() -> (ScriptedModel, Home) {
    let model = ScriptedModel::start(Options::default()).await.unwrap();
    let home = Home::new(&model);
    (model, home)
}

#[tokio::test]
async fn a_plain_message_is_quoted() {
    let (model, home) = start().await;
    let run = exec(&home, &[], "Good morning, model.").await;
    let quote =
        "You said: \"Good morning, model.\". I am a scripted model, so all I can do is quote you.";
    run.assert_answers(&[quote]);
    let seen = model.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].users, ["Good morning, model."]);
    assert_eq!(seen[0].thread_id.as_deref(), Some(run.thread()));
}

#[tokio::test]
async fn deltas_form_one_message_with_usage() {
    let (_model, home) = start().await;
    let run = exec(&home, &[], "usage:70:8 stream:4:5").await;
    run.assert_answers(&["w0 w1 w2 w3 "]);
    assert_eq!(run.of("turn.completed")[0]["usage"]["input_tokens"], 70);
}

#[tokio::test]
async fn tool_call_runs_before_answer() {
    let (model, home) = start().await;
    // Without a sandbox, since not every machine that tests can make one; the command is harmless.
    let flags = ["-s", "danger-full-access"];
    let run = exec(
        &home,
        &flags,
        "say:looking shell:echo mark$((40+2)) ;; echo:done",
    )
    .await;
    run.assert_answers(&["looking", "done"]);
    let command = &run.items("command_execution")[0];
    assert!(
        command["aggregated_output"]
            .as_str()
            .unwrap()
            .contains("mark42"),
        "{command}"
    );
    let second = model.wait_for(|seen| seen.step() == 1).await.unwrap();
    assert!(second.outputs[0].contains("mark42"), "{second:?}");
}

/// The tool for patches differs: a model Codex knows gets `apply_patch`, another uses the shell.
#[tokio::test]
async fn patch_changes_file_for_any_model() {
    for model in ["mock-model", "gpt-5.5"] {
        let (_model, home) = start().await;
        let flags = ["-s", "danger-full-access", "-m", model];
        let run = exec(&home, &flags, "patch:note.txt:hello ;; echo:done").await;
        run.assert_answers(&["done"]);
        let note = std::fs::read_to_string(home.work().join("note.txt"));
        assert_eq!(note.unwrap(), "hello\n", "{model}");
    }
}

#[tokio::test]
async fn server_error_is_retried_then_fails() {
    let (model, home) = start().await;
    let run = exec(&home, &[], "fail:500").await;
    assert!(run.failure().contains("high demand"), "{}", run.failure());
    assert!(model.requests().len() > 1, "it was not retried");
}

#[tokio::test]
async fn rate_limit_fails_the_turn() {
    let (_model, home) = start().await;
    let run = exec(&home, &[], "fail:429").await;
    assert!(
        run.failure().contains("429 Too Many Requests"),
        "{}",
        run.failure()
    );
}

#[tokio::test]
async fn a_broken_stream_is_noticed_and_repeated() {
    let (model, home) = start().await;
    let run = exec(&home, &[], "break:1 echo:whole").await;
    run.assert_answers(&["whole"]);
    let notice = run.of("error")[0]["message"].as_str().unwrap();
    assert!(notice.contains("stream disconnected"), "{notice}");
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn an_incomplete_answer_fails_the_turn() {
    let (_model, home) = start().await;
    let run = exec(&home, &[], "incomplete: echo:half").await;
    assert_eq!(run.answers(), ["half"]);
    assert!(
        run.failure().contains("max_output_tokens"),
        "{}",
        run.failure()
    );
}

#[tokio::test]
async fn a_resumed_thread_remembers() {
    let (_model, home) = start().await;
    let first = exec(&home, &[], "My cat is called Tom.").await;
    let second = exec(&home, &["resume", first.thread()], "remember:").await;
    assert_eq!(second.thread(), first.thread());
    let memory = "I have seen 2 messages from you; before this one: \"My cat is called Tom.\"";
    second.assert_answers(&[memory]);
}

#[tokio::test]
async fn a_killed_codex_is_an_aborted_stream() {
    let (model, home) = start().await;
    let run = exec(&home, &[], "hang:here");
    let held = model.wait_held("here");
    tokio::select! {
        run = run => panic!("it ended: {:?}", run.events),
        held = held => held.unwrap(),
    }
    model.wait_aborted(1).await.unwrap();
    assert_eq!(model.active(), 0);
}
