//! What the API's surface rests on: tokens, pages back in time, and what changed lately.

use super::a2a_tasks::first;
use crate::fixture::Fixture;
use crate::given::{World, answered, conversation, fail, message, note, text};
use bridge_core::find::{Found, Scan, conversations, find, short_id};
use bridge_core::limits::{
    ENDED_KEPT_MS, LOGIN_MS, SESSION_IDLE_MS, SESSION_MS, SESSIONS_MAX, TOKENS_MAX,
};
use bridge_core::port::Ledger;
use bridge_core::step::{
    AddLogin, AddToken, Cancel, LoginAdded, OpenSession, Receive, Received, RevokeToken,
    TokenAdded, UseToken,
};
use bridge_core::value::{
    Actor, AuditEntry, Class, Message, MessageId, Sandbox, Seq, Timestamp, Token, TokenKind,
};

fn add(name: &str, hash: &str) -> AddToken {
    AddToken {
        name: name.to_owned(),
        hash: hash.to_owned(),
        scopes: vec!["read".to_owned(), "send".to_owned()],
        rotate: false,
        by: "ann".to_owned(),
    }
}

fn revoke(name: &str) -> RevokeToken {
    RevokeToken {
        name: name.to_owned(),
        by: "bob".to_owned(),
    }
}

async fn tokens<L: Ledger>(world: &World<L>) -> Vec<Token> {
    world.reads(|rows| rows.tokens()).await
}

pub(super) async fn tokens_are_made_seen_and_revoked<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    assert_eq!(world.does(add("ci", "h1")).await.outcome, TokenAdded::Added);
    assert_eq!(world.does(add("ci", "h2")).await.outcome, TokenAdded::Taken);
    world.pass_ms(5);
    let name = "ci".to_owned();
    world.does(UseToken { name }).await;
    let made = Timestamp(1_000_000);
    let known = Token {
        name: "ci".to_owned(),
        hash: "h1".to_owned(),
        scopes: vec!["read".to_owned(), "send".to_owned()],
        kind: TokenKind::Bearer,
        created_at: made,
        last_used_at: Some(made.plus_ms(5)),
        revoked_at: None,
    };
    assert_eq!(tokens(&world).await, std::slice::from_ref(&known));
    assert!(!world.does(revoke("other")).await.outcome);
    assert!(world.does(revoke("ci")).await.outcome);
    assert!(!world.does(revoke("ci")).await.outcome, "once");
    let name = "ci".to_owned();
    world.does(UseToken { name }).await;
    let revoked_at = Some(made.plus_ms(5));
    let revoked = Token {
        revoked_at,
        ..known
    };
    assert_eq!(tokens(&world).await, [revoked]);
    assert_eq!(world.does(add("ci", "h3")).await.outcome, TokenAdded::Added);
    assert_eq!(world.does(add("a", "h4")).await.outcome, TokenAdded::Added);
    assert!(world.does(revoke("a")).await.outcome);
    let names: Vec<_> = tokens(&world).await.into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["ci", "a"], "good ones first");
    let acts = world.reads(|rows| rows.audit(9)).await;
    let line =
        |act: AuditEntry| format!("{} {} {}{}", act.actor, act.what, act.subject, act.detail);
    let acts: Vec<_> = acts.into_iter().map(line).collect();
    assert_eq!(
        acts,
        [
            "bob token-revoke token a",
            "ann token-add token aread send",
            "ann token-add token ciread send",
            "bob token-revoke token ci",
            "ann token-add token ciread send"
        ]
    );
}

pub(super) async fn a_name_that_owns_tasks_is_given_to_nobody_else_unasked<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    let owns = TokenAdded::Owns { tasks: 1 };
    assert_eq!(world.does(add("ann", "h1")).await.outcome, owns);
    assert!(tokens(&world).await.is_empty());
    assert_eq!(
        world.does(add("bob", "h2")).await.outcome,
        TokenAdded::Added
    );
    let rotate = AddToken {
        rotate: true,
        ..add("ann", "h3")
    };
    assert_eq!(world.does(rotate).await.outcome, TokenAdded::Added);
}

