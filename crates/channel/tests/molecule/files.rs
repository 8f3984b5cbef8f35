//! Files of messages and replies: here before their message, acknowledged after it, fetched from nowhere else, and
//! never longer than allowed, whatever the platform serves.

use crate::stage::{Fetching, Tray, channel, may, message, platform, reply, settings};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::routing::get;
use bridge_channel::Arrival;
use bridge_channel::files::{Bundle, FILE_MAX_BYTES, FileStore};
use bridge_channel::molecule::Molecule;
use bridge_core::port::Sink;
use bridge_core::value::{Attachment, Class, Failure};
use bridge_sim::molecule::{
    Edition, MoleculeFault, MoleculePlatform, Route, Said, SaidFile, Workspace,
};
use futures_util::stream;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// A picture of one pixel, as far as anybody looks.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0";

struct BridgeService {
    platform: MoleculePlatform,
    own: Workspace,
    channel: Molecule,
    root: TempDir,
    file_store: FileStore,
}

impl BridgeService {
    async fn new(edition: Edition, max_bytes: u64) -> Self {
        let (platform, own) = platform(edition).await;
        let channel = channel(&platform, &own);
        let root = tempfile::tempdir().unwrap();
        let file_store = FileStore::open(root.path().join("files"), max_bytes).unwrap();
        channel.keep_files_in(file_store.clone());
        Self {
            platform,
            own,
            channel,
            root,
            file_store,
        }
    }

    fn files<'a>(&self, arrival: &'a Arrival) -> Vec<(&'a str, &'a str, Vec<u8>)> {
        let files = arrival.extras.attachments.iter();
        files
            .map(|file| {
                let bytes = self.file_store.read(&file.digest).unwrap();
                (file.name.as_str(), file.media_type.as_str(), bytes)
            })
            .collect()
    }

    fn fetch(&self) -> Fetching {
        Fetching::start(self.channel.clone(), Tray::new())
    }

    fn says(&self, text: &str, files: &[(&str, &[u8])]) {
        let file = |(name, bytes): &(&str, &[u8])| SaidFile {
            name: (*name).to_owned(),
            media_type: "text/plain".to_owned(),
            bytes: bytes.to_vec(),
        };
        let said = Said {
            files: files.iter().map(file).collect(),
            ..Said::text(text)
        };
        self.platform.canvas_says_with(&self.own, &said).unwrap();
    }

    /// Names files by their address, without an upload.
    fn names(&self, text: &str, addresses: &[String]) {
        let part = |uri: &String| json!({"kind": "file", "file": {"uri": uri, "name": "x.txt"}});
        let said = Said {
            parts: addresses.iter().map(part).collect(),
            ..Said::text(text)
        };
        self.platform.canvas_says_with(&self.own, &said).unwrap();
    }

    /// The names of the uploads that were acknowledged, sorted.
    fn forgotten(&self) -> Vec<String> {
        let files = self.platform.files_of(&self.own).into_iter();
        let mut names: Vec<String> = files
            .filter(|file| file.acked)
            .map(|file| file.name)
            .collect();
        names.sort();
        names
    }

    fn acked(&self) -> Vec<bool> {
        let files = self.platform.files_of(&self.own);
        files.iter().map(|file| file.acked).collect()
    }

    async fn until_acked(&self) {
        let all = |platform: &MoleculePlatform| {
            platform.files_of(&self.own).iter().all(|file| file.acked)
        };
        self.platform.wait_until("acks", all).await.unwrap();
    }

    fn called(&self, route: Route) -> usize {
        let calls = self.platform.calls();
        calls.iter().filter(|seen| seen.route == route).count()
    }

    async fn until_called(&self, route: Route, times: usize) {
        let called = |_: &MoleculePlatform| self.called(route) >= times;
        self.platform.wait_until("calls", called).await.unwrap();
    }
}

fn drafts(root: &Path) -> usize {
    std::fs::read_dir(root.join("files/drafts"))
        .unwrap()
        .count()
}

