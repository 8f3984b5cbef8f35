//! The commands of control against an API that says what the test wants: what is shown, asked, answered and taken
//! back, at a terminal and without one.

use crate::scripted_api::ScriptedApi;
use crate::terminal::{COLUMNS, Terminal, plain};
use crate::world::{Ended, Running, signal};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const ID: &str = "0199aaaa-0000-7000-8000-00000000000a";
const REQUEST: &str = "k3x9qzaaaaaaaaaaaaaaaaaaaa";
const TASK: &str = "codex-0123456789ab";

fn message(state: &str, now: &str, answer: Option<&str>) -> Value {
    let answer =
        answer.map(|text| json!({"text": text, "files": [], "source": "live", "created_at": 0}));
    json!({
        "message_id": ID, "conversation": "main", "channel": "local", "sender": "ada", "text": "hi", "files": [],
        "state": state, "attempt": 1, "round": 1, "suspect": false, "stop": null, "leader": null, "followers": [],
        "behind": null, "ack": null, "thread_id": null, "received_at": 0, "updated_at": 0, "hold": null,
        "failure": null, "answer": answer, "requests": [], "why": {"now": now, "next": "then"}, "worth_waiting": true,
    })
}

fn item(ordinal: u32, kind: &str, text: &str) -> Value {
    json!({"ordinal": ordinal, "attempt": 1, "kind": kind, "text": text, "at": 0, "message_id": ID})
}

fn question(kind: &str, shown: &str, payload: &Value) -> Value {
    json!({
        "request_id": REQUEST, "code": "k3x9qz", "message_id": ID, "requester": "you", "kind": kind, "headline": "Codex wants something",
        "shown": shown, "payload": payload, "deadline": 4_000_000_000_000_i64, "state": "open", "method": "m",
    })
}

fn command_question() -> Value {
    question(
        "command",
        "command: rm -rf build\u{202e}\ncwd: /w",
        &Value::Null,
    )
}

/// An API where one message works.
fn working() -> ScriptedApi {
    let api = ScriptedApi::start();
    open(&api, &[]);
    api.answers(
        "POST /v1/requests/k3x9qzaaaaaaaaaaaaaaaaaaaa/decision",
        200,
        json!({"ok": true}),
    );
    api.says("state", &message("running", "Codex works on it", None));
    api
}

fn open(api: &ScriptedApi, questions: &[Value]) {
    api.answers("GET /v1/requests", 200, json!({"requests": questions}));
}

/// Codex asks this now.
fn asks(api: &ScriptedApi, question: &Value) {
    open(api, std::slice::from_ref(question));
    api.says("item", &item(2, "request", "Codex asks"));
}

fn ends(api: &ScriptedApi) {
    api.says("end", &message("done", "it was answered", Some("all done")));
}

async fn run(api: &ScriptedApi, args: &[&str]) -> Ended {
    Running::of(api.command(args)).ended().await
}

#[tokio::test]
async fn watch_approval_never_accepts_bare_enter() {
    let api = working();
    let mut terminal = Terminal::run(api.command(&["watch", ID]));
    api.says(
        "item",
        &item(1, "item/started", "running `make`\u{1b}]0;owned\u{7}"),
    );
    terminal.screen.wait_for("running `make`\\e]0;owned").await;
    asks(&api, &command_question());
    let screen = terminal.screen.wait_for("l later > ").await;
    for words in [
        "rm -rf build\\u{202e}",
        "cwd: /w",
        "declined in ",
        "yes: it runs, once",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    terminal.types("\n");
    terminal
        .screen
        .wait_for("Enter alone decides nothing")
        .await;
    assert_eq!(api.times("POST"), 0, "nothing was decided by Enter");
    terminal.types("a\n");
    let call = api.called("POST /v1/requests/", 1).await;
    assert_eq!(call.body, json!({"decision": "accept"}));
    open(&api, &[]);
    terminal.screen.wait_for("you accepted k3x9qz").await;
    ends(&api);
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("all done"), "{screen}");
    let wide = |line: &str| plain(line).chars().count() > usize::from(COLUMNS);
    let wide = screen.lines().find(|line| {
        wide(
            line.rsplit('\r')
                .find(|part| !part.is_empty())
                .unwrap_or(""),
        )
    });
    assert_eq!(wide, None, "nothing is wider than the terminal");
}

