//! A platform that refuses, loses and redelivers: every message is answered there, once, whatever it does with a reply
//! that comes twice.

use crate::stand::{PROBEABLE, SOCKET, Setup, Stand};
use crate::world::Daemon;
use bridge_sim::SinkKind;
use bridge_sim::history::{Promises, judge};
use bridge_sim::molecule::{MoleculeFault, Route};
use serde_json::json;

/// A daemon on a platform.
struct Served {
    stand: Stand,
    daemon: Daemon,
}

const LOST: MoleculeFault = MoleculeFault::LoseAnswer;

fn refused(status: u16) -> MoleculeFault {
    MoleculeFault::refuse(status, "as the script says")
}

async fn serve(setup: Setup) -> Served {
    let stand = Stand::new(setup).await;
    let daemon = stand.world.daemon().await;
    Served { stand, daemon }
}

impl Served {
    /// Stops the daemon and looks whether the platform saw every promise kept.
    async fn closed(self) {
        assert_eq!(self.daemon.stop().await, Some(0));
        let promises = Promises {
            seen_once: true,
            single_piece: true,
        };
        let history = self.stand.talks.history();
        let verdict = judge(&history, promises);
        assert_eq!(verdict.violations, [], "{history:?}");
    }
}

#[tokio::test]
async fn platform_messages_are_answered_in_order() {
    let served = serve(SOCKET).await;
    let stand = &served.stand;
    let first = stand.post("a", "echo:one");
    let second = stand.post("a", "echo:two");
    let other = stand.post("b", "echo:three");
    for row in [first, second, other] {
        stand.settled(row).await;
    }
    let mut seen = stand.talks.visible();
    seen.retain(|(row, _)| *row != other);
    assert_eq!(
        seen,
        [(first, "one".to_owned()), (second, "two".to_owned())]
    );
    served.closed().await;
}

/// P11: the platform took the reply, and the receipt was lost.
#[tokio::test]
async fn p11_lost_receipt_shows_reply_once() {
    for setup in [SOCKET, PROBEABLE] {
        let served = serve(setup).await;
        let stand = &served.stand;
        stand.talks.script_replies([LOST]);
        let row = stand.post("a", "echo:one");
        stand.settled(row).await;
        assert_eq!(stand.talks.visible(), [(row, "one".to_owned())]);
        assert_eq!(stand.world.times_asked("echo:one"), 1);
        served.closed().await;
    }
}

/// P11: a look that fails tells nothing, whatever kept it from telling: it is made again before anything is sent again.
#[tokio::test]
async fn p11_failed_probe_is_retried_before_resend() {
    for fault in [
        refused(503),
        MoleculeFault::too_many(0),
        refused(401),
        refused(404),
        MoleculeFault::Cut,
    ] {
        let served = serve(PROBEABLE).await;
        let stand = &served.stand;
        stand.talks.script_replies([LOST]);
        stand.talks.platform.script_looks([fault]);
        let row = stand.post("a", "echo:one");
        stand.settled(row).await;
        assert_eq!(stand.talks.visible(), [(row, "one".to_owned())]);
        served.closed().await;
    }
}

/// P11: where nothing proves anything, the operator chose: twice, or perhaps never.
#[tokio::test]
async fn p11_blind_sink_follows_on_unknown_setting() {
    let (resend, hold) = ("unknown_outcome = \"resend\"", "unknown_outcome = \"hold\"");
    for (keys, fault, seen) in [
        (resend, LOST, 2),
        (resend, MoleculeFault::Cut, 1),
        (hold, LOST, 1),
        (hold, MoleculeFault::Cut, 0),
    ] {
        let served = serve(Setup {
            kind: SinkKind::Blind,
            keys,
            ..SOCKET
        })
        .await;
        let stand = &served.stand;
        stand.talks.script_replies([fault.clone()]);
        stand.post("a", "echo:one");
        stand.quiet().await;
        let visible = stand.talks.visible();
        assert_eq!(visible.len(), seen, "{keys} {fault:?} {visible:?}");
        assert_eq!(served.daemon.stop().await, Some(0));
    }
}

/// P4: a platform that stores a message twice shows it again: nobody works on it again.
#[tokio::test]
async fn p4_redelivered_row_is_answered_once() {
    for setup in [SOCKET, PROBEABLE] {
        let served = serve(setup).await;
        let (stand, platform) = (&served.stand, &served.stand.talks.platform);
        let row = stand.post("a", "echo:one");
        stand.settled(row).await;
        let looks = platform.count(Route::Activity, 200);
        assert!(stand.talks.show_again(row));
        let again = |platform: &bridge_sim::molecule::MoleculePlatform| {
            platform.count(Route::Activity, 200) > looks + 1
        };
        platform.wait_until("more looks", again).await.unwrap();
        let next = stand.post("a", "echo:two");
        stand.settled(next).await;
        let (one, two) = ("one".to_owned(), "two".to_owned());
        assert_eq!(stand.talks.visible(), [(row, one), (next, two)]);
        assert_eq!(stand.world.times_asked("echo:one"), 1);
        served.closed().await;
    }
}

