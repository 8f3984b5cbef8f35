//! What a person looks at: escaping of foreign text, colours only on a terminal, times in words.
//!
//! Text from Codex or a channel goes through [`escape`] before it reaches a terminal or a log: it could set
//! titles, move the cursor, write the clipboard or reverse the reading direction.

use bridge_core::show::is_hidden;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use tokio::signal::unix::{SignalKind, signal};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Resolves at the next Ctrl-C. The signal is caught from the call on, not from the first poll: whoever has seen a
/// prompt may press it at once. Where it can't be caught it ends the process, as without us.
pub fn interrupted() -> impl Future<Output = ()> {
    let caught = signal(SignalKind::interrupt());
    async move {
        match caught {
            Ok(mut caught) => {
                caught.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
}

/// Prints lines on stdout. A reader that went away wants no more of it, which is no fault; `println!` would panic.
///
/// Anything else that keeps the text from its reader, a full disk for one, is an error that somebody must hear.
pub fn print(text: &str) -> io::Result<()> {
    print_whole(&format!("{text}\n"))
}

/// The same for a text that has its line end already.
pub fn print_whole(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Says something on stderr. Where nobody can hear it, the exit code still tells.
pub fn complain(text: &str) {
    let _written = writeln!(io::stderr().lock(), "{text}");
}

/// The text with control and direction characters made visible; line ends and tabs stay.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_with(text, |c| matches!(c, '\n' | '\t'))
}

/// The text on one line, with every control and direction character made visible.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_with(text, |_| false)
}

fn escape_with(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_hidden(c) || keep(c) => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            '\u{1b}' => shown.push_str("\\e"),
            c => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(shown)
}

/// Colours for one stream.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Colours on stderr, if it is a terminal and nobody asked for none.
    pub fn stderr(no_color: bool) -> Self {
        Self {
            on: !no_color && std::io::stderr().is_terminal(),
        }
    }

    /// Colours on stdout, if it is a terminal and nobody asked for none.
    pub fn stdout(no_color: bool) -> Self {
        Self {
            on: !no_color && std::io::stdout().is_terminal(),
        }
    }

    pub fn plain() -> Self {
        Self { on: false }
    }

    pub fn always() -> Self {
        Self { on: true }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// For what matters less.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// For headings and names.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// For what went well.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// For what went wrong.
    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// For what somebody should look at.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// For what Codex does.
    pub fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }
}

/// Cells that a text takes on a terminal.
pub fn cells(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// A text cut into pieces of at most `width` cells, behind a space where there is one, so that nothing of it is
/// hidden; at least one piece.
pub fn fold(text: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let (mut piece, mut used) = (String::new(), 0);
    for c in text.chars() {
        let own = UnicodeWidthChar::width(c).unwrap_or(0);
        if used + own > width.max(2) {
            let cut = piece.rfind(' ').map(|at| at + 1);
            let cut = cut.filter(|cut| cells(piece.get(..*cut).unwrap_or("")) > used / 2);
            let rest = piece.split_off(cut.unwrap_or(piece.len()));
            pieces.push(std::mem::replace(&mut piece, rest));
            used = cells(&piece);
        }
        piece.push(c);
        used += own;
    }
    pieces.push(piece);
    pieces
}

/// The end of a text, as much of it as `width` cells show.
pub fn tail(text: &str, width: usize) -> String {
    let mut used = 0;
    let kept: Vec<char> = text
        .chars()
        .rev()
        .take_while(|c| {
            used += UnicodeWidthChar::width(*c).unwrap_or(0);
            used <= width
        })
        .collect();
    kept.into_iter().rev().collect()
}

/// A moment as people write it, in local time: `14:02` today, `Mon 14:02` within a week, else with its date.
pub fn when(ms: i64) -> String {
    moment(ms, &jiff::Zoned::now())
}

/// The same, as it is said at `now` in its time zone.
pub fn moment(ms: i64, now: &jiff::Zoned) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(ms) else {
        return format!("{ms} ms");
    };
    let at = at.to_zoned(now.time_zone().clone());
    let days = now.date().since(at.date()).map(|span| span.get_days());
    let form = match days {
        Ok(0) => "%H:%M",
        Ok(1..7) => "%a %H:%M",
        Ok(_) | Err(_) => "%Y-%m-%d %H:%M",
    };
    at.strftime(form).to_string()
}

/// A length of time as people say it.
pub fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3_600);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..3_600 => format!("{minutes} min"),
        3_600..86_400 if minutes > 0 => format!("{hours} h {minutes} min"),
        3_600..172_800 => format!("{hours} h"),
        _ => format!("{} d", hours / 24),
    }
}

/// An amount of bytes as people say it.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        1_048_576..10_737_418_240 => format!("{} MiB", bytes / 1_048_576),
        _ => format!("{} GiB", bytes / 1_073_741_824),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_said_in_words() {
        for (ms, said) in [
            (-5, "0 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (3_900_000, "1 h 5 min"),
            (7_200_000, "2 h"),
            (100_000_000, "27 h"),
            (172_800_000, "2 d"),
        ] {
            assert_eq!(span(ms), said);
        }
        assert_eq!(size(1_023), "1023 B");
        assert_eq!(size(2_048), "2 KiB");
        assert_eq!(size(3 << 20), "3 MiB");
        assert_eq!(size(77_345 << 20), "75 GiB");
    }

    #[test]
    fn moments_are_local_and_short() {
        let now: jiff::Zoned = "2026-11-18T14:30:00+01:00[+01:00]".parse().unwrap();
        let said = |at: &str| {
            moment(
                at.parse::<jiff::Timestamp>().unwrap().as_millisecond(),
                &now,
            )
        };
        assert_eq!(said("2026-11-18T13:02:00Z"), "14:02");
        assert_eq!(said("2026-11-17T23:02:00Z"), "00:02");
        assert_eq!(said("2026-11-16T13:02:00Z"), "Mon 14:02");
        assert_eq!(said("2026-11-11T13:02:00Z"), "2026-11-11 14:02");
        assert_eq!(said("2026-11-19T13:02:00Z"), "2026-11-19 14:02");
    }

    #[test]
    fn fold_counts_terminal_cells() {
        assert_eq!(fold("", 5), [""]);
        assert_eq!(fold("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(fold("漢字ab", 3), ["漢", "字a", "b"]);
        assert_eq!(fold("one two three", 9), ["one two ", "three"]);
        assert_eq!(fold("a bcdefghijk", 6), ["a bcde", "fghijk"]);
        assert_eq!(fold("aaa     b", 5), ["aaa  ", "   b"]);
        assert_eq!(cells("漢a"), 3);
        assert_eq!(tail("abc漢", 3), "c漢");
        assert_eq!(tail("ab", 9), "ab");
    }

    #[test]
    fn threat_20_terminal_sequences_are_escaped() {
        for (text, shown) in [
            (
                "plain text\twith\nlines ü 漢",
                "plain text\twith\nlines ü 漢",
            ),
            ("\u{1b}]52;c;aGk=\u{7}", "\\e]52;c;aGk=\\u{7}"),
            ("\u{1b}]0;title\u{1b}\\", "\\e]0;title\\e\\"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\rb", "a\\rb"),
            ("exe\u{202e}fdp.", "exe\\u{202e}fdp."),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("\u{8}\u{7f}", "\\u{8}\\u{7f}"),
        ] {
            assert_eq!(escape(text), shown);
            assert!(
                !escape(text)
                    .chars()
                    .any(|c| is_hidden(c) && c != '\n' && c != '\t')
            );
        }
        assert_eq!(escape_line("a\nb\tc"), "a\\nb\\tc");
    }
}
