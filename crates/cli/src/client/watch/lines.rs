//! The lines of `watch`: events of one message, or of many with their names, and how a watched message ended.

use super::event::WatchEvent;
use crate::client::event_lines::{EventLines, StateLine, diff_lines};
use crate::client::screen::Screen;
use bridge_daemon::term::{Paint, escape, escape_line};
use bridge_front::MessageView;
use std::collections::BTreeMap;

/// Messages whose newest line is remembered; beyond that a line may be shown twice.
const MESSAGES_MAX: usize = 1_000;
/// Letters at the end of an id that distinguish messages; its beginning is the time.
const ID_TAIL: usize = 6;

/// The lines of one or of many messages.
#[derive(Debug, Default)]
pub(crate) struct WatchLines {
    /// Whether lines begin with the name of their message.
    many: bool,
    messages: BTreeMap<String, WatchedMessage>,
}

#[derive(Debug, Default)]
struct WatchedMessage {
    name: String,
    lines: EventLines,
    /// The newest event that was shown: a resumed stream repeats some events.
    ordinal: u32,
    state: String,
}

impl WatchLines {
    pub(crate) fn new(many: bool) -> Self {
        Self {
            many,
            messages: BTreeMap::new(),
        }
    }

    /// The lines that stay, and the text of the line that changes.
    pub(crate) fn lines(
        &mut self,
        event: &WatchEvent,
        paint: Paint,
        width: Option<usize>,
    ) -> (Vec<String>, Option<String>) {
        let many = self.many;
        match event {
            WatchEvent::Item { message_id, event } => {
                let named = self.named(message_id);
                if event.ordinal <= named.ordinal {
                    return (Vec::new(), None);
                }
                named.ordinal = event.ordinal;
                let prefix = if many {
                    format!("{} ", named.name)
                } else {
                    String::new()
                };
                (named.lines.event(event, &prefix, paint, width), None)
            }
            WatchEvent::State(message) => {
                let named = self.called(message);
                let name = named.name.clone();
                match named.lines.state(message) {
                    Some(StateLine::Lasting(text)) => {
                        (vec![line(many, &name, "…", &text, paint)], None)
                    }
                    Some(StateLine::Passing(text)) if many => {
                        (vec![line(many, &name, "…", &text, paint)], None)
                    }
                    Some(StateLine::Passing(text)) => (Vec::new(), Some(text)),
                    None => (Vec::new(), None),
                }
            }
            WatchEvent::Moved {
                message_id,
                conversation,
                state,
            } => {
                let named = self.named(message_id);
                if !conversation.is_empty() {
                    named.name = escape_line(conversation).into_owned();
                }
                if named.state == *state {
                    return (Vec::new(), None);
                }
                named.state.clone_from(state);
                let name = named.name.clone();
                (vec![line(many, &name, "…", state, paint)], None)
            }
            WatchEvent::Text { message_id, text } => {
                let live = if many {
                    format!("{}: {text}", self.named(message_id).name)
                } else {
                    text.clone()
                };
                (Vec::new(), Some(live))
            }
            WatchEvent::Diff { message_id, text } => {
                let name = self.named(message_id).name.clone();
                let prefix = if many {
                    format!("{name} ")
                } else {
                    String::new()
                };
                (diff_lines(text, &prefix, paint, width), None)
            }
            WatchEvent::End(message) if many => {
                let named = self.called(message);
                if named.state == message.state {
                    return (Vec::new(), None);
                }
                named.state.clone_from(&message.state);
                let name = named.name.clone();
                (vec![line(many, &name, "■", &ended(message), paint)], None)
            }
            WatchEvent::Reset => {
                let said =
                    "some news are too old to be told; `codex-bridge show ID` has the whole story";
                (vec![paint.yellow(said)], None)
            }
            WatchEvent::End(_) | WatchEvent::RequestChanged | WatchEvent::Other => {
                (Vec::new(), None)
            }
        }
    }

    /// Puts the lines on a screen.
    pub(crate) fn show(&mut self, event: &WatchEvent, screen: &mut Screen) {
        let (lines, live) = self.lines(event, screen.paint(), screen.width());
        if !lines.is_empty() {
            screen.lines(&lines);
        }
        if let Some(live) = live {
            screen.live(&live);
        }
    }

    fn named(&mut self, message_id: &str) -> &mut WatchedMessage {
        if self.messages.len() >= MESSAGES_MAX && !self.messages.contains_key(message_id) {
            self.messages.clear();
        }
        self.messages
            .entry(message_id.to_owned())
            .or_insert_with(|| WatchedMessage {
                name: tail_of(message_id),
                ..WatchedMessage::default()
            })
    }

    fn called(&mut self, message: &MessageView) -> &mut WatchedMessage {
        let named = self.named(&message.message_id);
        named.name = match message.conversation.as_str() {
            "" => tail_of(&message.message_id),
            conversation => escape_line(conversation).into_owned(),
        };
        named
    }
}

