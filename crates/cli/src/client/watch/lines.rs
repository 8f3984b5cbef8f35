//! Events as lines for people: of one message, or of many with their names, and how a watched message ended.

use super::event::WatchEvent;
use crate::client::find::short;
use crate::client::now_ms;
use crate::client::page::{cut, hang};
use crate::client::screen::Screen;
use bridge_core::phase::Phase;
use bridge_core::value::StateName;
use bridge_daemon::term::{Paint, cells, escape_line, when};
use bridge_front::{EventView, MessageView};
use std::collections::BTreeMap;

/// Messages whose newest line is remembered; beyond that a line may be shown twice.
const MESSAGES_MAX: usize = 1_000;

/// Lines of a diff that are shown while Codex works; the file has the rest.
const DIFF_MAX_LINES: usize = 200;
/// Lines of a command's output that are shown.
const OUTPUT_MAX_LINES: usize = 6;

/// The lines of one or of many messages.
#[derive(Debug, Default)]
pub(crate) struct WatchLines {
    /// Whether lines begin with the name of their message.
    many: bool,
    /// Whether they begin with the time.
    timed: bool,
    /// What the lines of one message begin with; then none is overwritten.
    prefix: String,
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
            ..Self::default()
        }
    }

    /// Lines begin with the local time from now on.
    pub(crate) fn with_times(&mut self) {
        self.timed = true;
    }

    /// One message, beside others that are watched at the same time.
    #[cfg(feature = "demo")]
    pub(crate) fn named(name: &str) -> Self {
        Self {
            prefix: format!("{name} "),
            ..Self::default()
        }
    }

    /// The lines that stay, and the text of the line that changes.
    pub(crate) fn lines(
        &mut self,
        event: &WatchEvent,
        paint: Paint,
        width: Option<usize>,
    ) -> (Vec<String>, Option<String>) {
        let nothing = (Vec::new(), None);
        let alone = !self.many && self.prefix.is_empty();
        match event {
            WatchEvent::Item { message_id, event } => {
                let prefix = self.prefix(message_id, event.at.ms());
                let message = self.message(message_id);
                if event.ordinal <= message.ordinal {
                    return nothing;
                }
                message.ordinal = event.ordinal;
                let lines = message.lines.event(event, &prefix, paint, width);
                // At a terminal, what begins is the line that changes; it stays when it has ended.
                match event.kind.as_str() {
                    "item/started" if alone && width.is_some() => {
                        (Vec::new(), Some(event.text.clone()))
                    }
                    "item/completed" if alone => (lines, Some(WORKS.to_owned())),
                    _ => (lines, None),
                }
            }
            WatchEvent::State(view) => {
                self.rename(&view.message_id, &view.conversation);
                match self.message(&view.message_id).lines.state(view) {
                    Some(StateLine::Passing(_)) if !self.many => (Vec::new(), Some(passing(view))),
                    Some(StateLine::Lasting(text) | StateLine::Passing(text)) => (
                        self.marked(&view.message_id, "…", &text, paint, width),
                        None,
                    ),
                    None => nothing,
                }
            }
            WatchEvent::Moved {
                message_id,
                conversation,
                state,
            } => {
                self.rename(message_id, conversation);
                let phase = phase_of(state);
                if self.is_in(message_id, phase) {
                    return nothing;
                }
                (self.marked(message_id, "…", phase, paint, width), None)
            }
            WatchEvent::Text { message_id, text } if self.many => {
                let name = &self.message(message_id).name;
                (Vec::new(), Some(format!("{name}: {text}")))
            }
            WatchEvent::Text { text, .. } => (Vec::new(), Some(text.clone())),
            WatchEvent::Diff { message_id, text } => {
                let prefix = self.prefix(message_id, now_ms());
                (diff_lines(text, &prefix, paint, width), None)
            }
            WatchEvent::Output { message_id, text } => {
                let prefix = self.prefix(message_id, now_ms());
                (output_lines(text, &prefix, paint, width), None)
            }
            WatchEvent::End(view) if self.many => {
                self.rename(&view.message_id, &view.conversation);
                if self.is_in(&view.message_id, &view.state) {
                    return nothing;
                }
                let lines = self.marked(&view.message_id, "■", &ended(view), paint, width);
                (lines, None)
            }
            WatchEvent::Reset => {
                let said = "some events are too old to be shown; `codex-bridge show ID` has the whole story";
                (vec![paint.yellow(said)], None)
            }
            WatchEvent::End(_) | WatchEvent::RequestChanged | WatchEvent::Other => nothing,
        }
    }

    /// Puts the lines on a screen.
    pub(crate) fn show(&mut self, event: &WatchEvent, screen: &mut Screen) {
        let (lines, live) = self.lines(event, screen.paint(), screen.width());
        if !lines.is_empty() {
            screen.lines(&lines);
        }
        if let Some(live) = live.filter(|_| self.prefix.is_empty()) {
            screen.live(&live);
        }
    }

    /// Something about a message, folded to the width of the terminal.
    pub(crate) fn marked(
        &mut self,
        id: &str,
        mark: &str,
        text: &str,
        paint: Paint,
        width: Option<usize>,
    ) -> Vec<String> {
        folded(
            &self.prefix(id, now_ms()),
            &paint.cyan(mark),
            text,
            paint,
            width,
        )
    }

    /// What the lines of a message begin with.
    fn prefix(&mut self, message_id: &str, at_ms: i64) -> String {
        let time = match self.timed {
            true => format!("{} ", when(at_ms)),
            false => String::new(),
        };
        match (self.many, message_id) {
            // Of no message: about everything.
            (true, "") => time,
            (true, id) => format!("{time}{} ", self.message(id).name),
            (false, _) => format!("{time}{}", self.prefix),
        }
    }

    fn message(&mut self, message_id: &str) -> &mut WatchedMessage {
        if self.messages.len() >= MESSAGES_MAX && !self.messages.contains_key(message_id) {
            self.messages.clear();
        }
        self.messages
            .entry(message_id.to_owned())
            .or_insert_with(|| WatchedMessage {
                name: escape_line(short(message_id)).into_owned(),
                ..WatchedMessage::default()
            })
    }

    /// Names a message after its conversation, where that is known.
    fn rename(&mut self, message_id: &str, conversation: &str) {
        if !conversation.is_empty() {
            self.message(message_id).name = escape_line(conversation).into_owned();
        }
    }

    /// Whether this state of a message was shown; from now on it counts as shown.
    fn is_in(&mut self, message_id: &str, state: &str) -> bool {
        let message = self.message(message_id);
        let shown = message.state == state;
        state.clone_into(&mut message.state);
        shown
    }
}