#[tokio::test]
async fn files_arrive_with_message_and_are_acked() {
    for edition in [Edition::Seed, Edition::New] {
        let service = BridgeService::new(edition, FILE_MAX_BYTES).await;
        service.says("look", &[("a.png", PNG), ("a.png", b"hello")]);
        let fetching = service.fetch();
        let held = fetching.tray.until("it", |held| !held.arrivals.is_empty());
        let held = held.await;
        assert_eq!(held.texts(), ["look"]);
        let expected = [
            ("a.png", "image/png", PNG.to_vec()),
            ("a (2).png", "text/plain", b"hello".to_vec()),
        ];
        assert_eq!(service.files(&held.arrivals[0]), expected);
        service.until_acked().await;
        assert_eq!(service.acked(), [true, true]);
    }
}

#[tokio::test]
async fn d5_inline_files_are_kept_or_named() {
    let service = BridgeService::new(Edition::New, 1_000).await;
    let inline = |name: &str, bytes: &str| json!({"kind": "file", "file": {"name": name, "bytes": bytes, "mimeType": "text/plain"}});
    let said = Said {
        parts: vec![
            inline("a.txt", "aGVsbG8="),
            inline("long.bin", &"AAAA".repeat(500)),
            inline("broken.txt", "%%%"),
            json!({"data": {"a": 1}}),
            json!({"kind": "video", "video": "x"}),
        ],
        ..Said::text("look")
    };
    service
        .platform
        .canvas_says_with(&service.own, &said)
        .unwrap();
    let fetching = service.fetch();
    let held = fetching.tray.until("it", |held| !held.arrivals.is_empty());
    let held = held.await;
    let expected = [("a.txt", "text/plain", b"hello".to_vec())];
    assert_eq!(service.files(&held.arrivals[0]), expected);
    let body = &held.arrivals[0].body;
    assert!(
        body.starts_with("look\n```json\n{\"a\":1}\n```\n\n"),
        "{body}"
    );
    for named in [
        "kind \"video\"",
        "`long.bin`: it is longer than 1000 bytes",
        "`broken.txt`: its content in the message is no base64",
    ] {
        assert!(body.contains(named), "{named}: {body}");
    }
    assert_eq!(drafts(service.root.path()), 0);
}

/// While the inbox is closed the row is shown again and again, and its file is fetched not once.
#[tokio::test]
async fn closed_inbox_fetches_no_files() {
    let service = BridgeService::new(Edition::Seed, FILE_MAX_BYTES).await;
    let tray = Tray::new();
    tray.make_room(Some(0));
    service.says("look", &[("a.txt", b"hello")]);
    let fetching = Fetching::start(service.channel.clone(), tray);
    service.until_called(Route::Activity, 4).await;
    assert_eq!(service.called(Route::PendingContent), 0);
    assert_eq!(service.acked(), [false]);
    fetching.tray.make_room(None);
    let held = fetching.tray.until("it", |held| !held.arrivals.is_empty());
    let held = held.await;
    assert_eq!(service.files(&held.arrivals[0])[0].2, b"hello");
    service.until_acked().await;
    assert_eq!(service.called(Route::PendingContent), 1);
}

/// The platform forgets what is acknowledged, so only what is here may be.
#[tokio::test]
async fn unstored_upload_is_not_acked() {
    let service = BridgeService::new(Edition::New, 1_000).await;
    service.says("look", &[("big.bin", &[7; 5_000]), ("small.txt", b"hello")]);
    service.says("/status", &[("with-a-command.txt", b"hello")]);
    service.says("last", &[("last.txt", b"hello")]);
    let first = service.fetch();
    let kept = |_: &MoleculePlatform| service.forgotten() == ["last.txt", "small.txt"];
    service.platform.wait_until("acks", kept).await.unwrap();
    assert_eq!(service.called(Route::PendingAck), 2);
    // The next life sees the same rows, and knows no more of them than that a file is missing.
    let tray = first.tray.clone();
    drop(first);
    let next = Molecule::open(settings(&service.platform, &service.own)).unwrap();
    let _next = Fetching::start(next, tray);
    // Of the last one, once more; what is before it would have come before it.
    service.until_called(Route::PendingAck, 3).await;
    assert_eq!(service.called(Route::PendingAck), 3);
    assert_eq!(service.forgotten(), ["last.txt", "small.txt"]);
}

