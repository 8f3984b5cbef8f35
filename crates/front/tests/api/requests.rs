//! What Codex asks: decisions bound to what was shown, and what the rules say.

use crate::audit::asks;
use crate::nodes::{call, get};
use crate::service::{Put, TestService};
use axum::http::{Method, StatusCode};
use bridge_core::port::Change;
use bridge_core::rules::{Effect, Prefix, Rule, RuleDecision};
use bridge_core::value::EffectDigest;
use bridge_front::{BridgeService, DecisionView, ExplainView, Problem, ReplayList, RequestList};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn threat_10_decision_needs_the_shown_digest() {
    let service = TestService::new();
    service.receives("m1-of-ann").await;
    let rows = asks("m1-of-ann", service.now());
    service.does(Put(rows)).await.unwrap();
    let list: RequestList = get(&service, "/v1/requests").await;
    let asked = &list.requests[0].request;
    let kind = asked.kind.parse().unwrap();
    let own = EffectDigest::of(&kind, asked.shown.as_deref().unwrap());
    assert_eq!(asked.digest, own.as_str());
    let path = format!("/v1/requests/{}/decision", asked.request_id);
    let other = EffectDigest::of(&kind, "rm -rf /");
    let body = json!({"decision": "accept", "digest": other.as_str()});
    let (status, problem): (_, Problem) = call(&service, Method::POST, &path, body).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(problem.detail.contains("another digest"), "{problem:?}");
    let body = json!({"decision": "accept", "digest": own.as_str()});
    let (status, done): (_, DecisionView) = call(&service, Method::POST, &path, body).await;
    assert_eq!((status, done.outcome.as_str()), (StatusCode::OK, "applied"));
}

fn says(name: &str, then: RuleDecision, command: &str) -> Rule {
    Rule {
        name: name.to_owned(),
        tiers: Vec::new(),
        kinds: Vec::new(),
        commands: vec![Prefix::parse(command).unwrap()],
        places: Vec::new(),
        servers: Vec::new(),
        tools: Vec::new(),
        then,
        who: None,
        even_peers: false,
    }
}

fn with_rules() -> TestService {
    let mut service = TestService::new();
    service.policy.rules = vec![
        says("pushes", RuleDecision::Deny, "git push"),
        says("builds", RuleDecision::Allow, "make"),
    ];
    service
}

async fn explain(service: &TestService, body: Value) -> ExplainView {
    let path = "/v1/policy/explain";
    let (status, explained) = call(service, Method::POST, path, body).await;
    assert_eq!(status, StatusCode::OK);
    explained
}

#[tokio::test(start_paused = true)]
async fn policy_explanation_names_the_rule() {
    let service = with_rules();
    let owner = explain(&service, json!({"tier": "owner", "command": "make all"})).await;
    assert_eq!(
        (owner.decision.as_str(), owner.rule.as_deref()),
        ("allow", Some("builds"))
    );
    let [pushes, builds] = owner.rules.as_slice() else {
        panic!("{owner:?}");
    };
    assert!(!pushes.matches && pushes.why_not.is_some());
    assert!(builds.matches && builds.why_not.is_none());
    let peer = explain(&service, json!({"channel": "a2a", "command": "make all"})).await;
    assert_eq!((peer.decision.as_str(), peer.rule), ("ask", None));
    assert_eq!(peer.who.as_deref(), Some("owner"));
    let files = json!({"tier": "tool", "paths": ["/etc/hosts"]});
    assert_eq!(explain(&service, files).await.kind, "file_change");
}

#[tokio::test(start_paused = true)]
async fn unfit_policy_questions_say_what_is_missing() {
    let service = with_rules();
    for (body, says) in [
        (json!({"command": "make"}), "tier or a channel"),
        (json!({"tier": "king", "command": "make"}), "no tier `king`"),
        (json!({"tier": "owner"}), "name the command"),
        (
            json!({"channel": "fax", "command": "make"}),
            "no channel `fax`",
        ),
        (
            json!({"tier": "owner", "sender": "a", "command": "x"}),
            "its `channel`",
        ),
        (
            json!({"tier": "owner", "kind": "wish", "command": "x"}),
            "not asked",
        ),
        (json!({"tier": "owner", "kind": "mcp_tool"}), "go together"),
    ] {
        let path = "/v1/policy/explain";
        let (status, problem): (_, Problem) = call(&service, Method::POST, path, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(problem.detail.contains(says), "{says}: {problem:?}");
    }
}

fn about(change: &mut Change, command: &str) {
    let Change::NewRequest(request) = change else {
        return;
    };
    request.effect = Some(Effect {
        command: Some(command.to_owned()),
        ..Effect::default()
    });
}

#[tokio::test(start_paused = true)]
async fn replay_judges_old_requests_by_new_rules() {
    let service = with_rules();
    service.receives("m1-of-ann").await;
    let mut rows = asks("m1-of-ann", service.now());
    rows.iter_mut().for_each(|row| about(row, "git push"));
    service.does(Put(rows)).await.unwrap();
    let list: ReplayList = get(&service, "/v1/policy/replay").await;
    let [asked] = list.requests.as_slice() else {
        panic!("{list:?}");
    };
    assert_eq!(
        (asked.then.as_str(), asked.decision.as_deref()),
        ("ask", None)
    );
    assert_eq!(asked.now.as_deref(), Some("deny"));
    assert_eq!(asked.rule.as_deref(), Some("pushes"));
    assert!(asked.differs);
    assert_eq!((asked.tier.as_str(), list.next), ("owner", None));
    service.pass_ms(8 * 24 * 3_600_000);
    let list: ReplayList = get(&service, "/v1/policy/replay").await;
    assert_eq!(list.requests.len(), 0);
    let list: ReplayList = get(&service, "/v1/policy/replay?days=9&limit=1").await;
    assert_eq!(list.requests.len(), 1);
}