pub(super) async fn there_are_so_many_tokens_and_no_more<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for n in 0..TOKENS_MAX {
        let added = world
            .does(add(&format!("t{n}"), &format!("h{n}")))
            .await
            .outcome;
        assert_eq!(added, TokenAdded::Added);
    }
    assert_eq!(world.does(add("more", "h")).await.outcome, TokenAdded::Full);
    assert!(world.does(revoke("t7")).await.outcome);
    assert_eq!(
        world.does(add("more", "h")).await.outcome,
        TokenAdded::Added
    );
}

fn login(name: &str, code: &str) -> AddLogin {
    AddLogin {
        name: name.to_owned(),
        hash: code.to_owned(),
        scopes: vec!["read".to_owned()],
        label: "phone".to_owned(),
        by: "ann".to_owned(),
    }
}

fn open(code: &str, hash: &str) -> OpenSession {
    OpenSession {
        code: code.to_owned(),
        hash: hash.to_owned(),
    }
}

pub(super) async fn a_login_becomes_one_session<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let start = Timestamp(1_000_000);
    let added = LoginAdded::Added {
        expires_at: start.plus_ms(LOGIN_MS),
    };
    assert_eq!(world.does(login("s1", "c1")).await.outcome, added);
    let taken = world.does(login("s1", "c2")).await.outcome;
    assert_eq!(taken, LoginAdded::Taken);
    assert_eq!(world.does(open("c2", "h2")).await.outcome, None);
    let opened = world.does(open("c1", "h1")).await.outcome.unwrap();
    assert_eq!(tokens(&world).await, std::slice::from_ref(&opened));
    let TokenKind::Session(access) = &opened.kind else {
        panic!("{opened:?}");
    };
    assert_eq!(access.expires_at, start.plus_ms(SESSION_MS));
    assert_eq!(
        (opened.hash.as_str(), access.label.as_str()),
        ("h1", "phone")
    );
    for replayed in ["c1", "h1"] {
        let again = world.does(open(replayed, "h3")).await.outcome;
        assert_eq!(again, None, "{replayed}");
    }
    world.does(login("s2", "c2")).await;
    world.pass_ms(LOGIN_MS);
    assert_eq!(world.does(open("c2", "h2")).await.outcome, None, "too late");
}

pub(super) async fn sessions_end_unused_or_old<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(login("s1", "c1")).await;
    world.does(open("c1", "h1")).await;
    let mut now = Timestamp(1_000_000);
    for _ in 0..5 {
        let step = SESSION_IDLE_MS - 1;
        world.pass_ms(step);
        now = now.plus_ms(step);
        let is_old = now >= Timestamp(1_000_000).plus_ms(SESSION_MS);
        let name = "s1".to_owned();
        assert_eq!(tokens(&world).await[0].is_live(now), !is_old);
        world.does(UseToken { name }).await;
    }
    world.does(login("s2", "c2")).await;
    world.does(open("c2", "h2")).await;
    let names: Vec<_> = tokens(&world).await.into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["s2"], "old ones are removed");
    world.pass_ms(SESSION_IDLE_MS);
    let idle = now.plus_ms(SESSION_IDLE_MS);
    assert!(!tokens(&world).await[0].is_live(idle));
    assert!(!world.does(revoke("s2")).await.outcome);
}

/// A node that has not heard of it yet must find a row that says so, and not none.
pub(super) async fn revoked_sessions_refuse_what_comes_late<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(login("ann", "c1")).await;
    world.does(open("c1", "h1")).await;
    world.does(revoke("ann")).await;
    world.does(login("s2", "c2")).await;
    let late = world.does(text("c", "m1")).await.outcome;
    assert_eq!(late, Received::Revoked);
    world.pass_ms(ENDED_KEPT_MS);
    world.does(login("s3", "c3")).await;
    let names: Vec<_> = tokens(&world).await.into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["s2", "s3"]);
}

