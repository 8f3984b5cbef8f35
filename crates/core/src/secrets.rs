//! Removes known secret values from text before it reaches people.
//!
//! Pure: callers pass the values in. Nothing here guesses which other values might be secret.

mod scan;

pub use scan::Scan;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, Encoding, HEXLOWER, HEXUPPER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt;

/// Shorter values are ignored: replacing them would tear ordinary words apart.
pub const SECRET_MIN_CHARS: usize = 8;

/// Replaces a secret.
pub const REDACTED: &str = "[withheld]";

/// Appended to an answer from which a secret was removed.
pub const REDACTED_NOTE: &str = "\n\n(codex-bridge withheld a secret value from this answer.)";

/// Shortest prefix of a secret that is withheld at the end of a text that is still growing.
const PART_MIN_CHARS: usize = 8;

/// Everything but the characters that stand for themselves in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Secret values in every encoding that is searched for. The `Debug` form shows only their number.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Longest first.
    forms: Vec<String>,
    /// `None` if there are no forms, or too many for one automaton; see [`Secrets::redact`].
    search: Option<AhoCorasick>,
    /// The same without line breaks, for [`Scan`].
    unbroken: Option<AhoCorasick>,
}

/// A text without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    pub text: String,
    /// How many secrets were removed.
    pub redactions: usize,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} forms)", self.forms.len())
    }
}

