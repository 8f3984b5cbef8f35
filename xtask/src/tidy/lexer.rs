//! Splits Rust source into what is code and what is comment, line for line.
//!
//! Just enough of the language for counting braces and finding names: strings and
//! characters are blanked, because they are neither. It does not parse.

/// A source text twice, each with the other parts replaced by blanks; both have the
/// lines of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) code: String,
    pub(super) comments: String,
}

#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    /// Strings and characters: in neither text.
    Literal,
}

pub(super) fn split(source: &str) -> Split {
    let mut lexer = Lexer {
        rest: source,
        split: Split {
            code: String::with_capacity(source.len()),
            comments: String::with_capacity(source.len()),
        },
    };
    while !lexer.rest.is_empty() {
        let (length, part) = next(lexer.rest);
        lexer.take(length, part);
    }
    lexer.split
}

struct Lexer<'a> {
    rest: &'a str,
    split: Split,
}

impl Lexer<'_> {
    fn take(&mut self, length: usize, part: Part) {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .unwrap_or((self.rest, ""));
        self.rest = rest;
        for character in taken.chars() {
            let blank = if character == '\n' { '\n' } else { ' ' };
            let (code, comment) = match part {
                Part::Code => (character, blank),
                Part::Comment => (blank, character),
                Part::Literal => (blank, blank),
            };
            self.split.code.push(code);
            self.split.comments.push(comment);
        }
    }
}

/// How long the next piece is, and what it is. Identifiers are taken whole, so that
/// the `r` of `bar"…"` is not read as the start of a raw string.
fn next(rest: &str) -> (usize, Part) {
    let first = rest.chars().next().unwrap_or(' ');
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Part::Comment);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), Part::Comment);
    }
    if let Some(length) = string(rest) {
        return (length, Part::Literal);
    }
    if first == '\'' {
        return match character(rest) {
            Some(length) => (length, Part::Literal),
            None => (1, Part::Code),
        };
    }
    if is_word(first) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        return (length, Part::Code);
    }
    (first.len_utf8(), Part::Code)
}

pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of a string literal of any kind that starts here.
fn string(rest: &str) -> Option<usize> {
    let prefix = rest
        .find(|c| !matches!(c, 'b' | 'c' | 'r'))
        .filter(|at| *at <= 2)?;
    let (letters, body) = rest.split_at(prefix);
    if letters.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let (fence, body) = body.split_at(hashes);
        let text = body.strip_prefix('"')?;
        let close = format!("\"{fence}");
        let length = text.find(&close).map_or(text.len(), |at| at + close.len());
        return Some(prefix + hashes + 1 + length);
    }
    let text = body.strip_prefix('"')?;
    Some(prefix + 1 + until_quote(text, '"'))
}

/// The length of a character literal that starts here, or none for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let text = rest.strip_prefix('\'')?;
    let mut characters = text.chars();
    let first = characters.next()?;
    if first == '\\' || characters.next() == Some('\'') {
        Some(1 + until_quote(text, '\''))
    } else {
        None
    }
}

fn until_quote(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return at + quote.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> String {
        split(source).code
    }

    #[test]
    fn comments_are_apart_from_code() {
        let split = split("let a = 1; // one {\n/* two /* three */ { */ b();\n");
        assert_eq!(
            split.code,
            "let a = 1;         \n                        b();\n"
        );
        assert_eq!(
            split.comments,
            "           // one {\n/* two /* three */ { */     \n"
        );
    }

    #[test]
    fn strings_are_in_neither() {
        for source in [
            r#"f("{ \" // }");"#,
            r##"f(r#"{ " // }"#);"##,
            r#"f(b"{ //", c"{");"#,
            r##"f(br#"{"#);"##,
            r#"f('{', '\'', '\\', '"', b'{');"#,
        ] {
            let code = code(source);
            assert!(
                !code.contains('{') && !code.contains("//"),
                "{source} -> {code}"
            );
            assert!(
                code.starts_with("f(") && code.ends_with(");"),
                "{source} -> {code}"
            );
        }
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        for source in [
            "fn f<'a>(x: &'a str) {}",
            "let r#type = bar;",
            "'outer: loop {}",
        ] {
            assert_eq!(code(source), source);
        }
    }

    #[test]
    fn lines_stay() {
        let source = "let a = \"one\ntwo\";\n// é\nlet b = 'é';\n";
        assert_eq!(code(source).lines().count(), source.lines().count());
        assert!(code(source).contains("let b ="));
    }

    #[test]
    fn what_never_ends_ends_with_the_file() {
        for source in ["\"abc", "/* abc", "r#\"abc\"", "'\\", "b'"] {
            assert_eq!(code(source).len(), source.len(), "{source}");
        }
    }
}
