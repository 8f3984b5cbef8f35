//! Our bearer token for another agent: read from its file for every call, so that a new one needs no restart, and
//! never shown.

use super::fault::Fault;
use crate::molecule::Secret;
use bridge_core::secrets::Secrets;
use reqwest::Url;
use reqwest::header::HeaderValue;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The longest token.
const TOKEN_MAX_BYTES: u64 = 4_096;

/// The token that a file of mode 0600 holds.
pub fn read(path: &Path) -> Result<Secret, Fault> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        Fault::Token(format!(
            "the token file {shown} can't be read ({error}): put the agent's token there, mode 0600"
        ))
    };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
        let why = format!("the token file {shown} can be read by others: chmod 600 {shown}");
        return Err(Fault::Token(why));
    }
    let mut text = String::new();
    file.take(TOKEN_MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    let token = text.trim();
    let fits = !token.is_empty()
        && token.len() as u64 <= TOKEN_MAX_BYTES
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(Secret::new(token))
    } else {
        Err(Fault::Token(format!(
            "the token file {shown} holds no token: one word of at most {TOKEN_MAX_BYTES} letters and digits"
        )))
    }
}

/// It as something that no quoted text may hold.
pub(super) fn secrets_of(token: &Secret) -> Secrets {
    Secrets::new([token.expose()])
}

/// The header that carries it.
pub(super) fn header(token: &Secret) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
        .map_err(|_| Fault::Token("the token can't stand in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether nobody on the way could read it.
pub(super) fn is_safe_to(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let here = bare == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    url.scheme() == "https" || here
}
