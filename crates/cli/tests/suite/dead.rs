//! Messages that only a person moves on: dead letters and messages that wait for a word are listed, shown, sent
//! again and given up, and what was done by hand stays on record.

use crate::world::{Ended, Running, World, gone, kill_9};
use serde_json::Value;

const IMPATIENT: &str = "[turn]\nbackoff_base_ms = 10\n";

/// Sends a text whose answer never comes; gives the id of its dead letter.
async fn dies(world: &World, conversation: &str, text: &str) -> String {
    let ended = world.run(&["send", "-c", conversation, text]).await;
    ended.must(1, &["failed: "]);
    ended.kept()
}

async fn listed(world: &World) -> Vec<Value> {
    let list = world.json(&["dead", "list", "--json"]).await;
    list["dead"].as_array().unwrap().clone()
}

#[tokio::test]
async fn dead_letter_redrives_on_same_thread() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let none = world.run(&["dead", "list"]).await;
    assert!(none.stdout.contains("nothing failed"), "{none:?}");
    world.ask("a", "echo:first").await;
    let text = "fail:400:1 echo:after all\nand a second line";
    let id = dies(&world, "a", text).await;

    let list = world.run(&["dead", "list"]).await;
    for words in [
        &id[28..],
        "failed ",
        "1 attempt",
        "in a, from you",
        "the model refused the request",
        "> fail:400:1 echo:after all\n",
        "codex-bridge retry ID",
    ] {
        assert!(list.stdout.contains(words), "{words}: {list:?}");
    }
    let dead = listed(&world).await;
    assert_eq!(dead.len(), 1, "{dead:#?}");
    assert_eq!(dead[0]["attempts"], 1);
    assert_eq!(dead[0]["answered"], false);
    let status = world.run(&["status"]).await;
    let hint = "`codex-bridge failed` shows them";
    assert!(status.stdout.contains(hint), "{status:?}");
    let shown = world.run(&["dead", "show", &id]).await;
    for words in ["attempt 1", "second line", "no answer: it failed"] {
        assert!(shown.stdout.contains(words), "{words}: {shown:?}");
    }

    let again = world.run(&["dead", "redrive", &id[..id.len() - 1]]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("it waits for a turn"), "{again:?}");
    let story = world.finished(&id).await;
    assert_eq!(story["answer"]["text"], "after all\nand a second line");
    let attempts = story["attempts"].as_array().unwrap();
    let clients: Vec<_> = attempts
        .iter()
        .map(|attempt| &attempt["client_id"])
        .collect();
    assert_eq!(clients, [&format!("{id}.1"), &format!("{id}.2")]);
    assert_eq!(attempts[0]["thread_id"], attempts[1]["thread_id"]);
    assert_eq!(story["acts"][0]["what"], "redrive", "{story:#}");
    let by = story["acts"][0]["by"].as_str().unwrap();
    assert!(by.starts_with("local owner"), "{by}");
    assert_eq!(story["acts"][0]["detail"], "was dead");
    let said = world.shown_with("fail:400:1");
    assert_eq!(said[0], "echo:first", "the same conversation goes on");
    assert!(listed(&world).await.is_empty());
    for command in ["redrive", "drop"] {
        let late = world.run(&["dead", command, &id]).await;
        late.must(1, &["is done: it was answered", "only a failed message"]);
    }
    world
        .run(&["dead", "show", &id])
        .await
        .must(1, &["did not fail"]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn dropped_dead_letter_frees_conversation() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let id = dies(&world, "a", "fail:400").await;
    let dropped = world.json(&["dead", "drop", "--json", &id]).await;
    assert_eq!(dropped["dropped"][0]["outcome"], "dropped", "{dropped:#}");
    let story = world.json(&["show", "--json", &id]).await;
    assert_eq!(story["state"], "cancelled", "{story:#}");
    assert_eq!(story["acts"][0]["what"], "discard", "{story:#}");
    let again = world.run(&["dead", "redrive", &id]).await;
    again.must(1, &["is stopped", "given up by local owner"]);
    assert!(listed(&world).await.is_empty());
    assert_eq!(world.ask("a", "echo:next").await, "next");
    assert_eq!(daemon.stop().await, Some(0));
}

