//! Puts a step on the wire: the events of one stream, in order, with the waits between them.
//! Pure but for the ids: it composes [`Beat`]s, `server` plays them.
//! The shapes of tool calls are in `calls`, HTTP errors in `refuse`.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};
use uuid::Uuid;

use super::calls;
use super::prompt::{Prompt, own_words};
use super::step::{Act, Cue, Ending, Phase, Step, Usage};

/// How much of a message an answer quotes.
const QUOTED_CHARS: usize = 200;
/// How much of a tool's output an answer quotes.
const QUOTED_OUTPUT_CHARS: usize = 400;
/// How many earlier messages `remember:` quotes, the latest ones.
const REMEMBERED: usize = 20;

/// One thing to do in a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Beat {
    Send(Bytes),
    Sleep(Duration),
    /// Wait until the gate of this name is opened.
    Hold(String),
    /// Wait for what never comes; the name says who waits.
    Hang(String),
    /// Break the socket, with the stream unfinished.
    Break,
}

/// A new id in the manner of the API.
pub(super) fn id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::now_v7().simple())
}

/// At most `most` characters of a text.
pub(super) fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The stream that answers `prompt` with `step`; `breaks` says whether its `break:` is due.
/// Without a step the script has run out: the model then says what the tool said.
pub(super) fn compose(prompt: &Prompt, step: Option<&Step>, breaks: bool) -> Vec<Beat> {
    let mut score = Score {
        response: id("resp"),
        beats: Vec::new(),
        index: 0,
        breaks,
    };
    score.created();
    match step {
        Some(step) => score.play(prompt, step),
        None => {
            score.message(&[tool_said(prompt)], &Pace::default(), None);
            score.end(&Ending::Completed, Usage::default());
        }
    }
    score.beats
}

struct Score {
    response: String,
    beats: Vec<Beat>,
    /// Position of the next output item.
    index: u64,
    breaks: bool,
}

impl Score {
    fn created(&mut self) {
        let response = json!({"id": self.response, "object": "response", "status": "in_progress"});
        self.event(json!({"type": "response.created", "response": response}));
    }

    fn play(&mut self, prompt: &Prompt, step: &Step) {
        for cue in &step.cues {
            self.cue(cue);
        }
        if !matches!(step.ending, Ending::Failed { .. }) {
            self.act(prompt, step);
        }
        self.end(&step.ending, step.usage);
    }

    fn cue(&mut self, cue: &Cue) {
        match cue {
            Cue::Sleep(time) => self.beats.push(Beat::Sleep(*time)),
            Cue::Hold(name) => self.beats.push(Beat::Hold(name.clone())),
            Cue::Hang(name) => self.beats.push(Beat::Hang(name.clone())),
            Cue::Reason(text) => self.reasoning(text),
            Cue::Say { text, phase } => {
                let breaks = std::mem::take(&mut self.breaks);
                self.message(std::slice::from_ref(text), &Pace::default(), Some(*phase));
                self.breaks = breaks;
            }
        }
    }

    fn act(&mut self, prompt: &Prompt, step: &Step) {
        let (deltas, gap) = match &step.act {
            Act::Call(call) => return self.call(calls::item(call, prompt)),
            Act::Quote => (vec![quote(prompt)], Duration::ZERO),
            Act::Echo(text) => (vec![text.clone()], Duration::ZERO),
            Act::Big(size) => (vec!["x".repeat(*size)], Duration::ZERO),
            Act::Remember => (vec![remember(prompt)], Duration::ZERO),
            Act::Stream { deltas, gap } => ((0..*deltas).map(|n| format!("w{n} ")).collect(), *gap),
        };
        let pace = Pace {
            gap,
            pause: step.pause.clone(),
        };
        let deltas = match (&pace.pause, deltas.as_slice()) {
            (Some(_), [whole]) => halves(whole),
            (Some(_), _) | (None, _) => deltas,
        };
        self.message(&deltas, &pace, step.phase);
    }

    fn message(&mut self, deltas: &[String], pace: &Pace, phase: Option<Phase>) {
        let id = id("msg");
        self.item("added", message(&id, None, phase));
        for (n, delta) in deltas.iter().enumerate() {
            if let (true, Some(name)) = (n == deltas.len() / 2, &pace.pause) {
                self.beats.push(Beat::Hold(name.clone()));
            }
            self.event(json!({
                "type": "response.output_text.delta",
                "item_id": id,
                "output_index": self.index,
                "content_index": 0,
                "delta": delta,
            }));
            self.break_if_due();
            if !pace.gap.is_zero() {
                self.beats.push(Beat::Sleep(pace.gap));
            }
        }
        self.item("done", message(&id, Some(&deltas.concat()), phase));
        self.index += 1;
    }

