//! Approval requests: asked once and again, decided, expired, and a decision that does not reach Codex.

use crate::fixture;
use crate::rows::Given;
use bridge_core::limits;
use bridge_core::port::Change;
use bridge_core::step::{
    Action, AnswerUndelivered, Applied, Ask, AskOutcome, Authority, Decide, DecideOutcome,
    DecideRefusal, ExpireRequests, Fail, Pace, UndeliveredReason,
};
use bridge_core::value::{
    Class, CutPolicy, DecidedBy, Deciders, EffectDigest, Failure, IncarnationId, Message,
    MessageState, Request, RequestDecision, RequestId, RequestState, RequestVerdict as Verdict,
    Tier, Timestamp, TurnId, Usage,
};

fn running() -> Message {
    let turn_id = TurnId::new("t");
    fixture::message(MessageState::Running { turn_id }, |life| life.attempt = 1)
}

/// Rows with these requests of the running message.
fn given(requests: &[&Request]) -> Given {
    let given = Given::message(running());
    let asked = requests.iter().copied().cloned();
    asked.fold(given, Given::request)
}

/// A request of a life of Codex that is over: the present one asks by other names.
fn of_old_life(state: RequestState) -> Request {
    Request {
        incarnation: IncarnationId::new("old"),
        ..fixture::request(state)
    }
}

fn shows(request: Request, shown: &str) -> Request {
    Request {
        request_id: RequestId::new(format!("id of {shown}")),
        shown: shown.to_owned(),
        digest: EffectDigest::of(&request.kind, shown),
        ..request
    }
}

fn ask(request: Request, given: &mut Given) -> Applied<AskOutcome> {
    let ask = Ask {
        request,
        at_once: None,
    };
    given.run(ask, 1).unwrap()
}

/// Threat 10: a decision says what it is about.
#[test]
fn threat_10_decision_is_bound_to_digest() {
    let request = fixture::request(RequestState::Open);
    let mut given = given(&[&request]);
    let mut decide = |digest: EffectDigest| {
        let decide = Decide {
            request_id: request.request_id.clone(),
            digest: Some(digest),
            verdict: Verdict::own(RequestDecision::Accept, "console", Timestamp(2)),
            authority: Authority::Owner,
        };
        given.run(decide, 2).unwrap()
    };
    let other = decide(EffectDigest::of(&request.kind, "something else"));
    let not_shown = DecideOutcome::Refused(DecideRefusal::NotShown);
    assert_eq!((other.outcome, other.changes), (not_shown, Vec::new()));
    let shown = decide(request.digest.clone());
    assert_eq!(shown.outcome, DecideOutcome::Applied);
    let late = decide(EffectDigest::of(&request.kind, "something else"));
    let late = late.outcome;
    let DecideOutcome::Refused(DecideRefusal::Decided { .. }) = late else {
        panic!("who was first comes first: {late:?}");
    };
}

/// Threat 10: what was shown is withdrawn when the same name asks something else, so a decision about it is late.
#[test]
fn threat_10_replaced_request_rejects_old_decision() {
    let shown = fixture::request(RequestState::Open);
    let other = shows(shown.clone(), "make install");
    let mut given = given(&[&shown]);
    let asked = ask(other.clone(), &mut given);
    let waits = AskOutcome::Waits {
        request_id: other.request_id,
    };
    assert_eq!(asked.outcome, waits);
    let withdrawn = asked.changes.iter().any(|change| {
        matches!(change, Change::Request { request_id, to: RequestState::Withdrawn { .. }, .. }
            if *request_id == shown.request_id)
    });
    assert!(withdrawn, "{asked:?}");
    let decide = Decide {
        request_id: shown.request_id,
        digest: None,
        verdict: Verdict::own(RequestDecision::Accept, "cli", Timestamp(2)),
        authority: Authority::Owner,
    };
    let decided = given.run(decide, 2).unwrap();
    assert!(
        matches!(
            decided.outcome,
            DecideOutcome::Refused(DecideRefusal::Withdrawn { .. })
        ),
        "{decided:?}"
    );
    assert_eq!(decided.changes, []);
}

#[test]
fn request_loop_is_declined_automatically() {
    let request = fixture::request(RequestState::Open);
    let mut given = given(&[]);
    for n in 1..limits::REQUESTS_PER_MESSAGE_MAX {
        let why = "its turn has ended".to_owned();
        given = given.request(Request {
            request_id: RequestId::new(format!("old {n}")),
            rpc_id: n.to_string(),
            ..fixture::request(RequestState::Withdrawn { why })
        });
    }
    let outcome = ask(request.clone(), &mut given.clone()).outcome;
    assert!(matches!(outcome, AskOutcome::Waits { .. }), "{outcome:?}");
    let one_more = shows(request.clone(), "make install");
    ask(one_more, &mut given);
    match ask(request, &mut given).outcome {
        AskOutcome::Answer { verdict, .. } => {
            assert_eq!(verdict.decision, RequestDecision::Decline);
        }
        waits @ AskOutcome::Waits { .. } => panic!("{waits:?}"),
    }
}

