//! `token add`, `list` and `revoke`: what other programs come in with over TCP.

use super::stop::revoked_words;
use super::words::text;
use super::{answered, refused};
use crate::cli::TokenCommand;
use crate::client::api::{ApiClient, ClientError};
use crate::client::show::{print, print_json};
use bridge_daemon::term::{self, escape_line, when};
use bridge_front::Scope;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(super) async fn token(client: &ApiClient, command: TokenCommand) -> ExitCode {
    match command {
        TokenCommand::Add {
            name,
            mut scope,
            owner,
            rotate,
            json,
        } => {
            if owner {
                scope = Scope::OWNER.map(|scope| scope.as_str().to_owned()).to_vec();
            }
            add(client, &name, &scope, rotate, json).await
        }
        TokenCommand::List { json } => {
            let found = client.get("/v1/tokens").await;
            answered(client, found, json, |page| {
                (list_words(page), ExitCode::SUCCESS)
            })
        }
        TokenCommand::Revoke { name, json } => {
            let done = match fits(&name) {
                Ok(()) => client.delete(&format!("/v1/tokens/{name}")).await,
                Err(error) => Err(error),
            };
            answered(client, done, json, |done| {
                let said = revoked_words(&name, done);
                (escape_line(&said).into_owned(), ExitCode::SUCCESS)
            })
        }
    }
}

/// The token goes alone to stdout, so that it can be put into a file without being seen.
async fn add(
    client: &ApiClient,
    name: &str,
    scopes: &[String],
    rotate: bool,
    json: bool,
) -> ExitCode {
    let body = json!({ "name": name, "scopes": scopes, "rotate": rotate });
    let made: Result<Value, ClientError> = client.post("/v1/tokens", Some(&body), None).await;
    match made {
        Ok(made) if json => print_json(&made, ExitCode::SUCCESS),
        Ok(made) => {
            term::complain(&escape_line(&format!(
                "token {name} may {}; it is shown once and kept nowhere:",
                scopes.join(", ")
            )));
            print(&escape_line(text(&made, "token")), ExitCode::SUCCESS)
        }
        Err(error) => refused(client, &error, json),
    }
}

/// Names of tokens are part of a path.
pub(super) fn fits(name: &str) -> Result<(), ClientError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(fits) {
        Ok(())
    } else {
        Err(ClientError::NotAName(name.to_owned()))
    }
}

fn list_words(page: &Value) -> String {
    let tokens = page["tokens"].as_array().map_or(&[][..], Vec::as_slice);
    if tokens.is_empty() {
        return "no tokens; `codex-bridge token add NAME --owner` makes one for yourself, with `--scope SCOPE` one for others".to_owned();
    }
    let line = |token: &Value| {
        let scopes = token["scopes"].as_array().into_iter().flatten();
        let scopes: Vec<_> = scopes.filter_map(Value::as_str).collect();
        let state = match (token["revoked_at"].as_i64(), token["last_used_at"].as_i64()) {
            (Some(at), _) => format!("revoked {}", when(at)),
            (None, Some(at)) => format!("last used {}", when(at)),
            (None, None) => "never used".to_owned(),
        };
        let said = format!("{}: {}, {state}", text(token, "name"), scopes.join(", "));
        escape_line(&said).into_owned()
    };
    tokens.iter().map(line).collect::<Vec<_>>().join("\n")
}
