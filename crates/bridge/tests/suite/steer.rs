//! Messages that arrive while a turn of their conversation runs, where the operator lets the turn have them.

use crate::world::{Running, World, gone, kill_9};

const STEER: &str = "[tiers.owner]\nmid_turn = \"steer\"\n[turn]\nbackoff_base_ms = 10\n";

/// A turn at a gate, and a second message that was given to it.
async fn given(world: &World) -> [(Running, String); 2] {
    let mut first = world
        .start(&["send", "-c", "a", "hold:gate echo:first"])
        .await;
    let first_id = first.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let mut second = world.start(&["send", "-c", "a", "echo:second"]).await;
    let second_id = second.on_disk().await;
    let words = format!("was given to the running turn of message {first_id}");
    second.stderr.wait_for(&words).await;
    [(first, first_id), (second, second_id)]
}

#[tokio::test]
async fn a_running_turn_is_given_the_text_and_one_answer_answers_both() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let [(first, first_id), (second, second_id)] = given(&world).await;
    let leader = world.run(&["why", &first_id]).await;
    let words = format!("its turn was also given the text of {second_id}");
    assert!(leader.stdout.contains(&words), "{leader:?}");
    let stop = world.run(&["interrupt", &second_id]).await;
    let instead = format!("`codex-bridge interrupt {first_id}`");
    stop.must(
        1,
        &["not stopped: ", "was given to the running turn", &instead],
    );

    world.model.release("gate");
    assert_eq!(first.ended().await.stdout, "second\n");
    let ended = second.ended().await;
    ended.must(0, &["answered together with"]);
    assert_eq!(ended.stdout, "second\n");
    let story = world.json(&["show", "--json", &second_id]).await;
    assert_eq!(story["answer"]["source"], "shared", "{story:#}");
    assert_eq!(story["attempts"].as_array().unwrap().len(), 0, "{story:#}");
    assert_eq!(
        world.shown_with("echo:second"),
        ["hold:gate echo:first", "echo:second"]
    );
    assert_eq!(world.model.requests().len(), 2);
    assert_eq!(world.ask("a", "echo:third").await, "third");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Stopping the turn stops what it was asked first; what it was given as well gets a turn of its own.
#[tokio::test]
async fn a_follower_of_a_stopped_turn_gets_its_own() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let [(first, first_id), (second, _)] = given(&world).await;
    let stopped = world.run(&["interrupt", &first_id]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    first.ended().await.must(3, &["stopped: "]);
    let ended = second.ended().await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "second\n"),
        "{ended:?}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

/// Codex dies with both: both are answered, and neither twice.
#[tokio::test]
async fn a_follower_of_a_turn_that_dies_is_answered() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let [(first, _), (second, _)] = given(&world).await;
    let codex = world.codex_pid();
    kill_9(codex);
    gone(codex).await;
    world.model.release("gate");
    for (send, answer) in [(first, "first\n"), (second, "second\n")] {
        let ended = send.ended().await;
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), answer),
            "{ended:?}"
        );
    }
    assert_eq!(daemon.stop().await, Some(0));
}
