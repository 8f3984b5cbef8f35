//! The moments of a message's life in the log: told to whoever asks for them, and to nobody else.

use crate::world::World;

/// What an operator writes to see them.
const ON: &str = "info,bridge_trace=debug";
/// Each of them is the reason of the next one, so they come in this order.
const MOMENTS: [&str; 6] = ["ready", "begun", "started", "ended", "handed", "taken"];
/// These are told beside them.
const OTHERS: [&str; 10] = [
    "at=\"claimed\" message_id=",
    "at=\"attached\" message_id=",
    "at=\"answered\" message_id=",
    "at=\"written\"",
    "at=\"completed\" turn_id=",
    "transition=\"receive\" waited_us=",
    "transition=\"begin\" waited_us=",
    "transition=\"answer\" waited_us=",
    "transition=\"send\" waited_us=",
    "took_us=",
];

#[tokio::test]
async fn message_trace_points_appear_in_order() {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_LOG", ON);
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("talk", "echo:marmalade").await, "marmalade");
    daemon.log.wait_for("transition=\"confirm\"").await;
    let log = daemon.log.text();
    let mut from = 0;
    for moment in MOMENTS {
        let words = format!("at=\"{moment}\" message_id=");
        let found = log.get(from..).and_then(|rest| rest.find(&words));
        let found = found
            .unwrap_or_else(|| panic!("{moment} is not told after what goes before it: {log}"));
        from += found + words.len();
    }
    for words in OTHERS {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(
        !log.contains("marmalade"),
        "nothing of anybody's words: {log}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn the_usual_log_tells_no_moments() {
    let mut world = World::new().await;
    world.set_env("CODEX_BRIDGE_LOG", "info");
    let daemon = world.daemon().await;
    let log = daemon.log.clone();
    assert_eq!(world.ask("talk", "echo:marmalade").await, "marmalade");
    assert_eq!(daemon.stop().await, Some(0));
    assert!(!log.text().contains("at=\""), "{}", log.text());
}
