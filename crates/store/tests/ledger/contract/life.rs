//! The straight line of a message's life, and what it leaves in the rows.

use crate::fixture::Fixture;
use crate::given::{World, answered, attach, begin, conversation, message, note, text};
use bridge_core::limits::BACKLOG_MAX;
use bridge_core::port::{Change, StateCount};
use bridge_core::step::{Action, Begun, ClaimOutcome, Received, SendOutcome, Unbind};
use bridge_core::value::{
    AnswerSource, ChannelId, Class, ClientId, ExternalId, Failure, Hold, Life, Message,
    MessageState, NextInput, ReplyKind, ReplyState, Sandbox, SenderKind, Seq, StateName, ThreadId,
    Tier, Timestamp, TurnId, TurnState,
};

use crate::given::Write;

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

pub(super) async fn a_message_goes_from_receipt_to_done<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    let ClaimOutcome::Claimed {
        message: claimed,
        conversation: room,
    } = world.claim(1).await
    else {
        panic!("nothing was claimed");
    };
    assert_eq!((claimed.seq, claimed.life.attempt), (Seq(1), 1));
    assert_eq!(room.thread, None);
    world.binds("a", "thread").await;
    let begun = world
        .does(begin("m1", Sandbox::WorkspaceWrite))
        .await
        .outcome;
    let client_id = ClientId::of(&message("m1"), 1);
    assert_eq!(begun, Begun::Turn { client_id });
    world.does(attach("m1")).await;
    world.does(note("m1", "ran make", true)).await;
    let done = world.does(answered("m1", "yes", None)).await;
    let lane = Action::Deliver {
        conversation_id: conversation("a"),
    };
    assert!(done.actions.contains(&lane));
    let reply = world.sends("a").await;
    assert_eq!(world.state("m1").await, StateName::Sending);
    world.confirms(&reply).await;
    assert_eq!(world.state("m1").await, StateName::Done);
    assert_eq!(world.send("a").await, SendOutcome::Empty);

    let id = message("m1");
    let (turn, answer, events, replies) = world
        .reads(move |rows| {
            Ok((
                rows.turn(&id, 1)?,
                rows.answer(&id)?,
                rows.events(&id, 0, 10)?,
                rows.replies(&id)?,
            ))
        })
        .await;
    let turn = turn.unwrap();
    assert_eq!(turn.state, TurnState::Ended);
    assert!(turn.touched);
    assert_eq!((turn.usage.input_tokens, turn.usage.output_tokens), (7, 3));
    assert_eq!(turn.turn_id, Some(TurnId::new("t-m1")));
    let answer = answer.unwrap();
    assert_eq!(
        (answer.source, answer.text.as_str()),
        (AnswerSource::Live, "yes")
    );
    assert_eq!(events.len(), 1);
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].kind, ReplyKind::Answer);
    let receipt = "receipt".to_owned();
    let at = Some(world.now);
    assert_eq!(replies[0].state, ReplyState::Sent { receipt, at });
    let counts = world.reads(|rows| rows.counts()).await;
    let state = StateName::Done;
    assert_eq!(counts, [StateCount { state, count: 1 }]);
}

fn picture(n: i64) -> bridge_core::value::Attachment {
    bridge_core::value::Attachment {
        name: format!("naïve \"{n}\".png"),
        media_type: "image/png".to_owned(),
        digest: bridge_core::value::FileDigest::new([0xfe; 32]),
        bytes: u64::MAX,
    }
}

