//! What a file is called. A sender's name for a file is a label: what is left of it here can be shown, and can be
//! one component of a path, whatever it was before.
//!
//! Where files lie is not decided here.

/// Longest name in characters.
const NAME_MAX_CHARS: usize = 100;
/// Longest name in bytes: file systems take 255, and there must be room for a mark in front of it.
const NAME_MAX_BYTES: usize = 200;
/// Longest ending that survives a cut.
const ENDING_MAX_BYTES: usize = 16;
/// The name of what has none.
const NAMELESS: &str = "file";
/// Names that are devices on some systems, whatever ending they have.
const DEVICES: [&str; 8] = [
    "CON", "PRN", "AUX", "NUL", "COM", "LPT", "CONIN$", "CONOUT$",
];

/// A name that can be shown and used as one component of a path.
#[must_use]
pub fn clean(label: &str) -> String {
    let last = label.rsplit(['/', '\\']).next().unwrap_or_default();
    // A label may be megabytes long; what is behind the limit can't be seen anyway, except its ending.
    let mut name = String::new();
    for c in cut(last).chars().filter(|c| !is_unseen(*c)) {
        match c {
            c if c.is_whitespace() => name.push(' '),
            ':' | '*' | '?' | '"' | '<' | '>' | '|' | '`' | '$' | ';' | '&' => name.push('_'),
            c => name.push(c),
        }
    }
    let name = name
        .trim_start_matches(['.', '-', ' ', '~'])
        .trim_end_matches(['.', ' ']);
    match name {
        "" => NAMELESS.to_owned(),
        device if is_device(device) => format!("{NAMELESS}-{device}"),
        name => name.to_owned(),
    }
}

/// Names of one message: each is given once, also on a file system that does not tell `A` from `a`.
#[derive(Debug, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// A clean name that no file before it has.
    pub fn give(&mut self, label: &str) -> String {
        let name = clean(label);
        let (stem, ending) = split(&name);
        let free = std::iter::once(name.clone())
            .chain((2..).map(|n| format!("{stem} ({n}){ending}")))
            .find(|name| !self.0.contains(&name.to_lowercase()))
            .unwrap_or(name);
        self.0.push(free.to_lowercase());
        free
    }
}

/// Characters that change how others are read, or are not seen at all.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{e0000}'..='\u{e007f}')
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let bare = match stem.char_indices().next_back() {
        Some((at, last)) if at == 3 && (last.is_ascii_digit() || "¹²³".contains(last)) => {
            stem.get(..at).unwrap_or(stem)
        }
        Some(_) | None => stem,
    };
    DEVICES
        .iter()
        .any(|device| bare.eq_ignore_ascii_case(device))
}

/// Stem and ending, the ending with its dot.
fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= ENDING_MAX_BYTES => name.split_at(at),
        Some(_) | None => (name, ""),
    }
}

/// Cuts in the middle, so that the ending still says what it is.
fn cut(name: &str) -> String {
    let fits = name.len() <= NAME_MAX_BYTES && name.chars().count() <= NAME_MAX_CHARS;
    if fits {
        return name.to_owned();
    }
    let (stem, ending) = split(name);
    let mut short = String::new();
    for (count, c) in stem.chars().enumerate() {
        let full = count + ending.chars().count() >= NAME_MAX_CHARS
            || short.len() + c.len_utf8() + ending.len() > NAME_MAX_BYTES;
        if full {
            break;
        }
        short.push(c);
    }
    short + ending
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Component, Path};

    #[test]
    fn threat_14_file_names_are_sanitized() {
        for (label, name) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("/etc/shadow", "shadow"),
            ("..\\..\\boot.ini", "boot.ini"),
            ("C:\\Users\\x\\a b.txt", "a b.txt"),
            ("C:evil", "C_evil"),
            ("..", "file"),
            ("../", "file"),
            ("", "file"),
            (" . ", "file"),
            ("\0", "file"),
            ("a\0b.txt", "ab.txt"),
            ("a\nb\r\t.txt", "ab.txt"),
            (".bashrc", "bashrc"),
            ("-rf", "rf"),
            ("--help.txt", "help.txt"),
            ("~root", "root"),
            ("CON", "file-CON"),
            ("nul.txt", "file-nul.txt"),
            ("com1.tar.gz", "file-com1.tar.gz"),
            ("LPT²", "file-LPT²"),
            ("console.log", "console.log"),
            ("$(reboot).txt", "_(reboot).txt"),
            ("a`id`;x&y|z.txt", "a_id__x_y_z.txt"),
            ("photo\u{202e}gnp.exe", "photognp.exe"),
            ("\u{200b}\u{feff}x", "x"),
            ("Übersicht äöü 表.xlsx", "Übersicht äöü 表.xlsx"),
            ("e\u{301}te\u{301}.txt", "e\u{301}te\u{301}.txt"),
            ("trailing. . .", "trailing"),
        ] {
            assert_eq!(clean(label), name, "{label:?}");
        }
    }

    #[test]
    fn threat_14_names_are_one_short_component() {
        let long = "x".repeat(5_000_000);
        let wide = "🦀".repeat(5_000);
        let mut labels: Vec<String> = vec![
            long.clone(),
            format!("{long}.tar"),
            wide.clone(),
            format!("{wide}.jpeg"),
            format!("a.{long}"),
            ".".repeat(400),
            "-".repeat(400),
        ];
        labels.extend(
            (0..0x1_0000_u32)
                .filter_map(char::from_u32)
                .map(|c| format!("{c}{c}/{c}.{c}")),
        );
        for label in &labels {
            let name = clean(label);
            let parts: Vec<Component> = Path::new(&name).components().collect();
            assert!(
                matches!(parts.as_slice(), [Component::Normal(one)] if **one == *name),
                "{name:?}"
            );
            assert!(
                name.chars().count() <= NAME_MAX_CHARS + NAMELESS.len() + 1,
                "{name:?}"
            );
            assert!(
                name.len() <= NAME_MAX_BYTES + NAMELESS.len() + 1,
                "{name:?}"
            );
            assert!(
                !name.starts_with(['.', '-']) && !name.contains('\0'),
                "{name:?}"
            );
            assert_eq!(clean(&name), name, "a clean name stays as it is");
        }
        assert!(clean(&format!("{long}.tar")).ends_with("x.tar"));
    }

    #[test]
    fn threat_14_equal_names_stay_distinct() {
        let mut names = Names::default();
        assert_eq!(names.give("a.txt"), "a.txt");
        assert_eq!(names.give("x/A.TXT"), "A (2).TXT");
        assert_eq!(names.give("a (2).txt"), "a (2) (2).txt");
        assert_eq!(names.give("a.txt"), "a (3).txt");
        let given: std::collections::HashSet<String> =
            (0..500).map(|_| names.give("../same")).collect();
        assert_eq!(given.len(), 500);
    }
}
