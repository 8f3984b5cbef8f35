//! Lines of the stdio transport: bytes in, whole texts out, with a cap.
//!
//! Over a websocket each text frame is already one message, so only stdio needs this.
//! What a text means belongs to [`crate::rpc`].

use std::mem;

use thiserror::Error;

/// Longest line we take in. Codex itself has no limit: a 5 MB answer comes as three 5 MB lines,
/// so the cap is generous, but a peer that never ends its line must not eat the machine.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Capacity kept between lines; a buffer that grew for one huge line is given back.
const KEPT_CAPACITY: usize = 64 * 1024;

/// A bad piece of the stream. None of them ends it: the next line is read normally.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("a line longer than {limit} bytes was dropped; restart this codex process")]
    Oversize { limit: usize },
    #[error("a line of {bytes} bytes was not valid utf-8 and was dropped")]
    NotUtf8 { bytes: usize },
    #[error("the stream ended inside a line, {bytes} bytes were dropped")]
    Truncated { bytes: usize },
}

/// Cuts a byte stream into lines. Feed it whatever a read returned.
#[derive(Debug)]
pub struct LineReader {
    buffer: Vec<u8>,
    limit: usize,
    /// Set after an oversize line was reported, until its end is found.
    skipping: bool,
}

impl Default for LineReader {
    fn default() -> Self {
        Self::new(MAX_LINE_BYTES)
    }
}

impl LineReader {
    /// A reader with its own limit; [`LineReader::default`] has [`MAX_LINE_BYTES`].
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            limit,
            skipping: false,
        }
    }

    /// Takes in bytes and returns the lines that are complete now, in order. Blank lines are left out and a
    /// carriage return before the line feed is cut off.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Result<String, FrameError>> {
        let mut out = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.take(end, &mut out);
                    self.end_line(&mut out);
                }
                None => self.take(piece, &mut out),
            }
        }
        out
    }

    /// Call at end of stream: a half line is reported, never parsed.
    pub fn finish(&mut self) -> Option<FrameError> {
        let bytes = mem::take(&mut self.buffer).len();
        let skipping = mem::take(&mut self.skipping);
        (bytes > 0 && !skipping).then_some(FrameError::Truncated { bytes })
    }

    fn take(&mut self, piece: &[u8], out: &mut Vec<Result<String, FrameError>>) {
        if self.skipping {
            return;
        }
        if self.buffer.len() + piece.len() > self.limit {
            self.skipping = true;
            self.buffer = Vec::new();
            out.push(Err(FrameError::Oversize { limit: self.limit }));
            return;
        }
        self.buffer.extend_from_slice(piece);
    }

    fn end_line(&mut self, out: &mut Vec<Result<String, FrameError>>) {
        if mem::take(&mut self.skipping) {
            return;
        }
        let line = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        if !line.trim_ascii().is_empty() {
            out.push(match str::from_utf8(line) {
                Ok(text) => Ok(text.to_owned()),
                Err(_) => Err(FrameError::NotUtf8 { bytes: line.len() }),
            });
        }
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_CAPACITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(text: &str) -> Result<String, FrameError> {
        Ok(text.to_owned())
    }

    #[test]
    fn chunk_boundaries_do_not_change_lines() {
        let stream = "{\"a\":1}\r\n\n  \r\n{\"é\":2}\n{\"half\"".as_bytes();
        for cut in 0..=stream.len() {
            let (left, right) = stream.split_at(cut);
            let mut reader = LineReader::default();
            let mut lines = reader.feed(left);
            lines.extend(reader.feed(right));
            assert_eq!(lines, [ok("{\"a\":1}"), ok("{\"é\":2}")], "cut at {cut}");
            assert_eq!(reader.finish(), Some(FrameError::Truncated { bytes: 7 }));
            assert_eq!(reader.finish(), None);
        }
    }

    #[test]
    fn bad_utf8_costs_one_line_only() {
        let mut reader = LineReader::default();
        assert_eq!(
            reader.feed(b"a\n\xff\xfe\nb\n"),
            [ok("a"), Err(FrameError::NotUtf8 { bytes: 2 }), ok("b")]
        );
    }

    #[test]
    fn oversize_line_is_reported_once() {
        let mut reader = LineReader::new(8);
        assert_eq!(reader.feed(b"12345678\n"), [ok("12345678")]);
        assert_eq!(
            reader.feed(b"123456789"),
            [Err(FrameError::Oversize { limit: 8 })]
        );
        for _ in 0..1000 {
            assert_eq!(reader.feed(&[b'x'; 1024]), []);
        }
        assert_eq!(reader.buffer.capacity(), 0);
        assert_eq!(reader.feed(b"tail\nnext\n"), [ok("next")]);
        assert_eq!(reader.finish(), None);
    }

    #[test]
    fn huge_line_releases_its_buffer() {
        let mut reader = LineReader::default();
        let mut line = vec![b'x'; 4 * KEPT_CAPACITY];
        line.push(b'\n');
        assert_eq!(reader.feed(&line).len(), 1);
        assert!(reader.buffer.capacity() <= KEPT_CAPACITY);
    }
}
