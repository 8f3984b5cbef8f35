//! The account's rate limit as the model's provider tells it through Codex: agents slow down and stop where the rest is
//! kept for people, everybody waits at its end, nobody fails for it, and a daemon that starts anew goes on waiting.

use crate::a2a_agent::{Agent, SERVED, said};
use crate::world::{World, within};
use bridge_sim::{Options, Quota, ScriptedModel};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Requests of the window of the long test; each is a percent or more.
const WINDOW_REQUESTS: u32 = 80;
const WINDOW_SECS: u64 = 20;
const AGENTS: usize = 200;
const PEERS: usize = 4;
const PEOPLE: usize = 10;
/// People have a reserve, so none of them waits for a window to pass.
const PEOPLE_P95_MAX: Duration = Duration::from_secs(WINDOW_SECS);

fn limited(requests: u32, window_secs: u64) -> Options {
    Options {
        quota: Some(Quota {
            requests,
            window_secs,
        }),
        patience: Duration::from_secs(300),
        ..Options::default()
    }
}

/// Serves agents, whose turns are about limits here and not about what they may read.
fn served() -> String {
    format!("{SERVED}[tiers.peer]\nreads = \"disk\"\nturns_per_day = 1000\n")
}

/// A peer's message in a context of its own.
async fn posts(agent: &Agent, n: usize) -> Value {
    let place = json!({"contextId": format!("c{n}")});
    let text = format!("echo:agent-{n}-");
    agent.post(said(&format!("m{n}"), &text, &place)).await
}

async fn status(world: &World) -> Value {
    world.json(&["status", "--json"]).await
}

