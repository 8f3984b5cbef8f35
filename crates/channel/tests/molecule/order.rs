//! One sender's messages keep their order though rows become visible late, behind others.

use crate::stage::{Fetching, Tray, channel, platform, settings};
use bridge_channel::molecule::Molecule;
use bridge_sim::molecule::{Edition, Late, MoleculeFault, MoleculePlatform, Route, Workspace};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const BOTH: [Edition; 2] = [Edition::Seed, Edition::New];
/// A row from before anything that a first start takes in.
fn plant_old_row(platform: &MoleculePlatform, own: &Workspace) {
    let row = json!({"created_at": "2026-01-01T00:00:00Z", "method": "notify"});
    platform.plant_row(own, row).unwrap();
}

/// A channel that reads the feed only when it hears of something, once it listens.
async fn listening(platform: &MoleculePlatform, own: &Workspace) -> Fetching {
    let mut settings = settings(platform, own);
    settings.wake = true;
    settings.poll = Duration::from_secs(3_600);
    let fetching = Fetching::start(Molecule::open(settings).unwrap(), Tray::new());
    let listens = |platform: &MoleculePlatform| platform.listening(own) == 1;
    platform.wait_until("a listener", listens).await.unwrap();
    fetching
}

/// One sender's first message becomes visible behind another sender's, before its second is sent.
async fn with_a_late_row(platform: &MoleculePlatform, own: &Workspace) -> Vec<String> {
    let [late, early] = ["beta", "gamma"].map(|name| platform.add_workspace(name));
    let fetching = listening(platform, own).await;
    platform.set_late_messages(Late::Held);
    platform.peer_says(&late, own, "first").unwrap();
    platform.set_late_messages(Late::Never);
    platform.peer_says(&early, own, "other").unwrap();
    fetching.tray.until_texts(1).await;
    platform.release_rows(own);
    platform.peer_says(&late, own, "second").unwrap();
    fetching.tray.until_texts(3).await
}

/// The first message of a sender commits after another sender's, and is behind it.
#[tokio::test]
async fn d3_a_quick_look_sees_late_rows() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        plant_old_row(&platform, &own);
        let texts = with_a_late_row(&platform, &own).await;
        assert_eq!(texts, ["other", "first", "second"], "{edition:?}");
    }
}

/// The same where the feed has no older row to begin after.
#[tokio::test]
async fn d3_a_new_feed_keeps_the_order() {
    let (platform, own) = platform(Edition::New).await;
    let texts = with_a_late_row(&platform, &own).await;
    assert_eq!(texts, ["other", "first", "second"]);
}

/// Pages of one look are snapshots of their own: a row becomes visible behind the first while the second is awaited.
/// With `old_row` the feed has a row from before the start; without it the feed is read from its first row on.
#[tokio::test]
async fn d3_order_is_kept_across_pages() {
    for (edition, old_row) in [
        (Edition::New, true),
        (Edition::Seed, true),
        (Edition::New, false),
    ] {
        let (platform, own) = platform(edition).await;
        let [late, early] = ["beta", "gamma"].map(|name| platform.add_workspace(name));
        if old_row {
            plant_old_row(&platform, &own);
        }
        platform.set_late_messages(Late::Held);
        platform.peer_says(&late, &own, "first").unwrap();
        platform.set_late_messages(Late::Never);
        for number in 0..120 {
            let text = format!("other {number}");
            platform.peer_says(&early, &own, &text).unwrap();
        }
        // Three pages back for the place; without an old row one more that shows nothing, and the first row
        // by itself. Then the first page forward.
        let before = if old_row { 3 } else { 5 };
        let mut faults = vec![MoleculeFault::None; before];
        faults.push(MoleculeFault::HoldAnswer("page".to_owned()));
        platform.script(Route::Activity, faults);
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        let asked = |platform: &MoleculePlatform| {
            let calls = platform.calls();
            calls
                .iter()
                .filter(|call| call.route == Route::Activity)
                .count()
                == before + 1
        };
        platform.wait_until("the first page", asked).await.unwrap();
        platform.release_rows(&own);
        platform.peer_says(&late, &own, "second").unwrap();
        platform.open_gate("page");
        let texts = fetching.tray.until_texts(122).await;
        let place = |text: &str| texts.iter().position(|other| other == text).unwrap();
        assert!(
            place("first") < place("second"),
            "{edition:?} {old_row} {texts:?}"
        );
        assert_eq!(place("other 119") - place("other 0"), 119, "{edition:?}");
    }
}

/// Late by a minute, behind the cursor, on two pages of a sweep.
#[tokio::test(start_paused = true)]
async fn d3_a_sweep_keeps_the_order() {
    for edition in BOTH {
        let (platform, own) = platform(edition).await;
        let [late, early] = ["beta", "gamma"].map(|name| platform.add_workspace(name));
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        for text in ["first", "second"] {
            platform.set_late_messages(Late::Held);
            platform.peer_says(&late, &own, text).unwrap();
            platform.set_late_messages(Late::Never);
            for number in 0..60 {
                let text = format!("other {number}");
                platform.peer_says(&early, &own, &text).unwrap();
            }
        }
        fetching.tray.until_texts(120).await;
        platform.advance(Duration::from_secs(60));
        let later = platform.canvas_says(&own, "later").unwrap();
        // Every later look begins behind this row, so only a sweep shows what is released now.
        let passed = |held: &crate::stage::Held| {
            let cursor = held.cursor.as_deref();
            cursor.is_some_and(|cursor| cursor.contains(&later))
        };
        fetching.tray.until("a cursor behind them", passed).await;
        platform.release_rows(&own);
        let texts = fetching.tray.until_texts(123).await;
        assert_eq!(texts[121..], ["first", "second"], "{edition:?}");
    }
}

/// Twenty senders, each of whom writes again when the platform has answered, and commits in the order of the lock.
#[tokio::test]
async fn d3_one_senders_order_is_kept() {
    const SENDERS: usize = 20;
    const EACH: usize = 15;
    let (platform, own) = platform(Edition::New).await;
    plant_old_row(&platform, &own);
    let fetching = listening(&platform, &own).await;
    platform.set_late_messages(Late::Locked(Duration::from_millis(4)));
    let senders = (0..SENDERS).map(|sender| {
        let (platform, own) = (&platform, &own);
        async move {
            let peer = platform.add_workspace(&format!("peer {sender}"));
            for number in 0..EACH {
                let text = format!("{number:02}");
                platform.peer_sends(&peer, own, &text).await.unwrap();
            }
        }
    });
    futures_util::future::join_all(senders).await;
    fetching.tray.until_texts(SENDERS * EACH).await;
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for arrival in fetching.tray.held().arrivals {
        of.entry(arrival.sender).or_default().push(arrival.body);
    }
    let order: Vec<String> = (0..EACH).map(|number| format!("{number:02}")).collect();
    assert!(of.values().all(|texts| *texts == order), "{of:#?}");
}
