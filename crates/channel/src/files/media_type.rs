//! What a file is, by its first bytes. What the sender claims is only a label for what can't be recognised.
//!
//! Nothing is decoded, unpacked or run here. A picture that would be too large once Codex decodes it is not called a
//! picture: it reaches Codex as a plain file.

use std::io::{self, Read, Seek, SeekFrom};

/// Most pixels of a picture that Codex is shown: it decodes the whole picture in memory, whose size depends on the
/// pixels and not on the file's. A file of 2.6 MB with 900 million pixels took 3.5 GB.
const PIXELS_MAX: u64 = 50_000_000;
/// How many first bytes are enough to recognise every kind, and for most of them the size.
const HEAD_BYTES: u64 = 32;
/// Segments of a JPEG before the one that says how large it is; cameras write about ten.
const JPEG_SEGMENTS_MAX: usize = 500;
/// What is known of a file of which nothing is known.
const UNKNOWN: &str = "application/octet-stream";
/// Longest claim that is repeated.
const CLAIM_MAX_BYTES: usize = 100;

/// A picture that Codex can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picture {
    Png,
    Jpeg,
    Gif,
    Webp,
}

/// Kinds of text that Codex makes often, by how their names end. A name is no more than a claim.
const ENDINGS: [(&str, &str); 10] = [
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("toml", "application/toml"),
    ("yaml", "application/yaml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
];

/// What a file of this name claims to be; empty where nobody knows.
pub(super) fn claim_of(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let known = |known: &str| known.eq_ignore_ascii_case(ending);
    let found = ENDINGS.iter().find(|(ending, _)| known(ending));
    found.map_or("", |(_, kind)| *kind)
}

/// The kind of a file that its sender says is `claimed`.
pub(super) fn media_type(file: &mut (impl Read + Seek), claimed: &str) -> io::Result<String> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let kind = match recognise(&head) {
        Some(picture) => match pixels(picture, &head, file)? {
            Some(pixels) if pixels <= PIXELS_MAX => picture.media_type(),
            Some(_) | None => UNKNOWN,
        },
        None if is_harmless_claim(claimed) => return Ok(claimed.to_ascii_lowercase()),
        None => UNKNOWN,
    };
    Ok(kind.to_owned())
}

