//! Alerts over rows in memory: what is noticed, sent, summed up, taken back, tried again and given up.

use crate::fixture;
use crate::rows::Given;
use bridge_core::limits::{ALERT_AGE_MS, ALERTS_WINDOW_MS};
use bridge_core::port::{AlertChange, AlertRead, Change, Read, TokenChange};
use bridge_core::step::{
    AddDevice, AlertBegin, AlertDelivery, AlertEnd, AlertStep, AlertWay, DeviceAdded, NoticeAlerts,
    RevokeToken,
};
use bridge_core::value::{
    AlertDetail, AlertKind, AlertState, AlertSubject, Class, ConsoleAccess, Failure, MessageState,
    PushDevice, Receiver, ReceiverId, Request, RequestDecision, RequestId, RequestState,
    RequestVerdict as Verdict, Timestamp, Token, TokenKind, TurnId,
};

const PROGRAM: AlertWay = AlertWay {
    takes_back: true,
    sums_up: false,
};
const PEOPLE: AlertWay = AlertWay {
    takes_back: false,
    sums_up: true,
};

fn to() -> ReceiverId {
    ReceiverId::new("target-1")
}

fn receiver() -> Receiver {
    Receiver {
        receiver_id: to(),
        device: None,
        about: AlertKind::ALL.to_vec(),
        detail: AlertDetail::Hint,
        error: None,
        created_at: Timestamp(0),
    }
}

fn subject(kind: AlertKind, id: &str) -> AlertSubject {
    AlertSubject {
        kind,
        id: id.to_owned(),
    }
}

/// A receiver, and a running message.
fn given() -> Given {
    let turn_id = TurnId::new("t");
    let message = fixture::message(MessageState::Running { turn_id }, |life| life.attempt = 1);
    Given::message(message).with(Change::Alert(AlertChange::PutReceiver(receiver())))
}

fn asks(given: Given, id: &str) -> Given {
    given.request(Request {
        request_id: RequestId::new(id),
        rpc_id: id.to_owned(),
        ..fixture::request(RequestState::Open)
    })
}

fn decided(given: Given, id: &str) -> Given {
    let verdict = Verdict::own(RequestDecision::Decline, "test", Timestamp(2));
    let to = RequestState::Decided(verdict);
    given.with(Change::Request {
        request_id: RequestId::new(id),
        from: RequestState::Open.name(),
        to,
    })
}

fn notice(given: &mut Given, kind: AlertKind, id: &str, now: i64) -> Vec<ReceiverId> {
    let subjects = vec![subject(kind, id)];
    given.run(NoticeAlerts { subjects }, now).unwrap().outcome
}

fn begin(given: &mut Given, way: AlertWay, now: i64) -> AlertStep {
    let begin = AlertBegin {
        receiver_id: to(),
        way,
    };
    given.run(begin, now).unwrap().outcome
}

#[track_caller]
fn sends(given: &mut Given, way: AlertWay, now: i64) -> AlertDelivery {
    match begin(given, way, now) {
        AlertStep::Send(delivery) => *delivery,
        other => panic!("{other:?}"),
    }
}

fn end(
    given: &mut Given,
    way: AlertWay,
    of: &AlertDelivery,
    failure: Option<Class>,
    now: i64,
) -> Option<Timestamp> {
    let sent = of.events.iter();
    let end = AlertEnd {
        receiver_id: to(),
        way,
        sent: sent
            .map(|event| (event.subject.clone(), event.mark.clone()))
            .collect(),
        failure: failure.map(|class| Failure::new(class, "no")),
        is_gone: false,
        jitter: 0,
    };
    given.run(end, now).unwrap().outcome
}

fn state(given: &Given, kind: AlertKind, id: &str) -> Option<AlertState> {
    let rows = given.clone().rows();
    let alert = rows.alert(&to(), &subject(kind, id)).unwrap();
    alert.map(|alert| alert.state)
}

fn marks(of: &AlertDelivery) -> Vec<&str> {
    of.events.iter().map(|event| event.mark.as_str()).collect()
}

#[test]
fn question_is_told_once_and_taken_back() {
    let mut given = asks(given(), "q");
    assert_eq!(notice(&mut given, AlertKind::Question, "q", 1), [to()]);
    assert!(notice(&mut given, AlertKind::Question, "q", 1).is_empty());
    let asked = sends(&mut given, PROGRAM, 1);
    assert_eq!((marks(&asked), asked.again), (vec!["asked"], false));
    end(&mut given, PROGRAM, &asked, None, 1);
    assert_eq!(begin(&mut given, PROGRAM, 1), AlertStep::Nothing);
    let mut given = decided(given, "q");
    assert_eq!(notice(&mut given, AlertKind::Question, "q", 2), [to()]);
    let settled = sends(&mut given, PROGRAM, 2);
    assert_eq!(marks(&settled), ["settled"]);
    end(&mut given, PROGRAM, &settled, None, 2);
    assert!(notice(&mut given, AlertKind::Question, "q", 3).is_empty());
    assert_eq!(begin(&mut given, PROGRAM, 3), AlertStep::Nothing);
}