/// Makes lines of events, and remembers the last ones, so that nothing is shown twice.
#[derive(Clone, Debug, Default)]
struct EventLines {
    now: String,
    /// The newest event, which a state need not repeat.
    event: String,
}

/// The state of a message as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StateLine {
    /// Worth a line of its own: it waits for something.
    Lasting(String),
    /// On the way to the next thing.
    Passing(String),
}

impl EventLines {
    /// An item-level event: one line, folded to the width of the terminal.
    fn event(
        &mut self,
        event: &EventView,
        prefix: &str,
        paint: Paint,
        width: Option<usize>,
    ) -> Vec<String> {
        self.event.clone_from(&event.text);
        let (mark, text) = event_words(&event.kind, &event.text);
        let mark = match mark {
            "✓" => paint.green(mark),
            "✗" => paint.red(mark),
            "↻" | "?" => paint.yellow(mark),
            _ => paint.cyan(mark),
        };
        folded(prefix, &mark, &text, paint, width)
    }

    /// Where the message is; nothing when it is where it was.
    fn state(&mut self, message: &MessageView) -> Option<StateLine> {
        if self.now == message.why.now {
            return None;
        }
        self.now.clone_from(&message.why.now);
        let waits = message.hold.is_some()
            || matches!(message.state.as_str(), "unclear" | "parked" | "steered");
        let hold = message.hold.as_ref();
        let reason = hold.map(|hold| hold.failure.reason.as_str());
        Some(if !waits {
            StateLine::Passing(message.why.now.clone())
        } else if reason == Some(&self.event) {
            StateLine::Lasting(message.why.next.clone())
        } else {
            StateLine::Lasting(format!("{}; {}", message.why.now, message.why.next))
        })
    }
}

/// What the line that changes says while Codex works.
const WORKS: &str = "Codex works on it (Ctrl-C leaves, it goes on)";

/// Where a message is on its way, in few words.
fn passing(message: &MessageView) -> String {
    match (message.state.as_str(), message.attempt) {
        ("received" | "claimed", _) => "queued".to_owned(),
        ("starting", _) => "getting Codex ready".to_owned(),
        ("running", 0 | 1) => WORKS.to_owned(),
        ("running", attempt) => format!("attempt {attempt}: {WORKS}"),
        ("answered" | "sending", _) => "the answer is on its way".to_owned(),
        _ => message.why.now.clone(),
    }
}

/// A text behind its mark; what does not fit in a line goes on below its beginning.
fn folded(prefix: &str, mark: &str, text: &str, paint: Paint, width: Option<usize>) -> Vec<String> {
    let indent = " ".repeat(cells(prefix) + 2);
    let look = |piece: &str| paint.dim(piece);
    hang(&format!("{prefix}{mark} "), &indent, text, width, look)
}

