//! The life of a question of Codex: it is a row, one decision counts, silence is a no, and a death loses no word.

use crate::fixture::Fixture;
use crate::given::{
    World, Write, answered, attach, begin, claim, fail, message, reconcile, request, text, verdict,
};
use bridge_core::port::{Change, Ledger, TurnHistory};
use bridge_core::step::{
    Action, AnswerDelivered, AnswerUndelivered, Ask, AskOutcome, Authority, ClaimOutcome, Decide,
    DecideOutcome, DecideRefusal, ExpireOutcome, ExpireRequests, IncarnationGone, Lose, Received,
    Resolve, SendOutcome, Suspend, UndeliveredReason,
};
use bridge_core::value::{
    Actor, Class, Command, DecidedBy, Deciders, EffectDigest, IncarnationId, Request,
    RequestDecision, RequestId, RequestKind, RequestState, RequestVerdict, Sandbox, SenderKind,
    StateName, Tier, Timestamp, Wants,
};

const HOUR_MS: i64 = 3_600_000;
const REMINDER_MS: i64 = 900_000;

fn id(name: &str) -> RequestId {
    RequestId::new(name)
}

/// A question of message `m1` with an hour to decide.
fn asked(name: &str, now: Timestamp) -> Request {
    Request {
        deadline: now.plus_ms(HOUR_MS),
        ..request("m1", name)
    }
}

fn ask(request: Request) -> Ask {
    Ask {
        request,
        at_once: None,
    }
}

fn decide(name: &str, decision: RequestDecision, by: &str) -> Decide {
    Decide {
        request_id: id(name),
        digest: None,
        verdict: verdict(decision, by),
        authority: Authority::Owner,
    }
}

fn waits(name: &str) -> AskOutcome {
    AskOutcome::Waits {
        request_id: id(name),
    }
}

impl<L: Ledger> World<L> {
    /// Message `m1` runs and its turn asks.
    async fn asks(&mut self, name: &str) -> Request {
        self.runs("a", "m1", Sandbox::WorkspaceWrite).await;
        let request = asked(name, self.now);
        assert_eq!(self.does(ask(request.clone())).await.outcome, waits(name));
        self.request(name).await
    }

    async fn request(&self, name: &str) -> Request {
        let id = id(name);
        self.reads(move |rows| rows.request(&id)).await.unwrap()
    }

    async fn refused(&self, decide: Decide) -> DecideRefusal {
        match self.does(decide).await.outcome {
            DecideOutcome::Refused(refusal) => refusal,
            other => panic!("it counted: {other:?}"),
        }
    }

    /// The life of Codex that asked is over, and the message goes on with another.
    async fn codex_dies(&mut self) {
        self.does(Lose {
            message_id: message("m1"),
            why: "it died".to_owned(),
            end: None,
        })
        .await;
        self.does(reconcile("m1", TurnHistory::Absent)).await;
        assert_eq!(self.request("r1").await.state, RequestState::Orphaned);
    }

    async fn goes_on(&mut self) {
        self.pass_ms(60_000);
        assert_eq!(self.claims().await, "m1");
        self.does(begin("m1", Sandbox::WorkspaceWrite)).await;
        self.does(attach("m1")).await;
    }

    /// All notices of a message.
    async fn notices(&self, of: &str) -> Vec<String> {
        let of = message(of);
        let replies = self.reads(move |rows| rows.replies(&of)).await;
        replies.into_iter().map(|reply| reply.body).collect()
    }
}

fn again(name: &str, now: Timestamp) -> Request {
    Request {
        incarnation: IncarnationId::new("i2"),
        ..asked(name, now)
    }
}