/// One upload that the platform will not hear of keeps no other waiting.
#[tokio::test]
async fn failed_ack_blocks_no_other() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    service
        .platform
        .script(Route::PendingAck, [MoleculeFault::refuse(500, "no")]);
    service.says("look", &[("a.txt", b"one"), ("b.txt", b"two")]);
    let _fetching = service.fetch();
    service.until_called(Route::PendingAck, 2).await;
    let second = |_: &MoleculePlatform| service.forgotten() == ["b.txt"];
    service.platform.wait_until("ack", second).await.unwrap();
}

/// After a death between the commit and the ack, the next life neither fetches nor forgets to acknowledge.
#[tokio::test]
async fn known_upload_is_acked_without_refetch() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    service
        .platform
        .stand(Route::PendingAck, MoleculeFault::refuse(500, "no"));
    service.says("look", &[("a.txt", b"hello")]);
    let first = service.fetch();
    service.until_called(Route::PendingAck, 1).await;
    let tray = first.tray.clone();
    drop(first);
    let fetched = service.platform.count(Route::PendingContent, 200);
    service
        .platform
        .stand(Route::PendingAck, MoleculeFault::None);
    let next = Molecule::open(settings(&service.platform, &service.own)).unwrap();
    let _next = Fetching::start(next, tray);
    service.until_acked().await;
    assert_eq!(service.platform.count(Route::PendingContent, 200), fetched);
}

#[tokio::test]
async fn delayed_file_blocks_only_later_messages() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let faults = [
        MoleculeFault::refuse(500, "query failed"),
        MoleculeFault::ResetMidBody,
    ];
    service.platform.script(Route::PendingContent, faults);
    service.says("first", &[]);
    service.says(
        "second",
        &[("a.txt", b"hello, and enough to be cut in two")],
    );
    service.says("third", &[]);
    let fetching = service.fetch();
    service.until_called(Route::PendingContent, 1).await;
    assert_eq!(fetching.tray.until_texts(1).await, ["first"]);
    let texts = fetching.tray.until_texts(3).await;
    assert_eq!(texts, ["first", "second", "third"]);
    let held = fetching.tray.held();
    assert_eq!(service.files(&held.arrivals[1])[0].2.len(), 34);
    assert_eq!(drafts(service.root.path()), 0);
}

/// A file that does not come holds back its own conversation, and neither commands nor others.
#[tokio::test]
async fn stop_and_other_conversations_pass_delayed_file() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let peer = service.platform.add_workspace("beta");
    service.platform.stand(
        Route::PendingContent,
        MoleculeFault::Hold("file".to_owned()),
    );
    service.says("second", &[("a.txt", b"hello")]);
    service.says("third", &[]);
    service.says("/new", &[]);
    service.says("/stop", &[]);
    service
        .platform
        .peer_says(&peer, &service.own, "aside")
        .unwrap();
    let fetching = service.fetch();
    assert_eq!(fetching.tray.until_texts(2).await, ["/stop", "aside"]);
    service.until_called(Route::PendingContent, 1).await;
    assert_eq!(fetching.tray.held().texts(), ["/stop", "aside"]);
    service.platform.open_gate("file");
    let texts = fetching.tray.until_texts(5).await;
    assert_eq!(texts, ["/stop", "aside", "second", "third", "/new"]);
}

/// The feed is readable, and this one file is refused as if the token were wrong.
#[tokio::test]
async fn unauthorized_file_does_not_stop_feed() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    service
        .platform
        .stand(Route::PendingContent, MoleculeFault::refuse(401, "no"));
    service.says("look", &[("a.txt", b"hello")]);
    let fetching = service.fetch();
    service.until_called(Route::PendingContent, 1).await;
    service.says("/status", &[]);
    assert_eq!(fetching.tray.until_texts(1).await, ["/status"]);
}

#[tokio::test]
async fn missing_file_is_named_in_text() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let gone = "platform-pending:{}/cdceaeff-1eaf-446a-856b-b376a8fa6afe";
    service.names("look", &[gone.replace("{}", &service.own.id)]);
    let fetching = service.fetch();
    let text = fetching.tray.until_texts(1).await.remove(0);
    assert!(text.starts_with("look\n\n[codex-bridge] Files"), "{text}");
    assert!(text.contains("`x.txt`: it answered 404"), "{text}");
}

