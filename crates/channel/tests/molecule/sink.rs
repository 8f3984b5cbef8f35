//! Replies: seen once, whatever becomes of the answer to their call.

use crate::stage::{Fetching, Tray, channel, may, message, platform, reply};
use bridge_channel::Channels;
use bridge_core::port::{OnUnknown, Probe, Sink, SinkClass};
use bridge_core::value::{ChannelId, Class, Message, Twin};
use bridge_sim::molecule::{Edition, MoleculeFault, Route};

#[tokio::test]
async fn canvas_reply_drops_nul_bytes() {
    let (platform, own) = platform(Edition::New).await;
    let channel = channel(&platform, &own);
    let message = message(&channel, "m1", None);
    channel
        .send(&message, &reply(&message, "a\0b"), &may)
        .await
        .unwrap();
    channel
        .send(&message, &reply(&message, "\0"), &may)
        .await
        .unwrap();
    let texts: Vec<String> = platform.bubbles(&own).into_iter().map(|b| b.text).collect();
    assert_eq!(texts, ["ab", "(empty)"]);
}

#[tokio::test(start_paused = true)]
async fn p11_probe_finds_only_delivered_bubble() {
    for edition in [Edition::Seed, Edition::New] {
        let (platform, own) = platform(edition).await;
        let channel = channel(&platform, &own);
        let taken = message(&channel, "taken", None);
        let dropped = message(&channel, "dropped", None);
        let faults = [MoleculeFault::LoseAnswer, MoleculeFault::Cut];
        platform.script(Route::Notify, faults);
        for message in [&taken, &dropped] {
            let reply = reply(message, &message.message_id.to_string());
            let fault = channel.send(message, &reply, &may).await.unwrap_err();
            assert_eq!(fault.failure.class, Class::Ambiguous);
        }
        let found = channel
            .probe(&taken, &reply(&taken, "taken"), &[])
            .await
            .unwrap();
        assert!(matches!(found, Probe::Present { .. }), "{found:?}");
        let found = channel
            .probe(&dropped, &reply(&dropped, "dropped"), &[])
            .await;
        assert_eq!(found.unwrap(), Probe::Absent);
    }
}

/// Two answers say the same; the first was seen, the second never arrived.
#[tokio::test(start_paused = true)]
async fn p11_equal_replies_never_confirm_each_other() {
    let (platform, own) = platform(Edition::New).await;
    let channel = channel(&platform, &own);
    let (first, second) = (message(&channel, "m1", None), message(&channel, "m2", None));
    let (one, two) = (reply(&first, "ok"), reply(&second, "ok"));
    channel.send(&first, &one, &may).await.unwrap();
    platform.script(Route::Notify, [MoleculeFault::Cut]);
    channel.send(&second, &two, &may).await.unwrap_err();
    assert_eq!(
        channel.probe(&second, &two, &[]).await.unwrap(),
        Probe::Absent
    );
    // A daemon that was started since knows only what the ledger says.
    let restarted = crate::stage::channel(&platform, &own);
    let twin = Twin {
        key: one.key.clone(),
        first_try_at: one.first_try_at.unwrap(),
        sent_at: one.first_try_at.unwrap(),
    };
    let twins = std::slice::from_ref(&twin);
    let found = restarted.probe(&second, &two, twins).await.unwrap();
    assert_eq!(found, Probe::Absent);
    restarted.send(&second, &two, &may).await.unwrap();
    let found = crate::stage::channel(&platform, &own);
    let found = found.probe(&second, &two, twins).await.unwrap();
    assert!(matches!(found, Probe::Present { .. }), "{found:?}");
    assert_eq!(platform.bubbles(&own).len(), 2);
}

#[tokio::test]
async fn peer_reply_is_idempotent_and_counts_hops() {
    let (platform, own) = platform(Edition::New).await;
    let peer = platform.add_workspace("beta");
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    let channel = &fetching.channel;
    let message = message(channel, "m1", Some(&peer));
    let held = SinkClass::Blind {
        on_unknown: OnUnknown::Hold,
    };
    assert_eq!(channel.traits(&message).class, held);
    platform.peer_says(&peer, &own, "hello").unwrap();
    fetching.tray.until_texts(1).await;
    let knows = |held: &crate::stage::Held| {
        let cursor = held.cursor.as_deref();
        cursor.is_some_and(|cursor| cursor.contains("sequenced"))
    };
    fetching.tray.until("the platform's kind", knows).await;
    let reply = reply(&message, "hi");
    for _ in 0..2 {
        channel.send(&message, &reply, &may).await.unwrap();
    }
    assert_eq!(channel.traits(&message).class, SinkClass::Idempotent);
    let inbox = platform.inbox_of(&peer);
    assert_eq!(inbox.len(), 1);
    assert_eq!(inbox[0].source.as_ref(), Some(&own.id));
    assert_eq!(inbox[0].metadata["codex_bridge_hops"], 3);
}

#[tokio::test]
async fn p8_forbidden_recipient_fails_permanently() {
    let (platform, own) = platform(Edition::New).await;
    let channel = channel(&platform, &own);
    let message = message(&channel, "m1", None);
    platform.allow_talk(&own, false);
    let fault = channel
        .send(&message, &reply(&message, "hi"), &may)
        .await
        .unwrap_err();
    assert_eq!(fault.failure.class, Class::Permanent);
    assert!(fault.failure.reason.contains("talk_to_user_disabled"));
    let stranger = platform.add_stranger("gamma");
    let message = crate::stage::message(&channel, "m2", Some(&stranger));
    let fault = channel
        .send(&message, &reply(&message, "hi"), &may)
        .await
        .unwrap_err();
    assert_eq!(fault.failure.class, Class::Permanent);
}

