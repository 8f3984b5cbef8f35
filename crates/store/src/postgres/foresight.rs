//! What a job will ask next, by what the last job of its kind asked: such reads are sent with the one that is waited for.
//!
//! Nothing rests on a guess. An answer is used only for the very statement and values that it was asked with, and only until
//! something is written to one of its tables. A wrong guess costs the server a read.

use super::value::SessionRow;
use rusqlite::types::{FromSql, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// Steps of a job that are remembered.
const STEPS_MAX: usize = 64;

/// Answers that are kept at a time.
const ANSWERS_MAX: usize = 256;

/// Kinds of jobs that are known.
const KINDS_MAX: usize = 256;

/// Ways that a kind of job goes.
const WAYS_MAX: usize = 4;

/// Tables, one bit each.
pub(super) type Tables = u32;

/// All of them, in the order of the schema.
const TABLES: [&str; 27] = [
    "instance",
    "conversation",
    "message",
    "message_text",
    "turn",
    "answer",
    "reply",
    "reply_text",
    "request",
    "event",
    "incarnation",
    "token",
    "cursor",
    "task",
    "task_input",
    "subscription",
    "receiver",
    "alert",
    "stored_bytes",
    "quota",
    "audit",
    "node",
    "home",
    "loan",
    "segment",
    "file",
    "file_piece",
];

/// The tables that a read names, or the one that a write changes. A column of the same name counts too: that forgets an
/// answer too many.
pub(super) fn tables_of(sql: &str) -> Tables {
    let mut words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let one = |word: &str| TABLES.iter().position(|table| *table == word);
    if sql.starts_with("SELECT") {
        return words.filter_map(one).fold(0, |tables, at| tables | 1 << at);
    }
    words.find_map(one).map_or(Tables::MAX, |at| 1 << at)
}

/// Rows that a read gave.
pub(super) type Answer = Rc<Vec<SessionRow>>;

/// A read with its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) sql: Rc<str>,
    pub(super) values: Vec<Value>,
}

/// Where a value of a read may come from.
#[derive(Clone, Debug, PartialEq)]
enum Origin {
    /// It is always the same.
    Fixed(Value),
    /// It is a value of an earlier step.
    Asked { step: usize, at: usize },
    /// It is a column of the first row of an earlier step.
    Answered { step: usize, column: usize },
}

/// One step of a job.
#[derive(Clone, Debug)]
enum Step {
    Read {
        question: Question,
        tables: Tables,
        answer: Answer,
    },
    Write(Tables),
}

/// One step of a kind of job, with where each value may come from.
#[derive(Clone, Debug)]
enum Planned {
    Read {
        sql: Rc<str>,
        tables: Tables,
        values: Vec<Vec<Origin>>,
    },
    Write(Tables),
}

impl Planned {
    fn is_like(&self, step: &Step) -> bool {
        match (self, step) {
            (Self::Read { sql, .. }, Step::Read { question, .. }) => *sql == question.sql,
            (Self::Write(planned), Step::Write(tables)) => planned == tables,
            (Self::Read { .. } | Self::Write(_), _) => false,
        }
    }
}

/// What was asked, and what will be.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    /// The ways of each kind, the newest first.
    plans: HashMap<&'static str, Vec<Rc<[Planned]>>>,
    /// That of the job which runs now.
    kind: Option<&'static str>,
    steps: Vec<Step>,
    answers: Vec<(Question, Tables, Answer)>,
}

impl Foresight {
    /// A job of this kind begins. Answers from before stay true: only its own transaction writes.
    pub(super) fn begin(&mut self, kind: &'static str) {
        self.kind = Some(kind);
        self.steps.clear();
    }

    /// Nothing is known any more: the transaction is another one, or a part of it is undone.
    pub(super) fn forget(&mut self) {
        self.kind = None;
        self.steps.clear();
        self.answers.clear();
    }

    /// A guess went wrong so that the server minded: all of them are dropped.
    pub(super) fn unlearn(&mut self) {
        self.forget();
        self.plans.clear();
    }

    /// What a job of this transaction heard, or was sent early. Nobody else's questions are answered from here.
    pub(super) fn answer(&self, question: &Question) -> Option<Answer> {
        self.kind?;
        let known = self.answers.iter().find(|(known, ..)| known == question);
        known.map(|(_, _, answer)| Rc::clone(answer))
    }

    pub(super) fn keep(&mut self, question: Question, tables: Tables, answer: Answer) {
        if self.kind.is_some() && self.answers.len() < ANSWERS_MAX {
            self.answers.push((question, tables, answer));
        }
    }

    /// The job asked this.
    pub(super) fn asked(&mut self, question: Question, tables: Tables, answer: Answer) {
        self.step(Step::Read {
            question,
            tables,
            answer,
        });
    }

