//! `show`: all that the ledger knows of a message, in words: its state, every attempt with its events, the replies, the
//! manual acts, and the texts.

use bridge_daemon::term::{Paint, escape, escape_line, when};
use bridge_front::{
    AttemptView, EventView, FileView, MessageView, ReplyView, RequestView, StoryView,
};

/// Width of the names in front.
const NAME_WIDTH: usize = 14;

struct NamedLines {
    paint: Paint,
    text: String,
}

impl NamedLines {
    fn line(&mut self, name: &str, said: &str) {
        let name = self.paint.dim(&format!("{name:<NAME_WIDTH$}"));
        self.text
            .push_str(&format!("{name}{}\n", escape_line(said)));
    }
}

pub(super) fn message_words(story: &StoryView, paint: Paint) -> String {
    let mut lines = NamedLines {
        paint,
        text: String::new(),
    };
    let message = &story.message;
    place(message, &mut lines);
    for attempt in &story.attempts {
        tell_attempt(attempt, &mut lines);
        let of_it = |event: &&EventView| event.attempt == attempt.attempt;
        for event in story.events.iter().filter(of_it) {
            lines.line("", &format!("{} {}", mark(event), event.text));
        }
    }
    let without_attempt = |event: &&EventView| {
        !story
            .attempts
            .iter()
            .any(|attempt| attempt.attempt == event.attempt)
    };
    for event in story.events.iter().filter(without_attempt) {
        lines.line("event", &event.text);
    }
    for request in &message.requests {
        lines.line("codex asked", &asked(request));
    }
    for reply in &story.replies {
        tell_reply(reply, &mut lines);
    }
    for act in &story.acts {
        let detail = match act.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        let said = format!("{} {}: {}{detail}", when(act.at), act.by, act.what);
        lines.line("by hand", &said);
    }
    let text = escape(&message.text);
    format!("{}\n{text}\n\n{}", lines.text, outcome(message, paint))
}

/// An older daemon does not say whose request it is.
fn asked(request: &RequestView) -> String {
    let what = format!("{} ({})", request.headline, request.state);
    match request.requester.as_str() {
        "" => what,
        requester => format!("for {requester}: {what}"),
    }
}

fn place(message: &MessageView, lines: &mut NamedLines) {
    lines.line("message", &message.message_id);
    lines.line("conversation", &message.conversation);
    let from = format!("{} on {}", message.sender, message.channel);
    lines.line("from", &from);
    lines.line("received", &when(message.received_at));
    lines.line("state", &message.state);
    for file in &message.files {
        lines.line("came with", &file_words(file));
    }
    let sent = message.answer.iter().flat_map(|answer| &answer.files);
    for file in sent {
        lines.line("goes with", &file_words(file));
    }
    if let Some(stop) = &message.stop {
        lines.line("stop", stop);
    }
    if message.suspect {
        lines.line(
            "suspect",
            "Codex died under it before; it is tried with no other such message beside it",
        );
    }
    if let Some(first) = &message.behind {
        lines.line("behind", first);
    }
    if let Some(leader) = &message.leader {
        lines.line("given to", leader);
    }
    for follower in &message.followers {
        lines.line("was given", follower);
    }
    if let Some(thread) = &message.thread_id {
        lines.line("codex thread", thread);
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

fn tell_attempt(attempt: &AttemptView, lines: &mut NamedLines) {
    let mut said = format!("{} {}", when(attempt.started_at), attempt.state);
    if let Some(ended) = attempt.ended_at {
        let seconds = (ended.saturating_sub(attempt.started_at)).max(0) / 1000;
        said.push_str(&format!(" after {seconds} s"));
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
    lines.line(&format!("attempt {}", attempt.attempt), &said);
}

fn mark(event: &EventView) -> &'static str {
    match event.kind.as_str() {
        "item/started" => "•",
        "item/completed" => "✓",
        "turn/retrying" => "↻",
        "request" => "?",
        _ => "!",
    }
}

fn tell_reply(reply: &ReplyView, lines: &mut NamedLines) {
    let mut said = format!("{}, {}", reply.kind, reply.state);
    match reply.tries {
        0 | 1 => {}
        tries => said.push_str(&format!(" after {tries} tries")),
    }
    if let Some(at) = reply.not_before {
        said.push_str(&format!(", not before {}", when(at)));
    }
    if let Some(receipt) = &reply.receipt {
        said.push_str(&format!(" ({receipt})"));
    }
    for more in reply.reason.iter().chain(&reply.notice) {
        said.push_str(&format!(": {more}"));
    }
    lines.line(&format!("reply {}", reply.ordinal), &said);
}

fn outcome(message: &MessageView, paint: Paint) -> String {
    match &message.answer {
        Some(answer) => {
            let source = match answer.source.as_str() {
                "harvested" => ", read from Codex's history after a restart",
                "shared" => ", together with the message whose turn took it",
                _ => "",
            };
            let title = format!("answer, {}{source}", when(answer.created_at));
            format!("{}\n\n{}", paint.bold(&title), escape(&answer.text))
        }
        None => format!(
            "{} {}\n{} {}",
            paint.bold("no answer:"),
            escape(&message.why.now),
            paint.dim("next:"),
            escape(&message.why.next)
        ),
    }
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
