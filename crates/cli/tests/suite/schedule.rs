//! Who is served when: caps, directories with one writer, and senders that take turns, as people meet them.

use crate::stand::{PROBEABLE, Stand, configure};
use crate::world::{Running, World};

/// A turn that is held, and a message of another conversation.
async fn two(world: &World) -> (Running, Running, String) {
    let mut first = world
        .start(&["send", "-c", "a", "hold:first echo:one"])
        .await;
    first.on_disk().await;
    world.model.wait_held("first").await.unwrap();
    let mut second = world
        .start(&["send", "-c", "b", "hold:second echo:two"])
        .await;
    let id = second.on_disk().await;
    (first, second, id)
}

/// The second conversation is not worked on while the first one is, and says why.
async fn one_at_a_time(settings: &str, args: &[&str], says: &str) {
    let world = World::with_settings(settings).await;
    std::fs::create_dir(world.path().join("work")).unwrap();
    let work = world.path().join("work").display().to_string();
    let args: Vec<_> = args.iter().map(|arg| arg.replace("WORK", &work)).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let daemon = world.daemon_with(&args).await;
    let (first, second, id) = two(&world).await;
    let why = world.run(&["why", &id]).await;
    assert!(why.stdout.contains(says), "{says}: {why:?}");
    world.model.release("second");
    world.model.release("first");
    assert_eq!(first.ended().await.stdout, "one\n");
    assert_eq!(second.ended().await.stdout, "two\n");
    assert_eq!(world.model.max_active(), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn one_writer_serializes_turns_per_directory() {
    let settings = "[tiers.owner]\none_writer = true\n";
    one_at_a_time(
        settings,
        &["--workdir", "WORK"],
        "another turn writes in its directory",
    )
    .await;
}

#[tokio::test]
async fn turns_are_capped_globally_and_per_channel() {
    one_at_a_time("[daemon]\nturns_max = 1\n", &[], "`daemon.turns_max`").await;
    let channel = "[daemon]\nturns_per_channel = 1\n";
    one_at_a_time(channel, &[], "`daemon.turns_per_channel`").await;
}

#[tokio::test]
async fn conversations_in_one_directory_run_concurrently() {
    let world = World::new().await;
    let work = world.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let args = ["--workdir", work.to_str().unwrap()];
    let daemon = world.daemon_with(&args).await;
    let (first, second, _) = two(&world).await;
    world.model.wait_held("second").await.unwrap();
    assert_eq!(world.model.max_active(), 2);
    for (gate, send) in [("first", first), ("second", second)] {
        world.model.release(gate);
        assert_eq!(send.ended().await.code, Some(0));
    }
    assert_eq!(daemon.stop().await, Some(0));
}

/// What the real Codex says that a turn cost counts, and the message that waits for it is kept over a restart.
#[tokio::test]
async fn threat_23_exhausted_token_budget_defers_messages() {
    let world = World::with_settings("[tiers.owner]\ntokens_per_day = 700\n").await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("a", "usage:400:100 echo:one").await, "one");
    assert_eq!(world.ask("a", "usage:400:100 echo:two").await, "two");
    let waits = world.run(&["send", "-c", "b", "echo:three"]).await;
    assert_ne!(waits.code, Some(0), "{waits:?}");
    let id = waits.kept();
    assert_eq!(daemon.stop().await, Some(0));
    let daemon = world.daemon().await;
    let why = world.run(&["why", &id]).await;
    let says = "its budget of 700 tokens a day; it goes on at 20";
    assert!(why.stdout.contains(says), "{why:?}");
    assert_eq!(world.times_asked("echo:three"), 0);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Ann's heap does not keep bob waiting: ann writes at this machine, bob at a canvas.
#[tokio::test]
async fn senders_take_turns() {
    let stand = Stand::new(PROBEABLE).await;
    let world = &stand.world;
    configure(world, "[daemon]\nturns_max = 1\nturns_reserved = 0\n");
    let daemon = world.daemon().await;
    let ann = async |n: u32| {
        let text = format!("hold:gate echo:ann {n}");
        let mut send = world
            .start(&["send", "-c", &format!("ann {n}"), &text])
            .await;
        send.on_disk().await;
        send
    };
    let mut sends = vec![ann(1).await];
    world.model.wait_held("gate").await.unwrap();
    for n in 2..6 {
        sends.push(ann(n).await);
    }
    let bob = stand.post("bob", "echo:bob");
    let waiting = async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(5));
        loop {
            look.tick().await;
            let status = world.json(&["status", "--json"]).await;
            if status["summary"]["waiting"] == 5 {
                break;
            }
        }
    };
    crate::world::within("five that wait", waiting).await;
    world.model.release("gate");
    for send in sends {
        assert_eq!(send.ended().await.code, Some(0));
    }
    stand.settled(bob).await;
    let asked = world.model.requests();
    let order: Vec<_> = asked.iter().map(|seen| seen.last().to_owned()).collect();
    let place = order.iter().position(|text| text == "echo:bob").unwrap();
    assert!(place <= 2, "bob waited behind ann's heap: {order:?}");
    assert_eq!(order.len(), 6, "{order:?}");
    assert_eq!(daemon.stop().await, Some(0));
}
