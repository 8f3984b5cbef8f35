//! The promises on the Molecule platform: every message is answered once, whatever order its rows appear in and
//! whatever becomes of the platform's answers; an outage costs nothing; two agents do not talk for ever.
//! Everything is judged by what the platform, the model and the commands show.

use crate::chat::Chat;
use crate::world::Daemon;
use bridge_sim::molecule::{
    AutoAnswer, Late, MoleculeFault, MoleculeOptions, Route, Said, Status, Workspace,
};
use serde_json::Value;
use std::time::Duration;

/// Shows which message a row became.
const LOG: (&str, &str) = (
    "CODEX_BRIDGE_LOG",
    "info,bridge_daemon::turn::schedule=debug,bridge_channel::molecule::feed=debug",
);

/// A daemon that tells which message a row became.
async fn served(chat: &mut Chat) -> Daemon {
    let (name, value) = LOG;
    chat.world.set_env(name, value);
    chat.daemon().await
}

/// Waits until nothing is owed for a row any more; gives its message's story.
async fn settled(chat: &Chat, daemon: &mut Daemon, row: &str) -> Value {
    let external_id = logged(daemon, &format!("row={row}"), "external_id=").await;
    let claimed = format!("claimed external_id={external_id}");
    let id = logged(daemon, &claimed, "message_id=").await;
    chat.world.finished(&id).await
}

/// The value of a field, from the first line of the log with these words.
async fn logged(daemon: &mut Daemon, words: &str, field: &str) -> String {
    let log = daemon.log.wait_for(words).await;
    let line = log.lines().find(|line| line.contains(words)).unwrap();
    let value = line.split(field).nth(1).unwrap();
    value.split_whitespace().next().unwrap().to_owned()
}

async fn until(chat: &Chat, what: &str, mut reached: impl FnMut(&Chat) -> bool) {
    let seen = chat.platform.wait_until(what, |_| reached(chat)).await;
    if let Err(error) = seen {
        let counts = chat.platform.counts();
        panic!("{error}: {:?}, {counts:?}", texts(chat));
    }
}

fn texts(chat: &Chat) -> Vec<String> {
    let bubbles = chat.platform.bubbles(&chat.us);
    bubbles.into_iter().map(|bubble| bubble.text).collect()
}

fn got(chat: &Chat, peer: &Workspace) -> Vec<String> {
    let inbox = chat.platform.inbox_of(peer);
    inbox.into_iter().map(|message| message.text).collect()
}

async fn dead(chat: &Chat) -> Vec<Value> {
    let list = chat.world.json(&["dead", "list", "--json"]).await;
    list["dead"].as_array().unwrap().clone()
}

const PEERS: usize = 36;
const PEOPLE: usize = 4;
const ROUNDS: usize = 10;

/// Everybody writes once: the people in the same microsecond, the peers one behind the other.
fn round(chat: &Chat, peers: &[Workspace], round: usize) {
    let said: Vec<String> = (0..PEOPLE)
        .map(|person| format!("echo:person {person} round {round}"))
        .collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    chat.platform.canvas_says_at_once(&chat.us, &said).unwrap();
    for (number, peer) in peers.iter().enumerate() {
        let text = format!("echo:peer {number} round {round}");
        chat.platform.peer_says(peer, &chat.us, &text).unwrap();
    }
}

#[tokio::test]
async fn late_rows_of_many_senders_answered_once() {
    let options = MoleculeOptions {
        patience: Duration::from_secs(150),
        ..MoleculeOptions::default()
    };
    let chat = Chat::with(options, "").await;
    let peers: Vec<Workspace> = (0..PEERS)
        .map(|number| chat.platform.add_workspace(&format!("peer-{number}")))
        .collect();
    let daemon = chat.daemon().await;
    chat.platform.set_late_messages(Late::Looks(6));
    for number in 0..ROUNDS {
        let looks = chat.platform.count(Route::Activity, 200);
        round(&chat, &peers, number);
        until(&chat, "a look between two rounds", |chat| {
            chat.platform.count(Route::Activity, 200) > looks
        })
        .await;
    }
    let answers = |chat: &Chat| {
        let of_peers = peers.iter().map(|peer| got(chat, peer).len());
        texts(chat).len() + of_peers.sum::<usize>()
    };
    until(&chat, "every answer", |chat| {
        answers(chat) >= (PEERS + PEOPLE) * ROUNDS
    })
    .await;
    assert_eq!(daemon.stop().await, Some(0));

    let expected = |who: &str| -> Vec<String> {
        let rounds = 0..ROUNDS;
        rounds.map(|round| format!("{who} round {round}")).collect()
    };
    for (number, peer) in peers.iter().enumerate() {
        let mut got = got(&chat, peer);
        got.sort();
        assert_eq!(got, expected(&format!("peer {number}")));
    }
    let mut people: Vec<_> = (0..PEOPLE)
        .flat_map(|person| expected(&format!("person {person}")))
        .collect();
    people.sort();
    let mut shown = texts(&chat);
    shown.sort();
    assert_eq!(shown, people);
    let asked = chat.world.model.requests().len();
    assert_eq!(asked, (PEERS + PEOPLE) * ROUNDS, "one model call each");
}

