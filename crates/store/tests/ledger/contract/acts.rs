//! What people and sources do to a message, and what becomes of it.

use crate::fixture::Fixture;
use crate::given::{
    World, Write, answered, attach, begin, conversation, fail, found, lose, message, reconcile,
    text,
};
use bridge_core::limits::{HELD_AGE_MAX_MS, PARKED_MS};
use bridge_core::port::{Change, Ledger, TurnHistory, TurnStatus};
use bridge_core::step::{
    Action, Answered, Cancel, CancelOutcome, ClaimOutcome, Confirm, Discard, Join, Keep, Leave,
    Lose, MidTurn, Prune, Receive, Received, Reconcile, Redrive, RedriveOutcome, SendFailed,
    Verdict,
};
use bridge_core::value::{
    Actor, AnswerSource, ChannelId, Class, ClientId, CutPolicy, Failure, MessageState, NextInput,
    Sandbox, Seq, StateName, Task, TaskId, TaskInput, TaskInputKind, Timestamp,
};

pub(super) async fn a_finished_row_shown_again_changes_nothing<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(text("a", "m1")).await;
    world.claims().await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(answered("m1", "yes", None)).await;
    let reply = world.sends("a").await;
    world.confirms(&reply).await;
    assert_eq!(world.state("m1").await, StateName::Done);
    let again = world.does(text("a", "m9-other-id").same_row("m1")).await;
    assert_eq!(again.outcome, Received::Duplicate(message("m1")));
    assert_eq!(again.actions, []);
    assert_eq!(world.idles().await, None);
    assert_eq!(world.state("m1").await, StateName::Done);
}

trait SameRow {
    fn same_row(self, id: &str) -> Self;
}

impl SameRow for Receive {
    fn same_row(self, id: &str) -> Self {
        Self {
            external_id: text("a", id).external_id,
            ..self
        }
    }
}

fn cancel(id: &str) -> Cancel {
    Cancel {
        message_id: message(id),
        by: Actor::named("me"),
    }
}

pub(super) async fn what_waits_is_cancelled_at_once_and_what_runs_when_it_ended<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.starts("a", "m1", Sandbox::ReadOnly).await;
    world.does(attach("m1")).await;
    world.receives(&[("a", "m2")]).await;
    let waiting = world.does(cancel("m2")).await.outcome;
    assert_eq!(waiting, CancelOutcome::Cancelled);
    assert_eq!(world.state("m2").await, StateName::Cancelled);
    let running = world.does(cancel("m1")).await;
    assert_eq!(running.outcome, CancelOutcome::Stopping);
    let interrupt = Action::Interrupt {
        message_id: message("m1"),
    };
    assert!(running.actions.contains(&interrupt));
    assert_eq!(world.state("m1").await, StateName::Running);
    world.does(lose("m1")).await;
    // It still runs: whoever follows it must be told again.
    let found = found("m1", TurnStatus::InProgress, None, &[]);
    let attached = world.does(reconcile("m1", found)).await;
    assert!(attached.actions.contains(&interrupt));
    world.does(fail("m1", Class::Transient)).await;
    assert_eq!(world.state("m1").await, StateName::Cancelled);
    let late = world.does(cancel("m1")).await.outcome;
    assert_eq!(late, CancelOutcome::TooLate);
    let acts = world.reads(|rows| rows.audit(9)).await;
    let subjects: Vec<_> = acts.iter().map(|act| act.subject.as_str()).collect();
    assert_eq!(subjects, ["m1", "m2"], "newest first, each once");
}

fn redrive(id: &str) -> Redrive {
    Redrive {
        message_id: message(id),
        by: "me".to_owned(),
        not_before: None,
    }
}

pub(super) async fn retries_wait_until_their_time<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    world.claims().await;
    world.does(fail("m1", Class::Permanent)).await;
    let later = world.now.plus_ms(5_000);
    let retry = Redrive {
        not_before: Some(later),
        ..redrive("m1")
    };
    let again = world.does(retry).await;
    assert_eq!(again.outcome, RedriveOutcome::Queued);
    assert!(again.actions.contains(&Action::ScheduleAt { at: later }));
    assert_eq!(world.idles().await, Some(later));
    world.pass_ms(5_000);
    assert_eq!(world.claims().await, "m1");
}

