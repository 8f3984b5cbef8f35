//! `docs/json.schema.json` as a judge of what commands print. It knows the keywords that the document uses and fails on any
//! other, and it fails on keys that the document does not name.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/json.schema.json");
    serde_json::from_str(text).unwrap()
});

/// Keywords that only say something.
const REMARKS: [&str; 3] = ["description", "title", "default"];
/// Keywords that name keys of an object; without any of them every key is allowed.
const KEYS: [&str; 6] = [
    "$ref",
    "properties",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
];

/// The commands that have a schema.
pub(crate) fn commands() -> BTreeSet<String> {
    let commands = DOCUMENT["commands"].as_object().unwrap();
    commands.keys().cloned().collect()
}

/// Fails where this is not what the command prints.
#[track_caller]
pub(crate) fn must_fit(command: &str, value: &Value) {
    let schema = &DOCUMENT["commands"][command];
    assert!(schema.is_object(), "`{command}` has no schema");
    if let Err(why) = whole(schema, value, "") {
        panic!("{command} --json: {why}: {value:#}");
    }
}

/// A value, with every key that it has.
fn whole(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let known = part(schema, value, at)?;
    let keys = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys());
    match keys.into_iter().find(|key| !known.contains(*key)) {
        Some(key) => Err(format!("{at}/{key} is in no schema")),
        None => Ok(()),
    }
}

/// A value, as far as this schema speaks of it; gives the keys that it speaks of.
fn part(schema: &Value, value: &Value, at: &str) -> Result<BTreeSet<String>, String> {
    let all = || {
        value
            .as_object()
            .into_iter()
            .flat_map(|object| object.keys())
    };
    let Some(rules) = schema.as_object() else {
        return match schema {
            Value::Bool(true) => Ok(all().cloned().collect()),
            _ => Err(format!("{at} must not be there")),
        };
    };
    let mut known = BTreeSet::new();
    for (rule, is) in rules {
        match rule.as_str() {
            "properties" => known.extend(properties(is, value, at)?),
            "additionalProperties" => {
                let named = rules.get("properties").and_then(Value::as_object);
                for key in all().filter(|key| named.is_none_or(|named| !named.contains_key(*key))) {
                    whole(is, &value[key], &format!("{at}/{key}"))?;
                    known.insert(key.clone());
                }
            }
            "$ref" => {
                let pointer = is.as_str().unwrap().trim_start_matches('#');
                known.extend(part(DOCUMENT.pointer(pointer).unwrap(), value, at)?);
            }
            "allOf" => {
                for one in is.as_array().unwrap() {
                    known.extend(part(one, value, at)?);
                }
            }
            "anyOf" | "oneOf" => {
                let tried: Vec<_> = is.as_array().unwrap().iter().collect();
                let tried = tried.into_iter().map(|one| part(one, value, at));
                let (fits, not): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
                if fits.is_empty() {
                    let why: Vec<_> = not.into_iter().filter_map(Result::err).collect();
                    return Err(why.join(", or "));
                }
                known.extend(fits.into_iter().flatten().flatten());
            }
            rule => plain(rule, is, value, at)?,
        }
    }
    if !rules.keys().any(|rule| KEYS.contains(&rule.as_str())) {
        known.extend(all().cloned());
    }
    Ok(known)
}

fn properties(named: &Value, value: &Value, at: &str) -> Result<BTreeSet<String>, String> {
    let mut known = BTreeSet::new();
    for (key, schema) in named.as_object().unwrap() {
        if let Some(value) = value.get(key) {
            whole(schema, value, &format!("{at}/{key}"))?;
            known.insert(key.clone());
        }
    }
    Ok(known)
}

/// A rule that names no keys.
fn plain(rule: &str, is: &Value, value: &Value, at: &str) -> Result<(), String> {
    let fits = match rule {
        rule if REMARKS.contains(&rule) => true,
        "type" => {
            let types = is.as_array().cloned().unwrap_or_else(|| vec![is.clone()]);
            types
                .iter()
                .any(|kind| is_of(kind.as_str().unwrap(), value))
        }
        "required" => {
            let names = is.as_array().unwrap().iter();
            let mut missing = names.filter(|name| value.get(name.as_str().unwrap()).is_none());
            missing.next().is_none()
        }
        "items" => {
            for (nth, item) in value.as_array().into_iter().flatten().enumerate() {
                whole(is, item, &format!("{at}/{nth}"))?;
            }
            true
        }
        "enum" => is.as_array().unwrap().contains(value),
        "const" => is == value,
        "minimum" => value
            .as_f64()
            .is_none_or(|value| value >= is.as_f64().unwrap()),
        "maximum" => value
            .as_f64()
            .is_none_or(|value| value <= is.as_f64().unwrap()),
        "format" if is == "date-time" => value.as_str().is_none_or(is_time),
        // The size of a number in memory.
        "format" => true,
        other => return Err(format!("the keyword {other} is not known here")),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{at} is not of {rule} {is}")),
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

/// The one form of times.
fn is_time(text: &str) -> bool {
    text.len() == "2026-11-18T12:00:00.000Z".len()
        && text.ends_with('Z')
        && text.parse::<jiff::Timestamp>().is_ok()
}

#[test]
fn judge_finds_what_does_not_fit() {
    let error = |value: Value| {
        whole(
            &DOCUMENT["commands"]["error"],
            &json!({ "error": value }),
            "",
        )
    };
    let whole = json!({"title": "not found", "detail": "d", "status": 404});
    assert_eq!(error(whole), Ok(()));
    for wrong in [
        json!({"title": "t"}),
        json!({"title": "t", "detail": 3}),
        json!({"title": "t", "detail": "d", "status": -1}),
        json!({"title": "t", "detail": "d", "more": true}),
        json!("t"),
    ] {
        assert!(error(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(is_time("2026-11-18T12:00:00.000Z"));
    assert!(!is_time("2026-11-18T12:00:00Z") && !is_time("2026-11-18 12:00:00.000 "));
}
