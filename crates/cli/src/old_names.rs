//! The parameter names of the older tool on the command line: `--prompt`, `--task-id` and `--instruction` stand for the
//! arguments that have no flag here.

use std::ffi::{OsStr, OsString};

/// Commands that the older tool had as actions.
const COMMANDS: [&str; 6] = ["start", "status", "steer", "interrupt", "cancel", "respond"];
/// Its parameters, in the order of our arguments.
const NAMES: [&str; 3] = ["--task-id", "--prompt", "--instruction"];

/// The same command line in our own form. What follows a `--` is text.
pub(crate) fn translate(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    // The command is the first word that is no flag; flags before it that take a value are not looked through.
    let Some(command) = args.iter().skip(1).position(|word| !is_flag(word)) else {
        return args;
    };
    let at = command.saturating_add(1);
    if !args
        .get(at)
        .is_some_and(|word| COMMANDS.iter().any(|command| word == command))
    {
        return args;
    }
    let rest = args.split_off(at.saturating_add(1));
    let mut found: [Option<OsString>; 3] = [None, None, None];
    let mut others = Vec::new();
    let mut rest = rest.into_iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            others.push(word);
            others.extend(rest.by_ref());
            break;
        }
        let named = NAMES.iter().zip(&mut found).find_map(|(name, value)| {
            let given = given(&word, name)?;
            value.is_none().then_some((value, given))
        });
        match named {
            Some((value, Given::Value(text))) if !is_flag(&text) => *value = Some(text),
            Some((value, Given::Next)) => match rest.next() {
                Some(text) if !is_flag(&text) => *value = Some(text),
                text => others.extend([Some(word), text].into_iter().flatten()),
            },
            // A value that looks like a flag stays where it is, and is refused with its name.
            Some((_, Given::Value(_))) | None => others.push(word),
        }
    }
    args.extend(found.into_iter().flatten());
    args.extend(others);
    args
}

/// A single `-` stands for standard input.
fn is_flag(word: &OsStr) -> bool {
    word != "-" && word.as_encoded_bytes().starts_with(b"-")
}

enum Given {
    /// `--name=value`.
    Value(OsString),
    /// `--name`, and the value is the next word.
    Next,
}

fn given(word: &OsStr, name: &str) -> Option<Given> {
    if word == name {
        return Some(Given::Next);
    }
    let value = word.to_str()?.strip_prefix(name)?.strip_prefix('=')?;
    Some(Given::Value(value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let args = text.split(' ').map(OsString::from);
        let words = translate(args);
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn old_parameter_names_become_arguments() {
        for (old, ours) in [
            ("cb start --cwd . --prompt hello", "cb start hello --cwd ."),
            ("cb --json start --prompt=hello", "cb --json start hello"),
            (
                "cb steer --instruction go --task-id codex-1",
                "cb steer codex-1 go",
            ),
            (
                "cb respond --task-id t --instruction r accept",
                "cb respond t r accept",
            ),
            ("cb status --task-id t", "cb status t"),
            ("cb start -- --prompt x", "cb start -- --prompt x"),
            ("cb send --prompt x", "cb send --prompt x"),
            ("cb start --prompt", "cb start --prompt"),
            ("cb start --prompt --help", "cb start --prompt --help"),
            (
                "cb interrupt --task-id=--sender=mallory",
                "cb interrupt --task-id=--sender=mallory",
            ),
            (
                "cb policy explain -- cb start --prompt hello",
                "cb policy explain -- cb start --prompt hello",
            ),
            ("cb start --prompt -", "cb start -"),
            ("cb", "cb"),
        ] {
            assert_eq!(line(old), ours);
        }
    }
}
