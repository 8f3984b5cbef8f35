//! Holds a parsed file against the schema: unknown keys, wrong types, values out of bounds, all in one pass
//! and each with its place. What the values mean together is judged in [`super::validate`].

use super::error::{ConfigProblem, PROBLEMS_MAX, ProblemPlace};
use super::keys::Config;
use super::schema::{KeySchema, file_schema, join};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How alike two words must be, from 0 to 1, for one to be offered as what was meant. Two letters swapped
/// in a short key are still found; unrelated keys are not offered.
const LIKENESS_MIN: f64 = 0.6;
/// How much of a word must be there to recognise it by its beginning.
const BEGINNING_MIN: usize = 3;

/// Where each key that the file sets is set.
pub(super) type Spots = BTreeMap<String, ProblemPlace>;

/// Reads a file's text; or tells everything that is wrong with its form.
pub(super) fn read(text: &str) -> Result<(Config, Spots), Vec<ConfigProblem>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors
            .iter()
            .take(PROBLEMS_MAX)
            .map(|error| syntax(text, error))
            .collect());
    }
    let root = file_schema();
    let mut walk = SchemaWalk {
        text,
        known: root.keys(),
        problems: Vec::new(),
        spots: Spots::new(),
    };
    if let KeySchema::Table(keys) = &root {
        walk.table("", keys, table.get_ref());
    }
    if !walk.problems.is_empty() {
        walk.problems.sort_by_key(|problem| problem.place);
        walk.problems.truncate(PROBLEMS_MAX);
        return Err(walk.problems);
    }
    match toml::from_str(text) {
        Ok(config) => Ok((config, walk.spots)),
        Err(error) => Err(vec![syntax(text, &error)]),
    }
}

fn syntax(text: &str, error: &toml::de::Error) -> ConfigProblem {
    ConfigProblem {
        place: place(text, &error.span().unwrap_or(0..0)),
        what: error.message().replace('\n', ", "),
    }
}

/// Where people are tempted to write a token.
const TOKENS_BELOW: &str = "molecule";

struct SchemaWalk<'a> {
    text: &'a str,
    /// All keys there are.
    known: Vec<String>,
    problems: Vec<ConfigProblem>,
    spots: Spots,
}

impl SchemaWalk<'_> {
    fn problem(&mut self, span: &Range<usize>, what: String) {
        self.problems.push(ConfigProblem {
            place: place(self.text, span),
            what,
        });
    }

    fn table(&mut self, path: &str, keys: &BTreeMap<String, KeySchema>, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = join(path, key.get_ref());
            match keys.get(key.get_ref().as_ref()) {
                Some(schema) => self.value(&name, schema, &key.span(), value),
                None => {
                    let what = unknown(path, key.get_ref(), keys, &self.known);
                    self.problem(&key.span(), what);
                }
            }
        }
    }

    fn value(
        &mut self,
        name: &str,
        schema: &KeySchema,
        key_span: &Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) {
        if let (KeySchema::Table(keys), DeValue::Table(table)) = (schema, value.get_ref()) {
            return self.table(name, keys, table);
        }
        if let (KeySchema::Tables(keys), DeValue::Array(items)) = (schema, value.get_ref()) {
            for (at, item) in items.iter().enumerate() {
                let table = KeySchema::Table(keys.clone());
                self.value(&join(name, &at.to_string()), &table, &item.span(), item);
            }
            return;
        }
        self.spots
            .insert(name.to_owned(), place(self.text, key_span));
        if let Some(wrong) = wrong(schema, value.get_ref()) {
            self.problem(&value.span(), format!("`{name}` {wrong}"));
        }
    }
}

fn unknown(
    path: &str,
    key: &str,
    keys: &BTreeMap<String, KeySchema>,
    everywhere: &[String],
) -> String {
    let name = join(path, key);
    if path.starts_with(TOKENS_BELOW) && key.contains("token") {
        return format!(
            "`{name}`: a token may not be in this file; put it into a file of mode 0600 and name that in `token_file`, or into the variable MOLECULE_WORKSPACE_TOKEN"
        );
    }
    if path.starts_with(TOKENS_BELOW) && key == "canvas_tier" {
        let table = path.strip_suffix(".origins").unwrap_or(path);
        let origins = join(table, "origins.canvas");
        return format!("`{name}` is now `{origins}`, which is \"peer\" unless you say otherwise");
    }
    let here = nearest(key, keys.keys().map(String::as_str)).map(|key| join(path, key));
    let elsewhere = || {
        let last = |known: &&String| known.rsplit('.').next() == Some(key);
        everywhere.iter().find(last).cloned()
    };
    match here.or_else(elsewhere) {
        Some(meant) => format!("unknown key `{name}`; did you mean `{meant}`?"),
        None => {
            let known: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
            format!("unknown key `{name}`; known here: {}", known.join(", "))
        }
    }
}

