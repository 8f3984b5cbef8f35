//! `token`, `peers` and `stop`: the senders that call over TCP, their credentials, and the end of all that one sent. A
//! peer is a token with the scope `a2a` alone.

use super::answered;
use crate::cli::{OutputArgs, PeersCommand, TokenCommand};
use crate::client::api::{ApiClient, ClientError};
use crate::client::find::short;
use crate::client::output::{print, print_json, say};
use bridge_core::channels;
use bridge_daemon::term::{escape_line, when};
use bridge_front::{
    NewToken, Scope, StopSenderRequest, StopSenderView, TokenList, TokenMade, TokenRevoked,
    TokenView,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Ids that are named in a line; the rest is counted.
const IDS_SHOWN: usize = 10;

pub(super) async fn token(client: &ApiClient, command: TokenCommand) -> anyhow::Result<ExitCode> {
    match command {
        TokenCommand::Add {
            name,
            mut scope,
            owner,
            rotate,
            output,
        } => {
            if owner {
                scope = Scope::OWNER.map(|scope| scope.as_str().to_owned()).to_vec();
            }
            let made = add(client, name, scope, rotate).await;
            show_made(made, output, |made| {
                let scopes = made.scopes.join(", ");
                vec![format!(
                    "token {} may {scopes}; it is shown once and kept nowhere:",
                    made.name
                )]
            })
        }
        TokenCommand::List(output) => {
            let found = tokens(client).await.map(|tokens| TokenList { tokens });
            answered(found, output, |found| {
                (token_words(&found.tokens), ExitCode::SUCCESS)
            })
        }
        TokenCommand::Revoke { name, output } => {
            let done = revoke(client, &name).await;
            answered(done, output, |done| {
                let said = revoked_words(&name, done);
                (escape_line(&said).into_owned(), ExitCode::SUCCESS)
            })
        }
    }
}

pub(super) async fn peers(client: &ApiClient, command: PeersCommand) -> anyhow::Result<ExitCode> {
    match command {
        PeersCommand::Add {
            name,
            rotate,
            output,
        } => {
            let scopes = vec![Scope::A2a.as_str().to_owned()];
            let made = add(client, name, scopes, rotate).await;
            let address = if made.is_ok() && !output.json {
                where_to_call(client).await
            } else {
                String::new()
            };
            show_made(made, output, |made| {
                let name = &made.name;
                vec![
                    format!("{name} may give Codex tasks over A2A, and nothing else."),
                    address,
                    "Its token is shown once and kept nowhere:".to_owned(),
                ]
            })
        }
        PeersCommand::List(output) => {
            let found = peer_tokens(client).await.map(|peers| PeerList { peers });
            answered(found, output, |found| {
                (peer_words(&found.peers), ExitCode::SUCCESS)
            })
        }
        PeersCommand::Revoke { name, output } => {
            let done = revoke_peer(client, &name).await;
            answered(done, output, |done| {
                let said = format!(
                    "{}; its tasks are seen by whoever gets the name with `peers add --rotate`",
                    revoked_words(&name, done)
                );
                (escape_line(&said).into_owned(), ExitCode::SUCCESS)
            })
        }
    }
}

/// What `peers list --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PeerList {
    /// Tokens with the scope `a2a` alone.
    peers: Vec<TokenView>,
}

async fn add(
    client: &ApiClient,
    name: String,
    scopes: Vec<String>,
    rotate: bool,
) -> Result<TokenMade, ClientError> {
    let body = NewToken {
        name,
        scopes,
        rotate,
    };
    client.post("/v1/tokens", Some(&body), None).await
}

/// The token goes alone to stdout, so that it can be put into a file without being seen.
fn show_made(
    made: Result<TokenMade, ClientError>,
    output: OutputArgs,
    remarks: impl FnOnce(&TokenMade) -> Vec<String>,
) -> anyhow::Result<ExitCode> {
    match made {
        Ok(made) if output.json => print_json(&made, ExitCode::SUCCESS),
        Ok(made) => {
            for remark in remarks(&made) {
                say(&remark);
            }
            print(&escape_line(&made.token), ExitCode::SUCCESS)
        }
        Err(error) => Err(error.into()),
    }
}

async fn tokens(client: &ApiClient) -> Result<Vec<TokenView>, ClientError> {
    let found: TokenList = client.get("/v1/tokens").await?;
    Ok(found.tokens)
}

async fn peer_tokens(client: &ApiClient) -> Result<Vec<TokenView>, ClientError> {
    let mut found = tokens(client).await?;
    found.retain(|token| token.scopes == [Scope::A2a.as_str()]);
    Ok(found)
}

async fn revoke(client: &ApiClient, name: &str) -> Result<TokenRevoked, ClientError> {
    client
        .delete(&format!("/v1/tokens/{}", checked_name(name)?))
        .await
}

/// The name is part of a path.
fn checked_name(name: &str) -> Result<&str, ClientError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
        return Err(ClientError::NotAName(name.to_owned()));
    }
    Ok(name)
}

/// Only a peer: a token that may do more is not revoked by this command.
async fn revoke_peer(client: &ApiClient, name: &str) -> Result<TokenRevoked, ClientError> {
    checked_name(name)?;
    // Also one that is revoked already: its messages may still wait, if the daemon died in between.
    let peers = peer_tokens(client).await?;
    if peers.iter().any(|peer| peer.name == name) {
        revoke(client, name).await
    } else {
        Err(ClientError::NoPeer(name.to_owned()))
    }
}

