//! What a platform that refuses is taken for, and that everything comes in once it does no more.

use crate::stage::{Fetching, Tray, channel, may, message, platform, reply, settings};
use bridge_channel::molecule::{ChannelState, Molecule, TokenSource};
use bridge_core::port::Sink;
use bridge_core::value::Class;
use bridge_sim::molecule::{Edition, MoleculeFault, MoleculePlatform, Route, Workspace};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

#[tokio::test]
async fn database_outage_is_no_token_error() {
    for edition in [Edition::Seed, Edition::New, Edition::August] {
        let (platform, own) = platform(edition).await;
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        fetching.until(&platform, ChannelState::Receiving).await;
        platform.set_database(false);
        let detail = fetching.until(&platform, ChannelState::Retrying).await;
        assert!(detail.contains("database is away"), "{detail}");
        platform.set_database(true);
        platform.canvas_says(&own, "while away").unwrap();
        assert_eq!(fetching.tray.until_texts(1).await, ["while away"]);
        fetching.until(&platform, ChannelState::Receiving).await;
    }
}

/// What another node reads meanwhile says nothing of this machine.
#[tokio::test]
async fn failing_channel_says_so_until_it_works() {
    let (platform, own) = platform(Edition::New).await;
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    fetching.until(&platform, ChannelState::Receiving).await;
    let channel = fetching.channel.clone();
    assert_eq!(channel.fails_for(), None);
    platform.set_database(false);
    fetching.until(&platform, ChannelState::Retrying).await;
    drop(fetching);
    channel.is_read_by(Some("b"));
    assert_eq!(channel.health().state, ChannelState::Retrying);
    assert!(!channel.works_again().await);
    assert!(channel.fails_for().is_some());
    platform.set_database(true);
    assert!(channel.works_again().await);
    assert_eq!(channel.fails_for(), None);
    channel.is_read_by(Some("b"));
    assert_eq!(channel.health().detail, "node b reads the feed");
}

#[tokio::test]
async fn p7_replaced_token_is_reread_without_restart() {
    let (platform, own) = platform(Edition::New).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, &own.token).unwrap();
    let mut settings = settings(&platform, &own);
    settings.token = TokenSource::File(file.clone());
    let fetching = Fetching::start(Molecule::open(settings).unwrap(), Tray::new());
    fetching.until(&platform, ChannelState::Receiving).await;
    let new = platform.rotate(&own);
    let detail = fetching.until(&platform, ChannelState::Parked).await;
    assert!(detail.starts_with("token refused"), "{detail}");
    platform.canvas_says(&own, "meanwhile").unwrap();
    std::fs::write(&file, &new.token).unwrap();
    assert_eq!(fetching.tray.until_texts(1).await, ["meanwhile"]);
    let secrets = fetching.channel.secrets();
    assert_eq!(
        (secrets[0].expose(), secrets[1].expose()),
        (&*new.token, &*own.token)
    );
}

/// What the channel says of a workspace that was removed.
async fn detail_of_removed(edition: Edition) -> String {
    let (platform, own) = platform(edition).await;
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    fetching.until(&platform, ChannelState::Receiving).await;
    platform.remove(&own);
    fetching.until(&platform, ChannelState::Parked).await
}

#[tokio::test]
async fn removed_workspace_parks_with_platform_hint() {
    let detail = detail_of_removed(Edition::New).await;
    assert!(
        detail.starts_with("workspace removed: Regenerate"),
        "{detail}"
    );
}

#[tokio::test]
async fn d7_a_long_hint_is_shown_whole() {
    let detail = detail_of_removed(Edition::August).await;
    let hint = "workspace removed: Create a replacement workspace in Canvas, then open Settings → Workspace Tokens → + New Token 20";
    assert!(detail.starts_with(hint), "{detail}");
}

/// A workspace on a platform, whose token is in a file.
async fn with_token_file(
    edition: Edition,
) -> (MoleculePlatform, Workspace, Fetching, PathBuf, TempDir) {
    let (platform, own) = platform(edition).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, &own.token).unwrap();
    let mut settings = settings(&platform, &own);
    settings.token = TokenSource::File(file.clone());
    let fetching = Fetching::start(Molecule::open(settings).unwrap(), Tray::new());
    fetching.until(&platform, ChannelState::Receiving).await;
    (platform, own, fetching, file, dir)
}

#[tokio::test]
async fn d4_revoking_the_last_token_parks() {
    for edition in [Edition::Seed, Edition::New, Edition::August] {
        let (platform, own, fetching, file, _dir) = with_token_file(edition).await;
        platform.revoke_tokens(&own);
        let detail = fetching.until(&platform, ChannelState::Parked).await;
        assert!(
            detail.starts_with("token refused: it was revoked; take a new one from the canvas"),
            "{detail}"
        );
        platform.canvas_says(&own, "meanwhile").unwrap();
        std::fs::write(&file, &platform.add_token(&own).token).unwrap();
        assert_eq!(fetching.tray.until_texts(1).await, ["meanwhile"]);
    }
}

