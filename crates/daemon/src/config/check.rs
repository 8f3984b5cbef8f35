//! `config check` and `config schema`: what is in force, and where it comes from.

use super::environment::Environment;
use super::error::ProblemPlace;
use super::keys::Config;
use super::load::Loaded;
use super::molecule::{Workspace, WorkspaceReport};
use super::{file, schema};
use crate::term::{self, escape_line};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is in force, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigReport {
    /// `true`: what is wrong is reported as a failure.
    ok: bool,
    /// The file, where there is one.
    file: Option<PathBuf>,
    /// Every key.
    keys: Vec<CheckRow>,
    /// The Molecule workspaces that keys and variables amount to.
    molecule: Vec<WorkspaceReport>,
    /// What the operator should know.
    warnings: Vec<String>,
}

/// One key as it is in force.
#[derive(Debug, Serialize, JsonSchema)]
struct CheckRow {
    /// Its name, with dots.
    key: String,
    /// Absent where nothing is set and Codex decides.
    value: Option<Value>,
    /// `line N` of the file, a variable, a flag, or `default`.
    from: String,
}

/// Prints the JSON Schema of the file, for editors and for `docs/codex-bridge.schema.json`.
pub fn print_schema() -> ExitCode {
    let text = schema_text();
    match term::print_whole(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

pub(super) fn schema_text() -> String {
    pretty(&schema::schema())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn rows(loaded: &Loaded) -> Vec<CheckRow> {
    let values = serde_json::to_value(&loaded.config).unwrap_or_default();
    let row = |key: String| {
        let value = values.pointer(&format!("/{}", key.replace('.', "/")));
        let from = match loaded.origins.of_key(&key) {
            Some(ProblemPlace::Spot { line, .. }) => format!("line {line}"),
            Some(place @ (ProblemPlace::Variable { .. } | ProblemPlace::Flag { .. })) => {
                place.to_string()
            }
            None => "default".to_owned(),
        };
        CheckRow {
            value: value.cloned(),
            from,
            key,
        }
    };
    let keys = schema::file_schema().keys_of(&values);
    keys.into_iter().map(row).collect()
}

/// The keys whose values differ; a list of tables counts as one key.
pub fn differing(one: &Config, other: &Config) -> Vec<String> {
    let values = |config: &Config| serde_json::to_value(config).unwrap_or_default();
    let (one, other) = (values(one), values(other));
    let shape = schema::file_schema();
    let mut keys = shape.keys_of(&one);
    keys.extend(shape.keys_of(&other));
    let at = |value: &Value, key: &str| {
        value
            .pointer(&format!("/{}", key.replace('.', "/")))
            .cloned()
    };
    let found: BTreeSet<String> = keys
        .into_iter()
        .filter(|key| at(&one, key) != at(&other, key))
        .map(|key| {
            let words = key
                .split('.')
                .take_while(|word| word.parse::<usize>().is_err());
            words.collect::<Vec<_>>().join(".")
        })
        .collect();
    found.into_iter().collect()
}

/// What is in force, for people.
#[must_use]
pub fn in_force(loaded: &Loaded, environment: &Environment) -> String {
    let mut text = match (&loaded.file, file::usual(environment)) {
        (Some(file), _) => format!("# {}\n", escape_line(&file.display().to_string())),
        (None, Some(usual)) => format!(
            "# no file (looked for {})\n",
            escape_line(&usual.display().to_string())
        ),
        (None, None) => "# no file\n".to_owned(),
    };
    let rows: Vec<(String, String)> = rows(loaded)
        .into_iter()
        .map(|row| match row.value {
            Some(value) => (format!("{} = {value}", row.key), row.from),
            None => (format!("{} (not set)", row.key), row.from),
        })
        .collect();
    let width = rows
        .iter()
        .map(|(said, _)| said.chars().count())
        .filter(|width| *width <= WIDTH_MAX)
        .max()
        .unwrap_or_default();
    for (said, from) in rows {
        text.push_str(&format!("{:width$}  # {from}\n", escape_line(&said)));
    }
    for workspace in &loaded.molecule {
        text.push_str(&format!("# {}\n", escape_line(&workspace.in_a_line())));
    }
    for warning in &loaded.warnings {
        text.push_str(&format!("warning: {}\n", escape_line(warning)));
    }
    text
}

/// Longer values do not push the origins of all others to the right.
const WIDTH_MAX: usize = 60;

/// What is in force, for programs.
#[must_use]
pub fn report(loaded: &Loaded) -> ConfigReport {
    ConfigReport {
        ok: true,
        file: loaded.file.clone(),
        keys: rows(loaded),
        molecule: loaded.molecule.iter().map(Workspace::report).collect(),
        warnings: loaded.warnings.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::load;
    use super::*;

    #[test]
    fn every_key_is_shown_with_its_origin() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some.toml");
        std::fs::write(&path, "[daemon]\nturns_max = 3\n").unwrap();
        let environment =
            Environment::of([("CODEX_BRIDGE_LOG", "debug"), ("HOME", "/nonexistent")]);
        let loaded = load(Some(&path), &environment, None).unwrap();
        let text = in_force(&loaded, &environment);
        let line = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            line.unwrap_or_else(|| panic!("{start} in {text}"))
        };
        assert!(line("daemon.turns_max = 3 ").ends_with("# line 2"));
        assert!(line("log.level = \"debug\" ").ends_with("# CODEX_BRIDGE_LOG"));
        assert!(line("codex.bin (not set) ").ends_with("# default"));
        let values = serde_json::to_value(&loaded.config).unwrap();
        let keys = schema::file_schema().keys_of(&values).len();
        assert_eq!(text.lines().count(), 1 + keys);
    }

    #[test]
    fn problems_have_places_for_programs_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("some.toml");
        std::fs::write(&path, "log.level = 3\nx = 1\n").unwrap();
        let error = load(Some(&path), &Environment::of([]), None).unwrap_err();
        let problems = serde_json::to_value(error.problems()).unwrap();
        assert_eq!(problems[1]["line"], 2);
        assert_eq!(problems.as_array().unwrap().len(), 2);
    }
}
