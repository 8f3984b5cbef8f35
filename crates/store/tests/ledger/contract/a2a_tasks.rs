//! Tasks of other agents: a chain of messages with its words, known to its owner alone, gone with its messages.

use crate::fixture::Fixture;
use crate::given::{
    World, Write, answered, attach, begin, claim, conversation, fail, message, request, text,
    verdict,
};
use bridge_core::limits::{PAGE_MAX, TASK_INPUTS_MAX};
use bridge_core::port::{Change, Ledger, LedgerError, RowsError, TaskQuery};
use bridge_core::step::{
    AcceptInput, AnswerTask, Ask, Authority, Cancel, CancelOutcome, Decide, DecideOutcome,
    DecideRefusal, InputAccepted, InputTarget, Keep, Prune, ReserveSequence, TaskAnswered,
};
use bridge_core::task::{A2aState, TaskSnapshot};
use bridge_core::value::{
    ChannelId, Class, ExternalId, RequestDecision, RequestId, RequestKind, Sandbox, Task, TaskId,
    TaskInput, TaskInputKind, Tier, Timestamp,
};

fn task(id: &str, owner: &str, key: &str) -> Task {
    Task {
        task_id: TaskId::new(id),
        channel: ChannelId::new("a2a"),
        conversation_id: conversation(key),
        owner: owner.to_owned(),
        sequence: 0,
        created_at: Timestamp(1_000_000),
        start: None,
    }
}

fn said(key: &str, id: &str, owner: &str, place: InputTarget) -> AcceptInput {
    let mut receive = text(key, id);
    receive.channel = ChannelId::new("a2a");
    receive.sender = owner.to_owned();
    receive.tier = Tier::Peer;
    AcceptInput {
        receive,
        place,
        client_message_id: format!("their-{id}"),
        original: format!("{{\"text\":\"o'r \\\"{id}\\\"\"}}"),
        brief: String::new(),
    }
}

pub(super) fn first(key: &str, id: &str, owner: &str) -> AcceptInput {
    let place = InputTarget::New(task(&format!("e-{id}"), owner, key));
    said(key, id, owner, place)
}

fn next(task_id: &str, key: &str, id: &str, owner: &str) -> AcceptInput {
    let place = InputTarget::Old {
        task_id: TaskId::new(task_id),
        owner: owner.to_owned(),
    };
    said(key, id, owner, place)
}

/// Runs a message to its answer.
pub(super) async fn answers<L: Ledger>(world: &mut World<L>, id: &str, answer: &str) {
    world.pass_ms(1);
    let now = world.now;
    world.does(claim(16, now)).await;
    world.does(begin(id, Sandbox::ReadOnly)).await;
    world.does(attach(id)).await;
    world.does(answered(id, answer, None)).await;
}

async fn view<L: Ledger>(world: &World<L>, id: &str) -> Option<TaskSnapshot> {
    let id = TaskId::new(id);
    world.reads(move |rows| TaskSnapshot::load(rows, &id)).await
}

async fn state<L: Ledger>(world: &World<L>, id: &str) -> A2aState {
    view(world, id).await.unwrap().now().state
}

fn of(owner: &str) -> TaskQuery {
    TaskQuery {
        owner: owner.to_owned(),
        conversation: None,
        since: None,
        before: None,
        limit: PAGE_MAX,
    }
}

async fn listed<L: Ledger>(world: &World<L>, query: TaskQuery) -> Vec<(String, Timestamp)> {
    let found = world.reads(move |rows| rows.agent_tasks(&query)).await;
    let name = |(task, at): (Task, Timestamp)| (task.task_id.to_string(), at);
    found.into_iter().map(name).collect()
}

async fn ids<L: Ledger>(world: &World<L>, query: TaskQuery) -> Vec<String> {
    let found = listed(world, query).await;
    found.into_iter().map(|(id, _)| id).collect()
}

fn is_conflict<T>(outcome: Result<T, LedgerError>) -> bool {
    matches!(outcome, Err(LedgerError::Rows(RowsError::Conflict { .. })))
}

