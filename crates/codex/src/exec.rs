//! `codex exec --json`: one run's lines, folded into what it did. Measured on 0.150 and 0.166.
//!
//! Its items are those of the app-server in other spelling, so they are read as such and judged by the same rules.
//! Flags, processes and exit codes do not belong here.

use serde_json::{Map, Value};

use crate::wire::item::Item;
use bridge_core::value::{ItemId, ThreadId};

/// Items that say something about the run and touch nothing: a warning, a list of things to do.
const HARMLESS: [&str; 2] = ["error", "todoList"];

/// News of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecNews {
    /// The run has a thread: the one that was resumed, or a new one.
    Thread(ThreadId),
    /// An item began or ended.
    Item {
        item_id: ItemId,
        /// Codex's name of the kind of item.
        kind: String,
        completed: bool,
        headline: String,
        effect: bool,
        /// The last lines that a command wrote.
        output: Option<String>,
    },
    /// Codex said something; the last of it is the answer if the run completes.
    Said {
        item_id: ItemId,
        completed: bool,
        text: String,
    },
    /// Codex tries its model again by itself, or warns.
    Retrying { message: String },
    /// Something else: the run is alive.
    Alive,
}

/// How a run's turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEnd {
    Completed,
    Failed { message: String },
}

/// Tokens of the whole thread so far: `codex exec` counts them up over resumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
}

/// The state of a run.
#[derive(Debug, Default)]
pub struct ExecFold {
    /// The thread it named.
    pub thread: Option<ThreadId>,
    /// Whether its turn began: before that the model was not called.
    pub began: bool,
    /// The last thing it said.
    pub answer: Option<String>,
    /// Whether an item that may touch the world was seen.
    pub effects: bool,
    /// How the turn ended; absent while it runs, and for ever when the process died.
    pub end: Option<ExecEnd>,
    /// Usage of the thread so far.
    pub usage: Option<ExecUsage>,
    /// The last error it reported, which a retry may have repaired.
    pub last_error: Option<String>,
}

impl ExecFold {
    /// Takes in one line. An unreadable line is a sign of life and nothing more: the end of the process says the rest.
    pub fn line(&mut self, line: &str) -> ExecNews {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return ExecNews::Alive;
        };
        let kind = event.get("type").and_then(Value::as_str);
        match kind.unwrap_or_default() {
            "thread.started" => self.thread(&event),
            "turn.started" => {
                self.began = true;
                ExecNews::Alive
            }
            "turn.completed" => {
                self.end = Some(ExecEnd::Completed);
                self.usage = usage(&event);
                ExecNews::Alive
            }
            "turn.failed" => {
                let message = event.pointer("/error/message").and_then(Value::as_str);
                let message = message.map(str::to_owned).or(self.last_error.take());
                self.end = Some(ExecEnd::Failed {
                    message: message.unwrap_or_else(|| "the turn failed".to_owned()),
                });
                ExecNews::Alive
            }
            "error" => {
                let message = event.get("message").and_then(Value::as_str);
                let message = message.unwrap_or_default().to_owned();
                self.last_error = Some(message.clone());
                ExecNews::Retrying { message }
            }
            "item.started" => self.item(&event, false),
            "item.completed" => self.item(&event, true),
            _ => ExecNews::Alive,
        }
    }

    fn thread(&mut self, event: &Value) -> ExecNews {
        match event.get("thread_id").and_then(Value::as_str) {
            Some(id) => {
                self.thread = Some(ThreadId::new(id));
                ExecNews::Thread(ThreadId::new(id))
            }
            None => ExecNews::Alive,
        }
    }

    fn item(&mut self, event: &Value, completed: bool) -> ExecNews {
        let Some(item) = event.get("item").map(respelled) else {
            return ExecNews::Alive;
        };
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let item_id = ItemId::new(id);
        if HARMLESS.contains(&kind) {
            return ExecNews::Alive;
        }
        let item = Item::from_value(&item);
        if let Item::AgentMessage(message) = item {
            if completed {
                self.answer = Some(message.text.clone());
            }
            return ExecNews::Said {
                item_id,
                completed,
                text: message.text,
            };
        }
        let effect = item.is_effect();
        self.effects |= effect;
        ExecNews::Item {
            item_id,
            kind: item.kind().to_owned(),
            completed,
            headline: item.headline(),
            effect,
            output: item.output_tail().filter(|_| completed),
        }
    }
}

