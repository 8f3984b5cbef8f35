//! How much of an answer that is still being written may be shown: what more text may turn into something else is held
//! back. What the whole answer is in the end is decided in `task` and by the core's outcome alone.

use bridge_core::outcome::Outcome;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

const FENCE: &str = "```";

/// The beginning of `text` that stays, whatever follows. Without its last word's end: the last piece of an answer must
/// have something to say.
pub(super) fn settled(text: &str) -> &str {
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

/// Whether a line may become the one that says what the answer is. An empty one may.
fn may_be_outcome(line: &str) -> bool {
    let line = line.trim();
    let mut said = Outcome::SAID.into_iter();
    said.any(|outcome| outcome.line().starts_with(line))
}

/// Whether the whole answer may become one JSON object or array, in a code block or not.
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

/// Whether `text` is the beginning of an object or array, or all of one with only `more` behind it.
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
        assert_eq!(settled("hello world"), "hello worl");
        assert_eq!(settled("a\n\nb "), "a");
        assert_eq!(settled("x"), "");
        assert_eq!(settled("Grüß Gott ß"), "Grüß Gott");
        assert_eq!(settled("see [1]\nand [2]"), "see [1]\nand [2");
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
                settled(&format!("Which one?\n\n{line}")),
                "Which one",
                "{line}"
            );
        }
        assert_eq!(settled("no [rej"), "no [re");
        assert_eq!(settled("[rejected]\nnot so"), "[rejected]\nnot s");
        assert_eq!(settled("[mess"), "");
        assert_eq!(settled("[messy"), "[mess");
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
            assert_eq!(settled(text), "", "{text}");
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
            assert_ne!(settled(text), "", "{text}");
        }
    }
}