    fn reasoning(&mut self, text: &str) {
        let id = id("rs");
        let item = |summary: Value| json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": "mock"});
        self.item("added", item(json!([])));
        self.event(json!({
            "type": "response.reasoning_summary_text.delta",
            "item_id": id,
            "output_index": self.index,
            "summary_index": 0,
            "delta": text,
        }));
        self.item(
            "done",
            item(json!([{"type": "summary_text", "text": text}])),
        );
        self.index += 1;
    }

    fn call(&mut self, item: Value) {
        let mut begun = item.clone();
        if let Some(fields) = begun.as_object_mut() {
            fields.insert("status".to_owned(), "in_progress".into());
        }
        self.item("added", begun);
        self.break_if_due();
        self.item("done", item);
        self.index += 1;
    }

    fn end(&mut self, ending: &Ending, usage: Usage) {
        let id = &self.response;
        let (kind, response) = match ending {
            Ending::Completed | Ending::Broken { .. } => (
                "response.completed",
                json!({"id": id, "object": "response", "status": "completed", "usage": cost(usage)}),
            ),
            Ending::Incomplete => (
                "response.incomplete",
                json!({"id": id, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}),
            ),
            Ending::Failed { code } => (
                "response.failed",
                json!({"id": id, "status": "failed", "error": {"code": code, "message": "mock sse failure"}}),
            ),
        };
        self.event(json!({"type": kind, "response": response}));
    }

    fn break_if_due(&mut self) {
        if std::mem::take(&mut self.breaks) {
            self.beats.push(Beat::Break);
        }
    }

    fn item(&mut self, moment: &str, item: Value) {
        let kind = format!("response.output_item.{moment}");
        self.event(json!({"type": kind, "output_index": self.index, "item": item}));
    }

    fn event(&mut self, data: Value) {
        let kind = data.get("type").and_then(Value::as_str).unwrap_or_default();
        let text = format!("event: {kind}\ndata: {data}\n\n");
        self.beats.push(Beat::Send(Bytes::from(text)));
    }
}

/// A message that has begun, or with its text one that is complete.
/// How fast a message is said.
#[derive(Debug, Default)]
struct Pace {
    gap: Duration,
    /// The gate in the middle of it.
    pause: Option<String>,
}

fn halves(text: &str) -> Vec<String> {
    let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
    vec![first.to_owned(), second.to_owned()]
}

fn message(id: &str, text: Option<&str>, phase: Option<Phase>) -> Value {
    let (status, content) = match text {
        None => ("in_progress", json!([])),
        Some(text) => (
            "completed",
            json!([{"type": "output_text", "text": text, "annotations": []}]),
        ),
    };
    let mut item = json!({
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": status,
        "content": content,
    });
    if let (Some(phase), Some(fields)) = (phase, item.as_object_mut()) {
        fields.insert("phase".to_owned(), phase.as_str().into());
    }
    item
}

fn cost(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.input / 5},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input.saturating_add(usage.output),
    })
}

fn quote(prompt: &Prompt) -> String {
    let text = clip(own_words(prompt.last()), QUOTED_CHARS);
    format!("You said: \"{text}\". I am a scripted model, so all I can do is quote you.")
}

fn tool_said(prompt: &Prompt) -> String {
    let output = prompt.outputs.last().map_or("", String::as_str);
    format!("tool said: {}", clip(output, QUOTED_OUTPUT_CHARS))
}

fn remember(prompt: &Prompt) -> String {
    let earlier = prompt.users.len().saturating_sub(1);
    if earlier == 0 {
        return "I have seen 1 message from you; nothing before this one.".to_owned();
    }
    let skipped = earlier.saturating_sub(REMEMBERED);
    let quotes: Vec<String> = prompt
        .users
        .iter()
        .take(earlier)
        .skip(skipped)
        .map(|text| format!("\"{}\"", clip(own_words(text), QUOTED_CHARS)))
        .collect();
    format!(
        "I have seen {} messages from you; before this one: {}{}",
        earlier + 1,
        if skipped > 0 { "…, " } else { "" },
        quotes.join(", "),
    )
}

#[cfg(test)]
#[path = "respond_tests.rs"]
mod tests;
