//! What the ancestor's own tests promised, each as a scenario on the whole program: the built daemon, the real Codex,
//! the scripted model, and the platform in a box. Judged by what platform, model and commands show.
//!
//! | ancestor's test | scenario |
//! | --- | --- |
//! | `test_canvas_user_message_is_dispatched_acked_and_replied` | `canvas_message_is_answered_and_acked` |
//! | `test_peer_agent_message_routes_to_delegate_task` | `peer_agent_message_routes_to_the_peer` (one `/a2a`: `delegate_task` delivers twice) |
//! | `test_session_continuity_resumes_same_codex_session` | `session_continuity_resumes_same_codex_session` |
//! | `test_session_store_persists_across_runs` | `session_store_persists_across_runs` |
//! | `test_timeout_sentinel_does_not_call_codex` | `timeout_sentinel_does_not_call_codex` |
//! | `test_failed_reply_routing_skips_inbox_pop` | `failed_reply_is_sent_after_restart` |
//! | `test_nonzero_exit_code_surfaces_in_reply` | `nonzero_exit_code_surfaces_in_reply` |
//! | `test_a2a_multipart_text_is_concatenated` | `a2a_multipart_text_is_concatenated` |
//! | backoff progression | `wait_for_message_failures_back_off_exponentially` |
//! | backoff reset on first success | `backoff_resets_on_first_success` |
//! | `inbox_pop` failure | `failed_ack_does_not_rerun_codex` |
//! | `peer_agent` without `peer_id` | `peer_row_without_id_is_drained` |
//! | unknown message kind | `unknown_message_kind_is_drained` |
//! | empty codex output | `empty_codex_output_has_a_placeholder` |
//! | `canvas_user` without `arrival_workspace_id` | `canvas_user_falls_back_to_workspace_id` |
//! | malformed payload: invalid JSON | `malformed_payload_invalid_json` |
//! | malformed payload: not a dict | `malformed_payload_row_is_no_object` |
//! | malformed payload: timeout sentinel | `malformed_payload_page_is_no_list` |
//! | malformed payload: missing `activity_id` | `malformed_payload_row_without_an_id` |

use crate::chat::{Chat, numbers};
use crate::exec::replace_exec;
use bridge_sim::molecule::{FaultBody, MoleculeFault, Route, Said};
use serde_json::{Value, json};
use std::time::Duration;

/// The feed is read every second, so that what a look does is seen soon.
const QUICK: &str = "molecule.poll_secs = 1\n";
/// The log's words for a look that failed.
const UNREAD: &str = "the feed could not be read";
/// Longer than the cursor is held back, and no longer than a platform's clocks may differ.
const SETTLED: Duration = Duration::from_secs(45);

/// The sequence number of a row.
fn seq(chat: &Chat, row: &str) -> u64 {
    let rows = chat.platform.rows(&chat.us);
    let row = rows.iter().find(|shown| shown["id"] == row);
    row.unwrap()["seq"].as_u64().unwrap()
}

/// A message's body with one text.
fn body(text: &str) -> Value {
    let parts = json!([{"kind": "text", "text": text}]);
    json!({"method": "message/send", "params": {"message": {"role": "user", "parts": parts}}})
}

#[tokio::test]
async fn canvas_message_is_answered_and_acked() {
    let chat = Chat::with_settings(QUICK).await;
    let daemon = chat.daemon().await;
    let text = "hi can you help echo:sure, what's up";
    let row = chat.says(text);
    assert_eq!(chat.bubbles(1).await, ["sure, what's up"]);
    assert_eq!(chat.world.model.requests()[0].users, [text]);

    // A row is told to be read once nothing can appear behind it any more.
    let seq = seq(&chat, &row);
    assert!(chat.platform.acked(&chat.us) < seq);
    chat.platform.advance(SETTLED);
    chat.says("echo:later");
    chat.until("the ack", |chat| chat.platform.acked(&chat.us) >= seq)
        .await;
    assert_eq!(chat.bubbles(2).await, ["sure, what's up", "later"]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts().len(), 2);
    assert_eq!(chat.calls(Route::A2a), 0);
    assert_eq!(chat.world.model.requests().len(), 2);
}

