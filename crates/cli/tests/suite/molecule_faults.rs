//! A Molecule platform that fails, refuses, forgets and repeats: every message is answered there once, the operator is
//! told what is wrong, and nothing needs a restart. The channel alone against the same faults is in its own crate.

use crate::chat::{Chat, edition as options};
use crate::world::{World, within};
use bridge_sim::molecule::{AutoAnswer, Edition, MoleculeFault, MoleculePlatform, Route};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// The feed is read often, so that a lost hint costs a test a second.
const QUICK: &str = "[molecule]\npoll_secs = 1\n";

async fn chat(edition: Edition) -> Chat {
    chat_with(edition, "").await
}

/// `keys` are further lines of the section `[molecule]`.
async fn chat_with(edition: Edition, keys: &str) -> Chat {
    Chat::with(options(edition), &format!("{QUICK}{keys}")).await
}

impl Chat {
    /// Puts the token into a file instead of the environment.
    pub(crate) fn token_in_a_file(&mut self) -> PathBuf {
        let path = self.world.path().join("token");
        std::fs::write(&path, &self.us.token).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        self.world.set_env("MOLECULE_WORKSPACE_TOKEN", "");
        let file = path.to_str().unwrap();
        self.world.set_env("MOLECULE_WORKSPACE_TOKEN_FILE", file);
        path
    }

    /// Asks for the status until it fulfils something; every answer takes a process, so nothing spins.
    pub(crate) async fn status_until(&self, what: &str, done: impl Fn(&Value) -> bool) -> Value {
        until(&self.world, what, done).await
    }

    /// Waits until so many calls of a kind were made.
    async fn called(&self, route: Route, times: usize) {
        let what = format!("{times} calls of {route:?}");
        self.until(&what, |chat| chat.calls(route) >= times).await;
    }

    /// Waits for so many dead letters; gives them, newest first.
    async fn dead(&self, count: u64) -> Vec<Value> {
        let what = format!("{count} dead letters");
        self.status_until(&what, |status| status["summary"]["dead"] == count)
            .await;
        let list = self.world.json(&["dead", "list", "--json"]).await;
        list["dead"].as_array().unwrap().clone()
    }

    /// What is kept of a message's answer.
    async fn kept(&self, dead: &Value) -> Value {
        let id = dead["message_id"].as_str().unwrap();
        self.world.json(&["show", "--json", id]).await["answer"]["text"].clone()
    }
}

async fn until(world: &World, what: &str, done: impl Fn(&Value) -> bool) -> Value {
    let reached = async {
        loop {
            let status = world.json(&["status", "--json"]).await;
            if done(&status) {
                return status;
            }
        }
    };
    within(what, reached).await
}

/// How far the feed was read, as the ledger has it.
fn cursor(chat: &Chat) -> String {
    let ledger = rusqlite::Connection::open(chat.world.state_dir().join("ledger.db")).unwrap();
    let asked = ledger.query_row("SELECT position FROM cursor", [], |row| row.get(0));
    asked.unwrap_or_default()
}

fn is(status: &Value, state: &str) -> bool {
    status["health"]["channels"][0]["state"] == state
}

/// P1: a storm is told in the status while it lasts, and the first success is used.
#[tokio::test]
async fn p1_outage_is_reported_while_active() {
    let chat = chat(Edition::New).await;
    let storm = MoleculeFault::bad_gateway();
    for route in [Route::Activity, Route::Heartbeat, Route::Register] {
        chat.platform.stand(route, storm.clone());
    }
    let daemon = chat.daemon().await;
    chat.says("echo:hello");
    chat.called(Route::Activity, 3).await;
    let status = chat
        .status_until("a retry", |status| is(status, "retrying"))
        .await;
    let detail = &status["health"]["channels"][0]["detail"];
    assert!(detail.as_str().unwrap().contains("502"), "{status:#}");
    assert_eq!(status["health"]["ready"], true, "{status:#}");
    // The reply meets the end of the storm.
    let storm = [storm.clone(), storm];
    chat.platform.script(Route::Notify, storm);
    for route in [Route::Activity, Route::Heartbeat, Route::Register] {
        chat.platform.stand(route, MoleculeFault::None);
    }
    chat.status_until("the answer", |status| status["summary"]["answered"] == 1)
        .await;
    assert_eq!(chat.bubbles(1).await, ["hello"]);
    assert_eq!(chat.calls(Route::Notify), 3);
    chat.status_until("the end", |status| is(status, "receiving"))
        .await;
    assert_eq!(daemon.stop().await, Some(0));
}