/// Where agents call, as the status of the A2A channel says.
async fn where_to_call(client: &ApiClient) -> String {
    let status = client.status().await;
    let channels = status.map(|status| status.health.channels);
    let mut channels = channels.unwrap_or_default().into_iter();
    match channels.find(|channel| channel.channel == channels::A2A) {
        Some(channel) => channel.detail,
        None => "Nobody can call yet: the daemon serves no TCP (`http.listen`), or a2a.enabled is false.".to_owned(),
    }
}

fn token_words(tokens: &[TokenView]) -> String {
    if tokens.is_empty() {
        return "no tokens; `codex-bridge token add NAME --owner` makes one for yourself, with `--scope SCOPE` one for others".to_owned();
    }
    lines(tokens, |token| {
        let (scopes, state) = (token.scopes.join(", "), use_words(token, "used"));
        format!("{}{}: {scopes}, {state}", token.name, console_words(token))
    })
}

fn peer_words(peers: &[TokenView]) -> String {
    if peers.is_empty() {
        return "no peers; `codex-bridge peers add NAME` makes one".to_owned();
    }
    lines(peers, |peer| {
        format!("{}: {}", peer.name, use_words(peer, "called"))
    })
}

fn use_words(token: &TokenView, used: &str) -> String {
    match (token.revoked_at, token.last_used_at) {
        (Some(at), _) => format!("revoked {}", when(at.ms())),
        (None, Some(at)) => format!("last {used} {}", when(at.ms())),
        (None, None) => format!("never {used}"),
    }
}

/// What a session or login of the console is, behind its name.
fn console_words(token: &TokenView) -> String {
    let (Some(label), Some(expires_at)) = (&token.label, token.expires_at) else {
        return String::new();
    };
    let until = when(expires_at.ms());
    match token.kind.as_str() {
        "login" => format!(" ({label}, a code of the console until {until})"),
        _ => format!(" ({label}, signed in to the console until {until})"),
    }
}

fn lines(tokens: &[TokenView], line: impl Fn(&TokenView) -> String) -> String {
    let lines: Vec<_> = tokens
        .iter()
        .map(|token| escape_line(&line(token)).into_owned())
        .collect();
    lines.join("\n")
}

/// Stops everything of one sender.
pub(crate) async fn stop_sender(
    client: &ApiClient,
    sender: String,
    channel: Option<String>,
    output: OutputArgs,
) -> anyhow::Result<ExitCode> {
    let body = StopSenderRequest { sender, channel };
    let done = client.post("/v1/stop", Some(&body), None).await;
    answered(done, output, |done| {
        let said = format!("{}: {}", body.sender, stopped_words(done));
        (escape_line(&said).into_owned(), ExitCode::SUCCESS)
    })
}

fn stopped_words(done: &StopSenderView) -> String {
    let joined = joined_words(&done.joined);
    match (done.cancelled, done.interrupted.as_slice()) {
        (0, []) if joined.is_empty() => "nothing of it waits or runs".to_owned(),
        (cancelled, []) => {
            format!("{cancelled} waiting stopped, nothing of its own runs{joined}")
        }
        (cancelled, running) => format!(
            "{cancelled} waiting stopped, {} running interrupted: {}{joined}",
            running.len(),
            some(running)
        ),
    }
}

/// Messages that turns of others took over; this command does not end those turns.
fn joined_words(joined: &[String]) -> String {
    match joined {
        [] => String::new(),
        joined => format!(
            "; {} were given to running turns of others, which go on with them ({}): `codex-bridge show ID` names the \
             turn, and `codex-bridge stop` ends it",
            joined.len(),
            some(joined)
        ),
    }
}

/// What happened to the messages of a token's holder when it was revoked.
fn revoked_words(name: &str, done: &TokenRevoked) -> String {
    let waiting = match done.cancelled {
        0 => String::new(),
        cancelled => format!("; {cancelled} waiting messages of it are stopped"),
    };
    let running = match done.running.as_slice() {
        [] => String::new(),
        running => format!(
            "; {} are with Codex and go on ({}): `codex-bridge stop --sender {name}` ends them",
            running.len(),
            some(running)
        ),
    };
    format!(
        "{name} is revoked{waiting}{running}{}",
        joined_words(&done.joined)
    )
}

fn some(ids: &[String]) -> String {
    let ids: Vec<&str> = ids.iter().map(|id| short(id)).collect();
    match ids.split_at_checked(IDS_SHOWN) {
        Some((shown, more)) if !more.is_empty() => {
            format!("{}, and {} more", shown.join(", "), more.len())
        }
        Some(_) | None => ids.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: u32) -> Vec<String> {
        (0..count).map(|n| format!("m{n}")).collect()
    }

    #[test]
    fn f4_revoking_says_what_still_runs() {
        let revoked = |cancelled, running| TokenRevoked {
            name: "bob".to_owned(),
            cancelled,
            running,
            joined: Vec::new(),
        };
        let said = revoked_words("bob", &revoked(0, ids(0)));
        assert_eq!(said, "bob is revoked");
        let said = revoked_words("bob", &revoked(3, ids(2)));
        assert_eq!(
            said,
            "bob is revoked; 3 waiting messages of it are stopped; 2 are with Codex and go on (m0, m1): \
             `codex-bridge stop --sender bob` ends them"
        );
        let stopped = |cancelled, interrupted, joined| StopSenderView {
            sender: "bob".to_owned(),
            cancelled,
            interrupted,
            joined,
        };
        let said = stopped_words(&stopped(1, ids(12), ids(0)));
        assert!(said.ends_with("m9, and 2 more"), "{said}");
        let said = stopped_words(&stopped(0, ids(0), ids(1)));
        let goes_on =
            "0 waiting stopped, nothing of its own runs; 1 were given to running turns of others";
        assert!(said.starts_with(goes_on), "{said}");
    }
}