#[test]
fn grant_requires_same_effect_before_deadline() {
    let verdict = Verdict::own(RequestDecision::Accept, "cli", Timestamp(0));
    let granted = of_old_life(RequestState::Granted(verdict));
    let asked = shows(fixture::request(RequestState::Open), "make install");
    let late = Request {
        deadline: Timestamp(1),
        ..granted.clone()
    };
    let same = Request {
        request_id: RequestId::new("again"),
        ..fixture::request(RequestState::Open)
    };
    for (request, live) in [(asked, granted.clone()), (same.clone(), late)] {
        let outcome = ask(request, &mut given(&[&live])).outcome;
        assert!(matches!(outcome, AskOutcome::Waits { .. }), "{outcome:?}");
    }
    let outcome = ask(same, &mut given(&[&granted])).outcome;
    assert!(matches!(outcome, AskOutcome::Answer { .. }), "{outcome:?}");
}

fn stopping(requests: &[&Request]) -> Given {
    let mut message = running();
    message.life.stop = Some("stopped by ada".to_owned());
    let asked = requests.iter().copied().cloned();
    asked.fold(Given::message(message), Given::request)
}

fn answer(ask: Ask, mut given: Given) -> (RequestDecision, Vec<Change>) {
    let asked = given.run(ask, 1).unwrap();
    match asked.outcome {
        AskOutcome::Answer { verdict, .. } => (verdict.decision, asked.changes),
        waits @ AskOutcome::Waits { .. } => panic!("{waits:?}"),
    }
}

fn accept(via: &str) -> Verdict {
    Verdict::own(RequestDecision::Accept, via, Timestamp(0))
}

#[test]
fn rules_accept_nothing_after_stop() {
    let ask = Ask {
        request: fixture::request(RequestState::Open),
        at_once: Some(accept("rule tests")),
    };
    assert_eq!(answer(ask.clone(), given(&[])).0, RequestDecision::Accept);
    assert_eq!(answer(ask, stopping(&[])).0, RequestDecision::Cancel);
}

#[test]
fn stop_or_deny_withdraws_grant() {
    let granted = of_old_life(RequestState::Granted(accept("cli")));
    let asked = |at_once| Ask {
        request: Request {
            request_id: RequestId::new("again"),
            ..fixture::request(RequestState::Open)
        },
        at_once,
    };
    let deny = Verdict::own(RequestDecision::Decline, "rule no", Timestamp(0));
    for (ask, given, told) in [
        (asked(None), stopping(&[&granted]), RequestDecision::Cancel),
        (
            asked(Some(deny)),
            given(&[&granted]),
            RequestDecision::Decline,
        ),
    ] {
        let (decision, changes) = answer(ask, given);
        assert_eq!(decision, told);
        let left = changes.iter().find_map(|change| match change {
            Change::Request { request_id, to, .. } if *request_id == granted.request_id => {
                Some(to.name().as_str())
            }
            _ => None,
        });
        assert_eq!(left, Some("withdrawn"), "{changes:?}");
    }
}

#[test]
fn repeated_request_is_cancelled_after_stop() {
    for state in [
        RequestState::Open,
        RequestState::Orphaned,
        RequestState::Granted(accept("cli")),
        RequestState::Decided(accept("cli")),
    ] {
        let known = fixture::request(state);
        let ask = Ask {
            request: fixture::request(RequestState::Open),
            at_once: None,
        };
        let (decision, changes) = answer(ask, stopping(&[&known]));
        assert_eq!(decision, RequestDecision::Cancel);
        let told = changes.iter().any(|change| match change {
            Change::Request { to, .. } => to
                .verdict()
                .is_some_and(|verdict| verdict.decision == RequestDecision::Cancel),
            _ => false,
        });
        assert!(told, "the row says what Codex was told: {changes:?}");
    }
}

#[test]
fn stopping_message_accepts_no_approval() {
    for state in [RequestState::Open, RequestState::Orphaned] {
        let request = fixture::request(state);
        let given = stopping(&[&request]);
        let decide = |decision| Decide {
            request_id: request.request_id.clone(),
            digest: None,
            verdict: Verdict::own(decision, "cli", Timestamp(2)),
            authority: Authority::Owner,
        };
        let yes = given.clone().run(decide(RequestDecision::Accept), 2);
        let yes = yes.unwrap().outcome;
        assert!(matches!(yes, DecideOutcome::Refused(_)), "{yes:?}");
        let no = given.clone().run(decide(RequestDecision::Decline), 2);
        let no = no.unwrap().outcome;
        assert!(!matches!(no, DecideOutcome::Refused(_)), "{no:?}");
    }
}