async fn shows_one_bubble_although_its_answer_is_lost(mut chat: Chat) {
    let mut daemon = served(&mut chat).await;
    let script = [MoleculeFault::LoseAnswer];
    chat.platform.script(Route::Notify, script);
    let row = chat.says("echo:once");
    settled(&chat, &mut daemon, &row).await;
    assert_eq!(texts(&chat), ["once"]);
    let next = chat.says("echo:next");
    settled(&chat, &mut daemon, &next).await;
    assert_eq!(texts(&chat), ["once", "next"]);
    assert_eq!(chat.world.times_asked("echo:once"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn lost_confirmation_shows_bubble_once() {
    shows_one_bubble_although_its_answer_is_lost(Chat::new().await).await;
}

#[tokio::test]
async fn lost_confirmation_shows_bubble_once_old_platform() {
    shows_one_bubble_although_its_answer_is_lost(Chat::old().await).await;
}

#[tokio::test]
async fn bad_gateway_repeats_no_turn_or_bubble() {
    let mut chat = Chat::new().await;
    let mut daemon = served(&mut chat).await;
    let platform = &chat.platform;
    platform.stand(Route::Notify, MoleculeFault::bad_gateway());
    let row = chat.says("echo:once");
    until(&chat, "three refusals", |chat| {
        chat.platform.count(Route::Notify, 502) >= 3
    })
    .await;
    assert!(texts(&chat).is_empty());
    platform.stand(Route::Notify, MoleculeFault::None);
    settled(&chat, &mut daemon, &row).await;
    assert_eq!(texts(&chat), ["once"]);
    assert_eq!(chat.world.times_asked("echo:once"), 1);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn identical_answers_get_separate_bubbles() {
    let mut chat = Chat::new().await;
    let mut daemon = served(&mut chat).await;
    // The first is shown and not confirmed; the second is not shown, and what it finds is the first one's; the third
    // is shown and not confirmed, among two others.
    let lost = MoleculeFault::LoseAnswer;
    let script = [lost.clone(), MoleculeFault::Cut, MoleculeFault::None, lost];
    chat.platform.script(Route::Notify, script);
    for count in 1..=3 {
        let row = chat.says("echo:ok");
        settled(&chat, &mut daemon, &row).await;
        assert_eq!(texts(&chat), vec!["ok"; count]);
    }
    assert_eq!(chat.world.times_asked("echo:ok"), 3);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn concurrent_unclear_answers_get_separate_bubbles() {
    let mut chat = Chat::new().await;
    let mut daemon = served(&mut chat).await;
    let says = |context: &str| {
        let said = Said {
            context: Some(context.to_owned()),
            ..Said::text(&format!("hold:{context} echo:same"))
        };
        chat.platform.canvas_says_with(&chat.us, &said).unwrap()
    };
    // One is not shown, and is looked for while the confirmation of the other comes slowly.
    let slow = MoleculeFault::Trickle(Duration::from_millis(40));
    let script = [MoleculeFault::Cut, slow];
    chat.platform.script(Route::Notify, script);
    let rows = [says("a"), says("b")];
    for context in ["a", "b"] {
        chat.world.model.wait_held(context).await.unwrap();
    }
    chat.world.model.release("a");
    until(&chat, "a try", |chat| {
        let calls = chat.platform.calls();
        calls.iter().any(|call| call.route == Route::Notify)
    })
    .await;
    chat.world.model.release("b");
    for row in rows {
        settled(&chat, &mut daemon, &row).await;
    }
    assert_eq!(texts(&chat), ["same", "same"]);
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn platform_database_outage_loses_nothing() {
    let mut chat = Chat::new().await;
    let mut daemon = served(&mut chat).await;
    let online = |chat: &Chat| chat.platform.status(&chat.us) == Status::Online;
    until(&chat, "online", online).await;
    let before = chat.says("hold:gate echo:before");
    chat.world.model.wait_held("gate").await.unwrap();

    chat.platform.set_database(false);
    let during = chat.says("echo:during");
    chat.world.model.release("gate");
    until(&chat, "everything refused", |chat| {
        let refused = |route, status| chat.platform.count(route, status);
        refused(Route::Activity, 401) >= 2
            && refused(Route::Notify, 401) >= 1
            && refused(Route::Heartbeat, 500) >= 1
    })
    .await;
    let status = chat.world.json(&["status", "--json"]).await;
    let text = status.to_string();
    assert!(text.contains("\"retrying\""), "{status:#}");
    assert!(
        text.contains("the platform's database is away"),
        "{status:#}"
    );
    assert!(texts(&chat).is_empty());
    chat.platform.advance(Duration::from_secs(181));
    assert_eq!(chat.platform.status(&chat.us), Status::AwaitingAgent);

    chat.platform.set_database(true);
    until(&chat, "online again", online).await;
    for row in [&before, &during] {
        settled(&chat, &mut daemon, row).await;
    }
    assert_eq!(texts(&chat), ["before", "during"]);
    for text in ["echo:before", "echo:during"] {
        assert_eq!(chat.world.times_asked(text), 1, "{text}");
    }
    assert!(dead(&chat).await.is_empty());
    let status = chat.world.json(&["status", "--json"]).await;
    assert!(status.to_string().contains("\"receiving\""), "{status:#}");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn second_daemon_on_same_state_fails() {
    let mut chat = Chat::new().await;
    let mut first = served(&mut chat).await;
    until(&chat, "online", |chat| {
        chat.platform.status(&chat.us) == Status::Online
    })
    .await;
    let second = chat.world.run(&["run"]).await;
    second.must(1, &["another daemon", &format!("(pid {})", first.pid())]);
    let row = chat.says("echo:one");
    assert_eq!(chat.bubbles(1).await, ["one"]);
    settled(&chat, &mut first, &row).await;
    assert_eq!(texts(&chat), ["one"]);
    assert_eq!(chat.world.times_asked("echo:one"), 1);
    assert_eq!(chat.platform.heartbeats(&chat.us).registrations, 1);
    assert_eq!(first.stop().await, Some(0));
}

/// A peer that answers everything talks with us until the guard stops it, or lets it wait, after so many turns; others
/// are served on.
async fn stops_talking(echo_metadata: bool, turns: usize, reason: &str, letters: usize) {
    let mut chat = Chat::new().await;
    let auto = AutoAnswer {
        text: "echo:and you?".to_owned(),
        echo_metadata,
        at_most: 100,
    };
    chat.platform.answering(&chat.peer, auto);
    let mut daemon = served(&mut chat).await;
    chat.peer_says("echo:hello");
    let heard = chat.peer_got(turns + 1).await;
    let notice = heard.last().unwrap();
    assert!(notice.contains("the loop guard"), "{notice}");
    assert!(notice.contains(reason), "{notice}");
    // The notice is answered too. Rows are taken in their order: once a later one is answered, that was taken.
    let canvas = chat.says("echo:still here");
    settled(&chat, &mut daemon, &canvas).await;
    let gamma = chat.platform.add_workspace("gamma");
    let row = chat
        .platform
        .peer_says(&gamma, &chat.us, "echo:another pair");
    settled(&chat, &mut daemon, &row.unwrap()).await;
    assert_eq!(got(&chat, &gamma), ["another pair"]);
    let ours = chat.platform.inbox_of(&chat.us);
    let of_peer = |source: &Option<String>| source.as_ref() == Some(&chat.peer.id);
    let told = ours.iter().filter(|message| of_peer(&message.source));
    assert_eq!(told.count(), turns + 2, "it answered all that it was told");
    assert_eq!(
        got(&chat, &chat.peer).len(),
        turns + 1,
        "silence after the notice"
    );
    assert_eq!(
        chat.world.model.requests().len(),
        turns + 2,
        "no further turn of the pair"
    );
    let dead = dead(&chat).await;
    assert_eq!(dead.len(), letters, "{dead:#?}");
    for letter in dead {
        assert_eq!(letter["sender"], chat.peer.id.as_str(), "{letter:#}");
        assert!(
            letter["reason"].as_str().unwrap().contains("loop guard"),
            "{letter:#}"
        );
    }
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn hop_limit_stops_mutual_answers() {
    stops_talking(true, 8, "8 agents answered each other before it", 2).await;
}

#[tokio::test]
async fn rate_limit_lets_mutual_answers_wait() {
    stops_talking(false, 30, "sent 30 messages within 10 minutes", 0).await;
}

#[tokio::test]
async fn workspace_stays_online_during_long_turn() {
    let mut chat = Chat::new().await;
    let mut daemon = served(&mut chat).await;
    let row = chat.says("hold:gate echo:done");
    let busy = |chat: &Chat| {
        let beats = chat.platform.heartbeats(&chat.us);
        beats.active_tasks == 1 && beats.current_task.is_some_and(|task| !task.is_empty())
    };
    until(&chat, "a task", busy).await;
    chat.world.model.wait_held("gate").await.unwrap();
    // Together longer than the platform believes in anybody who is silent.
    chat.platform.advance(Duration::from_secs(150));
    let beats = chat.platform.heartbeats(&chat.us).count;
    until(&chat, "a further heartbeat", |chat| {
        chat.platform.heartbeats(&chat.us).count > beats
    })
    .await;
    chat.platform.advance(Duration::from_secs(150));
    assert_eq!(chat.platform.status(&chat.us), Status::Online);
    assert!(busy(&chat), "{:?}", chat.platform.heartbeats(&chat.us));
    chat.world.model.release("gate");
    settled(&chat, &mut daemon, &row).await;
    until(&chat, "no task", |chat| {
        let beats = chat.platform.heartbeats(&chat.us);
        beats.active_tasks == 0 && beats.current_task.is_none_or(|task| task.is_empty())
    })
    .await;
    assert_eq!(texts(&chat), ["done"]);
    assert_eq!(daemon.stop().await, Some(0));
}