#[test]
fn question_settled_before_send_is_silent() {
    let mut given = asks(given(), "q");
    notice(&mut given, AlertKind::Question, "q", 1);
    let mut given = decided(given, "q");
    notice(&mut given, AlertKind::Question, "q", 2);
    assert_eq!(begin(&mut given, PROGRAM, 2), AlertStep::Nothing);
    let over = state(&given, AlertKind::Question, "q");
    assert_eq!(over, Some(AlertState::Over));
    let mut given = decided(asks(given, "late"), "late");
    assert!(notice(&mut given, AlertKind::Question, "late", 3).is_empty());
}

#[test]
fn question_settled_during_send_is_taken_back() {
    let mut given = asks(given(), "q");
    notice(&mut given, AlertKind::Question, "q", 1);
    let asked = sends(&mut given, PROGRAM, 1);
    let mut given = decided(given, "q");
    assert!(notice(&mut given, AlertKind::Question, "q", 2).is_empty());
    end(&mut given, PROGRAM, &asked, None, 2);
    assert_eq!(marks(&sends(&mut given, PROGRAM, 2)), ["settled"]);
}

#[test]
fn cut_send_is_repeated_as_again() {
    let mut given = asks(given(), "q");
    notice(&mut given, AlertKind::Question, "q", 1);
    let first = sends(&mut given, PROGRAM, 1);
    let again = sends(&mut given, PROGRAM, 2);
    assert!(again.again);
    assert_eq!((again.tries, again.first_try_at), (2, first.first_try_at));
}

#[test]
fn cut_send_of_settled_question_is_taken_back() {
    for (way, expected) in [(PROGRAM, Some(vec!["settled"])), (PEOPLE, None)] {
        let mut given = asks(given(), "q");
        notice(&mut given, AlertKind::Question, "q", 1);
        sends(&mut given, way, 1);
        let mut given = decided(given, "q");
        let next = match begin(&mut given, way, 2) {
            AlertStep::Send(delivery) => Some(delivery),
            AlertStep::Nothing | AlertStep::Later(_) => None,
        };
        assert_eq!(next.as_deref().map(marks), expected);
    }
}

#[test]
fn failed_send_pauses_the_receiver() {
    let mut given = asks(asks(given(), "q"), "r");
    notice(&mut given, AlertKind::Question, "q", 1);
    notice(&mut given, AlertKind::Question, "r", 1);
    let first = sends(&mut given, PROGRAM, 1);
    let later = end(&mut given, PROGRAM, &first, Some(Class::Transient), 1).unwrap();
    assert!(later > Timestamp(1));
    assert_eq!(begin(&mut given, PROGRAM, 2), AlertStep::Later(later));
    let error = |given: &Given| given.clone().rows().receiver(&to()).unwrap().unwrap().error;
    assert_eq!(error(&given).as_deref(), Some("no"));
    for _ in 0..2 {
        let next = sends(&mut given, PROGRAM, later.0);
        end(&mut given, PROGRAM, &next, None, later.0);
    }
    assert_eq!(error(&given), None);
    assert_eq!(begin(&mut given, PROGRAM, later.0), AlertStep::Nothing);
}

#[test]
fn unreachable_receiver_is_given_up_after_a_day() {
    let mut given = asks(given(), "q");
    notice(&mut given, AlertKind::Question, "q", 1);
    let (mut now, mut tries) = (1, 0);
    loop {
        let next = sends(&mut given, PROGRAM, now);
        tries += 1;
        match end(&mut given, PROGRAM, &next, Some(Class::Transient), now) {
            Some(at) => now = at.0,
            None => break,
        }
    }
    assert!(
        now > ALERT_AGE_MS && tries < 300,
        "{tries} tries until {now}"
    );
    assert_eq!(
        state(&given, AlertKind::Question, "q"),
        Some(AlertState::Over)
    );
}

#[test]
fn many_alerts_become_one_summary_a_minute() {
    let mut given = given();
    for number in 0..200 {
        let id = format!("q{number}");
        given = asks(given, &id);
        notice(&mut given, AlertKind::Question, &id, 1);
    }
    let summary = sends(&mut given, PEOPLE, 1);
    assert_eq!(summary.events.len(), 200);
    end(&mut given, PEOPLE, &summary, None, 1);
    let mut singles = 0;
    for number in 0..20 {
        let id = format!("r{number}");
        given = asks(given, &id);
        notice(&mut given, AlertKind::Question, &id, 2);
        if let AlertStep::Send(one) = begin(&mut given, PEOPLE, 2) {
            assert_eq!(one.events.len(), 1);
            end(&mut given, PEOPLE, &one, None, 2);
            singles += 1;
        }
    }
    assert_eq!(singles, 5);
    let later = Timestamp(1 + ALERTS_WINDOW_MS);
    assert_eq!(begin(&mut given, PEOPLE, 3), AlertStep::Later(later));
    let summary = sends(&mut given, PEOPLE, later.0 + 1);
    assert_eq!(summary.events.len(), 15);
}