pub(super) async fn task_input_and_message_commit_together<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let taken = world.does(first("c", "m1", "ann")).await;
    let one = task("e-m1", "ann", "c");
    assert_eq!(
        taken.outcome,
        InputAccepted::New {
            task: one.clone(),
            message_id: message("m1"),
        }
    );
    let view = view(&world, "e-m1").await.unwrap();
    assert_eq!((&view.task, view.context.as_str()), (&one, "c"));
    let word = TaskInput {
        task_id: TaskId::new("e-m1"),
        ordinal: 1,
        client_message_id: "their-m1".to_owned(),
        idempotency_key: None,
        kind: TaskInputKind::Message(message("m1")),
        original: "{\"text\":\"o'r \\\"m1\\\"\"}".to_owned(),
        at: world.now,
    };
    assert_eq!(view.inputs, std::slice::from_ref(&word));
    assert_eq!(view.messages.len(), 1);
    assert_eq!(view.now().state, A2aState::Submitted);
    let found = world
        .reads(|rows| rows.task_of_message(&message("m1")))
        .await;
    assert_eq!(found, Some(TaskId::new("e-m1")));
    let found = world
        .reads(|rows| rows.task_of_message(&message("m2")))
        .await;
    assert_eq!(found, None);
    assert!(is_conflict(
        world.tries(Write(vec![Change::NewTask(one)])).await
    ));
    // A second word in the same place, a message in two places, and a word of nothing.
    let elsewhere = |word: &TaskInput, task_id: &str, ordinal| TaskInput {
        task_id: TaskId::new(task_id),
        ordinal,
        ..word.clone()
    };
    for wrong in [
        elsewhere(&word, "e-m1", 1),
        elsewhere(&word, "e-m1", 2),
        elsewhere(&word, "e-m9", 1),
    ] {
        let wrong = Write(vec![Change::NewTaskInput(wrong)]);
        assert!(is_conflict(world.tries(wrong).await));
    }
}

pub(super) async fn repeated_key_is_one_input<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    let keyed = |id: &str, owner: &str| {
        let mut first = first("c", id, owner);
        first.receive.external_id = ExternalId::new("#key:1");
        first
    };
    world.does(keyed("m1", "ann")).await;
    let again = world.does(keyed("m2", "ann")).await;
    let known = InputAccepted::Known {
        task: task("e-m1", "ann", "c"),
        message_id: message("m1"),
    };
    assert_eq!(again.outcome, known);
    assert!(again.actions.is_empty());
    let theirs = world.does(keyed("m3", "bob")).await.outcome;
    assert_eq!(theirs, InputAccepted::Unknown);
    assert_eq!(view(&world, "e-m1").await.unwrap().inputs.len(), 1);
    assert_eq!(view(&world, "e-m2").await, None);
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
    // A message of no task that has the key is somebody else's.
    let mut alone = text("c", "m4");
    alone.channel = ChannelId::new("a2a");
    world.does(alone).await;
    assert!(matches!(
        world.tries(first("c", "m4", "ann")).await,
        Err(LedgerError::Refused(_))
    ));
}

pub(super) async fn foreign_task_is_unknown<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    for (task_id, key, owner) in [
        ("e-m1", "c", "bob"),
        ("e-m9", "c", "ann"),
        // Of another conversation: a chain does not leave its own.
        ("e-m1", "other", "ann"),
    ] {
        let taken = world.does(next(task_id, key, "m2", owner)).await;
        assert_eq!(taken.outcome, InputAccepted::Unknown, "{task_id} {owner}");
        assert!(taken.actions.is_empty());
    }
    assert_eq!(world.reads(|rows| rows.backlog()).await, 1);
    assert!(ids(&world, of("bob")).await.is_empty());
    let count = world.reads(|rows| rows.agent_tasks_count(&of("bob"))).await;
    assert_eq!(count, 0);
}

