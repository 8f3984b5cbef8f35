//! Command lines of the legacy programs, in our own form: the command name `codex-channel-molecule`, and the parameters
//! of the tool `codex_bridge` for arguments that have no flag here.

use crate::cli::Cli;
use clap::{Arg, Command, CommandFactory};
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
/// Parameters of an action that are arguments here, with their places.
const PARAMETERS: [(&str, &str, usize); 10] = [
    ("start", "--prompt", 0),
    ("status", "--task-id", 0),
    ("steer", "--task-id", 0),
    ("steer", "--instruction", 1),
    ("interrupt", "--task-id", 0),
    ("cancel", "--task-id", 0),
    ("respond", "--task-id", 0),
    ("respond", "--instruction", 1),
    ("respond", "--request-id", 1),
    ("respond", "--decision", 2),
];

/// A piece of a command line.
enum Piece {
    /// A flag, or the value of one.
    Kept(OsString),
    /// An argument without a name.
    Given(OsString),
    /// A parameter: its place, its value, and its words as they were.
    Named(usize, OsString, Vec<OsString>),
}

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
    let (at, action) = loop {
        match words.next() {
            // Flags of every command that take a value.
            Some((_, word)) if word == "--state-dir" || word == "--config" => drop(words.next()),
            Some((_, word)) if is_flag(word) => {}
            Some((at, word)) => match ACTIONS.iter().find(|action| word == *action) {
                Some(action) => break (at, *action),
                None => return,
            },
            None => return,
        }
    };
    let mut rest = args.split_off(at.saturating_add(1));
    let dashes = rest.iter().position(|word| word == "--");
    let text = dashes.map(|dashes| rest.split_off(dashes));
    let pieces = pieces(action, rest);
    args.extend(arranged(pieces, text));
}

/// The words behind an action.
fn pieces(action: &str, words: Vec<OsString>) -> Vec<Piece> {
    let cli = Cli::command();
    let flags = Flags::of(&cli, action);
    let mut words = words.into_iter().peekable();
    let mut pieces: Vec<Piece> = Vec::new();
    while let Some(word) = words.next() {
        if !is_flag(&word) {
            pieces.push(Piece::Given(word));
            continue;
        }
        let (name, value) = split(word);
        let mut known = PARAMETERS.iter().filter(|known| known.0 == action);
        let Some((_, _, place)) = known.find(|known| name == known.1) else {
            let takes_next = value.is_none() && flags.take_next(&name);
            pieces.push(Piece::Kept(joined(name, value)));
            let next = words.next_if(|next| takes_next && !is_flag(next));
            pieces.extend(next.map(Piece::Kept));
            continue;
        };
        let is_twice = |piece: &Piece| matches!(piece, Piece::Named(known, ..) if known == place);
        let is_new = !pieces.iter().any(is_twice);
        let (value, words) = match value {
            Some(value) => (Some(value.clone()), vec![joined(name, Some(value))]),
            None => match words.next_if(|next| !is_flag(next)) {
                Some(value) => (Some(value.clone()), vec![name, value]),
                None => (None, vec![name]),
            },
        };
        match value {
            Some(value) if is_new && !is_flag(&value) => {
                pieces.push(Piece::Named(*place, value, words));
            }
            // A value that looks like a flag stays where it is, and is refused with its name.
            Some(_) | None => pieces.extend(words.into_iter().map(Piece::Kept)),
        }
    }
    pieces
}