#[tokio::test]
async fn d4_revoking_one_token_requests_another() {
    let (platform, own, fetching, file, _dir) = with_token_file(Edition::August).await;
    let other = platform.add_token(&own);
    platform.revoke_token(&own);
    let detail = fetching.until(&platform, ChannelState::Parked).await;
    assert!(
        detail.starts_with("token refused: copy the new one"),
        "{detail}"
    );
    platform.canvas_says(&own, "meanwhile").unwrap();
    std::fs::write(&file, &other.token).unwrap();
    assert_eq!(fetching.tray.until_texts(1).await, ["meanwhile"]);
}

/// The database is back before anybody asks why the feed was refused.
#[tokio::test]
async fn d4_a_short_outage_is_no_revocation() {
    let (platform, own) = platform(Edition::August).await;
    let refused = MoleculeFault::refuse(401, "invalid workspace auth token");
    platform.script(Route::Activity, [refused]);
    platform.canvas_says(&own, "hello").unwrap();
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    let detail = fetching.until(&platform, ChannelState::Retrying).await;
    assert!(detail.contains("database is away"), "{detail}");
    assert_eq!(fetching.tray.until_texts(1).await, ["hello"]);
}

/// An hour of 502, in virtual time: the calls are counted, and the first answer after it is taken at once.
#[tokio::test(start_paused = true)]
async fn p1_repeated_failures_back_off() {
    let (platform, own) = platform(Edition::New).await;
    platform.stand(Route::Activity, MoleculeFault::bad_gateway());
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    platform.canvas_says(&own, "hello").unwrap();
    let hour = Duration::from_secs(3_600);
    let _passed = tokio::time::timeout(hour, std::future::pending::<()>()).await;
    let calls = platform.count(Route::Activity, 502);
    assert!((60..=140).contains(&calls), "{calls} calls in an hour");
    assert_eq!(fetching.channel.health().state, ChannelState::Retrying);
    platform.stand(Route::Activity, MoleculeFault::None);
    let began = tokio::time::Instant::now();
    fetching.tray.until_texts(1).await;
    assert!(began.elapsed() <= Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn p9_retry_after_is_respected() {
    for (seconds, least) in [(30, 30), (0, 1)] {
        let (platform, own) = platform(Edition::New).await;
        platform.script(Route::Activity, [MoleculeFault::too_many(seconds)]);
        platform.canvas_says(&own, "hello").unwrap();
        let began = tokio::time::Instant::now();
        let fetching = Fetching::start(channel(&platform, &own), Tray::new());
        fetching.tray.until_texts(1).await;
        let waited = began.elapsed().as_secs();
        assert!(
            (least..least + 2).contains(&waited),
            "{waited} s for {seconds}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn p2_broken_pages_are_fetched_again() {
    let (platform, own) = platform(Edition::New).await;
    let faults = [
        MoleculeFault::ResetMidBody,
        MoleculeFault::Garble,
        MoleculeFault::Trickle(Duration::from_secs(2)),
        MoleculeFault::LoseAnswer,
    ];
    platform.script(Route::Activity, faults);
    platform.canvas_says(&own, "hello").unwrap();
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    let held = fetching
        .tray
        .until("hello", |held| !held.arrivals.is_empty());
    assert_eq!(held.await.texts(), ["hello"]);
}

#[tokio::test(start_paused = true)]
async fn p2_reply_is_ambiguous_after_bytes_sent() {
    let (mut platform, own) = platform(Edition::New).await;
    let channel = channel(&platform, &own);
    let message = message(&channel, "m1", None);
    for fault in [
        MoleculeFault::Withhold,
        MoleculeFault::Trickle(Duration::from_secs(10)),
        MoleculeFault::ResetMidBody,
        MoleculeFault::Cut,
    ] {
        platform.script(Route::Notify, [fault.clone()]);
        let failed = channel.send(&message, &reply(&message, "hi"), &may).await;
        assert_eq!(
            failed.unwrap_err().failure.class,
            Class::Ambiguous,
            "{fault:?}"
        );
    }
    platform.down().await;
    let failed = channel.send(&message, &reply(&message, "hi"), &may).await;
    assert_eq!(failed.unwrap_err().failure.class, Class::Transient);
}

/// What `doctor` asks must not be seen: a heartbeat would say that nothing is being done.
#[tokio::test]
async fn examine_reports_bad_token_without_heartbeat() {
    for edition in [Edition::Seed, Edition::New] {
        let (platform, own) = platform(edition).await;
        let channel = channel(&platform, &own);
        assert_eq!(channel.examine().await.refused, None);
        platform.set_database(false);
        let away = channel.examine().await;
        assert!(away.unreached.is_some() && away.refused.is_none());
        platform.set_database(true);
        platform.rotate(&own);
        let refused = channel.examine().await.refused.unwrap();
        assert!(refused.starts_with("token refused"), "{refused}");
        platform.remove(&own);
        let removed = channel.examine().await.workspace.unwrap();
        assert_eq!(removed.status, "removed");
        let asked = platform.calls();
        assert!(asked.iter().all(|call| call.route != Route::Heartbeat));
    }
}