/// The first answer of the platform is lost, so that the same reply is sent again: under the same id, and seen once.
#[tokio::test]
async fn peer_agent_message_routes_to_the_peer() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.platform
        .script(Route::A2a, [MoleculeFault::LoseAnswer]);
    chat.peer_says("what's your status echo:all good");
    chat.until("the reply's second try", |chat| {
        chat.platform.count(Route::A2a, 200) == 1
    })
    .await;
    assert_eq!(chat.calls(Route::A2a), 2);
    let got = chat.peer_inbox(1).await;
    assert_eq!(got.len(), 1, "the platform knows its id again: {got:#?}");
    assert_eq!(got[0].text, "all good");
    assert_eq!(got[0].source.as_ref(), Some(&chat.us.id));
    assert!(got[0].message_id.is_some());
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.platform.inbox_of(&chat.peer).len(), 1);
    assert_eq!(chat.calls(Route::Delegate), 0);
    assert_eq!(chat.calls(Route::Notify), 0, "the canvas sees none of it");
    assert_eq!(chat.world.model.requests().len(), 1);
}

#[tokio::test]
async fn session_continuity_resumes_same_codex_session() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says("first echo:r1");
    chat.bubbles(1).await;
    chat.says("second echo:r2");
    assert_eq!(chat.bubbles(2).await, ["r1", "r2"]);
    let shown = chat.world.shown_with("second");
    assert_eq!(shown, ["first echo:r1", "second echo:r2"]);
    let threads = chat.threads();
    assert_eq!(threads[0], threads[1]);
    // Another chat of the same workspace is another session.
    chat.peer_says("third echo:r3");
    assert_eq!(chat.peer_got(1).await, ["r3"]);
    assert_ne!(chat.threads()[2], threads[0]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn session_store_persists_across_runs() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says("first ever echo:hi");
    chat.bubbles(1).await;
    assert_eq!(daemon.stop().await, Some(0));

    let daemon = chat.daemon().await;
    chat.says("follow up echo:ok");
    chat.bubbles(2).await;
    daemon.kill_9().await;

    chat.says("written while nobody listens echo:still here");
    let daemon = chat.daemon().await;
    assert_eq!(chat.bubbles(3).await, ["hi", "ok", "still here"]);
    assert_eq!(chat.world.shown_with("nobody listens").len(), 3);
    let mut threads = chat.threads();
    assert_eq!(threads.len(), 3, "each message is run once");
    threads.dedup();
    assert_eq!(threads.len(), 1);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts().len(), 3);
}

#[tokio::test]
async fn timeout_sentinel_does_not_call_codex() {
    let chat = Chat::with_settings(QUICK).await;
    let daemon = chat.daemon().await;
    chat.looks(3).await;
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.world.model.requests(), []);
    for silent in [Route::Ack, Route::Notify, Route::A2a] {
        assert_eq!(chat.calls(silent), 0, "{silent:?}");
    }
}

/// The platform takes no reply and the daemon dies over it: the answer is sent by the next one, and Codex is not asked
/// again.
#[tokio::test]
async fn failed_reply_is_sent_after_restart() {
    let chat = Chat::new().await;
    let gateway = MoleculeFault::bad_gateway();
    chat.platform.stand(Route::Notify, gateway);
    let daemon = chat.daemon().await;
    chat.says("msg echo:reply");
    chat.until("a second try", |chat| {
        chat.platform.count(Route::Notify, 502) >= 2
    })
    .await;
    daemon.kill_9().await;
    assert_eq!(chat.texts(), [""; 0]);
    chat.platform.stand(Route::Notify, MoleculeFault::None);
    let daemon = chat.daemon().await;
    assert_eq!(chat.bubbles(1).await, ["reply"]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts(), ["reply"]);
    assert_eq!(chat.world.times_asked("msg"), 1);
}

#[tokio::test]
async fn nonzero_exit_code_surfaces_in_reply() {
    let settings = "molecule.transport = \"exec\"\nexec.timeout_secs = 8\n";
    let mut chat = Chat::with_settings(settings).await;
    let script =
        "case \"$(cat)\" in *slow*) exec sleep 1000;; esac; echo 'boom: no such luck' >&2; exit 7";
    replace_exec(&mut chat.world, script);
    let daemon = chat.daemon().await;
    chat.says("ping");
    let told = chat.bubbles(1).await;
    assert!(told[0].contains("exit=7"), "{told:?}");
    assert!(told[0].contains("boom: no such luck"), "{told:?}");
    chat.says("slow");
    let told = chat.bubbles(2).await;
    assert!(told[1].contains("timed out after 8s (exit=-1)"), "{told:?}");
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts().len(), 2);
    assert_eq!(chat.world.processes(), []);
}