/// What a message names is not called: that is how a daemon is made to call what only it can reach.
#[tokio::test]
async fn threat_14_only_own_uploads_are_fetched() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let other = service.platform.add_workspace("beta");
    let trap = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let trap_url = format!("http://{}/secret", trap.local_addr().unwrap());
    let file = "cdceaeff-1eaf-446a-856b-b376a8fa6afe";
    service.names(
        "look",
        &[
            trap_url,
            "workspace:/etc/passwd".to_owned(),
            "file:///etc/passwd".to_owned(),
            format!("platform-pending:{}/{file}", other.id),
            format!("platform-pending:{}/../../{}", service.own.id, other.id),
        ],
    );
    let fetching = service.fetch();
    let text = fetching.tray.until_texts(1).await.remove(0);
    assert_eq!(
        text.matches("which the bridge does not call").count(),
        5,
        "{text}"
    );
    let calls = service.platform.calls();
    assert!(calls.iter().all(|seen| seen.route != Route::PendingContent));
    let called = tokio::time::timeout(std::time::Duration::ZERO, trap.accept()).await;
    assert!(called.is_err(), "somebody called the trap");
}

#[tokio::test]
async fn threat_14_names_of_files_are_labels() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let long = "n".repeat(5_000);
    let labels = [
        "../../etc/passwd",
        "/etc/shadow",
        "CON",
        ".bashrc",
        "-rf",
        "a\u{202e}gnp.exe",
        &long,
    ];
    let said: Vec<(&str, &[u8])> = labels.iter().map(|label| (*label, &b"x"[..])).collect();
    service.says("look", &said);
    let fetching = service.fetch();
    let held = fetching
        .tray
        .until("it", |held| !held.arrivals.is_empty())
        .await;
    let names: Vec<&str> = service
        .files(&held.arrivals[0])
        .iter()
        .map(|file| file.0)
        .collect();
    let short = "n".repeat(100);
    assert_eq!(
        names,
        [
            "passwd", "shadow", "file-CON", "bashrc", "rf", "agnp.exe", &short
        ]
    );
}

#[tokio::test]
async fn p10_ten_thousand_files_are_ten() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let file = "platform-pending:x/y".to_owned();
    service.names("look", &vec![file; 10_000]);
    service.says("next", &[]);
    let fetching = service.fetch();
    let texts = fetching.tray.until_texts(2).await;
    assert_eq!(texts[0].matches("`x.txt`").count(), 10, "{}", texts[0]);
    assert!(texts[0].contains("and more: a message can have 10 files"));
    assert_eq!(texts[1], "next");
}

#[tokio::test]
async fn p10_declared_oversize_file_is_skipped() {
    let service = BridgeService::new(Edition::New, 1_000).await;
    service.says("look", &[("big.bin", &[7; 5_000]), ("small.txt", b"hello")]);
    let fetching = service.fetch();
    let held = fetching
        .tray
        .until("it", |held| !held.arrivals.is_empty())
        .await;
    let arrival = &held.arrivals[0];
    assert_eq!(
        service.files(arrival),
        [("small.txt", "text/plain", b"hello".to_vec())]
    );
    assert!(
        arrival
            .body
            .contains("`big.bin`: it is longer than 1000 bytes"),
        "{}",
        arrival.body
    );
    assert_eq!(drafts(service.root.path()), 0);
}

/// One row, and a file that never ends.
async fn endless(own: &Workspace) -> (String, Arc<AtomicU64>) {
    let served = Arc::new(AtomicU64::new(0));
    let uri = format!(
        "platform-pending:{}/cdceaeff-1eaf-446a-856b-b376a8fa6afe",
        own.id
    );
    let parts = json!([{"kind": "text", "text": "look"}, {"kind": "file", "file": {"uri": uri, "name": "big"}}]);
    let row = json!([{"id": "b5e80fd0-f1b2-487e-a8af-ea98953ea6dd", "activity_type": "a2a_receive",
        "created_at": jiff::Timestamp::now().to_string(), "method": "message/send", "seq": 1, "source_id": null,
        "workspace_id": own.id, "request_body": {"params": {"message": {"parts": parts}}}}]);
    let content = |State(served): State<Arc<AtomicU64>>| async move {
        let chunk = vec![7_u8; 64 << 10];
        Body::from_stream(stream::repeat_with(move || {
            served.fetch_add(64 << 10, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(chunk.clone())
        }))
    };
    let app = Router::new()
        .route(
            "/workspaces/{id}/activity",
            get(move |RawQuery(query): RawQuery| async move {
                let older = query.is_some_and(|query| query.contains("before_ts"));
                axum::Json(if older { json!([]) } else { row })
            }),
        )
        .route(
            "/workspaces/{id}/pending-uploads/{file}/content",
            get(content),
        )
        .with_state(Arc::clone(&served));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, served)
}