pub(super) async fn a_question_is_a_row_that_is_known_again<F: Fixture>() {
    let mut fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let first = world.asks("r1").await;
    assert_eq!(first.attempt, 1);
    assert_eq!(first.created_at, world.now);
    let told = world.notices("m1").await;
    assert!(told[0].contains("approve r1"), "{told:?}");
    assert!(told[0].contains("make\nin /work"), "{told:?}");
    fixture.reopen();
    let world = World {
        now: world.now.plus_ms(1),
        ledger: fixture.ledger().clone(),
    };
    let outcome = world.does(ask(asked("r2", world.now))).await.outcome;
    assert_eq!(outcome, waits("r1"), "the same question");
    assert_eq!(world.request("r1").await, first);
    let counted = world
        .does(decide("r1", RequestDecision::Accept, "ann"))
        .await;
    let answer = Action::Answer {
        request_id: id("r1"),
    };
    assert!(counted.actions.contains(&answer), "{counted:?}");
    let outcome = world.does(ask(asked("r3", world.now))).await.outcome;
    let resends = AskOutcome::Answer {
        request_id: id("r1"),
        verdict: verdict(RequestDecision::Accept, "ann"),
        resends: 1,
    };
    assert_eq!(outcome, resends, "the decision was not told yet");
    let all = world.reads(|rows| rows.requests(&message("m1"))).await;
    assert_eq!(all.len(), 1);
    assert_eq!(world.notices("m1").await.len(), 1, "ann sent it herself");
}

pub(super) async fn the_same_name_for_something_else_is_another_question<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    let mut other = asked("r2", world.now);
    other.shown = "make install\nin /work".to_owned();
    other.digest = EffectDigest::of(&other.kind, &other.shown);
    assert_eq!(world.does(ask(other)).await.outcome, waits("r2"));
    let late = world
        .refused(decide("r1", RequestDecision::Accept, "ann"))
        .await;
    assert!(matches!(late, DecideRefusal::Withdrawn { .. }), "{late:?}");
    let after_death = again("r3", world.now);
    assert_eq!(world.does(ask(after_death)).await.outcome, waits("r3"));
    assert_eq!(world.request("r2").await.state, RequestState::Open);
}

pub(super) async fn one_of_a_thousand_decisions_counts<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    let now = world.now;
    let decisions = (0..1_000_usize).map(|n| {
        let decision = RequestDecision::ALL[n % 3];
        let decide = decide("r1", decision, &format!("caller {n}"));
        let ledger = world.ledger.clone();
        tokio::spawn(async move { (n, ledger.transact(decide, now).await.unwrap()) })
    });
    let mut counted = Vec::new();
    for decision in decisions.collect::<Vec<_>>() {
        let (n, decided) = decision.await.unwrap();
        match decided.outcome {
            DecideOutcome::Applied => counted.push((n, decided.actions)),
            DecideOutcome::Refused(DecideRefusal::Decided { .. }) => {
                assert_eq!(decided.actions, []);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counted.len(), 1, "{counted:?}");
    let request = world.request("r1").await;
    let by = format!("caller {}", counted[0].0);
    assert_eq!(request.state.verdict().map(|v| v.by.to_string()), Some(by));
    let told = world.notices("m1").await;
    assert_eq!(told.len(), 2, "asked and decided: {told:?}");
}

/// A name that looks like a name with a program, or like what is stored of one, is no other name.
pub(super) async fn f2_a_decider_stays_who_it_is<F: Fixture>() {
    let program = Some("program curl".to_owned());
    let actors = [
        ("ann", program),
        ("ann (program curl)", None),
        ("\nprogram curl\nann", None),
        ("\n", None),
        ("", None),
    ];
    for (n, (name, program)) in actors.into_iter().enumerate() {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        world.asks("r1").await;
        let by = DecidedBy::Caller(Actor {
            name: name.to_owned(),
            program,
        });
        let mut decide = decide("r1", RequestDecision::Accept, "");
        decide.verdict.by = by.clone();
        world.does(decide).await;
        let request = world.request("r1").await;
        let decided = request.state.verdict().map(|verdict| verdict.by.clone());
        assert_eq!(decided, Some(by.clone()));
        assert_eq!(by.is_caller("ann"), n == 0, "{name:?}");
    }
}

pub(super) async fn invalid_decisions_are_rejected_with_reason<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    let accept = |name| decide(name, RequestDecision::Accept, "ann");
    assert_eq!(world.refused(accept("r9")).await, DecideRefusal::Unknown);
    world.pass_ms(HOUR_MS);
    assert_eq!(world.refused(accept("r1")).await, DecideRefusal::Expired);
    world.does(ask(asked("r2", world.now))).await;
    let mut question = asked("r3", world.now);
    question.kind = RequestKind::UserInput;
    question.rpc_id = "3".to_owned();
    question.digest = EffectDigest::of(&question.kind, &question.shown);
    world.does(ask(question)).await;
    let empty = world.refused(accept("r3")).await;
    assert!(matches!(empty, DecideRefusal::Unfit { .. }), "{empty:?}");
    world
        .does(Resolve {
            message_id: message("m1"),
            incarnation: IncarnationId::new("i1"),
            rpc_id: "3".to_owned(),
        })
        .await;
    let late = world.refused(accept("r3")).await;
    assert!(matches!(late, DecideRefusal::Withdrawn { .. }), "{late:?}");
    let audit = world.reads(|rows| rows.audit(10)).await;
    assert_eq!(audit, [], "nobody decided anything");
}