/// P2: the feed and the replies break off in every place; each message is answered, and each answer seen once.
#[tokio::test]
async fn p2_broken_calls_lose_or_repeat_nothing() {
    let chat = chat(Edition::New).await;
    let broken = [
        MoleculeFault::ResetMidBody,
        MoleculeFault::Cut,
        MoleculeFault::Garble,
    ];
    chat.platform.script(Route::Activity, broken.clone());
    chat.platform.script(Route::Notify, broken);
    let daemon = chat.daemon().await;
    let texts = ["one", "two", "three"];
    for (at, text) in texts.iter().enumerate() {
        chat.says(&format!("echo:{text}"));
        assert_eq!(chat.bubbles(at + 1).await, texts[..=at]);
    }
    chat.status_until("the end", |status| status["summary"]["answered"] == 3)
        .await;
    assert_eq!(chat.bubbles(3).await, texts);
    assert_eq!(chat.world.model.requests().len(), 3);
    assert_eq!(daemon.stop().await, Some(0));
}

/// What no message looks like, one row each.
fn malformed() -> Vec<Value> {
    let mut deep = json!("x");
    for _ in 0..400 {
        deep = json!([deep]);
    }
    let said = |part: Value| json!({"params": {"message": {"parts": [part]}}});
    vec![
        json!({"request_body": 7}),
        json!({"request_body": said(deep)}),
        json!({"request_body": said(json!({"kind": "text", "text": 7}))}),
        json!({"request_body": said(json!({"kind": "text", "text": "echo:far"})), "created_at": 1e300}),
        json!({"request_body": "<html>"}),
        json!({"source_id": "nobody", "request_body": said(json!({"kind": "text", "text": "hi"}))}),
    ]
}