fn usage(event: &Value) -> Option<ExecUsage> {
    let count = |name: &str| event.pointer(&format!("/usage/{name}"))?.as_i64();
    Some(ExecUsage {
        input_tokens: count("input_tokens")?,
        output_tokens: count("output_tokens")?,
    })
}

/// The item in the app-server's spelling: `command_execution` is `commandExecution`, and so are the names of fields.
fn respelled(item: &Value) -> Value {
    let Value::Object(fields) = item else {
        return Value::Null;
    };
    let fields: Map<String, Value> = fields
        .iter()
        .map(|(name, value)| {
            let value = match (name.as_str(), value) {
                ("type" | "status", Value::String(word)) => Value::String(camel(word)),
                ("changes", Value::Array(changes)) => changes.iter().map(change).collect(),
                (_, other) => other.clone(),
            };
            (camel(name), value)
        })
        .collect();
    Value::Object(fields)
}

/// A changed file: its kind is a word here and an object there.
fn change(change: &Value) -> Value {
    let mut change = change.clone();
    if let Some(kind) = change.get_mut("kind")
        && kind.is_string()
    {
        *kind = serde_json::json!({ "type": kind.take() });
    }
    change
}

fn camel(words: &str) -> String {
    let mut parts = words.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut name, part| {
        let mut letters = part.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.extend(letters);
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(lines: &[&str]) -> (ExecFold, Vec<ExecNews>) {
        let mut fold = ExecFold::default();
        let news = lines.iter().map(|line| fold.line(line)).collect();
        (fold, news)
    }

    /// Lines of a real run of 0.166, with a tool call and a patch.
    #[test]
    fn a_run_is_folded() {
        let (fold, news) = fold(&[
            r#"{"type":"thread.started","thread_id":"01a1e0bb-5bc8-7240-ae29-f83e18569d1d"}"#,
            r#"{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata not found"}}"#,
            r#"{"type":"turn.started"}"#,
            r#"{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"looking"}}"#,
            r#"{"type":"item.started","item":{"id":"item_2","type":"command_execution","command":"/bin/bash -lc 'echo hi'","aggregated_output":"","exit_code":null,"status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"item_3","type":"file_change","changes":[{"path":"/w/a.txt","kind":"add"}],"status":"completed"}}"#,
            r#"{"type":"error","message":"Reconnecting... 1/1"}"#,
            r#"{"type":"item.completed","item":{"id":"item_4","type":"agent_message","text":"done"}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":20,"output_tokens":10}}"#,
        ]);
        let item = |id: &str, kind: &str, completed, headline: &str| ExecNews::Item {
            item_id: ItemId::new(id),
            kind: kind.to_owned(),
            completed,
            headline: headline.to_owned(),
            effect: true,
            output: None,
        };
        assert_eq!(news[1], ExecNews::Alive, "a warning is no effect");
        assert_eq!(
            news[4],
            item("item_2", "commandExecution", false, "running `echo hi`")
        );
        assert_eq!(
            news[5],
            item("item_3", "fileChange", true, "editing /w/a.txt")
        );
        assert!(fold.began && fold.effects);
        assert_eq!(fold.answer.as_deref(), Some("done"));
        assert_eq!(fold.end, Some(ExecEnd::Completed));
        let usage = ExecUsage {
            input_tokens: 100,
            output_tokens: 10,
        };
        assert_eq!(fold.usage, Some(usage));
    }

    #[test]
    fn unknown_items_count_as_effects() {
        let kind = |kind: &str| {
            let line = format!(
                r#"{{"type":"item.started","item":{{"id":"i","type":"{kind}","text":""}}}}"#
            );
            fold(&[line.as_str()]).0.effects
        };
        for harmless in [
            "agent_message",
            "reasoning",
            "todo_list",
            "web_search",
            "error",
        ] {
            assert!(!kind(harmless), "{harmless}");
        }
        for effect in ["mcp_tool_call", "collab_tool_call", "something_new"] {
            assert!(kind(effect), "{effect}");
        }
    }

    #[test]
    fn failed_turn_reports_why_despite_noise() {
        let (failed, _) = fold(&[
            "not json",
            "{}",
            r#"{"type":"error","message":"x"}"#,
            r#"{"type":"turn.failed","error":{"message":"stream disconnected"}}"#,
        ]);
        let message = "stream disconnected".to_owned();
        assert_eq!(failed.end, Some(ExecEnd::Failed { message }));
        assert_eq!(fold(&["not json", "[]", "null"]).0.end, None);
    }
}
