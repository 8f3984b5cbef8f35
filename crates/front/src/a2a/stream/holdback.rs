//! Holds back the end of an unfinished answer that more text could turn into something else: JSON data, or the line that
//! states the outcome. The meaning of the finished answer is decided in `task` and in the core's `outcome`.

use bridge_core::outcome::Outcome;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

const FENCE: &str = "```";

/// The prefix of `text` that stays valid whatever follows. It is at least one character short, so that the last chunk of
/// an answer is never empty.
pub(super) fn publishable(text: &str) -> &str {
    if may_be_json(text) {
        return "";
    }
    let text = text.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let kept = if may_be_outcome(last) {
        before.trim_end()
    } else {
        text
    };
    let last = kept.char_indices().next_back().map_or(0, |(at, _)| at);
    kept.get(..last).unwrap_or_default().trim_end()
}

/// Whether a line may grow into an outcome line. An empty line may.
fn may_be_outcome(line: &str) -> bool {
    let line = line.trim();
    let mut outcomes = Outcome::SAID.into_iter();
    outcomes.any(|outcome| outcome.line().starts_with(line))
}

/// Whether the whole answer may become one JSON object or array, with or without a code block.
fn may_be_json(text: &str) -> bool {
    let text = text.trim_start();
    match text.strip_prefix(FENCE) {
        Some(rest) => may_be_fenced(rest),
        None if FENCE.starts_with(text) => true,
        None => begins_json(text, may_be_outcome),
    }
}

fn may_be_fenced(rest: &str) -> bool {
    let Some((language, inside)) = rest.split_once('\n') else {
        return "json".starts_with(rest.trim());
    };
    if !matches!(language.trim(), "" | "json") {
        return false;
    }
    let inside = inside.trim_start();
    match inside.split_once(FENCE) {
        Some((inside, after)) => begins_json(inside, str::is_empty) && may_be_outcome(after),
        None if inside.is_empty() => true,
        None => begins_json(inside.trim_end_matches('`'), str::is_empty),
    }
}

/// Whether `text` is a prefix of an object or array, or a whole one followed by a rest that `more` accepts.
fn begins_json(text: &str, more: impl Fn(&str) -> bool) -> bool {
    if !text.starts_with(['{', '[']) {
        return false;
    }
    let mut values = Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => {
            let rest = text.get(values.byte_offset()..).unwrap_or_default();
            more(rest.trim())
        }
        Some(Err(error)) => error.is_eof(),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_but_for_its_end() {
        assert_eq!(publishable("hello world"), "hello worl");
        assert_eq!(publishable("a\n\nb "), "a");
        assert_eq!(publishable("x"), "");
        assert_eq!(publishable("Grüß Gott ß"), "Grüß Gott");
        assert_eq!(publishable("see [1]\nand [2]"), "see [1]\nand [2");
    }

    #[test]
    fn holds_back_possible_status_markers() {
        for line in [
            "[",
            "[inp",
            "[input-required]",
            "[rejected]\n",
            " [message]",
        ] {
            assert_eq!(
                publishable(&format!("Which one?\n\n{line}")),
                "Which one",
                "{line}"
            );
        }
        assert_eq!(publishable("no [rej"), "no [re");
        assert_eq!(publishable("[rejected]\nnot so"), "[rejected]\nnot s");
        assert_eq!(publishable("[mess"), "");
        assert_eq!(publishable("[messy"), "[mess");
    }

    #[test]
    fn holds_back_possible_json_not_prose() {
        for text in [
            "{\"a\": [1, 2",
            "{\"a\": 1}",
            "[1, 2]\n[input-req",
            "```",
            "```js",
            "```json\n",
            "```json\n{\"a\":",
            "```\n[1]\n``",
            "```\n[1]\n```\n",
            "`",
        ] {
            assert_eq!(publishable(text), "", "{text}");
        }
        for text in [
            "{not json",
            "[link](x) is",
            "{\"a\": 1} is the answer",
            "```rust\nfn main",
            "```\nplain",
            "```json\n{}\n``` and so",
            "42 is the",
        ] {
            assert_ne!(publishable(text), "", "{text}");
        }
    }
}
