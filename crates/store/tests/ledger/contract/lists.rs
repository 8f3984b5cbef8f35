//! What fronts list and count for people.

use crate::fixture::Fixture;
use crate::given::{World, answered, attach, begin, fail, text};
use bridge_core::port::{
    AuditFilter, AuditPage, AuditQuery, FoundIn, Ledger, SearchPage, SearchQuery, TurnsUsed,
};
use bridge_core::step::{Keep, Prune, Receive, Record};
use bridge_core::value::{AuditCheck, AuditEntry, Class, Sandbox, StateName, Tier, Timestamp};

async fn acts<L: Ledger>(world: &mut World<L>, acts: &[(&str, &str, &str)]) {
    for (actor, what, subject) in acts {
        world.pass_ms(1_000);
        let entry = AuditEntry {
            at: world.now,
            actor: (*actor).to_owned(),
            what: (*what).to_owned(),
            subject: (*subject).to_owned(),
            detail: String::new(),
        };
        world.does(Record { entry }).await;
    }
}

async fn page<L: Ledger>(world: &World<L>, query: AuditQuery) -> AuditPage {
    world.reads(move |rows| rows.audit_page(&query)).await
}

fn rows(page: &AuditPage) -> Vec<i64> {
    page.links.iter().map(|link| link.row).collect()
}

fn older(before: Option<i64>, limit: u32) -> AuditQuery {
    AuditQuery {
        before,
        limit,
        ..AuditQuery::default()
    }
}

pub(super) async fn acts_come_in_pages_with_their_sums<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let empty = page(&world, older(None, 9)).await;
    assert_eq!(
        (empty.links.len(), empty.next, empty.before),
        (0, None, None)
    );
    let act = ("ann", "cancel", "m1");
    acts(&mut world, &[act; 5]).await;
    let first = page(&world, older(None, 2)).await;
    assert_eq!((rows(&first), first.next), (vec![5, 4], Some(4)));
    let second = page(&world, older(first.next, 2)).await;
    assert_eq!((rows(&second), second.next), (vec![3, 2], Some(2)));
    let last = page(&world, older(second.next, 2)).await;
    assert_eq!((rows(&last), last.next, last.before), (vec![1], None, None));
    assert_eq!(second.before, last.links[0].sum);

    let mut check = AuditCheck::behind(second.before.clone(), second.ends.clone());
    for link in second.links.iter().rev().chain(first.links.iter().rev()) {
        check.next(link).unwrap();
    }
    assert_eq!(check.end().map(|found| found.chained), Ok(4));

    let keep = Keep {
        done_ms: 1,
        dead_ms: 1,
        audit_ms: 2_500,
        redelivery_ms: 1,
    };
    let now = world.now;
    world.does(Prune { now, keep }).await;
    let kept = page(&world, older(None, 9)).await;
    assert_eq!((rows(&kept), kept.next), (vec![5, 4, 3], None));
    assert_eq!(kept.before, kept.ends.removed);
    assert_eq!(kept.before, second.links[1].sum);
}

pub(super) async fn acts_are_found_by_conditions<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let began = world.now;
    let all = [
        ("ann", "cancel", "m1"),
        ("bob", "redrive", "m2"),
        ("ann (script)", "cancel", "m11"),
        ("anna", "reload", "configuration"),
    ];
    acts(&mut world, &all).await;
    let found = async |filter: AuditFilter, limit| {
        let query = AuditQuery {
            filter,
            limit,
            ..AuditQuery::default()
        };
        page(&world, query).await
    };
    let filter = |actor: &str| AuditFilter {
        actor: Some(actor.to_owned()),
        ..AuditFilter::default()
    };
    let ann = found(filter("ann"), 9).await;
    assert_eq!((rows(&ann), ann.next), (vec![3, 1], None));
    assert_eq!(ann.before, None, "rows between them are not here");
    let newest = found(filter("ann"), 1).await;
    assert_eq!((rows(&newest), newest.next), (vec![3], Some(3)));
    let by_subject = AuditFilter {
        subject: Some("m1".to_owned()),
        ..AuditFilter::default()
    };
    assert_eq!(rows(&found(by_subject, 9).await), [3, 1]);
    let by_what = AuditFilter {
        what: Some("redrive".to_owned()),
        ..AuditFilter::default()
    };
    assert_eq!(rows(&found(by_what, 9).await), [2]);
    let between = AuditFilter {
        since: Some(began.plus_ms(2_000)),
        until: Some(began.plus_ms(4_000)),
        ..AuditFilter::default()
    };
    assert_eq!(rows(&found(between, 9).await), [3, 2]);
}

fn says(key: &str, id: &str, body: &str) -> Receive {
    Receive {
        body: body.to_owned(),
        ..text(key, id)
    }
}