/// The older platform shows a repeated message twice, so one whose outcome is not known is given up. A database that is
/// away leaves nothing unclear.
#[tokio::test]
async fn peer_reply_waits_for_database() {
    let (platform, own) = platform(Edition::Seed).await;
    let peer = platform.add_workspace("beta");
    let channel = channel(&platform, &own);
    let message = message(&channel, "m1", Some(&peer));
    let reply = reply(&message, "hi");
    platform.set_database(false);
    let fault = channel.send(&message, &reply, &may).await.unwrap_err();
    assert_eq!(fault.failure.class, Class::Transient, "{fault:?}");
    platform.set_database(true);
    channel.send(&message, &reply, &may).await.unwrap();
    assert_eq!(platform.inbox_of(&peer).len(), 1);
}

#[tokio::test]
async fn p13_our_own_bubbles_are_no_messages() {
    let (platform, own) = platform(Edition::Seed).await;
    let fetching = Fetching::start(channel(&platform, &own), Tray::new());
    let message = message(&fetching.channel, "m1", None);
    let reply = reply(&message, "an answer");
    fetching.channel.send(&message, &reply, &may).await.unwrap();
    platform.canvas_says(&own, "a question").unwrap();
    assert_eq!(fetching.tray.until_texts(1).await, ["a question"]);
}

fn refuse(status: u16) -> MoleculeFault {
    MoleculeFault::refuse(status, "as the script says")
}

#[tokio::test]
async fn failed_sends_are_classified_by_outcome() {
    let (platform, own) = platform(Edition::New).await;
    let channel = channel(&platform, &own);
    let message = message(&channel, "m1", None);
    let reply = reply(&message, "hi");
    for (fault, class, seen) in [
        (refuse(503), Class::Ambiguous, 0),
        (refuse(500), Class::Ambiguous, 0),
        (refuse(429), Class::Capacity { until: None }, 0),
        (refuse(401), Class::Config, 0),
        (refuse(403), Class::Permanent, 0),
        (refuse(404), Class::Permanent, 0),
        (refuse(307), Class::Config, 0),
        (MoleculeFault::Cut, Class::Ambiguous, 0),
        (MoleculeFault::LoseAnswer, Class::Ambiguous, 1),
    ] {
        let before = platform.bubbles(&own).len();
        platform.script(Route::Notify, [fault.clone()]);
        let error = channel.send(&message, &reply, &may).await.unwrap_err();
        assert_eq!(error.failure.class, class, "{fault:?}: {error}");
        assert_eq!(platform.bubbles(&own).len() - before, seen, "{fault:?}");
    }
}

#[tokio::test]
async fn retry_after_and_outages_are_classified() {
    let (mut platform, own) = platform(Edition::New).await;
    let channel = channel(&platform, &own);
    let message = message(&channel, "m1", None);
    let reply = reply(&message, "hi");
    platform.script(Route::Notify, [MoleculeFault::too_many(60)]);
    let error = channel.send(&message, &reply, &may).await.unwrap_err();
    assert!(
        matches!(error.failure.class, Class::Capacity { until: Some(_) }),
        "{error}"
    );
    platform.down().await;
    for failed in [
        channel.send(&message, &reply, &may).await.map(drop),
        channel.probe(&message, &reply, &[]).await.map(drop),
    ] {
        assert_eq!(failed.unwrap_err().failure.class, Class::Transient);
    }
}

#[tokio::test(start_paused = true)]
async fn probe_reports_absent_only_when_confirmed() {
    let (platform, own) = platform(Edition::New).await;
    let channel = channel(&platform, &own);
    let message = message(&channel, "m1", None);
    let reply = reply(&message, "hi");
    let look = || async { channel.probe(&message, &reply, &[]).await };
    assert_eq!(look().await.unwrap(), Probe::Absent);
    for (fault, class) in [
        (refuse(503), Class::Transient),
        (refuse(404), Class::Permanent),
        (refuse(405), Class::Permanent),
        (MoleculeFault::Cut, Class::Transient),
    ] {
        platform.script_looks([fault]);
        assert_eq!(look().await.unwrap_err().failure.class, class);
    }
    platform.script(Route::Notify, [MoleculeFault::LoseAnswer]);
    channel.send(&message, &reply, &may).await.unwrap_err();
    assert!(matches!(look().await.unwrap(), Probe::Present { .. }));
}

#[tokio::test]
async fn reply_goes_to_its_message_channel() {
    let (platform, own) = platform(Edition::New).await;
    let molecule = channel(&platform, &own);
    let here = message(&molecule, "m1", None);
    let hi = reply(&here, "hi");
    let channels = Channels {
        molecule: vec![molecule],
    };
    channels.send(&here, &hi, &may).await.unwrap();
    let texts: Vec<String> = platform.bubbles(&own).into_iter().map(|b| b.text).collect();
    assert_eq!(texts, ["hi"]);
    let local = Message {
        channel: ChannelId::new("local"),
        ..here.clone()
    };
    let receipt = channels
        .send(&local, &reply(&local, "hi"), &may)
        .await
        .unwrap();
    assert!(receipt.starts_with("local:"));
    let without = Channels::default();
    for failed in [
        without.send(&here, &hi, &may).await.map(drop),
        without.probe(&here, &hi, &[]).await.map(drop),
    ] {
        let error = failed.unwrap_err();
        assert_eq!(error.failure.class, Class::Config);
        assert!(error.to_string().contains("not configured any more"));
    }
}
