//! Faults of single calls: each is met once, and what was taken is taken.

use std::time::Duration;

use bridge_sim::molecule::{Edition, FaultBody, MoleculeFault, Route, Weather};
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, message, texts};

#[tokio::test]
async fn lost_answer_keeps_bubble_cut_does_not() {
    let rig = Rig::start(Edition::New).await;
    let faults = [MoleculeFault::LoseAnswer, MoleculeFault::Cut];
    rig.platform.script(Route::Notify, faults);
    for text in ["lost", "cut"] {
        let call = rig.own(Method::POST, &rig.alpha, "/notify");
        assert!(call.json(&json!({"message": text})).send().await.is_err());
    }
    assert_eq!(
        rig.notify(&rig.alpha, &json!({"message": "fine"})).await.0,
        200
    );
    let bubbles = rig.platform.bubbles(&rig.alpha);
    let shown: Vec<&str> = bubbles.iter().map(|bubble| bubble.text.as_str()).collect();
    assert_eq!(shown, ["lost", "fine"]);
    let counts = rig.platform.counts();
    assert_eq!(counts[&(Route::Notify, None)], 2);
    assert_eq!(counts[&(Route::Notify, Some(200))], 1);
}

#[tokio::test]
async fn a_lost_answer_leaves_its_message_too() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.script(Route::A2a, [MoleculeFault::LoseAnswer]);
    let call = rig.a2a(&rig.alpha, &rig.beta, &message("m1", "hi"));
    assert!(call.send().await.is_err());
    assert_eq!(
        rig.send(&rig.alpha, &rig.beta, &message("m1", "hi"))
            .await
            .0,
        200
    );
    assert_eq!(rig.platform.inbox_of(&rig.beta).len(), 1);
}

#[tokio::test]
async fn refusals_come_in_every_dress() {
    let rig = Rig::start(Edition::New).await;
    let empty = MoleculeFault::Refuse {
        status: 403,
        retry_after: None,
        body: FaultBody::Empty,
    };
    let faults = [
        MoleculeFault::bad_gateway(),
        MoleculeFault::too_many(0),
        empty,
        MoleculeFault::refuse(404, "workspace not found"),
    ];
    rig.platform.script(Route::Activity, faults);
    let (status, body) = rig.page_status(&rig.alpha, "").await;
    assert!(status == 502 && body.as_str().unwrap().starts_with("<html>"));
    let limited = rig
        .own(Method::GET, &rig.alpha, "/activity")
        .send()
        .await
        .unwrap();
    assert_eq!(
        (limited.status().as_u16(), &limited.headers()["retry-after"]),
        (429, &"0".parse().unwrap())
    );
    assert_eq!(rig.page_status(&rig.alpha, "").await, (403, json!("")));
    assert_eq!(
        rig.page_status(&rig.alpha, "").await.1["error"],
        "workspace not found"
    );
    assert_eq!(rig.page_status(&rig.alpha, "").await.0, 200);
}

#[tokio::test]
async fn standing_fault_persists_until_cleared() {
    let rig = Rig::start(Edition::New).await;
    rig.platform
        .stand(Route::Notify, MoleculeFault::bad_gateway());
    for _ in 0..3 {
        assert_eq!(
            rig.notify(&rig.alpha, &json!({"message": "x"})).await.0,
            502
        );
    }
    rig.platform.stand(Route::Notify, MoleculeFault::None);
    assert_eq!(
        rig.notify(&rig.alpha, &json!({"message": "x"})).await.0,
        200
    );
    assert_eq!(rig.platform.bubbles(&rig.alpha).len(), 1);
}

#[tokio::test]
async fn pages_come_broken_repeated_and_upside_down() {
    let rig = Rig::start(Edition::New).await;
    let rows: Vec<String> = ["one", "two", "three"]
        .iter()
        .map(|text| rig.platform.canvas_says(&rig.alpha, text).unwrap())
        .collect();
    let first = format!("?since_id={}&limit=1", rows[0]);
    let second = format!("?since_id={}&limit=1", rows[1]);
    assert_eq!(texts(&rig.page(&rig.alpha, &first).await), ["two"]);
    let faults = [
        MoleculeFault::Repeat,
        MoleculeFault::Reverse,
        MoleculeFault::Garble,
        MoleculeFault::ResetMidBody,
    ];
    rig.platform.script(Route::Activity, faults);
    assert_eq!(texts(&rig.page(&rig.alpha, &second).await), ["two"]);
    assert_eq!(
        texts(&rig.page(&rig.alpha, "").await),
        ["one", "two", "three"]
    );
    let (status, body) = rig.page_status(&rig.alpha, "").await;
    assert!(status == 200 && body.is_string());
    let call = rig.own(Method::GET, &rig.alpha, "/activity").send().await;
    let broken = match call {
        Ok(response) => response.bytes().await.is_err(),
        Err(_) => true,
    };
    assert!(broken);
}