#[tokio::test]
async fn p10_endless_file_is_cut_off() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let (url, served) = endless(&service.own).await;
    let mut settings = settings(&service.platform, &service.own);
    settings.platform_url = url;
    let channel = Molecule::open(settings).unwrap();
    let max = 1 << 20;
    channel.keep_files_in(FileStore::open(service.root.path().join("files"), max).unwrap());
    let fetching = Fetching::start(channel, Tray::new());
    let text = fetching.tray.until_texts(1).await.remove(0);
    assert!(
        text.contains("`big`: it is longer than 1048576 bytes"),
        "{text}"
    );
    let served = served.load(Ordering::Relaxed);
    // What the sockets between us hold is not ours to bound.
    assert!(served < max + (32 << 20), "{served} bytes were read");
    assert_eq!(drafts(service.root.path()), 0);
}

fn attachment(service: &BridgeService, name: &str, text: &str) -> Attachment {
    let mut draft = service.file_store.begin(u64::MAX).unwrap();
    draft.write(text.as_bytes()).unwrap();
    let mut bundle = Bundle::default();
    bundle.add("x", draft.keep("text/plain").unwrap());
    Attachment {
        name: name.to_owned(),
        ..bundle.into_files().remove(0)
    }
}

#[tokio::test]
async fn reply_files_are_uploaded_with_bubble() {
    for edition in [Edition::Seed, Edition::New] {
        let service = BridgeService::new(edition, FILE_MAX_BYTES).await;
        let message = message(&service.channel, "m1", None);
        let mut reply = reply(&message, "here it is");
        reply.attachments = vec![
            attachment(&service, "a b\"ü.txt", "one"),
            attachment(&service, "two.txt", "2"),
        ];
        // The answer to an upload is lost: nobody saw it, so it is a failure like any other.
        service
            .platform
            .script(Route::Upload, [MoleculeFault::LoseAnswer]);
        let fault = service
            .channel
            .send(&message, &reply, &may)
            .await
            .unwrap_err();
        assert_eq!(fault.failure.class, Class::Transient, "{fault:?}");
        assert_eq!(service.platform.bubbles(&service.own), []);
        service.channel.send(&message, &reply, &may).await.unwrap();
        let bubbles = service.platform.bubbles(&service.own);
        assert_eq!(bubbles.len(), 1);
        assert_eq!(bubbles[0].text, "here it is");
        let names: Vec<_> = bubbles[0]
            .attachments
            .iter()
            .map(|file| file["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a b_ü.txt", "two.txt"]);
        let mut kept: Vec<_> = service
            .platform
            .files_of(&service.own)
            .into_iter()
            .map(|file| file.bytes)
            .collect();
        kept.sort();
        assert_eq!(kept, [b"2".to_vec(), b"one".to_vec(), b"one".to_vec()]);
    }
}

/// Another node may have shown it meanwhile.
#[tokio::test]
async fn slow_uploads_outlast_no_lease() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let lease_is_over = || Failure::new(Class::Transient, "the lease is over");
    let until_uploaded = || match service.called(Route::Upload) {
        0 => Ok(()),
        _ => Err(lease_is_over()),
    };
    let to_person = message(&service.channel, "m1", None);
    let mut answer = reply(&to_person, "here it is");
    answer.attachments = vec![attachment(&service, "a.txt", "one")];
    let sent = service.channel.send(&to_person, &answer, &until_uploaded);
    assert_eq!(sent.await.unwrap_err().failure, lease_is_over());
    assert_eq!(service.platform.bubbles(&service.own), []);
    assert_eq!(service.called(Route::Upload), 1);
    let peer = service.platform.add_workspace("beta");
    let to_peer = message(&service.channel, "m2", Some(&peer));
    let answer = reply(&to_peer, "done");
    let sent = service.channel.send(&to_peer, &answer, &until_uploaded);
    assert_eq!(sent.await.unwrap_err().failure, lease_is_over());
    assert!(service.platform.inbox_of(&peer).is_empty());
}