async fn search<L: Ledger>(
    world: &World<L>,
    text: &str,
    limit: u32,
    before: Option<i64>,
) -> SearchPage {
    let query = SearchQuery {
        text: text.to_owned(),
        before,
        limit,
        reach: 50,
    };
    world.reads(move |rows| rows.search(&query)).await
}

fn found(page: &SearchPage) -> Vec<(&str, FoundIn)> {
    let found = page.found.iter();
    let found = found.map(|one| (one.message_id.as_str(), one.place));
    found.collect()
}

pub(super) async fn texts_are_found_in_messages_and_answers<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(says("a", "m1", "Deploy 100% of it")).await;
    world.does(says("b", "m2", "what is a_b!")).await;
    world.does(says("c", "m3", "Grüße, DEPLOY later")).await;
    assert_eq!(world.claims().await, "m1");
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world.does(answered("m1", "All good in Käln", None)).await;
    let all = search(&world, "deploy", 9, None).await;
    let (m1, m3) = (("m1", FoundIn::Text), ("m3", FoundIn::Text));
    assert_eq!(found(&all), [m3, m1]);
    assert_eq!((all.looked_at, all.next), (3, None));
    let in_answer = search(&world, "GOOD", 9, None).await;
    assert_eq!(found(&in_answer), [("m1", FoundIn::Answer)]);
    for (text, id) in [("100%", "m1"), ("a_b!", "m2"), ("rüße", "m3")] {
        let one = search(&world, text, 9, None).await;
        assert_eq!(found(&one), [(id, FoundIn::Text)], "{text}");
    }
    // Only ASCII letters are found in both cases, on both engines.
    for nothing in [
        "KÄLN",
        "GRÜSSE",
        "rÜße",
        "axb",
        "1000",
        "'; DROP TABLE message --",
        "\\",
    ] {
        let none = search(&world, nothing, 9, None).await;
        assert_eq!(found(&none), [], "{nothing}");
    }
    let first = search(&world, "deploy", 1, None).await;
    assert_eq!(found(&first), [m3]);
    let second = search(&world, "deploy", 1, first.next).await;
    assert_eq!(found(&second), [m1]);
    assert_eq!(second.looked_at, 2, "m3 is not looked at again");
}

pub(super) async fn senders_are_counted_with_what_they_used<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let by = |sender: &str, id: &str| Receive {
        sender: sender.to_owned(),
        tier: Tier::Peer,
        ..text(id, id)
    };
    world.does(by("old", "m0")).await;
    world.pass_ms(5_000);
    let since = world.now;
    world.does(by("ann", "m1")).await;
    world.pass_ms(1_000);
    world.does(by("ann", "m2")).await;
    world.does(by("bob", "m3")).await;
    let senders = world.reads(move |rows| rows.recent_senders(since)).await;
    let found: Vec<_> = senders
        .iter()
        .map(|one| (one.sender.as_str(), one.messages, one.newest_at))
        .collect();
    assert_eq!(found, [("ann", 2, world.now), ("bob", 1, world.now)]);
    assert_eq!(senders[0].tier, Tier::Peer);
    let used = async || {
        let channel = senders[0].channel.clone();
        let used = world.reads(move |rows| rows.turns_used(&channel, "ann", since));
        let TurnsUsed { turns, tokens } = used.await;
        (turns, tokens)
    };
    assert_eq!(used().await, (0, 0));
    assert_eq!(world.claims().await, "m0");
    assert_eq!(world.claims().await, "m1");
    assert_eq!(used().await, (1, 0), "its turn begins at once");
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world.does(answered("m1", "yes", None)).await;
    assert_eq!(used().await, (1, 10));
}

pub(super) async fn finished_messages_are_figures_by_end<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let began = world.now;
    world.receives(&[("a", "m1"), ("b", "m2")]).await;
    world.pass_ms(10_000);
    assert_eq!(world.claims().await, "m1");
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world.does(answered("m1", "yes", None)).await;
    let answered_at = world.now;
    world.pass_ms(2_000);
    let reply = world.sends("a").await;
    world.confirms(&reply).await;
    let done_at = world.now;
    assert_eq!(world.claims().await, "m2");
    world.does(fail("m2", Class::Permanent)).await;
    let ended = async |state: StateName, since: Timestamp| {
        world
            .reads(move |rows| rows.finished_since(state, since))
            .await
    };
    let done = ended(StateName::Done, began).await;
    let [one] = done.as_slice() else {
        panic!("{done:?}");
    };
    assert_eq!(one.message_id.as_str(), "m1");
    assert_eq!(one.ended_at, done_at);
    assert_eq!(one.answered_at, Some(answered_at));
    assert_eq!((one.tokens, one.class.as_deref()), (10, None));
    let dead = ended(StateName::Dead, began).await;
    assert_eq!(dead[0].class.as_deref(), Some("permanent"));
    assert_eq!((dead.len(), dead[0].answered_at), (1, None));
    let later = ended(StateName::Done, done_at.plus_ms(1)).await;
    assert_eq!(later, []);
}