pub(super) async fn an_orphan_is_granted_and_the_grant_answers_once<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    world.codex_dies().await;
    let granted = world
        .does(decide("r1", RequestDecision::Accept, "bob"))
        .await;
    assert_eq!(granted.outcome, DecideOutcome::Granted);
    let tells = |action: &Action| matches!(action, Action::Answer { .. });
    assert!(!granted.actions.iter().any(tells), "{granted:?}");
    let second = world
        .refused(decide("r1", RequestDecision::Decline, "eve"))
        .await;
    assert!(
        matches!(second, DecideRefusal::Decided { .. }),
        "{second:?}"
    );
    world.goes_on().await;
    let mut other = again("r2", world.now);
    other.shown = "make install".to_owned();
    other.digest = EffectDigest::of(&other.kind, &other.shown);
    assert_eq!(
        world.does(ask(other)).await.outcome,
        waits("r2"),
        "something else asks again"
    );
    let mut same = again("r3", world.now);
    same.rpc_id = "1".to_owned();
    match world.does(ask(same.clone())).await.outcome {
        AskOutcome::Answer { verdict, .. } => {
            assert_eq!(
                (verdict.by.to_string().as_str(), verdict.via.as_str()),
                ("bob", "grant")
            );
            assert_eq!(verdict.decision, RequestDecision::Accept);
        }
        waits @ AskOutcome::Waits { .. } => panic!("{waits:?}"),
    }
    let spent = world.request("r1").await.state;
    assert!(matches!(spent, RequestState::Decided(_)), "{spent:?}");
    same.request_id = id("r4");
    same.rpc_id = "2".to_owned();
    assert_eq!(world.does(ask(same)).await.outcome, waits("r4"), "once");
}

pub(super) async fn an_orphan_that_is_asked_again_carries_on<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let first = world.asks("r1").await;
    world
        .does(Write(vec![Change::NewIncarnation(
            crate::given::incarnation("i1", 1),
        )]))
        .await;
    world
        .does(IncarnationGone {
            incarnation_id: IncarnationId::new("i1"),
        })
        .await;
    world.codex_dies().await;
    world.goes_on().await;
    world.does(ask(again("r2", world.now))).await;
    let old = world.request("r1").await.state;
    assert!(
        matches!(&old, RequestState::Withdrawn { why } if why.contains("r2")),
        "{old:?}"
    );
    let new = world.request("r2").await;
    assert_eq!(new.state, RequestState::Open);
    assert_eq!((new.attempt, new.deadline), (2, first.deadline));
    world
        .does(Suspend {
            message_id: message("m1"),
        })
        .await;
    assert_eq!(world.request("r2").await.state, RequestState::Orphaned);
    let granted = world
        .does(decide("r2", RequestDecision::Accept, "ann"))
        .await;
    assert_eq!(granted.outcome, DecideOutcome::Granted);
    world.pass_ms(HOUR_MS);
    let tend = ExpireRequests {
        now: world.now,
        reminder_ms: Some(REMINDER_MS),
    };
    assert_eq!(world.does(tend).await.outcome, ExpireOutcome::Did(id("r2")));
    world.goes_on().await;
    let later = again("r3", world.now);
    assert_eq!(
        world.does(ask(later)).await.outcome,
        waits("r3"),
        "a grant ends at its deadline"
    );
}

