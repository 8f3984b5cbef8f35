//! One Rust file, cut into what the rules look at: paths, attributes, functions, and
//! which lines are tests.
//!
//! It says what is there; whether that is allowed is the business of the rules.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::lexer::{self, is_word};
use super::rooms::Room;

/// A line of a file, counted from 1 as editors do.
pub(super) type Line = usize;

#[derive(Debug)]
pub(super) struct Source {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) room: Room,
    pub(super) text: String,
    pub(super) code: String,
    pub(super) comments: String,
    /// The whole file is a test: below `tests/`, or a `tests.rs` or `…_tests.rs`.
    pub(super) is_test: bool,
    test_regions: Vec<RangeInclusive<Line>>,
}

/// A name as written, with the groups of a `use` resolved: `use std::{fs, io}` has
/// `std::fs` and `std::io`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamePath {
    pub(super) line: Line,
    pub(super) segments: Vec<String>,
    /// A parenthesis follows.
    pub(super) is_called: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) line: Line,
    pub(super) name: String,
    pub(super) lines: usize,
}

impl Source {
    pub(super) fn new(path: PathBuf, room: Room, text: String) -> Self {
        let split = lexer::split(&text);
        let in_tests = path.components().any(|part| part.as_os_str() == "tests");
        let is_test = in_tests
            || path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name == "tests.rs" || name.ends_with("_tests.rs"));
        let test_regions = test_regions(&split.code);
        Self {
            path,
            room,
            text,
            code: split.code,
            comments: split.comments,
            is_test,
            test_regions,
        }
    }

    pub(super) fn is_test_line(&self, line: Line) -> bool {
        self.is_test
            || self
                .test_regions
                .iter()
                .any(|region| region.contains(&line))
    }

    /// Lines that count against the size of the file.
    pub(super) fn counted_lines(&self) -> usize {
        let lines = 1..=self.text.lines().count();
        lines
            .filter(|line| self.is_test || !self.is_test_line(*line))
            .count()
    }

    pub(super) fn paths(&self) -> Vec<NamePath> {
        paths(&self.code)
    }

    /// The text between `#[` and `]`, blanks removed.
    pub(super) fn attributes(&self) -> Vec<(Line, String)> {
        attributes(&self.code)
            .into_iter()
            .map(|attribute| {
                let text = self.code.get(attribute.clone()).unwrap_or_default();
                let text = text.split_whitespace().collect::<String>();
                (line_of(&self.code, attribute.start), text)
            })
            .collect()
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        functions(&self.code)
    }
}

fn line_of(code: &str, at: usize) -> Line {
    1 + code.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Ranges of the insides of `#[…]` and `#![…]`.
fn attributes(code: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('#') {
        let after = code.get(at + 1..).unwrap_or_default();
        let bang = usize::from(after.starts_with('!'));
        if after.get(bang..).is_some_and(|rest| rest.starts_with('[')) {
            let open = at + 1 + bang;
            found.push(open + 1..closing(code, open));
        }
    }
    found
}

/// Where the bracket opened at `open` closes; the end of the text if it never does.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, character) in code.char_indices().skip_while(|(at, _)| *at < open) {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// Where the item that starts at `start` ends: at the brace that closes its body, or
/// at its semicolon. The flag says whether it has a body.
fn item_end(code: &str, start: usize) -> (usize, bool) {
    let mut depth = 0_usize;
    for (at, character) in code.char_indices().skip_while(|(at, _)| *at < start) {
        match character {
            '{' if depth == 0 => return (closing(code, at), true),
            ';' if depth == 0 => return (at, false),
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (code.len(), false)
}

fn test_regions(code: &str) -> Vec<RangeInclusive<Line>> {
    let is_test = |range: &std::ops::Range<usize>| {
        let text = code.get(range.clone()).unwrap_or_default();
        let text = text.split_whitespace().collect::<String>();
        text == "cfg(test)" || text.starts_with("cfg(all(test,")
    };
    attributes(code)
        .into_iter()
        .filter(is_test)
        .map(|range| {
            let item = past_attributes(code, range.end + 1);
            let (end, _) = item_end(code, item);
            line_of(code, range.start)..=line_of(code, end)
        })
        .collect()
}

/// Skips further attributes between the one that ends at `at` and its item.
fn past_attributes(code: &str, mut at: usize) -> usize {
    loop {
        let rest = code.get(at..).unwrap_or_default();
        let start = at + (rest.len() - rest.trim_start().len());
        match code.get(start..) {
            Some(rest) if rest.starts_with("#[") => at = closing(code, start + 1) + 1,
            _ => return start,
        }
    }
}

fn functions(code: &str) -> Vec<Function> {
    words(code)
        .filter(|(_, word)| *word == "fn")
        .filter_map(|(at, word)| {
            let after = code.get(at + word.len()..)?;
            let name: String = after
                .trim_start()
                .chars()
                .take_while(|c| is_word(*c))
                .collect();
            let (end, has_body) = item_end(code, at);
            if name.is_empty() || !has_body {
                return None;
            }
            let line = line_of(code, at);
            let lines = 1 + line_of(code, end) - line;
            Some(Function { line, name, lines })
        })
        .collect()
}

fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = code.get(at..)?;
        let start = at + rest.find(is_word)?;
        let rest = code.get(start..)?;
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        at = start + length;
        Some((start, code.get(start..at)?))
    })
}