/// What is wrong with a value of this schema, if anything is.
fn wrong(schema: &KeySchema, value: &DeValue<'_>) -> Option<String> {
    match (schema, value) {
        (KeySchema::Other, _)
        | (KeySchema::Text { may_be_empty: true }, DeValue::String(_))
        | (KeySchema::Flag, DeValue::Boolean(_)) => None,
        (
            KeySchema::Text {
                may_be_empty: false,
            },
            DeValue::String(text),
        ) => text
            .is_empty()
            .then(|| "is empty; give it a value or leave the key away".to_owned()),
        (KeySchema::Word(words), DeValue::String(word)) => wrong_word(words, word),
        (KeySchema::Number { min, max }, DeValue::Integer(number)) => {
            let read = i128::from_str_radix(number.as_str(), number.radix());
            let within = read.is_ok_and(|number| (*min..=*max).contains(&number));
            (!within).then(|| format!("is {number}; expected {}", expected(schema)))
        }
        (KeySchema::NamedTexts, DeValue::Table(named)) => {
            let (name, wrong) = named.iter().find(|(_, item)| !item.get_ref().is_str())?;
            let (name, found) = (name.get_ref(), wrong.get_ref().type_str());
            Some(format!(
                "has `{name}` of type {found}; expected a text in quotes"
            ))
        }
        (KeySchema::Texts, DeValue::Array(items)) => {
            let wrong = items.iter().find(|item| !item.get_ref().is_str())?;
            let found = wrong.get_ref().type_str();
            Some(format!(
                "holds a value of type {found}; expected {}",
                expected(schema)
            ))
        }
        (KeySchema::Words(words), DeValue::Array(items)) => items.iter().find_map(|item| {
            let wrong = match item.get_ref() {
                DeValue::String(word) => wrong_word(words, word)?,
                found => format!(
                    "is of type {}; expected {}",
                    found.type_str(),
                    expected(schema)
                ),
            };
            Some(format!("holds a value that {wrong}"))
        }),
        (
            KeySchema::Table(_)
            | KeySchema::Tables(_)
            | KeySchema::Word(_)
            | KeySchema::Text { .. }
            | KeySchema::Number { .. }
            | KeySchema::Flag
            | KeySchema::Texts
            | KeySchema::NamedTexts
            | KeySchema::Words(_),
            found,
        ) => Some(format!(
            "is of type {}; expected {}",
            found.type_str(),
            expected(schema)
        )),
    }
}

fn wrong_word(words: &[String], word: &str) -> Option<String> {
    if words.iter().any(|known| known == word) {
        return None;
    }
    let all = quoted(words);
    Some(match nearest(word, words.iter().map(String::as_str)) {
        Some(meant) => format!("is {word:?}; did you mean {meant:?}? (one of {all})"),
        None => format!("is {word:?}; expected one of {all}"),
    })
}

fn expected(schema: &KeySchema) -> String {
    match schema {
        KeySchema::Table(keys) => {
            let keys: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
            format!("a table with the keys {}", keys.join(", "))
        }
        KeySchema::Tables(_) => "tables, each with a header in double brackets".to_owned(),
        KeySchema::Word(words) => format!("one of {}", quoted(words)),
        KeySchema::Text { .. } => "a text in quotes".to_owned(),
        KeySchema::Number { min, max } => format!("a whole number from {min} to {max}"),
        KeySchema::Flag => "true or false".to_owned(),
        KeySchema::Texts => "a list of texts in quotes".to_owned(),
        KeySchema::NamedTexts => "a table of texts in quotes".to_owned(),
        KeySchema::Words(words) => format!("a list of some of {}", quoted(words)),
        KeySchema::Other => "something else".to_owned(),
    }
}

fn quoted(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    words.join(", ")
}

/// Line and column of the start of a span, counted from 1 and in characters.
fn place(text: &str, span: &Range<usize>) -> ProblemPlace {
    let before = text.get(..span.start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    ProblemPlace::Spot {
        line: before.matches('\n').count() + 1,
        column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
    }
}

/// The word that was most likely meant.
fn nearest<'a>(meant: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let meant = meant.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|word| (alike(&meant, word), word))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, word)| word)
}

