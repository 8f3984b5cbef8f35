//! The feed: every row once, oldest first, however it is shown.

use crate::stage::{Fetching, Tray, channel, platform, settings};
use bridge_channel::molecule::{ChannelState, FirstStart, Molecule};
use bridge_core::step::Verdict;
use bridge_core::value::SenderKind;
use bridge_sim::molecule::{Edition, EventStream, FaultBody, Late, MoleculeFault, Route, Said};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const BOTH: [Edition; 2] = [Edition::Seed, Edition::New];

#[tokio::test]
async fn canvas_and_peer_messages_are_received() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        let peer = platform.add_workspace("beta");
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        platform.canvas_says(&own, "from a person").unwrap();
        platform.peer_says(&peer, &own, "from an agent").unwrap();
        fetching.tray.until_texts(2).await;
        let arrivals = fetching.tray.held().arrivals;
        assert_eq!(arrivals[0].conversation, format!("canvas:{}", own.id));
        assert_eq!(arrivals[0].kind, SenderKind::Person);
        assert_eq!(arrivals[1].conversation, format!("peer:{}", peer.id));
        assert_eq!(
            (arrivals[1].kind, &arrivals[1].sender),
            (SenderKind::Agent, &peer.id)
        );
        let seen = platform.calls();
        assert!(seen.iter().all(|call| call.origin == Some(platform.url())));
    }
}

#[tokio::test]
async fn p5_late_rows_behind_newest_are_found() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        platform.set_late_messages(Late::Looks(6));
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        let mut said = BTreeSet::new();
        for number in 0..400 {
            let text = format!("text {number}");
            platform.canvas_says(&own, &text).unwrap();
            said.insert(text);
            if number % 40 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let texts = fetching.tray.until_texts(said.len()).await;
        assert_eq!(texts.len(), said.len());
        assert_eq!(texts.into_iter().collect::<BTreeSet<_>>(), said);
    }
}

#[tokio::test]
async fn p4_repeated_page_adds_no_messages() {
    let (platform, own) = platform(Edition::New).await;
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    platform.script(
        Route::Activity,
        [MoleculeFault::Repeat, MoleculeFault::Reverse],
    );
    for number in 0..60 {
        platform.canvas_says(&own, &format!("{number}")).unwrap();
    }
    let texts = fetching.tray.until_texts(60).await;
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), 60);
}

#[tokio::test]
async fn first_start_reads_configured_history() {
    for (edition, minutes) in [(Edition::New, 10), (Edition::Seed, 10), (Edition::New, 0)] {
        let (platform, own) = platform(edition).await;
        for number in 0..130 {
            platform.canvas_says(&own, &format!("{number}")).unwrap();
        }
        let mut settings = settings(&platform, &own);
        settings.first_start = FirstStart { minutes };
        let fetching = Fetching::start(Molecule::open(settings).unwrap(), Tray::new());
        if minutes > 0 {
            let texts = fetching.tray.until_texts(130).await;
            let order: Vec<String> = (0..130).map(|number| number.to_string()).collect();
            assert_eq!(texts, order);
        } else {
            let begun = fetching
                .tray
                .until("a cursor", |held| held.cursor.is_some());
            begun.await;
        }
        platform.canvas_says(&own, "new").unwrap();
        let count = if minutes > 0 { 131 } else { 1 };
        assert_eq!(
            fetching.tray.until_texts(count).await.last().unwrap(),
            "new"
        );
    }
}

#[tokio::test]
async fn simultaneous_messages_are_all_received() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        let texts: Vec<String> = (0..7).map(|number| format!("at once {number}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        // The edge of a page is among them, whichever side the pages are counted from.
        for _ in 0..7 {
            platform.canvas_says_at_once(&own, &texts).unwrap();
            for _ in 0..40 {
                platform.canvas_says(&own, "alone").unwrap();
            }
        }
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        assert_eq!(fetching.tray.until_texts(7 * 47).await.len(), 7 * 47);
    }
}

/// Too old for a look back: only reading forward finds them.
#[tokio::test(start_paused = true)]
async fn catch_up_keeps_rows_at_page_edge() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        let texts: Vec<String> = (0..7).map(|number| format!("at once {number}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        // Read from the first row on, so the first full page ends after the fifty-first: among those at once.
        for _ in 0..48 {
            platform.canvas_says(&own, "alone").unwrap();
        }
        platform.canvas_says_at_once(&own, &texts).unwrap();
        platform.canvas_says(&own, "after").unwrap();
        platform.advance(Duration::from_secs(300));
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        let held = fetching.tray.until_texts(48 + 7 + 1).await;
        assert_eq!(held.len(), 48 + 7 + 1, "{edition:?}");
    }
}

