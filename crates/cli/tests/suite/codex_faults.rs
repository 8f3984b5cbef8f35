//! Codex ends, falls silent, answers nonsense or refuses: rows C3, C4, C7, C8, C9, C13, C14 and C15 of the fault matrix.
//! The message is answered once, or waits with a reason; the daemon lives on.

use crate::fake::{Fake, PIPES, READ_ONLY, peak_mib};
use crate::world::{Ended, World, gone, processes_with};

async fn send(fake: &Fake, conversation: &str, text: &str) -> Ended {
    fake.world.run(&["send", "-c", conversation, text]).await
}

fn assert_answered(ended: &Ended, answer: &str) {
    let said = (ended.code, ended.stdout.trim_end());
    assert_eq!(said, (Some(0), answer), "{ended:?}");
}

/// C3: code 0 is no sign of health. In mid-turn the turn is looked for and begun again.
#[tokio::test]
async fn c3_exit_zero_mid_turn_is_crash() {
    for transport in ["", PIPES] {
        let script = r#"{"at": "item/agentMessage/delta", "nth": 1, "do": "exit", "code": 0}"#;
        let mut fake = Fake::start(&format!("{READ_ONLY}{transport}"), script).await;
        let ended = send(&fake, "a", "echo:in the end").await;
        assert_answered(&ended, "in the end");
        ended.must(0, &["the end of attempt 1 was not seen"]);
        fake.daemon.log.wait_for("codex is gone").await;
        assert_eq!(fake.calls("start").len(), 2, "it was started again");
        assert_eq!(fake.texts(), ["echo:in the end", "echo:in the end"]);
        fake.lives_on().await;
    }
}

/// C3: after its answer it costs nothing but a start, and the thread goes on.
#[tokio::test]
async fn c3_idle_exit_zero_restarts_codex() {
    let script = r#"{"at": "turn/completed", "nth": 1, "after": true, "do": "exit", "code": 0}"#;
    let fake = Fake::start("", script).await;
    assert_answered(&send(&fake, "a", "echo:one").await, "one");
    gone(fake.pid()).await;
    assert_answered(&send(&fake, "a", "echo:two").await, "two");
    assert_eq!(fake.texts(), ["echo:one", "echo:two"], "one turn each");
    assert_eq!(fake.calls("thread/start").len(), 1, "on the same thread");
    fake.lives_on().await;
}

/// C4: a Codex that refuses to start parks the message with its last words, spends nothing, and is tried again.
#[tokio::test]
async fn c4_failing_start_parks_until_fixed() {
    let impatient = "[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";
    let world = World::with_settings(impatient).await;
    let good = world.model.codex_config();
    world.configure_codex(&format!("approval_policy = \"untrusted\"\n{good}"));
    let daemon = world.daemon().await;
    let ended = world.run(&["send", "echo:in the end"]).await;
    let words = "approval_policy = \"untrusted\" is no longer supported";
    ended.must(75, &["waiting for you: ", words]);
    let id = ended.kept();
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["health"]["ready"], false, "{status:#}");
    let health = status["health"]["codex"].as_str().unwrap();
    assert!(health.contains(words), "{status:#}");
    world.configure_codex(&good);
    let shown = world.finished(&id).await;
    assert_eq!(shown["answer"]["text"], "in the end", "{shown:#}");
    assert_eq!(world.times_asked("echo:in the end"), 1);
    let log = daemon.log.text();
    assert!(log.contains("Codex does not stay up: "), "{log}");
    let again = "Codex does not stay up: Codex does not stay up";
    assert!(!log.contains(again), "said once each time: {log}");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(world.processes(), []);
}

/// C7: stderr is always read, and only its tail is kept.
#[tokio::test]
async fn c7_stderr_flood_is_bounded() {
    let script = r#"{"at": "turn/start", "nth": 1, "do": "stderr", "bytes": 67108864}"#;
    let fake = Fake::start("", script).await;
    assert_answered(&send(&fake, "a", "echo:through it").await, "through it");
    let run = std::fs::read_dir(fake.world.state_dir().join("run")).unwrap();
    let kept: Vec<u64> = run
        .map(|entry| entry.unwrap().path().join("stderr.log"))
        .map(|path| std::fs::metadata(path).unwrap().len())
        .collect();
    assert_eq!(kept.len(), 1);
    assert!((1..=128 * 1024).contains(&kept[0]), "{kept:?}");
    fake.lives_on().await;
}

