//! Conversations that are lent to a Codex terminal.

use crate::fixture::Fixture;
use crate::given::{World, answered, begin, conversation, ended_loan, terminal_turn};
use bridge_core::port::{Change, Ledger, LoanChange};
use bridge_core::step::{Lend, LendOutcome, ReturnLoan};
use bridge_core::value::{Loan, LoanId, Sandbox, StateName, Timestamp};

fn lend(id: &str, until: Timestamp) -> Lend {
    Lend {
        conversation_id: conversation("a"),
        loan_id: LoanId::new(id),
        borrower: "me".to_owned(),
        until,
    }
}

/// A conversation with a thread and one answer.
async fn answered_once<L: Ledger>(ledger: &L) -> World<L> {
    let mut world = World::over(ledger);
    world.receives(&[("a", "m1")]).await;
    assert_eq!(world.claims().await, "m1");
    world.binds("a", "thread").await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(answered("m1", "yes", None)).await;
    world
}

pub(super) async fn lent_messages_wait_until_the_end<F: Fixture>() {
    let fixture = F::open();
    let mut world = answered_once(fixture.ledger()).await;
    world.receives(&[("a", "m2")]).await;
    let until = world.now.plus_ms(60_000);
    let lent = world.does(lend("l1", until)).await.outcome;
    assert!(matches!(lent, LendOutcome::Lent(_)), "{lent:?}");
    let taken = world.does(lend("l2", until)).await.outcome;
    assert!(matches!(taken, LendOutcome::Taken(_)), "{taken:?}");
    world.receives(&[("a", "m3"), ("b", "n1")]).await;
    assert_eq!(world.claims().await, "n1");
    world.idles().await;
    let loans = world.reads(|rows| rows.loans()).await;
    assert_eq!(loans.len(), 1);
    assert_eq!((loans[0].until, loans[0].borrower.as_str()), (until, "me"));

    let back = ReturnLoan {
        conversation_id: conversation("a"),
        loan_id: None,
        by: "me".to_owned(),
    };
    assert!(world.does(back).await.outcome.is_some());
    world.idles().await;
    let end = ended_loan("a", "thread", vec![terminal_turn(1), terminal_turn(2)]);
    assert_eq!(world.does(end.clone()).await.outcome, Some(2));
    assert_eq!(world.does(end).await.outcome, None, "it ends once");
    assert_eq!(world.claims().await, "m2");
    let log = world
        .reads(|rows| rows.messages_after(&conversation("a"), None, 9))
        .await;
    let log: Vec<_> = log.iter().map(|one| one.message_id.as_str()).collect();
    assert_eq!(log, ["m1", "at-1", "at-2", "m2", "m3"]);
    assert_eq!(world.state("at-1").await, StateName::Done);
    let of = world
        .reads(|rows| rows.conversation(&conversation("a")))
        .await;
    assert_eq!(of.unwrap().last_turn.unwrap().as_str(), "turn-2");
    world.does(begin("m2", Sandbox::ReadOnly)).await;
    world.does(answered("m2", "yes", None)).await;
    assert_eq!(world.claims().await, "m3");
}

pub(super) async fn turns_are_taken_over_once<F: Fixture>() {
    let fixture = F::open();
    let world = answered_once(fixture.ledger()).await;
    for (loan, turns) in [("l1", Some(1)), ("l2", Some(1))] {
        world.does(lend(loan, world.now)).await;
        let mut end = ended_loan("a", "thread", vec![terminal_turn(1), terminal_turn(2)]);
        end.loan_id = LoanId::new(loan);
        if loan == "l1" {
            end.said.truncate(1);
        }
        assert_eq!(world.does(end).await.outcome, turns);
    }
    // What is read of another thread than it has now is not said here.
    world.does(lend("l1", world.now)).await;
    let end = ended_loan("a", "other", vec![terminal_turn(3)]);
    assert_eq!(world.does(end).await.outcome, Some(0));
}

pub(super) async fn another_loan_is_a_conflict<F: Fixture>() {
    let fixture = F::open();
    let world = answered_once(fixture.ledger()).await;
    world.does(lend("l1", world.now)).await;
    let other = Loan {
        loan_id: LoanId::new("l2"),
        conversation_id: conversation("a"),
        borrower: "me".to_owned(),
        since: world.now,
        until: world.now,
        error: None,
    };
    let end = LoanChange::End {
        conversation_id: conversation("a"),
        loan_id: LoanId::new("l2"),
    };
    for change in [LoanChange::Put(other), end] {
        let write = crate::given::Write(vec![Change::Loan(change)]);
        assert!(world.tries(write).await.is_err());
    }
}
