//! The thread of a run, seen from the app-server beside it: who holds its writer lock, its newest turn, and the end of
//! a lost run.
//!
//! Only one process may write a thread. The app-server reads all of them without taking the writer, so that is all it
//! does here; and a run that is looked at has ended, so nobody else writes it.

use crate::app_server::Session;
use crate::error::lost;
use crate::thread::history::{Listed, believed, older, unreadable};
use crate::thread::release;
use bridge_codex::oracle;
use bridge_codex::wire::Turn;
use bridge_codex::wire::item::Item;
use bridge_codex::wire::method::ThreadRead;
use bridge_codex::wire::thread::ThreadReadParams;
use bridge_core::port::{
    AgentError, LostTurn, RecordedTurn, ThreadFailure, TurnHistory, TurnStatus,
};
use bridge_core::prompt;
use bridge_core::value::{ThreadId, TurnId};

/// Pages of a history that are looked at before it counts as unreadable.
const PAGES_MAX: usize = 40;

/// Makes sure that a thread can be resumed by a run: it is there, and the app-server does not have its writer.
pub(super) async fn release(session: &Session, thread: &ThreadId) -> Result<(), AgentError> {
    if thread.is_unnamed() {
        let words =
            "the run that was to begin this conversation's thread ended before Codex had named it";
        return Err(lost(ThreadFailure::Missing, words));
    }
    release::release(session, thread).await
}

/// Finds the end of a run that nobody followed.
pub(super) async fn look(session: &Session, lost: &LostTurn) -> Result<TurnHistory, AgentError> {
    let thread = &lost.turn.thread;
    if thread.is_unnamed() {
        return Ok(unreadable(
            "the run of `codex exec` ended before Codex had named its thread",
        ));
    }
    let after = lost.after_turn.as_ref();
    let mut turns: Vec<Turn> = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let page = match older(session, thread.clone(), cursor.take()).await {
            Ok(page) => page,
            Err(error) if error.thread.is_some() => {
                return Ok(unreadable(&error.failure.reason));
            }
            Err(error) => return Err(error),
        };
        let Some((mut page, next)) = page else { break };
        page.append(&mut turns);
        turns = page;
        cursor = next;
        let anchored = turns.iter().any(|turn| Some(&turn.id) == after);
        if anchored || cursor.is_none() {
            break;
        }
    }
    let found = behind(&turns, after, &lost.turn.text)?;
    if !matches!(found, TurnHistory::Turn(_)) {
        return Ok(found);
    }
    let read = ThreadReadParams {
        thread_id: thread.clone(),
        include_turns: false,
    };
    // What is found must not wait for this: without it the history counts as one that does not list everything.
    let listed = match session.connection.call::<ThreadRead>(read).await {
        Ok(read) => Listed::of(&read.thread),
        Err(error) => {
            tracing::warn!(%error, "codex does not say how it keeps a thread");
            Listed::Some
        }
    };
    Ok(listed.mark(found))
}

/// Looks behind the last turn that is known. Without it an old turn with the same text would pass for ours, and its
/// answer for the answer: then the thread's only turn may be ours, and of several none is harvested.
fn behind(turns: &[Turn], after: Option<&TurnId>, text: &str) -> Result<TurnHistory, AgentError> {
    let mut used = turns.iter().rev().filter(|turn| !turn.items.is_empty());
    match (after, used.next(), used.next()) {
        // Of an earlier run nothing is known but that it answered on this thread.
        (Some(stand_in), newest, _) if stand_in.is_run() => Ok(match newest {
            Some(newest) => cut(newest),
            None => unreadable("the last turn known is not in it"),
        }),
        (Some(known), _, _) => {
            let known = |turn: &Turn| turn.id.as_str() == known.as_str();
            match turns.iter().position(known) {
                Some(anchor) => judge(turns.get(anchor + 1..).unwrap_or_default(), text),
                None => Ok(unreadable("the last turn known is not in it")),
            }
        }
        (None, Some(newest), Some(_older)) => Ok(cut(newest)),
        (None, Some(_) | None, _) => judge(turns, text),
    }
}