impl Picture {
    fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

fn recognise(head: &[u8]) -> Option<Picture> {
    match head {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(Picture::Png),
        [0xff, 0xd8, 0xff, ..] => Some(Picture::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Picture::Gif),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some(Picture::Webp),
        _ => None,
    }
}

/// How many pixels the picture says it has; none if it does not say it where it must.
fn pixels(picture: Picture, head: &[u8], file: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
    let size = match picture {
        Picture::Png => png(head),
        Picture::Gif => gif(head),
        Picture::Webp => webp(head),
        Picture::Jpeg => jpeg(file)?,
    };
    Ok(size.map(|(width, height)| u64::from(width).saturating_mul(u64::from(height))))
}

fn png(head: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| {
        let bytes = head.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    Some((number(16)?, number(20)?))
}

fn gif(head: &[u8]) -> Option<(u32, u32)> {
    Some((little(head, 6, 2)?, little(head, 8, 2)?))
}

fn webp(head: &[u8]) -> Option<(u32, u32)> {
    match head.get(12..16)? {
        b"VP8X" => Some((little(head, 24, 3)? + 1, little(head, 27, 3)? + 1)),
        b"VP8L" => {
            let bits = little(head, 21, 4)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((little(head, 26, 2)? & 0x3fff, little(head, 28, 2)? & 0x3fff)),
        _ => None,
    }
}

/// A little-endian number of up to four bytes.
fn little(head: &[u8], at: usize, bytes: usize) -> Option<u32> {
    let bytes = head.get(at..at + bytes)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u32::from(*byte)),
    )
}

/// Walks over the segments to the one that begins the frame.
fn jpeg(file: &mut (impl Read + Seek)) -> io::Result<Option<(u32, u32)>> {
    file.seek(SeekFrom::Start(2))?;
    for _ in 0..JPEG_SEGMENTS_MAX {
        let Some([0xff, marker, high, low]) = exactly(file)? else {
            return Ok(None);
        };
        let length = u16::from_be_bytes([high, low]);
        match marker {
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xcf => {
                let frame: Option<[u8; 5]> = exactly(file)?;
                return Ok(frame.map(|[_, h1, h0, w1, w0]| {
                    let side = |high, low| u32::from(u16::from_be_bytes([high, low]));
                    (side(w1, w0), side(h1, h0))
                }));
            }
            // Image data, the end, or no marker at all.
            0x00 | 0x01 | 0xd0..=0xda | 0xff => return Ok(None),
            _ => {}
        }
        let rest = i64::from(length.saturating_sub(2));
        file.seek(SeekFrom::Current(rest))?;
    }
    Ok(None)
}

fn exactly<const N: usize>(file: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// A claim is repeated if it is a media type, and not one of a picture that was not recognised.
fn is_harmless_claim(claimed: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    claimed.len() <= CLAIM_MAX_BYTES
        && claimed.split_once('/').is_some_and(|(kind, sub)| {
            token(kind) && token(sub) && !kind.eq_ignore_ascii_case("image")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn kind(bytes: &[u8], claimed: &str) -> String {
        media_type(&mut Cursor::new(bytes), claimed).unwrap()
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let mut bytes = b"\xff\xd8\xff\xe1\x01\x02".to_vec();
        bytes.extend([7; 256]);
        bytes.extend(b"\xff\xc4\x00\x03\x00\xff\xc2\x00\x0b\x08");
        bytes.extend(height.to_be_bytes());
        bytes.extend(width.to_be_bytes());
        bytes
    }

    #[test]
    fn threat_14_content_decides_media_type() {
        for (bytes, claimed, expected) in [
            (png(8, 8).as_slice(), "text/html", "image/png"),
            (&jpeg(640, 480), "", "image/jpeg"),
            (b"GIF89a\x01\0\x01\0", "x", "image/gif"),
            (
                b"RIFF\x01\x02\x03\x04WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x08\0\x08\0",
                "",
                "image/webp",
            ),
            (
                b"RIFF\x01\x02\x03\x04WEBPVP8L\0\0\0\0\x2f\x07\xc0\x01\0",
                "",
                "image/webp",
            ),
            (b"RIFF\x01\x02\x03\x04WAVE", "audio/wav", "audio/wav"),
            (b"#!/bin/sh", "image/png", UNKNOWN),
            (b"#!/bin/sh", "IMAGE/gif", UNKNOWN),
            (b"hello", "text/plain", "text/plain"),
            (b"hello", "Text/Markdown", "text/markdown"),
            (b"hello", "text/plain; charset=x", UNKNOWN),
            (b"hello", "text/plain\r\nX: y", UNKNOWN),
            (b"hello", "nonsense", UNKNOWN),
            (b"", "", UNKNOWN),
            (b"\x89PNG\r\n\x1a\n", "", UNKNOWN),
        ] {
            assert_eq!(kind(bytes, claimed), expected, "{claimed:?}");
        }
        assert_eq!(kind(b"x", &format!("a/{}", "b".repeat(200))), UNKNOWN);
    }

    #[test]
    fn a_name_claims_what_its_ending_says() {
        assert_eq!(kind(b"hello", claim_of("a.b.TXT")), "text/plain");
        assert_eq!(kind(&png(8, 8), claim_of("a.txt")), "image/png");
        for name in ["txt", "a.png", "a.", "", "a.html"] {
            assert_eq!(kind(b"hello", claim_of(name)), UNKNOWN, "{name}");
        }
    }

    #[test]
    fn threat_14_huge_images_are_plain_files() {
        for bomb in [
            png(30_000, 30_000),
            png(u32::MAX, u32::MAX),
            jpeg(65_535, 65_535),
            b"GIF89a\xff\xff\xff\xff".to_vec(),
            b"RIFF\x01\x02\x03\x04WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff".to_vec(),
            b"RIFF\x01\x02\x03\x04WEBPVP8L\0\0\0\0\x2f\xff\xff\xff\xff".to_vec(),
        ] {
            assert_eq!(kind(&bomb, "image/png"), UNKNOWN);
        }
        assert_eq!(kind(&png(7_000, 7_000), ""), "image/png");
        assert_eq!(kind(&jpeg(7_000, 7_000), ""), "image/jpeg");
    }

    #[test]
    fn jpeg_without_size_is_plain_file() {
        let endless = [b"\xff\xd8".to_vec(), b"\xff\xe0\0\x02".repeat(100_000)].concat();
        for bytes in [
            &endless[..],
            b"\xff\xd8\xff",
            b"\xff\xd8\xff\xda\0\x02\xff\xc0",
            b"\xff\xd8\xff\xe0\xff\xff",
        ] {
            assert_eq!(kind(bytes, "image/jpeg"), UNKNOWN);
        }
    }
}