    /// The job writes to these tables.
    pub(super) fn writes(&mut self, tables: Tables) {
        self.answers.retain(|(_, of, _)| of & tables == 0);
        self.step(Step::Write(tables));
    }

    fn step(&mut self, step: Step) {
        if self.kind.is_some() && self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        }
    }

    /// The newest way on which the job is, if it asks this next.
    fn way(&self, next: &Question) -> Option<Rc<[Planned]>> {
        let ways = self.plans.get(self.kind?)?;
        let goes = |way: &&Rc<[Planned]>| {
            let so_far = way.len() > self.steps.len() && is_like(way, &self.steps);
            let sql = match way.get(self.steps.len()) {
                Some(Planned::Read { sql, .. }) => Some(sql),
                Some(Planned::Write(_)) | None => None,
            };
            so_far && sql == Some(&next.sql)
        };
        ways.iter().find(goes).cloned()
    }

    /// What will be asked, as far as it can be known while `next` is asked, and is not known yet.
    pub(super) fn expected(&self, next: &Question) -> Vec<(Question, Tables)> {
        let mut expected: Vec<(Question, Tables)> = Vec::new();
        let Some(way) = self.way(next) else {
            return expected;
        };
        let mut written = 0;
        for planned in way.iter().skip(self.steps.len() + 1) {
            match planned {
                Planned::Write(tables) => written |= tables,
                Planned::Read { tables, .. } if tables & written != 0 => {}
                Planned::Read {
                    sql,
                    tables,
                    values,
                } => {
                    let values = values.iter().map(|origins| self.value(origins, next));
                    let Some(values) = values.collect::<Option<Vec<Value>>>() else {
                        continue;
                    };
                    let question = Question {
                        sql: Rc::clone(sql),
                        values,
                    };
                    let known = self.answer(&question).is_some() || question == *next;
                    if !known && !expected.iter().any(|(other, _)| *other == question) {
                        expected.push((question, *tables));
                    }
                }
            }
        }
        expected
    }

    /// A value by where it comes from, if that is known by now. `next` is the step that is asked.
    fn value(&self, origins: &[Origin], next: &Question) -> Option<Value> {
        match origins.first()? {
            Origin::Fixed(value) => Some(value.clone()),
            Origin::Asked { step, at } if *step == self.steps.len() => {
                next.values.get(*at).cloned()
            }
            Origin::Asked { step, at } => match self.steps.get(*step)? {
                Step::Read { question, .. } => question.values.get(*at).cloned(),
                Step::Write(_) => None,
            },
            Origin::Answered { step, column } => match self.steps.get(*step)? {
                Step::Read { answer, .. } => column_of(answer, *column).filter(is_something),
                Step::Write(_) => None,
            },
        }
    }

    /// The job ended well: the next one of its kind is expected to ask the same.
    pub(super) fn learn(&mut self) {
        let Some(kind) = self.kind.take() else { return };
        let steps = std::mem::take(&mut self.steps);
        if self.plans.len() == KINDS_MAX && !self.plans.contains_key(kind) {
            return;
        }
        let ways = self.plans.entry(kind).or_default();
        let same = |way: &Rc<[Planned]>| way.len() == steps.len() && is_like(way, &steps);
        let known = ways.iter().position(same).map(|at| ways.remove(at));
        let planned = (0..steps.len()).map(|at| {
            let known = known.as_ref().and_then(|way| way.get(at));
            planned(&steps, at, known)
        });
        ways.insert(0, planned.collect());
        ways.truncate(WAYS_MAX);
    }
}

/// Whether the way begins like this.
fn is_like(way: &[Planned], steps: &[Step]) -> bool {
    way.iter()
        .zip(steps)
        .all(|(planned, step)| planned.is_like(step))
}

/// A step as it is expected again. Of what was expected of it before, only what held this time stays.
fn planned(steps: &[Step], at: usize, known: Option<&Planned>) -> Planned {
    let (question, tables) = match &steps[at] {
        Step::Read {
            question, tables, ..
        } => (question, *tables),
        Step::Write(tables) => return Planned::Write(*tables),
    };
    let values = question.values.iter().enumerate().map(|(number, value)| {
        let possible = origins(&steps[..at], value);
        let before = match known {
            Some(Planned::Read { values, .. }) => values.get(number),
            Some(Planned::Write(_)) | None => None,
        };
        match before {
            Some(before) => {
                let still = before.iter().filter(|origin| possible.contains(origin));
                still.cloned().collect()
            }
            None => possible,
        }
    });
    Planned::Read {
        sql: Rc::clone(&question.sql),
        tables,
        values: values.collect(),
    }
}