/// P3: one bad row is a dead letter, the rest pass.
#[tokio::test]
async fn p3_bad_row_does_not_block_others() {
    let served = serve(SOCKET).await;
    let (stand, talks) = (&served.stand, &served.stand.talks);
    let us = &talks.served()[0];
    let bad = json!({"source_id": "nobody", "request_body": 7});
    talks.platform.plant_row(us, bad).unwrap();
    talks.platform.plant_raw(us, json!("nonsense")).unwrap();
    let empty = stand.post("a", " ");
    let good = stand.post("a", "echo:one");
    stand.settled(good).await;
    let visible = talks.visible();
    assert_eq!(visible.len(), 2, "{visible:?}");
    assert_eq!(visible[0].0, empty);
    assert!(visible[0].1.contains("nothing to do"), "{visible:?}");
    assert_eq!(visible[1], (good, "one".to_owned()));
    let status = stand.world.json(&["status", "--json"]).await;
    assert_eq!(status["counts"]["dead"], 1, "{status:#}");
    served.closed().await;
}

/// K10, K11: the daemon dies after the platform took the reply and before the receipt is on disk.
#[tokio::test]
async fn k10_crash_while_sending_shows_reply_once() {
    let Served { mut stand, daemon } = serve(PROBEABLE).await;
    stand.talks.script_replies([LOST]);
    let row = stand.post("a", "echo:one");
    stand.replied(row).await;
    daemon.kill_9().await;
    stand.talks.platform.down().await;
    let mut daemon = stand.world.daemon().await;
    daemon.log.wait_for("the feed could not be read").await;
    stand.talks.platform.up().await.unwrap();
    stand.settled(row).await;
    assert_eq!(stand.world.times_asked("echo:one"), 1);
    Served { stand, daemon }.closed().await;
}

/// P7: a token that is not good any more holds everything up, and nothing is lost until it is again.
#[tokio::test]
async fn p7_daemon_recovers_from_refused_token() {
    let served = serve(PROBEABLE).await;
    let stand = &served.stand;
    for route in [Route::Activity, Route::Notify, Route::Ack] {
        stand.talks.platform.script(route, [refused(401)]);
    }
    let row = stand.post("a", "echo:one");
    stand.settled(row).await;
    assert_eq!(stand.talks.visible(), [(row, "one".to_owned())]);
    assert_eq!(stand.world.times_asked("echo:one"), 1);
    served.closed().await;
}

/// P8: a destination that is gone makes a dead letter; the next message of the conversation is not held up.
#[tokio::test]
async fn p8_undeliverable_reply_becomes_dead_letter() {
    let served = serve(SOCKET).await;
    let stand = &served.stand;
    stand.talks.script_replies([refused(404)]);
    stand.post("a", "echo:one");
    let next = stand.post("a", "echo:two");
    stand.settled(next).await;
    assert_eq!(stand.talks.visible(), [(next, "two".to_owned())]);
    let status = stand.world.json(&["status", "--json"]).await;
    assert_eq!(status["counts"]["dead"], 1, "{status:#}");
    assert_eq!(served.daemon.stop().await, Some(0));
}

/// Replies to a channel that is not configured any more wait for it.
#[tokio::test]
async fn replies_wait_for_unconfigured_channel() {
    let Served { stand, daemon } = serve(SOCKET).await;
    let world = &stand.world;
    stand.talks.script_replies([refused(503)]);
    let row = stand.post("a", "hold:gate echo:one");
    world.model.wait_held("gate").await.unwrap();
    daemon.kill_9().await;
    let settings = std::fs::read(world.config_file()).unwrap();
    std::fs::write(world.config_file(), "").unwrap();
    world.model.release("gate");
    let mut daemon = world.daemon().await;
    daemon.log.wait_for("is not configured any more").await;
    assert_eq!(daemon.stop().await, Some(0));
    std::fs::write(world.config_file(), settings).unwrap();
    let daemon = world.daemon().await;
    stand.settled(row).await;
    assert_eq!(stand.talks.visible(), [(row, "one".to_owned())]);
    Served { stand, daemon }.closed().await;
}
