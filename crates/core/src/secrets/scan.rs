//! Searches a stream of bytes for secrets, for files too long to hold in memory.
//!
//! Line breaks are ignored, because tools break long values into lines. Compressed or encrypted secrets are not found.

use super::Secrets;
use aho_corasick::AhoCorasick;
use std::fmt;

pub(super) const BREAKS: [char; 2] = ['\n', '\r'];

/// One search through a stream. The `Debug` form never shows a value.
#[derive(Clone)]
pub struct Scan {
    search: Option<AhoCorasick>,
    longest: usize,
    /// The end of the bytes so far, in which a secret may have begun.
    window: Vec<u8>,
    found: bool,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scan(found: {})", self.found)
    }
}

impl Secrets {
    /// Starts a search.
    #[must_use]
    pub fn scan(&self) -> Scan {
        Scan {
            longest: self.forms.first().map_or(0, String::len),
            search: self.unbroken.clone(),
            window: Vec::new(),
            // As in `redact`: values that can't be searched for are taken to be everywhere.
            found: !self.forms.is_empty() && self.search.is_none(),
        }
    }

    /// Whether a text contains a secret.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        let mut scan = self.scan();
        scan.see(text.as_bytes());
        scan.found()
    }
}

impl Scan {
    /// Searches the next piece.
    pub fn see(&mut self, piece: &[u8]) {
        let Some(search) = self.search.as_ref().filter(|_| !self.found) else {
            return;
        };
        self.window
            .extend(piece.iter().copied().filter(|byte| !is_break(*byte)));
        self.found = search.is_match(&self.window);
        // A secret that begins before this was seen whole.
        let kept = self.longest.saturating_sub(1).min(self.window.len());
        self.window.drain(..self.window.len() - kept);
    }

    /// Whether a secret was found.
    #[must_use]
    pub fn found(&self) -> bool {
        self.found
    }
}

/// The forms as they are found in a stream without line breaks. What is then too short is left out.
pub(super) fn without_breaks(forms: &[String]) -> Vec<String> {
    forms
        .iter()
        .map(|form| form.replace(BREAKS, ""))
        .filter(|form| form.len() >= super::SECRET_MIN_CHARS)
        .collect()
}

fn is_break(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
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