/// What killed them is still there: the rest is left alone, and nobody is given up without a word.
#[tokio::test]
async fn redrive_all_stops_on_repeated_failures() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    for n in 0..12 {
        dies(&world, &format!("c{n}"), "fail:400").await;
    }
    let page = world
        .json(&["dead", "list", "--json", "--limit", "5"])
        .await;
    let next = page["next"].as_str().unwrap();
    let older = world
        .json(&["dead", "list", "--json", "--limit", "50", "--before", next])
        .await;
    assert_eq!(older["dead"].as_array().unwrap().len(), 7);

    let args = ["dead", "redrive", "--all", "--per-second", "100", "--json"];
    let ended = world.run(&args).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let done: Value = serde_json::from_str(&ended.stdout).unwrap();
    let redriven = done["redriven"].as_array().unwrap();
    let left = done["left"].as_array().unwrap();
    assert!((3..=10).contains(&redriven.len()), "{done:#}");
    assert_eq!(redriven.len() + left.len(), 12, "{done:#}");
    for act in redriven {
        world.finished(act["message_id"].as_str().unwrap()).await;
    }
    assert_eq!(world.times_asked("fail:400"), 12 + redriven.len());

    let unsure = world.run(&["dead", "drop", "--all"]).await;
    unsure.must(1, &["12 failed messages would be given up", "--yes"]);
    assert_eq!(listed(&world).await.len(), 12);
    let sure = world.run(&["dead", "drop", "--all", "--yes"]).await;
    assert_eq!(sure.code, Some(0), "{sure:?}");
    assert!(listed(&world).await.is_empty());
    let none = world.run(&["dead", "redrive", "--all"]).await;
    assert!(none.stdout.contains("nothing failed"), "{none:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

const CUT: &str = "shell:touch effect ;; hold:gate echo:finished";

/// Codex dies after the message has changed something.
async fn cut(world: &World) -> (Running, String) {
    let mut send = world.start(&["send", "-c", "a", CUT]).await;
    let id = send.on_disk().await;
    world.model.wait_held("gate").await.unwrap();
    let codex = world.codex_pid();
    kill_9(codex);
    gone(codex).await;
    (send, id)
}

/// A world in which a person is asked, with a message that waits for the word.
async fn parked() -> (World, crate::world::Daemon, Ended, String) {
    let world = World::with_settings("[tiers.owner]\non_cut = \"ask\"\n").await;
    let daemon = world.daemon().await;
    let (send, id) = cut(&world).await;
    let ended = send.ended().await;
    (world, daemon, ended, id)
}

#[tokio::test]
async fn parked_message_resumes_on_redrive() {
    let (world, daemon, ended, id) = parked().await;
    let go_on = format!("`codex-bridge retry {}` goes on with it", &id[28..]);
    ended.must(
        75,
        &["waiting for you: ", "may have changed something", &go_on],
    );
    let behind = world.run(&["send", "-c", "a", "echo:behind"]).await;
    behind.must(
        75,
        &[
            "waiting: it waits behind message",
            "which waits for a person",
        ],
    );
    let list = world.run(&["dead", "list"]).await;
    assert!(list.stdout.contains("waiting for you "), "{list:?}");
    let status = world.json(&["status", "--json"]).await;
    assert_eq!(status["summary"]["waiting_for_you"], 1, "{status:#}");
    assert_eq!(status["summary"]["waiting"], 1, "{status:#}");
    assert_eq!(
        world.times_asked("[codex-bridge]"),
        0,
        "nothing is run before"
    );

    world.model.release("gate");
    let again = world.run(&["dead", "redrive", &id]).await;
    assert!(
        again.stdout.contains("it goes on where it was cut"),
        "{again:?}"
    );
    let story = world.finished(&id).await;
    assert_eq!(story["answer"]["text"], "finished", "{story:#}");
    let told = world.shown_with("[codex-bridge]");
    assert!(told.last().unwrap().contains("was cut off"), "{told:?}");
    let after = world.finished(&behind.kept()).await;
    assert_eq!(after["answer"]["text"], "behind", "{after:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a_cut_message_can_be_given_up() {
    let (world, daemon, _, id) = parked().await;
    let behind = world.run(&["send", "-c", "a", "echo:behind"]).await;
    let dropped = world.run(&["dead", "drop", &id]).await;
    assert!(dropped.stdout.contains("is given up"), "{dropped:?}");
    let story = world.finished(&id).await;
    assert_eq!(story["state"], "cancelled", "{story:#}");
    let after = world.finished(&behind.kept()).await;
    assert_eq!(after["answer"]["text"], "behind", "{after:#}");
    assert_eq!(world.times_asked("[codex-bridge]"), 0);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn cut_message_is_buried_when_configured() {
    let world = World::with_settings("[tiers.owner]\non_cut = \"bury\"\n").await;
    let daemon = world.daemon().await;
    let (send, id) = cut(&world).await;
    let ended = send.ended().await;
    ended.must(1, &["failed: ", "look before it goes on"]);
    let story = world.json(&["show", "--json", &id]).await;
    assert_eq!(story["state"], "dead", "{story:#}");
    assert_eq!(story["attempt"], 1, "{story:#}");
    assert_eq!(world.times_asked("[codex-bridge]"), 0);
    assert_eq!(world.ask("a", "echo:next").await, "next");
    assert_eq!(daemon.stop().await, Some(0));
}

/// Its notice was written at its old place, before the message in between.
#[tokio::test]
async fn backup_takes_redriven_messages() {
    let world = World::with_settings(IMPATIENT).await;
    let daemon = world.daemon().await;
    let id = dies(&world, "a", "fail:400:1 echo:after all").await;
    world.ask("a", "echo:between").await;
    let redriven = world.run(&["dead", "redrive", &id]).await;
    assert_eq!(redriven.code, Some(0), "{redriven:?}");
    let story = world.finished(&id).await;
    assert_eq!(story["phase"], "done");
    world.run(&["backup"]).await.must(0, &[]);
    assert_eq!(daemon.stop().await, Some(0));
}
