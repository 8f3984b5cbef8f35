//! The reply lane: in order, one after the other, never lost.

use crate::fixture::Fixture;
use crate::given::{World, answered, begin, conversation, fail, message, text};
use bridge_core::limits::REPLY_AGE_MAX_MS;
use bridge_core::port::Ledger;
use bridge_core::step::SendOutcome;
use bridge_core::value::{
    ChannelId, Class, ConversationId, ReplyKey, ReplyKind, ReplyState, Sandbox, SenderKind,
    StateName, Timestamp,
};

async fn answers_an_agent<L: Ledger>(world: &mut World<L>, key: &str, id: &str, said: &str) {
    let mut asked = text(key, id);
    asked.kind = SenderKind::Agent;
    world.does(asked).await;
    world.claims().await;
    world.does(begin(id, Sandbox::ReadOnly)).await;
    world.does(answered(id, said, None)).await;
}

async fn answers<L: Ledger>(world: &mut World<L>, key: &str, id: &str, text: &str, max: usize) {
    world.starts(key, id, Sandbox::ReadOnly).await;
    world.does(answered(id, text, Some(max))).await;
}

pub(super) async fn a_lane_sends_in_order_of_messages_and_pieces<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    answers(&mut world, "a", "m9", "abcdef", 2).await;
    answers(&mut world, "a", "m1", "xy", 1).await;
    answers(&mut world, "b", "n1", "other", 100).await;
    for (id, ordinal, body) in [
        ("m9", 0, "ab"),
        ("m9", 1, "cd"),
        ("m9", 2, "ef"),
        ("m1", 0, "x"),
        ("m1", 1, "y"),
    ] {
        assert_ne!(world.state("m1").await, StateName::Done);
        let reply = world.sends("a").await;
        assert_eq!((reply.message_id.as_str(), reply.ordinal), (id, ordinal));
        assert_eq!(reply.body, body);
        assert_eq!(reply.key, ReplyKey::of(&message(id), ordinal));
        assert_eq!((reply.tries, reply.first_try_at), (1, Some(world.now)));
        world.confirms(&reply).await;
        world.pass_ms(1);
    }
    assert_eq!(world.send("a").await, SendOutcome::Empty);
    assert_eq!(world.state("m9").await, StateName::Done);
    assert_eq!(world.state("m1").await, StateName::Done);
    assert_eq!(world.sends("b").await.body, "other");
}

pub(super) async fn a_notice_keeps_its_place_in_the_lane<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1"), ("a", "m2")]).await;
    world.claims().await;
    let until = Some(Timestamp(world.now.0 + 60_000));
    world.does(fail("m1", Class::Capacity { until })).await;
    world.pass_ms(60_000);
    assert_eq!(world.claims().await, "m1");
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(answered("m1", "one", None)).await;
    assert_eq!(world.claims().await, "m2");
    world.does(begin("m2", Sandbox::ReadOnly)).await;
    world.does(answered("m2", "two", None)).await;
    for (id, ordinal, kind) in [
        ("m1", 0, ReplyKind::Notice),
        ("m1", 1, ReplyKind::Answer),
        ("m2", 0, ReplyKind::Answer),
    ] {
        let reply = world.sends("a").await;
        assert_eq!(
            (reply.message_id.as_str(), reply.ordinal, reply.kind),
            (id, ordinal, kind)
        );
        world.confirms(&reply).await;
    }
    assert_eq!(world.send("a").await, SendOutcome::Empty);
}