pub(super) async fn a_dead_letter_is_sent_again_at_the_end_of_its_conversation<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1"), ("a", "m2")]).await;
    world.claims().await;
    world.does(fail("m1", Class::Permanent)).await;
    let again = world.does(redrive("m1")).await.outcome;
    assert_eq!(again, RedriveOutcome::Queued);
    assert_eq!(world.claims().await, "m2", "its order is lost");
    let id = message("m1");
    let dead = world.reads(move |rows| rows.message(&id)).await.unwrap();
    assert_eq!((dead.seq, dead.life.spent), (Seq(3), 0));
    world.does(begin("m2", Sandbox::ReadOnly)).await;
    world.does(answered("m2", "yes", None)).await;
    assert_eq!(world.claims().await, "m1");
    let not_dead = world.does(redrive("m2")).await.outcome;
    assert_eq!(not_dead, RedriveOutcome::NotDead);
}

pub(super) async fn an_answer_that_could_not_be_delivered_is_delivered_again_without_a_turn<
    F: Fixture,
>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.starts("a", "m1", Sandbox::ReadOnly).await;
    world.does(answered("m1", "yes", None)).await;
    let reply = world.sends("a").await;
    let failed = SendFailed {
        message_id: message("m1"),
        ordinal: reply.ordinal,
        failure: Failure::new(Class::Permanent, "no such chat"),
        jitter: 0,
    };
    world.does(failed).await;
    assert_eq!(world.state("m1").await, StateName::Dead);
    let again = world.does(redrive("m1")).await.outcome;
    assert_eq!(again, RedriveOutcome::Delivering);
    assert_eq!(world.idles().await, None, "Codex is not asked again");
    let second = world.sends("a").await;
    assert_eq!(second.key, reply.key);
    let confirm = Confirm {
        message_id: message("m1"),
        ordinal: second.ordinal,
        receipt: "receipt".to_owned(),
    };
    world.does(confirm).await;
    assert_eq!(world.state("m1").await, StateName::Done);
}

/// Parks a message: its turn was cut after it may have written.
async fn parks<L: Ledger>(world: &mut World<L>, key: &str, id: &str) {
    world.starts(key, id, Sandbox::WorkspaceWrite).await;
    world.does(lose(id)).await;
    let cut = Reconcile {
        attachments: Vec::new(),
        on_cut: CutPolicy::Ask,
        ..reconcile(id, found(id, TurnStatus::Interrupted, None, &[]))
    };
    world.does(cut).await;
    assert_eq!(world.state(id).await, StateName::Parked);
}

pub(super) async fn a_parked_message_goes_on_or_is_given_up<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for id in ["m1", "m2", "m3"] {
        parks(&mut world, id, id).await;
    }
    let due = world.now.plus_ms(PARKED_MS);
    world.receives(&[("m1", "n1")]).await;
    let first_due = world.idles().await.unwrap();
    assert!(first_due <= due, "silence has an end");
    let go_on = world.does(redrive("m1")).await.outcome;
    assert_eq!(go_on, RedriveOutcome::Continuing);
    let ClaimOutcome::Claimed { message: goes, .. } = world.claim(9).await else {
        panic!("it does not go on");
    };
    assert_eq!(goes.message_id, message("m1"));
    assert_eq!(goes.life.input, NextInput::Continue);
    let discard = Discard {
        message_id: message("m2"),
        by: "me".to_owned(),
    };
    assert!(world.does(discard).await.outcome);
    assert_eq!(world.state("m2").await, StateName::Cancelled);
    let id = message("m2");
    let told = world.reads(move |rows| rows.replies(&id)).await;
    assert_eq!(told.len(), 2, "the sender hears of the decision");
    world.now = due.plus_ms(1);
    assert_eq!(world.claim(9).await, ClaimOutcome::Buried);
    assert_eq!(world.state("m3").await, StateName::Dead);
}

/// A running message, and one that arrived while it ran and was given to its turn.
async fn steers<L: Ledger>(world: &mut World<L>) -> ClientId {
    world.starts("a", "m1", Sandbox::WorkspaceWrite).await;
    world.does(attach("m1")).await;
    world.pass_ms(1);
    let steered = Receive {
        mid_turn: MidTurn::Steer,
        ..text("a", "m2")
    };
    let received = world.does(steered).await;
    let join = Action::Join {
        message_id: message("m2"),
    };
    assert!(received.actions.contains(&join));
    let join = Join {
        message_id: message("m2"),
    };
    let steer = world.does(join).await.outcome.expect("it is given");
    assert_eq!(
        (steer.text.as_str(), steer.turn_id.as_str()),
        ("text of m2", "t-m1")
    );
    assert_eq!(world.state("m2").await, StateName::Steered);
    assert_eq!(world.idles().await, None);
    steer.client_id
}

