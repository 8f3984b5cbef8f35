//! `codex-channel-molecule`: started under that name, by a link for example, this runs the daemon as that program did, in
//! the directory where it was started. Commands work under it as well.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The command name of the legacy program, which took flags and no commands.
const NAME: &str = "codex-channel-molecule";

/// The arguments as ours: under the legacy name and without a command, `run` is meant.
pub(crate) fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = given.collect();
    let mut words = args.iter();
    let is_legacy = words.next().is_some_and(|program| is_named(program));
    let has_command = words.next().is_some_and(|word| !is_flag(word));
    if is_legacy && !has_command {
        args.splice(1..1, ["run", "--work-here"].map(OsString::from));
    }
    args
}

fn is_named(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(NAME))
}

fn is_flag(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
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
}
