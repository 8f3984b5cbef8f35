//! Bounded text: what people are shown must fit in a line, whatever Codex sends.
//!
//! Cutting happens on character borders. Escaping for a channel does not belong here.

/// Longest headline in bytes: one line of a chat or a log, never a whole script.
pub(crate) const MAX_HEADLINE_BYTES: usize = 160;

/// Cuts `text` to at most `limit` bytes on a character border.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

/// One line of at most `limit` bytes: line breaks and other control characters become single
/// spaces, and an ellipsis says that something is missing.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    let mut line = String::with_capacity(text.len().min(limit));
    let mut gap = false;
    for c in text.trim().chars() {
        if c.is_whitespace() || c.is_control() {
            gap = true;
            continue;
        }
        let needed = c.len_utf8() + usize::from(gap);
        if line.len() + needed + ELLIPSIS.len() > limit {
            line.push_str(ELLIPSIS);
            return line;
        }
        if gap {
            line.push(' ');
            gap = false;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_truncates_at_character_boundaries() {
        assert_eq!(one_line("  a\r\n\tb \u{7}c ", 80), "a b c");
        assert_eq!(one_line("ééééé", 8), "éé…");
        assert!(one_line(&"x".repeat(10_000), 160).len() <= 160);
        assert_eq!(head("ééé", 3), "é");
        assert_eq!(head("abc", 99), "abc");
    }
}
