//! Lists and counts for people: the record of acts, conversations, what was said, by whom, and what came of it.

use crate::audit::over;
use crate::nodes::{call, get};
use crate::service::{Put, TestService, message};
use axum::http::{Method, StatusCode};
use bridge_core::step::{Receive, Record};
use bridge_core::value::{AuditCheck, AuditEntry, AuditLink};
use bridge_front::{
    AuditList, BridgeService, ChannelList, ConversationList, OutcomesView, Problem, SearchList,
    SenderList,
};
use serde_json::Value;

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

async fn keys(service: &TestService, query: &str) -> Vec<String> {
    let list: ConversationList = get(service, &format!("/v1/conversations?{query}")).await;
    let keys = list.conversations.into_iter();
    keys.map(|one| one.conversation.key).collect()
}

#[tokio::test(start_paused = true)]
async fn conversations_are_filtered() {
    let service = TestService::new();
    for id in ["m1-one", "m2-two", "m3-three"] {
        service.pass_ms(1_000);
        service.receives(id).await;
    }
    service.does(message("m4-a2a", "a2a", "bob")).await.unwrap();
    service
        .does(Put(over("m2-two", service.now())))
        .await
        .unwrap();
    assert_eq!(keys(&service, "channel=a2a").await, ["m4-a2a"]);
    assert_eq!(keys(&service, "phase=failed").await, ["m2-two"]);
    assert_eq!(keys(&service, "text=THREE").await, ["m3-three"]);
    assert_eq!(keys(&service, "text=hello&channel=a2a").await, ["m4-a2a"]);
    assert_eq!(keys(&service, "phase=waiting%20for%20you").await.len(), 0);
    let path = "/v1/conversations?phase=sad";
    let (status, problem): (_, Problem) = call(&service, Method::GET, path, Value::Null).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(problem.detail.contains("waiting for you"), "{problem:?}");
    let page = "/v1/conversations?channel=local&limit=2";
    let first: ConversationList = get(&service, page).await;
    assert_eq!(first.conversations.len(), 2);
    let next = first.next.unwrap();
    let rest: ConversationList = get(&service, &format!("{page}&before={next}")).await;
    assert_eq!((rest.conversations.len(), rest.next), (1, None));
}

#[tokio::test(start_paused = true)]
async fn search_shows_place_and_reach() {
    let service = TestService::new();
    let said = Receive {
        body: "Please\ndeploy <b>it</b>".to_owned(),
        ..message("m1-one", "local", "ann")
    };
    service.does(said).await.unwrap();
    service.receives("m2-two").await;
    let list: SearchList = get(&service, "/v1/search?text=DEPLOY").await;
    let [found] = list.found.as_slice() else {
        panic!("{list:?}");
    };
    assert_eq!(found.message_id, "m1-one");
    assert_eq!(found.excerpt, "Please deploy <b>it</b>");
    assert_eq!(
        (found.place.as_str(), found.sender.as_str()),
        ("text", "ann")
    );
    assert_eq!((list.looked_at, list.next), (2, None));
    assert_eq!(list.detail, "searched all 2 messages");
    let path = "/v1/search?text=%20";
    let (status, _): (_, Problem) = call(&service, Method::GET, path, Value::Null).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test(start_paused = true)]
async fn search_goes_on_over_its_pieces() {
    let service = TestService::new();
    for n in 100..350 {
        let body = if n % 100 == 0 { "needle" } else { "hay" };
        let said = Receive {
            body: body.to_owned(),
            ..message(&format!("m{n}-x"), "local", "ann")
        };
        service.does(said).await.unwrap();
    }
    let ids = |list: &SearchList| -> Vec<String> {
        list.found
            .iter()
            .map(|one| one.message_id.clone())
            .collect()
    };
    let all: SearchList = get(&service, "/v1/search?text=needle").await;
    assert_eq!(ids(&all), ["m300-x", "m200-x", "m100-x"]);
    assert_eq!((all.looked_at, all.next), (250, None));
    let two: SearchList = get(&service, "/v1/search?text=needle&limit=2").await;
    assert_eq!(ids(&two), ["m300-x", "m200-x"]);
    let next = two.next.unwrap();
    let path = format!("/v1/search?text=needle&before={next}");
    let rest: SearchList = get(&service, &path).await;
    assert_eq!(
        (ids(&rest), rest.looked_at),
        (vec!["m100-x".to_owned()], 100)
    );
}

#[tokio::test(start_paused = true)]
async fn senders_channels_and_figures_agree() {
    let service = TestService::new();
    service.receives("m1-one").await;
    service.does(message("m2-two", "a2a", "bob")).await.unwrap();
    service
        .does(Put(over("m1-one", service.now())))
        .await
        .unwrap();
    let channels: ChannelList = get(&service, "/v1/channels").await;
    let seen = channels.channels.iter();
    let seen: Vec<_> = seen.map(|one| (&*one.channel, one.messages)).collect();
    assert_eq!(seen, [("a2a", 1), ("local", 1)]);
    let senders: SenderList = get(&service, "/v1/senders").await;
    let mut names: Vec<_> = senders.senders.iter().map(|one| &*one.sender).collect();
    names.sort_unstable();
    assert_eq!((names, senders.left), (vec!["ann", "bob"], 0));
    assert_eq!(senders.senders[0].used.turns, Some(0));
    assert_eq!(senders.senders[0].budget, None);
    let figures: OutcomesView = get(&service, "/v1/figures?hours=2").await;
    assert_eq!(figures.hours.len(), 2);
    assert_eq!((figures.total.failed, figures.total.answered), (1, 0));
    assert_eq!(figures.hours[1].ends, figures.total);
    assert_eq!(figures.failures[0].messages, 1);
}
