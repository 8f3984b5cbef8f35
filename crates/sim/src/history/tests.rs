//! A good history passes, and every kind of violation, planted into it, is caught.

use super::*;

const ALL: Promises = Promises {
    seen_once: true,
    single_piece: true,
};

fn visible(row: u64, ordinal: u32, word: Word) -> Fact {
    Fact::Visible {
        row: RowId(row),
        ordinal,
        key: format!("{row}/{ordinal}"),
        word,
    }
}

fn posted(row: u64, conversation: &str) -> Fact {
    Fact::Posted {
        row: RowId(row),
        conversation: conversation.to_owned(),
    }
}

fn asked(row: u64) -> Fact {
    Fact::Asked { row: RowId(row) }
}

fn touched(row: u64) -> Fact {
    Fact::Touched { row: RowId(row) }
}

/// Three messages of two conversations: answered after a wait, answered, and buried.
fn good() -> Vec<Fact> {
    vec![
        posted(1, "a"),
        posted(2, "a"),
        posted(3, "b"),
        Fact::Shown { row: RowId(1) },
        asked(1),
        touched(1),
        asked(1),
        asked(3),
        visible(3, 0, Word::Buried),
        visible(1, 0, Word::Waits),
        visible(1, 1, Word::Answer),
        Fact::Redelivered { row: RowId(1) },
        asked(2),
        visible(2, 0, Word::Answer),
    ]
}

fn timed(facts: Vec<Fact>) -> Vec<Event> {
    (0..)
        .step_by(10)
        .zip(facts)
        .map(|(at_ms, fact)| Event { at_ms, fact })
        .collect()
}

fn verdict(facts: Vec<Fact>) -> Verdict {
    judge(&timed(facts), ALL)
}

#[test]
fn a_good_history_keeps_every_promise() {
    let verdict = verdict(good());
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.sent, verdict.answered, verdict.dead), (3, 2, 1));
    assert_eq!(verdict.calls_beyond, 1);
    assert_eq!(verdict.longest_delay_ms, 120);
}

/// What is done to a good history, and what must be found in it then.
type Plant = (fn(&mut Vec<Fact>), Violation);

#[test]
fn every_kind_of_violation_is_caught() {
    let row = RowId(2);
    let plants: [Plant; 11] = [
        (
            |facts| facts.retain(|fact| *fact != visible(2, 0, Word::Answer)),
            Violation::Lost { row },
        ),
        (
            |facts| {
                facts.retain(|fact| *fact != visible(2, 0, Word::Answer));
                facts.push(visible(2, 0, Word::Waits));
            },
            Violation::Lost { row },
        ),
        (
            |facts| facts.push(visible(2, 0, Word::Answer)),
            Violation::Doubled { row },
        ),
        (
            |facts| {
                facts.push(Fact::Visible {
                    row: RowId(2),
                    ordinal: 0,
                    key: "another".to_owned(),
                    word: Word::Answer,
                });
            },
            Violation::Doubled { row },
        ),
        (
            |facts| facts.push(visible(2, 1, Word::Answer)),
            Violation::Doubled { row },
        ),
        (
            |facts| facts.push(visible(2, 1, Word::Buried)),
            Violation::Doubled { row },
        ),
        (
            |facts| facts.insert(8, visible(2, 1, Word::Waits)),
            Violation::OutOfOrder {
                row: RowId(1),
                after: row,
            },
        ),
        (
            |facts| facts.extend([touched(2), touched(2), touched(2)]),
            Violation::TouchedTwice { row, times: 3 },
        ),
        (|facts| facts.push(asked(2)), Violation::AskedAgain { row }),
        (
            |facts| facts.push(visible(2, 1, Word::Wrong)),
            Violation::Misdirected { row },
        ),
        (
            |facts| facts.push(visible(7, 0, Word::Answer)),
            Violation::Strange { row: RowId(7) },
        ),
    ];
    for (plant, expected) in plants {
        let mut facts = good();
        plant(&mut facts);
        let found = verdict(facts).violations;
        assert!(found.contains(&expected), "{expected}: {found:?}");
    }
}

#[test]
fn what_is_not_promised_is_not_judged() {
    let blind = Promises {
        seen_once: false,
        single_piece: true,
    };
    let mut facts = good();
    facts.push(visible(2, 0, Word::Answer));
    assert_eq!(judge(&timed(facts), blind).violations, []);
    let pieces = Promises {
        single_piece: false,
        ..ALL
    };
    let mut facts = good();
    facts.push(visible(2, 1, Word::Answer));
    assert_eq!(judge(&timed(facts), pieces).violations, []);
}

#[test]
fn conversations_do_not_order_each_other() {
    let facts = vec![
        posted(1, "a"),
        posted(2, "b"),
        visible(2, 0, Word::Answer),
        visible(1, 0, Word::Answer),
    ];
    assert_eq!(verdict(facts).violations, []);
}

#[test]
fn row_ids_read_what_they_write() {
    assert_eq!(RowId::read(&RowId(17).to_string()), Some(RowId(17)));
    assert_eq!(RowId::read("x17"), None);
    assert_eq!(RowId::read("r"), None);
}