/// C8: a `turn/start` without an answer may have run: it is looked for, and begun again only if it is not there.
#[tokio::test]
async fn c8_unacknowledged_turn_checked_before_retry() {
    let script = r#"{"at": "turn/start", "nth": 1, "do": "mute"}
        {"at": "turn/start", "nth": 2, "do": "drop"}"#
        .replace("\n        ", "\n");
    let fake = Fake::start("", &script).await;
    let mut ran = fake.world.start(&["send", "-c", "a", "echo:it ran"]).await;
    let id = ran.on_disk().await;
    fake.asked("turn/start", 1).await;
    let mut lost = fake
        .world
        .start(&["send", "-c", "b", "echo:it did not"])
        .await;
    lost.on_disk().await;
    fake.asked("turn/start", 2).await;
    let ended = ran.ended().await;
    assert_answered(&ended, "it ran");
    ended.must(0, &["did not answer turn/start in time"]);
    let shown = fake.world.json(&["show", "--json", &id]).await;
    assert_eq!(shown["answer"]["source"], "harvested", "{shown:#}");
    assert_answered(&lost.ended().await, "it did not");
    let mut texts = fake.texts();
    texts.sort();
    assert_eq!(texts, ["echo:it did not", "echo:it did not", "echo:it ran"]);
    assert_eq!(
        fake.calls("start").len(),
        1,
        "a Codex that answers is not replaced"
    );
    fake.lives_on().await;
}

/// C8: a read without an answer is simply asked again.
#[tokio::test]
async fn c8_unanswered_read_is_retried() {
    let script = r#"{"at": "account/read", "nth": 1, "until": 2, "do": "drop"}"#;
    let fake = Fake::start("", script).await;
    assert_answered(&send(&fake, "a", "echo:asked again").await, "asked again");
    assert_eq!(fake.texts(), ["echo:asked again"]);
    assert_eq!(fake.calls("start").len(), 1);
    fake.lives_on().await;
}

