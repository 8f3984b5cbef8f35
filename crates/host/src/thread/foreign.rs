//! Reads what other programs did on a thread of ours, while holding the thread's writer lock.

use crate::app_server::Session;
use crate::error::agent_error;
use crate::thread::history::{HISTORY_PAGE, older};
use crate::thread::operator_config::OperatorConfig;
use crate::thread::release::unarchive;
use crate::thread::{resume, settings};
use bridge_codex::oracle;
use bridge_codex::wire::Turn as WireTurn;
use bridge_codex::wire::item::Item;
use bridge_codex::wire::thread::ThreadResumeParams;
use bridge_codex::wire::values::{SortDirection, TurnStatus as WireStatus};
use bridge_core::limits::LOAN_TURNS_MAX;
use bridge_core::port::{
    AgentError, ForeignTurn, RecordedTurn, ThreadSpec, TurnHistory, TurnStatus,
};
use bridge_core::value::{Class, ThreadId, Timestamp, TurnId};

/// Stands for a message that has no text, such as a picture.
const NO_TEXT: &str = "(something without a text)";

/// The turns behind `after`, oldest first. Where Codex's history does not have that one any more, they are the newest.
pub(crate) async fn turns_of_others(
    session: &Session,
    thread: &ThreadId,
    spec: &ThreadSpec,
    operator: &OperatorConfig,
    after: Option<&TurnId>,
) -> Result<Vec<ForeignTurn>, AgentError> {
    unarchive(session, thread).await?;
    let settings = settings(spec, &session.isolation, operator);
    let params = ThreadResumeParams::with_newest_turns(thread.clone(), settings, HISTORY_PAGE);
    let resumed = resume(session, params).await?;
    let (opened, mut turns) = resumed.into_parts(&SortDirection::Descending);
    // Not marked as loaded: the next turn resumes the thread and compares its power first.
    let threads = &session.connection.threads;
    threads.reported(thread, &opened.thread.status);
    if threads.is_busy(thread) {
        let reason = "another program runs a turn on this conversation's thread";
        return Err(agent_error(Class::Capacity { until: None }, reason));
    }
    let mut cursor = None;
    while !turns.iter().any(|turn| Some(&turn.id) == after) && turns.len() < LOAN_TURNS_MAX {
        let page = older(session, thread.clone(), cursor.take()).await?;
        let Some((page, next)) = page else { break };
        // Pages overlap where the first one repeats what resume returned.
        let mut all: Vec<_> = page
            .into_iter()
            .filter(|turn| !turns.iter().any(|known| known.id == turn.id))
            .collect();
        all.append(&mut turns);
        turns = all;
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    let known = turns.iter().position(|turn| Some(&turn.id) == after);
    let behind = known.map_or(0, |at| at.saturating_add(1));
    let surplus = turns.len().saturating_sub(LOAN_TURNS_MAX);
    Ok(turns
        .iter()
        .skip(behind.max(surplus))
        .map(of_turn)
        .collect())
}

fn of_turn(turn: &WireTurn) -> ForeignTurn {
    let seconds = |at: Option<i64>| at.map(|at| Timestamp(at.saturating_mul(1_000)));
    ForeignTurn {
        input: input(turn),
        recorded: recorded(turn),
        started_at: seconds(turn.started_at),
        ended_at: seconds(turn.completed_at),
    }
}

/// What it was given; nothing for a turn that no message began, such as a compaction.
fn input(turn: &WireTurn) -> String {
    let messages = turn.items.iter().filter_map(|item| match item {
        Item::UserMessage(message) => Some(message.text()),
        _ => None,
    });
    let texts: Vec<String> = messages
        .map(|text| match text.trim() {
            "" => NO_TEXT.to_owned(),
            _ => text,
        })
        .collect();
    texts.join("\n\n")
}

/// What became of it. Nobody runs it any more: whoever holds the writer reads this.
fn recorded(turn: &WireTurn) -> RecordedTurn {
    match oracle::of_turn(turn) {
        Ok(TurnHistory::Turn(recorded)) => recorded,
        Ok(_) | Err(_) => RecordedTurn {
            turn_id: turn.id.clone(),
            status: match turn.status {
                WireStatus::Completed => TurnStatus::Completed,
                _ => TurnStatus::Interrupted,
            },
            answer: None,
            effects: Vec::new(),
            received: turn.client_ids().cloned().collect(),
            failure: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turn(items: serde_json::Value) -> WireTurn {
        serde_json::from_value(json!({"id": "t", "status": "completed", "items": items,
            "itemsView": "full", "startedAt": 7, "completedAt": 9}))
        .unwrap()
    }

    #[test]
    fn terminal_turn_has_text_and_answer() {
        let said = |text: &str| json!({"type": "userMessage", "id": "u", "clientId": "c", "content": [{"type": "text", "text": text}]});
        let read = of_turn(&turn(json!([
            said("look"), said("and run it"),
            {"type": "commandExecution", "id": "x", "command": "touch a", "status": "completed"},
            {"type": "agentMessage", "id": "a", "text": "done"},
        ])));
        assert_eq!(read.input, "look\n\nand run it");
        assert_eq!(read.recorded.answer.as_deref(), Some("done"));
        assert_eq!(read.recorded.effects.len(), 1);
        assert_eq!(read.started_at, Some(Timestamp(7_000)));
        let compaction = of_turn(&turn(json!([{"type": "contextCompaction", "id": "x"}])));
        assert_eq!(compaction.input, "");
        let picture = json!([{"type": "userMessage", "id": "u", "content": [{"type": "localImage", "path": "/x.png"}]}]);
        assert_eq!(of_turn(&turn(picture)).input, NO_TEXT);
    }
}
