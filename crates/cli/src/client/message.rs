//! A message in words: what was asked and answered first, then how it went. `--verbose` adds all that is on record:
//! every attempt with its events, the replies and the acts by hand.

use super::ask::ApprovalView;
use super::find::short;
use super::log::sender;
use super::now_ms;
use super::page::{BOLD, DIM, PLAIN, Page, phase_look};
use crate::client::watch::event_words;
use bridge_daemon::term::{cells, span, when};
use bridge_front::{
    AttemptView, EventView, FileView, MessageView, ReplyView, RequestView, StoryView,
};

/// Width of the names in front.
const NAME_WIDTH: usize = 14;

/// What `show` prints. A task is named by its own id.
pub(super) fn message_words(
    story: &StoryView,
    task: Option<&str>,
    verbose: bool,
    mut page: Page,
) -> String {
    let message = &story.message;
    title(message, task, &mut page);
    page.gap();
    page.block(0, &message.text, PLAIN);
    page.gap();
    outcome(message, &mut page);
    page.gap();
    for file in &message.files {
        page.field("came with", NAME_WIDTH, &file_words(file));
    }
    let sent = message.answer.iter().flat_map(|answer| &answer.files);
    for file in sent {
        page.field("goes with", NAME_WIDTH, &file_words(file));
    }
    if let Some(workdir) = &message.workdir {
        page.field("worked in", NAME_WIDTH, workdir);
    }
    if let Some(stop) = message.stop.as_ref().filter(|_| message.answer.is_none()) {
        page.field("stop", NAME_WIDTH, stop);
    }
    if verbose {
        record(story, &mut page);
    } else {
        let name = task.unwrap_or_else(|| short(&message.message_id));
        page.line(
            0,
            &format!("`codex-bridge show -v {name}` shows how it went"),
            DIM,
        );
    }
    page.into_text()
}

fn title(message: &MessageView, task: Option<&str>, page: &mut Page) {
    let id = task.unwrap_or_else(|| short(&message.message_id));
    let phase = &message.phase;
    let head = format!(
        "{}  {}  ",
        page.paint.bold(id),
        phase_look(phase)(page.paint, phase)
    );
    let place = match task {
        Some(_) => String::new(),
        None => format!(" in {}", message.conversation),
    };
    let from = match sender(message) {
        "you" => "from you".to_owned(),
        sender => format!("from {sender} on {}", message.channel),
    };
    let said = format!("{from}{place}, {}", when(message.received_at.ms()));
    page.hang(&head, cells(id) + cells(phase) + 4, &said, DIM);
}

fn outcome(message: &MessageView, page: &mut Page) {
    match &message.answer {
        Some(answer) => {
            let source = match answer.source.as_str() {
                "harvested" => ", read from Codex's history after a restart",
                "shared" => ", together with the message whose turn took it",
                _ => "",
            };
            let took = span(answer.created_at.since_ms(message.received_at));
            let title = format!(
                "Codex, {}, after {took}{source}",
                when(answer.created_at.ms())
            );
            page.line(0, &title, BOLD);
            page.answer(0, &answer.text);
        }
        None => {
            if questions(message, 0, page) {
                return;
            }
            let head = page.paint.bold("no answer: ");
            page.hang(&head, 11, &message.why.now, PLAIN);
            page.field("next:", 11, &message.why.next);
        }
    }
}

/// What Codex waits for, with the command that answers it; whether there is anything.
pub(super) fn questions(message: &MessageView, indent: usize, page: &mut Page) -> bool {
    let open = |request: &&RequestView| request.state == "open";
    let mut asked = message.requests.iter().filter(open).peekable();
    let any = asked.peek().is_some();
    for request in asked {
        ApprovalView::of(message, request).tell(indent, "", now_ms(), page);
    }
    any
}

