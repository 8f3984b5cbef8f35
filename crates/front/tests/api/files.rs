//! Files of messages and answers over `/v1`, as the console downloads them.

use crate::service::{Put, TestService, message};
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use bridge_core::port::Change;
use bridge_core::step::{Extras, Receive};
use bridge_core::value::{
    Attachment, ConversationId, FileDigest, MessageId, Reply, ReplyKey, ReplyKind, ReplyState, Seq,
};
use bridge_front::BridgeService;

const ID: &str = "m1-of-ann";

fn file(name: &str, content: &str) -> Attachment {
    let mut digest = [0; 32];
    digest[..content.len()].copy_from_slice(content.as_bytes());
    Attachment {
        name: name.to_owned(),
        media_type: "text/html".to_owned(),
        digest: FileDigest::new(digest),
        bytes: 3,
    }
}

async fn service() -> TestService {
    let service = TestService::new();
    let extras = Extras {
        attachments: vec![file("sent.html", "<b>sent"), file("gone.html", "")],
        ..Extras::default()
    };
    let receive = message(ID, "local", "ann");
    service.does(Receive { extras, ..receive }).await.unwrap();
    let (message_id, now) = (MessageId::new(ID), service.now());
    let reply = Change::NewReply(Reply {
        key: ReplyKey::of(&message_id, 0),
        message_id,
        ordinal: 0,
        conversation_id: ConversationId::new("c-m1-of-ann"),
        seq: Seq(1),
        kind: ReplyKind::Answer,
        body: "here".to_owned(),
        attachments: vec![file("made.html", "<b>made")],
        state: ReplyState::Queued { not_before: None },
        tries: 0,
        first_try_at: None,
        created_at: now,
    });
    service.does(Put(vec![reply])).await.unwrap();
    service
}

#[tokio::test(start_paused = true)]
async fn files_are_downloads_and_nothing_else() {
    let service = service().await;
    for (path, content) in [("files/0", "<b>sent"), ("answer/files/0", "<b>made")] {
        let request = Request::get(format!("/v1/messages/{ID}/{path}"));
        let request = request.body(Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(service.router(), request);
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let headers = answer.headers();
        assert_eq!(headers[header::CONTENT_TYPE], "text/html");
        assert_eq!(headers[header::CONTENT_DISPOSITION], "attachment");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], "sandbox");
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        assert_eq!(body, content);
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_are_not_there_are_404() {
    let service = service().await;
    for path in ["files/1", "files/2", "answer/files/1"] {
        let request = Request::get(format!("/v1/messages/{ID}/{path}"));
        let request = request.body(Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(service.router(), request);
        assert_eq!(
            answer.await.unwrap().status(),
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}