pub(super) async fn task_takes_input_until_over<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    let now = world.now;
    world.does(claim(16, now)).await;
    assert_eq!(state(&world, "e-m1").await, A2aState::Working);
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    let asks = "Which one?\n[input-required]";
    world.does(answered("m1", asks, None)).await;
    let stand = view(&world, "e-m1").await.unwrap().now();
    assert_eq!(stand.state, A2aState::InputRequired);
    assert_eq!(stand.why.as_deref(), Some("Which one?"));
    world.pass_ms(5);
    let taken = world.does(next("e-m1", "c", "m2", "ann")).await.outcome;
    assert!(matches!(taken, InputAccepted::New { .. }));
    let waiting = view(&world, "e-m1").await.unwrap();
    let stand = waiting.now();
    assert_eq!((stand.state, stand.at), (A2aState::Working, world.now));
    let order: Vec<_> = waiting.inputs.iter().map(|word| word.ordinal).collect();
    assert_eq!(order, [1, 2]);
    answers(&mut world, "m2", "the second").await;
    let stand = view(&world, "e-m1").await.unwrap().now();
    assert_eq!((stand.state, stand.at), (A2aState::Completed, world.now));
    let over = world.does(next("e-m1", "c", "m3", "ann")).await.outcome;
    assert_eq!(over, InputAccepted::Over(A2aState::Completed));
    // A second task of the same conversation does not change the first.
    world.does(first("c", "m4", "ann")).await;
    world
        .does(Cancel {
            message_id: message("m4"),
            by: bridge_core::value::Actor::named("ann"),
        })
        .await;
    assert_eq!(state(&world, "e-m4").await, A2aState::Canceled);
    assert_eq!(state(&world, "e-m1").await, A2aState::Completed);
    let over = world.does(next("e-m4", "c", "m5", "ann")).await.outcome;
    assert_eq!(over, InputAccepted::Over(A2aState::Canceled));
}

pub(super) async fn waiting_task_can_be_stopped<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    answers(&mut world, "m1", "Which one?\n[input-required]").await;
    assert_eq!(state(&world, "e-m1").await, A2aState::InputRequired);
    world.pass_ms(5);
    let stop = || Cancel {
        message_id: message("m1"),
        by: bridge_core::value::Actor::named("ann"),
    };
    let stopped = world.does(stop()).await.outcome;
    assert_eq!(stopped, CancelOutcome::Cancelled);
    let stand = view(&world, "e-m1").await.unwrap().now();
    assert_eq!((stand.state, stand.at), (A2aState::Canceled, world.now));
    assert_eq!(world.does(stop()).await.outcome, CancelOutcome::TooLate);
    let over = world.does(next("e-m1", "c", "m2", "ann")).await.outcome;
    assert_eq!(over, InputAccepted::Over(A2aState::Canceled));
    let act = world.reads(|rows| rows.audit(1)).await;
    assert_eq!(act[0].what, "cancel");
    // An answer that asks nothing is not stopped any more.
    world.does(first("d", "m3", "ann")).await;
    answers(&mut world, "m3", "done").await;
    let late = Cancel {
        message_id: message("m3"),
        by: bridge_core::value::Actor::named("ann"),
    };
    assert_eq!(world.does(late).await.outcome, CancelOutcome::TooLate);
    assert_eq!(state(&world, "e-m3").await, A2aState::Completed);
}

pub(super) async fn task_inputs_are_bounded<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    let filled = (2..=TASK_INPUTS_MAX).map(|ordinal| {
        Change::NewTaskInput(TaskInput {
            task_id: TaskId::new("e-m1"),
            ordinal: u32::try_from(ordinal).unwrap(),
            client_message_id: "more".to_owned(),
            idempotency_key: None,
            kind: TaskInputKind::Answer(RequestId::new("r")),
            original: String::new(),
            at: world.now,
        })
    });
    world.does(Write(filled.collect())).await;
    let full = world.does(next("e-m1", "c", "m2", "ann")).await.outcome;
    assert_eq!(full, InputAccepted::Full);
}

/// A question of Codex in the turn of `m1`, for which its sender may answer.
async fn asked<L: Ledger>(world: &mut World<L>, kind: RequestKind) {
    let now = world.now;
    world.does(claim(16, now)).await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world.pass_ms(5);
    let mut request = request("m1", "r1");
    request.kind = kind;
    request.created_at = world.now;
    request.deadline = world.now.plus_ms(60_000);
    let at_once = None;
    world.does(Ask { request, at_once }).await;
}

fn refused(refusal: DecideRefusal) -> TaskAnswered {
    TaskAnswered::Judged(DecideOutcome::Refused(refusal))
}