pub(super) async fn silence_is_a_no_and_one_reminder_comes_before_it<F: Fixture>() {
    let mut fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let first = world.asks("r1").await;
    let tend = |now| ExpireRequests {
        now,
        reminder_ms: Some(REMINDER_MS),
    };
    let idle = |at: Timestamp| ExpireOutcome::Idle { next_due: Some(at) };
    let reminder = first.created_at.plus_ms(REMINDER_MS);
    assert_eq!(world.does(tend(world.now)).await.outcome, idle(reminder));
    world.now = reminder;
    assert_eq!(
        world.does(tend(world.now)).await.outcome,
        ExpireOutcome::Did(id("r1"))
    );
    assert_eq!(
        world.does(tend(world.now)).await.outcome,
        idle(first.deadline)
    );
    fixture.reopen();
    world.ledger = fixture.ledger().clone();
    world.now = first.deadline;
    let declined = world.does(tend(world.now)).await;
    let answer = Action::Answer {
        request_id: id("r1"),
    };
    assert!(declined.actions.contains(&answer), "{declined:?}");
    let state = world.request("r1").await.state;
    let expected = RequestVerdict::own(
        RequestDecision::Decline,
        RequestVerdict::DEADLINE,
        world.now,
    );
    assert_eq!(state, RequestState::Decided(expected));
    assert_eq!(
        world.does(tend(world.now)).await.outcome,
        ExpireOutcome::Idle { next_due: None }
    );
    let told = world.notices("m1").await;
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[1].contains("still waits"), "{told:?}");
    assert!(told[2].contains("nobody decided in time"), "{told:?}");
    assert_eq!(
        world
            .refused(decide("r1", RequestDecision::Accept, "ann"))
            .await,
        DecideRefusal::Expired
    );
    assert_eq!(world.state("m1").await, StateName::Running);
}

pub(super) async fn questions_end_with_their_turn<F: Fixture>() {
    for end in ["answered", "dead", "held"] {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        world.asks("r1").await;
        match end {
            "answered" => drop(world.does(answered("m1", "done", None)).await),
            "dead" => drop(world.does(fail("m1", Class::Permanent)).await),
            _ => drop(world.does(fail("m1", Class::Transient)).await),
        }
        let state = world.request("r1").await.state;
        let expected = match end {
            "held" => "orphaned",
            _ => "withdrawn",
        };
        assert_eq!(state.as_str(), expected, "{end}");
        let figures = world.reads(|rows| rows.figures(Timestamp(0))).await;
        assert_eq!(figures.requests_waiting, u64::from(end == "held"));
    }
}

pub(super) async fn a_no_that_ends_the_turn_ends_the_message<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    let ended = world
        .does(decide("r1", RequestDecision::Cancel, "bob"))
        .await;
    assert_eq!(ended.outcome, DecideOutcome::Applied);
    let interrupt = Action::Interrupt {
        message_id: message("m1"),
    };
    assert!(ended.actions.contains(&interrupt), "{ended:?}");
    assert_eq!(world.state("m1").await, StateName::Running);
    let late = asked("r2", world.now);
    let late = Request {
        rpc_id: "7".to_owned(),
        ..late
    };
    match world.does(ask(late)).await.outcome {
        AskOutcome::Answer { verdict, .. } => {
            assert_eq!(verdict.decision, RequestDecision::Cancel);
        }
        waits @ AskOutcome::Waits { .. } => panic!("nobody is asked any more: {waits:?}"),
    }
    world.does(fail("m1", Class::Transient)).await;
    assert_eq!(world.state("m1").await, StateName::Cancelled);

    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    world.codex_dies().await;
    world
        .does(decide("r1", RequestDecision::Cancel, "bob"))
        .await;
    assert_eq!(world.state("m1").await, StateName::Cancelled);
    assert_eq!(world.request("r1").await.state.as_str(), "withdrawn");
}

