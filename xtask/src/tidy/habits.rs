//! The rules about habits that rot a test suite: waiting by the clock, switching a
//! test off, and notes to oneself that nobody else can act on.

use super::Finding;
use super::rooms::Room;
use super::source::Source;

/// Calls that wait by the clock.
const SLEEPS: [&str; 3] = ["sleep", "sleep_until", "sleep_ms"];

/// How statements of SQL begin.
const STATEMENTS: [&str; 5] = [
    "SELECT ",
    "INSERT INTO ",
    "UPDATE ",
    "DELETE FROM ",
    "PRAGMA ",
];

/// Words that promise something.
const PROMISES: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Words that a promise needs after it to be understood by somebody else.
const EXPLANATION_WORDS: usize = 4;

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let mut find = |line, what: &str| findings.push(Finding::new(&source.path, line, what));
    for path in source.paths() {
        let sleeps = path
            .segments
            .last()
            .is_some_and(|last| SLEEPS.contains(&last.as_str()));
        if sleeps && path.is_called && source.is_test_line(path.line) {
            find(
                path.line,
                "a test sleeps; wait for the event itself, or pause tokio's clock",
            );
        }
    }
    if !source.room.may_open_database() && source.room != Room::Xtask {
        let lines = source.text.lines().enumerate();
        for (at, _) in lines.filter(|(_, text)| is_statement(text)) {
            if !source.is_test_line(at + 1) {
                find(
                    at + 1,
                    "a statement of SQL outside of `store`; give the ledger a question instead",
                );
            }
        }
    }
    for (line, attribute) in source.attributes() {
        if switches_off(&attribute) {
            find(line, "a test is switched off; mend it or remove it");
        }
    }
    for (at, comment) in source.comments.lines().enumerate() {
        if comment.contains("```ignore") {
            find(
                at + 1,
                "a doc test is switched off; make it compile, or use ```text",
            );
        }
        if is_bare_promise(comment) {
            find(
                at + 1,
                "a note without explanation; write `TODO: what is missing, and why`",
            );
        }
    }
}

/// Whether a line begins a text with a verb of SQL (threat 29).
fn is_statement(line: &str) -> bool {
    STATEMENTS.iter().any(|verb| {
        let parts = line.split('"').skip(1);
        parts.into_iter().any(|text| text.starts_with(verb))
    })
}

fn switches_off(attribute: &str) -> bool {
    let words: Vec<&str> = attribute
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    match words.split_first() {
        Some((&"ignore", _)) => true,
        Some((&"cfg_attr", rest)) => rest.contains(&"ignore"),
        _ => false,
    }
}

fn is_bare_promise(comment: &str) -> bool {
    let promise = PROMISES.iter().find_map(|word| {
        let (before, after) = comment.split_once(word)?;
        let whole =
            !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric);
        whole.then_some(after)
    });
    promise.is_some_and(|after| match after.strip_prefix(':') {
        Some(text) => text.split_whitespace().count() < EXPLANATION_WORDS,
        None => true,
    })
}