pub(super) async fn sessions_are_bounded<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for n in 0..SESSIONS_MAX {
        let added = world.does(login(&format!("s{n}"), &format!("c{n}"))).await;
        assert!(matches!(added.outcome, LoginAdded::Added { .. }));
    }
    let full = world.does(login("more", "c")).await.outcome;
    assert_eq!(full, LoginAdded::Full);
    assert_eq!(world.does(add("ci", "h")).await.outcome, TokenAdded::Added);
    assert!(world.does(revoke("s3")).await.outcome);
    let added = world.does(login("more", "c")).await.outcome;
    assert!(matches!(added, LoginAdded::Added { .. }));
    assert_eq!(tokens(&world).await.len(), SESSIONS_MAX + 2);
    world.pass_ms(ENDED_KEPT_MS + LOGIN_MS);
    world.does(login("last", "c")).await;
    assert_eq!(tokens(&world).await.len(), 2);
}

fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|m| m.message_id.as_str()).collect()
}

pub(super) async fn pages_go_back_in_time<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for (key, id) in [("a", "m4"), ("b", "m1"), ("a", "m3"), ("a", "m2")] {
        world.does(text(key, id)).await;
    }
    let older = |before: &str, limit| {
        let before = message(before);
        world.reads(move |rows| rows.older_messages(&before, limit))
    };
    assert_eq!(ids(&older("m2", 2).await), ["m3", "m1"]);
    assert_eq!(ids(&older("m1", 9).await), ["m4"]);
    assert_eq!(ids(&older("nobody", 9).await), Vec::<&str>::new());
    let of = |before: Option<Seq>| {
        world.reads(move |rows| rows.messages_before(&conversation("a"), before, 2))
    };
    assert_eq!(ids(&of(None).await), ["m2", "m3"]);
    assert_eq!(ids(&of(Some(Seq(2))).await), ["m4"]);
    let from = |after: Option<Seq>| {
        world.reads(move |rows| rows.messages_after(&conversation("a"), after, 2))
    };
    assert_eq!(ids(&from(None).await), ["m4", "m3"]);
    assert_eq!(ids(&from(Some(Seq(2))).await), ["m2"]);
}

pub(super) async fn the_liveliest_conversation_comes_first<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, id) in [("a", "m1"), ("b", "m2"), ("c", "m3")] {
        world.pass_ms(10);
        world.does(text(key, id)).await;
    }
    world.pass_ms(10);
    let cancel = Cancel {
        message_id: message("m1"),
        by: Actor::named("me"),
    };
    world.does(cancel).await;
    let page = |before: Option<(Timestamp, String)>, limit| {
        world.reads(move |rows| {
            let id = before.map(|(at, key)| (at, conversation(&key)));
            let before = id.as_ref().map(|(at, id)| (*at, id));
            let found = rows.conversations(before, limit)?;
            let found = found.into_iter().map(|(one, at)| (at, one.external_key));
            Ok(found.collect::<Vec<_>>())
        })
    };
    let keys = |found: &[(Timestamp, String)]| -> Vec<String> {
        found.iter().map(|(_, key)| key.clone()).collect()
    };
    let first = page(None, 2).await;
    assert_eq!(keys(&first), ["a", "c"]);
    assert!(first[0].0 > first[1].0);
    assert_eq!(keys(&page(first.last().cloned(), 9).await), ["b"]);
}