impl Secrets {
    /// Searches for these values as they are, percent-encoded, in hexadecimal and in base64 at any offset.
    pub fn new<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Self {
        let mut forms = Vec::new();
        for value in values {
            let value = value.as_ref().trim();
            if value.chars().count() >= SECRET_MIN_CHARS {
                forms.extend(forms_of(value));
            }
        }
        forms.retain(|form| form.chars().count() >= SECRET_MIN_CHARS);
        forms.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        forms.dedup();
        let search = automaton(&forms);
        let unbroken = if forms.iter().any(|form| form.contains(scan::BREAKS)) {
            automaton(&scan::without_breaks(&forms))
        } else {
            search.clone()
        };
        Self {
            forms,
            search,
            unbroken,
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Removes all secrets from a text. Secrets that overlap are removed together, so that no part of one is left.
    #[must_use]
    pub fn redact(&self, text: &str) -> Redacted {
        if self.forms.is_empty() {
            return Redacted {
                text: text.to_owned(),
                redactions: 0,
            };
        }
        let Some(search) = &self.search else {
            // The values can't be searched for, so nothing may pass.
            return Redacted {
                text: REDACTED.to_owned(),
                redactions: 1,
            };
        };
        // Disjoint and in order: matches come by their ends.
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for found in search.find_overlapping_iter(text) {
            let mut start = found.start();
            while let Some(&(earlier, end)) = spans.last()
                && end > start
            {
                start = start.min(earlier);
                spans.pop();
            }
            spans.push((start, found.end()));
        }
        let mut left = String::with_capacity(text.len());
        let mut rest = 0;
        for (start, end) in &spans {
            left.push_str(text.get(rest..*start).unwrap_or_default());
            left.push_str(REDACTED);
            rest = *end;
        }
        left.push_str(text.get(rest..).unwrap_or_default());
        Redacted {
            text: left,
            redactions: spans.len(),
        }
    }

    /// Like [`Secrets::redact`], with [`REDACTED_NOTE`] at the end if a secret was removed.
    #[must_use]
    pub fn redact_answer(&self, text: &str) -> Redacted {
        let mut redacted = self.redact(text);
        if redacted.redactions > 0 {
            redacted.text.push_str(REDACTED_NOTE);
        }
        redacted
    }

    /// Like [`Secrets::redact`], for a text that is still growing: also removes the beginning of a secret at its end.
    #[must_use]
    pub fn redact_growing(&self, text: &str) -> Redacted {
        let mut redacted = self.redact(text);
        let begun = self
            .forms
            .iter()
            .filter_map(|form| begun(&redacted.text, form));
        if let Some(longest) = begun.max() {
            let kept = redacted.text.len().saturating_sub(longest);
            redacted.text.truncate(kept);
            redacted.text.push_str(REDACTED);
            redacted.redactions += 1;
        }
        redacted
    }
}

/// `None` for no forms. The NFA, because a DFA of a hundred tokens takes megabytes.
fn automaton<F: AsRef<[u8]>>(forms: &[F]) -> Option<AhoCorasick> {
    if forms.is_empty() {
        return None;
    }
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(forms)
        .ok()
}

/// Length in bytes of the prefix of `form` at the end of `text`, if it is long enough to matter.
fn begun(text: &str, form: &str) -> Option<usize> {
    form.char_indices()
        .map(|(at, _)| at)
        .filter(|at| *at >= PART_MIN_CHARS)
        .rev()
        .find(|at| form.get(..*at).is_some_and(|part| text.ends_with(part)))
}

fn forms_of(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let mut forms = vec![
        value.to_owned(),
        utf8_percent_encode(value, QUERY).to_string(),
        HEXUPPER.encode(bytes),
        HEXLOWER.encode(bytes),
    ];
    // As it stands in JSON text.
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    let escaped = escaped.replace('\n', "\\n").replace('\r', "\\r");
    if escaped != value {
        forms.push(escaped.replace('\t', "\\t"));
    }
    for offset in 0..3 {
        forms.push(base64_core(&BASE64URL_NOPAD, bytes, offset));
        forms.push(base64_core(&BASE64_NOPAD, bytes, offset));
    }
    forms
}

/// The base64 digits of a value that stands `offset` bytes after the start of a group, without the digits that also
/// depend on the bytes before or after it.
fn base64_core(encoding: &Encoding, bytes: &[u8], offset: usize) -> String {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(bytes);
    let digits = encoding.encode(&padded);
    let first = (offset * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    digits.get(first..last).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "tok+en/with=99 chars";

    #[test]
    fn redacts_every_encoding_of_secret() {
        let secrets = Secrets::new([TOKEN]);
        // `printf 'tok+en/with=99 chars' | base64`, and with one and two bytes before it.
        for form in [
            TOKEN,
            "tok%2Ben%2Fwith%3D99%20chars",
            "746f6b2b656e2f776974683d3939206368617273",
            "dG9rK2VuL3dpdGg9OTkgY2hhcnM=",
            "OnRvaytlbi93aXRoPTk5IGNoYXJz",
            "YTp0b2srZW4vd2l0aD05OSBjaGFycw==",
        ] {
            let redacted = secrets.redact(&format!("before {form} after"));
            assert_eq!(redacted.redactions, 1, "{form}: {redacted:?}");
            assert!(redacted.text.starts_with("before ") && redacted.text.ends_with(" after"));
            assert!(redacted.text.contains(REDACTED), "{redacted:?}");
        }
    }

    #[test]
    fn redacts_longest_value_and_skips_short() {
        let secrets = Secrets::new(["abcdefgh", "abcdefgh-ijkl", "short", "  "]);
        let redacted = secrets.redact("x abcdefgh-ijkl y abcdefgh z short");
        assert_eq!(redacted.text, "x [withheld] y [withheld] z short");
        assert_eq!(redacted.redactions, 2);
        assert!(Secrets::new(["short"]).is_empty());
        let untouched = secrets.redact("nothing here");
        assert_eq!(
            (untouched.text.as_str(), untouched.redactions),
            ("nothing here", 0)
        );
    }

    #[test]
    fn overlapping_secrets_are_redacted_together() {
        let secrets = Secrets::new(["aaaabbbb", "bbbbcccccccc", "bbbbcccc"]);
        let redacted = secrets.redact("x aaaabbbbcccccccc y aaaabbbbaaaabbbb z");
        assert_eq!(redacted.text, "x [withheld] y [withheld][withheld] z");
        assert_eq!(redacted.redactions, 3);
    }

    #[test]
    fn an_answer_says_that_something_is_missing() {
        let secrets = Secrets::new(["abcdefgh"]);
        let redacted = secrets.redact_answer("it is abcdefgh");
        assert_eq!(redacted.text, format!("it is [withheld]{REDACTED_NOTE}"));
        assert_eq!(secrets.redact_answer("nothing").text, "nothing");
    }

    #[test]
    fn partial_secret_is_redacted_while_streaming() {
        let secrets = Secrets::new(["abcdefghijkl"]);
        assert_eq!(
            secrets.redact_growing("it is abcdefghij").text,
            "it is [withheld]"
        );
        assert_eq!(
            secrets.redact_growing("it is abcdefghijkl.").text,
            "it is [withheld]."
        );
        assert_eq!(secrets.redact_growing("it is abcd").text, "it is abcd");
    }

    #[test]
    fn no_value_is_ever_printed() {
        let printed = format!("{:?}", Secrets::new([TOKEN]));
        assert!(!printed.contains("tok"), "{printed}");
    }
}
