//! What fronts list and count for people.

use crate::fixture::Fixture;
use crate::given::World;
use bridge_core::port::{AuditFilter, AuditPage, AuditQuery, Ledger};
use bridge_core::step::{Keep, Prune, Record};
use bridge_core::value::{AuditCheck, AuditEntry};

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
