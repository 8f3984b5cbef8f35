//! What people and recovery ask.

use crate::fixture::Fixture;
use crate::given::{World, answered, attach, begin, fail, incarnation, message, note, text};
use bridge_core::limits::{EVENTS_PER_MESSAGE_MAX, PAGE_MAX};
use bridge_core::port::Read;
use bridge_core::step::{
    Answered, Extras, Incarnate, IncarnationGone, Keep, Prune, Receive, ThreadDeleted,
};
use bridge_core::value::{
    Attachment, Class, FileDigest, IncarnationId, MessageId, Sandbox, Seq, ThreadId,
};

fn ids<'a>(messages: impl IntoIterator<Item = &'a bridge_core::value::Message>) -> Vec<&'a str> {
    messages
        .into_iter()
        .map(|message| message.message_id.as_str())
        .collect()
}

pub(super) async fn ids_are_found_by_their_beginning<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world
        .receives(&[
            ("a", "ab%1"),
            ("a", "ab2"),
            ("a", "abc"),
            ("a", "b"),
            ("a", "ab_"),
        ])
        .await;
    let find = |prefix: &'static str, limit| {
        world.reads(move |rows| rows.message_ids_by_prefix(prefix, limit))
    };
    let all = ["ab%1", "ab2", "ab_", "abc"].map(MessageId::new);
    assert_eq!(find("ab", 10).await, all);
    assert_eq!(find("ab", 2).await, all[..2]);
    assert_eq!(find("ab%", 10).await, all[..1]);
    assert_eq!(find("ab_", 10).await, all[2..3]);
    assert_eq!(find("", 10).await.len(), 5);
    assert_eq!(find("x", 10).await, []);
}

pub(super) async fn unfinished_messages_come_in_pages<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world
        .receives(&[
            ("a", "m3"),
            ("b", "m1"),
            ("c", "m5"),
            ("d", "m2"),
            ("e", "m4"),
        ])
        .await;
    world.claims().await;
    world.does(fail("m3", Class::Permanent)).await;
    let page = |after: Option<&str>, limit| {
        let after = after.map(MessageId::new);
        world.reads(move |rows| rows.unfinished(after.as_ref(), limit))
    };
    assert_eq!(ids(&page(None, 2).await), ["m1", "m2"]);
    assert_eq!(ids(&page(Some("m2"), 2).await), ["m4", "m5"]);
    assert_eq!(ids(&page(Some("m5"), 2).await), Vec::<&str>::new());
    assert_eq!(page(None, 0).await, []);
}

pub(super) async fn the_newest_messages_come_first<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m3"), ("b", "m1")]).await;
    world.pass_ms(-100_000);
    world.receives(&[("a", "m2")]).await;
    let newest = world.reads(|rows| rows.newest_messages(2)).await;
    assert_eq!(ids(&newest), ["m2", "m1"]);
    let newest = world.reads(|rows| rows.newest_messages(u32::MAX)).await;
    assert_eq!(ids(&newest), ["m2", "m1", "m3"]);
}

pub(super) async fn events_are_bounded<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    for n in 1..=EVENTS_PER_MESSAGE_MAX + 2 {
        world.does(note("m1", &format!("event {n}"), false)).await;
    }
    let id = message("m1");
    let (last, middle, all) = world
        .reads(move |rows| {
            Ok((
                rows.last_event(&id)?,
                rows.events(&id, 9, 2)?,
                rows.events(&id, 0, u32::MAX)?,
            ))
        })
        .await;
    assert_eq!(last, EVENTS_PER_MESSAGE_MAX);
    let texts: Vec<_> = middle.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(texts, ["event 10", "event 11"]);
    assert_eq!(all.len(), PAGE_MAX.min(EVENTS_PER_MESSAGE_MAX) as usize);
    let none = world.reads(|rows| rows.last_event(&message("other"))).await;
    assert_eq!(none, 0);
}

pub(super) async fn incarnations_live_until_they_end<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for incarnation in [
        incarnation("i2", 1),
        incarnation("i1", 2),
        incarnation("i0", 3),
    ] {
        world.does(Incarnate { incarnation }).await;
    }
    world.pass_ms(5);
    let incarnation_id = IncarnationId::new("i1");
    let gone = IncarnationGone { incarnation_id };
    world.does(gone.clone()).await;
    world.does(gone).await;
    let mut live = world.reads(|rows| rows.live_incarnations()).await;
    // In a fleet it is known where they run.
    live.iter_mut().for_each(|live| live.node_id = None);
    assert_eq!(live, [incarnation("i2", 1), incarnation("i0", 3)]);
}

