//! What the console lists beyond messages: the record of acts.

use crate::nodes::get;
use crate::service::TestService;
use bridge_core::step::Record;
use bridge_core::value::{AuditCheck, AuditEntry, AuditLink};
use bridge_front::{AuditList, BridgeService};

async fn acts(service: &TestService, actor: &str, what: &str, subject: &str) {
    service.pass_ms(1_001);
    let entry = AuditEntry {
        at: service.now(),
        actor: actor.to_owned(),
        what: what.to_owned(),
        subject: subject.to_owned(),
        detail: "one\u{1f600}line".to_owned(),
    };
    service.does(Record { entry }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn audit_pages_verify_as_one_chain() {
    let service = TestService::new();
    for n in 0..5 {
        acts(&service, "ann (script)", "cancel", &format!("m{n}")).await;
    }
    let mut entries = Vec::new();
    let mut path = "/v1/audit?limit=2".to_owned();
    let last = loop {
        let page: AuditList = get(&service, &path).await;
        entries.extend(page.part.entries.clone());
        match page.next {
            Some(next) => path = format!("/v1/audit?limit=2&before={next}"),
            None => break page.part,
        }
    };
    let mut check = AuditCheck::behind(last.before, last.ends.unwrap().into());
    for entry in entries.into_iter().rev() {
        assert_eq!(entry.at_ms, entry.at.ms());
        check.next(&AuditLink::from(entry)).unwrap();
    }
    assert_eq!(check.end().map(|found| found.chained), Ok(5));
}

#[tokio::test(start_paused = true)]
async fn audit_is_filtered_by_who_and_when() {
    let service = TestService::new();
    acts(&service, "ann (script)", "cancel", "m1").await;
    let since = bridge_front::Time::from(service.now().plus_ms(1));
    acts(&service, "bob", "redrive", "m1").await;
    let rows = async |query: &str| {
        let page: AuditList = get(&service, &format!("/v1/audit?{query}")).await;
        let rows = page.part.entries.iter().map(|entry| entry.row);
        rows.collect::<Vec<_>>()
    };
    assert_eq!(rows("actor=ann").await, [1]);
    assert_eq!(rows("what=redrive").await, [2]);
    assert_eq!(rows("subject=m1").await, [2, 1]);
    assert_eq!(rows(&format!("since={since}")).await, [2]);
    assert_eq!(rows(&format!("until={since}&subject=m")).await, [1]);
}
