//! What comes through the door beside a text: pages with their cursor, talks, commands of the chat, agents that
//! answer each other.

use crate::fixture::Fixture;
use crate::given::{World, Write, answered, attach, begin, conversation, message, text};
use bridge_core::limits::{
    AGENT_MESSAGES_PER_DAY_DEFAULT, AGENT_MESSAGES_PER_DAY_IN_ALL_DEFAULT,
    AGENT_MESSAGES_PER_TEN_MINUTES_DEFAULT, BACKLOG_MAX, HOPS_DEFAULT, PAGE_ROWS_MAX,
};
use bridge_core::port::{Change, Ledger, LedgerError};
use bridge_core::step::{
    Action, Adopted, Extras, Import, Imported, LoopLimits, NOTHING_TO_DO, Receive, ReceivePage,
    Received, Redrive, RedriveOutcome, Verdict,
};
use bridge_core::value::{
    ChannelId, Command, ConversationId, ExternalId, Message, MessageState, ReplyKind, Sandbox,
    SenderKind, Seq, StateName, ThreadId, Timestamp,
};

/// Messages and the time within which they are a loop, by default.
const FAST: (u32, i64) = (AGENT_MESSAGES_PER_TEN_MINUTES_DEFAULT, 10 * 60_000);
const SLOW: (u32, i64) = (AGENT_MESSAGES_PER_DAY_DEFAULT, DAY_MS);
const DAY_MS: i64 = 24 * 3_600_000;

fn local() -> ChannelId {
    ChannelId::new("local")
}

fn page(rows: Vec<Receive>, position: &str) -> ReceivePage {
    ReceivePage {
        channel: local(),
        rows,
        position: Some(position.to_owned()),
    }
}

fn says(key: &str, id: &str, command: Command) -> Receive {
    Receive {
        extras: Extras {
            command: Some(command),
            ..Extras::default()
        },
        ..text(key, id)
    }
}

fn in_talk(id: &str, talk: &str) -> Receive {
    Receive {
        conversation_id: ConversationId::new(format!("c-{id}")),
        extras: Extras {
            context: Some(talk.to_owned()),
            ..Extras::default()
        },
        ..text("chat", id)
    }
}

fn from_agent(id: &str, hops: u32) -> Receive {
    Receive {
        kind: SenderKind::Agent,
        sender: "beta".to_owned(),
        extras: Extras {
            hops,
            ..Extras::default()
        },
        ..text("peer", id)
    }
}

async fn cursor<L: Ledger>(world: &World<L>) -> Option<String> {
    world.reads(|rows| rows.cursor(&local())).await
}

async fn notices<L: Ledger>(world: &World<L>, id: &str) -> Vec<String> {
    let id = message(id);
    let replies = world.reads(move |rows| rows.replies(&id)).await;
    let notices = replies
        .into_iter()
        .filter(|reply| reply.kind == ReplyKind::Notice);
    notices.map(|reply| reply.body).collect()
}

pub(super) async fn a_page_and_its_cursor_are_on_disk_together<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    assert_eq!(cursor(&world).await, None);
    let taken = world
        .does(page(
            vec![text("a", "m1"), text("a", "m2"), text("b", "m3")],
            "p1",
        ))
        .await;
    assert_eq!(
        taken.outcome,
        ["m1", "m2", "m3"].map(|id| Received::New(message(id)))
    );
    assert_eq!(cursor(&world).await.as_deref(), Some("p1"));
    assert_eq!(
        world.message("m2").await.seq.0,
        2,
        "each row sees the ones before it"
    );

    // An overlap: what is known is known, what is new is new, and the cursor moves.
    let mut twice = text("a", "m9");
    twice.external_id = text("a", "m2").external_id;
    let taken = world.does(page(vec![twice, text("b", "m4")], "p2")).await;
    assert_eq!(
        taken.outcome,
        [
            Received::Duplicate(message("m2")),
            Received::New(message("m4"))
        ]
    );
    assert_eq!(cursor(&world).await.as_deref(), Some("p2"));

    // A page that can't be written whole is not written at all.
    let mut broken = text("c", "m6");
    broken.message_id = message("m1");
    let refused = world.tries(page(vec![text("c", "m5"), broken], "p3")).await;
    assert!(matches!(refused, Err(LedgerError::Rows(_))), "{refused:?}");
    assert_eq!(cursor(&world).await.as_deref(), Some("p2"));
    let m5 = world.reads(|rows| rows.message(&message("m5"))).await;
    assert_eq!(m5, None);
}