pub(super) async fn f10_stale_undelivered_report_grants_nothing<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    world
        .does(decide("r1", RequestDecision::Accept, "bob"))
        .await;
    for _ in 0..2 {
        world.does(ask(asked("r2", world.now))).await;
    }
    let unheard = |resends| AnswerUndelivered {
        request_id: id("r1"),
        because: UndeliveredReason::Cut,
        resends,
    };
    for (resends, state) in [(0, "decided"), (1, "decided"), (2, "granted")] {
        world.does(unheard(resends)).await;
        assert_eq!(world.request("r1").await.state.as_str(), state);
    }
}

pub(super) async fn a_decision_that_codex_does_not_hear_is_kept_or_withdrawn<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1").await;
    world
        .does(decide("r1", RequestDecision::Accept, "bob"))
        .await;
    let unfit = AnswerUndelivered {
        request_id: id("r1"),
        because: UndeliveredReason::Unfit {
            why: "a colour is missing".to_owned(),
        },
        resends: 0,
    };
    world.does(unfit).await;
    assert_eq!(world.request("r1").await.state, RequestState::Open);
    let told = world.notices("m1").await;
    assert!(told[2].contains("a colour is missing"), "{told:?}");
    let gone = || AnswerUndelivered {
        request_id: id("r1"),
        because: UndeliveredReason::Gone,
        resends: 0,
    };
    world.does(gone()).await;
    assert_eq!(
        world.request("r1").await.state,
        RequestState::Open,
        "nothing was decided"
    );
    world
        .does(decide("r1", RequestDecision::Accept, "bob"))
        .await;
    world
        .does(Lose {
            message_id: message("m1"),
            why: "we restarted".to_owned(),
            end: None,
        })
        .await;
    world.does(gone()).await;
    assert_eq!(world.request("r1").await.state.as_str(), "granted");
    let outcome = world.does(ask(asked("r2", world.now))).await.outcome;
    assert!(
        matches!(&outcome, AskOutcome::Answer { request_id, .. } if *request_id == id("r1")),
        "the same life of Codex still asks: {outcome:?}"
    );
}

pub(super) async fn an_answer_is_forgotten_when_it_was_told<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    let mut question = asked("r1", world.now);
    question.kind = RequestKind::UserInput;
    world.does(ask(question)).await;
    let mut answer = decide("r1", RequestDecision::Accept, "ann");
    answer.verdict.answers = Some(r#"{"password":"hunter2"}"#.to_owned());
    world.does(answer).await;
    let answers = |request: Request| request.state.verdict().unwrap().answers.clone();
    assert!(answers(world.request("r1").await).is_some());
    world
        .does(AnswerDelivered {
            request_id: id("r1"),
        })
        .await;
    let request = world.request("r1").await;
    assert_eq!(request.state.as_str(), "decided");
    assert_eq!(answers(request), None);
}