pub(super) async fn a_follower_is_answered_if_it_was_heard<F: Fixture>() {
    for hears in [true, false] {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        let client_id = steers(&mut world).await;
        let both = Answered {
            attachments: Vec::new(),
            received: hears.then_some(client_id).into_iter().collect(),
            ..answered("m1", "yes, both", None)
        };
        world.does(both).await;
        if !hears {
            assert_eq!(world.claims().await, "m2", "it gets its own turn");
            continue;
        }
        let id = message("m2");
        let answer = world.reads(move |rows| rows.answer(&id)).await.unwrap();
        assert_eq!(
            (answer.source, answer.text.as_str()),
            (AnswerSource::Shared, "yes, both")
        );
        for _ in 0..2 {
            let reply = world.sends("a").await;
            world.confirms(&reply).await;
        }
        assert_eq!(world.state("m2").await, StateName::Done);
    }
}

pub(super) async fn a_follower_waits_again_when_its_leader_is_cut<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    steers(&mut world).await;
    world.does(lose("m1")).await;
    assert_eq!(world.state("m2").await, StateName::Steered);
    world.does(reconcile("m1", TurnHistory::Absent)).await;
    let id = message("m2");
    let follower = world.reads(move |rows| rows.message(&id)).await.unwrap();
    assert_eq!(follower.life.state, MessageState::Received { hold: None });
    assert_eq!(follower.life.input, NextInput::Continue);
    assert_eq!(world.claims().await, "m1");
}

pub(super) async fn a_follower_that_is_stopped_gets_no_turn_of_its_own<F: Fixture>() {
    for end in ["heard", "unheard", "cut", "left", "stopped"] {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        let client_id = steers(&mut world).await;
        let task = Task {
            task_id: TaskId::new("e"),
            channel: ChannelId::new("local"),
            conversation_id: conversation("a"),
            owner: "me".to_owned(),
            sequence: 0,
            created_at: world.now,
            start: None,
        };
        let word = TaskInput {
            task_id: task.task_id.clone(),
            ordinal: 1,
            client_message_id: "m2".to_owned(),
            idempotency_key: None,
            kind: TaskInputKind::Message(message("m2")),
            original: "{}".to_owned(),
            at: world.now,
        };
        let rows = vec![Change::NewTask(task), Change::NewTaskInput(word)];
        world.does(Write(rows)).await;
        let cancel = |id: &str, by: &str| Cancel {
            message_id: message(id),
            by: Actor::named(by),
        };
        for other in ["another", "me (program python3)"] {
            let stopped = world.does(cancel("m2", other)).await;
            assert_eq!(stopped.outcome, CancelOutcome::Steered(message("m1")));
            assert_eq!(world.message("m2").await.life.stop, None, "not theirs");
        }
        // By whichever program they do it.
        let own = Cancel {
            message_id: message("m2"),
            by: Actor {
                name: "me".to_owned(),
                program: Some("program python3".to_owned()),
            },
        };
        let stopped = world.does(own).await;
        let stop = world.message("m2").await.life.stop;
        assert_eq!(stop.as_deref(), Some("stopped by me (program python3)"));
        assert_eq!(stopped.outcome, CancelOutcome::Steered(message("m1")));
        let interrupts = |action: &Action| matches!(action, Action::Interrupt { .. });
        assert!(!stopped.actions.iter().any(interrupts), "{end}");
        assert_eq!(world.state("m2").await, StateName::Steered, "{end}");
        assert_eq!(world.state("m1").await, StateName::Running, "{end}");
        match end {
            "cut" => {
                world.does(lose("m1")).await;
                world.does(reconcile("m1", TurnHistory::Absent)).await;
            }
            "left" => {
                let message_id = message("m2");
                world.does(Leave { message_id }).await;
            }
            "stopped" => {
                world.does(cancel("m1", "me")).await;
                world.does(fail("m1", Class::Transient)).await;
                assert_eq!(world.state("m1").await, StateName::Cancelled);
            }
            _ => {
                let both = Answered {
                    received: (end == "heard").then_some(client_id).into_iter().collect(),
                    ..answered("m1", "yes", None)
                };
                world.does(both).await;
            }
        }
        assert_eq!(world.state("m2").await, StateName::Cancelled, "{end}");
        let id = message("m2");
        let answer = world.reads(move |rows| rows.answer(&id)).await;
        assert_eq!(answer, None, "{end}");
    }
}