fn line(many: bool, name: &str, mark: &str, text: &str, paint: Paint) -> String {
    let name = if many {
        format!("{name} ")
    } else {
        String::new()
    };
    format!(
        "{name}{} {}",
        paint.cyan(mark),
        paint.dim(&escape_line(text))
    )
}

fn tail_of(id: &str) -> String {
    let from = id.len().saturating_sub(ID_TAIL);
    escape_line(id.get(from..).unwrap_or(id)).into_owned()
}

/// How a message ended, in one line.
fn ended(message: &MessageView) -> String {
    match &message.answer {
        Some(answer) => format!(
            "answered: {}",
            answer.text.lines().next().unwrap_or_default()
        ),
        None => format!("{}: {}", message.state, message.why.now),
    }
}

/// The end of the one message that was watched: its answer, or why there is none.
pub(crate) fn last_words(message: &MessageView, paint: Paint) -> String {
    match &message.answer {
        Some(answer) => escape(&answer.text).into_owned(),
        None => {
            let title = match message.state.as_str() {
                "cancelled" => "stopped:",
                "dead" => "no answer:",
                _ => "waiting:",
            };
            let said = format!("{}; {}", message.why.now, message.why.next);
            format!("{} {}", paint.red(title), escape(&said))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::sse::SseEvent;
    use serde_json::{Value, json};

    fn read(name: &str, data: &Value) -> WatchEvent {
        let event = SseEvent {
            name: name.to_owned(),
            data: data.to_string(),
            id: String::new(),
        };
        WatchEvent::read(&event, "watched").unwrap()
    }

    fn message(state: &str, now: &str) -> Value {
        json!({
            "message_id": "0199-aaaaaa", "conversation": "main", "channel": "local", "sender": "ada", "text": "hi",
            "files": [], "state": state, "attempt": 1, "round": 1, "suspect": false, "stop": null, "leader": null,
            "followers": [], "behind": null, "ack": null, "thread_id": null, "received_at": 0, "updated_at": 0,
            "hold": null, "failure": null, "answer": null, "requests": [],
            "why": {"now": now, "next": "then"}, "worth_waiting": true,
        })
    }

    #[test]
    fn board_prefixes_names_for_many_messages() {
        let item = read(
            "item",
            &json!({"message_id": "0199-aaaaaa", "ordinal": 1, "attempt": 1, "kind": "item/started", "text": "running `ls`", "at": 0}),
        );
        let state = read("state", &message("running", "Codex works on it"));
        let parked = read("state", &message("parked", "it was cut"));
        let text = read(
            "text",
            &json!({"message_id": "0199-aaaaaa", "text": "so far"}),
        );
        let plain = Paint::plain();

        let mut one = WatchLines::new(false);
        assert_eq!(
            one.lines(&item, plain, None),
            (vec!["• running `ls`".to_owned()], None)
        );
        assert_eq!(
            one.lines(&state, plain, None).1.unwrap(),
            "Codex works on it"
        );
        assert_eq!(one.lines(&state, plain, None), (vec![], None), "said once");
        assert_eq!(one.lines(&parked, plain, None).0, ["… it was cut; then"]);
        assert_eq!(one.lines(&text, plain, None).1.unwrap(), "so far");

        let mut many = WatchLines::new(true);
        assert_eq!(many.lines(&item, plain, None).0, ["aaaaaa • running `ls`"]);
        assert_eq!(
            many.lines(&state, plain, None).0,
            ["main … Codex works on it"]
        );
        assert_eq!(many.lines(&item, plain, None).0, [""; 0], "shown once");
        let later = read(
            "item",
            &json!({"message_id": "0199-aaaaaa", "ordinal": 2, "attempt": 1, "kind": "item/completed", "text": "running `ls`", "at": 0}),
        );
        assert_eq!(many.lines(&later, plain, None).0, ["main ✓ running `ls`"]);
        let moved = read(
            "state",
            &json!({"message_id": "0199-bbbbbb", "conversation": "b", "state": "running"}),
        );
        assert_eq!(many.lines(&moved, plain, None).0, ["b … running"]);
        assert_eq!(many.lines(&moved, plain, None).0, [""; 0], "said once");
        assert_eq!(many.lines(&text, plain, None).1.unwrap(), "main: so far");
        let dead = read("end", &message("dead", "given up"));
        assert_eq!(many.lines(&dead, plain, None).0, ["main ■ dead: given up"]);
    }

    #[test]
    fn unknown_event_kind_is_ignored() {
        assert!(matches!(
            read("brand_new", &json!({"x": 1})),
            WatchEvent::Other
        ));
        assert!(read("request/decided", &json!({})).may_ask());
        assert!(!read("text", &json!({"text": "x"})).may_ask());
    }
}