/// The last lines that a command wrote, below its own; each is cut where the terminal ends.
fn output_lines(text: &str, prefix: &str, paint: Paint, width: Option<usize>) -> Vec<String> {
    let indent = cells(prefix) + 2;
    let skip = text.lines().count().saturating_sub(OUTPUT_MAX_LINES);
    let line = |line: &str| {
        let shown = format!("│ {}", escape_line(&line.replace('\t', "    ")));
        let shown = match width {
            Some(width) => cut(&shown, width.saturating_sub(indent)),
            None => shown,
        };
        format!("{:indent$}{}", "", paint.dim(&shown))
    };
    text.lines().skip(skip).map(line).collect()
}

/// What was changed in files, in the usual colours, below the line that names it.
fn diff_lines(text: &str, prefix: &str, paint: Paint, width: Option<usize>) -> Vec<String> {
    let indent = cells(prefix) + 2;
    let mut lines = Vec::new();
    for line in text.lines().take(DIFF_MAX_LINES) {
        let inner = line
            .strip_prefix("  ")
            .and_then(|inner| inner.chars().next());
        let tint = |piece: &str| match inner {
            Some('+') => paint.green(piece),
            Some('-') => paint.red(piece),
            Some('@') => paint.cyan(piece),
            Some(_) | None => paint.dim(piece),
        };
        let blank = " ".repeat(indent);
        let shown = line.replace('\t', "    ");
        lines.extend(hang(&blank, &blank, &shown, width, tint));
    }
    let more = text.lines().count().saturating_sub(DIFF_MAX_LINES);
    if more > 0 {
        lines.push(format!(
            "{:indent$}{}",
            "",
            paint.dim(&format!("… {more} more lines"))
        ));
    }
    lines
}

/// The mark of an event, and its text as it is said afterwards.
pub(crate) fn event_words(kind: &str, text: &str) -> (&'static str, String) {
    let mark = match (kind, ended_badly(text)) {
        ("item/started", _) => "•",
        ("item/completed", false) => "✓",
        ("item/completed", true) => "✗",
        ("turn/retrying", _) => "↻",
        ("request", _) => "?",
        _ => "!",
    };
    let text = match text.strip_prefix("running ") {
        Some(command) if command.ends_with("(declined)") => format!("did not run {command}"),
        Some(command) if kind == "item/completed" => format!("ran {command}"),
        Some(_) | None => text.to_owned(),
    };
    (mark, text)
}

/// Headlines of commands say how they ended, if it was not well.
fn ended_badly(text: &str) -> bool {
    text.ends_with(')')
        && (["(exit code ", "(failed", "(declined"]
            .iter()
            .any(|end| text.contains(&format!(" {end}"))))
}

/// The word for people of a state; requests are shown by themselves.
fn phase_of(state: &str) -> &str {
    state
        .parse::<StateName>()
        .map_or(state, |name| Phase::of_name(name).as_str())
}

/// How a message ended, in one line.
fn ended(message: &MessageView) -> String {
    match &message.answer {
        Some(answer) => format!(
            "answered: {}",
            answer.text.lines().next().unwrap_or_default()
        ),
        None => format!("{}: {}", message.phase, without_phase(&message.why.now)),
    }
}

/// What is behind the phase, which is said already.
pub(crate) fn without_phase(now: &str) -> &str {
    ["it failed: ", "it was stopped: ", "it was stopped "]
        .iter()
        .find_map(|said| now.strip_prefix(said))
        .unwrap_or(now)
}