#[tokio::test]
async fn refused_upload_does_not_delay_answer() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let message = message(&service.channel, "m1", None);
    let mut reply = reply(&message, "here it is");
    reply.attachments = vec![
        attachment(&service, "a.txt", "one"),
        attachment(&service, "b.txt", "two"),
    ];
    service
        .platform
        .script(Route::Upload, [MoleculeFault::refuse(402, "quota")]);
    service.channel.send(&message, &reply, &may).await.unwrap();
    let bubbles = service.platform.bubbles(&service.own);
    assert_eq!(bubbles.len(), 2);
    assert_eq!(
        (bubbles[0].text.as_str(), bubbles[0].attachments.len()),
        ("here it is", 1)
    );
    assert!(
        bubbles[1].text.contains("`a.txt`: it answered 402"),
        "{:?}",
        bubbles[1]
    );
}

/// The text is what somebody waits for: a storage that is away keeps it back for a few tries only.
#[tokio::test]
async fn storage_outage_delays_answer_only_briefly() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let message = message(&service.channel, "m1", None);
    let mut reply = reply(&message, "here it is");
    reply.attachments = vec![
        attachment(&service, "a.txt", "one"),
        attachment(&service, "b.txt", "two"),
    ];
    service
        .platform
        .stand(Route::Upload, MoleculeFault::refuse(503, "storage is away"));
    for tries in 1..=4 {
        reply.tries = tries;
        let fault = service
            .channel
            .send(&message, &reply, &may)
            .await
            .unwrap_err();
        assert_eq!(fault.failure.class, Class::Transient, "{fault:?}");
        let words = "the platform did not take a file of this reply";
        assert!(fault.failure.reason.starts_with(words), "{fault:?}");
    }
    assert_eq!(service.platform.bubbles(&service.own), []);
    reply.tries = 5;
    service.channel.send(&message, &reply, &may).await.unwrap();
    assert_eq!(service.called(Route::Upload), 5, "the second is not tried");
    let bubbles = service.platform.bubbles(&service.own);
    assert_eq!(bubbles.len(), 2);
    assert_eq!(bubbles[0].text, "here it is");
    for name in ["`a.txt`: it answered 503", "`b.txt`: it answered 503"] {
        assert!(bubbles[1].text.contains(name), "{:?}", bubbles[1]);
    }
}

#[tokio::test]
async fn peer_reply_names_unsent_files() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    let peer = service.platform.add_workspace("beta");
    let message = message(&service.channel, "m1", Some(&peer));
    let mut reply = reply(&message, "done");
    reply.attachments = vec![attachment(&service, "a.txt", "one")];
    service.channel.send(&message, &reply, &may).await.unwrap();
    let inbox = service.platform.inbox_of(&peer);
    assert!(
        inbox[0].text.starts_with("done\n\n[codex-bridge] Files"),
        "{:?}",
        inbox[0].text
    );
    assert_eq!(service.platform.count(Route::Upload, 200), 0);
}

/// Two rows carry the message: its file is fetched once, and what was said after it comes after it.
#[tokio::test]
async fn d2_files_come_with_one_message() {
    let service = BridgeService::new(Edition::New, FILE_MAX_BYTES).await;
    service.platform.push_until_registered(&service.own);
    service.says("read this", &[("notes.txt", b"notes")]);
    service.says("and then?", &[]);
    let fetching = service.fetch();
    assert_eq!(
        fetching.tray.until_texts(2).await,
        ["read this", "and then?"]
    );
    service.platform.canvas_says(&service.own, "last").unwrap();
    assert_eq!(fetching.tray.until_texts(3).await.last().unwrap(), "last");
    let held = fetching.tray.held();
    assert_eq!(held.arrivals[0].extras.attachments.len(), 1);
}