#[test]
fn cut_summary_is_repeated_whole() {
    let mut given = given();
    for number in 0..7 {
        let id = format!("q{number}");
        given = asks(given, &id);
        notice(&mut given, AlertKind::Question, &id, 1);
    }
    assert_eq!(sends(&mut given, PEOPLE, 1).events.len(), 7);
    given = asks(given, "more");
    notice(&mut given, AlertKind::Question, "more", 2);
    let again = sends(&mut given, PEOPLE, 2);
    assert_eq!((again.events.len(), again.again), (7, true));
    end(&mut given, PEOPLE, &again, None, 2);
    // What a summary told is not taken back.
    let mut given = decided(given, "q1");
    assert!(notice(&mut given, AlertKind::Question, "q1", 3).is_empty());
}

#[test]
fn dead_message_is_told_each_time_it_dies() {
    let dead = MessageState::Dead {
        reason: "broken".to_owned(),
    };
    let message = fixture::message(dead.clone(), |life| life.updated_at = Timestamp(5));
    let mut given =
        Given::message(message.clone()).with(Change::Alert(AlertChange::PutReceiver(receiver())));
    notice(&mut given, AlertKind::Failure, "m", 6);
    let told = sends(&mut given, PEOPLE, 6);
    assert_eq!(
        (told.events[0].word, &*told.events[0].headline),
        ("dead", "broken")
    );
    end(&mut given, PEOPLE, &told, None, 6);
    assert!(notice(&mut given, AlertKind::Failure, "m", 7).is_empty());
    let mut life = message.life;
    life.updated_at = Timestamp(9);
    let mut given = given.with(Change::UpdateState {
        message_id: message.message_id,
        from: dead.name(),
        life,
    });
    assert_eq!(notice(&mut given, AlertKind::Failure, "m", 10), [to()]);
}

#[test]
fn nobody_is_told_of_the_past() {
    let mut given = asks(given(), "q");
    let late = Receiver {
        created_at: Timestamp(1),
        ..receiver()
    };
    given = given.with(Change::Alert(AlertChange::PutReceiver(late)));
    assert!(notice(&mut given, AlertKind::Question, "q", 2).is_empty());
    let mut given = asks(self::given(), "q");
    let old = notice(&mut given, AlertKind::Question, "q", ALERT_AGE_MS + 1);
    assert!(old.is_empty());
}

#[test]
fn browser_ends_with_its_session() {
    let session = Token {
        name: "console-1".to_owned(),
        hash: "h".to_owned(),
        scopes: vec!["read".to_owned()],
        kind: TokenKind::Session(ConsoleAccess {
            label: "phone".to_owned(),
            expires_at: Timestamp(1_000),
        }),
        created_at: Timestamp(0),
        last_used_at: None,
        revoked_at: None,
    };
    let browser = |id: &str| Receiver {
        receiver_id: ReceiverId::new(id),
        device: Some(PushDevice {
            session: "console-1".to_owned(),
            endpoint: "https://push.example/1".to_owned(),
            p256dh: String::new(),
            auth: String::new(),
            unreadable: false,
        }),
        ..receiver()
    };
    let add = |given: &mut Given, id: &str, now| {
        let add = AddDevice {
            receiver: browser(id),
            by: "me".to_owned(),
        };
        given.run(add, now).unwrap().outcome
    };
    let mut given = asks(given(), "q");
    assert_eq!(add(&mut given, "b", 1), DeviceAdded::NoSession);
    let mut given = given.with(Change::Token(TokenChange::New(session)));
    assert_eq!(add(&mut given, to().as_str(), 0), DeviceAdded::Added);
    assert_eq!(add(&mut given, "b", 1_000), DeviceAdded::NoSession);
    notice(&mut given, AlertKind::Question, "q", 1);
    let mut expired = given.clone();
    assert_eq!(begin(&mut expired, PROGRAM, 1_000), AlertStep::Nothing);
    assert_eq!(expired.rows().receiver(&to()).unwrap(), None);
    let revoke = RevokeToken {
        name: "console-1".to_owned(),
        by: "me".to_owned(),
    };
    assert!(given.run(revoke, 2).unwrap().outcome);
    let rows = given.rows();
    assert_eq!(rows.receiver(&to()).unwrap(), None);
    let gone = rows.alert(&to(), &subject(AlertKind::Question, "q"));
    assert_eq!(gone.unwrap(), None);
    assert!(rows.request(&RequestId::new("q")).unwrap().is_some());
}
