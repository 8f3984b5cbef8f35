//! How foreign text is shown to whoever decides about it: what can't be seen, or looks like something else, is written
//! out as `<U+202E>`, and padding is folded with its length. Pure; colours and terminals belong to the surfaces.
//!
//! Different texts never look the same: a `<` that could begin one of our marks is itself written out, and what is
//! folded is bound by its hash. So a decision about what is shown is a decision about what is done.

mod letters;
mod paths;
#[cfg(test)]
mod tests;

pub use letters::is_hidden;
pub use paths::without_paths;

use crate::rules::is_approval;
use crate::value::RequestKind;
use data_encoding::HEXLOWER;
use letters::{is_always_odd, is_odd_beside_latin, looks_latin};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Longest row of equal characters that is shown as it is.
const RUN_MAX_CHARS: usize = 60;
/// Most line ends in a row that are shown as they are.
const EMPTY_LINES_MAX: usize = 4;
/// Longest text that is shown whole; whole diffs of ordinary size are.
pub const SHOWN_MAX_CHARS: usize = 400_000;
/// How much of a longer one is shown of its end.
const TAIL_CHARS: usize = 100_000;
/// Hexadecimal digits of a hash that bind what is folded.
const HASH_DIGITS: usize = 32;

/// All that is decided about in a question of this kind.
#[must_use]
pub fn question(kind: &RequestKind, text: &str) -> String {
    if is_approval(kind) {
        effect(text)
    } else {
        words(text)
    }
}

/// A command or a change of files, on as many lines as it has.
#[must_use]
pub fn effect(text: &str) -> String {
    whole(text, &Manner::LINES)
}

/// A command, a path or a name, on one line.
#[must_use]
pub fn effect_line(text: &str) -> String {
    whole(text, &Manner::LINE)
}

/// Words for people, such as a question: letters of every script stay as they are.
#[must_use]
pub fn words(text: &str) -> String {
    whole(text, &Manner::WORDS)
}

struct Manner {
    lines: bool,
    letters: bool,
}

impl Manner {
    const LINES: Self = Self {
        lines: true,
        letters: true,
    };
    const LINE: Self = Self {
        lines: false,
        letters: true,
    };
    const WORDS: Self = Self {
        lines: true,
        letters: false,
    };

    fn is_blank(&self, c: char) -> bool {
        c == ' ' || (self.lines && matches!(c, '\n' | '\t'))
    }
}

fn whole(text: &str, manner: &Manner) -> String {
    let length = text.chars().count();
    if length <= SHOWN_MAX_CHARS {
        return part(text, manner);
    }
    let cut = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
    let (head, rest) = text.split_at(cut(SHOWN_MAX_CHARS - TAIL_CHARS));
    let tail_at = cut(length - TAIL_CHARS).saturating_sub(head.len());
    let (middle, tail) = rest.split_at(tail_at);
    let count = length - SHOWN_MAX_CHARS;
    let hash = hash(middle);
    format!(
        "{}<{count} characters are not shown here, sha256 {hash}>{}",
        part(head, manner),
        part(tail, manner)
    )
}

/// Takes the text apart into blanks, rows of one character, words, and everything else.
fn part(text: &str, manner: &Manner) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (blanks, after) = begin(rest, |c| manner.is_blank(c));
        if !blanks.is_empty() {
            push_blanks(&mut shown, blanks);
            rest = after;
            continue;
        }
        let (row, after) = begin(rest, |c| c == first);
        let count = row.chars().count();
        if count > RUN_MAX_CHARS {
            let code = u32::from(first);
            push(&mut shown, format_args!("<{count} times U+{code:04X}>"));
            rest = after;
            continue;
        }
        let (word, after) = begin(rest, char::is_alphanumeric);
        if !word.is_empty() {
            push_word(&mut shown, word, manner);
            rest = after;
            continue;
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
        push_sign(&mut shown, first, rest, manner);
    }
    shown
}

/// The characters at the beginning that are such, and the rest.
fn begin(text: &str, is: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is(c)).unwrap_or(text.len()))
}

fn push_blanks(shown: &mut String, blanks: &str) {
    let widest = blanks.split('\n').map(str::len).max().unwrap_or_default();
    let lines = blanks.matches('\n').count();
    let only_spaces = blanks.bytes().all(|byte| byte == b' ');
    match (
        widest > RUN_MAX_CHARS || lines > EMPTY_LINES_MAX,
        only_spaces,
    ) {
        (false, _) => shown.push_str(blanks),
        (true, true) => push(shown, format_args!("<{widest} spaces>")),
        (true, false) => {
            let (count, hash) = (blanks.len(), hash(blanks));
            push(
                shown,
                format_args!("<{count} blanks with {lines} line ends, sha256 {hash}>"),
            );
            if lines > 0 {
                shown.push('\n');
            }
        }
    }
}

/// A word that mixes letters of scripts which look alike, or looks Latin and is not, shows which letters they are.
fn push_word(shown: &mut String, word: &str, manner: &Manner) {
    let latin = word.chars().any(|c| c.is_ascii_alphabetic());
    let letters = || word.chars().filter(|c| !c.is_ascii());
    let disguised = !word.is_ascii() && letters().all(looks_latin);
    for c in word.chars() {
        let odd = is_always_odd(c) || (is_odd_beside_latin(c) && (latin || disguised));
        if is_hidden(c) || (manner.letters && odd) {
            push_mark(shown, c)
        } else {
            shown.push(c)
        }
    }
}

fn push_sign(shown: &mut String, sign: char, rest: &str, manner: &Manner) {
    let begins_a_mark = sign == '<' && rest.starts_with(|c: char| c == 'U' || c.is_ascii_digit());
    let kept = manner.lines && matches!(sign, '\n' | '\t');
    let hidden = is_hidden(sign) || (sign.is_whitespace() && sign != ' ');
    let odd =
        manner.letters && is_always_odd(sign) && !(manner.lines && is_prose(shown, sign, rest));
    if begins_a_mark || odd || (hidden && !kept) {
        push_mark(shown, sign)
    } else {
        shown.push(sign)
    }
}

/// Signs of ordinary text, where several lines are shown: pauses, and an apostrophe between two letters.
fn is_prose(before: &str, sign: char, rest: &str) -> bool {
    match sign {
        '\u{2013}' | '\u{2014}' | '\u{2026}' => true,
        '\u{2019}' => {
            before.ends_with(char::is_alphabetic) && rest.starts_with(char::is_alphabetic)
        }
        _ => false,
    }
}

fn push_mark(shown: &mut String, c: char) {
    push(shown, format_args!("<U+{:04X}>", u32::from(c)));
}

fn push(shown: &mut String, words: std::fmt::Arguments<'_>) {
    let _never_fails = shown.write_fmt(words);
}

fn hash(text: &str) -> String {
    let mut digits = HEXLOWER.encode(&Sha256::digest(text));
    digits.truncate(HASH_DIGITS);
    digits
}
