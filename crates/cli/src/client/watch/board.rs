//! What a watcher has before their eyes: each message's lines with its name, and how a watched one ended.

use super::news::News;
use crate::client::scene::{Place, Scene, diff_lines};
use crate::client::screen::Screen;
use bridge_daemon::term::{Paint, escape, escape_line};
use bridge_front::MessageView;
use std::collections::BTreeMap;

/// Messages whose newest words are remembered; beyond that they may be said twice.
const SCENES_MAX: usize = 1_000;
/// Letters of an id that tell messages apart; time is in front.
const ID_TAIL: usize = 6;

/// The lines of one or of many messages.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Whether lines begin with the name of what they are about.
    many: bool,
    scenes: BTreeMap<String, Named>,
}

#[derive(Debug, Default)]
struct Named {
    name: String,
    scene: Scene,
    /// The newest event that was told: a stream that goes on tells a little of what it told before.
    ordinal: u32,
    state: String,
}

impl Board {
    pub(crate) fn new(many: bool) -> Self {
        Self {
            many,
            scenes: BTreeMap::new(),
        }
    }

    /// The lines that stay, and the text of the line that changes.
    pub(crate) fn tell(
        &mut self,
        news: &News,
        paint: Paint,
        width: Option<usize>,
    ) -> (Vec<String>, Option<String>) {
        let many = self.many;
        match news {
            News::Item { message_id, event } => {
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
                (named.scene.event(event, &prefix, paint, width), None)
            }
            News::State(message) => {
                let named = self.called(message);
                let name = named.name.clone();
                match named.scene.state(message) {
                    Some(Place::Stays(text)) => (vec![line(many, &name, "…", &text, paint)], None),
                    Some(Place::Passes(text)) if many => {
                        (vec![line(many, &name, "…", &text, paint)], None)
                    }
                    Some(Place::Passes(text)) => (Vec::new(), Some(text)),
                    None => (Vec::new(), None),
                }
            }
            News::Moved {
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
            News::Text { message_id, text } => {
                let live = if many {
                    format!("{}: {text}", self.named(message_id).name)
                } else {
                    text.clone()
                };
                (Vec::new(), Some(live))
            }
            News::Diff { message_id, text } => {
                let name = self.named(message_id).name.clone();
                let prefix = if many {
                    format!("{name} ")
                } else {
                    String::new()
                };
                (diff_lines(text, &prefix, paint, width), None)
            }
            News::End(message) if many => {
                let named = self.called(message);
                if named.state == message.state {
                    return (Vec::new(), None);
                }
                named.state.clone_from(&message.state);
                let name = named.name.clone();
                (vec![line(many, &name, "■", &ended(message), paint)], None)
            }
            News::Reset => {
                let said =
                    "some news are too old to be told; `codex-bridge show ID` has the whole story";
                (vec![paint.yellow(said)], None)
            }
            News::End(_) | News::Asked | News::Other => (Vec::new(), None),
        }
    }

    /// Puts the lines on a screen.
    pub(crate) fn show(&mut self, news: &News, screen: &mut Screen) {
        let (lines, live) = self.tell(news, screen.paint(), screen.width());
        if !lines.is_empty() {
            screen.lines(&lines);
        }
        if let Some(live) = live {
            screen.live(&live);
        }
    }

    fn named(&mut self, message_id: &str) -> &mut Named {
        if self.scenes.len() >= SCENES_MAX && !self.scenes.contains_key(message_id) {
            self.scenes.clear();
        }
        self.scenes
            .entry(message_id.to_owned())
            .or_insert_with(|| Named {
                name: tail_of(message_id),
                ..Named::default()
            })
    }

    fn called(&mut self, message: &MessageView) -> &mut Named {
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

    fn read(name: &str, data: &Value) -> News {
        let event = SseEvent {
            name: name.to_owned(),
            data: data.to_string(),
            id: String::new(),
        };
        News::read(&event, "watched").unwrap()
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

        let mut one = Board::new(false);
        assert_eq!(
            one.tell(&item, plain, None),
            (vec!["• running `ls`".to_owned()], None)
        );
        assert_eq!(
            one.tell(&state, plain, None).1.unwrap(),
            "Codex works on it"
        );
        assert_eq!(one.tell(&state, plain, None), (vec![], None), "said once");
        assert_eq!(one.tell(&parked, plain, None).0, ["… it was cut; then"]);
        assert_eq!(one.tell(&text, plain, None).1.unwrap(), "so far");

        let mut many = Board::new(true);
        assert_eq!(many.tell(&item, plain, None).0, ["aaaaaa • running `ls`"]);
        assert_eq!(
            many.tell(&state, plain, None).0,
            ["main … Codex works on it"]
        );
        assert_eq!(many.tell(&item, plain, None).0, [""; 0], "told once");
        let later = read(
            "item",
            &json!({"message_id": "0199-aaaaaa", "ordinal": 2, "attempt": 1, "kind": "item/completed", "text": "running `ls`", "at": 0}),
        );
        assert_eq!(many.tell(&later, plain, None).0, ["main ✓ running `ls`"]);
        let moved = read(
            "state",
            &json!({"message_id": "0199-bbbbbb", "conversation": "b", "state": "running"}),
        );
        assert_eq!(many.tell(&moved, plain, None).0, ["b … running"]);
        assert_eq!(many.tell(&moved, plain, None).0, [""; 0], "said once");
        assert_eq!(many.tell(&text, plain, None).1.unwrap(), "main: so far");
        let dead = read("end", &message("dead", "given up"));
        assert_eq!(many.tell(&dead, plain, None).0, ["main ■ dead: given up"]);
    }

    #[test]
    fn unknown_event_kind_is_ignored() {
        assert!(matches!(read("brand_new", &json!({"x": 1})), News::Other));
        assert!(read("request/decided", &json!({})).may_ask());
        assert!(!read("text", &json!({"text": "x"})).may_ask());
    }
}