fn paths(code: &str) -> Vec<NamePath> {
    let mut found = Vec::new();
    // One entry for each open brace: the path before `::{`, or nothing for a block.
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        if is_word(first) {
            let (path, after) = read_path(rest);
            let mut segments = groups.last().cloned().unwrap_or_default();
            segments.extend(path);
            if let Some(inside) = after.strip_prefix("::{") {
                groups.push(segments);
                rest = inside;
            } else {
                found.push(NamePath {
                    line,
                    segments,
                    is_called: after.starts_with('('),
                });
                rest = after;
            }
            continue;
        }
        match first {
            '\n' => line += 1,
            '{' => groups.push(Vec::new()),
            '}' => {
                groups.pop();
            }
            _ => {}
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    found
}

/// Reads `a::b::c`; a turbofish or a group ends it.
fn read_path(rest: &str) -> (Vec<String>, &str) {
    let mut segments = Vec::new();
    let mut rest = rest;
    loop {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        segments.push(word.to_owned());
        match after.strip_prefix("::") {
            Some(next) if next.starts_with(is_word) => rest = next,
            _ => return (segments, after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/core/src/x.rs".into(), Room::Core, text.to_owned())
    }

    fn joined(text: &str) -> Vec<String> {
        let paths = source(text).paths();
        paths.iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn groups_of_a_use_are_resolved() {
        let found = joined("use std::{\n    fs::{self, File},\n    io,\n};\nfn f() { a::b(c) }\n");
        let expected = [
            "use",
            "std::fs::self",
            "std::fs::File",
            "std::io",
            "fn",
            "f",
            "a::b",
            "c",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn calls_and_lines_are_known() {
        let found = source("fn f() {\n    time::sleep(d);\n}\n").paths();
        let call = found.iter().find(|path| path.segments == ["time", "sleep"]);
        assert_eq!(
            call.map(|path| (path.line, path.is_called)),
            Some((2, true))
        );
    }

    #[test]
    fn functions_are_measured_by_their_own_braces() {
        let text = "trait T {\n    fn no_body(&self) -> [u8; 2];\n}\n\
                    fn long<T>(f: fn(u8))\nwhere\n    T: Copy,\n{\n    let s = \"}\";\n}\n";
        let expected = Function {
            line: 4,
            name: "long".to_owned(),
            lines: 6,
        };
        assert_eq!(source(text).functions(), [expected]);
    }

    #[test]
    fn test_modules_do_not_count() {
        let text =
            "fn a() {}\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = source(text);
        assert_eq!(source.counted_lines(), 2);
        assert!(source.is_test_line(5) && !source.is_test_line(7));
    }

    #[test]
    fn attributes_are_found_whole() {
        let found = source("#![allow(x)]\n#[cfg_attr(\n    miri,\n    ignore\n)]\nfn a() {}\n")
            .attributes();
        let expected = [(1, "allow(x)"), (2, "cfg_attr(miri,ignore)")];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(found, expected);
    }
}
