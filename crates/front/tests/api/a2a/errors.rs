//! What is refused, in the words of each binding.

use super::{World, by, says};
use axum::http::Request;
use serde_json::{Value, json};

fn raw(body: &str) -> String {
    body.to_owned()
}

#[tokio::test(start_paused = true)]
async fn json_rpc_errors_have_code_and_id() {
    let world = World::new().await;
    let send = json!({"message": says("hi")});
    for (body, id, code) in [
        (raw("{nonsense"), Value::Null, -32700),
        (raw("[]"), Value::Null, -32600),
        (raw("7"), Value::Null, -32600),
        (
            json!({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}).to_string(),
            Value::Null,
            -32600,
        ),
        (
            json!({"jsonrpc": "2.0", "method": "GetTask"}).to_string(),
            Value::Null,
            -32602,
        ),
        (
            json!({"jsonrpc": "1.0", "id": 1, "method": "GetTask"}).to_string(),
            json!(1),
            -32600,
        ),
        (
            json!({"jsonrpc": "2.0", "id": "a", "method": 3}).to_string(),
            json!("a"),
            -32600,
        ),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": "Nothing"}).to_string(),
            json!(1),
            -32601,
        ),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask"}).to_string(),
            json!(1),
            -32602,
        ),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": []}).to_string(),
            json!(1),
            -32602,
        ),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}})
                .to_string(),
            json!(1),
            -32001,
        ),
    ] {
        let answered = world.call(by("ann", "POST", "/a2a"), body.clone()).await;
        assert_eq!(answered.status, 200, "{body}");
        let answer = answered.json();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{body}"
        );
        let info = &answer["error"]["data"][0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    }
    let wrong = Request::post("/a2a")
        .header("Host", super::HOST)
        .header("Authorization", "Bearer ann")
        .header("A2A-Version", "1.0")
        .header("Content-Type", "text/plain");
    let answer = world.call(wrong, send.to_string()).await.json();
    assert_eq!(answer["error"]["code"], -32005);
}

#[tokio::test(start_paused = true)]
async fn http_json_answers_with_statuses_and_details() {
    let world = World::new().await;
    for (verb, path, body, status, reason) in [
        ("GET", "/a2a/tasks/none", "", 404, "TASK_NOT_FOUND"),
        ("POST", "/a2a/tasks/none:cancel", "", 404, "TASK_NOT_FOUND"),
        (
            "POST",
            "/a2a/tasks/none:subscribe",
            "",
            404,
            "TASK_NOT_FOUND",
        ),
        (
            "GET",
            "/a2a/tasks/none:subscribe",
            "",
            404,
            "TASK_NOT_FOUND",
        ),
        ("POST", "/a2a/tasks/none", "", 404, "METHOD_NOT_FOUND"),
        ("POST", "/a2a/message:send", "{}", 400, "INVALID_PARAMS"),
        ("POST", "/a2a/message:send", "", 400, "INVALID_PARAMS"),
        ("POST", "/a2a/message:send", "{", 400, "PARSE_ERROR"),
        ("POST", "/a2a/message:stream", "[]", 400, "INVALID_REQUEST"),
        ("GET", "/a2a/tasks?pageSize=0", "", 400, "INVALID_PARAMS"),
        ("GET", "/a2a/tasks?pageToken=x", "", 400, "INVALID_PARAMS"),
        (
            "GET",
            "/a2a/tasks/none/files/m1/0",
            "",
            404,
            "TASK_NOT_FOUND",
        ),
    ] {
        let answered = world.call(by("ann", verb, path), body.to_owned()).await;
        assert_eq!(answered.status, status, "{verb} {path}");
        assert_eq!(answered.header("content-type"), "application/json");
        let error = &answered.json()["error"];
        assert_eq!(error["code"], status);
        assert_eq!(error["details"][0]["reason"], reason, "{verb} {path}");
    }
    let wrong = Request::post("/a2a/message:send")
        .header("Host", super::HOST)
        .header("Authorization", "Bearer ann")
        .header("A2A-Version", "1.0")
        .header("Content-Type", "text/plain");
    let answered = world.call(wrong, json!({"message": says("hi")}).to_string());
    assert_eq!(answered.await.status, 415);
}

#[tokio::test(start_paused = true)]
async fn unsupported_version_is_refused_on_both_bindings() {
    let world = World::new().await;
    let with = |path: &str, version: Option<&str>| {
        let request = Request::post(path)
            .header("Host", super::HOST)
            .header("Authorization", "Bearer ann")
            .header("Content-Type", "application/json");
        match version {
            Some(version) => request.header("A2A-Version", version),
            None => request,
        }
    };
    let send = json!({"message": says("hi"), "configuration": {"returnImmediately": true}});
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send});
    for (version, code, status) in [
        (Some("99.0"), Some(-32009), 400),
        (Some("1.0"), None, 200),
        (Some("1.0.1"), None, 200),
        (Some(""), Some(-32601), 400),
        (None, Some(-32601), 400),
    ] {
        let answer = world
            .call(with("/a2a", version), rpc.to_string())
            .await
            .json();
        assert_eq!(answer["error"]["code"].as_i64(), code, "{version:?}");
        let path = "/a2a/message:send";
        let answered = world.call(with(path, version), send.to_string()).await;
        assert_eq!(answered.status, status, "{version:?}");
    }
    let asked = "/a2a/message:send?A2A-Version=1.0";
    let answered = world.call(with(asked, None), send.to_string()).await;
    assert_eq!(answered.status, 200);
    let old = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "e1"}});
    let answer = world.call(with("/a2a", None), old.to_string()).await.json();
    assert_eq!(answer["result"]["kind"], "task");
    assert_eq!(answer["result"]["status"]["state"], "submitted");
}

#[tokio::test(start_paused = true)]
async fn answers_are_called_what_their_reader_knows() {
    let world = World::new().await;
    let known = by("ann", "GET", "/a2a/tasks").header("Accept", "application/a2a+json");
    let answered = world.call(known, String::new()).await;
    assert_eq!(answered.header("content-type"), "application/a2a+json");
    let unknown = by("ann", "GET", "/a2a/tasks/none").header("Accept", "application/a2a+json");
    let answered = world.call(unknown, String::new()).await;
    assert_eq!(answered.header("content-type"), "application/a2a+json");
}

#[tokio::test(start_paused = true)]
async fn threat_1_missing_scope_is_forbidden() {
    let world = World::new().await;
    for (verb, path) in [
        ("POST", "/a2a"),
        ("GET", "/a2a/tasks"),
        ("GET", "/a2a/extendedAgentCard"),
    ] {
        let answered = world.call(by("reader", verb, path), String::new()).await;
        assert_eq!(answered.status, 403, "{verb} {path}");
        assert!(
            answered
                .header("www-authenticate")
                .contains("scope=\"a2a\"")
        );
        let answered = world.call(by("nobody", verb, path), String::new()).await;
        assert_eq!(answered.status, 401, "{verb} {path}");
    }
    let answered = world
        .call(by("ann", "GET", "/v1/messages"), String::new())
        .await;
    assert_eq!(answered.status, 403, "and a peer reaches nothing else");
}