/// More in one moment than a page shows: they are not all seen, but what comes after them is.
#[tokio::test(start_paused = true)]
async fn feed_passes_page_of_one_timestamp() {
    let (platform, own) = platform(Edition::Seed).await;
    platform.canvas_says(&own, "before").unwrap();
    let texts = ["at once"; 120];
    platform.canvas_says_at_once(&own, &texts).unwrap();
    platform.canvas_says(&own, "after").unwrap();
    platform.advance(Duration::from_secs(300));
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    fetching
        .tray
        .until("the last", |held| held.texts().contains(&"after"))
        .await;
}

#[tokio::test]
async fn p6_expired_cursor_resumes_by_time() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        let tray = Tray::new();
        let first = Fetching::start(channel(&platform, &own), tray.clone());
        platform.canvas_says(&own, "before").unwrap();
        first.tray.until_texts(1).await;
        let before = r#""row":""#;
        tray.until("a cursor", |held| held.cursor.is_some()).await;
        drop(first);
        // The row is watched for 30 s before the cursor moves to it; here the platform's own time passes.
        platform.advance(Duration::from_secs(40));
        platform.canvas_says(&own, "between").unwrap();
        let second = Fetching::start(channel(&platform, &own), tray.clone());
        let moved = |held: &crate::stage::Held| {
            let cursor = held.cursor.as_deref();
            cursor.is_some_and(|cursor| cursor.contains(before))
        };
        tray.until("a cursor on a row", moved).await;
        drop(second);
        for number in 0..120 {
            platform
                .canvas_says(&own, &format!("after {number}"))
                .unwrap();
        }
        platform.prune(&own, 110);
        let third = Fetching::start(channel(&platform, &own), tray.clone());
        let texts = third.tray.until_texts(112).await;
        assert_eq!(texts[2], "after 10", "{edition:?}");
        assert_eq!(texts[111], "after 119");
        assert!(platform.count(Route::Activity, 410) > 0);
    }
}

#[tokio::test]
async fn full_ledger_leaves_rows_on_platform() {
    let (platform, own) = platform(Edition::New).await;
    let tray = Tray::new();
    tray.make_room(Some(3));
    let fetching = Fetching::start(channel(&platform, &own), tray.clone());
    for number in 0..10 {
        platform.canvas_says(&own, &format!("{number}")).unwrap();
    }
    fetching.tray.until_texts(3).await;
    tray.make_room(None);
    let texts = fetching.tray.until_texts(10).await;
    let order: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(texts, order);
}

#[tokio::test]
async fn p3_one_bad_row_harms_no_other() {
    let (platform, own) = platform(Edition::New).await;
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let deep: serde_json::Value = serde_json::from_str(&deep).unwrap();
    platform.canvas_says(&own, "first").unwrap();
    // Each with what is wrong with it, and whether its writer gets an answer; one is meant for somebody else.
    let rows = [
        (json!({"request_body": 7}), Some(("it has no parts", true))),
        (
            json!({"request_body": {"params": {"message": {"parts": [deep]}}}}),
            Some(("a part that is no object", true)),
        ),
        (
            json!({"source_id": "nobody"}),
            Some(("from nobody: \"nobody\" is no workspace", false)),
        ),
        (json!({"method": 7}), Some(("can't be read", true))),
        (json!({"method": "tasks/get"}), None),
        (json!({"seq": "seven"}), Some(("it has no body", true))),
    ];
    let mut letters = Vec::new();
    for (row, wrong) in rows {
        let id = platform.plant_row(&own, row).unwrap();
        letters.extend(wrong.map(|(why, tell)| (id, why, tell)));
    }
    let long = "x".repeat(100_000);
    for raw in [
        json!(null),
        json!("nonsense"),
        json!([]),
        json!({"id": 7}),
        json!({"id": long, "method": "message/send", "activity_type": "a2a_receive"}),
    ] {
        platform.plant_raw(&own, raw).unwrap();
    }
    platform.canvas_says(&own, "last").unwrap();
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    let held = fetching
        .tray
        .until("the last", |held| held.texts().contains(&"last"))
        .await;
    let (first, rest) = held.arrivals.split_first().unwrap();
    let (last, dead) = rest.split_last().unwrap();
    assert_eq!((first.body.as_str(), last.body.as_str()), ("first", "last"));
    assert_eq!(dead.len(), letters.len(), "{dead:?}");
    for (arrival, (id, why, tell)) in dead.iter().zip(&letters) {
        assert_eq!(arrival.external_id.as_str(), id);
        let Verdict::Unfit {
            reason,
            tell: answered,
        } = &arrival.verdict
        else {
            panic!("{arrival:?}");
        };
        assert!(reason.contains(why), "{reason} for {why}");
        assert_eq!(answered, tell, "{reason}");
    }
}