fn tells(task_id: &str, key: &str, sender: &str, at: Timestamp) -> AnswerTask {
    let mut verdict = verdict(RequestDecision::Accept, sender);
    verdict.answers = Some("{}".to_owned());
    verdict.at = at;
    AnswerTask {
        decide: Decide {
            request_id: RequestId::new("r1"),
            digest: None,
            verdict,
            authority: Authority::Sender {
                conversation_id: conversation(key),
                sender: sender.to_owned(),
                tier: Tier::Peer,
            },
        },
        task_id: TaskId::new(task_id),
        client_message_id: "their-answer".to_owned(),
        idempotency_key: Some(ExternalId::new("#key:answer")),
        original: "{}".to_owned(),
    }
}

pub(super) async fn input_answers_a_request<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    world.does(first("c", "m2", "ann")).await;
    asked(&mut world, RequestKind::UserInput).await;
    let stand = view(&world, "e-m1").await.unwrap().now();
    assert_eq!(stand.state, A2aState::InputRequired);
    assert_eq!(stand.at, world.now, "a question is news");
    world.pass_ms(5);
    let now = world.now;
    let unknown = refused(DecideRefusal::Unknown);
    for (task_id, key, sender) in [
        ("e-m2", "c", "ann"),
        ("e-m9", "c", "ann"),
        ("e-m1", "d", "ann"),
    ] {
        let told = world.does(tells(task_id, key, sender, now)).await;
        assert_eq!(told.outcome, unknown, "{task_id} {key}");
    }
    let told = world.does(tells("e-m1", "c", "bob", now)).await.outcome;
    assert!(matches!(
        told,
        TaskAnswered::Judged(DecideOutcome::Refused(DecideRefusal::NotYours { .. }))
    ));
    assert_eq!(view(&world, "e-m1").await.unwrap().inputs.len(), 1);
    let told = world.does(tells("e-m1", "c", "ann", now)).await.outcome;
    assert_eq!(told, TaskAnswered::Judged(DecideOutcome::Applied));
    let view = view(&world, "e-m1").await.unwrap();
    assert_eq!(view.now().state, A2aState::Working);
    assert_eq!(view.now().at, now);
    let kind = TaskInputKind::Answer(RequestId::new("r1"));
    assert_eq!(view.inputs.last().map(|word| &word.kind), Some(&kind));
    let again = AnswerTask {
        idempotency_key: None,
        ..tells("e-m1", "c", "ann", now)
    };
    let twice = world.does(again).await.outcome;
    assert!(matches!(
        twice,
        TaskAnswered::Judged(DecideOutcome::Refused(DecideRefusal::Decided { .. }))
    ));
}

pub(super) async fn repeated_answer_is_known_by_key<F: Fixture>() {
    let mut fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    asked(&mut world, RequestKind::UserInput).await;
    let now = world.now;
    world.does(tells("e-m1", "c", "ann", now)).await;
    drop(world);
    fixture.reopen();
    let world = World::over(fixture.ledger());
    let words = view(&world, "e-m1").await.unwrap().inputs;
    let mut again = tells("e-m1", "c", "ann", now);
    assert_eq!(words[1].idempotency_key, again.idempotency_key);
    again.client_message_id = "another-id".to_owned();
    let known = TaskAnswered::Known(words[1].clone());
    assert_eq!(world.does(again).await.outcome, known);
    let mut as_message = next("e-m1", "c", "m2", "ann");
    as_message.receive.external_id = ExternalId::new("#key:answer");
    let taken = world.does(as_message).await.outcome;
    let task = task("e-m1", "ann", "c");
    assert_eq!(taken, InputAccepted::KnownAnswer { task });
    // Another key is another word, whatever its owner calls it.
    let mut more = next("e-m1", "c", "m3", "ann");
    more.client_message_id = "their-answer".to_owned();
    let taken = world.does(more).await.outcome;
    assert!(matches!(taken, InputAccepted::New { .. }));
    let mut wrong = words[0].clone();
    (wrong.ordinal, wrong.kind) = (9, TaskInputKind::End);
    wrong.idempotency_key = Some(ExternalId::new("#key:stop"));
    let wrong = Write(vec![Change::NewTaskInput(wrong)]);
    assert!(world.tries(wrong).await.is_err());
}

