//! What stands before every call when it is asked for: the rate limit and the tenant guard.

use std::time::Duration;

use bridge_sim::molecule::{Edition, MoleculeOptions, Tenant};
use reqwest::Method;
use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn rate_limit_resets_with_window() {
    let rig = Rig::with(MoleculeOptions {
        rate_limit: Some(2),
        clock_stands_still: true,
        ..MoleculeOptions::default()
    })
    .await;
    assert_eq!(rig.beat(&rig.alpha).await.0, 200);
    assert_eq!(rig.page_status(&rig.alpha, "").await.0, 200);
    let over = rig
        .own(Method::GET, &rig.alpha, "/activity")
        .send()
        .await
        .unwrap();
    assert_eq!(over.status(), 429);
    assert_eq!(
        over.headers()["retry-after"],
        over.headers()["x-ratelimit-reset"]
    );
    assert_eq!(rig.page_status(&rig.beta, "").await.0, 200);
    rig.platform.advance(Duration::from_millis(59_000));
    let (status, body) = rig.page_status(&rig.alpha, "").await;
    assert_eq!((status, &body["retry_after"]), (429, &json!(0)));
    rig.platform.advance(Duration::from_secs(1));
    assert_eq!(rig.page_status(&rig.alpha, "").await.0, 200);
}

#[tokio::test]
async fn tenant_guard_requires_org_except_heartbeats() {
    let rig = Rig::with(MoleculeOptions {
        edition: Edition::New,
        tenant: Some(Tenant {
            org: "org-1".to_owned(),
            origin_counts: true,
        }),
        ..MoleculeOptions::default()
    })
    .await;
    assert_eq!(rig.beat(&rig.alpha).await.0, 200);
    let (status, body) = rig.page_status(&rig.alpha, "").await;
    assert_eq!(
        (status, &body["code"]),
        (400, &json!("TENANT_ORG_HEADER_REQUIRED"))
    );
    let origin = rig.platform.url();
    let cases = [
        ("X-Molecule-Org-Id", "org-1", 200),
        ("X-Molecule-Org-Id", "org-2", 404),
        ("Origin", origin.as_str(), 200),
        ("Origin", "http://elsewhere", 403),
    ];
    for (name, value, status) in cases {
        let call = rig
            .own(Method::GET, &rig.alpha, "/activity")
            .header(name, value);
        assert_eq!(
            call.send().await.unwrap().status(),
            status,
            "{name}: {value}"
        );
    }
    let seen = rig.platform.calls();
    assert_eq!(seen[2].org.as_deref(), Some("org-1"));
    assert_eq!(seen[4].origin.as_deref(), Some(origin.as_str()));
}