/// A process may go when no unfinished turn is left on it.
pub(super) async fn turns_count_on_their_process<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.starts("a", "m1", Sandbox::ReadOnly).await;
    world.loses("b", "n1", Sandbox::ReadOnly).await;
    world.receives(&[("c", "o1")]).await;
    let turn = world
        .reads(|rows| rows.turn(&MessageId::new("m1"), 1))
        .await;
    let life = turn.unwrap().incarnation;
    let on = |life: IncarnationId| move |rows: &dyn Read| rows.turns_on(&life);
    assert_eq!(world.reads(on(life.clone())).await, 2);
    assert_eq!(world.reads(on(IncarnationId::new("other"))).await, 0);
}

pub(super) async fn a_reader_knows_what_a_message_waits_behind<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.starts("a", "m1", Sandbox::ReadOnly).await;
    world
        .receives(&[("a", "m2"), ("a", "m3"), ("b", "n1")])
        .await;
    let behind = |seq| {
        let id = crate::given::conversation("a");
        world.reads(move |rows| rows.unanswered_before(&id, Seq(seq)))
    };
    assert_eq!(behind(1).await, None);
    assert_eq!(behind(3).await, Some(message("m1")));
    world.does(answered("m1", "yes", None)).await;
    assert_eq!(behind(3).await, Some(message("m2")), "m1 has its answer");
    assert_eq!(behind(2).await, None);
}

fn file(digest: FileDigest) -> Attachment {
    Attachment {
        name: "a.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        digest,
        bytes: 1,
    }
}

pub(super) async fn files_are_named_by_messages_and_replies_as_long_as_they_are_kept<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let files = [1, 2, 3].map(|n| FileDigest::new([n; 32]));
    let [in_message, in_answer, nobodys] = files;
    let unnamed = move |rows: &dyn Read| rows.unnamed_files(&files);
    assert_eq!(world.reads(unnamed).await.len(), 3);
    let with_file = Receive {
        extras: Extras {
            attachments: vec![file(in_message)],
            ..Extras::default()
        },
        ..text("a", "m1")
    };
    world.does(with_file).await;
    assert_eq!(world.claims().await, "m1");
    world.binds("a", "t").await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world
        .does(Answered {
            attachments: vec![file(in_answer)],
            ..answered("m1", "done", Some(2))
        })
        .await;
    assert_eq!(world.reads(unnamed).await, [nobodys]);
    let first = world.sends("a").await;
    assert_eq!(first.attachments, [], "files go with the last piece");
    world.confirms(&first).await;
    let last = world.sends("a").await;
    assert_eq!(last.attachments, [file(in_answer)]);
    world.confirms(&last).await;
    world.pass_ms(400 * 24 * 3_600_000);
    let keep = Keep {
        done_ms: 1,
        dead_ms: 1,
        audit_ms: 1,
        redelivery_ms: 1,
    };
    let now = world.now;
    assert_eq!(world.does(Prune { now, keep }).await.outcome, 1);
    assert_eq!(world.reads(unnamed).await.len(), 3);
}

pub(super) async fn only_quiet_conversations_give_up_their_threads<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, id) in [("a", "m1"), ("b", "m2")] {
        world.does(text(key, id)).await;
        assert_eq!(world.claims().await, id);
        world.binds(key, &format!("t-{key}")).await;
    }
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world.does(answered("m1", "done", None)).await;
    let reply = world.sends("a").await;
    let day = 24 * 3_600_000;
    world.pass_ms(2 * day);
    let before = world.now.plus_ms(-day);
    let quiet = move |rows: &dyn Read| {
        let found = rows.prunable(before, 10)?.into_iter();
        Ok(found.filter_map(|one| one.thread).collect::<Vec<_>>())
    };
    assert_eq!(world.reads(quiet).await, [], "its reply is open");
    world.confirms(&reply).await;
    let thread = ThreadId::new("t-a");
    assert_eq!(
        world.reads(quiet).await,
        std::slice::from_ref(&thread),
        "b has work"
    );
    let stand_in = thread.pruned();
    world.binds("a", stand_in.as_str()).await;
    assert_eq!(world.reads(quiet).await, []);
    let pruned = |rows: &dyn Read| {
        let found = rows.pruned(10)?.into_iter();
        Ok(found.filter_map(|one| one.thread).collect::<Vec<_>>())
    };
    let conversation_id = crate::given::conversation("a");
    for deleted in [thread, stand_in.clone()] {
        assert_eq!(world.reads(pruned).await, std::slice::from_ref(&stand_in));
        let (conversation_id, thread) = (conversation_id.clone(), deleted);
        world
            .does(ThreadDeleted {
                conversation_id,
                thread,
            })
            .await;
    }
    assert_eq!(world.reads(pruned).await, []);
    assert_eq!(world.reads(quiet).await, []);
    let row = world
        .reads(move |rows| rows.conversation(&conversation_id))
        .await;
    assert_eq!(row.unwrap().thread, Some(ThreadId::deleted()));
}