pub(super) async fn d2_a_former_id_is_known<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(text("a", "m1")).await;
    let named = |id: &str, former: &str| {
        let mut named = text("a", id);
        named.extras.former_id = Some(text("a", former).external_id);
        named
    };
    let taken = world
        .does(page(vec![named("m2", "m1"), named("m3", "r3")], "p1"))
        .await;
    let known = Received::Duplicate(message("m1"));
    assert_eq!(taken.outcome, [known, Received::New(message("m3"))]);
    // A former id is looked up and never stored.
    let taken = world.does(page(vec![text("a", "r3")], "p2")).await;
    assert_eq!(taken.outcome, [Received::New(message("r3"))]);
}

pub(super) async fn a_full_backlog_leaves_the_cursor_where_it_was<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let rows = (1..BACKLOG_MAX).map(|n| text(&format!("k{n}"), &format!("f{n}")));
    let rows: Vec<Receive> = rows.collect();
    for rows in rows.chunks(PAGE_ROWS_MAX) {
        world.does(page(rows.to_vec(), "p1")).await;
    }
    let taken = world
        .does(page(
            vec![text("a", "m1"), text("a", "m2"), text("a", "m3")],
            "p2",
        ))
        .await;
    assert_eq!(
        taken.outcome,
        [Received::New(message("m1")), Received::Full]
    );
    assert_eq!(cursor(&world).await.as_deref(), Some("p1"));
}

pub(super) async fn another_talk_is_another_conversation<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    // A conversation from before talks takes the first one as its own.
    world.does(text("chat", "m0")).await;
    for (id, talk, expected) in [
        ("m1", "one", "c-chat"),
        ("m2", "one", "c-chat"),
        ("m3", "two", "c-m3"),
        ("m4", "two", "c-m3"),
        ("m5", "one", "c-chat"),
        ("m6", "two", "c-m3"),
    ] {
        world.does(in_talk(id, talk)).await;
        let found = world.message(id).await.conversation_id;
        assert_eq!(found, ConversationId::new(expected), "{id}");
    }
    let present = world
        .reads(|rows| rows.conversation_by_key(&local(), "chat"))
        .await;
    assert_eq!(present.unwrap().context.as_deref(), Some("two"));
    world.does(text("chat", "m7")).await;
    let found = world.message("m7").await.conversation_id;
    assert_eq!(
        found,
        ConversationId::new("c-m3"),
        "no talk is the present one"
    );
}

pub(super) async fn commands_are_answered_at_the_door_and_once<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    world.receives(&[("a", "m2"), ("b", "other")]).await;
    world.does(says("a", "m3", Command::Status)).await;
    let told = notices(&world, "m3").await;
    assert!(
        told[0].contains("m1") && told[0].ends_with("1 waiting."),
        "{told:?}"
    );

    let stopped = world.does(says("a", "m4", Command::Stop)).await;
    let interrupt = Action::Interrupt {
        message_id: message("m1"),
    };
    assert!(stopped.actions.contains(&interrupt), "{stopped:?}");
    assert_eq!(world.state("m2").await, StateName::Cancelled);
    assert!(world.message("m1").await.life.stop.is_some());
    assert_eq!(world.state("other").await, StateName::Received);
    let again = world.does(says("a", "m4", Command::Stop)).await;
    assert_eq!(again.outcome, Received::Duplicate(message("m4")));

    // The command goes the way of every answer, past the turn that runs.
    assert_eq!(world.state("m4").await, StateName::Answered);
    for id in ["m2", "m3", "m4"] {
        let reply = world.sends("a").await;
        assert_eq!(reply.message_id, message(id));
        world.confirms(&reply).await;
    }
    assert_eq!(world.state("m4").await, StateName::Done);
}

