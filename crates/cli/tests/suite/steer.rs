//! Messages that arrive while a turn of their conversation runs, where the operator lets the turn have them.
//!
//! Codex drops a model's stream that has not ended when it is given a text, and asks again with both.

use crate::world::{Ended, Running, World, gone, kill_9, short, within};
use std::path::Path;
use std::time::Duration;

const STEER: &str = "[tiers.owner]\nmid_turn = \"steer\"\n[turn]\nbackoff_base_ms = 10\n";
const FIRST: &str = "hold:one echo:first";
const SECOND: &str = "hold:two echo:second";

/// The senders of two messages, and their ids.
type Both = [(Running, String); 2];

/// A turn that is held over `FIRST` or another text, and then over `SECOND`, which another message brought.
async fn given(world: &World, first_text: &str, ready: impl AsyncFnOnce()) -> Both {
    let mut first = world.start(&["send", "-c", "a", first_text]).await;
    let first_id = first.on_disk().await;
    world.model.wait_held("one").await.unwrap();
    ready().await;
    let mut second = world.start(&["send", "-c", "a", SECOND]).await;
    let second_id = second.on_disk().await;
    let words = format!(
        "was given to the running turn of message {}",
        short(&first_id)
    );
    second.stderr.wait_for(&words).await;
    world.model.wait_held("two").await.unwrap();
    [(first, first_id), (second, second_id)]
}

#[track_caller]
fn answered(ended: &Ended, answer: &str) {
    let said = (ended.code, ended.stdout.as_str());
    assert_eq!(said, (Some(0), answer), "{ended:?}");
}

#[tokio::test]
async fn steered_messages_share_one_answer() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let [(first, first_id), (second, second_id)] = given(&world, FIRST, async || {}).await;
    let leader = world.run(&["why", &first_id]).await;
    let words = format!("its turn was also given the text of {}", short(&second_id));
    assert!(leader.stdout.contains(&words), "{leader:?}");
    let stop = world.run(&["interrupt", &second_id]).await;
    let instead = format!("`codex-bridge stop {}`", short(&first_id));
    stop.must(
        1,
        &["not stopped: ", "was given to the running turn", &instead],
    );

    world.model.release("two");
    answered(&first.ended().await, "second\n");
    let ended = second.ended().await;
    ended.must(0, &["answered together with"]);
    answered(&ended, "second\n");
    let story = world.json(&["show", "--json", &second_id]).await;
    assert_eq!(story["answer"]["source"], "shared", "{story:#}");
    assert_eq!(story["attempts"].as_array().unwrap().len(), 0, "{story:#}");
    assert_eq!(world.shown_with("echo:second"), [FIRST, SECOND]);
    assert_eq!(world.model.requests().len(), 2);
    assert_eq!(world.ask("a", "echo:third").await, "third");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Stopping the turn stops what it was asked first; what it was given as well gets a turn of its own.
#[tokio::test]
async fn steered_message_gets_turn_after_interrupt() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let [(first, first_id), (second, _)] = given(&world, FIRST, async || {}).await;
    let stopped = world.run(&["interrupt", &first_id]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    first.ended().await.must(3, &["stopped: "]);
    world.model.release("two");
    answered(&second.ended().await, "second\n");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Codex dies with both: both are answered, each by itself.
#[tokio::test]
async fn codex_crash_answers_steered_messages_separately() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let [(first, _), (second, _)] = given(&world, FIRST, async || {}).await;
    codex_dies(&world).await;
    answered(&first.ended().await, "first\n");
    answered(&second.ended().await, "second\n");
    assert_eq!(daemon.stop().await, Some(0));
}

async fn codex_dies(world: &World) {
    let codex = world.codex_pid();
    kill_9(codex);
    gone(codex).await;
    for gate in ["one", "two"] {
        world.model.release(gate);
    }
}

/// Codex has said something and kept it, but the turn goes on.
const ANSWERED: &str = "phase:final_answer say:said before hold:one echo:not said";

/// Waits until Codex has written down what the model said.
async fn kept(world: &World) {
    let sessions = world.codex_home().join("sessions");
    let mut look = tokio::time::interval(Duration::from_millis(5));
    let kept = async {
        while !holds(&sessions, "\"text\":\"said before\"") {
            look.tick().await;
        }
    };
    within("what Codex keeps", kept).await;
}

fn holds(directory: &Path, words: &str) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holds(&path, words)
        } else {
            std::fs::read_to_string(path).is_ok_and(|text| text.contains(words))
        }
    })
}

/// What the turn had answered before it was given another text is not lost.
#[tokio::test]
async fn earlier_answer_is_kept_when_steered() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let both = given(&world, ANSWERED, async || kept(&world).await).await;
    world.model.release("two");
    for (send, _) in both {
        answered(&send.ended().await, "said before\n\nsecond\n");
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// An answer from before it came does not answer it.
#[tokio::test]
async fn steered_message_ignores_earlier_answer() {
    let world = World::with_settings(STEER).await;
    let daemon = world.daemon().await;
    let both = given(&world, ANSWERED, async || kept(&world).await).await;
    let [(first, _), (second, second_id)] = both;
    codex_dies(&world).await;
    assert_eq!(first.ended().await.code, Some(0));
    answered(&second.ended().await, "second\n");
    let story = world.json(&["show", "--json", &second_id]).await;
    assert_eq!(story["answer"]["source"], "live", "{story:#}");
    assert_eq!(daemon.stop().await, Some(0));
}