#[tokio::test]
async fn withdrawn_prompt_discards_typed_input() {
    let api = working();
    let mut terminal = Terminal::run(api.command(&["watch", ID]));
    asks(&api, &command_question());
    terminal.screen.wait_for("l later > ").await;
    // Typed, but not sent: it was meant for the first question.
    terminal.types("a");
    let mut decided = command_question();
    decided["state"] = json!("decline");
    decided["by"] = json!("ada");
    decided["via"] = json!("http");
    api.answers(&format!("GET /v1/requests/{REQUEST}"), 200, decided);
    let mut second = command_question();
    second["request_id"] = json!("zzzzzzzzzzzzzzzzzzzzzzzzzz");
    second["code"] = json!("zzzzzz");
    asks(&api, &second);
    terminal
        .screen
        .wait_for("k3x9qz was declined by ada (http)")
        .await;
    terminal.screen.wait_for("zzzzzz: y yes").await;
    terminal.types("\n");
    terminal
        .screen
        .wait_for("Enter alone decides nothing")
        .await;
    open(&api, &[]);
    ends(&api);
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(api.times("POST"), 0, "nothing was decided here");
}

#[tokio::test]
async fn watch_answers_questions_hiding_secrets() {
    let api = working();
    let mut terminal = Terminal::run(api.command(&["watch", ID]));
    let payload = json!({"questions": [
        {"id": "colour", "question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]},
        {"id": "key", "question": "Which key?", "isSecret": true},
    ]});
    asks(
        &api,
        &question("user_input", "question `colour`: Which colour?", &payload),
    );
    terminal.screen.wait_for("2 Blue").await;
    terminal.types("2\n");
    terminal.screen.wait_for("it is not shown").await;
    terminal.types("hunter2\n");
    let call = api.called("POST /v1/requests/", 1).await;
    let answers = json!({"colour": "Blue", "key": "hunter2"});
    assert_eq!(call.body, json!({"decision": "accept", "answers": answers}));
    open(&api, &[]);
    ends(&api);
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("hunter2"), "{screen}");
}

#[tokio::test]
async fn piped_watch_names_commands_and_resumes() {
    let api = working();
    let running = Running::of(api.command(&["watch", ID]));
    asks(&api, &command_question());
    api.called("GET /v1/requests?state=open", 3).await;
    api.cuts();
    let again = api
        .called(&format!("GET /v1/messages/{ID}/events"), 2)
        .await;
    assert_eq!(
        again.after.as_deref(),
        Some("2"),
        "it resumes after what it saw"
    );
    open(&api, &[]);
    ends(&api);
    let ended = running.ended().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in [
        "codex-bridge approve k3x9qz",
        "codex-bridge decline k3x9qz",
        "the daemon went away",
        "the daemon is back",
        "k3x9qz is not asked any more",
        "all done",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended:?}");
    }
    assert!(!ended.stdout.contains('\u{1b}'), "no colours: {ended:?}");
}

#[tokio::test]
async fn leaving_watch_reports_work_continues() {
    let api = working();
    let mut terminal = Terminal::run(api.command(&["watch", ID]));
    asks(&api, &command_question());
    terminal.screen.wait_for("l later > ").await;
    signal(terminal.pid(), Signal::SIGINT);
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.contains("left; 0000000a goes on"), "{screen}");
    assert!(
        screen.contains("waiting for you: Codex asks k3x9qz"),
        "{screen}"
    );
    assert_eq!(api.times("POST"), 0, "nothing was decided");
}

#[tokio::test]
async fn programs_get_one_event_per_line() {
    let api = working();
    ends(&api);
    let ended = run(&api, &["watch", "--json", ID]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["event"], "state");
    assert_eq!(lines[1]["event"], "end");
    assert_eq!(lines[1]["data"]["answer"]["text"], "all done");
}

