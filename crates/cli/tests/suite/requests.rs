//! What Codex asks and who decides it, from outside: each kind of question with each decision, seen by what ran; many
//! decisions at once, and those that must not count.

use crate::fake;
use crate::world::{Daemon, Running, World, within};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

pub(crate) const WAITS: &str = "and waits for a decision";
const CONFIRMED: &str = "codex confirmed that it has an answer";
/// How long a turn may take that only has its answer to write; below what ends the whole test.
const END_PATIENCE: Duration = Duration::from_secs(45);
const QUESTION: &str = r#"tool:request_user_input:{"questions":[{"id":"color","header":"C","question":"Which color?","options":[{"label":"Red","description":"r"},{"label":"Blue","description":"b"}]}]} ;; echo:done"#;
const PERMISSIONS: &str = r#"tool:request_permissions:{"reason":"the net","permissions":{"network":{"enabled":true}}} ;; echo:done"#;
const FORM: &str = "nstool:mcp__asker:form:{} ;; echo:done";

/// One call of the API on the private socket.
pub(crate) async fn api(world: &World, verb: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut stream = UnixStream::connect(world.state_dir().join("api.sock"))
        .await
        .unwrap();
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let call = format!(
        "{verb} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(call.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("an answer of the API", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A world whose Codex can ask everything, in a directory that its turns share.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) work: PathBuf,
}

impl Stage {
    pub(crate) async fn new(settings: &str) -> Self {
        let world = World::with_settings(settings).await;
        let asker = fake::beside("mcp-asker");
        world.configure_codex(&format!(
            "{}\n[features]\nrequest_permissions_tool = true\ndefault_mode_request_user_input = true\n[mcp_servers.asker]\ncommand = {asker:?}\n",
            world.model.codex_config()
        ));
        let work = world.path().join("ground");
        std::fs::create_dir(&work).unwrap();
        Self { world, work }
    }

    pub(crate) async fn daemon(&self) -> Daemon {
        let work = self.work.display().to_string();
        self.world.daemon_with(&["--workdir", &work]).await
    }

    /// Sends a message and waits until Codex has asked so often since the daemon's start.
    pub(crate) async fn asks(&self, daemon: &mut Daemon, text: &str, times: usize) -> Asking {
        let mut send = self.world.start(&["send", "-c", "a", text]).await;
        let message_id = send.on_disk().await;
        daemon.log.wait_times(WAITS, times).await;
        Asking { send, message_id }
    }

    /// The newest question that waits.
    pub(crate) async fn waiting(&self) -> Value {
        let (status, page) = api(&self.world, "GET", "/v1/requests", &Value::Null).await;
        assert_eq!(status, 200, "{page:#}");
        let first = page["requests"][0].clone();
        assert!(first.is_object(), "nothing waits: {page:#}");
        first
    }

    pub(crate) async fn decide(&self, id: &str, decision: &str, answers: Value) -> (u16, Value) {
        let mut body = json!({ "decision": decision });
        if !answers.is_null() {
            body["answers"] = answers;
        }
        api(
            &self.world,
            "POST",
            &format!("/v1/requests/{id}/decision"),
            &body,
        )
        .await
    }

    /// Decides what waits, which must count.
    pub(crate) async fn rules(&self, decision: &str, answers: Value) -> Value {
        let id = self.waiting().await["request_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let (status, said) = self.decide(&id, decision, answers).await;
        assert_eq!(status, 200, "{said:#}");
        assert_eq!(said["state"], decision, "{said:#}");
        let by = said["by"].as_str().unwrap();
        assert!(by.starts_with("local owner"), "{said:#}");
        said
    }

    /// Waits until Codex has so many answers, and then for the message's end; otherwise says what the daemon saw and what
    /// is open.
    pub(crate) async fn ends(
        &self,
        daemon: &mut Daemon,
        message_id: &str,
        answers: usize,
    ) -> Value {
        daemon.log.wait_times(CONFIRMED, answers).await;
        let finished = self.world.finished(message_id);
        match tokio::time::timeout(END_PATIENCE, finished).await {
            Ok(shown) => shown,
            Err(_) => {
                let shown = self.world.json(&["show", "--json", message_id]).await;
                let (_, all) =
                    api(&self.world, "GET", "/v1/requests?state=all", &Value::Null).await;
                let log = daemon.log.text();
                panic!("the message does not end: {shown:#}\n{all:#}\n{log}");
            }
        }
    }

    pub(crate) fn made(&self, name: &str) -> bool {
        self.work.join(name).exists()
    }

    fn last_output(&self) -> String {
        let requests = self.world.model.requests();
        let outputs = requests.iter().rev().find_map(|seen| seen.outputs.last());
        outputs.cloned().unwrap_or_default()
    }
}

/// A message whose turn asks.
pub(crate) struct Asking {
    pub(crate) send: Running,
    pub(crate) message_id: String,
}

impl Asking {
    pub(crate) async fn answered(self) {
        let ended = self.send.ended().await;
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), "done\n"),
            "{ended:?}"
        );
    }

    pub(crate) async fn cancelled(self) {
        let ended = self.send.ended().await;
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("stopped"), "{ended:?}");
    }
}