#[tokio::test]
async fn stalled_answers_exceed_client_timeout() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.canvas_says(&rig.alpha, "hi").unwrap();
    let forever = Duration::from_secs(3_600);
    let faults = [MoleculeFault::Withhold, MoleculeFault::Trickle(forever)];
    rig.platform.script(Route::Activity, faults);
    for _ in 0..2 {
        let call = rig.own(Method::GET, &rig.alpha, "/activity");
        let call = call.timeout(Duration::from_millis(200)).send().await;
        let failed = match call {
            Ok(response) => response.bytes().await.is_err(),
            Err(error) => error.is_timeout(),
        };
        assert!(failed);
    }
    assert_eq!(rig.page(&rig.alpha, "").await.len(), 1);
}

#[tokio::test]
async fn trickled_answer_arrives_whole() {
    let rig = Rig::start(Edition::New).await;
    rig.platform.canvas_says(&rig.alpha, "hi").unwrap();
    let slow = MoleculeFault::Trickle(Duration::ZERO);
    rig.platform.script(Route::Activity, [slow]);
    assert_eq!(texts(&rig.page(&rig.alpha, "").await), ["hi"]);
}

#[tokio::test]
async fn a_page_can_be_huge() {
    let rig = Rig::start(Edition::New).await;
    let huge = "z".repeat(20 << 20);
    rig.platform.plant_bubble(&rig.alpha, &huge).unwrap();
    let page = rig
        .own(Method::GET, &rig.alpha, "/activity")
        .send()
        .await
        .unwrap();
    assert!(page.bytes().await.unwrap().len() > huge.len());
}

#[tokio::test]
async fn restarted_platform_keeps_its_state() {
    let mut rig = Rig::start(Edition::New).await;
    rig.platform.canvas_says(&rig.alpha, "hi").unwrap();
    rig.platform.down().await;
    let refused = rig.own(Method::GET, &rig.alpha, "/activity").send().await;
    assert!(refused.unwrap_err().is_connect());
    rig.platform.up().await.unwrap();
    assert_eq!(texts(&rig.page(&rig.alpha, "").await), ["hi"]);
}

#[tokio::test]
async fn gates_hold_calls_before_or_after_processing() {
    let rig = Rig::start(Edition::New).await;
    let faults = ["before", "after"].map(str::to_owned);
    let [before, after] = faults;
    let faults = [
        MoleculeFault::Hold(before),
        MoleculeFault::HoldAnswer(after),
    ];
    rig.platform.script(Route::Notify, faults);
    let first = json!({"message": "first"});
    let second = json!({"message": "second"});
    let script = async {
        let reached = |count| {
            move |platform: &bridge_sim::molecule::MoleculePlatform| platform.calls().len() == count
        };
        rig.platform.wait_until("a call", reached(1)).await.unwrap();
        assert!(rig.platform.bubbles(&rig.alpha).is_empty());
        rig.platform.open_gate("before");
        rig.platform.wait_for_bubbles(&rig.alpha, 2).await.unwrap();
        assert_eq!(rig.platform.count(Route::Notify, 200), 1);
        rig.platform.open_gate("after");
    };
    let calls = async {
        assert_eq!(rig.notify(&rig.alpha, &first).await.0, 200);
        assert_eq!(rig.notify(&rig.alpha, &second).await.0, 200);
    };
    tokio::join!(script, calls);
}

#[tokio::test]
async fn weather_loses_answers_and_repeats_messages() {
    let rig = Rig::start(Edition::August).await;
    rig.platform.set_weather(Weather {
        lose: 1_000,
        ..Weather::default()
    });
    let bubble = json!({"message": "lost"});
    let call = rig.own(Method::POST, &rig.alpha, "/notify").json(&bubble);
    assert!(call.send().await.is_err());
    assert_eq!(rig.platform.bubbles(&rig.alpha).len(), 1, "it was taken");
    assert_eq!(rig.platform.reply_calls(), 1);

    rig.platform.set_weather(Weather {
        refuse: 1_000,
        ..Weather::default()
    });
    let (status, _) = rig.notify(&rig.alpha, &bubble).await;
    assert!([429, 503].contains(&status), "{status}");
    let (status, _) = rig.page_status(&rig.alpha, "?source=canvas").await;
    assert!([429, 503].contains(&status), "{status}");
    assert_eq!(rig.page_status(&rig.alpha, "").await.0, 200);
    assert_eq!(rig.platform.reply_calls(), 3, "looks for replies count too");

    rig.platform.canvas_says(&rig.alpha, "hello").unwrap();
    rig.platform.set_weather(Weather {
        repeat: 1_000,
        ..Weather::default()
    });
    let rows = rig.page(&rig.alpha, "").await;
    let messages = texts(&rows).into_iter().filter(|text| *text == "hello");
    assert_eq!(messages.count(), 2, "stored in a second row");
}