#[tokio::test]
async fn a2a_multipart_text_is_concatenated() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    let said = Said {
        parts: vec![
            json!({"kind": "text", "text": "first chunk"}),
            json!({"type": "text", "text": "second chunk echo:ack"}),
        ],
        ..Said::default()
    };
    let both = "first chunk\nsecond chunk echo:ack";
    chat.says_with(&said);
    assert_eq!(chat.bubbles(1).await, ["ack"]);
    assert_eq!(chat.world.shown_with("first chunk"), [both]);
    let (peer, us) = (&chat.peer, &chat.us);
    chat.platform.peer_says_with(peer, us, &said).unwrap();
    assert_eq!(chat.peer_got(1).await, ["ack"]);
    let shown = chat.world.shown_with("first chunk");
    assert!(shown[0].contains(&format!(">\n{both}\n<")), "{shown:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Whether pauses double from one second on, each between half of it and all of it.
#[track_caller]
fn assert_doubling(pauses: &[u64]) {
    let mut most = 1_000;
    for pause in pauses {
        assert!((most / 2..=most).contains(pause), "{pauses:?}");
        most *= 2;
    }
}

#[tokio::test]
async fn wait_for_message_failures_back_off_exponentially() {
    let chat = Chat::with_settings(QUICK).await;
    let gateway = MoleculeFault::bad_gateway();
    chat.platform.stand(Route::Activity, gateway);
    let mut daemon = chat.daemon().await;
    daemon.log.wait_times(UNREAD, 4).await;
    let calls = chat.calls(Route::Activity);
    let pauses = numbers(&daemon.log, UNREAD, "pause_ms");
    assert_doubling(&pauses);
    assert!(calls <= pauses.len() + 1, "{calls} calls: {pauses:?}");
    // It does not give up.
    chat.platform.stand(Route::Activity, MoleculeFault::None);
    chat.says("echo:after the storm");
    assert_eq!(chat.bubbles(1).await, ["after the storm"]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn backoff_resets_on_first_success() {
    let chat = Chat::with_settings(QUICK).await;
    let storm = || vec![MoleculeFault::bad_gateway(); 3];
    chat.platform.script(Route::Activity, storm());
    let mut daemon = chat.daemon().await;
    daemon.log.wait_times(UNREAD, 3).await;
    chat.looks(1).await;
    chat.platform.script(Route::Activity, storm());
    daemon.log.wait_times(UNREAD, 6).await;
    let pauses = numbers(&daemon.log, UNREAD, "pause_ms");
    assert_doubling(&pauses[..3]);
    assert_doubling(&pauses[3..]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The platform does not want to hear what was read: nothing is done twice.
#[tokio::test]
async fn failed_ack_does_not_rerun_codex() {
    let chat = Chat::with_settings(QUICK).await;
    let fault = MoleculeFault::refuse(500, "no");
    chat.platform.stand(Route::Ack, fault);
    let daemon = chat.daemon().await;
    chat.says("echo:once");
    chat.bubbles(1).await;
    chat.platform.advance(SETTLED);
    chat.says("echo:next");
    chat.until("an ack", |chat| chat.platform.count(Route::Ack, 500) > 0)
        .await;
    chat.looks(2).await;
    assert_eq!(daemon.stop().await, Some(0));
    // Nor by a daemon that knows nothing of the refusal.
    let daemon = chat.daemon().await;
    chat.looks(2).await;
    chat.says("echo:last");
    assert_eq!(chat.bubbles(3).await, ["once", "next", "last"]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts().len(), 3);
    assert_eq!(chat.world.model.requests().len(), 3);
    assert_eq!(chat.platform.acked(&chat.us), 0);
}

/// What a healthy daemon does after rows that nobody can answer: it answers the next message, and only that.
async fn answers_only_the_next(chat: &Chat) {
    let daemon = chat.daemon().await;
    chat.looks(2).await;
    chat.says("echo:next");
    assert_eq!(chat.bubbles(1).await, ["next"]);
    chat.looks(2).await;
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts(), ["next"]);
    assert_eq!(chat.world.model.requests().len(), 1);
    assert_eq!(chat.calls(Route::A2a), 0, "there is nobody to tell");
}

#[tokio::test]
async fn peer_row_without_id_is_drained() {
    let chat = Chat::with_settings(QUICK).await;
    for source in [json!("no workspace"), json!(7), json!({})] {
        let fields = json!({"source_id": source, "request_body": body("echo:poison")});
        chat.platform.plant_row(&chat.us, fields).unwrap();
    }
    answers_only_the_next(&chat).await;
    // They are kept for the operator, once each.
    let daemon = chat.daemon().await;
    let list = chat.world.json(&["dead", "list", "--json"]).await;
    let dead = list["dead"].as_array().unwrap();
    assert_eq!(dead.len(), 3, "{list:#}");
    assert!(list.to_string().contains("echo:poison"), "{list:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn unknown_message_kind_is_drained() {
    let chat = Chat::with_settings(QUICK).await;
    for method in [json!("tasks/get"), json!("delegate_result"), Value::Null] {
        let fields = json!({
            "method": method, "source_id": chat.peer.id, "request_body": body("echo:poison"),
        });
        chat.platform.plant_row(&chat.us, fields).unwrap();
    }
    answers_only_the_next(&chat).await;
}

#[tokio::test]
async fn empty_codex_output_has_a_placeholder() {
    let chat = Chat::new().await;
    let daemon = chat.daemon().await;
    chat.says("echo:");
    let placeholder = "(Codex finished this turn without a text answer.)";
    assert_eq!(chat.bubbles(1).await, [placeholder]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.world.model.requests().len(), 1);
}

/// A row that does not say where it was written is of our canvas: its session is the same one.
#[tokio::test]
async fn canvas_user_falls_back_to_workspace_id() {
    let chat = Chat::old().await;
    let daemon = chat.daemon().await;
    chat.says("first echo:r1");
    chat.bubbles(1).await;
    let fields = json!({"workspace_id": null, "request_body": body("second echo:r2")});
    chat.platform.plant_row(&chat.us, fields).unwrap();
    assert_eq!(chat.bubbles(2).await, ["r1", "r2"]);
    let threads = chat.threads();
    assert_eq!(threads[0], threads[1]);
    assert_eq!(chat.world.shown_with("second").len(), 2);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Pages that are none: the message behind them is answered once they are over.
async fn survives_pages(faults: &[MoleculeFault]) {
    let chat = Chat::with_settings(QUICK).await;
    chat.platform.script(Route::Activity, faults.to_vec());
    chat.says("echo:behind it");
    let mut daemon = chat.daemon().await;
    daemon.log.wait_times(UNREAD, faults.len()).await;
    assert_eq!(chat.bubbles(1).await, ["behind it"]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(chat.texts(), ["behind it"]);
    assert_eq!(chat.world.model.requests().len(), 1);
}

fn page(body: FaultBody) -> MoleculeFault {
    MoleculeFault::Refuse {
        status: 200,
        retry_after: None,
        body,
    }
}

#[tokio::test]
async fn malformed_payload_invalid_json() {
    survives_pages(&[MoleculeFault::Garble, page(FaultBody::Html)]).await;
}

#[tokio::test]
async fn malformed_payload_page_is_no_list() {
    let sentinel = json!({"timeout": true, "timeout_secs": 60});
    let text = json!("Error: inbox polling is not enabled in this runtime.");
    let pages = [sentinel, text].map(|body| page(FaultBody::Json(body)));
    survives_pages(&pages).await;
}

/// Rows that can't be kept harm no other.
async fn survives_rows(rows: &[Value]) {
    let chat = Chat::with_settings(QUICK).await;
    for row in rows {
        chat.platform.plant_raw(&chat.us, row.clone()).unwrap();
    }
    answers_only_the_next(&chat).await;
}

#[tokio::test]
async fn malformed_payload_row_is_no_object() {
    survives_rows(&[json!("echo:poison"), json!(7), Value::Null, json!([{}])]).await;
}

#[tokio::test]
async fn malformed_payload_row_without_an_id() {
    let without = json!({
        "activity_type": "a2a_receive", "method": "message/send", "source_id": null,
        "created_at": "2026-11-15T20:00:13.5Z", "request_body": body("echo:poison"),
    });
    let mut null = without.clone();
    null["id"] = Value::Null;
    let mut empty = without.clone();
    empty["id"] = json!("");
    survives_rows(&[without, null, empty]).await;
}
