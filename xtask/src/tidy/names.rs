//! The rules about names that a room may not say: the world in the pure rooms, the
//! database outside `store`, processes outside `host`, the daemon in its configuration.
//! Tests may say what they need.

use super::Finding;
use super::source::{NamePath, Source};

/// The world, as a pure room would name it.
const WORLD: [(&[&str], &str); 10] = [
    (&["tokio"], "no runtime"),
    (&["std", "fs"], "no file"),
    (&["std", "net"], "no socket"),
    (&["std", "os"], "no system"),
    (&["std", "process"], "no process"),
    (&["std", "env"], "no environment"),
    (&["thread", "sleep"], "no waiting"),
    (&["SystemTime"], "no clock"),
    (&["Instant"], "no clock"),
    (&["rand"], "no random source"),
];

/// Names that are a program only in front of something else: `rand` alone may be a
/// variable.
const CRATES: [&str; 2] = ["tokio", "rand"];

const PROCESSES: [&[&str]; 3] = [
    &["Command", "new"],
    &["process", "Command"],
    &["tokio", "process"],
];

/// The configuration is below the daemon: the loops read it, and it knows nothing of them.
const CONFIGURATION: &str = "crates/daemon/src/config";
const CONFIGURATION_USES: [&str; 2] = ["config", "term"];

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    for path in source.paths() {
        // A bench is the program seen from outside, like a test, but it may wait.
        let is_bench = source.path.iter().any(|part| part == "benches");
        if is_bench || source.is_test_line(path.line) {
            continue;
        }
        if let Some(what) = refuse(source, &path) {
            findings.push(Finding::new(&source.path, path.line, &what));
        }
    }
}

fn refuse(source: &Source, path: &NamePath) -> Option<String> {
    let room = source.room;
    let written = path.segments.join("::");
    if room.is_pure() {
        let named = WORLD.iter().find(|(name, _)| names_world(path, name));
        if let Some((_, why)) = named {
            let name = room.name();
            return Some(format!(
                "`{written}` in `{name}`, which is pure ({why}); take it as an argument, or move \
                 this to an edge"
            ));
        }
    }
    if !room.may_spawn() && names_process(path) {
        return Some(format!(
            "`{written}`: only `host` starts processes; ask it to"
        ));
    }
    if !room.may_open_database() && path.segments.iter().any(|segment| segment == "rusqlite") {
        return Some(format!(
            "`{written}`: only `store` opens a database; use its port"
        ));
    }
    if source.path.starts_with(CONFIGURATION) && names_daemon(path) {
        return Some(format!(
            "`{written}`: the configuration may not use the daemon; let the settings take it from the configuration"
        ));
    }
    None
}

fn names_daemon(path: &NamePath) -> bool {
    match path.segments.as_slice() {
        [first, second, ..] if first == "crate" => !CONFIGURATION_USES.contains(&second.as_str()),
        _ => false,
    }
}

fn names_world(path: &NamePath, name: &[&str]) -> bool {
    match name {
        [krate] if CRATES.contains(krate) => {
            path.segments.len() > 1 && path.segments.first().is_some_and(|first| first == krate)
        }
        _ => has(path, name),
    }
}

/// clap has a `Command` of its own, which starts nothing.
fn names_process(path: &NamePath) -> bool {
    let is_clap = path.segments.first().is_some_and(|first| first == "clap");
    !is_clap && PROCESSES.iter().any(|name| has(path, name))
}

fn has(path: &NamePath, name: &[&str]) -> bool {
    path.segments
        .windows(name.len())
        .any(|window| window.iter().zip(name).all(|(have, want)| have == want))
}