/// Whole ids and names before parts of ids; several are all shown, and none is guessed.
pub(super) async fn references_find_what_people_mean<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for (key, id) in [
        ("main", "01a1aaaa-0000-7000-8000-00000000beef"),
        ("main", "01a1aaab-0000-7000-8000-0000cafef00d"),
        ("beef", "01a1aaac-0000-7000-8000-00000001f00d"),
    ] {
        world.does(text(key, id)).await;
    }
    let finds = |reference: &str, sender: &str| {
        let (reference, sender) = (reference.to_owned(), sender.to_owned());
        world.reads(move |rows| {
            let named = conversations(rows, &reference)?;
            let found = find(rows, &reference, named, &sender, Scan::All)?;
            let names = found.into_iter().map(|found| match found {
                Found::Message(id) => short_id(&id).to_owned(),
                Found::Task(id) => id.to_string(),
            });
            Ok(names.collect::<Vec<_>>())
        })
    };
    let nothing: [&str; 0] = [];
    for (reference, expected) in [
        ("01A1AAAA-0000-7000-8000-00000000beef", &["0000beef"][..]),
        ("0000beef", &["0000beef"]),
        (" cafef00d ", &["cafef00d"]),
        ("f00d", &["0001f00d", "cafef00d"]),
        ("01a1aaab", &["cafef00d"]),
        ("main", &["cafef00d"]),
        ("beef", &["0001f00d"]),
        ("00d", &nothing),
        ("dead", &nothing),
        ("codex-", &nothing),
        ("", &nothing),
    ] {
        assert_eq!(finds(reference, "ann").await, expected, "{reference:?}");
    }
    assert_eq!(finds("01a1", "ann").await.len(), 3);
    assert_eq!(finds("last", "ann").await, ["0001f00d"]);
    assert_eq!(finds("last", "nobody").await, nothing);
}

/// However many others begin alike: theirs are not counted.
pub(super) async fn own_parts_are_found_among_many<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for n in 0..25 {
        let other = Receive {
            sender: "ben".to_owned(),
            ..text("b", &format!("01a1aaaa-{n:02}-beef"))
        };
        world.does(other).await;
    }
    world.does(text("a", "01a1aaaa-99-beef")).await;
    let finds = |part: &'static str, sender: &'static str| {
        world.reads(move |rows| find(rows, part, Vec::new(), sender, Scan::Own))
    };
    let own = [Found::Message(message("01a1aaaa-99-beef"))];
    assert_eq!(finds("01a1", "ann").await, own);
    assert_eq!(finds("beef", "ann").await, own);
    assert_eq!(finds("beef", "ben").await.len(), 20);
    assert_eq!(finds("eef", "ann").await, []);
    assert_eq!(finds("beef", "nobody").await, []);
}

pub(super) async fn what_changed_lately_is_found<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    world.claims().await;
    world.does(fail("m1", Class::Permanent)).await;
    world.receives(&[("b", "m2"), ("c", "m3")]).await;
    assert_eq!(world.claims().await, "m2");
    world.pass_ms(1_000);
    let since = world.now;
    let changed = world.reads(move |rows| rows.changed_since(since, 9)).await;
    assert_eq!(changed, [message("m2")], "what is in flight");
    world.pass_ms(1_000);
    world.does(fail("m2", Class::Permanent)).await;
    assert_eq!(world.claims().await, "m3");
    world.does(text("d", "m4")).await;
    let changed = |limit| world.reads(move |rows| rows.changed_since(since, limit));
    let all = [message("m2"), message("m3"), message("m4")];
    assert_eq!(changed(9).await, all);
    assert_eq!(changed(2).await, all[..2]);
}

pub(super) async fn an_event_makes_its_message_new<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    world.pass_ms(1_000);
    world.does(note("m1", "an event", false)).await;
    let noted = world.now;
    world.does(answered("m1", "done", None)).await;
    let changed = |at: Timestamp| world.reads(move |rows| rows.changed_since(at, 9));
    assert_eq!(changed(noted).await, [message("m1")]);
    assert_eq!(changed(noted.plus_ms(1)).await, Vec::<MessageId>::new());
}
