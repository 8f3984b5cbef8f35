//! What the command line takes and what it refuses.

use super::{Cli, CliCommand};
use clap::error::{ContextKind, ErrorKind};
use clap::{Command, CommandFactory, Parser};

/// Every command that people see, with the words that lead to it.
fn commands() -> Vec<(Vec<String>, Command)> {
    fn below(words: &[String], command: &Command, found: &mut Vec<(Vec<String>, Command)>) {
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let mut words = words.to_vec();
            words.push(one.get_name().to_owned());
            below(&words, one, found);
            found.push((words, one.clone()));
        }
    }
    let mut cli = Cli::command();
    cli.build();
    let mut found = Vec::new();
    below(&["codex-bridge".to_owned()], &cli, &mut found);
    found.retain(|(words, _)| !words.contains(&"help".to_owned()));
    found
}

/// A flag with one letter twice.
fn misspelt(flag: &str) -> String {
    let mut letters: Vec<char> = flag.chars().collect();
    let middle = letters.len() / 2;
    letters.insert(middle, letters[middle]);
    letters.into_iter().collect()
}

#[test]
fn misspelt_flags_name_the_nearest() {
    let mut flags = 0;
    for (words, command) in commands() {
        let longs = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let longs: Vec<_> = longs.filter_map(|arg| arg.get_long()).collect();
        for long in longs {
            let wrong = format!("--{}", misspelt(long));
            let line = words.iter().cloned().chain([wrong.clone()]);
            let error = Cli::try_parse_from(line).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::UnknownArgument,
                "{words:?} {wrong}"
            );
            let near = error.get(ContextKind::SuggestedArg);
            assert!(near.is_some(), "{words:?} {wrong}: {error}");
            flags += 1;
        }
    }
    assert!(flags > 100, "{flags} flags were tried");
}

#[test]
fn texts_with_dashes_need_two_dashes() {
    for words in [
        &["send"][..],
        &["start"],
        &["steer", "codex-3f2a"],
        &["call", "https://a.example"],
    ] {
        let line = |rest: &[&str]| {
            let line = ["codex-bridge"].iter().chain(words).chain(rest).copied();
            Cli::try_parse_from(line.collect::<Vec<_>>())
        };
        for text in ["--quite", "--dry-run", "-x", "-x y", "--", "-1"] {
            assert!(line(&[text]).is_err(), "{words:?} {text}");
            assert!(line(&["--", text]).is_ok(), "{words:?} -- {text}");
        }
        assert!(line(&["-"]).is_ok(), "{words:?} reads standard input");
    }
    let error = Cli::try_parse_from(["codex-bridge", "send", "--quite"]).unwrap_err();
    assert!(error.to_string().contains("'--quiet'"), "{error}");
    let taken = Cli::try_parse_from(["codex-bridge", "send", "--", "--quite"]).unwrap();
    let CliCommand::Send(args) = taken.command else {
        panic!("another command");
    };
    assert_eq!(args.text, "--quite");
}