/// P3: pages that are none, and rows that are no messages: the rest passes, and the senders are told.
#[tokio::test]
async fn p3_malformed_pages_and_rows_are_isolated() {
    let chat = chat(Edition::New).await;
    let page = |body| MoleculeFault::Refuse {
        status: 200,
        retry_after: None,
        body,
    };
    chat.platform.script(
        Route::Activity,
        [
            page(bridge_sim::molecule::FaultBody::Html),
            page(bridge_sim::molecule::FaultBody::Json(json!({"rows": []}))),
        ],
    );
    chat.says("echo:first");
    for row in malformed() {
        chat.platform.plant_row(&chat.us, row).unwrap();
    }
    for raw in [json!(null), json!([[]]), json!({"id": u64::MAX})] {
        chat.platform.plant_raw(&chat.us, raw).unwrap();
    }
    chat.says("echo:last");
    let daemon = chat.daemon().await;
    let answered = |status: &Value| status["summary"]["answered"] == 3;
    let status = chat.status_until("both answers", answered).await;
    assert_eq!(status["summary"]["dead"], 5, "{status:#}");
    let shown = chat.bubbles(7).await;
    for answer in ["first", "far", "last"] {
        let times = shown.iter().filter(|text| *text == answer).count();
        assert_eq!(times, 1, "{shown:?}");
    }
    assert!(
        shown.iter().any(|text| text.contains("can't be read")),
        "{shown:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// P4, P5: pages are repeated, turned round and late; every message is answered once, in its order.
#[tokio::test]
async fn p4_p5_disordered_pages_answered_in_order() {
    let chat = chat(Edition::New).await;
    let daemon = chat.daemon().await;
    let texts = ["one", "two", "three", "four"];
    chat.says("echo:one");
    assert_eq!(chat.bubbles(1).await, texts[..1]);
    let disorder = [
        MoleculeFault::Repeat,
        MoleculeFault::Reverse,
        MoleculeFault::Repeat,
        MoleculeFault::Repeat,
        MoleculeFault::Reverse,
    ];
    chat.platform.script(Route::Activity, disorder);
    for text in &texts[1..] {
        chat.says(&format!("echo:{text}"));
    }
    assert_eq!(chat.bubbles(4).await, texts);
    chat.status_until("the end", |status| status["summary"]["answered"] == 4)
        .await;
    assert_eq!(chat.world.model.requests().len(), 4);
    assert_eq!(daemon.stop().await, Some(0));
}

/// P6: while nobody looked, the platform forgot the row that was read last. What it still has is answered, what was
/// answered is not answered again, and the gap is told with its times.
#[tokio::test]
async fn p6_pruned_feed_reports_the_gap() {
    for edition in [Edition::Seed, Edition::New] {
        let chat = chat(edition).await;
        let daemon = chat.daemon().await;
        chat.says("echo:one");
        chat.bubbles(1).await;
        // A row is watched for half a minute of the platform's time before the cursor moves to it.
        chat.platform.advance(Duration::from_secs(40));
        chat.says("echo:two");
        chat.status_until("a cursor on a row", |_| {
            cursor(&chat).contains(r#""row":""#)
        })
        .await;
        chat.bubbles(2).await;
        assert_eq!(daemon.stop().await, Some(0));
        chat.platform.advance(Duration::from_secs(8 * 24 * 3_600));
        for text in ["lost", "three", "four"] {
            chat.says(&format!("echo:{text}"));
        }
        chat.platform.prune(&chat.us, 2);
        let mut daemon = chat.daemon().await;
        let log = daemon.log.wait_for("was forgotten too is lost").await;
        assert!(
            log.contains("last_journaled=") && log.contains("oldest_shown="),
            "{log}"
        );
        assert!(chat.platform.count(Route::Activity, 410) > 0);
        assert_eq!(chat.bubbles(2).await, ["three", "four"], "{edition:?}");
        assert_eq!(chat.world.model.requests().len(), 4);
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// P7: the token is replaced while Codex works: the answer is kept, the status says what to do, and the new token is
/// used as soon as it is in its file.
#[tokio::test]
async fn p7_token_rotation_mid_turn_keeps_answer() {
    let mut chat = chat(Edition::New).await;
    let file = chat.token_in_a_file();
    let daemon = chat.daemon().await;
    chat.says("hold:gate echo:kept");
    chat.world.model.wait_held("gate").await.unwrap();
    let new = chat.platform.rotate(&chat.us);
    let status = chat.status_until("a parked feed", |status| is(status, "parked"));
    let status = status.await;
    let detail = &status["health"]["channels"][0]["detail"];
    assert!(
        detail.as_str().unwrap().contains("Tokens tab"),
        "{status:#}"
    );
    chat.world.model.release("gate");
    let refused = |platform: &MoleculePlatform| platform.count(Route::Notify, 401) > 0;
    let refused = chat.platform.wait_until("a refused reply", refused);
    refused.await.unwrap();
    assert_eq!(chat.platform.bubbles(&chat.us), []);
    std::fs::write(&file, &new.token).unwrap();
    assert_eq!(chat.bubbles(1).await, ["kept"]);
    chat.says("echo:more");
    assert_eq!(chat.bubbles(2).await, ["kept", "more"]);
    chat.status_until("the feed", |status| is(status, "receiving"))
        .await;
    assert_eq!(chat.world.times_asked("echo:kept"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// P8: a canvas that may not be talked to, and a peer that is gone: dead letters with their text, told to the operator
/// and sent again by one word, without Codex.
#[tokio::test]
async fn p8_forbidden_reply_is_kept_for_redrive() {
    let chat = chat(Edition::New).await;
    let mut daemon = chat.daemon().await;
    chat.platform.allow_talk(&chat.us, false);
    chat.says("echo:unheard");
    let dead = chat.dead(1).await;
    let reason = dead[0]["reason"].as_str().unwrap();
    assert!(reason.contains("talk_to_user_disabled"), "{dead:#?}");
    assert_eq!(dead[0]["answered"], true, "{dead:#?}");
    assert_eq!(chat.kept(&dead[0]).await, "unheard");
    daemon.log.wait_for("talk_to_user_disabled").await;

    chat.peer_says("hold:gate echo:for nobody");
    chat.world.model.wait_held("gate").await.unwrap();
    let gone = MoleculeFault::refuse(404, "workspace not found");
    chat.platform.script(Route::A2a, [gone]);
    chat.world.model.release("gate");
    let gone = chat.dead(2).await;
    assert_eq!(chat.kept(&gone[0]).await, "for nobody", "{gone:#?}");

    chat.platform.allow_talk(&chat.us, true);
    let id = dead[0]["message_id"].as_str().unwrap();
    let again = chat.world.run(&["dead", "redrive", id]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(chat.bubbles(1).await, ["unheard"]);
    assert_eq!(chat.world.times_asked("echo:unheard"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// P9: a platform that has enough is obeyed, a pause of zero included, and nothing is lost or doubled.
#[tokio::test]
async fn p9_replies_honour_retry_after() {
    let chat = chat(Edition::New).await;
    let enough = [MoleculeFault::too_many(0), MoleculeFault::too_many(1)];
    for route in [Route::Activity, Route::Notify, Route::A2a] {
        chat.platform.script(route, enough.clone());
    }
    let daemon = chat.daemon().await;
    chat.says("echo:hello");
    chat.peer_says("echo:hi");
    assert_eq!(chat.bubbles(1).await, ["hello"]);
    assert_eq!(chat.peer_got(1).await, ["hi"]);
    chat.status_until("the end", |status| status["summary"]["answered"] == 2)
        .await;
    for route in [Route::Notify, Route::A2a] {
        assert_eq!(chat.platform.count(route, 429), 2, "{route:?}");
        assert_eq!(chat.calls(route), 3, "{route:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// P11: the platform takes a reply and its answer is lost: one bubble on either platform, one row for a peer where the
/// platform knows a message again.
#[tokio::test]
async fn p11_lost_response_shows_reply_once() {
    for edition in [Edition::Seed, Edition::New] {
        let chat = chat(edition).await;
        chat.platform
            .script(Route::Notify, [MoleculeFault::LoseAnswer]);
        let daemon = chat.daemon().await;
        chat.says("echo:hello");
        chat.status_until("the end", |status| status["summary"]["answered"] == 1)
            .await;
        assert_eq!(chat.bubbles(1).await, ["hello"], "{edition:?}");
        assert_eq!(chat.calls(Route::Notify), 1, "found, not sent again");
        if edition == Edition::New {
            chat.platform
                .script(Route::A2a, [MoleculeFault::LoseAnswer]);
            chat.peer_says("echo:hi");
            chat.status_until("the end", |status| status["summary"]["answered"] == 2)
                .await;
            assert_eq!(chat.peer_got(1).await, ["hi"]);
            assert_eq!(chat.calls(Route::A2a), 2, "sent again under its id");
        }
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// P11: where the older platform would show a peer the same reply twice, one in doubt is held, and the operator is told.
#[tokio::test]
async fn p11_unclear_peer_reply_is_held() {
    let chat = Chat::old().await;
    chat.platform
        .script(Route::A2a, [MoleculeFault::LoseAnswer]);
    let daemon = chat.daemon().await;
    chat.peer_says("echo:hi");
    let dead = chat.dead(1).await;
    assert_eq!(dead[0]["answered"], true, "{dead:#?}");
    assert_eq!(chat.kept(&dead[0]).await, "hi");
    assert_eq!(chat.peer_got(1).await, ["hi"]);
    assert_eq!(chat.calls(Route::A2a), 1, "held, not sent again");
    assert_eq!(daemon.stop().await, Some(0));
}

/// P12: a long answer is cut into pieces on disk; a daemon that is killed between them goes on at the first that was
/// not sent, and every piece is seen once, in order.
#[tokio::test]
async fn p12_long_reply_resumes_after_kill() {
    let chat = chat_with(Edition::New, "max_reply_chars = 500\n").await;
    let lines: Vec<String> = (0..40)
        .map(|n| format!("{n:02} {}", "x".repeat(42)))
        .collect();
    let text = lines.join("\n");
    let between = [MoleculeFault::None, MoleculeFault::LoseAnswer];
    chat.platform.script(Route::Notify, between);
    let held = MoleculeFault::Hold("gate".to_owned());
    chat.platform.stand(Route::Notify, held);
    let daemon = chat.daemon().await;
    chat.says(&format!("echo:{text}"));
    chat.called(Route::Notify, 3).await;
    assert_eq!(chat.bubbles(2).await.len(), 2);
    daemon.kill_9().await;
    chat.platform.stand(Route::Notify, MoleculeFault::None);
    let daemon = chat.daemon().await;
    chat.status_until("the end", |status| status["summary"]["answered"] == 1)
        .await;
    let pieces = chat.bubbles(4).await;
    assert_eq!(pieces.concat(), text, "{pieces:#?}");
    assert!(pieces.iter().all(|piece| piece.chars().count() <= 500));
    assert_eq!(chat.world.model.requests().len(), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// P13: what the feed shows of ourselves, and rows that are meant for nobody, start nothing.
#[tokio::test]
async fn p13_own_and_phantom_rows_are_ignored() {
    for edition in [Edition::Seed, Edition::New] {
        let chat = chat(edition).await;
        let body =
            json!({"params": {"message": {"parts": [{"kind": "text", "text": "echo:phantom"}]}}});
        let (own, peer) = (chat.us.id.as_str(), chat.peer.id.as_str());
        for (source, method) in [
            (Some(own), "message/send"),
            (Some(own), "delegate_result"),
            (Some(peer), "delegate_result"),
            (None, "tasks/get"),
            (Some(peer), "chat_upload_receive"),
        ] {
            let row = json!({"source_id": source, "method": method, "request_body": body});
            chat.platform.plant_row(&chat.us, row).unwrap();
        }
        let daemon = chat.daemon().await;
        for (at, text) in ["one", "two"].iter().enumerate() {
            chat.says(&format!("echo:{text}"));
            assert_eq!(chat.bubbles(at + 1).await[at], *text, "{edition:?}");
        }
        let status = chat.status_until("the end", |status| status["summary"]["answered"] == 2);
        let status = status.await;
        assert_eq!(status["summary"]["dead"], 0, "{status:#}");
        assert_eq!(chat.world.model.requests().len(), 2);
        assert_eq!(daemon.stop().await, Some(0));
    }
}

/// P13: two bridges whose agents answer each other stop after eight, and the last word is the guard's.
#[tokio::test]
async fn p13_bridges_answering_each_other_stop() {
    let chat = Chat::new().await;
    let mut other = World::with_settings(&format!("{QUICK}[turn]\nbackoff_base_ms = 50\n")).await;
    other.set_env("WORKSPACE_ID", &chat.peer.id);
    other.set_env("PLATFORM_URL", &chat.platform.url());
    other.set_env("MOLECULE_WORKSPACE_TOKEN", &chat.peer.token);
    let (ours, theirs) = (chat.daemon().await, other.daemon().await);
    // Every answer is the text without its first word, so it is the other's next question.
    chat.peer_says(&format!("{}over", "echo:".repeat(20)));
    let told = chat.peer_got(5).await;
    assert!(told[4].contains("loop guard"), "{told:?}");
    until(&other, "silence", |status| status["summary"]["dead"] == 1).await;
    assert_eq!(chat.dead(1).await.len(), 1);
    let turns = chat.world.model.requests().len() + other.model.requests().len();
    assert_eq!(turns, 8);
    assert_eq!(chat.peer_got(5).await.len(), 5);
    assert_eq!(chat.platform.inbox_of(&chat.us).len(), 5);
    assert_eq!((ours.stop().await, theirs.stop().await), (Some(0), Some(0)));
}

/// P13: a peer that answers everything and counts nothing is heard thirty times in ten minutes, told so once, and then
/// meets silence.
#[tokio::test]
async fn p13_flooding_peer_is_told_and_waits() {
    let chat = Chat::new().await;
    let auto = AutoAnswer {
        text: "echo:again".to_owned(),
        echo_metadata: false,
        at_most: 100,
    };
    chat.platform.answering(&chat.peer, auto);
    let daemon = chat.daemon().await;
    chat.peer_says("echo:again");
    let told = chat.peer_got(31).await;
    assert_eq!(told.len(), 31);
    assert!(told[30].contains("30 messages"), "{told:?}");
    assert!(told[30].contains("waits and will be answered"), "{told:?}");
    let list = chat.world.json(&["dead", "list", "--json"]).await;
    assert_eq!(list["dead"].as_array().unwrap().len(), 0, "{list:#}");
    assert_eq!(chat.world.model.requests().len(), 30);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn p13_loop_guard_follows_its_settings() {
    let chat = Chat::with_settings("loop_guard.messages_per_ten_minutes = 2\n").await;
    let auto = AutoAnswer {
        text: "echo:again".to_owned(),
        echo_metadata: false,
        at_most: 100,
    };
    chat.platform.answering(&chat.peer, auto);
    let daemon = chat.daemon().await;
    chat.peer_says("echo:again");
    let told = chat.peer_got(3).await;
    assert!(told[2].contains("2 messages"), "{told:?}");
    assert_eq!(chat.world.model.requests().len(), 2);
    assert_eq!(daemon.stop().await, Some(0));
}
