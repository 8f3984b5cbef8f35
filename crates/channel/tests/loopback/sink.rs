//! Replies and looks, and the class of every way in which they fail.

use crate::stage::{channel, message, platform, reply};
use bridge_channel::Channels;
use bridge_core::port::{Probe, Sink};
use bridge_core::value::{ChannelId, Class, Message};
use bridge_sim::history::RowId;
use bridge_sim::{Call, Fault, Memory};

fn refuse(status: u16) -> Fault {
    Fault::Refuse {
        status,
        retry_after: None,
    }
}

#[tokio::test]
async fn reply_reaches_the_row() {
    let platform = platform(Memory::Idempotent).await;
    let row = platform.post("a@b", "ann", "hello").unwrap();
    let channel = channel(&platform);
    let message = message(&format!("{row}@a@b"));
    let receipt = channel.send(&message, &reply(&message)).await.unwrap();
    assert_eq!(platform.visible(), [(row, "hi".to_owned())]);
    let again = channel.send(&message, &reply(&message)).await.unwrap();
    assert_eq!(again, receipt, "the same key is shown once");
    let found = channel
        .probe(&message, &reply(&message), &[])
        .await
        .unwrap();
    assert_eq!(found, Probe::Present { receipt });
}

#[tokio::test]
async fn failed_sends_are_classified_by_outcome() {
    let platform = platform(Memory::Probeable).await;
    let row = platform.post("a", "ann", "hello").unwrap();
    let channel = channel(&platform);
    let message = message(&format!("{row}@a"));
    for (fault, class, seen) in [
        (refuse(503), Class::Ambiguous, 0),
        (refuse(500), Class::Ambiguous, 0),
        (refuse(429), Class::Capacity { until: None }, 0),
        (refuse(401), Class::Config, 0),
        (refuse(403), Class::Permanent, 0),
        (refuse(404), Class::Permanent, 0),
        (refuse(307), Class::Config, 0),
        (Fault::Cut, Class::Ambiguous, 0),
        (Fault::LoseResponse, Class::Ambiguous, 1),
    ] {
        let before = platform.visible().len();
        platform.script(Call::Reply, [fault.clone()]);
        let error = channel.send(&message, &reply(&message)).await.unwrap_err();
        assert_eq!(error.failure.class, class, "{fault:?}: {error}");
        assert_eq!(platform.visible().len() - before, seen, "{fault:?}");
    }
}

#[tokio::test]
async fn retry_after_and_outages_are_classified() {
    let mut platform = platform(Memory::Idempotent).await;
    let row = platform.post("a", "ann", "hello").unwrap();
    let channel = channel(&platform);
    let message = message(&format!("{row}@a"));
    platform.script(
        Call::Reply,
        [Fault::Refuse {
            status: 429,
            retry_after: Some(60),
        }],
    );
    let error = channel.send(&message, &reply(&message)).await.unwrap_err();
    assert!(
        matches!(error.failure.class, Class::Capacity { until: Some(_) }),
        "{error}"
    );
    platform.down().await;
    for failed in [
        channel.send(&message, &reply(&message)).await.map(drop),
        channel
            .probe(&message, &reply(&message), &[])
            .await
            .map(drop),
    ] {
        assert_eq!(failed.unwrap_err().failure.class, Class::Transient);
    }
}

#[tokio::test]
async fn probe_reports_absent_only_when_confirmed() {
    let platform = platform(Memory::Probeable).await;
    let row = platform.post("a", "ann", "hello").unwrap();
    let channel = channel(&platform);
    let message = message(&format!("{row}@a"));
    let look = || async { channel.probe(&message, &reply(&message), &[]).await };
    assert_eq!(look().await.unwrap(), Probe::Absent);
    for (fault, class) in [
        (refuse(503), Class::Transient),
        (refuse(404), Class::Permanent),
        (refuse(405), Class::Config),
        (Fault::Cut, Class::Transient),
    ] {
        platform.script(Call::Probe, [fault]);
        assert_eq!(look().await.unwrap_err().failure.class, class);
    }
    platform.script(Call::Reply, [Fault::LoseResponse]);
    channel.send(&message, &reply(&message)).await.unwrap_err();
    assert!(matches!(look().await.unwrap(), Probe::Present { .. }));
}

#[tokio::test]
async fn reply_goes_to_its_message_channel() {
    let platform = platform(Memory::Idempotent).await;
    let row = platform.post("a", "ann", "hello").unwrap();
    let channels = Channels {
        loopback: Some(channel(&platform)),
        molecule: Vec::new(),
    };
    let here = message(&format!("{row}@a"));
    channels.send(&here, &reply(&here)).await.unwrap();
    assert_eq!(platform.visible(), [(RowId(1), "hi".to_owned())]);
    let local = Message {
        channel: ChannelId::new("local"),
        ..here.clone()
    };
    let receipt = channels.send(&local, &reply(&local)).await.unwrap();
    assert!(receipt.starts_with("local:"));
    let without = Channels::default();
    for failed in [
        without.send(&here, &reply(&here)).await.map(drop),
        without.probe(&here, &reply(&here), &[]).await.map(drop),
    ] {
        let error = failed.unwrap_err();
        assert_eq!(error.failure.class, Class::Config);
        assert!(error.to_string().contains("not configured any more"));
    }
}