/// The words with every parameter at its own place among the arguments; one that has no place there stays a flag, which
/// is refused. Beside a text behind `--` all arguments go there: none of it may become a flag.
fn arranged(pieces: Vec<Piece>, text: Option<Vec<OsString>>) -> Vec<OsString> {
    let has_names = pieces.iter().any(|piece| matches!(piece, Piece::Named(..)));
    let mut given = Vec::new();
    let mut named = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Given(word) => given.push(word.clone()),
            Piece::Named(place, value, _) => named.push((*place, value.clone())),
            Piece::Kept(_) => {}
        }
    }
    let behind = text.iter().flatten().skip(1).cloned();
    let mut given = given.into_iter().chain(behind);
    named.sort_by_key(|(place, _)| *place);
    let mut values: Vec<OsString> = Vec::new();
    let mut placed = 0_usize;
    for (place, value) in named {
        let missing = place.saturating_sub(values.len());
        let fill: Vec<OsString> = given.by_ref().take(missing).collect();
        let is_short = fill.len() < missing;
        values.extend(fill);
        if is_short {
            break;
        }
        values.push(value);
        placed = place.saturating_add(1);
    }
    values.extend(given);
    let moves = has_names && text.is_some();
    let mut values = values.into_iter();
    let mut words = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Kept(word) => words.push(word),
            Piece::Named(place, _, flag) if place >= placed => words.extend(flag),
            Piece::Given(_) | Piece::Named(..) if moves => {}
            Piece::Given(_) | Piece::Named(..) => words.extend(values.next()),
        }
    }
    if text.is_some() {
        words.push("--".into());
    }
    words.extend(values);
    words
}

/// The flags of a command.
struct Flags<'a>(Vec<&'a Arg>);

impl<'a> Flags<'a> {
    fn of(cli: &'a Command, action: &str) -> Self {
        let own = cli.find_subcommand(action).into_iter();
        let own = own.flat_map(Command::get_arguments);
        Self(cli.get_arguments().chain(own).collect())
    }

    fn has_value(&self, is_meant: impl Fn(&Arg) -> bool) -> bool {
        let mut meant = self.0.iter().filter(|arg| is_meant(arg));
        meant.any(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set())
    }

    /// Whether the word behind this one is its value.
    fn take_next(&self, word: &OsStr) -> bool {
        let Some(text) = word.to_str() else {
            return false;
        };
        if let Some(long) = text.strip_prefix("--") {
            return self.has_value(|arg| arg.get_long() == Some(long));
        }
        let mut letters = text.chars().skip(1);
        let is_found = letters.any(|letter| self.has_value(|arg| arg.get_short() == Some(letter)));
        is_found && letters.next().is_none()
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
            ("cb steer go --task-id codex-1", "cb steer codex-1 go"),
            ("cb steer --instruction go codex-1", "cb steer codex-1 go"),
            ("cb respond --decision accept t r", "cb respond t r accept"),
            (
                "cb respond accept --json --request-id=r --task-id t",
                "cb respond t --json r accept",
            ),
            (
                "cb respond r --answers {} accept --state-dir d --task-id t",
                "cb respond t --answers {} r --state-dir d accept",
            ),
            ("cb steer --instruction go -- --x", "cb steer -- --x go"),
            (
                "cb steer --json --task-id t -- --x",
                "cb steer --json -- t --x",
            ),
            (
                "cb start -c review --wait --prompt hello",
                "cb start -c review --wait hello",
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
            "cb start --task-id codex-1",
            "cb start --task-id=codex-1 hello",
            "cb start --decision accept",
            "cb start --instruction hello",
            "cb steer t --prompt go",
            "cb interrupt --prompt last",
            "cb cancel --instruction last",
            "cb list --task-id t",
            "cb status --request-id r",
            "cb steer --instruction go",
            "cb respond --decision accept t",
            "cb respond --task-id t --decision=accept",
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

    #[test]
    fn parameters_of_other_actions_are_refused() {
        for line in [
            "cb start --task-id codex-1",
            "cb start --decision accept",
            "cb interrupt --prompt last",
            "cb respond --decision accept t",
            "cb steer --task-id t --task-id u go",
            "cb interrupt last --task-id t",
            "cb start hello --prompt x",
        ] {
            let args = arguments(line.split(' ').map(OsString::from));
            assert!(Cli::command().try_get_matches_from(args).is_err(), "{line}");
        }
    }
}
