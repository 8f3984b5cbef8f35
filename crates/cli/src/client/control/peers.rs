//! `peers add`, `list` and `revoke`: agents that may give Codex tasks over A2A. Each is a token with that one scope.

use super::stop::revoked_words;
use super::token::fits;
use super::words::text;
use super::{answered, refused};
use crate::cli::PeersCommand;
use crate::client::api::{ApiClient, ClientError};
use crate::client::show::{print, print_json};
use bridge_daemon::term::{self, escape_line, when};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The scope that makes a token a peer's.
const SCOPE: &str = "a2a";
/// How the daemon calls the place where agents call.
const CHANNEL: &str = bridge_core::channels::A2A;

pub(super) async fn peers(client: &ApiClient, command: PeersCommand) -> ExitCode {
    match command {
        PeersCommand::Add { name, rotate, json } => add(client, &name, rotate, json).await,
        PeersCommand::List { json } => {
            let found = list(client).await.map(|peers| json!({ "peers": peers }));
            answered(client, found, json, |page| {
                (list_words(page), ExitCode::SUCCESS)
            })
        }
        PeersCommand::Revoke { name, json } => {
            let done = revoke(client, &name).await;
            answered(client, done, json, |done| {
                let said = format!(
                    "{}; its tasks are seen by whoever gets the name with `peers add --rotate`",
                    revoked_words(&name, done)
                );
                (escape_line(&said).into_owned(), ExitCode::SUCCESS)
            })
        }
    }
}

/// The token goes alone to stdout, so that it can be put into a file without being seen.
async fn add(client: &ApiClient, name: &str, rotate: bool, json: bool) -> ExitCode {
    let body = json!({ "name": name, "scopes": [SCOPE], "rotate": rotate });
    let made: Result<Value, ClientError> = client.post("/v1/tokens", Some(&body), None).await;
    match made {
        Ok(made) if json => print_json(&made, ExitCode::SUCCESS),
        Ok(made) => {
            let said = format!("{name} may give Codex tasks over A2A, and nothing else.");
            term::complain(&escape_line(&said));
            term::complain(&escape_line(&where_to_call(client).await));
            term::complain("Its token is shown once and kept nowhere:");
            print(&escape_line(text(&made, "token")), ExitCode::SUCCESS)
        }
        Err(error) => refused(client, &error, json),
    }
}

async fn where_to_call(client: &ApiClient) -> String {
    let status = client.status().await;
    let channels = status.map(|status| status.health.channels);
    let a2a = channels.unwrap_or_default().into_iter();
    match a2a.into_iter().find(|channel| channel.channel == CHANNEL) {
        Some(channel) => channel.detail,
        None => "Nobody can call yet: the daemon serves no TCP (`http.listen`), or a2a.enabled is false.".to_owned(),
    }
}

async fn list(client: &ApiClient) -> Result<Vec<Value>, ClientError> {
    let mut page: Value = client.get("/v1/tokens").await?;
    let tokens = match page["tokens"].take() {
        Value::Array(tokens) => tokens,
        _ => Vec::new(),
    };
    let is_peer = |token: &Value| token["scopes"] == json!([SCOPE]);
    Ok(tokens.into_iter().filter(is_peer).collect())
}

/// Only a peer: a token that may do more is somebody else's business.
async fn revoke(client: &ApiClient, name: &str) -> Result<Value, ClientError> {
    fits(name)?;
    // Also one that is revoked: what it sent may still wait, if the daemon died while it was.
    let known = |peer: &Value| peer["name"] == name;
    if list(client).await?.iter().any(known) {
        client.delete(&format!("/v1/tokens/{name}")).await
    } else {
        Err(ClientError::NoPeer(name.to_owned()))
    }
}

fn list_words(page: &Value) -> String {
    let peers = page["peers"].as_array().map_or(&[][..], Vec::as_slice);
    if peers.is_empty() {
        return "no peers; `codex-bridge peers add NAME` makes one".to_owned();
    }
    let line = |peer: &Value| {
        let state = match (peer["revoked_at"].as_i64(), peer["last_used_at"].as_i64()) {
            (Some(at), _) => format!("revoked {}", when(at)),
            (None, Some(at)) => format!("last called {}", when(at)),
            (None, None) => "never called".to_owned(),
        };
        let said = format!("{}: {state}", text(peer, "name"));
        escape_line(&said).into_owned()
    };
    peers.iter().map(line).collect::<Vec<_>>().join("\n")
}