/// C9: answers under wrong ids, and second answers, disturb nobody.
#[tokio::test]
async fn c9_foreign_response_ids_are_dropped() {
    let script = ["initialize", "account/read", "thread/start", "turn/start"]
        .map(|at| format!(r#"{{"at": "{at}", "do": "misaddress"}}"#))
        .join("\n");
    for transport in ["", PIPES] {
        let mut fake = Fake::start(transport, &script).await;
        assert_answered(&send(&fake, "a", "echo:one").await, "one");
        assert_answered(&send(&fake, "a", "echo:two").await, "two");
        let log = fake.daemon.log.wait_for("LateResponse").await;
        assert!(log.contains("ForeignResponse"), "{log}");
        assert_eq!(fake.texts(), ["echo:one", "echo:two"]);
        fake.lives_on().await;
    }
}

/// C13: also a Codex that crashes leaves nothing behind, not even what it started in a session of its own.
#[tokio::test]
async fn c13_crashed_codex_leaves_no_grandchild() {
    let unique = format!("{}", 2_000_000 + std::process::id());
    let script = format!(
        r#"{{"at": "turn/start", "nth": 1, "do": "child", "argv": ["setsid", "sleep", "{unique}"]}}
{{"at": "turn/completed", "nth": 1, "after": true, "do": "exit", "code": 1}}"#
    );
    let fake = Fake::start("", &script).await;
    assert_answered(&send(&fake, "a", "echo:one").await, "one");
    gone(fake.pid()).await;
    for (left, _) in processes_with(&format!("sleep {unique}")) {
        gone(left).await;
    }
    assert_answered(&send(&fake, "a", "echo:two").await, "two");
    fake.lives_on().await;
}

/// C14: what is missing parks the message with a reason until a Codex is there that has it.
async fn parked(script: &str, words: &str) {
    let fake = Fake::start("", script).await;
    let ended = send(&fake, "a", "echo:in the end").await;
    ended.must(75, &["waiting for you: ", words]);
    let shown = fake.world.finished(&ended.kept()).await;
    assert_eq!(shown["answer"]["text"], "in the end", "{script}: {shown:#}");
    assert_eq!(fake.texts().len(), 1, "{script}");
    fake.lives_on().await;
}

#[tokio::test]
async fn c14_unknown_protocol_parks_with_reason() {
    // The daemon itself is the first to ask.
    let old = r#"{"at": "initialize", "nth": 1, "until": 2, "do": "result", "value": {"userAgent": "x/0.149.0 (y)"}}"#;
    let nameless =
        r#"{"at": "initialize", "nth": 1, "until": 2, "do": "omit", "member": "/userAgent"}"#;
    let no_thread = r#"{"at": "thread/start", "nth": 1, "do": "omit", "member": "/thread"}"#;
    let no_sandbox = r#"{"at": "thread/start", "nth": 1, "do": "omit", "member": "/sandbox"}"#;
    tokio::join!(
        parked(old, "Codex 0.149.0 is too old"),
        parked(nameless, "answered initialize in a form"),
        parked(no_thread, "answered thread/start in a form"),
        parked(no_sandbox, "answered thread/start in a form"),
    );
}

/// C14: a turn that runs is found again whatever is told about it.
#[tokio::test]
async fn c14_unreadable_events_fall_back_to_history() {
    let novelty = r#"{"at": "turn/started", "do": "notify", "method": "thread/dreamt", "params": {"of": "sheep"}}"#;
    let no_turn = r#"{"at": "turn/start", "nth": 1, "do": "omit", "member": "/turn"}"#;
    let no_end = r#"{"at": "turn/completed", "nth": 1, "do": "omit", "member": "/turn"}"#;
    let no_text = "{\"at\": \"item/completed\", \"nth\": 2, \"do\": \"omit\", \"member\": \"/item/text\"}\n\
        {\"at\": \"turn/completed\", \"nth\": 1, \"do\": \"omit\", \"member\": \"/turn/items\"}";
    for (script, source) in [
        (novelty, "live"),
        (no_turn, "harvested"),
        (no_end, "harvested"),
        (no_text, "harvested"),
    ] {
        let fake = Fake::start("", script).await;
        let ended = fake.world.run(&["send", "--json", "echo:the answer"]).await;
        let sent: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(sent["answer"]["text"], "the answer", "{script}: {sent:#}");
        assert_eq!(sent["answer"]["source"], source, "{script}");
        assert_eq!(fake.texts(), ["echo:the answer"], "one turn: {script}");
        fake.lives_on().await;
    }
}

/// C14: an answer that can't be read anywhere is not taken for silence.
#[tokio::test]
async fn c14_unreadable_answer_is_never_empty() {
    let script = "{\"at\": \"item/completed\", \"nth\": 2, \"do\": \"omit\", \"member\": \"/item/text\"}\n\
        {\"at\": \"turn/completed\", \"nth\": 1, \"do\": \"omit\", \"member\": \"/turn/items\"}\n\
        {\"at\": \"thread/resume\", \"nth\": 1, \"do\": \"omit\", \"member\": \"/initialTurnsPage/data/0/items/1/text\"}";
    let fake = Fake::start("", script).await;
    let ended = send(&fake, "a", "echo:the answer").await;
    ended.must(
        75,
        &["answered in a form this bridge does not know", "doctor"],
    );
    // The next look is given all of it.
    let shown = fake.world.finished(&ended.kept()).await;
    assert_eq!(shown["answer"]["text"], "the answer", "{shown:#}");
    assert_eq!(fake.texts(), ["echo:the answer"]);
    fake.lives_on().await;
}

/// C15: a Codex whose queues are full is waited for, more often than a message may fail.
#[tokio::test]
async fn c15_overload_waits_without_spending_attempts() {
    let refuse = |at: &str, until: u32| {
        format!(
            r#"{{"at": "{at}", "nth": 1, "until": {until}, "do": "error", "code": -32001, "message": "Server overloaded; retry later."}}"#
        )
    };
    let script = format!("{}\n{}", refuse("thread/start", 4), refuse("turn/start", 5));
    let fake = Fake::start("", &script).await;
    let ended = send(&fake, "a", "echo:in the end").await;
    assert_answered(&ended, "in the end");
    ended.must(0, &["Server overloaded"]);
    assert_eq!(fake.texts().len(), 6, "refused five times");
    assert_eq!(fake.calls("turn/completed").len(), 1, "one turn");
    assert!(peak_mib(fake.daemon.pid()) < 200);
    fake.lives_on().await;
}
