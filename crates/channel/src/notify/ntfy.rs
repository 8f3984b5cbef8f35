//! ntfy: one call that publishes to a topic of a server.
//!
//! Topics come from the configuration alone. They are called as JSON, so that no text becomes a header.

use crate::guard::AddressGuard;
use crate::guarded_post::GuardedPost;
use crate::secret::{Secret, SecretFile, bearer};
use bridge_core::value::{Class, Failure};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The longest file with a token.
const FILE_MAX_BYTES: u64 = 4_096;
/// The longest name of a topic.
const TOPIC_MAX_CHARS: usize = 64;

/// Publishes to topics.
#[derive(Clone, Debug)]
pub struct Ntfy {
    post: GuardedPost,
    server: Option<Url>,
    token_file: Option<PathBuf>,
}

impl Default for Ntfy {
    fn default() -> Self {
        Self::new(None, None, Vec::new())
    }
}

/// How loud it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NtfyPriority {
    Default,
    High,
}

/// What is published.
#[derive(Clone, Copy, Debug)]
pub struct NtfyMessage<'a> {
    pub title: &'a str,
    pub text: &'a str,
    /// What a tap opens.
    pub link: Option<&'a str>,
    pub priority: NtfyPriority,
}

/// A topic, and the server it is on.
#[derive(Debug, PartialEq, Eq)]
struct Topic {
    server: Url,
    name: String,
}

impl Ntfy {
    /// Publishes to the operator's server, which may be of this network, as may those at `origins`.
    #[must_use]
    pub fn new(server: Option<Url>, token_file: Option<PathBuf>, mut origins: Vec<Url>) -> Self {
        origins.extend(server.clone());
        Self {
            post: GuardedPost::new(AddressGuard::new(origins), "the ntfy server"),
            server,
            token_file,
        }
    }

    /// Why a topic can't be one.
    pub fn check(&self, target: &str) -> Result<(), String> {
        let topic = self.topic(target)?;
        self.post.check(topic.server.as_str())?;
        self.token(&topic).map(drop)
    }

    /// The token: no text may carry it.
    #[must_use]
    pub fn secret(&self) -> Option<Secret> {
        read_token(self.token_file.as_deref()?).ok()
    }

    /// Publishes once.
    pub async fn publish(&self, target: &str, message: NtfyMessage<'_>) -> Result<(), Failure> {
        let config = |reason| Failure::new(Class::Config, reason);
        let topic = self.topic(target).map_err(config)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = self.token(&topic).map_err(config)? {
            let token = bearer(token.expose());
            let token = token.map_err(|_| config(not_a_token(self.token_file.as_deref())))?;
            headers.insert(AUTHORIZATION, token);
        }
        let mut body = json!({
            "topic": topic.name,
            "title": message.title,
            "message": message.text,
            "priority": match message.priority {
                NtfyPriority::Default => 3,
                NtfyPriority::High => 4,
            },
        });
        if let Some(link) = message.link {
            body["click"] = link.into();
        }
        let server = topic.server.as_str();
        self.post.post(server, headers, body.to_string()).await
    }

    /// The token is for the configured server alone.
    fn token(&self, topic: &Topic) -> Result<Option<Secret>, String> {
        let own = self.server.as_ref().map(Url::origin);
        match &self.token_file {
            Some(path) if own == Some(topic.server.origin()) => read_token(path).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    fn topic(&self, target: &str) -> Result<Topic, String> {
        let (server, name) = match Url::parse(target) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                let path = url.path().trim_matches('/').to_owned();
                let mut server = url;
                server.set_path("/");
                (server, path)
            }
            Ok(_) | Err(_) => {
                let Some(server) = self.server.clone() else {
                    return Err(format!(
                        "notify target ntfy:{target}: set `notify.ntfy.server`, or write the whole address (ntfy:https://ntfy.example/topic)"
                    ));
                };
                (server, target.to_owned())
            }
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > TOPIC_MAX_CHARS || !name.chars().all(fits) {
            return Err(format!(
                "notify target ntfy:{target}: a topic is 1 to {TOPIC_MAX_CHARS} letters, digits, `-` and `_`"
            ));
        }
        Ok(Topic { server, name })
    }
}

fn not_a_token(path: Option<&Path>) -> String {
    let path = path.unwrap_or_else(|| Path::new("")).display();
    format!(
        "the file of the ntfy token {path} holds no token: one line, as `ntfy token add` gives it"
    )
}

fn read_token(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let file = SecretFile::read(path, FILE_MAX_BYTES)
        .map_err(|error| format!("the file of the ntfy token {shown} can't be read ({error})"))?;
    if !file.is_private {
        return Err(format!(
            "the file of the ntfy token {shown} can be read by others: chmod 600 {shown}"
        ));
    }
    match file.text.trim() {
        token if token.is_empty() || bearer(token).is_err() => Err(not_a_token(Some(path))),
        token => Ok(Secret::new(token)),
    }
}

#[cfg(test)]
mod tests;