pub(super) async fn every_value_comes_back_as_it_was_written<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m0")]).await;
    let capacity = |until| Failure::new(Class::Capacity { until }, "the limit: \u{1F600} \0 end");
    let hold = Hold {
        until: Timestamp(i64::MAX),
        failure: capacity(Some(Timestamp(-1))),
    };
    let reason = || String::from("a\nreason");
    let turn_id = TurnId::new("t");
    let states = [
        MessageState::Received { hold: None },
        MessageState::Received {
            hold: Some(hold.clone()),
        },
        MessageState::Claimed,
        MessageState::Starting,
        MessageState::Running { turn_id },
        MessageState::Unclear { hold: None },
        MessageState::Unclear {
            hold: Some(hold.clone()),
        },
        MessageState::Steered {
            leader: message("m0"),
        },
        MessageState::Parked {
            until: Timestamp(7),
            reason: reason(),
        },
        MessageState::Answered,
        MessageState::Sending,
        MessageState::Done,
        MessageState::Dead { reason: reason() },
        MessageState::Cancelled { reason: reason() },
    ];
    let classes = [
        Class::Transient,
        Class::Capacity { until: None },
        Class::Config,
        Class::Permanent,
        Class::Ambiguous,
        Class::Bug,
    ];
    for ((state, class), seq) in states.into_iter().zip(classes.into_iter().cycle()).zip(2..) {
        let written = Message {
            message_id: message(&format!("m{seq}")),
            conversation_id: conversation("a"),
            seq: Seq(seq),
            channel: ChannelId::new("local"),
            external_id: ExternalId::new(format!("'; DROP TABLE message; -- {seq}")),
            kind: SenderKind::Agent,
            sender: String::new(),
            tier: [Tier::Owner, Tier::Peer, Tier::Tool][seq.unsigned_abs() as usize % 3],
            body: "naïve\0text".repeat(2_000),
            attachments: (0..seq % 3).map(picture).collect(),
            said_at: Timestamp(i64::MAX),
            hops: u32::MAX,
            round: bridge_core::value::Round(i64::MAX),
            received_at: Timestamp(i64::MIN),
            trace: (seq % 2 == 0).then(|| TRACEPARENT.parse().unwrap()),
            life: Life {
                state,
                attempt: u32::MAX,
                spent: 2,
                continues: 1,
                suspect: seq % 2 == 0,
                input: NextInput::Continue,
                stop: (seq % 3 == 0).then(reason),
                failure: Some(Failure::new(class, "why")),
                updated_at: Timestamp(0),
            },
        };
        let new = Change::NewMessage(written.clone());
        world.does(Write(vec![new])).await;
        assert_eq!(world.message(written.message_id.as_str()).await, written);
    }
}

pub(super) async fn a_row_shown_twice_is_one_message<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m1")]).await;
    let mut again = text("a", "m2");
    again.external_id = ExternalId::new("x-m1");
    let received = world.does(again.clone()).await;
    assert_eq!(received.outcome, Received::Duplicate(message("m1")));
    assert_eq!(received.actions, []);
    again.channel = ChannelId::new("elsewhere");
    again.conversation_id = conversation("b");
    let received = world.does(again).await.outcome;
    assert_eq!(received, Received::New(message("m2")));
    let backlog = world.reads(|rows| rows.backlog()).await;
    assert_eq!(backlog, 2);
}

pub(super) async fn a_full_backlog_pushes_back<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.receives(&[("a", "m0")]).await;
    let first = world.message("m0").await;
    let many = (1..i64::from(BACKLOG_MAX))
        .map(|n| {
            Change::NewMessage(Message {
                message_id: message(&format!("m{n}")),
                external_id: ExternalId::new(format!("x{n}")),
                seq: Seq(n + 1),
                ..first.clone()
            })
        })
        .collect();
    world.does(Write(many)).await;
    let received = world.does(text("a", "late")).await.outcome;
    assert_eq!(received, Received::Full);
    let duplicate = world.does(text("a", "m0")).await.outcome;
    assert_eq!(duplicate, Received::Duplicate(message("m0")));
    assert_eq!(world.claims().await, "m0");
}

pub(super) async fn a_thread_is_bound_and_let_go<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    let room = || {
        world.reads(|rows| {
            let by_id = rows.conversation(&conversation("a"))?;
            let by_key = rows.conversation_by_key(&ChannelId::new("local"), "a")?;
            assert_eq!(by_id, by_key);
            Ok(by_id.unwrap())
        })
    };
    assert_eq!(room().await.last_turn, None, "a name is no record");
    world.does(answered("m1", "yes", None)).await;
    assert_eq!(room().await.last_turn, Some(TurnId::new("t-m1")));
    world.binds("a", "one").await;
    assert_eq!(room().await.thread, Some(ThreadId::new("one")));
    assert_eq!(room().await.last_turn, None);
    let lost = |thread| Unbind {
        message_id: message("m1"),
        thread: ThreadId::new(thread),
        why: "gone".to_owned(),
    };
    world.does(lost("other")).await;
    assert_eq!(room().await.thread, Some(ThreadId::new("one")));
    world.does(lost("one")).await;
    assert_eq!(room().await.thread, None);
}