/// A word that was begun (`linger` for `linger_secs`) is as good as one with a slip in it.
fn alike(meant: &str, word: &str) -> f64 {
    let word = word.to_lowercase().replace('-', "_");
    if meant.len() >= BEGINNING_MIN && word.starts_with(meant) {
        return 1.0;
    }
    strsim::normalized_damerau_levenshtein(meant, &word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let problems = read(text).unwrap_err();
        let line = |problem: &ConfigProblem| format!("{}: {}", problem.place, problem.what);
        problems.iter().map(line).collect()
    }

    #[test]
    fn an_unknown_key_names_the_nearest_one() {
        for (text, said) in [
            (
                "[codex]\ntransprot = 'auto'",
                "2:1: unknown key `codex.transprot`; did you mean `codex.transport`?",
            ),
            (
                "[tiers.owner]\nsandbx = 'read-only'",
                "2:1: unknown key `tiers.owner.sandbx`; did you mean `tiers.owner.sandbox`?",
            ),
            (
                "[deamon]",
                "1:2: unknown key `deamon`; did you mean `daemon`?",
            ),
            (
                "transport = 'auto'",
                "1:1: unknown key `transport`; did you mean `codex.transport`?",
            ),
            (
                "daemon.colour = 1",
                "1:8: unknown key `daemon.colour`; known here: `drain_secs`, `key_file`, `turns_max`, `turns_per_channel`, `turns_per_sender`, `turns_reserved`",
            ),
        ] {
            assert_eq!(problems(text), [said], "{text}");
        }
    }

    #[test]
    fn a_wrong_value_says_what_is_expected() {
        for (text, said) in [
            (
                "daemon.turns_max = 'many'",
                "1:20: `daemon.turns_max` is of type string; expected a whole number from 1 to 512",
            ),
            (
                "daemon.turns_max = 0",
                "1:20: `daemon.turns_max` is 0; expected a whole number from 1 to 512",
            ),
            (
                "daemon.turns_max = 0x7fffffffffffffffff",
                "1:20: `daemon.turns_max` is 0x7fffffffffffffffff; expected a whole number from 1 to 512",
            ),
            (
                "turn.timeout_secs = 1.5",
                "1:21: `turn.timeout_secs` is of type float; expected a whole number from 1 to 86400",
            ),
            (
                "codex.transport = 'scoket'",
                "1:19: `codex.transport` is \"scoket\"; did you mean \"socket\"? (one of \"auto\", \"socket\", \"stdio\")",
            ),
            (
                "codex.env_pass = ['A', 1]",
                "1:18: `codex.env_pass` holds a value of type integer; expected a list of texts in quotes",
            ),
            (
                "tiers.owner.one_writer = 'yes'",
                "1:26: `tiers.owner.one_writer` is of type string; expected true or false",
            ),
            (
                "codex.bin = ''",
                "1:13: `codex.bin` is empty; give it a value or leave the key away",
            ),
            (
                "daemon = 3",
                "1:10: `daemon` is of type integer; expected a table with the keys `drain_secs`, `key_file`, `turns_max`, `turns_per_channel`, `turns_per_sender`, `turns_reserved`",
            ),
        ] {
            assert_eq!(problems(text), [said], "{text}");
        }
    }

    #[test]
    fn reports_capped_problems_in_file_order() {
        let text =
            "[turn]\nzeit = 1\n\n[codex]\ntransport = 7\nbni = 'x'\n\n[daemon]\nturns_max = 513\n";
        let lines: Vec<_> = problems(text)
            .iter()
            .filter_map(|problem| problem.split(':').next()?.parse::<u32>().ok())
            .collect();
        assert_eq!(lines, [2, 5, 6, 9]);
        let many: String = (0..100).map(|n| format!("unknown{n} = 1\n")).collect();
        assert_eq!(problems(&many).len(), PROBLEMS_MAX);
    }

    #[test]
    fn broken_toml_has_a_place_too() {
        let said = problems("[codex]\nbin = \"x\n");
        assert!(said.iter().any(|said| said.starts_with("2:")), "{said:?}");
        let said = problems("daemon.turns_max = 1\ndaemon.turns_max = 2\n");
        assert!(said.iter().any(|said| said.starts_with("2:")), "{said:?}");
    }

    #[test]
    fn set_keys_have_line_positions() {
        let (config, spots) = read("[codex]\n# words\ntransport = 'stdio'\n").unwrap();
        assert_eq!(
            spots.get("codex.transport"),
            Some(&ProblemPlace::Spot { line: 3, column: 1 })
        );
        assert_eq!(spots.len(), 1);
        assert_ne!(config, Config::default());
        assert_eq!(read("").unwrap().0, Config::default());
    }

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "a = 1\nü = 2 x\n";
        let at = |start| place(text, &(start..start));
        assert_eq!(at(0), ProblemPlace::Spot { line: 1, column: 1 });
        assert_eq!(at(6), ProblemPlace::Spot { line: 2, column: 1 });
        let x = text.find('x').unwrap();
        assert_eq!(at(x), ProblemPlace::Spot { line: 2, column: 7 });
        assert_eq!(at(1000), ProblemPlace::Spot { line: 3, column: 1 });
    }

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["bin", "home", "transport", "env_pass", "linger_secs"];
        for (meant, found) in [
            ("transprot", Some("transport")),
            ("Transport", Some("transport")),
            ("env-pass", Some("env_pass")),
            ("linger", Some("linger_secs")),
            ("bni", Some("bin")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(meant, known), found, "{meant}");
        }
    }
}