pub(super) async fn repeated_message_answers_nothing<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    asked(&mut world, RequestKind::UserInput).await;
    let mut more = next("e-m1", "c", "m2", "ann");
    more.receive.external_id = ExternalId::new("#key:answer");
    world.does(more).await;
    let now = world.now;
    let told = world.does(tells("e-m1", "c", "ann", now)).await.outcome;
    let view = view(&world, "e-m1").await.unwrap();
    assert_eq!(told, TaskAnswered::Known(view.inputs[1].clone()));
    assert_eq!(view.now().state, A2aState::InputRequired);
}

pub(super) async fn task_owner_cannot_approve<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    asked(&mut world, RequestKind::Command).await;
    assert_eq!(state(&world, "e-m1").await, A2aState::AuthRequired);
    let now = world.now;
    let told = world.does(tells("e-m1", "c", "ann", now)).await.outcome;
    assert!(matches!(
        told,
        TaskAnswered::Judged(DecideOutcome::Refused(DecideRefusal::NotYours { .. }))
    ));
    assert_eq!(state(&world, "e-m1").await, A2aState::AuthRequired);
    world.pass_ms(9);
    let mut verdict = verdict(RequestDecision::Decline, "owner");
    verdict.at = world.now;
    let decide = Decide {
        request_id: RequestId::new("r1"),
        digest: None,
        verdict,
        authority: Authority::Owner,
    };
    world.does(decide).await;
    let stand = view(&world, "e-m1").await.unwrap().now();
    assert_eq!((stand.state, stand.at), (A2aState::Working, world.now));
}

pub(super) async fn event_numbers_never_go_back<F: Fixture>() {
    let mut fixture = F::open();
    let world = World::over(fixture.ledger());
    let reserve = |more| ReserveSequence {
        task_id: TaskId::new("e-m1"),
        more,
    };
    assert_eq!(world.does(reserve(9)).await.outcome, None);
    world.does(first("c", "m1", "ann")).await;
    assert_eq!(world.does(reserve(10)).await.outcome, Some(1));
    assert_eq!(world.does(reserve(1)).await.outcome, Some(11));
    drop(world);
    fixture.reopen();
    let world = World::over(fixture.ledger());
    assert_eq!(world.does(reserve(5)).await.outcome, Some(12));
    let back = Write(vec![Change::TaskSequence {
        task_id: TaskId::new("e-m1"),
        sequence: 15,
    }]);
    assert!(is_conflict(world.tries(back).await));
    assert_eq!(view(&world, "e-m1").await.unwrap().task.sequence, 16);
}

pub(super) async fn tasks_list_by_newest_change<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    for (key, id, owner) in [
        ("c", "m1", "ann"),
        ("d", "m2", "ann"),
        ("c", "m3", "ann"),
        ("c2", "m4", "bob"),
    ] {
        world.pass_ms(10);
        world.does(first(key, id, owner)).await;
    }
    assert_eq!(ids(&world, of("ann")).await, ["e-m3", "e-m2", "e-m1"]);
    let third = world.now.plus_ms(-10);
    // What changes moves to the front; nothing is shown twice or left out behind a mark that was given before.
    let page = |before: Option<(Timestamp, TaskId)>| TaskQuery {
        before,
        limit: 1,
        ..of("ann")
    };
    let newest = listed(&world, page(None)).await;
    assert_eq!(newest, [("e-m3".to_owned(), third)]);
    answers(&mut world, "m1", "yes").await;
    assert_eq!(ids(&world, of("ann")).await, ["e-m1", "e-m3", "e-m2"]);
    let mark = Some((third, TaskId::new("e-m3")));
    let rest = listed(&world, page(mark)).await;
    assert_eq!(rest, [("e-m2".to_owned(), third.plus_ms(-10))]);
    let mark = Some((third.plus_ms(-10), TaskId::new("e-m2")));
    assert!(listed(&world, page(mark)).await.is_empty());
    for (query, found) in [
        (
            TaskQuery {
                conversation: Some(conversation("c")),
                ..of("ann")
            },
            vec!["e-m1", "e-m3"],
        ),
        (
            TaskQuery {
                since: Some(third),
                ..of("ann")
            },
            vec!["e-m1", "e-m3"],
        ),
        (
            TaskQuery {
                conversation: Some(conversation("c2")),
                ..of("ann")
            },
            vec![],
        ),
    ] {
        assert_eq!(ids(&world, query.clone()).await, found);
        let count = found.len() as u64;
        let one = TaskQuery { limit: 1, ..query };
        let counted = world.reads(move |rows| rows.agent_tasks_count(&one)).await;
        assert_eq!(counted, count);
    }
}