pub(super) async fn new_lets_the_conversation_go<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    world.does(says("a", "m2", Command::New)).await;
    let fresh = Receive {
        conversation_id: ConversationId::new("fresh"),
        ..text("a", "m3")
    };
    world.does(fresh).await;
    assert_eq!(world.message("m3").await.conversation_id.as_str(), "fresh");
    assert_eq!(world.message("m2").await.conversation_id, conversation("a"));
    // What runs there is answered there.
    world.does(answered("m1", "late", None)).await;
    assert_eq!(world.state("m1").await, StateName::Answered);
    assert_eq!(world.claims().await, "m3");
    world.does(begin("m3", Sandbox::ReadOnly)).await;
    world.does(attach("m3")).await;
}

pub(super) async fn agents_that_answer_each_other_are_stopped<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(from_agent("h1", HOPS_DEFAULT - 1)).await;
    assert_eq!(world.state("h1").await, StateName::Received);
    world.does(from_agent("h2", HOPS_DEFAULT)).await;
    world.does(from_agent("h3", HOPS_DEFAULT + 1)).await;
    for (id, told) in [("h2", 1), ("h3", 0)] {
        let state = world.message(id).await.life.state;
        let MessageState::Dead { reason } = state else {
            panic!("{id} is {state:?}");
        };
        assert!(reason.contains("loop guard"), "{reason}");
        assert_eq!(notices(&world, id).await.len(), told, "{id}");
    }

    // A row that is no message is told so only as long as the pair may talk.
    let mut unfit = from_agent("h4", HOPS_DEFAULT + 1);
    unfit.verdict = Verdict::Unfit {
        reason: "nothing in it".to_owned(),
        tell: true,
    };
    world.does(unfit).await;
    assert!(notices(&world, "h4").await.is_empty());

    // An operator may send it again all the same.
    let by = "the operator".to_owned();
    let message_id = message("h2");
    let redriven = world
        .does(Redrive {
            message_id,
            by,
            not_before: None,
        })
        .await;
    assert_eq!(redriven.outcome, RedriveOutcome::Queued);
}

/// A message of an agent that counts no hops, said at a time of its own.
fn said_at(id: &str, at: i64) -> Receive {
    let mut said = from_agent(id, 0);
    said.extras.said_at = Some(Timestamp(at));
    said
}

/// Until when a message that waits does.
async fn held_until<L: Ledger>(world: &World<L>, id: &str) -> Option<i64> {
    let life = world.message(id).await.life;
    assert_eq!(life.state.name(), StateName::Received, "{id}");
    life.state.hold().map(|hold| hold.until.0)
}

pub(super) async fn an_agent_that_never_pauses_waits<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (name, (messages, window_ms)) in [("fast", FAST), ("slow", SLOW)] {
        world.pass_ms(2 * DAY_MS);
        let step = window_ms / i64::from(messages) - 1;
        let start = world.now.0;
        let id = |n: u32| format!("{name}{n}");
        for n in 0..messages {
            world.does(said_at(&id(n), world.now.0)).await;
            assert_eq!(held_until(&world, &id(n)).await, None, "{}", id(n));
            world.pass_ms(step);
        }
        for (n, told) in [(messages, 1), (messages + 1, 0)] {
            world.does(said_at(&id(n), world.now.0)).await;
            let room = start + i64::from(n - messages) * step + window_ms;
            assert_eq!(held_until(&world, &id(n)).await, Some(room), "{}", id(n));
            assert_eq!(notices(&world, &id(n)).await.len(), told, "{}", id(n));
        }
    }
    // What waited while nobody took it in was said long apart, and is no flood.
    world.pass_ms(2 * DAY_MS);
    let start = world.now.0 - DAY_MS;
    for n in 0..60 {
        let id = format!("late{n}");
        world.does(said_at(&id, start + n * 1_200_000)).await;
        assert_eq!(held_until(&world, &id).await, None, "{id}");
    }
}

