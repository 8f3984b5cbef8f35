//! What is refused, and that a refusal leaves nothing behind.

use crate::fixture::Fixture;
use crate::given::{
    World, Write, answered, attach, begin, conversation, fail, incarnation, lose, message, note,
    reconcile, request, text, verdict,
};
use crate::view::everything;
use bridge_core::port::{Change, Ledger, LedgerError, RowsError, TurnHistory};
use bridge_core::step::{Confirm, Resume, Transition};
use bridge_core::value::{
    Answer, AnswerSource, Class, Conversation, Epoch, ExternalId, IncarnationId, ItemEvent, Life,
    Message, MessageState, Reply, ReplyKey, ReplyState, ReplyStateName, RequestDecision, RequestId,
    RequestState, RequestStateName, Sandbox, Seq, StateName, ThreadId, Timestamp, Turn, TurnId,
};

async fn refused<L: Ledger, T: Transition>(world: &World<L>, transition: T)
where
    T::Outcome: std::fmt::Debug,
{
    let before = everything(&world.ledger, world.now).await;
    let error = world.tries(transition).await.unwrap_err();
    assert!(
        matches!(error, LedgerError::Refused(_)),
        "{}: {error}",
        T::NAME
    );
    assert_eq!(
        everything(&world.ledger, world.now).await,
        before,
        "{}",
        T::NAME
    );
}

pub(super) async fn a_refused_transition_leaves_nothing<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1"), ("b", "m2")]).await;
    for id in ["m1", "unknown"] {
        refused(&world, begin(id, Sandbox::ReadOnly)).await;
        refused(&world, attach(id)).await;
        refused(&world, answered(id, "yes", None)).await;
        refused(&world, fail(id, Class::Transient)).await;
        refused(&world, lose(id)).await;
        refused(&world, reconcile(id, TurnHistory::Absent)).await;
    }
    refused(&world, note("unknown", "x", true)).await;
    let message_id = message("unknown");
    refused(&world, Resume { message_id }).await;
    let confirm = Confirm {
        message_id: message("m1"),
        ordinal: 0,
        receipt: String::new(),
    };
    refused(&world, confirm).await;
    assert_eq!(world.claims().await, "m1");
}

pub(super) async fn a_conflict_undoes_the_changes_before_it<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    world.receives(&[("a", "m2"), ("b", "m3")]).await;
    let before = everything(&world.ledger, world.now).await;
    let life = world.message("m1").await.life;
    let sample = sample(&world).await;
    let changes = vec![
        Change::UpdateState {
            message_id: message("m1"),
            from: StateName::Running,
            life: life.moved(MessageState::Answered, world.now),
        },
        Change::NewMessage(sample.message.clone()),
        Change::NewReply(sample.reply.clone()),
        Change::NewAnswer(sample.answer.clone()),
        Change::NewEvent(sample.event.clone()),
        Change::NewRequest(request("m1", "r1")),
        Change::NewIncarnation(incarnation("i1", 1)),
        Change::NewIncarnation(incarnation("i1", 1)),
    ];
    conflicts(&world, changes).await;
    assert_eq!(everything(&world.ledger, world.now).await, before);
    world.does(text("a", "m4")).await;
    assert_eq!(world.message("m4").await.seq, Seq(3));
}

async fn conflicts<L: Ledger>(world: &World<L>, changes: Vec<Change>) {
    let last = changes.last().cloned();
    let error = world.tries(Write(changes)).await.unwrap_err();
    let conflict = matches!(error, LedgerError::Rows(RowsError::Conflict { .. }));
    assert!(conflict, "{last:?}: {error}");
}

/// New rows that fit to a running `m1`.
struct Sample {
    conversation: Conversation,
    message: Message,
    turn: Turn,
    answer: Answer,
    reply: Reply,
    event: ItemEvent,
    life: Life,
}

async fn sample<L: Ledger>(world: &World<L>) -> Sample {
    let running = world.message("m1").await;
    let (conversation, turn) = world
        .reads(|rows| {
            let conversation = rows.conversation(&conversation("a"))?;
            Ok((
                conversation.unwrap(),
                rows.turn(&message("m1"), 1)?.unwrap(),
            ))
        })
        .await;
    let at = world.now;
    Sample {
        conversation,
        message: Message {
            message_id: message("new"),
            external_id: ExternalId::new("new"),
            seq: Seq(99),
            ..running.clone()
        },
        turn,
        answer: Answer {
            message_id: message("m1"),
            attempt: 1,
            source: AnswerSource::Live,
            text: "yes".to_owned(),
            created_at: at,
        },
        reply: Reply {
            message_id: message("m1"),
            ordinal: 0,
            conversation_id: running.conversation_id.clone(),
            seq: running.seq,
            key: ReplyKey::of(&message("m1"), 0),
            kind: bridge_core::value::ReplyKind::Answer,
            body: "yes".to_owned(),
            attachments: Vec::new(),
            state: ReplyState::Queued { not_before: None },
            tries: 0,
            first_try_at: None,
            created_at: at,
        },
        event: ItemEvent {
            message_id: message("m1"),
            ordinal: 1,
            attempt: 1,
            kind: bridge_core::value::EventKind::Bridge,
            text: "said".to_owned(),
            at,
        },
        life: running.life,
    }
}