/// Threat 9: the matrix of sender, code and conversation; one cell of it accepts.
pub(super) async fn a_word_in_the_chat_counts_from_the_right_sender_only<F: Fixture>() {
    let cells = [
        ("ann", Tier::Owner, "a", "r1aaaa", "Approved"),
        ("ann", Tier::Owner, "a", "r2aaaa", "no open question"),
        ("ann", Tier::Owner, "b", "r1aaaa", "no open question"),
        ("ann", Tier::Peer, "a", "r1aaaa", "only the owner"),
        ("eve", Tier::Peer, "a", "r1aaaa", "only the owner"),
        ("eve", Tier::Tool, "a", "r1aaaa", "only the owner"),
    ];
    for (sender, tier, key, code, expected) in cells {
        let fixture = F::open();
        let mut world = World::over(fixture.ledger());
        world.asks("r1aaaa").await;
        let mut word = text(key, "m2");
        word.sender = sender.to_owned();
        word.tier = tier;
        word.body = format!("approve {code}");
        word.extras.command = Command::read(&word.body);
        world.pass_ms(1);
        let done = world.does(word).await;
        assert_eq!(done.outcome, Received::New(message("m2")));
        let counts = done
            .actions
            .iter()
            .any(|action| matches!(action, Action::Answer { .. }));
        let cell = format!("{sender} {tier:?} {key} {code}");
        assert_eq!(counts, expected == "Approved", "{cell}");
        let told = world.notices("m2").await;
        assert!(told[0].contains(expected), "{cell}: {told:?}");
        assert_eq!(world.state("m2").await, StateName::Answered, "{cell}");
        let waits = world.request("r1aaaa").await.state == RequestState::Open;
        assert_eq!(waits, expected != "Approved", "{cell}");
    }
    a_late_word_hears_who_was_first::<F>().await;
    a_peer_answers_what_it_is_asked::<F>().await;
    a_secret_is_not_said_in_a_chat::<F>().await;
}

async fn a_late_word_hears_who_was_first<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.asks("r1aaaa").await;
    world
        .does(decide("r1aaaa", RequestDecision::Decline, "bob"))
        .await;
    for (n, (key, says)) in [("a", "declined already by bob"), ("b", "no open question")]
        .into_iter()
        .enumerate()
    {
        let mut word = text(key, &format!("w{n}"));
        word.body = "approve r1aaaa".to_owned();
        word.extras.command = Command::read(&word.body);
        world.pass_ms(1);
        world.does(word).await;
        let told = world.notices(&format!("w{n}")).await;
        assert!(told[0].contains(says), "{key}: {told:?}");
    }
}

async fn a_secret_is_not_said_in_a_chat<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    let mut request = asked("r1aaaa", world.now);
    request.kind = RequestKind::UserInput;
    request.wants = Wants::Text;
    request.deciders = Deciders::Owner;
    world.does(ask(request)).await;
    for (n, (body, says)) in [
        ("answer r1aaaa hunter2", "not here"),
        ("approve r1aaaa", "not here"),
        ("/status", "Codex asks: run make"),
        ("decline r1aaaa", "Declined: run make."),
    ]
    .into_iter()
    .enumerate()
    {
        let mut word = text("a", &format!("w{n}"));
        word.body = body.to_owned();
        word.extras.command = Command::read(body);
        world.pass_ms(1);
        world.does(word).await;
        let told = world.notices(&format!("w{n}")).await;
        assert!(told[0].contains(says), "{body}: {told:?}");
    }
    assert_eq!(world.request("r1aaaa").await.state.as_str(), "decided");
}

