//! Looking for the secrets in bytes that come piece by piece: a file that is too long to be held, and that can't be
//! sent without them.
//!
//! Line breaks are passed over, because tools break long values into lines. What is compressed or encrypted is not seen.

use super::Secrets;
use std::fmt;

/// One look through a stream of bytes. Its debug print tells what was found, never a value.
#[derive(Clone)]
pub struct Scan {
    /// Without line breaks.
    forms: Vec<Vec<u8>>,
    /// Which pairs of bytes begin a form: most places of a file are passed by one look.
    begins: Vec<bool>,
    longest: usize,
    /// The end of what was seen, in which a form may have begun.
    window: Vec<u8>,
    found: bool,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scan({} forms, found: {})", self.forms.len(), self.found)
    }
}

impl Secrets {
    /// Begins to look.
    #[must_use]
    pub fn scan(&self) -> Scan {
        let forms: Vec<Vec<u8>> = self
            .forms
            .iter()
            .map(|form| form.bytes().filter(|byte| !is_break(*byte)).collect())
            .filter(|form: &Vec<u8>| form.len() >= super::SECRET_MIN_CHARS)
            .collect();
        let mut begins = vec![false; 1 << 16];
        for form in &forms {
            if let Some(begin) = begins.get_mut(pair(form)) {
                *begin = true;
            }
        }
        Scan {
            longest: forms.iter().map(Vec::len).max().unwrap_or(0),
            forms,
            begins,
            window: Vec::new(),
            found: false,
        }
    }

    /// Whether a text holds one.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        let mut scan = self.scan();
        scan.see(text.as_bytes());
        scan.found()
    }
}

impl Scan {
    /// Looks at the next piece.
    pub fn see(&mut self, piece: &[u8]) {
        if self.found || self.forms.is_empty() {
            return;
        }
        self.window
            .extend(piece.iter().copied().filter(|byte| !is_break(*byte)));
        self.found = (0..self.window.len()).any(|at| self.is_at(at));
        // Whatever begins before this was seen whole.
        let kept = self.longest.saturating_sub(1).min(self.window.len());
        self.window.drain(..self.window.len() - kept);
    }

    /// Whether one was seen.
    #[must_use]
    pub fn found(&self) -> bool {
        self.found
    }

    fn is_at(&self, at: usize) -> bool {
        let rest = self.window.get(at..).unwrap_or_default();
        let begins = self.begins.get(pair(rest)).copied().unwrap_or_default();
        begins && self.forms.iter().any(|form| rest.starts_with(form))
    }
}

fn is_break(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// The first two bytes as a number; what is shorter begins nothing.
fn pair(bytes: &[u8]) -> usize {
    match bytes {
        [first, second, ..] => usize::from(*first) << 8 | usize::from(*second),
        [] | [_] => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "tok+en/with=99 chars";

    fn found(secrets: &Secrets, bytes: &[u8], piece: usize) -> bool {
        let mut scan = secrets.scan();
        bytes.chunks(piece).for_each(|piece| scan.see(piece));
        scan.found()
    }

    #[test]
    fn scan_finds_every_encoding_across_chunks() {
        let secrets = Secrets::new([TOKEN, "another-value"]);
        for form in [
            TOKEN,
            "tok%2Ben%2Fwith%3D99%20chars",
            "746f6b2b656e2f776974683d3939206368617273",
            "dG9rK2VuL3dpdGg9OTkgY2hhcnM=",
            "dG9rK2Vu\r\nL3dpdGg9\nOTkgY2hhcnM=",
            "another-value",
        ] {
            let mut bytes = vec![0xff; 1_000];
            bytes.extend(form.bytes());
            bytes.extend([0; 1_000]);
            for piece in [1, 2, 7, 64, 5_000] {
                assert!(found(&secrets, &bytes, piece), "{form} {piece}");
            }
        }
    }

    #[test]
    fn what_holds_none_passes() {
        let secrets = Secrets::new([TOKEN, "another-value\nof two lines"]);
        for bytes in [
            &b"another-valu"[..],
            b"tok+en/with=99 char",
            b"",
            &[0; 9_999],
        ] {
            assert!(!found(&secrets, bytes, 10), "{bytes:?}");
        }
        assert!(secrets.is_in("x another-value\r\nof two lines"));
        assert!(!Secrets::default().is_in(TOKEN));
    }
}