pub(super) async fn every_guard_is_kept<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    let sample = sample(&world).await;
    let first = vec![
        Change::NewAnswer(sample.answer.clone()),
        Change::NewReply(sample.reply.clone()),
        Change::NewEvent(sample.event.clone()),
        Change::NewRequest(request("m1", "r1")),
        Change::NewIncarnation(incarnation("i1", 1)),
    ];
    world.does(Write(first.clone())).await;
    let before = everything(&world.ledger, world.now).await;
    for again in first {
        conflicts(&world, vec![again]).await;
    }
    for change in unique(&sample)
        .into_iter()
        .chain(unknown(&sample))
        .chain(elsewhere(&sample))
    {
        conflicts(&world, vec![change]).await;
    }
    assert_eq!(everything(&world.ledger, world.now).await, before);
}

/// Rows that would be there twice.
fn unique(sample: &Sample) -> Vec<Change> {
    let new = || sample.message.clone();
    vec![
        Change::NewConversation(sample.conversation.clone()),
        Change::NewConversation(Conversation {
            conversation_id: conversation("other"),
            ..sample.conversation.clone()
        }),
        Change::NewMessage(Message {
            message_id: message("m1"),
            ..new()
        }),
        Change::NewMessage(Message {
            external_id: ExternalId::new("x-m1"),
            ..new()
        }),
        Change::NewMessage(Message {
            seq: Seq(1),
            ..new()
        }),
        Change::NewTurn(sample.turn.clone()),
        Change::NewReply(Reply {
            ordinal: 7,
            ..sample.reply.clone()
        }),
    ]
}

/// Rows of rows that are not there.
fn unknown(sample: &Sample) -> Vec<Change> {
    let nobody = || message("nobody");
    vec![
        Change::NewMessage(Message {
            conversation_id: conversation("nowhere"),
            ..sample.message.clone()
        }),
        Change::Bind {
            conversation_id: conversation("nowhere"),
            from: None,
            to: None,
        },
        Change::LastTurn {
            conversation_id: conversation("nowhere"),
            turn_id: TurnId::new("t"),
            at: Timestamp(1),
        },
        Change::UpdateState {
            message_id: nobody(),
            from: StateName::Running,
            life: sample.life.clone(),
        },
        Change::NewTurn(Turn {
            message_id: nobody(),
            ..sample.turn.clone()
        }),
        Change::Turn(Turn {
            attempt: 9,
            ..sample.turn.clone()
        }),
        Change::NewAnswer(Answer {
            message_id: nobody(),
            ..sample.answer.clone()
        }),
        Change::NewReply(Reply {
            message_id: nobody(),
            key: ReplyKey::new("k"),
            ..sample.reply.clone()
        }),
        Change::NewEvent(ItemEvent {
            message_id: nobody(),
            ..sample.event.clone()
        }),
        Change::NewRequest(request("nobody", "r2")),
        Change::Request {
            request_id: RequestId::new("r9"),
            from: RequestStateName::Open,
            to: RequestState::Orphaned,
        },
        Change::Request {
            request_id: RequestId::new("r1"),
            from: RequestStateName::Decided,
            to: RequestState::Open,
        },
        Change::Reminded {
            request_id: RequestId::new("r9"),
        },
        Change::AnswerResent {
            request_id: RequestId::new("r9"),
        },
        Change::IncarnationEnded {
            incarnation_id: IncarnationId::new("i9"),
            at: Timestamp(1),
        },
    ]
}

/// Rows that are in another state.
fn elsewhere(sample: &Sample) -> Vec<Change> {
    let mut changes: Vec<Change> = StateName::ALL
        .into_iter()
        .filter(|state| *state != StateName::Running)
        .map(|from| Change::UpdateState {
            message_id: message("m1"),
            from,
            life: sample.life.clone(),
        })
        .collect();
    for from in [
        ReplyStateName::Sending,
        ReplyStateName::Sent,
        ReplyStateName::Dead,
    ] {
        changes.push(Change::Reply {
            message_id: message("m1"),
            ordinal: 0,
            from,
            to: ReplyState::Sending,
            tries: 1,
            first_try_at: None,
        });
    }
    changes.push(Change::Bind {
        conversation_id: conversation("a"),
        from: Some(ThreadId::new("other")),
        to: None,
    });
    changes
}

pub(super) async fn an_older_opening_is_fenced<F: Fixture>() {
    let mut fixture = F::open();
    let before = World::over(fixture.ledger());
    before.does(text("a", "m1")).await;
    let Epoch(first) = before.ledger.epoch();
    fixture.reopen();
    let after = World::over(fixture.ledger());
    assert_eq!(after.ledger.epoch(), Epoch(first + 1));
    let error = before.tries(text("a", "m2")).await.unwrap_err();
    let fenced = LedgerError::Fenced {
        found: first + 1,
        ours: first,
    };
    assert_eq!(error, fenced);
    after.does(text("a", "m2")).await;
    let decided = RequestState::Decided(verdict(RequestDecision::Decline, "nobody"));
    let request_id = RequestId::new("r");
    let late = Write(vec![Change::Request {
        request_id,
        from: RequestStateName::Open,
        to: decided,
    }]);
    assert_eq!(before.tries(late).await.unwrap_err(), fenced);
    assert_eq!(after.reads(|rows| rows.backlog()).await, 2);
}
