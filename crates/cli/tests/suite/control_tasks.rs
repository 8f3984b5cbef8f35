//! Tasks from the command line, with the real daemon and the real Codex: started, watched, told more, stopped, and
//! asked about, also after a restart.

use crate::terminal::Terminal;
use crate::world::World;
use serde_json::Value;

/// Starts a task and gives its id.
async fn started(world: &World, prompt: &str) -> String {
    let ended = world.run(&["start", prompt]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout.trim_end().to_owned()
}

#[tokio::test]
async fn task_steers_and_survives_restart() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let id = started(&world, "hold:gate echo:first done").await;
    assert!(id.starts_with("codex-"), "{id}");
    world.model.wait_held("gate").await.unwrap();

    let status = world.json(&["status", &id, "--json"]).await;
    assert_eq!(status["task"]["status"], "working", "{status:#}");
    assert_eq!(
        status["task"]["cwd"],
        world.path().to_str().unwrap(),
        "the caller's directory"
    );
    let words = world.run(&["status", &id[..id.len() - 2]]).await;
    assert!(
        words.stdout.contains(&format!("{id} is working")),
        "{words:?}"
    );
    let steered = world.run(&["steer", &id, "echo:and more"]).await;
    assert_eq!(steered.code, Some(0), "{steered:?}");
    assert!(steered.stdout.contains("steered"), "{steered:?}");

    let watch = world.start(&["watch", &id]).await;
    world.model.release("gate");
    let watched = watch.ended().await;
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let answer = watched.stdout.lines().last().unwrap().to_owned();
    assert_eq!(daemon.stop().await, Some(0));

    let daemon = world.daemon().await;
    let status = world.json(&["status", &id, "--json"]).await;
    assert_eq!(status["task"]["status"], "completed", "{status:#}");
    let whole = status["task"]["answer"].as_str().unwrap();
    assert_eq!(whole.lines().last().unwrap(), answer);
    let list = world.run(&["list"]).await;
    assert!(list.stdout.contains(&format!("{id}  done")), "{list:?}");
    let late = world.run(&["steer", &id, "too late"]).await;
    assert_eq!(late.code, Some(1), "{late:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn start_wait_prints_answer_or_stop() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let ended = world.run(&["start", "--wait", "echo:the answer"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, "the answer\n");

    let mut waits = world.start(&["start", "--wait", "hold:gate echo:no"]).await;
    let said = waits.stderr.wait_for("is on disk").await;
    let id = said.split_whitespace().nth(2).unwrap().to_owned();
    world.model.wait_held("gate").await.unwrap();
    let stopped = world.run(&["interrupt", &id]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(
        stopped.stdout.contains(&format!("{id} is stopped")),
        "{stopped:?}"
    );
    let ended = waits.ended().await;
    ended.must(3, &["stopped:"]);
    let status = world.json(&["status", &id, "--json"]).await;
    assert_eq!(status["task"]["status"], "cancelled", "{status:#}");
    let again = world.run(&["cancel", &id]).await;
    assert_eq!(again.code, Some(1), "{again:?}");

    let refused = world
        .run(&["start", "--approval-policy", "never", "echo:x"])
        .await;
    refused.must(1, &["codex_bridge refuses approval_policy=never."]);
    let refused = world
        .run(&[
            "start",
            "--json",
            "--sandbox",
            "danger-full-access",
            "echo:x",
        ])
        .await;
    let told: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(told["error"]["status"], 422, "{told:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn task_prompts_at_waiting_terminal() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let prompt = "escal:touch asked-for ;; echo:went on";
    let mut terminal = Terminal::run(world.command(&["start", "--wait", prompt]));
    let screen = terminal.screen.wait_for("l later > ").await;
    assert!(screen.contains("touch asked-for"), "{screen}");
    let list = world.run(&["list"]).await;
    assert!(list.stdout.contains("waiting for you"), "{list:?}");
    terminal.types("d\n");
    let (code, screen) = terminal.ended().await;
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("you declined"), "{screen}");
    assert!(screen.contains("went on"), "{screen}");
    assert!(
        !world.path().join("asked-for").exists(),
        "what was declined was not done"
    );

    let mut second = Terminal::run(world.command(&["watch"]));
    let id = started(&world, prompt).await;
    let screen = second.screen.wait_for("l later > ").await;
    assert!(screen.contains(&id), "{screen}");
    second.types("a\n");
    second.screen.wait_for("you accepted").await;
    second.screen.wait_for("answered: went on").await;
    assert!(
        world.path().join("asked-for").exists(),
        "what was accepted was done"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn start_goes_on_in_a_conversation() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    assert_eq!(world.ask("chat", "echo:first").await, "first");
    let id = world.run(&["start", "-c", "chat", "echo:second"]).await;
    id.must(0, &["message", "is on disk"]);
    let story = world.finished(id.stdout.trim_end()).await;
    assert_eq!(story["answer"]["text"], "second", "{story:#}");
    assert_eq!(world.shown_with("echo:second").len(), 2, "its memory");

    // A new one begins on the terms of a task.
    let args = ["start", "-c", "new", "--wait", "shell:touch x ;; echo:here"];
    let begun = world.run(&args).await;
    let here = format!("works in {}, may only read", world.path().display());
    begun.must(0, &[&here]);
    assert_eq!(begun.stdout, "here\n");
    assert!(!world.path().join("x").exists());
    assert_eq!(world.ask("new", "echo:again").await, "again");
    assert_eq!(world.shown_with("echo:again").len(), 2);

    let task = started(&world, "echo:task").await;
    let refused = world.run(&["start", "-c", &task, "echo:more"]).await;
    refused.must(1, &["not started", "belongs to the channel task"]);
    let both = ["start", "-c", "chat", "--notify-target", "local", "echo:x"];
    world.run(&both).await.must(2, &["cannot be used with"]);
    assert_eq!(daemon.stop().await, Some(0));
}

/// Scripts that name the parameters of the older tool go on.
#[tokio::test]
async fn older_parameter_names_answer_a_request() {
    let world = World::new().await;
    let mut daemon = world.daemon().await;
    let prompt = "escal:touch asked-for ;; echo:went on";
    let args = ["start", "--prompt", prompt, "--notify_target=local"];
    let id = world.run(&args).await.stdout.trim_end().to_owned();
    daemon.log.wait_for("Codex asks").await;
    let listed = world.json(&["list", "--limit=1", "--json"]).await;
    assert_eq!(listed["tasks"][0]["status"], "waiting_for_approval");
    let open = world.json(&["requests", "--json"]).await;
    let request = open["requests"][0]["request_id"].as_str().unwrap();
    let args = ["respond", "--task-id", &id, "--decision", "accept"];
    let named = [&args[..], &["--request-id", request]].concat();
    world.run(&named).await.must(0, &[]);
    world.run(&["watch", &id]).await.must(0, &[]);
    assert!(world.path().join("asked-for").exists());
    let told = world.json(&["notify_completed", "--json"]).await;
    assert_eq!(told["notifications"][0]["task_id"], id.as_str());
    assert_eq!(daemon.stop().await, Some(0));
}