pub(super) async fn a_refused_reply_waits_or_dies<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    answers(&mut world, "a", "m1", "abc", 2).await;
    let reply = world.sends("a").await;
    let again = world.refuses(&reply, Class::Transient).await.unwrap();
    assert_eq!(again.since_ms(world.now), 1_000);
    assert_eq!(world.send("a").await, SendOutcome::Later(again));
    world.now = again;
    let reply = world.sends("a").await;
    assert_eq!((reply.ordinal, reply.tries), (0, 2));
    let until = Timestamp(again.0 + 50_000);
    let told = world
        .refuses(&reply, Class::Capacity { until: Some(until) })
        .await;
    assert_eq!(told, Some(until));
    world.now = until;
    let reply = world.sends("a").await;
    assert_eq!(world.refuses(&reply, Class::Permanent).await, None);
    assert_eq!(world.state("m1").await, StateName::Dead);
    let rest = world.sends("a").await;
    assert_eq!((rest.ordinal, rest.body.as_str()), (1, "c"));
    world.pass_ms(REPLY_AGE_MAX_MS + 1);
    assert_eq!(world.refuses(&rest, Class::Transient).await, None);
    assert_eq!(world.send("a").await, SendOutcome::Empty);
    let replies = world.reads(|rows| rows.replies(&message("m1"))).await;
    for reply in replies {
        assert!(matches!(reply.state, ReplyState::Dead { .. }), "{reply:?}");
    }
}

pub(super) async fn an_unknown_outcome_is_sent_again<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    answers(&mut world, "a", "m1", "yes", 10).await;
    let reply = world.sends("a").await;
    world.refuses(&reply, Class::Ambiguous).await;
    let SendOutcome::Send { again, reply, .. } = world.send("a").await else {
        panic!("the reply is gone");
    };
    assert!(again);
    assert_eq!(reply.tries, 2);
    world.confirms(&reply).await;
    world.confirms(&reply).await;
    assert_eq!(world.state("m1").await, StateName::Done);
}

pub(super) async fn lanes_are_listed_in_pages<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for key in ["d", "b", "a", "c"] {
        answers(&mut world, key, &format!("m-{key}"), "ab", 1).await;
    }
    let reply = world.sends("b").await;
    world.confirms(&reply).await;
    world.confirms(&world.sends("b").await).await;
    let pages = |after: Option<ConversationId>, limit| {
        world.reads(move |rows| rows.lanes(after.as_ref(), limit))
    };
    assert_eq!(pages(None, 2).await, [conversation("a"), conversation("c")]);
    assert_eq!(pages(Some(conversation("c")), 2).await, [conversation("d")]);
    assert_eq!(pages(Some(conversation("d")), 2).await, []);
}

pub(super) async fn replies_that_say_the_same_are_found<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, text) in [("a", "ok"), ("b", "ok"), ("c", "no"), ("d", "ok")] {
        answers(&mut world, key, &format!("m-{key}"), text, 10).await;
    }
    answers_an_agent(&mut world, "e", "m-e", "ok").await;
    let began = world.now;
    // Tried first, and taken last of those that say the same to people.
    let long_tried = world.sends("a").await;
    world.refuses(&long_tried, Class::Ambiguous).await;
    for key in ["b", "a", "c", "e"] {
        world.pass_ms(60_000);
        let reply = world.sends(key).await;
        world.confirms(&reply).await;
    }
    let doubtful = world.sends("d").await;
    world.refuses(&doubtful, Class::Ambiguous).await;
    let channel = world.message("m-a").await.channel;
    let twins = |channel: ChannelId, kind: SenderKind, since: Timestamp| {
        world.reads(move |rows| rows.twins(&channel, kind, "ok", since, 10))
    };
    let person = SenderKind::Person;
    let found = twins(channel.clone(), person, began).await;
    let keys: Vec<String> = found.iter().map(|twin| twin.key.to_string()).collect();
    let key = |id: &str| ReplyKey::of(&message(id), 0).to_string();
    assert_eq!(keys, [key("m-b"), key("m-a")]);
    let taken = began.plus_ms(120_000);
    let found = twins(channel.clone(), person, taken).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].key.to_string(), key("m-a"));
    assert_eq!((found[0].first_try_at, found[0].sent_at), (began, taken));
    let found = twins(channel, SenderKind::Agent, began).await;
    assert_eq!(found.len(), 1, "an agent's is shown elsewhere");
    assert_eq!(found[0].key.to_string(), key("m-e"));
    let elsewhere = ChannelId::new("elsewhere");
    assert!(twins(elsewhere, person, began).await.is_empty());
}
