//! The scripted model as an HTTP client sees it: waits, breaks, refusals, records.
//! Every wait here is for an event of the model itself.
//! What Codex makes of it is in `real_codex`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bridge_sim::{Options, ScriptedModel};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

async fn model() -> ScriptedModel {
    ScriptedModel::start(Options::default()).await.unwrap()
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

async fn post(model: &ScriptedModel, body: &Value) -> Response {
    let request = client().post(format!("{}/responses", model.base_url()));
    request.json(body).send().await.unwrap()
}

async fn say(model: &ScriptedModel, text: &str) -> Response {
    let message = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    post(model, &json!({"model": "mock-model", "input": [message]})).await
}

#[tokio::test]
async fn held_answer_waits_for_gate() {
    let model = model().await;
    let mut response = say(&model, "hold:gate echo:through").await;
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: response.created\n"));
    model.wait_held("gate").await.unwrap();
    assert_eq!(model.active(), 1);
    model.release("gate");
    assert!(response.text().await.unwrap().contains("through"));
    model.wait_idle().await.unwrap();
    assert_eq!((model.max_active(), model.aborted()), (1, 0));
}

#[tokio::test]
async fn a_gate_opened_early_holds_nobody() {
    let model = model().await;
    model.release("gate");
    let response = say(&model, "hold:gate echo:through").await;
    assert!(response.text().await.unwrap().contains("through"));
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed() {
    let model = model().await;
    let response = say(&model, "hang:").await;
    model.wait_held("hang").await.unwrap();
    drop(response);
    model.wait_aborted(1).await.unwrap();
    model.wait_idle().await.unwrap();
}

#[tokio::test]
async fn break_cuts_socket_after_partial_answer() {
    let model = model().await;
    let mut response = say(&model, "break:1 stream:2").await;
    let mut text = Vec::new();
    let error = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => text.extend_from_slice(&chunk),
            Ok(None) => panic!("the stream ended well"),
            Err(error) => break error,
        }
    };
    assert!(error.is_body() || error.is_decode(), "{error:?}");
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("\"w0 \"") && !text.contains("\"w1 \""),
        "{text}"
    );
    let again = say(&model, "break:1 stream:2").await.text().await.unwrap();
    assert!(again.contains("response.completed"), "{again}");
    assert_eq!(model.aborted(), 0);
}

#[tokio::test]
async fn http_errors_match_api_shape() {
    let model = model().await;
    let limited = say(&model, "fail:429:1 echo:ok").await;
    assert_eq!(limited.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(limited.headers()["retry-after"], "1");
    let body: Value = limited.json().await.unwrap();
    assert_eq!(body["error"]["code"], "rate_limit_exceeded");
    assert_eq!(
        say(&model, "fail:429:1 echo:ok").await.status(),
        StatusCode::OK
    );
    assert_eq!(
        say(&model, "fail:503").await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn a_usage_limit_says_when_it_ends() {
    let model = model().await;
    let response = say(&model, "usage_limit:3600").await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let header = response.headers()["x-codex-primary-reset-at"].clone();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["type"], "usage_limit_reached");
    assert_eq!(
        body["error"]["resets_at"].to_string(),
        header.to_str().unwrap()
    );
}

#[tokio::test]
async fn requests_are_recorded_and_awaitable() {
    let model = model().await;
    say(&model, "echo:one").await.text().await.unwrap();
    let two = "<peer name=\"p\">\necho:two\n</peer>";
    let answer = say(&model, two).await.text().await.unwrap();
    assert!(answer.contains("\"delta\":\"two\""), "{answer}");
    let seen = model.wait_for(|seen| seen.last() == two).await.unwrap();
    assert_eq!((seen.number, seen.step(), seen.authorized), (1, 0, false));
    assert_eq!(seen.model, "mock-model");
    assert!(seen.body_bytes > two.len());
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn wait_timeout_reports_seen_requests() {
    let patience = Duration::from_millis(1);
    let options = Options {
        patience,
        ..Options::default()
    };
    let model = ScriptedModel::start(options).await.unwrap();
    say(&model, "echo:one").await.text().await.unwrap();
    let error = model.wait_held("gate").await.unwrap_err().to_string();
    assert!(
        error.contains("held at \"gate\"") && error.contains("echo:one"),
        "{error}"
    );
}

#[tokio::test]
async fn a_key_can_be_required() {
    let options = Options {
        require_auth: true,
        ..Options::default()
    };
    let model = ScriptedModel::start(options).await.unwrap();
    assert_eq!(
        say(&model, "echo:x").await.status(),
        StatusCode::UNAUTHORIZED
    );
    let request = client().post(format!("{}/responses", model.base_url()));
    let response = request
        .bearer_auth("k")
        .json(&json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let authorized: Vec<bool> = model
        .requests()
        .iter()
        .map(|seen| seen.authorized)
        .collect();
    assert_eq!(authorized, [false, true]);
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let model = model().await;
    let request = client().post(format!("{}/responses", model.base_url()));
    let response = request.body("{").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let elsewhere = client().get(format!("{}/files", model.base_url()));
    assert_eq!(
        elsewhere.send().await.unwrap().status(),
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn stop_breaks_streams_and_frees_port() {
    let model = model().await;
    let response = say(&model, "hang:").await;
    model.wait_held("hang").await.unwrap();
    let port = model.port();
    model.stop().await;
    response.text().await.unwrap_err();
    let options = Options {
        port,
        ..Options::default()
    };
    let second = ScriptedModel::start(options).await.unwrap();
    assert!(
        say(&second, "hello")
            .await
            .text()
            .await
            .unwrap()
            .contains("You said")
    );
}

#[tokio::test]
async fn dropping_breaks_what_is_under_way() {
    let model = model().await;
    let response = say(&model, "hold:gate echo:x").await;
    model.wait_held("gate").await.unwrap();
    drop(model);
    response.text().await.unwrap_err();
}