/// What the turns behind the last known one say. One with our text is ours. Others prove that the thread was used since,
/// perhaps by us: then it is as if ours was cut, so that nothing is done twice.
fn judge(later: &[Turn], text: &str) -> Result<TurnHistory, AgentError> {
    if later.iter().any(|turn| !turn.has_all_items()) {
        return Ok(unreadable("Codex did not give all its items"));
    }
    let used: Vec<&Turn> = later.iter().filter(|turn| !turn.items.is_empty()).collect();
    let Some(last) = used.last() else {
        return Ok(TurnHistory::Absent);
    };
    let ours = used.iter().rev().find(|turn| was_given(turn, text));
    let Some(ours) = ours else {
        return Ok(cut(last));
    };
    Ok(match believed(oracle::of_turn(ours))? {
        // Nobody runs it any more, whatever its record says.
        TurnHistory::Turn(finding) if finding.status == TurnStatus::InProgress => cut(ours),
        found => found,
    })
}

fn cut(turn: &Turn) -> TurnHistory {
    TurnHistory::Turn(RecordedTurn {
        turn_id: turn.id.clone(),
        status: TurnStatus::Interrupted,
        answer: None,
        effects: Vec::new(),
        received: Vec::new(),
        failure: None,
    })
}

fn was_given(turn: &Turn, text: &str) -> bool {
    turn.items.iter().any(|item| match item {
        Item::UserMessage(message) => prompt::is_same_text(&message.text(), text),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn turn(id: &str, status: &str, text: &str, answer: &str) -> Turn {
        serde_json::from_value(json!({"id": id, "status": status, "items": [
            {"type": "userMessage", "id": "a", "content": [
                {"type": "localImage", "path": "/x.png"}, {"type": "text", "text": text}]},
            {"type": "agentMessage", "id": "b", "text": answer}], "itemsView": "full"}))
        .unwrap()
    }

    fn found(later: &[Turn]) -> (String, TurnStatus, Option<String>) {
        match judge(later, "ours") {
            Ok(TurnHistory::Turn(finding)) => (
                finding.turn_id.as_str().to_owned(),
                finding.status,
                finding.answer,
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn harvests_answer_of_matching_turn() {
        let later = [
            turn("1", "completed", "ours", "yes"),
            turn("2", "completed", "another", "no"),
        ];
        let yes = (
            "1".to_owned(),
            TurnStatus::Completed,
            Some("yes".to_owned()),
        );
        assert_eq!(found(&later), yes);
        let cut = [turn("1", "interrupted", "ours", "half")];
        assert_eq!(found(&cut), ("1".to_owned(), TurnStatus::Interrupted, None));
        let open = [turn("1", "inProgress", "ours", "half")];
        assert_eq!(
            found(&open).1,
            TurnStatus::Interrupted,
            "its process is gone"
        );
    }

    #[test]
    fn never_harvests_foreign_turns() {
        let foreign = [turn("1", "completed", "another", "secret")];
        assert_eq!(
            found(&foreign),
            ("1".to_owned(), TurnStatus::Interrupted, None)
        );
        assert_eq!(judge(&[], "ours").unwrap(), TurnHistory::Absent);
        let empty = serde_json::from_value(json!({"id": "1", "status": "interrupted"})).unwrap();
        assert_eq!(judge(&[empty], "ours").unwrap(), TurnHistory::Absent);
    }

    #[test]
    fn never_harvests_older_identical_turn() {
        let old = turn("1", "completed", "ours", "old");
        let new = turn("2", "completed", "ours", "new");
        let both = [old.clone(), new.clone()];
        let look =
            |turns: &[Turn], after: Option<TurnId>| match behind(turns, after.as_ref(), "ours") {
                Ok(TurnHistory::Turn(finding)) => (finding.status, finding.answer),
                other => panic!("{other:?}"),
            };
        let id = |id: &str| Some(TurnId::new(id));
        let harvested = (TurnStatus::Completed, Some("new".to_owned()));
        let cut = (TurnStatus::Interrupted, None);
        assert_eq!(look(&both, id("1")), harvested);
        assert_eq!(look(&[new], None), harvested, "the first of its thread");
        assert_eq!(look(&both, None), cut);
        let stand_in = TurnId::of_run(&bridge_core::value::ClientId::new("x"));
        assert_eq!(
            look(std::slice::from_ref(&old), Some(stand_in.clone())),
            cut
        );
        for (turns, after) in [(&[old][..], id("0")), (&[], id("0")), (&[], Some(stand_in))] {
            let found = behind(turns, after.as_ref(), "ours").unwrap();
            assert!(matches!(found, TurnHistory::Unreadable { .. }), "{found:?}");
        }
        assert_eq!(behind(&[], None, "ours").unwrap(), TurnHistory::Absent);
    }
}
