//! One turn of Codex as the bridge reads it: texts of the wire through the link and the fold, with as many deltas as
//! asked for. No mailbox, no socket.

use anyhow::{Context, bail, ensure};
use bridge_codex::link::{Event, Link, LinkOptions};
use bridge_codex::turn::{TurnFold, TurnNews};
use bridge_core::value::{ThreadId, TurnId};
use serde_json::{Value, json};

const THREAD: &str = "0199c0de-0000-7000-8000-000000000001";
const TURN: &str = "0199c0de-0000-7000-8000-000000000002";
const ITEM: &str = "msg_0199c0de";

/// What one delta says.
const PIECE: &str = "a few words ";

/// Folds a turn whose answer comes in so many deltas.
///
/// # Errors
///
/// Where the fold does not find the answer, or not all of it.
pub fn fold(deltas: u64) -> anyhow::Result<()> {
    let mut link = Link::new(LinkOptions::default());
    let mut turn = TurnFold::new(ThreadId::new(THREAD), Some(TurnId::new(TURN)), None);
    let whole = PIECE.repeat(usize::try_from(deltas)?);
    let began = json!({"turn": {"id": TURN, "status": "inProgress", "items": []}});
    take(&mut link, &mut turn, &text("turn/started", began))?;
    let item = |words: &str| json!({"item": {"type": "agentMessage", "id": ITEM, "text": words, "phase": "final_answer"}});
    take(&mut link, &mut turn, &text("item/started", item("")))?;
    let delta = text(
        "item/agentMessage/delta",
        json!({"itemId": ITEM, "delta": PIECE}),
    );
    for _ in 0..deltas {
        take(&mut link, &mut turn, &delta)?;
    }
    take(&mut link, &mut turn, &text("item/completed", item(&whole)))?;
    let ended = json!({"turn": {"id": TURN, "status": "completed", "items": [], "error": null}});
    match take(&mut link, &mut turn, &text("turn/completed", ended))? {
        Some(TurnNews::Completed(outcome)) => {
            let answer = outcome
                .end
                .answer
                .context("the turn ended without an answer")?;
            ensure!(answer == whole, "the answer is not what was said");
            Ok(())
        }
        other => bail!("the turn did not end: {other:?}"),
    }
}

fn text(method: &str, mut params: Value) -> String {
    if let Some(members) = params.as_object_mut() {
        members.insert("threadId".to_owned(), json!(THREAD));
        members.entry("turnId").or_insert(json!(TURN));
    }
    json!({"method": method, "params": params}).to_string()
}

fn take(link: &mut Link, turn: &mut TurnFold, text: &str) -> anyhow::Result<Option<TurnNews>> {
    match link.handle(text, 0) {
        Event::Notification(notification) => Ok(turn.apply(&notification)),
        other => bail!("not a notification: {other:?}"),
    }
}
