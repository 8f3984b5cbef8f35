//! A platform that refuses, loses and redelivers: every message is answered there, once.

use crate::world::{Daemon, World, within};
use bridge_sim::history::{Event, Fact, Promises, RowId, judge};
use bridge_sim::{Call, Fault, Memory, Platform, PlatformOptions};
use serde_json::json;

/// A daemon on a platform.
struct Served {
    world: World,
    platform: Platform,
    daemon: Daemon,
}

const LOST: Fault = Fault::LoseResponse;

fn refused(status: u16, retry_after: Option<u32>) -> Fault {
    Fault::Refuse {
        status,
        retry_after,
    }
}

/// `settings` are further lines of the section `[loopback]`.
async fn serve(memory: Memory, settings: &str) -> Served {
    let options = PlatformOptions {
        memory,
        ..PlatformOptions::default()
    };
    let platform = Platform::start(options).await.unwrap();
    let url = platform.url();
    let section = format!("[loopback]\nurl = \"{url}\"\ntier = \"owner\"\n{settings}\n");
    let world = World::with_settings(&section).await;
    let daemon = world.daemon().await;
    Served {
        world,
        platform,
        daemon,
    }
}

impl Served {
    /// Waits until a row was acknowledged so often.
    async fn acked(&self, row: RowId, times: usize) {
        let acks = |events: &[Event]| {
            let is_ack = |event: &&Event| event.fact == Fact::Acked { row };
            events.iter().filter(is_ack).count()
        };
        let what = format!("{times} acks of {row}");
        let reached = self
            .platform
            .wait_for(&what, |events| acks(events) >= times);
        reached.await.unwrap();
    }

    /// Waits until a row was taken in and no message is under way.
    async fn over(&self, row: RowId) {
        self.acked(row, 1).await;
        let ends = async {
            loop {
                let status = self.world.json(&["status", "--json"]).await;
                let open = ["waiting", "working", "unclear", "sending"];
                if open.iter().all(|place| status["summary"][place] == 0) {
                    return;
                }
            }
        };
        within("the end of every message", ends).await;
    }

    /// Stops the daemon and looks whether the platform saw every promise kept.
    async fn closed(self) {
        assert_eq!(self.daemon.stop().await, Some(0));
        let promises = Promises {
            seen_once: true,
            single_piece: true,
        };
        let verdict = judge(&self.platform.history(), promises);
        assert_eq!(verdict.violations, [], "{:?}", self.platform.history());
    }
}

#[tokio::test]
async fn platform_messages_are_answered_in_order() {
    let served = serve(Memory::Idempotent, "").await;
    let first = served.platform.post("a", "ann", "echo:one").unwrap();
    let second = served.platform.post("a", "ann", "echo:two").unwrap();
    let other = served.platform.post("b", "bob", "echo:three").unwrap();
    for row in [first, second, other] {
        served.over(row).await;
    }
    let mut seen = served.platform.visible();
    seen.retain(|(row, _)| *row != other);
    assert_eq!(
        seen,
        [(first, "one".to_owned()), (second, "two".to_owned())]
    );
    assert_eq!(served.platform.open(), []);
    served.closed().await;
}

/// P11: the platform took the reply, and the receipt was lost.
#[tokio::test]
async fn p11_lost_receipt_shows_reply_once() {
    for (memory, sink) in [
        (Memory::Idempotent, "sink = \"idempotent\""),
        (Memory::Probeable, "sink = \"probeable\""),
    ] {
        let served = serve(memory, sink).await;
        served.platform.script(Call::Reply, [LOST]);
        let row = served.platform.post("a", "ann", "echo:one").unwrap();
        served.over(row).await;
        assert_eq!(served.platform.visible(), [(row, "one".to_owned())]);
        assert_eq!(served.world.times_asked("echo:one"), 1);
        served.closed().await;
    }
}

/// P11: a look that fails tells nothing, whatever kept it from telling: it is made again before anything is sent again.
#[tokio::test]
async fn p11_failed_probe_is_retried_before_resend() {
    for fault in [
        refused(503, None),
        refused(429, Some(0)),
        refused(401, None),
        refused(404, None),
        Fault::Cut,
    ] {
        let served = serve(Memory::Probeable, "sink = \"probeable\"").await;
        served.platform.script(Call::Reply, [LOST]);
        served.platform.script(Call::Probe, [fault]);
        let row = served.platform.post("a", "ann", "echo:one").unwrap();
        served.over(row).await;
        assert_eq!(served.platform.visible(), [(row, "one".to_owned())]);
        served.closed().await;
    }
}

