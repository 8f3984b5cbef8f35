//! What `send` and `start` share: paths and files for the daemon, and words about where Codex works and what it took.

use super::api::ApiClient;
use super::page::Page;
use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bridge_daemon::term::{escape, span};
use bridge_front::FileUpload;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most bytes of all files of a message: in base64 they fit into one call.
const FILES_MAX_BYTES: u64 = 5 * 1024 * 1024;

/// The daemon works elsewhere: it needs the whole path.
pub(crate) fn whole_path(path: &Path) -> anyhow::Result<String> {
    let whole = std::path::absolute(path)?;
    let text = whole.to_str().map(ToOwned::to_owned);
    text.ok_or_else(|| anyhow!("{} is not UTF-8", whole.display()))
}

/// Reads files that go with a message.
pub(crate) fn uploads(paths: &[PathBuf]) -> anyhow::Result<Vec<FileUpload>> {
    let mut room = FILES_MAX_BYTES;
    let mut files = Vec::new();
    for path in paths {
        let shown = path.display();
        let opened = std::fs::File::open(path).with_context(|| format!("the file {shown}"))?;
        let mut bytes = Vec::new();
        let read = opened.take(room.saturating_add(1)).read_to_end(&mut bytes);
        read.with_context(|| format!("the file {shown}"))?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        room = match room.checked_sub(length) {
            Some(room) => room,
            None => bail!(
                "the files hold more than {FILES_MAX_BYTES} bytes together, at {shown}: put them into a directory that Codex works in (--cwd) and name them in the text"
            ),
        };
        let name = path.file_name().unwrap_or(path.as_os_str());
        files.push(FileUpload {
            name: name.to_string_lossy().into_owned(),
            data: BASE64_STANDARD.encode(&bytes),
        });
    }
    Ok(files)
}

/// Where Codex works and what it may do there.
pub(crate) fn works_in(cwd: &str, sandbox: &str) -> String {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let below = home.and_then(|home| Path::new(cwd).strip_prefix(home).ok().map(Path::to_owned));
    let place = match below {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => cwd.to_owned(),
    };
    let may = match sandbox {
        "read-only" => "may only read",
        "workspace-write" => "may write there",
        _ => "may do anything",
    };
    format!("works in {place}, {may}")
}

/// What a message took: time, and tokens if the daemon counted any.
pub(crate) async fn spent(client: &ApiClient, message_id: &str, took: Duration) -> String {
    let story = client.message(message_id).await.ok();
    let attempts = story.iter().flat_map(|story| &story.attempts);
    let tokens: i64 = attempts
        .map(|attempt| attempt.input_tokens.saturating_add(attempt.output_tokens))
        .fold(0, i64::saturating_add);
    let took = span(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
    match tokens {
        1.. => format!("{took}, {} tokens", grouped(tokens)),
        _ => took,
    }
}

/// A number in groups of three digits.
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        let left = digits.len().saturating_sub(at);
        if at > 0 && left.is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An answer as stdout shows it: Markdown is rendered on a terminal, and left as it is elsewhere or by wish.
pub(crate) fn answer_text(text: &str, raw: bool, no_color: bool) -> String {
    let mut page = Page::stdout(no_color);
    if raw || page.width().is_none() {
        return escape(text).into_owned();
    }
    page.answer(0, text);
    page.into_text().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        for (number, text) in [
            (7, "7"),
            (999, "999"),
            (3402, "3,402"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn place_names_rights_in_words() {
        assert_eq!(
            works_in("/srv/x", "workspace-write"),
            "works in /srv/x, may write there"
        );
        assert_eq!(
            works_in("/srv/x", "read-only"),
            "works in /srv/x, may only read"
        );
    }

    #[test]
    fn files_too_large_together_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("a.bin");
        std::fs::write(&at, vec![0; 3 * 1024 * 1024]).unwrap();
        assert_eq!(uploads(std::slice::from_ref(&at)).unwrap()[0].name, "a.bin");
        let refused = uploads(&[at.clone(), at]).unwrap_err().to_string();
        assert!(refused.contains("--cwd"), "{refused}");
    }
}