/// What becomes of a decision that Codex did not hear while its turn is still taken for alive.
fn unheard(by: DecidedBy, because: UndeliveredReason) -> Applied<()> {
    let verdict = Verdict {
        by,
        ..Verdict::own(RequestDecision::Accept, "cli", Timestamp(0))
    };
    let request = fixture::request(RequestState::Decided(verdict));
    let turn_id = TurnId::new("t");
    let message = fixture::message(MessageState::Running { turn_id }, |life| life.attempt = 1);
    let request_id = request.request_id.clone();
    let mut given = Given::message(message).request(request);
    let unheard = AnswerUndelivered {
        request_id,
        because,
        resends: 0,
    };
    given.run(unheard, 1).unwrap()
}

fn moved(applied: &Applied<()>) -> Option<&RequestState> {
    applied.changes.iter().find_map(|change| match change {
        Change::Request { to, .. } => Some(to),
        _ => None,
    })
}

fn told(applied: &Applied<()>) -> bool {
    let mut changes = applied.changes.iter();
    changes.any(|change| matches!(change, Change::NewReply(_)))
}

#[test]
fn undelivered_human_decision_becomes_grant() {
    let cut = unheard(DecidedBy::caller("ann"), UndeliveredReason::Cut);
    assert!(
        matches!(moved(&cut), Some(RequestState::Granted(verdict)) if verdict.by.is_caller("ann")),
        "{cut:?}"
    );
    assert_eq!(
        unheard(DecidedBy::Bridge, UndeliveredReason::Cut).changes,
        []
    );
}

#[test]
fn f10_no_name_means_the_bridge() {
    let named = DecidedBy::caller(DecidedBy::BRIDGE_NAME);
    assert_eq!(named.to_string(), DecidedBy::Bridge.to_string());
    let cut = unheard(named, UndeliveredReason::Cut);
    assert!(
        matches!(moved(&cut), Some(RequestState::Granted(_))),
        "{cut:?}"
    );
}

#[test]
fn undelivered_decision_notifies_its_decider() {
    let gone = unheard(DecidedBy::caller("ann"), UndeliveredReason::Gone);
    assert!(
        matches!(moved(&gone), Some(RequestState::Withdrawn { .. })),
        "{gone:?}"
    );
    assert!(told(&gone), "{gone:?}");
    assert!(!told(&unheard(DecidedBy::Bridge, UndeliveredReason::Gone)));
}

#[test]
fn expiry_notifies_unless_already_granted() {
    for (state, told) in [
        (RequestState::Open, true),
        (RequestState::Orphaned, true),
        (RequestState::Granted(accept("cli")), false),
    ] {
        let message = fixture::message(MessageState::Unclear { hold: None }, |_| {});
        let mut given = Given::message(message).request(fixture::request(state.clone()));
        let now = 3_600_000;
        let tend = ExpireRequests {
            now: Timestamp(now),
            reminder_ms: None,
        };
        let expired = given.run(tend, now).unwrap();
        let delivers = |action: &Action| matches!(action, Action::Deliver { .. });
        assert_eq!(expired.actions.iter().any(delivers), told, "{state:?}");
    }
}

#[test]
fn f10_a_peers_notice_names_no_path() {
    let notices = |tier: Tier| {
        let peers = Message { tier, ..running() };
        let asked = Request {
            deciders: Deciders::Owner,
            headline: "run cat /root/state/token".to_owned(),
            ..fixture::request(RequestState::Open)
        };
        let decide = Decide {
            request_id: asked.request_id.clone(),
            digest: None,
            verdict: Verdict {
                by: DecidedBy::caller("ann"),
                ..Verdict::own(RequestDecision::Decline, "cli", Timestamp(2))
            },
            authority: Authority::Owner,
        };
        let fail = Fail {
            message_id: peers.message_id.clone(),
            failure: Failure::new(Class::Permanent, "no /root/state/ledger.db"),
            touched: false,
            usage: Usage::default(),
            on_cut: CutPolicy::Continue,
            pace: Pace {
                backoff_base_ms: 2_000,
                config_probe_ms: 15_000,
                jitter: 0,
            },
        };
        let mut given = Given::message(peers);
        let mut changes = ask(asked, &mut given).changes;
        changes.extend(given.run(decide, 2).unwrap().changes);
        changes.extend(given.run(fail, 3).unwrap().changes);
        let notices = changes.into_iter().filter_map(|change| match change {
            Change::NewReply(reply) => Some(reply.body),
            _ => None,
        });
        notices.collect::<Vec<String>>()
    };
    let owner = notices(Tier::Owner);
    assert!(
        owner.iter().all(|text| text.contains("/root/")),
        "{owner:?}"
    );
    for tier in [Tier::Peer, Tier::Tool] {
        let told = notices(tier);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(!told.concat().contains("/root"), "{told:?}");
    }
}