/// Looks until a count of messages is reached.
async fn counted(world: &World, state: &str, count: usize) {
    let mut look = tokio::time::interval(Duration::from_millis(500));
    loop {
        look.tick().await;
        let seen = status(world).await;
        assert_eq!(seen["counts"]["dead"], Value::Null, "{seen:#}");
        if seen["counts"][state] == count {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c16_people_are_answered_while_agents_wait() {
    let world = World::with_model(limited(WINDOW_REQUESTS, WINDOW_SECS), &served()).await;
    let daemon = world.daemon().await;
    let began = Instant::now();
    for peer in 0..PEERS {
        let agent = Agent::new(&world, &format!("peer-{peer}")).await;
        for n in 0..AGENTS / PEERS {
            posts(&agent, peer * (AGENTS / PEERS) + n).await;
        }
    }
    let mut waits = Vec::new();
    for n in 0..PEOPLE {
        // Spread over all that agents do: each person comes when so many more were asked.
        let asked = u64::try_from(n * AGENTS / PEOPLE).unwrap();
        world
            .model
            .wait_for(|seen| seen.number >= asked)
            .await
            .unwrap();
        let asked_at = Instant::now();
        let answer = world
            .ask(&format!("person-{n}"), &format!("echo:person-{n}-"))
            .await;
        assert_eq!(answer, format!("person-{n}-"));
        waits.push(asked_at.elapsed());
    }
    let done = counted(&world, "done", AGENTS + PEOPLE);
    let done = tokio::time::timeout(Duration::from_secs(300), done);
    done.await.unwrap();
    waits.sort_unstable();
    let p95 = waits[PEOPLE * 95 / 100];
    println!(
        "{AGENTS} messages of agents and {PEOPLE} of people in {:?}, windows of {WINDOW_SECS} s for {WINDOW_REQUESTS}: {} refused for the limit; people waited {:?} (median), {p95:?} (p95)",
        began.elapsed(),
        world.model.quota_refusals(),
        waits[PEOPLE / 2],
    );
    assert_eq!(world.model.quota_refusals(), 0, "nobody was refused");
    assert!(p95 < PEOPLE_P95_MAX, "{waits:?}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn c16_quota_wait_survives_daemon_death() {
    let world = World::with_model(limited(10, 3_600), &served()).await;
    let daemon = world.daemon().await;
    for n in 0..9 {
        world.ask("main", &format!("echo:{n}")).await;
    }
    let bob = Agent::new(&world, "bob").await;
    for n in 0..2 {
        posts(&bob, n).await;
    }
    let seen = within("agents wait", async {
        let mut look = tokio::time::interval(Duration::from_millis(100));
        loop {
            look.tick().await;
            let seen = status(&world).await;
            if seen["quotas"]["agents_waiting"] == 2 {
                return seen;
            }
        }
    });
    let seen = seen.await;
    let account = &seen["quotas"]["accounts"][0];
    assert_eq!(account["state"], "reserved", "{seen:#}");
    assert_eq!(account["windows"][0]["used_percent"], 90, "{seen:#}");
    assert_eq!(account["windows"][0]["minutes"], 60, "{seen:#}");
    let listed = world.json(&["ls", "--json"]).await;
    let ids = listed["conversations"].as_array().unwrap().iter();
    let waiting = ids
        .filter(|one| one["channel"] == "a2a")
        .map(|one| one["message_id"].clone());
    let waiting: Vec<_> = waiting.collect();
    let id = waiting[0].as_str().unwrap();
    let why = world.run(&["why", id]).await;
    let kept = "10 % of the account's 1-hour limit are left and kept for people";
    assert!(why.stdout.contains(kept), "{why:?}");
    assert!(why.stdout.contains("of 2, expected in about "), "{why:?}");
    assert_eq!(
        world.ask("main", "echo:from the reserve").await,
        "from the reserve"
    );

    // Now all of it is used.
    let person = world.run(&["send", "-c", "late", "echo:later"]).await;
    person.must(75, &["waiting: the account's usage limit is reached"]);
    daemon.kill_9().await;
    let daemon = world.daemon().await;
    let again = world
        .run(&["send", "-c", "later", "echo:later still"])
        .await;
    again.must(75, &["waiting: the account's usage limit is reached"]);
    let why = world.run(&["why", &person.kept()]).await;
    assert!(why.stdout.contains("position 1 of 4"), "{why:?}");
    let shown = world.run(&["status"]).await;
    let line = "account: reached, 100 % of the 1-hour limit used, resets in 5";
    assert!(shown.stdout.contains(line), "{shown:?}");
    assert!(
        shown.stdout.contains("2 of people and 2 of agents wait"),
        "{shown:?}"
    );
    let metrics = metrics_of(&world).await;
    assert!(
        metrics.contains("codex_bridge_quota_used_percent{window=\"primary\"} 100"),
        "{metrics}"
    );
    assert!(
        metrics.contains("codex_bridge_quota_waiting{kind=\"agents\"} 2"),
        "{metrics}"
    );
    assert_eq!(world.model.requests().len(), 10);
    assert_eq!(world.model.quota_refusals(), 0, "nobody asked in vain");
    assert_eq!(daemon.stop().await, Some(0));
}

/// What `/metrics` says to the owner.
async fn metrics_of(world: &World) -> String {
    let token = world.owner_token().await;
    let agent = Agent::with_token(world, &token);
    let (status, text) = agent.answer(agent.call("GET", "/metrics")).await;
    assert_eq!(status.as_u16(), 200, "{text}");
    text
}

/// Another account is another login: in another home.
#[tokio::test(flavor = "multi_thread")]
async fn c16_task_begins_in_fallback_home() {
    let world = World::with_model(limited(1, 3_600), "").await;
    let other = ScriptedModel::start(Options::default()).await.unwrap();
    let home = world.path().join("other-home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("config.toml"), other.codex_config()).unwrap();
    let settings = format!("[codex]\nhomes = [{home:?}]\n[quota]\nfallback_home = {home:?}\n");
    std::fs::write(world.config_file(), settings).unwrap();
    let daemon = world.daemon().await;
    assert_eq!(world.ask("main", "echo:the last one").await, "the last one");
    let task = world.run(&["start", "--wait", "echo:elsewhere"]).await;
    assert_eq!(task.code, Some(0), "{task:?}");
    assert!(task.stdout.contains("elsewhere"), "{task:?}");
    assert_eq!(
        (world.model.requests().len(), other.requests().len()),
        (1, 1)
    );
    // A conversation stays with its account.
    let ended = world.run(&["send", "-c", "main", "echo:later"]).await;
    ended.must(75, &["waiting: the account's usage limit is reached"]);
    assert_eq!(daemon.stop().await, Some(0));
}