/// It goes on at the allowed rate, is told once, and what can't go on within a day is stopped.
pub(super) async fn a_flood_goes_on_at_its_rate<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let start = world.now.0;
    let limits = LoopLimits {
        per_ten_minutes: 2,
        per_day: 4,
        ..LoopLimits::default()
    };
    let minutes = |n: i64| Some(start + n * 60_000);
    for (id, until, told) in [
        ("f1", None, 0),
        ("f2", None, 0),
        ("f3", minutes(10), 1),
        ("f4", minutes(10), 0),
        ("f5", minutes(24 * 60), 0),
        ("f6", minutes(24 * 60), 0),
    ] {
        let mut said = from_agent(id, 0);
        said.extras.loop_limits = limits;
        world.does(said).await;
        assert_eq!(held_until(&world, id).await, until, "{id}");
        assert_eq!(notices(&world, id).await.len(), told, "{id}");
    }
    let mut more = from_agent("f7", 0);
    more.extras.loop_limits = limits;
    world.does(more).await;
    assert_eq!(world.state("f7").await, StateName::Dead);
    assert!(notices(&world, "f7").await.is_empty());

    let hold = world.message("f3").await.life.state.hold().cloned();
    let reason = hold.unwrap().failure.reason;
    assert!(reason.contains("2 messages within 10 minutes"), "{reason}");
    for id in ["f1", "f2"] {
        assert_eq!(world.claims().await, id);
        world.does(begin(id, Sandbox::ReadOnly)).await;
        world.does(attach(id)).await;
        world.does(answered(id, "fine", None)).await;
    }
    assert_eq!(world.idles().await, minutes(10).map(Timestamp));
    world.pass_ms(10 * 60_000);
    assert_eq!(world.claims().await, "f3");
}

/// The same, in one of its many talks.
fn agent_in_talk(talk: &str, id: &str, at: i64) -> Receive {
    let mut said = said_at(id, at);
    said.extras.by_talk = true;
    Receive {
        external_key: talk.to_owned(),
        conversation_id: ConversationId::new(format!("of-{talk}")),
        ..said
    }
}

pub(super) async fn an_agent_with_many_talks_is_counted_within_one<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let (messages, _) = FAST;
    for n in 0..2 * messages {
        let id = format!("m{n}");
        let talk = format!("talk-{}", n % 2);
        world.does(agent_in_talk(&talk, &id, 1_000)).await;
        assert_eq!(world.state(&id).await, StateName::Received, "{id}");
    }
    world
        .does(agent_in_talk("talk-2", "elsewhere", 1_000))
        .await;
    assert_eq!(world.state("elsewhere").await, StateName::Received);
    world.does(agent_in_talk("talk-0", "too many", 1_000)).await;
    let room = 1_000 + FAST.1;
    // It was said long ago: there is room again.
    assert!(room < world.now.0);
    assert_eq!(held_until(&world, "too many").await, None);
    world
        .does(agent_in_talk("talk-1", "now", world.now.0))
        .await;
    assert_eq!(held_until(&world, "now").await, None);
}

pub(super) async fn a_slow_loop_in_one_talk_is_found_among_others<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let (messages, window_ms) = SLOW;
    let step = window_ms / i64::from(messages) - 1;
    let start = world.now.0;
    for n in 0..messages {
        let at = world.now.0;
        world
            .does(agent_in_talk("loop", &format!("m{n}"), at))
            .await;
        let (talk, id) = (format!("talk-{n}"), format!("o{n}"));
        world.does(agent_in_talk(&talk, &id, at)).await;
        assert_eq!(held_until(&world, &id).await, None, "{id}");
        world.pass_ms(step);
    }
    let at = world.now.0;
    world.does(agent_in_talk("loop", "too many", at)).await;
    let room = Some(start + window_ms);
    assert_eq!(held_until(&world, "too many").await, room);
}