async fn a_peer_answers_what_it_is_asked<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    let mut from_peer = text("a", "m1");
    from_peer.tier = Tier::Peer;
    from_peer.kind = SenderKind::Agent;
    from_peer.sender = "agent".to_owned();
    world.does(from_peer.clone()).await;
    assert_eq!(world.claims().await, "m1");
    world.does(begin("m1", Sandbox::ReadOnly)).await;
    world.does(attach("m1")).await;
    for (name, kind, wants) in [
        ("r1aaaa", RequestKind::UserInput, Wants::Text),
        ("r2aaaa", RequestKind::Command, Wants::Approval),
    ] {
        let mut request = asked(name, world.now);
        request.rpc_id = name.to_owned();
        request.kind = kind;
        request.wants = wants;
        request.deciders = Deciders::Sender;
        world.does(ask(request)).await;
    }
    for (n, (sender, code, counts)) in [
        ("agent", "r2aaaa", false),
        ("other", "r1aaaa", false),
        ("agent", "r1aaaa", true),
    ]
    .into_iter()
    .enumerate()
    {
        let mut word = from_peer.clone();
        word.message_id = message(&format!("w{n}"));
        word.external_id = bridge_core::value::ExternalId::new(format!("w{n}"));
        word.sender = sender.to_owned();
        word.body = format!("answer {code} the \"red\" one");
        word.extras.command = Command::read_answer(&word.body);
        world.pass_ms(1);
        let done = world.does(word).await;
        let told = done
            .actions
            .iter()
            .any(|action| matches!(action, Action::Answer { .. }));
        assert_eq!(told, counts, "{sender} {code}");
    }
    let mut words = from_peer.clone();
    words.message_id = message("w9");
    words.external_id = bridge_core::value::ExternalId::new("w9");
    words.body = "answer within 5 minutes, please".to_owned();
    words.extras.command = Command::read_answer(&words.body);
    assert!(words.extras.command.is_some());
    world.does(words).await;
    assert_eq!(
        world.state("w9").await,
        StateName::Received,
        "a text for Codex"
    );
    let state = world.request("r1aaaa").await.state;
    let answers = state.verdict().unwrap().answers.clone();
    assert_eq!(answers.as_deref(), Some(r#""the \"red\" one""#));
}

pub(super) async fn a_turn_that_waits_for_a_person_takes_no_place<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::WorkspaceWrite).await;
    world
        .receives(&[
            ("b", "m2"),
            ("c", "m3"),
            ("d", "m4"),
            ("e", "m5"),
            ("f", "m6"),
        ])
        .await;
    let one_writer = |now| {
        let mut claim = claim(1, now);
        claim.one_writer = vec!["/work".to_owned()];
        claim
    };
    let full = world.does(one_writer(world.now)).await.outcome;
    assert!(matches!(full, ClaimOutcome::Full { .. }), "{full:?}");
    for n in 1..=4_u32 {
        let of = format!("m{n}");
        let mut request = request(&of, &format!("r{n}"));
        request.deadline = world.now.plus_ms(HOUR_MS);
        world.does(ask(request)).await;
        let claimed = world.does(one_writer(world.now)).await.outcome;
        match claimed {
            ClaimOutcome::Claimed { message, .. } if n < 4 => {
                let next = format!("m{}", n + 1);
                assert_eq!(message.message_id.as_str(), next);
                world.does(begin(&next, Sandbox::WorkspaceWrite)).await;
                world.does(attach(&next)).await;
            }
            ClaimOutcome::Full { .. } if n == 4 => {}
            other => panic!("{n}: {other:?}"),
        }
    }
    world
        .does(decide("r1", RequestDecision::Accept, "ann"))
        .await;
    let full = world.does(one_writer(world.now)).await.outcome;
    assert!(matches!(full, ClaimOutcome::Full { .. }), "{full:?}");
    let lane = world.send("a").await;
    assert!(matches!(lane, SendOutcome::Send { .. }), "{lane:?}");
}

pub(super) async fn questions_come_in_pages<F: Fixture>() {
    let fixture = F::open();
    let mut world = World::over(fixture.ledger());
    world.runs("a", "m1", Sandbox::ReadOnly).await;
    for n in (1..=5).rev() {
        let mut request = asked(&format!("r{n}"), world.now);
        request.rpc_id = n.to_string();
        world.does(ask(request)).await;
    }
    world
        .does(decide("r3", RequestDecision::Decline, "ann"))
        .await;
    let page = |waiting, before: Option<&str>| {
        let before = before.map(id);
        let world = &world;
        async move {
            let page = world
                .reads(move |rows| rows.newest_requests(waiting, before.as_ref(), 2))
                .await;
            let names: Vec<_> = page.iter().map(|r| r.request_id.to_string()).collect();
            names.join(" ")
        }
    };
    assert_eq!(page(false, None).await, "r1 r2");
    assert_eq!(page(false, Some("r2")).await, "r3 r4");
    assert_eq!(page(true, Some("r2")).await, "r4 r5");
    assert_eq!(page(true, Some("r5")).await, "");
}