/// All that is on record.
fn record(story: &StoryView, page: &mut Page) {
    place(&story.message, page);
    for attempt in &story.attempts {
        tell_attempt(attempt, page);
        let of_it = |event: &&EventView| event.attempt == attempt.attempt;
        for event in story.events.iter().filter(of_it) {
            let (mark, said) = event_words(&event.kind, &event.text);
            page.field("", NAME_WIDTH, &format!("{mark} {said}"));
        }
    }
    let without_attempt = |event: &&EventView| {
        !story
            .attempts
            .iter()
            .any(|attempt| attempt.attempt == event.attempt)
    };
    for event in story.events.iter().filter(without_attempt) {
        page.field("event", NAME_WIDTH, &event.text);
    }
    for request in &story.message.requests {
        page.field("codex asked", NAME_WIDTH, &asked(request));
    }
    for reply in &story.replies {
        tell_reply(reply, page);
    }
    for act in &story.acts {
        let detail = match act.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        let said = format!("{} {}: {}{detail}", when(act.at.ms()), act.by, act.what);
        page.field("by hand", NAME_WIDTH, &said);
    }
}

/// An older daemon does not say whose request it is.
fn asked(request: &RequestView) -> String {
    let what = format!("{} ({})", request.headline, request.state);
    match request.requester.as_str() {
        "" => what,
        requester => format!("for {requester}: {what}"),
    }
}

fn place(message: &MessageView, page: &mut Page) {
    page.field("message", NAME_WIDTH, &message.message_id);
    page.field("conversation", NAME_WIDTH, &message.conversation);
    let from = format!("{} on {}", message.sender, message.channel);
    page.field("from", NAME_WIDTH, &from);
    page.field("state", NAME_WIDTH, &message.state);
    if message.suspect {
        page.field(
            "suspect",
            NAME_WIDTH,
            "Codex died under it before; it is tried with no other such message beside it",
        );
    }
    for (name, id) in [
        ("behind", message.behind.as_ref()),
        ("given to", message.leader.as_ref()),
    ] {
        if let Some(id) = id {
            page.field(name, NAME_WIDTH, id);
        }
    }
    for follower in &message.followers {
        page.field("was given", NAME_WIDTH, follower);
    }
    if let Some(thread) = &message.thread_id {
        page.field("codex thread", NAME_WIDTH, thread);
    }
    if let Some(node) = &message.node {
        page.field("node", NAME_WIDTH, node);
    }
}

/// A file, and where it can be read.
pub(super) fn file_words(file: &FileView) -> String {
    let FileView {
        name,
        media_type,
        bytes,
        path,
    } = file;
    format!("{name} ({media_type}, {bytes} bytes): {path}")
}

fn tell_attempt(attempt: &AttemptView, page: &mut Page) {
    let mut said = format!("{} {}", when(attempt.started_at.ms()), attempt.state);
    if let Some(ended) = attempt.ended_at {
        let took = span(ended.since_ms(attempt.started_at));
        said.push_str(&format!(" after {took}"));
    }
    said.push_str(&format!(", {}", attempt.sandbox));
    if attempt.touched {
        said.push_str(", may have changed something");
    }
    if let Some(turn) = &attempt.turn_id {
        said.push_str(&format!(", turn {turn}"));
    }
    let tokens = (attempt.input_tokens, attempt.output_tokens);
    if tokens != (0, 0) {
        said.push_str(&format!(", {} tokens in, {} out", tokens.0, tokens.1));
    }
    page.field(&format!("attempt {}", attempt.attempt), NAME_WIDTH, &said);
}

fn tell_reply(reply: &ReplyView, page: &mut Page) {
    let mut said = format!("{}, {}", reply.kind, reply.state);
    match reply.tries {
        0 | 1 => {}
        tries => said.push_str(&format!(" after {tries} tries")),
    }
    if let Some(at) = reply.not_before {
        said.push_str(&format!(", not before {}", when(at.ms())));
    }
    if let Some(receipt) = &reply.receipt {
        said.push_str(&format!(" ({receipt})"));
    }
    for more in reply.reason.iter().chain(&reply.notice) {
        said.push_str(&format!(": {more}"));
    }
    page.field(&format!("reply {}", reply.ordinal), NAME_WIDTH, &said);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn f7_an_unknown_requester_is_left_out() {
        let said = |requester: &str| {
            let request = json!({
                "request_id": "r", "code": "r", "requester": requester, "method": "m", "kind": "command",
                "headline": "may it run?", "digest": "d", "wants": "approval", "deciders": "owner",
                "state": "open", "attempt": 1, "incarnation": "i", "created_at": 1, "deadline": 2,
            });
            asked(&serde_json::from_value(request).unwrap())
        };
        assert_eq!(said(""), "may it run? (open)");
        assert_eq!(said("you"), "for you: may it run? (open)");
    }
}