pub(super) async fn simultaneous_tasks_are_paged<F: Fixture>() {
    let fixture = F::open();
    let world = World::over(fixture.ledger());
    for id in ["m1", "m2", "m3", "m4", "m5"] {
        world.does(first("c", id, "ann")).await;
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let query = TaskQuery {
            before,
            limit: 2,
            ..of("ann")
        };
        let page = listed(&world, query).await;
        let Some((id, at)) = page.last() else {
            break;
        };
        before = Some((*at, TaskId::new(id.as_str())));
        seen.extend(page.into_iter().map(|(id, _)| id));
    }
    assert_eq!(seen, ["e-m5", "e-m4", "e-m3", "e-m2", "e-m1"]);
}

pub(super) async fn task_goes_with_its_last_message<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    answers(&mut world, "m1", "Which?\n[input-required]").await;
    let reply = world.sends("c").await;
    world.confirms(&reply).await;
    world.pass_ms(20_000);
    world.does(next("e-m1", "c", "m2", "ann")).await;
    let prune = |now| Prune {
        now,
        keep: Keep {
            done_ms: 10_000,
            dead_ms: 10_000,
            audit_ms: 10_000,
            redelivery_ms: 0,
        },
    };
    assert_eq!(world.does(prune(world.now)).await.outcome, 1);
    let view_now = view(&world, "e-m1").await.unwrap();
    let order: Vec<_> = view_now.inputs.iter().map(|word| word.ordinal).collect();
    assert_eq!((order, view_now.messages.len()), (vec![2], 1));
    answers(&mut world, "m2", "Again?\n[input-required]").await;
    let reply = world.sends("c").await;
    world.confirms(&reply).await;
    let taken = world.does(next("e-m1", "c", "m3", "ann")).await.outcome;
    assert!(matches!(taken, InputAccepted::New { .. }));
    let cancel = Cancel {
        message_id: message("m3"),
        by: bridge_core::value::Actor::named("ann"),
    };
    world.does(cancel).await;
    let notice = world.sends("c").await;
    world.confirms(&notice).await;
    world.pass_ms(20_000);
    assert_eq!(world.does(prune(world.now)).await.outcome, 2);
    assert_eq!(view(&world, "e-m1").await, None);
    assert!(ids(&world, of("ann")).await.is_empty());
    let words = world
        .reads(|rows| rows.task_inputs(&TaskId::new("e-m1")))
        .await;
    assert!(words.is_empty());
}

pub(super) async fn result_stays_until_task_goes<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.does(first("c", "m1", "ann")).await;
    world.does(claim(16, world.now)).await;
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    world.does(next("e-m1", "c", "m2", "ann")).await;
    world.does(fail("m1", Class::Permanent)).await;
    answers(&mut world, "m2", "Done.").await;
    for _ in 0..2 {
        let reply = world.sends("c").await;
        world.confirms(&reply).await;
    }
    let prune = |now| Prune {
        now,
        keep: Keep {
            done_ms: 10_000,
            dead_ms: 50_000,
            audit_ms: 10_000,
            redelivery_ms: 0,
        },
    };
    assert_eq!(state(&world, "e-m1").await, A2aState::Completed);
    world.pass_ms(20_000);
    assert_eq!(world.does(prune(world.now)).await.outcome, 0);
    assert_eq!(state(&world, "e-m1").await, A2aState::Completed);
    world.pass_ms(40_000);
    assert_eq!(world.does(prune(world.now)).await.outcome, 1);
    assert_eq!(state(&world, "e-m1").await, A2aState::Completed);
    assert_eq!(world.does(prune(world.now)).await.outcome, 1);
    assert_eq!(view(&world, "e-m1").await, None);
}
