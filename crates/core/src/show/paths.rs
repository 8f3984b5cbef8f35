//! Takes paths of this machine out of texts that leave it. The owner reads the same text whole.

/// Stands for a path.
const HIDDEN: &str = "<path>";
/// A URL of this scheme is a path.
const FILE_SCHEME: &str = "file";

/// The text with `<path>` for every absolute path that has more than one step; addresses on the web stay.
#[must_use]
pub fn without_paths(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut before: Option<char> = None;
    while let Some(c) = rest.chars().next() {
        if let Some((scheme, address)) = url(rest, before) {
            if scheme.eq_ignore_ascii_case(FILE_SCHEME) {
                shown.push_str(HIDDEN)
            } else {
                shown.push_str(address)
            }
            before = address.chars().next_back();
            rest = rest.get(address.len()..).unwrap_or_default();
            continue;
        }
        let begins = matches!(c, '/' | '~') && before.is_none_or(may_precede);
        let length = if begins { path_length(rest, before) } else { 0 };
        if length > 0 {
            shown.push_str(HIDDEN);
            before = Some('>');
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        shown.push(c);
        before = Some(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    shown
}

/// A URL at the beginning of a text: its scheme, and the whole of it.
fn url(text: &str, before: Option<char>) -> Option<(&str, &str)> {
    if before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let scheme_end = text.find(|c: char| !c.is_ascii_alphanumeric())?;
    let (scheme, rest) = text.split_at(scheme_end);
    if scheme.is_empty() || !rest.starts_with("://") {
        return None;
    }
    let end = text.find(is_end).unwrap_or(text.len());
    Some((scheme, text.get(..end).unwrap_or_default()))
}

/// What a path can stand behind; a slash behind a letter is within a word.
fn may_precede(c: char) -> bool {
    !c.is_alphanumeric() && !matches!(c, '/' | '.' | '-' | '_' | '>' | '~')
}

fn is_end(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | '`' | '<' | '>' | '|' | ';' | ',' | ')' | ']' | '}'
        )
}

/// Bytes of the path at the beginning of a text; 0 when it has one step only, such as a word for the bridge (`/stop`).
/// In quotes it ends with them, because names may hold blanks.
fn path_length(text: &str, before: Option<char>) -> usize {
    let quote = before.filter(|c| matches!(c, '"' | '\'' | '`'));
    let closed = quote.and_then(|quote| text.find(quote));
    let end = closed.unwrap_or_else(|| text.find(is_end).unwrap_or(text.len()));
    let whole = text.get(..end).unwrap_or_default();
    let path = match closed {
        Some(_) => whole,
        // The full stop or colon of a sentence is no part of it.
        None => whole.trim_end_matches(['.', ':', '?', '!']),
    };
    let steps = path.split('/').filter(|step| !step.is_empty()).count();
    if steps > 1 { path.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f10_paths_are_taken_out_of_texts() {
        for (text, shown) in [
            (
                "run cat /root/.local/state/codex-bridge/token",
                "run cat <path>",
            ),
            (
                "can't open \"/home/a b/state/x.db\": gone",
                "can't open \"<path>\": gone",
            ),
            ("`/srv/state/a`, then /srv/b/c.", "`<path>`, then <path>."),
            (
                "CODEX_HOME=/root/.codex: no login",
                "CODEX_HOME=<path>: no login",
            ),
            ("see file:///root/.codex/auth.json", "see <path>"),
            ("~/.codex/auth.json (os error 2)", "<path> (os error 2)"),
            ("--cd=/a/b:/c/d", "--cd=<path>"),
        ] {
            assert_eq!(without_paths(text), shown);
        }
    }

    #[test]
    fn f10_other_slashes_stay() {
        for text in [
            "and/or 1/2, a/b/c",
            "write /stop or `/status`",
            "https://example.org/a/b?c=/d/e, and http://[::1]:80/x/y",
            "no slash at all",
            "/",
            "",
            "ä/ö/ü",
        ] {
            assert_eq!(without_paths(text), text);
        }
    }
}