#[tokio::test]
async fn command_runs_only_when_accepted() {
    let stage = Stage::new("").await;
    let mut daemon = stage.daemon().await;
    for (n, (decision, runs)) in [("accept", true), ("decline", false), ("cancel", false)]
        .into_iter()
        .enumerate()
    {
        let text = format!("escal:touch {decision} ;; echo:done");
        let asking = stage.asks(&mut daemon, &text, n + 1).await;
        let asked = stage.waiting().await;
        assert_eq!(asked["message_id"], *asking.message_id, "{asked:#}");
        assert_eq!(asked["kind"], "command", "{asked:#}");
        let shown = asked["shown"].as_str().unwrap();
        assert!(shown.contains(&format!("touch {decision}")), "{shown}");
        assert!(!stage.made(decision), "nobody decided yet");
        stage.rules(decision, Value::Null).await;
        match decision {
            "cancel" => asking.cancelled().await,
            _ => asking.answered().await,
        }
        assert_eq!(stage.made(decision), runs, "{decision}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn file_changes_only_when_accepted() {
    let stage = Stage::new("[tiers.owner]\nsandbox = \"read-only\"\n").await;
    let mut daemon = stage.daemon().await;
    for (n, (decision, runs)) in [("accept", true), ("decline", false), ("cancel", false)]
        .into_iter()
        .enumerate()
    {
        let text = format!("patch:{decision}.txt:hello ;; echo:done");
        let asking = stage.asks(&mut daemon, &text, n + 1).await;
        let asked = stage.waiting().await;
        assert_eq!(asked["kind"], "file_change", "{asked:#}");
        assert!(
            asked["shown"].as_str().unwrap().contains("hello"),
            "{asked:#}"
        );
        stage.rules(decision, Value::Null).await;
        match decision {
            "cancel" => asking.cancelled().await,
            _ => asking.answered().await,
        }
        assert_eq!(stage.made(&format!("{decision}.txt")), runs, "{decision}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn permissions_questions_and_forms_take_every_decision() {
    let stage = Stage::new("").await;
    let mut daemon = stage.daemon().await;
    let mut asked = 0;
    for (text, kind, answers, proof) in [
        (PERMISSIONS, "permissions", Value::Null, "enabled"),
        (QUESTION, "user_input", json!({"color": "Red"}), "Red"),
        (FORM, "elicitation", json!({"name": "Ann"}), "Ann"),
    ] {
        for decision in ["accept", "decline", "cancel"] {
            asked += 1;
            let asking = stage.asks(&mut daemon, text, asked).await;
            if text == FORM {
                // The call of the tool is a question of its own.
                stage.rules("accept", Value::Null).await;
                asked += 1;
                daemon.log.wait_times(WAITS, asked).await;
            }
            assert_eq!(stage.waiting().await["kind"], kind);
            let given = match decision {
                "accept" => answers.clone(),
                _ => Value::Null,
            };
            stage.rules(decision, given).await;
            match decision {
                "cancel" => asking.cancelled().await,
                _ => asking.answered().await,
            }
            let told = stage.last_output();
            if decision != "cancel" {
                let yes = decision == "accept";
                assert_eq!(told.contains(proof), yes, "{kind} {decision}: {told}");
            }
        }
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// A thousand contradictory decisions at once: one counts, and what it says is what happens.
#[tokio::test]
async fn one_of_a_thousand_decisions_counts() {
    let stage = Stage::new("").await;
    let mut daemon = stage.daemon().await;
    let asking = stage
        .asks(&mut daemon, "escal:touch one ;; echo:done", 1)
        .await;
    let id = stage.waiting().await["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let calls = (0..1_000).map(|n| {
        let (stage, id) = (&stage, &id);
        async move {
            let decision = if n % 2 == 0 { "accept" } else { "decline" };
            let (status, said) = stage.decide(id, decision, Value::Null).await;
            (decision, status, said)
        }
    });
    let said: Vec<_> = futures_util::stream::StreamExt::collect(
        futures_util::stream::StreamExt::buffer_unordered(futures_util::stream::iter(calls), 50),
    )
    .await;
    let said: Vec<(&str, u16, Value)> = said;
    let counted: Vec<_> = said
        .iter()
        .filter(|(_, status, _)| *status == 200)
        .collect();
    assert_eq!(counted.len(), 1, "{counted:?}");
    let refused = said.iter().filter(|(_, status, said)| {
        *status == 409
            && said["detail"]
                .as_str()
                .unwrap()
                .contains("already by local owner")
    });
    assert_eq!(refused.count(), 999);
    asking.answered().await;
    assert_eq!(stage.made("one"), counted[0].0 == "accept");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Late, repeated and forged decisions are refused with a reason, and change nothing.
#[tokio::test]
async fn invalid_decisions_are_rejected_with_reason() {
    let stage = Stage::new("").await;
    let mut daemon = stage.daemon().await;
    let asking = stage.asks(&mut daemon, QUESTION, 1).await;
    let id = stage.waiting().await["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let red = || json!({"color": "Red"});
    let (rest, last) = id.split_at(25);
    let forged = format!("{rest}{}", if last == "0" { "g" } else { "0" });
    for (id, decision, answers, status, words) in [
        (
            forged.as_str(),
            "accept",
            red(),
            404,
            "there is no question",
        ),
        ("0", "accept", red(), 404, "there is no"),
        (&id, "maybe", red(), 400, "must be one of"),
        (&id, "accept", Value::Null, 422, "does not fit"),
        (&id, "accept", json!({"colour": "Red"}), 422, "does not fit"),
    ] {
        let (said, problem) = stage.decide(id, decision, answers).await;
        assert_eq!(said, status, "{problem:#}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{detail}");
    }
    let why = stage.world.run(&["why", &asking.message_id]).await;
    assert!(why.stdout.contains("Codex asks "), "{why:?}");
    let status = stage.world.json(&["status", "--json"]).await;
    assert_eq!(status["requests_waiting"], 1, "{status:#}");
    stage.rules("accept", red()).await;
    let (status, again) = stage.decide(&id, "decline", Value::Null).await;
    assert_eq!(status, 409, "{again:#}");
    stage.ends(&mut daemon, &asking.message_id, 1).await;
    asking.answered().await;
    let (_, all) = api(&stage.world, "GET", "/v1/requests?state=all", &Value::Null).await;
    assert_eq!(all["requests"].as_array().unwrap().len(), 1, "{all:#}");
    assert_eq!(all["requests"][0]["state"], "accept", "{all:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// C10: nobody answers, so at the deadline it is declined, the turn goes on and its sender is told.
#[tokio::test]
async fn c10_unanswered_approval_is_declined_at_deadline() {
    let stage = Stage::new("[approvals]\ndeadline_secs = 2\nreminder_secs = 1\n").await;
    let mut daemon = stage.daemon().await;
    let asking = stage
        .asks(&mut daemon, "escal:touch asked-for ;; echo:done", 1)
        .await;
    let id = asking.message_id.clone();
    asking.answered().await;
    assert!(!stage.made("asked-for"), "what was declined was not done");
    let shown = stage.world.json(&["show", "--json", &id]).await;
    assert_eq!(shown["requests"][0]["state"], "decline", "{shown:#}");
    assert_eq!(shown["requests"][0]["via"], "deadline", "{shown:#}");
    let notices: Vec<&str> = shown["replies"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|reply| reply["notice"].as_str())
        .collect();
    assert_eq!(notices.len(), 3, "asked, reminded, declined: {notices:?}");
    assert!(notices[1].contains("still waits"), "{notices:?}");
    assert!(notices[2].contains("nobody decided in time"), "{notices:?}");
    let request = shown["requests"][0]["request_id"].as_str().unwrap();
    let (status, late) = stage.decide(request, "accept", Value::Null).await;
    assert_eq!(status, 409, "{late:#}");
    assert!(
        late["detail"].as_str().unwrap().contains("too late"),
        "{late:#}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// Rules answer without a person, and what no rule allows still asks.
#[tokio::test]
async fn rules_decide_only_matching_commands() {
    let rules = "[[rules]]\nname = \"touch one\"\ntier = [\"owner\"]\nthen = \"allow\"\ncommand = [\"touch one\"]\n[[rules]]\nname = \"no two\"\nthen = \"deny\"\ncommand = [\"touch two\"]\n";
    let stage = Stage::new(rules).await;
    let mut daemon = stage.daemon().await;
    assert_eq!(
        stage.world.ask("b", "escal:touch one ;; echo:done").await,
        "done"
    );
    assert!(stage.made("one"));
    assert_eq!(
        stage.world.ask("b", "escal:touch two ;; echo:done").await,
        "done"
    );
    assert!(!stage.made("two"));
    let asking = stage
        .asks(&mut daemon, "escal:touch one; touch three ;; echo:done", 1)
        .await;
    stage.rules("decline", Value::Null).await;
    asking.answered().await;
    assert!(!stage.made("three"));
    assert_eq!(daemon.stop().await, Some(0));
}
