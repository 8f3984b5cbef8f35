//! Command lines of the legacy programs, in our own form: the command name `codex-channel-molecule`, and the parameters
//! of the tool `codex_bridge` for arguments that have no flag here.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The command name of the legacy program, which took flags and no commands.
const NAME: &str = "codex-channel-molecule";
/// Commands that the legacy tool had as actions.
const ACTIONS: [&str; 9] = [
    "start",
    "status",
    "list",
    "notify_completed",
    "notify-completed",
    "steer",
    "interrupt",
    "cancel",
    "respond",
];
/// Its parameters that are arguments here, with their places.
const PARAMETERS: [(&str, u8); 5] = [
    ("--task-id", 0),
    ("--prompt", 1),
    ("--instruction", 1),
    ("--request-id", 1),
    ("--decision", 2),
];

/// The arguments as ours.
pub(crate) fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = given.collect();
    run_under_legacy_name(&mut args);
    name_parameters(&mut args);
    args
}

/// Under the legacy name and without a command, `run` is meant, in the directory where it was started.
fn run_under_legacy_name(args: &mut Vec<OsString>) {
    let mut words = args.iter();
    let is_legacy = words
        .next()
        .is_some_and(|program| Path::new(program).file_name() == Some(OsStr::new(NAME)));
    let is_asked = |word: &OsString| word == "--version" || word == "-V";
    let has_command = words
        .next()
        .is_some_and(|word| !is_flag(word) || is_asked(word));
    if is_legacy && !has_command {
        args.splice(1..1, ["run", "--work-here"].map(OsString::from));
    }
}

/// The parameters of an action become our arguments, and underscores in names of flags become dashes. What follows a
/// `--` is text.
fn name_parameters(args: &mut Vec<OsString>) {
    let mut words = args.iter().enumerate().skip(1);
    let command = loop {
        match words.next() {
            // Flags of every command that take a value.
            Some((_, word)) if word == "--state-dir" || word == "--config" => drop(words.next()),
            Some((_, word)) if is_flag(word) => {}
            Some((at, word)) if ACTIONS.iter().any(|action| word == action) => break at,
            Some(_) | None => return,
        }
    };
    let rest = args.split_off(command.saturating_add(1));
    let mut words = rest.into_iter().peekable();
    let mut named: Vec<(u8, OsString)> = Vec::new();
    let mut places = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            args.push(word);
            args.extend(words);
            break;
        }
        let (name, value) = split(word);
        let place = PARAMETERS.iter().find(|(known, _)| name == *known);
        let place = place.map(|(_, place)| *place);
        let is_new = |place: &u8| named.iter().all(|(known, _)| known != place);
        let Some(place) = place.filter(is_new) else {
            args.push(joined(name, value));
            continue;
        };
        // A value that looks like a flag stays where it is, and is refused with its name.
        match value.or_else(|| words.next_if(|next| !is_flag(next))) {
            Some(value) if !is_flag(&value) => {
                places.push(args.len());
                args.push(OsString::new());
                named.push((place, value));
            }
            value => args.push(joined(name, value)),
        }
    }
    named.sort_by_key(|(place, _)| *place);
    for (at, (_, value)) in places.into_iter().zip(named) {
        if let Some(word) = args.get_mut(at) {
            *word = value;
        }
    }
}

/// A single `-` stands for standard input.
fn is_flag(word: &OsStr) -> bool {
    word != "-" && word.as_encoded_bytes().starts_with(b"-")
}

/// The name of a flag in our spelling, and its value if it is in the same word.
fn split(word: OsString) -> (OsString, Option<OsString>) {
    match word.to_str() {
        Some(text) if text.starts_with("--") => match text.split_once('=') {
            Some((name, value)) => (name.replace('_', "-").into(), Some(value.into())),
            None => (text.replace('_', "-").into(), None),
        },
        Some(_) | None => (word, None),
    }
}

fn joined(mut name: OsString, value: Option<OsString>) -> OsString {
    if let Some(value) = value {
        name.push("=");
        name.push(value);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let args = arguments(line.split(' ').map(OsString::from));
        let words: Vec<_> = args.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn legacy_name_means_run_here() {
        for (given, meant) in [
            (NAME, "codex-channel-molecule run --work-here"),
            (
                "/usr/bin/codex-channel-molecule --codex-bin c",
                "/usr/bin/codex-channel-molecule run --work-here --codex-bin c",
            ),
            (
                "codex-channel-molecule status",
                "codex-channel-molecule status",
            ),
            ("codex-channel-molecule -V", "codex-channel-molecule -V"),
            ("codex-bridge --help", "codex-bridge --help"),
            ("codex-bridge", "codex-bridge"),
            (
                "my-codex-channel-molecule -h",
                "my-codex-channel-molecule -h",
            ),
        ] {
            assert_eq!(read(given), meant);
        }
    }

    #[test]
    fn legacy_parameters_become_arguments() {
        for (legacy, ours) in [
            ("cb start --cwd . --prompt hello", "cb start --cwd . hello"),
            ("cb --json start --prompt=hello", "cb --json start hello"),
            (
                "cb steer --instruction go --task-id codex-1",
                "cb steer codex-1 go",
            ),
            ("cb steer codex-1 --instruction go", "cb steer codex-1 go"),
            ("cb steer --task-id codex-1 go", "cb steer codex-1 go"),
            (
                "cb respond --task-id t --instruction r accept",
                "cb respond t r accept",
            ),
            (
                "cb respond t --decision=accept --request-id r",
                "cb respond t r accept",
            ),
            (
                "cb respond --decision accept --request_id r --json --task_id t",
                "cb respond t r --json accept",
            ),
            (
                "cb respond t --request-id r cancel",
                "cb respond t r cancel",
            ),
            (
                "cb --state-dir start --config=c status --task-id t",
                "cb --state-dir start --config=c status t",
            ),
            ("cb list --limit 5", "cb list --limit 5"),
            (
                "cb notify_completed --dry_run --limit=3",
                "cb notify_completed --dry-run --limit=3",
            ),
            (
                "cb start --notify_target=feishu:a_b --approval_policy untrusted x",
                "cb start --notify-target=feishu:a_b --approval-policy untrusted x",
            ),
        ] {
            assert_eq!(read(legacy), ours);
        }
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for line in [
            "cb start -- --prompt x",
            "cb send --prompt x",
            "cb send --no_wait",
            "cb start --prompt",
            "cb start --prompt --help",
            "cb start a_b",
            "cb steer --task-id t --task-id u go",
            "cb interrupt --task-id=--sender=mallory",
            "cb policy explain -- cb start --prompt hello",
            "cb --state-dir start policy --prompt hello",
            "cb",
        ] {
            let kept = line.replace("--task-id t ", "t ");
            assert_eq!(read(line), kept);
        }
        assert_eq!(read("cb start --prompt -"), "cb start -");
    }
}
