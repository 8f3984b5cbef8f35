//! The names that shells complete: short ids of messages, tasks, conversations and codes of what Codex asks.

use super::api::{ApiClient, ClientError};
use super::find::{clip, short};
use super::ls::conversations;
use crate::cli::CompleteKind;
use bridge_front::MessageList;

/// Letters of what a name stands for.
const TEXT_MAX_CHARS: usize = 50;

/// Names of a kind, newest first, each with what it stands for behind a tab.
pub(crate) async fn names(
    client: &ApiClient,
    kind: CompleteKind,
    limit: u32,
) -> Result<Vec<String>, ClientError> {
    Ok(match kind {
        CompleteKind::Codes => {
            let open = client.open_requests().await?;
            let name = |request: &super::ask::ApprovalView| {
                line(request.handle(), "Codex asks", &request.headline)
            };
            open.iter().map(name).collect()
        }
        CompleteKind::Conversations => named(client, limit).await?,
        CompleteKind::Ids => {
            let path = format!("/v1/messages?limit={limit}");
            let found: MessageList = client.get(&path).await?;
            let mut names = vec!["last".to_owned()];
            names.extend(named(client, limit).await?);
            names.extend(
                found
                    .messages
                    .iter()
                    .map(|message| line(short(&message.message_id), &message.phase, &message.text)),
            );
            names
        }
    })
}

async fn named(client: &ApiClient, limit: u32) -> Result<Vec<String>, ClientError> {
    let found = conversations(client, limit).await?;
    let found = found.conversations.iter();
    // A shell would split or change other names.
    let fits = |key: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !key.is_empty() && key.chars().all(plain)
    };
    Ok(found
        .filter(|one| fits(&one.conversation.key))
        .map(|one| {
            let phase = one.phase.as_deref().unwrap_or_default();
            line(&one.conversation.key, phase, &one.line)
        })
        .collect())
}

fn line(name: &str, what: &str, text: &str) -> String {
    format!("{name}\t{what}: {}", clip(text, TEXT_MAX_CHARS))
}