/// P11: where nothing proves anything, the operator chose: twice, or perhaps never.
#[tokio::test]
async fn p11_blind_sink_follows_on_unknown_setting() {
    for (on_unknown, fault, seen) in [
        ("resend", LOST, 2),
        ("resend", Fault::Cut, 1),
        ("hold", LOST, 1),
        ("hold", Fault::Cut, 0),
    ] {
        let settings = format!("sink = \"blind\"\non_unknown = \"{on_unknown}\"");
        let served = serve(Memory::Blind, &settings).await;
        served.platform.script(Call::Reply, [fault.clone()]);
        let row = served.platform.post("a", "ann", "echo:one").unwrap();
        served.over(row).await;
        let visible = served.platform.visible();
        assert_eq!(visible.len(), seen, "{on_unknown} {fault:?} {visible:?}");
        assert_eq!(served.daemon.stop().await, Some(0));
    }
}

/// P4: a platform that forgets an ack shows the row again, and nobody works on it again.
#[tokio::test]
async fn p4_redelivered_row_is_answered_once() {
    let served = serve(Memory::Probeable, "sink = \"probeable\"").await;
    served.platform.script(Call::Ack, [LOST]);
    let row = served.platform.post("a", "ann", "echo:one").unwrap();
    served.over(row).await;
    assert!(served.platform.redeliver(row));
    served.acked(row, 2).await;
    assert_eq!(served.platform.visible(), [(row, "one".to_owned())]);
    assert_eq!(served.world.times_asked("echo:one"), 1);
    served.closed().await;
}

/// P3: one bad row is a dead letter, the rest pass.
#[tokio::test]
async fn p3_bad_row_does_not_block_others() {
    let served = serve(Memory::Idempotent, "").await;
    let bad = served.platform.plant(json!({"text": 7})).unwrap();
    served.platform.plant(json!("nonsense")).unwrap();
    let empty = served.platform.post("a", "ann", " ").unwrap();
    let good = served.platform.post("a", "ann", "echo:one").unwrap();
    for row in [bad, empty, good] {
        served.over(row).await;
    }
    let visible = served.platform.visible();
    assert_eq!(visible.len(), 2, "{visible:?}");
    assert!(visible[0].1.contains("nothing to do"), "{visible:?}");
    assert_eq!(visible[1], (good, "one".to_owned()));
    served.closed().await;
}

/// K10, K11: the daemon dies after the platform took the reply and before the receipt is on disk.
#[tokio::test]
async fn k10_crash_while_sending_shows_reply_once() {
    let Served {
        world,
        mut platform,
        daemon,
    } = serve(Memory::Probeable, "sink = \"probeable\"").await;
    platform.script(Call::Reply, [LOST]);
    let row = platform.post("a", "ann", "echo:one").unwrap();
    let visible = |event: &Event| matches!(event.fact, Fact::Visible { .. });
    let seen = platform.wait_for("the reply", |events| events.iter().any(visible));
    seen.await.unwrap();
    daemon.kill_9().await;
    platform.down().await;
    let mut daemon = world.daemon().await;
    daemon.log.wait_for("could not be polled").await;
    platform.up().await.unwrap();
    let served = Served {
        world,
        platform,
        daemon,
    };
    served.over(row).await;
    assert_eq!(served.world.times_asked("echo:one"), 1);
    served.closed().await;
}

/// P7: a token that is not good any more holds everything up, and nothing is lost until it is again.
#[tokio::test]
async fn p7_daemon_recovers_from_refused_token() {
    let served = serve(Memory::Probeable, "sink = \"probeable\"").await;
    for call in [Call::Inbox, Call::Reply, Call::Ack] {
        served.platform.script(call, [refused(401, None)]);
    }
    let row = served.platform.post("a", "ann", "echo:one").unwrap();
    served.over(row).await;
    assert_eq!(served.platform.visible(), [(row, "one".to_owned())]);
    assert_eq!(served.world.times_asked("echo:one"), 1);
    served.closed().await;
}

/// P8: a destination that is gone makes a dead letter; the next message of the conversation is not held up.
#[tokio::test]
async fn p8_undeliverable_reply_becomes_dead_letter() {
    let served = serve(Memory::Probeable, "sink = \"probeable\"").await;
    served.platform.script(Call::Reply, [refused(404, None)]);
    let gone = served.platform.post("a", "ann", "echo:one").unwrap();
    let next = served.platform.post("a", "ann", "echo:two").unwrap();
    served.over(next).await;
    served.over(gone).await;
    assert_eq!(served.platform.visible(), [(next, "two".to_owned())]);
    let status = served.world.json(&["status", "--json"]).await;
    assert_eq!(status["counts"]["dead"], 1, "{status:#}");
    assert_eq!(served.daemon.stop().await, Some(0));
}

/// Replies to a channel that is not configured any more wait for it.
#[tokio::test]
async fn replies_wait_for_unconfigured_channel() {
    let Served {
        world,
        platform,
        daemon,
    } = serve(Memory::Idempotent, "").await;
    platform.script(Call::Reply, [refused(503, None)]);
    let row = platform.post("a", "ann", "hold:gate echo:one").unwrap();
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
    let served = Served {
        world,
        platform,
        daemon,
    };
    served.over(row).await;
    assert_eq!(served.platform.visible(), [(row, "one".to_owned())]);
    served.closed().await;
}
