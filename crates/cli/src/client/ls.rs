//! `ls`: the conversations, what needs you first, then the newest; each with its state, its age and what was said last.

use super::api::{ApiClient, ClientError};
use super::ask::ApprovalView;
use super::find::clip;
use super::now_ms;
use super::page::{DIM, Page, YELLOW, cut, phase_look};
use crate::cli::LsArgs;
use bridge_core::channels::{LOCAL, TASK};
use bridge_core::phase::Phase;
use bridge_daemon::term::{cells, escape_line, span};
use bridge_front::{ActiveConversation, ConversationList, LoanView};
use std::process::ExitCode;

/// Longest name of a conversation.
const NAME_MAX: usize = 24;
/// Cells of the longest state.
const PHASE_CELLS: usize = 15;
/// Cells of the longest age.
const AGE_CELLS: usize = 11;
/// Least cells of the last line.
const LINE_MIN: usize = 16;

pub(crate) async fn ls(
    client: &ApiClient,
    args: &LsArgs,
    no_color: bool,
) -> anyhow::Result<ExitCode> {
    let mut found = conversations(client, args.limit).await?;
    // Stable: among those that need you, and among the others, the newest stays first.
    found.conversations.sort_by_key(|one| !needs_you(one));
    let asked = if found.conversations.iter().any(|one| one.open_requests > 0) {
        client.open_requests().await?
    } else {
        Vec::new()
    };
    args.output.show(&found, ExitCode::SUCCESS, |found| {
        words(found, &asked, now_ms(), Page::stdout(no_color))
    })
}

pub(super) async fn conversations(
    client: &ApiClient,
    limit: u32,
) -> Result<ConversationList, ClientError> {
    client
        .get(&format!("/v1/conversations?limit={limit}"))
        .await
}

pub(super) fn needs_you(one: &ActiveConversation) -> bool {
    one.phase.as_deref() == Some(Phase::WaitingForYou.as_str())
}

/// The name that commands take; another channel is named beside it.
fn name(one: &ActiveConversation) -> String {
    let key = &one.conversation.key;
    match one.conversation.channel.as_str() {
        LOCAL | TASK => clip(key, NAME_MAX),
        channel => clip(&format!("{key} ({channel})"), NAME_MAX),
    }
}

fn words(found: &ConversationList, asked: &[ApprovalView], now_ms: i64, mut page: Page) -> String {
    if found.conversations.is_empty() {
        return "no conversations yet; `codex-bridge send TEXT` begins one".to_owned();
    }
    let names = found.conversations.iter().map(|one| cells(&name(one)));
    let width = names.max().unwrap_or(0);
    let before = width + PHASE_CELLS + AGE_CELLS + 6;
    for one in &found.conversations {
        let phase = one.phase.as_deref().unwrap_or("empty");
        let (name, age) = (name(one), span(now_ms.saturating_sub(one.active_at.ms())));
        let pad = |text: &str, to: usize| " ".repeat(to.saturating_sub(cells(text)));
        let head = format!(
            "{}{}  {}{}  {age}{}  ",
            page.paint.bold(&name),
            pad(&name, width),
            phase_look(phase)(page.paint, phase),
            pad(phase, PHASE_CELLS),
            pad(&age, AGE_CELLS),
        );
        let room = page
            .width()
            .map(|all| all.saturating_sub(before).max(LINE_MIN));
        let line = escape_line(&one.line);
        let line = room.map_or_else(|| line.to_string(), |room| cut(&line, room));
        page.hang(&head, before, &line, DIM);
        if let Some(loan) = &one.conversation.loan {
            page.line(2, &loan_words(loan, now_ms), YELLOW);
        }
        let of_it = |request: &&ApprovalView| request.conversation == one.conversation.key;
        for request in asked.iter().filter(of_it) {
            request.tell(2, "", now_ms, &mut page);
        }
    }
    page.into_text()
}

/// Who has a conversation in a Codex terminal, and until when.
pub(super) fn loan_words(loan: &LoanView, now_ms: i64) -> String {
    let until = loan.until.ms();
    match &loan.error {
        _ if !loan.over => format!(
            "lent to {}, in a Codex terminal, for {} more at most",
            loan.borrower,
            span(until.saturating_sub(now_ms))
        ),
        Some(error) => format!("its loan is over, and it is not back: {error}"),
        None => "its loan is over, and it is being taken back".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bridge_daemon::term::Paint;
    use serde_json::json;

    fn one(key: &str, phase: &str, at: i64, line: &str) -> ActiveConversation {
        serde_json::from_value(json!({
            "conversation_id": key, "channel": "local", "key": key, "thread_id": null, "workdir": "/w", "created_at": 0,
            "active_at": at, "phase": phase, "message_id": null, "line": line, "open_requests": 0,
        }))
        .unwrap()
    }

    #[test]
    fn lists_conversations_within_the_width() {
        let found = ConversationList {
            conversations: vec![
                one("review", "waiting for you", 0, "Push it\u{1b}[2J"),
                one("main", "done", 60_000, &"a long line ".repeat(20)),
            ],
            next: None,
        };
        let words = words(&found, &[], 120_000, Page::new(Paint::plain(), Some(60)));
        assert_eq!(
            words,
            "review  waiting for you  2 min        Push it\\e[2J\nmain    done             60 s         a long line a long li…\n"
        );
    }
}