/// Where a value can have come from, the likeliest first: numbers are bounds of lists more often than not, texts are ids.
fn origins(before: &[Step], value: &Value) -> Vec<Origin> {
    let mut found = Vec::new();
    for (step, earlier) in before.iter().enumerate().rev() {
        let Step::Read {
            question, answer, ..
        } = earlier
        else {
            continue;
        };
        let asked = question.values.iter().enumerate();
        let asked = asked.filter(|(_, other)| *other == value);
        found.extend(asked.map(|(at, _)| Origin::Asked { step, at }));
        let columns = answer.first().map_or(0, SessionRow::columns);
        let answered =
            (0..columns).filter(|column| column_of(answer, *column).as_ref() == Some(value));
        found.extend(answered.map(|column| Origin::Answered { step, column }));
    }
    let fixed = Origin::Fixed(value.clone());
    if matches!(value, Value::Text(_)) {
        found.push(fixed);
    } else {
        found.insert(0, fixed);
    }
    found
}

fn column_of(answer: &Answer, column: usize) -> Option<Value> {
    let value = answer.first()?.value(column).ok()?;
    Value::column_result(value).ok()
}

fn is_something(value: &Value) -> bool {
    *value != Value::Null
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::schema::MIGRATIONS;

    fn question(sql: &str, value: &str) -> Question {
        Question {
            sql: sql.into(),
            values: vec![Value::Text(value.to_owned())],
        }
    }

    const MESSAGE: &str = "SELECT x FROM message WHERE message_id = ?1";
    const TURN: &str = "SELECT x FROM turn WHERE message_id = ?1";
    const TASK: &str = "SELECT x FROM task WHERE owner = ?1";

    /// Reads a message and its turn, writes the message and reads it again.
    fn job(foresight: &mut Foresight, id: &str) {
        foresight.begin("attach");
        for sql in [MESSAGE, TURN] {
            foresight.asked(question(sql, id), tables_of(sql), Answer::default());
        }
        foresight.asked(question(TASK, "ann"), tables_of(TASK), Answer::default());
        foresight.writes(tables_of("UPDATE message SET x = 1"));
        foresight.asked(question(MESSAGE, id), tables_of(MESSAGE), Answer::default());
        foresight.learn();
    }

    #[test]
    fn what_follows_is_expected() {
        let mut foresight = Foresight::default();
        job(&mut foresight, "m1");
        foresight.begin("attach");
        let expected = foresight.expected(&question(MESSAGE, "m2"));
        let questions: Vec<Question> = expected.into_iter().map(|(question, _)| question).collect();
        // Not the message once more: it will have been written by then.
        assert_eq!(questions, [question(TURN, "m2"), question(TASK, "ann")]);
        foresight.begin("another");
        assert!(foresight.expected(&question(MESSAGE, "m2")).is_empty());
    }

    #[test]
    fn wrong_guesses_are_not_repeated() {
        let mut foresight = Foresight::default();
        job(&mut foresight, "m1");
        foresight.begin("attach");
        for (sql, value) in [(MESSAGE, "m2"), (TURN, "m2"), (TASK, "bob")] {
            foresight.asked(question(sql, value), tables_of(sql), Answer::default());
        }
        foresight.writes(tables_of("UPDATE message SET x = 1"));
        let again = question(MESSAGE, "m2");
        foresight.asked(again, tables_of(MESSAGE), Answer::default());
        foresight.learn();
        foresight.begin("attach");
        let expected = foresight.expected(&question(MESSAGE, "m3"));
        let questions: Vec<Question> = expected.into_iter().map(|(question, _)| question).collect();
        assert_eq!(questions, [question(TURN, "m3")]);
    }

    #[test]
    fn a_write_drops_answers_about_its_table() {
        let mut foresight = Foresight::default();
        foresight.begin("attach");
        for sql in [MESSAGE, TURN] {
            foresight.keep(question(sql, "m1"), tables_of(sql), Answer::default());
        }
        foresight.writes(tables_of("UPDATE message SET x = (SELECT y FROM turn)"));
        assert!(foresight.answer(&question(MESSAGE, "m1")).is_none());
        assert!(foresight.answer(&question(TURN, "m1")).is_some());
        assert!(foresight.answer(&question(TURN, "m2")).is_none());
        foresight.forget();
        foresight.begin("attach");
        assert!(foresight.answer(&question(TURN, "m1")).is_none());
    }

    /// A table without a bit would be written without anybody hearing of it.
    #[test]
    fn every_table_is_known() {
        let made = MIGRATIONS.iter().flat_map(|sql| sql.lines());
        let made = made.filter_map(|line| line.strip_prefix("CREATE TABLE "));
        let mut made: Vec<&str> = made.filter_map(|line| line.split(' ').next()).collect();
        let mut known = TABLES.to_vec();
        made.sort_unstable();
        known.sort_unstable();
        assert_eq!(made, known);
    }
}