pub(super) async fn a_loop_that_begins_a_talk_each_time_waits<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let at = world.now.0;
    world.does(agent_in_talk("first", "m0", at)).await;
    let said = world.message("m0").await;
    let more = (1..AGENT_MESSAGES_PER_DAY_IN_ALL_DEFAULT - 1).map(|n| {
        Change::NewMessage(Message {
            message_id: message(&format!("m{n}")),
            external_id: ExternalId::new(format!("m{n}")),
            seq: Seq(said.seq.0 + i64::from(n)),
            ..said.clone()
        })
    });
    world.does(Write(more.collect())).await;
    let room = Some(at + SLOW.1);
    for (id, until, told) in [("last", None, 0), ("too many", room, 1), ("again", room, 0)] {
        world
            .does(agent_in_talk(&format!("talk-{id}"), id, at))
            .await;
        assert_eq!(held_until(&world, id).await, until, "{id}");
        assert_eq!(notices(&world, id).await.len(), told, "{id}");
    }
    world.pass_ms(2 * DAY_MS);
    let at = world.now.0;
    world.does(agent_in_talk("talk-later", "later", at)).await;
    assert_eq!(held_until(&world, "later").await, None);
}

pub(super) async fn the_loop_guard_counts_as_configured<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let limits = LoopLimits {
        hops: 2,
        per_ten_minutes: 3,
        per_day: 4,
        per_day_in_all: 5,
    };
    let under = |mut receive: Receive| {
        receive.extras.loop_limits = limits;
        receive
    };
    for (id, hops, state) in [("h1", 1, StateName::Received), ("h2", 2, StateName::Dead)] {
        let mut said = from_agent(id, hops);
        said.sender = "hopper".to_owned();
        world.does(under(said)).await;
        assert_eq!(world.state(id).await, state);
    }
    let at = world.now.0;
    for n in 0..6 {
        let id = format!("t{n}");
        let talk = agent_in_talk(&format!("talk-{n}"), &id, at);
        world.does(under(talk)).await;
        let until = (n == 5).then_some(at + DAY_MS);
        assert_eq!(held_until(&world, &id).await, until, "{id}");
    }
}

/// Nothing to do is an answer, and no turn.
pub(super) async fn an_empty_message_is_answered<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for (id, body) in [("m1", ""), ("m2", " \n\t")] {
        let mut empty = text("k", id);
        empty.body = body.to_owned();
        world.does(empty).await;
        assert_eq!(world.state(id).await, StateName::Answered);
        let reply = world.sends("k").await;
        assert_eq!(reply.body, NOTHING_TO_DO);
        world.confirms(&reply).await;
        assert_eq!(world.state(id).await, StateName::Done);
        let known = message(id);
        let answer = world.reads(move |rows| rows.answer(&known)).await;
        assert_eq!(answer.unwrap().text, NOTHING_TO_DO);
    }
    assert_eq!(world.idles().await, None);
}

pub(super) async fn an_old_program_s_conversations_are_taken_over_once<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("here", "m1")]).await;
    let import = |mark: &str, keys: &[&str]| Import {
        mark: ChannelId::new(mark),
        from: "sessions.json".to_owned(),
        adopted: keys
            .iter()
            .map(|key| Adopted {
                conversation_id: ConversationId::new(format!("old-{key}")),
                channel: local(),
                external_key: (*key).to_owned(),
                thread: ThreadId::new(format!("t-{key}")),
                workdir: "/w".to_owned(),
            })
            .collect(),
    };
    let now = world.does(import("old", &["here", "new"])).await.outcome;
    assert_eq!(now, Imported::Now { taken: 1, known: 1 });
    let of = |key: &'static str| {
        world.reads(move |rows| {
            let found = rows.conversation_by_key(&local(), key)?;
            Ok(found.and_then(|found| found.thread))
        })
    };
    assert_eq!(of("here").await, None, "what is here is not touched");
    assert_eq!(of("new").await, Some(ThreadId::new("t-new")));
    let again = world.does(import("old", &["newer"])).await.outcome;
    assert_eq!(again, Imported::Before);
    assert_eq!(of("newer").await, None);
    world.receives(&[("new", "m2")]).await;
    let next = world.message("m2").await.conversation_id;
    assert_eq!(
        next,
        ConversationId::new("old-new"),
        "the next message goes on there"
    );
}
