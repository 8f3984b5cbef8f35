//! Places in a text, and the nearest of several words. Pure.

use super::error::Place;
use std::ops::Range;

/// How alike two words must be, from 0 to 1, for one to be offered as what was meant. Two letters swapped
/// in a short key are still found; unrelated keys are not offered.
const LIKENESS_MIN: f64 = 0.6;
/// How much of a word must be there to recognise it by its beginning.
const BEGINNING_MIN: usize = 3;

/// Line and column of the start of a span, counted from 1 and in characters.
pub(super) fn place(text: &str, span: &Range<usize>) -> Place {
    let before = text.get(..span.start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Place::Spot {
        line: before.matches('\n').count() + 1,
        column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
    }
}

/// The word that was most likely meant.
pub(super) fn nearest<'a>(
    meant: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let meant = meant.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|word| (alike(&meant, word), word))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, word)| word)
}

/// A word that was begun (`linger` for `linger_secs`) is as good as one with a slip in it.
fn alike(meant: &str, word: &str) -> f64 {
    let word = word.to_lowercase().replace('-', "_");
    if meant.len() >= BEGINNING_MIN && word.starts_with(meant) {
        return 1.0;
    }
    strsim::normalized_damerau_levenshtein(meant, &word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "a = 1\nü = 2 x\n";
        let at = |start| place(text, &(start..start));
        assert_eq!(at(0), Place::Spot { line: 1, column: 1 });
        assert_eq!(at(6), Place::Spot { line: 2, column: 1 });
        let x = text.find('x').unwrap();
        assert_eq!(at(x), Place::Spot { line: 2, column: 7 });
        assert_eq!(at(1000), Place::Spot { line: 3, column: 1 });
    }

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["bin", "home", "transport", "env_pass", "linger_secs"];
        for (meant, found) in [
            ("transprot", Some("transport")),
            ("Transport", Some("transport")),
            ("env-pass", Some("env_pass")),
            ("linger", Some("linger_secs")),
            ("bni", Some("bin")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(meant, known), found, "{meant}");
        }
    }
}
