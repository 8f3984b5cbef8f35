//! Known secret values, taken out of every text on its way to people. Pure: whoever knows the values passes them in,
//! and nothing here guesses what else might be one.

mod scan;

pub use scan::Scan;

use std::fmt;

/// Shorter values are no secrets worth the name: replacing them would tear ordinary words apart.
pub const SECRET_MIN_CHARS: usize = 8;

/// What stands where a secret stood.
pub const REDACTED: &str = "[withheld]";

/// Ends an answer from which something was taken out, so that nobody wonders about it.
pub const REDACTED_NOTE: &str = "\n\n(codex-bridge withheld a secret value from this answer.)";

/// Least part of a secret at the end of a text that is still being written which is held back.
const PART_MIN_CHARS: usize = 8;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The values, in every form in which they may turn up. Its debug print tells how many there are, never one of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Longest first, so that a value which holds another goes as a whole.
    forms: Vec<String>,
}

/// A text from which the secrets were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// What is left.
    pub text: String,
    /// How many were taken out.
    pub redactions: usize,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} forms)", self.forms.len())
    }
}

impl Secrets {
    /// These values, as they are, percent-encoded, in hexadecimal and in base64 at any offset.
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
        Self { forms }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// The text without them.
    #[must_use]
    pub fn redact(&self, text: &str) -> Redacted {
        let mut redacted = Redacted {
            text: text.to_owned(),
            redactions: 0,
        };
        for form in &self.forms {
            let found = redacted.text.matches(form.as_str()).count();
            if found > 0 {
                redacted.text = redacted.text.replace(form.as_str(), REDACTED);
                redacted.redactions += found;
            }
        }
        redacted
    }

    /// The same for a whole answer, which says at its end that something is missing.
    #[must_use]
    pub fn redact_answer(&self, text: &str) -> Redacted {
        let mut redacted = self.redact(text);
        if redacted.redactions > 0 {
            redacted.text.push_str(REDACTED_NOTE);
        }
        redacted
    }

    /// The same for a text that is still being written: also the beginning of a secret at its end.
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

/// How many bytes at the end of `text` are the beginning of `form`, if enough of it is there to matter.
fn begun(text: &str, form: &str) -> Option<usize> {
    form.char_indices()
        .map(|(at, _)| at)
        .filter(|at| *at >= PART_MIN_CHARS)
        .rev()
        .find(|at| form.get(..*at).is_some_and(|part| text.ends_with(part)))
}

fn forms_of(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![value.to_owned(), encoded(value), hex.to_uppercase(), hex];
    for offset in 0..3 {
        let plain = base64_core(bytes, offset);
        forms.push(plain.replace('+', "-").replace('/', "_"));
        forms.push(plain);
    }
    forms
}

/// As it stands in a query: everything but the unreserved characters in percent form.
fn encoded(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// The base64 digits that depend on the value alone when it stands `offset` bytes after a group's start: whatever
/// is encoded before and after it, these are there.
fn base64_core(bytes: &[u8], offset: usize) -> String {
    let mut digits = String::new();
    let bits = bytes.len() * 8;
    let start = offset * 8;
    // The first digit that holds no bit of what stands before.
    let first = start.div_ceil(6);
    let last = (start + bits) / 6;
    for digit in first..last {
        let value = (0..6).fold(0_usize, |value, bit| {
            let at = (digit * 6 + bit).saturating_sub(start);
            let byte = bytes.get(at / 8).copied().unwrap_or_default();
            let set = usize::from(byte >> (7 - at % 8)) & 1;
            (value << 1) | set
        });
        digits.extend(BASE64.get(value).map(|digit| char::from(*digit)));
    }
    digits
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