pub(super) async fn an_unfit_row_is_a_dead_letter_at_once<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for (id, tell) in [("m1", true), ("m2", false)] {
        let unfit = Receive {
            verdict: Verdict::Unfit {
                reason: "too large".to_owned(),
                tell,
            },
            ..text(id, id)
        };
        world.does(unfit).await;
        assert_eq!(world.state(id).await, StateName::Dead);
        let id = conversation(id);
        let notice = world.reads(move |rows| rows.next_reply(&id)).await;
        assert_eq!(notice.is_some(), tell);
    }
    assert_eq!(world.idles().await, None);
    // What is kept of it is not the message that was sent.
    let again = world.does(redrive("m1")).await.outcome;
    assert_eq!(again, RedriveOutcome::Unfit);
}

pub(super) async fn an_old_dead_letter_that_is_sent_again_is_young<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    world.claims().await;
    world.does(fail("m1", Class::Permanent)).await;
    world.pass_ms(HELD_AGE_MAX_MS + 1);
    world.does(redrive("m1")).await;
    world.claims().await;
    let limit = Class::Capacity { until: None };
    world.does(fail("m1", limit)).await;
    assert_eq!(world.state("m1").await, StateName::Received);
}

pub(super) async fn a_lost_word_about_a_wait_takes_no_answer_with_it<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    world.claims().await;
    world.does(fail("m1", Class::Config)).await;
    let word = world.sends("a").await;
    world.pass_ms(15_000);
    world.claims().await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(answered("m1", "yes", None)).await;
    let failed = SendFailed {
        message_id: message("m1"),
        ordinal: word.ordinal,
        failure: Failure::new(Class::Permanent, "too long"),
        jitter: 0,
    };
    world.does(failed).await;
    let answer = world.sends("a").await;
    world.confirms(&answer).await;
    assert_eq!(world.state("m1").await, StateName::Done);
}

pub(super) async fn a_turn_that_ran_out_of_time_ends_its_message_however_it_ended<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.starts("a", "m1", Sandbox::WorkspaceWrite).await;
    let lost = Lose {
        end: Some(Failure::new(Class::Permanent, "timed out after 1800s")),
        ..lose("m1")
    };
    world.does(lost).await;
    let cut = found("m1", TurnStatus::Interrupted, None, &[]);
    world.does(reconcile("m1", cut)).await;
    assert_eq!(world.state("m1").await, StateName::Dead);
    let id = message("m1");
    let dead = world.reads(move |rows| rows.message(&id)).await.unwrap();
    assert_eq!(
        dead.life.input,
        NextInput::Continue,
        "it checks first if it is sent again"
    );
}

pub(super) async fn old_rows_go_and_dedupe_keys_stay_for_their_time<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.starts("a", "m1", Sandbox::ReadOnly).await;
    world.does(answered("m1", "yes", None)).await;
    let reply = world.sends("a").await;
    world.confirms(&reply).await;
    world.receives(&[("a", "m2")]).await;
    world.claims().await;
    world.does(fail("m2", Class::Permanent)).await;
    let keep = Keep {
        done_ms: 1_000,
        dead_ms: 60_000,
        audit_ms: 1_000,
        redelivery_ms: 10_000,
    };
    let prune = |now: Timestamp| Prune { now, keep };
    world.pass_ms(9_999);
    assert_eq!(world.does(prune(world.now)).await.outcome, 0);
    let again = world.does(text("a", "m1")).await.outcome;
    assert_eq!(again, Received::Duplicate(message("m1")));
    world.pass_ms(2);
    assert_eq!(world.does(prune(world.now)).await.outcome, 1);
    let id = message("m1");
    let gone = world
        .reads(move |rows| {
            let answer = rows.answer(&id)?;
            Ok((rows.message(&id)?, answer, rows.replies(&id)?.len()))
        })
        .await;
    assert_eq!(gone, (None, None, 0));
    world.pass_ms(60_000);
    let kept = world.does(prune(world.now)).await.outcome;
    assert_eq!(kept, 0, "its notice is not out yet");
}
