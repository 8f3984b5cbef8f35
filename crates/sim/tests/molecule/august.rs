//! What the platform of 2026-08-14 does otherwise than that of June, as a replay of June's recording showed it. No
//! recording of August is here, so each difference is checked by itself, beside what June did.

use bridge_sim::molecule::{Edition, MoleculeOptions, Workspace};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::Rig;

/// What one call shows that changed.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    call: &'static str,
    shows: String,
}

fn difference(call: &'static str, shows: impl ToString) -> Difference {
    let shows = shows.to_string();
    Difference { call, shows }
}

/// Makes a workspace over HTTP that names no parent.
async fn loner(rig: &Rig) -> Workspace {
    let call = rig
        .bare(Method::POST, "/workspaces")
        .bearer_auth("lab-admin");
    let made = call.json(&json!({"name": "loner"})).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Workspace {
        id: text(&made["id"]),
        token: text(&made["connection"]["auth_token"]),
    }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap()
}

fn message() -> Value {
    json!({"method": "message/send", "params": {"message": {"parts": [{"kind": "text", "text": "hi"}]}}})
}

fn has(body: &Value, keys: &[&str]) -> String {
    let shown: Vec<&str> = keys
        .iter()
        .copied()
        .filter(|key| body.get(key).is_some())
        .collect();
    shown.join(" ")
}

async fn differences(edition: Edition) -> Vec<Difference> {
    let rig = Rig::with(MoleculeOptions {
        edition,
        ..MoleculeOptions::default()
    })
    .await;
    // The second root: with one alone, even the newest platform puts a newcomer below it.
    rig.platform.add_stranger("another root");
    let loner = loner(&rig).await;
    let (alpha, beta) = (&rig.alpha, &rig.beta);
    let mut seen = Vec::new();
    let path = format!("/workspaces/{}/a2a", alpha.id);
    let bare = rig.bare(Method::POST, &path).json(&message());
    seen.push(difference(
        "/a2a without a caller",
        bare.send().await.unwrap().status(),
    ));
    let (code, _) = rig.send(&loner, alpha, &message()).await;
    seen.push(difference("/a2a of an unrelated peer", status(code)));
    let found = rig
        .bare(Method::GET, &format!("/registry/discover/{}", loner.id))
        .bearer_auth(&alpha.token)
        .header("X-Workspace-ID", &alpha.id);
    seen.push(difference(
        "discover of an unrelated peer",
        found.send().await.unwrap().status(),
    ));
    let beat = json!({"workspace_id": alpha.id, "sample_error": "x"});
    let (_, beat) = rig.registry(alpha, "heartbeat", &beat).await;
    seen.push(difference("heartbeat", has(&beat, &["generation"])));
    let view = rig.own(Method::GET, alpha, "").send().await.unwrap();
    let view: Value = view.json().await.unwrap();
    seen.push(difference(
        "workspace",
        has(&view, &["last_sample_error", "mcp_surface"]),
    ));
    let delete = rig
        .bare(Method::DELETE, &format!("/workspaces/{}", alpha.id))
        .bearer_auth("lab-admin");
    let delete: Value = delete.send().await.unwrap().json().await.unwrap();
    seen.push(difference(
        "delete without a confirmation",
        has(&delete, &["child_count", "schedule_count"]),
    ));
    let task = json!({"target_id": beta.id, "task": "x"});
    let delegated = rig.own(Method::POST, alpha, "/delegate").json(&task);
    assert_eq!(delegated.send().await.unwrap().status(), 202);
    let list = rig.own(Method::GET, alpha, "/delegations").send();
    let list: Vec<Value> = list.await.unwrap().json().await.unwrap();
    let keys = ["delegation_id", "id", "type", "updated_at", "_ledger"];
    seen.push(difference(
        "delegations",
        format!("{} of {}", has(&list[0], &keys), list.len()),
    ));
    seen
}

#[tokio::test]
async fn august_differs_from_june_as_seen() {
    let june = [
        ("/a2a without a caller", "200 OK"),
        ("/a2a of an unrelated peer", "200 OK"),
        ("discover of an unrelated peer", "503 Service Unavailable"),
        ("heartbeat", ""),
        ("workspace", ""),
        (
            "delete without a confirmation",
            "child_count schedule_count",
        ),
        ("delegations", "delegation_id id type of 2"),
    ];
    let august = [
        ("/a2a without a caller", "401 Unauthorized"),
        ("/a2a of an unrelated peer", "403 Forbidden"),
        ("discover of an unrelated peer", "403 Forbidden"),
        ("heartbeat", "generation"),
        ("workspace", "last_sample_error mcp_surface"),
        ("delete without a confirmation", "child_count"),
        ("delegations", "delegation_id updated_at _ledger of 1"),
    ];
    for (edition, expected) in [(Edition::New, june), (Edition::August, august)] {
        let expected: Vec<_> = expected.map(|(call, shows)| difference(call, shows)).into();
        assert_eq!(differences(edition).await, expected, "{edition:?}");
    }
}

/// Whoever has no live token needs none: so it is on the real platform, in every edition.
#[tokio::test]
async fn d4_heartbeats_need_no_token_without_any() {
    for edition in [Edition::Seed, Edition::New, Edition::August] {
        let rig = Rig::start(edition).await;
        let beat = json!({"workspace_id": rig.alpha.id});
        let other = rig.platform.add_token(&rig.alpha);
        rig.platform.revoke_tokens(&rig.alpha);
        for token in [&rig.alpha, &other] {
            let (code, _) = rig.registry(token, "heartbeat", &beat).await;
            assert_eq!(code, 200, "{edition:?}");
            let (code, _) = rig.page_status(token, "").await;
            assert_eq!(code, 401, "{edition:?}");
        }
        rig.platform.add_token(&rig.alpha);
        let (code, _) = rig.registry(&rig.alpha, "heartbeat", &beat).await;
        assert_eq!(code, 401, "{edition:?}");
    }
}
