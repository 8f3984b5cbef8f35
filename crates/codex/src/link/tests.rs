//! Tests of the pending table and of how texts are sorted.
//!
//! Texts are written by hand here; real transcripts are replayed in `tests/golden`.

use serde_json::json;

use super::*;
use crate::rpc::METHOD_NOT_FOUND;
use crate::wire::account::AccountReadParams;
use crate::wire::method::{AccountRead, INITIALIZED, QUICK_MS, ThreadArchive};
use crate::wire::thread::ThreadIdParams;
use bridge_core::value::ThreadId;

fn link(max_in_flight: usize) -> Link {
    Link::new(LinkOptions { max_in_flight })
}

fn ask(link: &mut Link, now_ms: u64) -> CallId {
    let (call, _) = link
        .request::<AccountRead>(&AccountReadParams::default(), now_ms)
        .unwrap();
    call
}

fn reply(call: CallId) -> String {
    json!({"id": call.0, "result": {}}).to_string()
}

#[test]
fn response_is_matched_to_request() {
    let mut link = link(64);
    let params = ThreadIdParams {
        thread_id: ThreadId::new("t\n1"),
    };
    let (call, text) = link.request::<ThreadArchive>(&params, 100).unwrap();
    assert_eq!(
        text,
        r#"{"id":1,"method":"thread/archive","params":{"threadId":"t\n1"}}"#
    );
    assert_eq!(
        link.handle(&reply(call), 130),
        Event::Response {
            call,
            result: Ok(json!({})),
            elapsed_ms: 30
        }
    );
    assert_eq!(link.in_flight(), 0);
}

#[test]
fn responses_are_matched_by_integer_id_only() {
    let mut link = link(64);
    let call = ask(&mut link, 0);
    for foreign in [
        r#"{"id":"1","result":{}}"#,
        r#"{"id":7,"result":{}}"#,
        r#"{"id":0,"result":{}}"#,
    ] {
        assert!(matches!(
            link.handle(foreign, 0),
            Event::Ignored(Ignored::ForeignResponse { .. })
        ));
    }
    assert!(matches!(
        link.handle(&reply(call), 0),
        Event::Response { .. }
    ));
    assert_eq!(
        link.handle(&reply(call), 0),
        Event::Ignored(Ignored::LateResponse { call })
    );
    assert_eq!(link.counters().foreign_responses, 3);
    assert_eq!(link.counters().late_responses, 1);
}

#[test]
fn in_flight_requests_are_bounded() {
    let mut link = link(2);
    let first = ask(&mut link, 0);
    ask(&mut link, 0);
    let full = link.request::<AccountRead>(&AccountReadParams::default(), 0);
    assert!(matches!(full, Err(LinkError::Full { in_flight: 2 })));
    link.handle(&reply(first), 0);
    assert_ne!(ask(&mut link, 0), first);
}

#[test]
fn requests_expire_in_deadline_order() {
    let mut link = link(64);
    let early = ask(&mut link, 0);
    let later = ask(&mut link, 5);
    assert_eq!(link.next_deadline(), Some(QUICK_MS));
    assert_eq!(link.expire(QUICK_MS - 1), []);
    assert_eq!(link.expire(QUICK_MS), [early]);
    assert_eq!(link.next_deadline(), Some(QUICK_MS + 5));
    assert!(matches!(
        link.handle(&reply(early), QUICK_MS),
        Event::Ignored(Ignored::LateResponse { .. })
    ));
    assert_eq!(link.fail_all(), [later]);
    assert_eq!(link.next_deadline(), None);
    assert_eq!(ask(&mut link, u64::MAX), CallId(3));
}

#[test]
fn response_echoes_the_request_id() {
    let mut link = link(64);
    for id in ["0", "\"0\"", "10"] {
        let text = format!(r#"{{"id":{id},"method":"new/thing","params":{{}}}}"#);
        let Event::Request(request) = link.handle(&text, 0) else {
            panic!("{text}");
        };
        let answer = link.respond(&request.id, request.decline());
        assert_eq!(
            answer,
            format!(
                r#"{{"error":{{"code":{METHOD_NOT_FOUND},"message":"new/thing is not offered by this client"}},"id":{id}}}"#
            )
        );
    }
    let outcome = Outcome::Result(json!({"decision": "accept"}));
    assert_eq!(
        link.respond(&RawId::Integer(0), outcome),
        r#"{"id":0,"result":{"decision":"accept"}}"#
    );
    assert_eq!(link.notify(INITIALIZED), r#"{"method":"initialized"}"#);
}

#[test]
fn unknown_notifications_are_counted_within_bounds() {
    let mut link = link(64);
    for n in 0..1000 {
        let event = link.handle(&format!(r#"{{"method":"new/{n}","params":{{}}}}"#), 0);
        assert!(matches!(
            event,
            Event::Ignored(Ignored::UnknownNotification { .. })
        ));
    }
    link.handle(r#"{"method":"new/0"}"#, 0);
    let counts = &link.counters().unknown_notifications;
    assert_eq!(counts.len(), MAX_COUNTED_METHODS + 1);
    assert_eq!(counts.values().sum::<u64>(), 1001);
    assert_eq!(counts["new/0"], 2);
}

#[test]
fn malformed_notification_is_forwarded_and_counted() {
    let mut link = link(64);
    let event = link.handle(
        r#"{"method":"turn/completed","params":{"threadId":"t"}}"#,
        0,
    );
    let Event::Notification(notification) = event else {
        panic!("{event:?}");
    };
    assert_eq!(notification.thread_id(), Some(&ThreadId::new("t")));
    assert_eq!(link.counters().malformed_notifications, 1);
    assert!(matches!(
        link.handle("{", 0),
        Event::Ignored(Ignored::Malformed { .. })
    ));
    assert_eq!(link.counters().malformed_lines, 1);
}