/// Why the one message that was watched has no answer: a title and what it is about.
pub(crate) fn last_words(message: &MessageView) -> (&'static str, String) {
    let title = match message.state.as_str() {
        "cancelled" => "stopped:",
        "dead" => "failed:",
        _ => "waiting:",
    };
    let now = without_phase(&message.why.now);
    (title, format!("{now}; {}", message.why.next))
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
            "message_id": "0199-aaaaaaaa", "conversation": "main", "channel": "local", "sender": "ada", "text": "hi",
            "files": [], "state": state, "phase": phase_of(state), "attempt": 1, "round": 1, "suspect": false, "stop": null, "leader": null,
            "followers": [], "behind": null, "ack": null, "thread_id": null, "received_at": 0, "updated_at": 0,
            "hold": null, "failure": null, "answer": null, "requests": [],
            "why": {"now": now, "next": "then"}, "worth_waiting": true,
        })
    }

    #[test]
    fn board_prefixes_names_for_many_messages() {
        let item = read(
            "item",
            &json!({"message_id": "0199-aaaaaaaa", "ordinal": 1, "attempt": 1, "kind": "item/started", "text": "running `ls`", "at": 0}),
        );
        let state = read("state", &message("running", "Codex works on it"));
        let parked = read("state", &message("parked", "it was cut"));
        let text = read(
            "text",
            &json!({"message_id": "0199-aaaaaaaa", "text": "so far"}),
        );
        let plain = Paint::plain();

        let mut one = WatchLines::new(false);
        assert_eq!(
            one.lines(&item, plain, None),
            (vec!["• running `ls`".to_owned()], None)
        );
        assert_eq!(one.lines(&state, plain, None).1.unwrap(), WORKS);
        assert_eq!(one.lines(&state, plain, None), (vec![], None), "said once");
        assert_eq!(one.lines(&parked, plain, None).0, ["… it was cut; then"]);
        assert_eq!(one.lines(&text, plain, None).1.unwrap(), "so far");

        let mut many = WatchLines::new(true);
        assert_eq!(
            many.lines(&item, plain, None).0,
            ["aaaaaaaa • running `ls`"]
        );
        assert_eq!(
            many.lines(&state, plain, None).0,
            ["main … Codex works on it"]
        );
        assert_eq!(many.lines(&item, plain, None).0, [""; 0], "shown once");
        let later = read(
            "item",
            &json!({"message_id": "0199-aaaaaaaa", "ordinal": 2, "attempt": 1, "kind": "item/completed", "text": "running `ls`", "at": 0}),
        );
        assert_eq!(many.lines(&later, plain, None).0, ["main ✓ ran `ls`"]);
        let moved = read(
            "state",
            &json!({"message_id": "0199-bbbbbb", "conversation": "b", "state": "running"}),
        );
        assert_eq!(many.lines(&moved, plain, None).0, ["b … working"]);
        assert_eq!(many.lines(&moved, plain, None).0, [""; 0], "said once");
        assert_eq!(many.lines(&text, plain, None).1.unwrap(), "main: so far");
        let dead = read("end", &message("dead", "given up"));
        assert_eq!(
            many.lines(&dead, plain, None).0,
            ["main ■ failed: given up"]
        );
    }

    #[test]
    fn watched_lines_carry_local_times() {
        let item = read(
            "item",
            &json!({"message_id": "0199-aaaaaaaa", "ordinal": 1, "attempt": 1, "kind": "item/started", "text": "running `ls`", "at": 86_400_000}),
        );
        let mut lines = WatchLines::new(true);
        lines.with_times();
        let at = when(86_400_000);
        let shown = lines.lines(&item, Paint::plain(), None).0;
        assert_eq!(shown, [format!("{at} aaaaaaaa • running `ls`")]);
        let note = lines.marked("", "→", "nothing runs", Paint::plain(), None);
        assert!(note[0].ends_with(" → nothing runs"), "{note:?}");
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

    fn event(kind: &str, text: &str) -> EventView {
        EventView {
            ordinal: 1,
            attempt: 1,
            kind: kind.to_owned(),
            text: text.to_owned(),
            at: bridge_front::Time::default(),
        }
    }

    #[test]
    fn events_get_marks_and_escaped_text() {
        let mut lines = EventLines::default();
        let mut said = |kind: &str, text: &str| {
            let lines = lines.event(&event(kind, text), "a ", Paint::plain(), None);
            lines.join("\n")
        };
        for (kind, text, shown) in [
            ("item/started", "running `ls`", "a • running `ls`"),
            ("item/completed", "running `ls`", "a ✓ ran `ls`"),
            (
                "item/completed",
                "running `false` (exit code 1)",
                "a ✗ ran `false` (exit code 1)",
            ),
            ("turn/retrying", "again", "a ↻ again"),
            ("request", "may it?", "a ? may it?"),
            ("bridge", "\u{1b}[2J\n", "a ! \\e[2J\\n"),
            ("what a later version says", "x", "a ! x"),
        ] {
            assert_eq!(said(kind, text), shown);
        }
    }

    #[test]
    fn diff_is_coloured_and_truncated() {
        let text = "update a.rs:\n  @@ -1 +1 @@\n  -old\u{1b}\n  +new";
        let lines = diff_lines(text, "", Paint::plain(), None);
        assert_eq!(
            lines,
            [
                "  update a.rs:",
                "    @@ -1 +1 @@",
                "    -old\\e",
                "    +new"
            ]
        );
        let lines = diff_lines(text, "", Paint::always(), None);
        assert!(lines[2].contains("\u{1b}[31m"), "{lines:?}");
        assert!(lines[3].contains("\u{1b}[32m"), "{lines:?}");
        let long = "x\n".repeat(DIFF_MAX_LINES + 5);
        let lines = diff_lines(&long, "", Paint::plain(), None);
        assert_eq!(lines.last().unwrap(), "  … 5 more lines");
    }

    #[test]
    fn long_line_wraps_with_indent() {
        let text = "running `printf aaaaaaaaaaaaaaaa`";
        let lines =
            EventLines::default().event(&event("item/started", text), "", Paint::plain(), Some(30));
        assert_eq!(lines, ["• running `printf", "  aaaaaaaaaaaaaaaa`"]);
    }
}
