//! The configuration as a whole: precedence, and the two documents that must say what the code does.

use super::check::schema_text;
use super::environment::Environment;
use super::schema::file_schema;
use super::{Config, Loaded, load, parse as form};
use std::collections::BTreeSet;
use std::path::Path;

const EXAMPLE: &str = include_str!("../../../../docs/codex-bridge.toml");
const SCHEMA: &str = include_str!("../../../../docs/codex-bridge.schema.json");

/// Ends a line of the example whose value is not the default, because there is none.
const NO_DEFAULT: &str = "# example";

fn load_text(text: &str, environment: &Environment) -> Result<Loaded, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.toml");
    std::fs::write(&path, text).unwrap();
    load(Some(&path), environment, None).map_err(|error| error.to_string())
}

/// The commented keys of the example as an operator would uncomment them.
fn uncommented(keep: impl Fn(&str) -> bool) -> String {
    let is_key = |line: &str| {
        let name = line.split(" = ").next().unwrap_or_default();
        line.starts_with("[[")
            || line.contains(" = ") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let lines = EXAMPLE
        .lines()
        .filter_map(|line| match line.strip_prefix("# ") {
            Some(key) if is_key(key) => keep(key).then_some(key),
            Some(_) => None,
            None => Some(line),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// A key of any table of a list.
fn unnumbered(key: String) -> String {
    let words = key.split('.').filter(|word| word.parse::<u32>().is_err());
    words.collect::<Vec<_>>().join(".")
}

#[test]
fn the_example_as_it_is_sets_nothing() {
    assert_eq!(
        toml::from_str::<Config>(EXAMPLE).unwrap(),
        Config::default()
    );
}

#[test]
fn the_example_shows_the_defaults() {
    let text = uncommented(|key| !key.ends_with(NO_DEFAULT));
    let (config, spots) = form::read(&text).unwrap();
    assert_eq!(config, Config::default());
    assert!(spots.len() > 5, "{text}");
}

#[test]
fn example_lists_exactly_the_known_keys() {
    let (_, spots) = form::read(&uncommented(|_| true)).unwrap();
    let shown: BTreeSet<String> = spots.into_keys().map(unnumbered).collect();
    let known: BTreeSet<String> = file_schema().keys().into_iter().collect();
    assert_eq!(shown, known);
}

#[test]
fn published_schema_is_current() {
    assert_eq!(
        SCHEMA,
        schema_text(),
        "write it again: codex-bridge config schema > docs/codex-bridge.schema.json"
    );
}

#[test]
fn env_overrides_file_except_codex_home() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().to_str().unwrap();
    let environment = Environment::of([
        ("CODEX_BRIDGE_CODEX_BIN", "/env/codex"),
        ("CODEX_HOME", "/"),
        ("HOME", "/nonexistent"),
    ]);
    let text = format!("codex.bin = '/file/codex'\ncodex.home = '{home}'\n");
    let loaded = load_text(&text, &environment).unwrap();
    assert_eq!(
        loaded.config.codex.bin.as_deref(),
        Some(Path::new("/env/codex"))
    );
    assert_eq!(loaded.config.codex.home.as_deref(), Some(directory.path()));
    let vars = environment.for_codex(&loaded.config);
    let homes: Vec<_> = vars
        .iter()
        .filter(|(name, _)| name == "CODEX_HOME")
        .collect();
    assert_eq!(homes.len(), 1);
    assert_eq!(homes[0].1, directory.path());
    assert!(
        !vars
            .iter()
            .any(|(name, _)| name == "CODEX_BRIDGE_CODEX_BIN")
    );
}

#[test]
fn a_variable_can_be_wrong_too() {
    let environment = Environment::of([("CODEX_HOME", "/nonexistent/home")]);
    let error = load_text("", &environment).unwrap_err();
    assert!(
        error.contains("\n  CODEX_HOME: names /nonexistent/home"),
        "{error}"
    );
}

#[test]
fn an_error_names_file_line_and_remedy() {
    let error = load_text("[codex]\ntransprot = 'auto'\n", &Environment::of([])).unwrap_err();
    let (file, rest) = error.split_once("some.toml:").unwrap();
    assert!(file.contains("\n  /"), "{error}");
    assert_eq!(
        rest,
        "2:1: unknown key `codex.transprot`; did you mean `codex.transport`?"
    );
}

#[test]
fn rejects_writable_workdir_holding_state() {
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().to_str().unwrap();
    let state = directory.path().join("state");
    let environment = Environment::of([("CODEX_BRIDGE_STATE_DIR", state.to_str().unwrap())]);
    let text = format!("[tiers.owner]\nworkdir = '{work}'\n");
    let error = load_text(&text, &environment).unwrap_err();
    assert!(error.contains("holds the state directory"), "{error}");
    let text = format!("{text}sandbox = 'read-only'\n");
    assert!(load_text(&text, &environment).is_ok());
}

#[test]
fn started_directory_is_the_last_choice() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let work = home.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let environment = Environment::of([("HOME", home.to_str().unwrap())]);
    let started = |text: &str, place: &Path| {
        let mut loaded = load_text(text, &environment).unwrap();
        loaded.work_in(place);
        (loaded.config.tiers.owner.workdir, loaded.warnings)
    };
    assert_eq!(started("", &work), (Some(work.clone()), Vec::new()));
    let (none, warnings) = started("", &home);
    assert_eq!(none, None);
    assert!(
        warnings[0].contains("holds the home directory"),
        "{warnings:?}"
    );
    let reads = "tiers.owner.sandbox = 'read-only'";
    assert_eq!(started(reads, &home).0, Some(home.clone()));
    let named = format!("tiers.owner.workdir = '{}'", work.display());
    assert_eq!(started(&named, &home), (Some(work), Vec::new()));
}

#[test]
fn flags_override_env_and_are_validated() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    let work = home.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let environment = Environment::of([
        ("HOME", home.to_str().unwrap()),
        ("CODEX_BRIDGE_CODEX_BIN", "/env/codex"),
    ]);
    let mut loaded = load_text("", &environment).unwrap();
    let bin = Some("/flag/codex".into());
    loaded
        .override_with(bin.clone(), Some(work.clone()))
        .unwrap();
    assert_eq!(loaded.config.codex.bin, bin);
    assert_eq!(loaded.config.tiers.owner.workdir, Some(work));
    let error = loaded
        .override_with(None, Some(home))
        .unwrap_err()
        .to_string();
    assert!(error.contains("\n  --workdir: names "), "{error}");
    assert!(error.contains("holds the home directory"), "{error}");
}