/// A command, the call it makes with its body, and what it prints.
type Case<'c> = (&'c [&'c str], &'c str, Value, &'c str);

async fn check(api: &ScriptedApi, cases: &[Case<'_>]) {
    for (args, line, body, says) in cases {
        let ended = run(api, args).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        assert!(ended.stdout.contains(says), "{args:?}: {ended:?}");
        assert_eq!(api.called(line, 1).await.body, *body, "{args:?}");
    }
}

/// A task may have several messages, of which the first ones are over.
#[tokio::test]
async fn task_watch_outlives_finished_message() {
    let api = working();
    let mut over = message("done", "it was answered", Some("the first answer"));
    over["worth_waiting"] = json!(false);
    api.says("state", &over);
    ends(&api);
    let ended = run(&api, &["watch", TASK]).await;
    assert_eq!(ended.stdout, "all done\n", "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

fn working_task() -> Value {
    let task = json!({"task_id": TASK, "status": "working", "prompt_summary": "do it", "pending_requests": []});
    json!({"success": true, "task": task})
}

fn stopped_task(status: &str) -> Value {
    let mut envelope = working_task();
    envelope["task"]["status"] = json!(status);
    envelope["interrupt"] = json!("cancelled");
    envelope
}

#[tokio::test]
async fn interrupt_honours_wait_option() {
    let api = ScriptedApi::start();
    let (order, task) = (
        "POST /v1/tasks/codex-0123456789ab/interrupt",
        "GET /v1/tasks/codex-0123456789ab",
    );
    api.answers(order, 200, working_task());
    api.answers(task, 200, working_task());
    let short = ["interrupt", TASK, "--wait", "0"];
    run(&api, &short).await.must(75, &[]);

    let seen = api.times(task);
    let long = async { run(&api, &["interrupt", TASK, "--wait", "600"]).await };
    let ends = async {
        api.called(task, seen + 1).await;
        api.answers(task, 200, stopped_task("cancelled"));
    };
    let (ended, ()) = tokio::join!(long, ends);
    ended.must(0, &[]);
    assert!(ended.stdout.contains("is stopped"), "{ended:?}");

    api.answers(order, 200, stopped_task("completed"));
    let late = run(&api, &["interrupt", TASK]).await;
    late.must(1, &[]);
    assert!(late.stdout.contains("its answer came first"), "{late:?}");
}

#[tokio::test]
async fn taken_in_message_keeps_its_id() {
    let api = working();
    let taken = json!({"message_id": ID, "state": "received", "duplicate": false, "first": false, "cwd": "", "sandbox": ""});
    api.answers("POST /v1/messages", 200, taken);
    let ended = run(&api, &["send", "--no-wait", "--json", "x"]).await;
    ended.must(75, &[]);
    let said: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(said["error"]["title"], "lost sight of it", "{said:#}");
    assert_eq!(said["error"]["id"], ID, "{said:#}");
}

#[tokio::test]
async fn broken_off_call_is_not_known() {
    let api = working();
    open(&api, &[command_question()]);
    // A daemon that breaks a call off says nothing that can be read.
    let decision = "POST /v1/requests/k3x9qzaaaaaaaaaaaaaaaaaaaa/decision";
    api.answers(decision, 500, json!("x"));
    api.answers("GET /v1/status", 500, json!("x"));
    for (args, title) in [
        (&["approve", "k3x9qz", "--json"][..], "not known"),
        (&["status", "--json"], "no daemon"),
    ] {
        let ended = run(&api, args).await;
        ended.must(1, &[]);
        let said: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(said["error"]["title"], title, "{said:#}");
    }
}

#[tokio::test]
async fn finished_task_stops_alike_in_json() {
    let api = ScriptedApi::start();
    let task = "/v1/tasks/codex-0123456789ab";
    let refused =
        json!({"type": "about:blank", "title": "Conflict", "status": 409, "detail": "it is over"});
    api.answers(&format!("POST {task}/interrupt"), 409, refused);
    for (status, words) in [
        ("completed", "its answer came first"),
        ("failed", "it had failed before"),
        ("cancelled", "was stopped before"),
    ] {
        let mut envelope = working_task();
        envelope["task"]["status"] = json!(status);
        api.answers(&format!("GET {task}"), 200, envelope);
        let ended = run(&api, &["stop", TASK]).await;
        ended.must(1, &[]);
        assert!(ended.stdout.contains(words), "{ended:?}");
        let ended = run(&api, &["stop", TASK, "--json"]).await;
        ended.must(1, &[]);
        let said: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(said["interrupt"], "too_late", "{said:#}");
        assert_eq!(said["task"]["status"], status, "{said:#}");
    }
}

/// The longest number that a flag takes is no deadline that a clock can count.
#[tokio::test]
async fn f10_the_longest_wait_is_no_panic() {
    const LONGEST: &str = "18446744073709551615";
    let api = working();
    let order = "POST /v1/tasks/codex-0123456789ab/interrupt";
    api.answers(order, 200, stopped_task("cancelled"));
    let task = ["interrupt", TASK, "--wait", LONGEST];
    run(&api, &task).await.must(0, &[]);
    let send = ["send", "--wait", LONGEST, "x"];
    run(&api, &send).await.must(1, &["not sent:"]);
    let stopping = json!({"message_id": ID, "outcome": "stopping", "detail": "soon"});
    let cancel = format!("POST /v1/messages/{ID}/cancel");
    api.answers(&cancel, 200, stopping);
    api.says("end", &message("cancelled", "it was cancelled", None));
    let stop = ["interrupt", ID, "--wait", LONGEST];
    run(&api, &stop).await.must(0, &[]);
}

fn dry_notification() -> Value {
    json!({"success": true, "notifications": [
        {"task_id": "codex-1", "status": "completed", "notification_status": "dry_run", "target": "local"},
    ]})
}

#[tokio::test]
async fn task_commands_call_their_routes() {
    let api = ScriptedApi::start();
    let envelope = working_task();
    let with = |key: &str, value: &str| {
        let mut envelope = envelope.clone();
        envelope[key] = json!(value);
        envelope
    };
    let list = json!({"success": true, "tasks": [envelope["task"]]});
    for (route, answer) in [
        ("POST /v1/tasks", envelope.clone()),
        ("GET /v1/tasks/codex-0123456789ab", envelope.clone()),
        ("GET /v1/tasks", list),
        (
            "POST /v1/tasks/codex-0123456789ab/steer",
            with("steer", "steered"),
        ),
        (
            "POST /v1/tasks/codex-0123456789ab/interrupt",
            stopped_task("cancelled"),
        ),
        (
            "POST /v1/tasks/codex-0123456789ab/respond",
            envelope.clone(),
        ),
        ("POST /v1/tasks/notify-completed", dry_notification()),
    ] {
        api.answers(route, 200, answer);
    }
    let here = api.path().to_str().unwrap().to_owned();
    let started = json!({"prompt": "do it", "cwd": here});
    let responded = json!({"request_id": "k3x9qz", "decision": "accept", "answers": {"q": "a"}});
    let respond = [
        "respond",
        TASK,
        "k3x9qz",
        "accept",
        "--answers",
        r#"{"q":"a"}"#,
    ];
    let steered = json!({"instruction": "left"});
    let dry = json!({"limit": 10, "dry_run": true});
    let task = "/v1/tasks/codex-0123456789ab";
    let cases: [Case<'_>; 7] = [
        (
            &["start", "do it"],
            "POST /v1/tasks",
            started,
            "codex-0123456789ab\n",
        ),
        (
            &["status", TASK],
            &format!("GET {task}"),
            Value::Null,
            "is working",
        ),
        (
            &["list", "--limit", "3"],
            "GET /v1/tasks?limit=3",
            Value::Null,
            "codex-0123456789ab  working",
        ),
        (
            &["steer", TASK, "left"],
            &format!("POST {task}/steer"),
            steered,
            "steered",
        ),
        (
            &["interrupt", TASK],
            &format!("POST {task}/interrupt"),
            Value::Null,
            "is stopped",
        ),
        (
            &respond,
            &format!("POST {task}/respond"),
            responded,
            "accepted",
        ),
        (
            &["notify-completed", "--dry-run"],
            "POST /v1/tasks/notify-completed",
            dry,
            "dry run to local",
        ),
    ];
    check(&api, &cases).await;
}

#[tokio::test]
async fn task_status_json_is_the_daemons() {
    let api = ScriptedApi::start();
    let envelope = working_task();
    let route = "GET /v1/tasks/codex-0123456789ab";
    api.answers(route, 200, envelope.clone());
    let json = run(&api, &["status", "codex-0123456789ab", "--json"]).await;
    let shown: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(shown, envelope);
}

#[tokio::test]
async fn request_and_token_commands_call_routes() {
    let api = ScriptedApi::start();
    open(&api, &[command_question()]);
    let route = format!("POST /v1/requests/{REQUEST}/decision");
    api.answers(&route, 200, json!({"state": "accept"}));
    let made = json!({"name": "ci", "scopes": ["read"], "token": "cb_secret"});
    api.answers("POST /v1/tokens", 201, made);
    let listed = json!({"tokens": [{"name": "ci", "scopes": ["read"], "kind": "token", "created_at": 1, "last_used_at": null, "revoked_at": null}]});
    api.answers("GET /v1/tokens", 200, listed);
    let revoked = json!({"name": "ci", "cancelled": 0, "running": [], "joined": []});
    api.answers("DELETE /v1/tokens/ci", 200, revoked);
    let (yes, no) = (
        json!({"decision": "accept"}),
        json!({"decision": "decline"}),
    );
    let named = json!({"name": "ci", "scopes": ["read", "approve"], "rotate": false});
    let add = ["token", "add", "ci", "--scope", "read,approve"];
    let full = json!({"name": "laptop", "scopes": ["read", "send", "control", "approve", "admin"], "rotate": false});
    let owner = ["token", "add", "laptop", "--owner"];
    let cases: [Case<'_>; 7] = [
        (
            &["requests"],
            "GET /v1/requests?state=open",
            Value::Null,
            "codex-bridge approve k3x9qz",
        ),
        (&["approve", "K3X9QZ"], &route, yes, "k3x9qz: accepted"),
        (&["decline", "k3x9"], &route, no, "k3x9qz: declined"),
        (&add, "POST /v1/tokens", named, "cb_secret\n"),
        (&owner, "POST /v1/tokens", full, "cb_secret\n"),
        (
            &["token", "list"],
            "GET /v1/tokens",
            Value::Null,
            "ci: read, never used",
        ),
        (
            &["token", "revoke", "ci"],
            "DELETE /v1/tokens/ci",
            Value::Null,
            "ci is revoked",
        ),
    ];
    check(&api, &cases).await;
}

#[tokio::test]
async fn errors_print_hints_and_json_envelopes() {
    let api = ScriptedApi::start();
    let words = "Unknown Codex bridge task: codex-999999999999";
    let problem = json!({"title": "Not Found", "status": 404, "detail": words});
    api.answers("GET /v1/tasks/codex-999999999999", 404, problem);
    run(&api, &["status", "codex-999999999999"])
        .await
        .must(1, &[words]);
    let json = run(&api, &["status", "codex-999999999999", "--json"]).await;
    let told: Value = serde_json::from_str(&json.stdout).unwrap();
    let error = json!({"title": "not found", "status": 404, "detail": words});
    assert_eq!(told, json!({ "error": error }));
    assert_eq!(json.code, Some(1));

    let mut decided = command_question();
    decided["state"] = json!("decline");
    decided["by"] = json!("ada");
    open(&api, &[]);
    run(&api, &["approve", "nope99"])
        .await
        .must(1, &["nothing with the code nope99 is asked"]);
    run(&api, &["approve", "k"]).await.must(1, &["too short"]);
    run(&api, &["approve", "../status"])
        .await
        .must(1, &["is no message's id"]);
    run(&api, &["token", "revoke", "../x"])
        .await
        .must(1, &["is no token's name"]);
    let answers = ["respond", "codex-1", "k3x9qz", "accept", "--answers", "{"];
    run(&api, &answers).await.must(1, &["--answers is no JSON"]);
    assert_eq!(api.times("POST"), 0);
    let ended = run(&api, &["token", "add", "ci", "--scope", "all"]).await;
    ended.must(2, &["read", "approve"]);
}

#[tokio::test]
async fn completions_work_without_a_daemon() {
    let nowhere = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_codex-bridge"));
        command
            .args(["completions", shell])
            .env("CODEX_BRIDGE_STATE_DIR", nowhere.path());
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{shell}: {output:?}");
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("notify-completed"), "{shell}: {script}");
    }
}
