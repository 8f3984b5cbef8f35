//! A model that says no, breaks off or says nothing: the sender hears what happened and what follows, nothing is
//! lost, and the conversation goes on.

use crate::world::{Ended, World, gone, processes_with};
use serde_json::Value;

/// Whoever waits is tried again soon.
const IMPATIENT: &str = "[turn]\nconfig_probe_secs = 1\nbackoff_base_ms = 10\n";

async fn send(world: &World, conversation: &str, text: &str) -> Ended {
    world.run(&["send", "-c", conversation, text]).await
}

/// The next message of the conversation is answered, on the same thread.
async fn goes_on(world: &World, conversation: &str, last: &str) {
    let text = format!("echo:after {conversation}");
    let answer = format!("after {conversation}");
    assert_eq!(world.ask(conversation, &text).await, answer);
    let shown = world.shown_with(&text);
    assert!(shown.iter().any(|said| said.contains(last)), "{shown:?}");
}

#[tokio::test]
async fn c16_refused_login_parks_message() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let text = "fail:401:2 echo:in the end";
    let ended = send(&world, "a", text).await;
    ended.must(75, &["waiting for you: ", "401", "`codex login`"]);
    let shown = world.finished(&ended.kept()).await;
    assert_eq!(shown["answer"]["text"], "in the end", "{shown:#}");
    assert_eq!(world.times_asked(text), 3);
    goes_on(&world, "a", text).await;
    assert_eq!(daemon.stop().await, Some(0));
}

/// A message can be parked after others were sent behind it; their senders hear of it too.
#[tokio::test]
async fn queued_senders_receive_parked_reason() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let text = "hold:gate shell:true ;; fail:401";
    let mut first = world.start(&["send", "-c", "a", text]).await;
    first.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let mut second = world.start(&["send", "-c", "a", "echo:behind"]).await;
    second.on_disk().await;
    world.model.release("gate");
    for send in [first, second] {
        let ended = send.ended().await;
        ended.must(
            75,
            &["waiting for you: the model's provider refused the login"],
        );
        let why = world.run(&["why", &ended.kept()]).await;
        assert!(why.stdout.contains("it waits"), "{why:?}");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn c16_limits_wait_without_spending_attempts() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    // More often than a failing message is tried: waiting for capacity is no failed attempt.
    let text = "fail:429:4 echo:in the end";
    let ended = send(&world, "a", text).await;
    ended.must(0, &["↻ the model's provider is limiting requests"]);
    assert_eq!(ended.stdout, "in the end\n");
    assert_eq!(world.times_asked(text), 5);
    goes_on(&world, "a", text).await;

    let near = "usage_limit:1:1 echo:soon";
    let ended = send(&world, "c", near).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "soon\n"),
        "{ended:?}"
    );
    goes_on(&world, "c", near).await;

    let far = send(&world, "b", "usage_limit:88000:1 echo:tomorrow").await;
    far.must(75, &["waiting: the account's usage limit is reached"]);
    let why = world.run(&["why", &far.kept()]).await;
    assert!(why.stdout.contains("in 24 h"), "{why:?}");
    let behind = send(&world, "b", "echo:behind it").await;
    behind.must(75, &["waiting: the account's usage limit is reached"]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// The limit is the account's: nobody asks the model again before it resets, a daemon that starts anew neither.
#[tokio::test]
async fn c16_account_limit_applies_to_all_conversations() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let first = send(&world, "a", "usage_limit:88000").await;
    first.must(75, &["waiting: the account's usage limit is reached"]);
    let waits = async |conversation| {
        let other = send(&world, conversation, "echo:not asked").await;
        other.must(75, &["waiting: the account's usage limit is reached"]);
        let why = world.run(&["why", &other.kept()]).await;
        assert!(why.stdout.contains("in 24 h"), "{why:?}");
    };
    for conversation in ["b", "c", "d"] {
        waits(conversation).await;
    }
    assert_eq!(daemon.stop().await, Some(0));
    let daemon = world.daemon().await;
    waits("e").await;
    assert_eq!(world.model.requests().len(), 1, "only the first one asked");
    assert_eq!(daemon.stop().await, Some(0));
}

/// A limit that ends in the past, by a clock that goes wrong here or there, is waited for with growing pauses.
#[tokio::test]
async fn past_limit_reset_backs_off() {
    let world = World::with_settings("[turn]\nbackoff_base_ms = 60000\n").await;
    let daemon = world.daemon().await;
    let text = "usage_limit:0";
    let mut send = world.start(&["send", "-c", "a", text]).await;
    let limit = "the account's usage limit is reached";
    send.stderr.wait_for(limit).await;
    // Nobody else needs to wait for it, and in the time that this takes a loop would ask many times.
    assert_eq!(world.ask("b", "echo:others").await, "others");
    assert_eq!(world.times_asked(text), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

/// What passes is tried again, what does not is given up after three attempts, and both are told.
#[tokio::test]
async fn c16_model_errors_retry_then_give_up() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    for (conversation, directive, says) in [
        ("server", "fail:500:1", "the model's server failed"),
        ("stream", "break:1", "the connection to the model broke"),
    ] {
        let text = format!("{directive} echo:recovered");
        let ended = send(&world, conversation, &text).await;
        ended.must(0, &[says]);
        assert_eq!(ended.stdout, "recovered\n");
        assert_eq!(world.times_asked(&text), 2, "{directive}");
        goes_on(&world, conversation, &text).await;
    }
    for (conversation, text, says, asked) in [
        ("server", "fail:500", "the model's server failed", 3),
        ("stream", "break:", "the connection to the model broke", 3),
        ("short", "incomplete:", "max_output_tokens", 3),
        (
            "full",
            "sse_fail:context_length_exceeded",
            "start a new one with --conversation",
            1,
        ),
        ("bad", "fail:400", "the model refused the request", 1),
    ] {
        let ended = send(&world, conversation, text).await;
        ended.must(1, &["failed: ", says]);
        assert_eq!(ended.stdout, "", "{text}");
        let id = ended.kept();
        let shown = world.json(&["why", "--json", &id]).await;
        assert_eq!(shown["state"], "dead", "{shown:#}");
        assert_eq!(shown["attempt"], asked, "{shown:#}");
        assert_eq!(shown["text"], text, "the text is kept");
        let why = world.run(&["why", &id]).await;
        assert!(why.stdout.contains(says), "{why:?}");
        if asked > 1 {
            ended.must(1, &["given up after 3 attempts"]);
        }
        goes_on(&world, conversation, text).await;
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// A turn that takes too long is ended, with what it started.
#[tokio::test]
async fn timed_out_turn_ends_its_commands() {
    let settings = "[turn]\ntimeout_secs = 1\n";
    let world = World::with_settings(settings).await;
    let daemon = world.daemon().await;
    let ended = send(&world, "silent", "hang:").await;
    ended.must(1, &["failed: ", "timed out after 1s"]);
    world.model.wait_aborted(1).await.unwrap();
    goes_on(&world, "silent", "hang:").await;

    let sleep = format!("sleep {}", 1_000_000 + std::process::id());
    let text = format!("shell:{sleep} ;; echo:never");
    let ended = send(&world, "busy", &text).await;
    ended.must(1, &["running ", "timed out after 1s"]);
    for (command, _) in processes_with(&sleep) {
        gone(command).await;
    }
    let shown = world.json(&["show", "--json", &ended.kept()]).await;
    assert_eq!(shown["answer"], Value::Null);
    goes_on(&world, "busy", &text).await;
    assert_eq!(daemon.stop().await, Some(0));
}