#[tokio::test]
async fn p10_oversized_row_is_skipped() {
    let (platform, own) = platform(Edition::New).await;
    platform.canvas_says(&own, "before").unwrap();
    platform.plant_bubble(&own, &"x".repeat(17 << 20)).unwrap();
    platform.canvas_says(&own, "after").unwrap();
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    let held = fetching
        .tray
        .until("both", |held| {
            let texts = held.texts();
            texts.contains(&"before") && texts.contains(&"after")
        })
        .await;
    assert_eq!(held.texts().first(), Some(&"before"));
}

#[tokio::test]
async fn feed_wakes_on_events_or_polls() {
    for stream in [
        EventStream::On,
        EventStream::Off,
        EventStream::Silent,
        EventStream::Ends,
    ] {
        let (platform, own) = platform(Edition::New).await;
        platform.set_event_stream(stream);
        let mut settings = settings(&platform, &own);
        settings.wake = true;
        if stream == EventStream::On {
            settings.poll = Duration::from_secs(3_600);
        }
        let fetching = Fetching::start(Molecule::open(settings).unwrap(), Tray::new());
        if stream == EventStream::On {
            let listening =
                |platform: &bridge_sim::molecule::MoleculePlatform| platform.listening(&own) == 1;
            platform.wait_until("a listener", listening).await.unwrap();
        }
        platform.canvas_says(&own, "hello").unwrap();
        assert_eq!(fetching.tray.until_texts(1).await, ["hello"], "{stream:?}");
    }
}

#[tokio::test]
async fn context_and_hops_arrive_with_message() {
    let (platform, own) = platform(Edition::New).await;
    let peer = platform.add_workspace("beta");
    let said = Said {
        context: Some("talk-7".to_owned()),
        metadata: Some(json!({"codex_bridge_hops": 4})),
        ..Said::text("hello")
    };
    platform.peer_says_with(&peer, &own, &said).unwrap();
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    fetching.tray.until_texts(1).await;
    let arrivals = fetching.tray.held().arrivals;
    assert_eq!(arrivals[0].extras.context.as_deref(), Some("talk-7"));
    assert_eq!(arrivals[0].extras.hops, 4);
}

/// An answer that is no page is no empty page: it is reported, the cursor stays, and the page is fetched again.
#[tokio::test]
async fn p3_invalid_page_moves_no_cursor() {
    let (platform, own) = platform(Edition::New).await;
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    platform.canvas_says(&own, "0").unwrap();
    fetching.tray.until_texts(1).await;
    tokio::time::pause();
    let wrong = [
        FaultBody::Html,
        FaultBody::Empty,
        FaultBody::Json(json!(null)),
        FaultBody::Json(json!({"rows": []})),
        FaultBody::Json(json!(1e300)),
        FaultBody::Json(json!("[]")),
    ];
    for (at, body) in wrong.into_iter().enumerate() {
        fetching.until(&platform, ChannelState::Receiving).await;
        let before = fetching.tray.held();
        let page = MoleculeFault::Refuse {
            status: 200,
            retry_after: None,
            body: body.clone(),
        };
        platform.stand(Route::Activity, page);
        platform.canvas_says(&own, "next").unwrap();
        let detail = fetching.until(&platform, ChannelState::Retrying).await;
        assert!(detail.contains("can't be read"), "{body:?}: {detail}");
        let held = fetching.tray.held();
        assert_eq!(
            (held.arrivals.len(), held.cursor),
            (at + 1, before.cursor),
            "{body:?}"
        );
        platform.stand(Route::Activity, MoleculeFault::None);
        fetching.tray.until_texts(at + 2).await;
    }
}

/// A row that is written now and seen a minute later, when everything after it was read: a sweep finds it.
#[tokio::test(start_paused = true)]
async fn p5_sweep_finds_minute_late_row() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        platform.set_late_messages(Late::Held);
        platform.canvas_says(&own, "late").unwrap();
        platform.set_late_messages(Late::Never);
        let early = platform.canvas_says(&own, "early").unwrap();
        fetching.tray.until_texts(1).await;
        platform.advance(Duration::from_secs(60));
        platform.canvas_says(&own, "later").unwrap();
        let passed = |held: &crate::stage::Held| {
            let cursor = held.cursor.as_deref();
            cursor.is_some_and(|cursor| cursor.contains(&early))
        };
        fetching.tray.until("a cursor behind it", passed).await;
        platform.release_rows(&own);
        let texts = fetching.tray.until_texts(3).await;
        assert_eq!(texts, ["early", "later", "late"], "{edition:?}");
    }
}
