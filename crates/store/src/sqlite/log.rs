//! Looks at SQLite's write-ahead log before SQLite does, because SQLite ends a damaged log at its last good entry
//! and says nothing: commits behind the damage would be undone, and what they recorded could be done again.
//!
//! A torn end is what a crash leaves and is fine. Every commit is synced before the next one is written, so a
//! damaged frame with a good frame of a later commit behind it is damage for certain. The last commit in the log
//! can't be judged: it looks like a torn end.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number without its lowest bit, which is the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 512..=65_536;
/// What our own ledgers have, for a header that can't be read.
const PAGE_SIZE: u32 = 4_096;

/// What a log looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// All of it can be used, or there is none, or only its end is torn.
    Whole,
    /// Commits would be lost without a word.
    Broken {
        /// Where and how.
        what: String,
    },
}

/// Reads the log once. A log that changes meanwhile is in use, and its user has checked it.
pub(super) fn examine(path: &Path) -> io::Result<Log> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Log::Whole),
        Err(error) => return Err(error),
    };
    let before = file.metadata()?;
    let found = scan(BufReader::new(&file))?;
    let after = file.metadata()?;
    let same = before.len() == after.len() && before.modified()? == after.modified()?;
    Ok(if same { found } else { Log::Whole })
}

fn scan(mut log: impl Read) -> io::Result<Log> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(Log::Whole);
    }
    let order = match word(&header, 0) & !1 {
        MAGIC => ByteOrder::of(word(&header, 0) & 1 == 1),
        _ => ByteOrder::of(cfg!(target_endian = "big")),
    };
    let (fields, stored) = header.split_at(HEADER - 8);
    let whole = word(&header, 0) & !1 == MAGIC && order.sum((0, 0), fields) == sums(stored);
    let page_size = match word(&header, 8) {
        size if PAGE_SIZES.contains(&size) && size.is_power_of_two() => size,
        _ => PAGE_SIZE,
    };
    let mut walk = FrameScan {
        order,
        salts: whole.then(|| (word(&header, 16), word(&header, 20))),
        previous: sums(stored),
        broken_at: (!whole).then_some(0),
        closed: !whole,
    };
    let mut frame = vec![0; FRAME_HEADER + page_size as usize];
    let mut number = 0;
    while fill(&mut log, &mut frame)? {
        number += 1;
        if walk.proves_damage(number, &frame) {
            let at = walk.broken_at.unwrap_or(0);
            let what =
                format!("its log is damaged at entry {at}, and commits behind that are whole");
            return Ok(Log::Broken { what });
        }
    }
    Ok(Log::Whole)
}

struct FrameScan {
    order: ByteOrder,
    /// What tells the frames of this log from older ones; unknown if the header is damaged.
    salts: Option<(u32, u32)>,
    previous: (u32, u32),
    /// The first frame that can't be used.
    broken_at: Option<u64>,
    /// The commit that the broken frame belongs to has ended.
    closed: bool,
}

impl FrameScan {
    /// Each frame is judged by the checksum that is stored before it, so that frames behind a broken one count.
    fn proves_damage(&mut self, number: u64, frame: &[u8]) -> bool {
        let (head, page) = frame.split_at(FRAME_HEADER);
        let (fields, rest) = head.split_at(8);
        let salts = (word(rest, 0), word(rest, 4));
        let stored = sums(head.split_at(FRAME_HEADER - 8).1);
        let chained = self.order.sum(self.order.sum(self.previous, fields), page) == stored;
        self.previous = stored;
        // Zeros are a checksum of zeros; a real frame names its page.
        let real = word(fields, 0) != 0;
        let whole = real && chained && self.salts.is_none_or(|known| known == salts);
        let commits = word(fields, 4) != 0;
        match (whole, self.broken_at) {
            (true, None) => false,
            (true, Some(_)) if self.closed => true,
            (true, Some(_)) => {
                self.closed = commits;
                false
            }
            (false, _) => {
                let ours = self.salts.is_none_or(|known| known == salts);
                self.closed |= ours && commits && self.broken_at.is_none();
                self.broken_at.get_or_insert(number);
                false
            }
        }
    }
}

#[derive(Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn of(big: bool) -> Self {
        if big { Self::Big } else { Self::Little }
    }

    /// SQLite's running checksum over pairs of words.
    fn sum(self, from: (u32, u32), bytes: &[u8]) -> (u32, u32) {
        let (pairs, _rest) = bytes.as_chunks::<8>();
        pairs.iter().fold(from, |(a, b), pair| {
            let [p, q, r, s, t, u, v, w] = *pair;
            let read = |four| match self {
                Self::Little => u32::from_le_bytes(four),
                Self::Big => u32::from_be_bytes(four),
            };
            let a = a.wrapping_add(read([p, q, r, s])).wrapping_add(b);
            (a, b.wrapping_add(read([t, u, v, w])).wrapping_add(a))
        })
    }
}

fn sums(bytes: &[u8]) -> (u32, u32) {
    (word(bytes, 0), word(bytes, 4))
}

/// The big-endian number at a place; all fields of the log are such.
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_be_bytes)
}

/// Whether there was enough to fill it.
fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
