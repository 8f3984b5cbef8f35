//! Small tools with one purpose each, for models that do better with a short schema than with `codex_bridge`.

use super::arguments::Arguments;
use super::wait;
use crate::{Act, ControlError, StartArgs};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::time::Duration;

/// One of the small tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Small {
    Start,
    Status,
    Wait,
    List,
    Requests,
    Respond,
    Steer,
    Interrupt,
}

/// A parsed call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SmallCall {
    /// One act, answered at once.
    Do(Act),
    /// Start a task, and wait if asked to.
    Start(StartArgs, Option<Duration>),
    /// Wait until a task ends or needs a decision.
    Wait { task_id: String, patience: Duration },
    /// List open requests of all tasks.
    Requests,
}

/// The protocol's hints about a tool's effects.
enum ToolEffect {
    Looks,
    Adds,
    Changes,
}

impl Small {
    pub(super) const ALL: [Self; 8] = [
        Self::Start,
        Self::Status,
        Self::Wait,
        Self::List,
        Self::Requests,
        Self::Respond,
        Self::Steer,
        Self::Interrupt,
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Start => "codex_start",
            Self::Status => "codex_status",
            Self::Wait => "codex_wait",
            Self::List => "codex_list",
            Self::Requests => "codex_requests",
            Self::Respond => "codex_respond",
            Self::Steer => "codex_steer",
            Self::Interrupt => "codex_interrupt",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Start => "Start a Codex task",
            Self::Status => "Look at a Codex task",
            Self::Wait => "Wait for a Codex task",
            Self::List => "List Codex tasks",
            Self::Requests => "What Codex waits for",
            Self::Respond => "Answer Codex",
            Self::Steer => "Tell a running Codex task more",
            Self::Interrupt => "Stop a Codex task",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Start => {
                "Give Codex a task. Returns its task_id at once, or with wait_seconds what became of it by then. \
                 The task goes on by itself; follow it with codex_wait."
            }
            Self::Status => {
                "What a task is doing now: status, answer or error, and what Codex asks."
            }
            Self::Wait => {
                "Wait until a task ends or Codex asks something, and return its status. \
                 When the time is over first, nothing is lost: call it again. It never stops the task."
            }
            Self::List => "The newest tasks with their status.",
            Self::Requests => {
                "Every approval and question of recent tasks that Codex waits for, with all that is decided about."
            }
            Self::Respond => {
                "Answer an approval or a question of Codex. Accept only what the person you work for wants done: \
                 look at `shown` first. Questions take `answers`."
            }
            Self::Steer => {
                "Give a task another instruction. It reaches the running turn, or waits for the next one; `steer` says which."
            }
            Self::Interrupt => "Stop a task. What it changed so far stays changed.",
        }
    }

    const fn effect(self) -> ToolEffect {
        match self {
            Self::Status | Self::Wait | Self::List | Self::Requests => ToolEffect::Looks,
            Self::Start | Self::Steer => ToolEffect::Adds,
            Self::Respond | Self::Interrupt => ToolEffect::Changes,
        }
    }

    /// Parameter schemas, and the required ones.
    fn parameters(self) -> (Value, &'static [&'static str]) {
        let task = json!({"type": "string", "description": "The task's id, codex-..."});
        let seconds = |description: String| json!({"type": "integer", "minimum": 0, "maximum": wait::MAX.as_secs(), "description": description});
        match self {
            Self::Start => (
                json!({
                    "prompt": {"type": "string", "description": "What to do, with everything Codex needs to know."},
                    "cwd": {"type": "string", "description": "Directory to work in. Default: a new one of the task's own."},
                    "model": {"type": "string", "description": "Codex model. Default: the configured one."},
                    "sandbox": {"type": "string", "enum": ["read-only", "workspace-write"], "description": "Default read-only; workspace-write lets Codex change files in cwd."},
                    "approval_policy": {"type": "string", "enum": ["untrusted", "on-request"], "description": "When Codex asks before it runs a command."},
                    "notify_target": {"type": "string", "description": "Who is told when it is done: local, webhook:<url>, molecule:<workspace>, command:<name>."},
                    "wait_seconds": seconds("Wait this long for the end or a question. Default 0.".to_owned()),
                }),
                &["prompt"],
            ),
            Self::Wait => (
                json!({
                    "task_id": task,
                    "timeout_seconds": seconds(format!("Longest wait. Default {}.", wait::DEFAULT.as_secs())),
                }),
                &["task_id"],
            ),
            Self::Status | Self::Interrupt => (json!({"task_id": task}), &["task_id"]),
            Self::List => (
                json!({"limit": {"type": "integer", "minimum": 1, "description": "Most tasks. Default 10."}}),
                &[],
            ),
            Self::Requests => (json!({}), &[]),
            Self::Respond => (
                json!({
                    "task_id": task,
                    "request_id": {"type": "string", "description": "The request's id, from the task's requests."},
                    "decision": {"type": "string", "enum": ["accept", "acceptForSession", "decline", "cancel"], "description": "cancel also stops the turn."},
                    "answers": {"type": "object", "description": "Answers by question id, e.g. {\"q1\": {\"answers\": [\"value\"]}}, or the content of a form."},
                }),
                &["task_id", "request_id", "decision"],
            ),
            Self::Steer => (
                json!({
                    "task_id": task,
                    "instruction": {"type": "string", "description": "What Codex is told."},
                }),
                &["task_id", "instruction"],
            ),
        }
    }

    pub(super) fn tool(self) -> Tool {
        let (properties, required) = self.parameters();
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        let schema = match schema {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        };
        Tool::new(self.name(), self.description(), schema)
            .with_title(self.title())
            .with_annotations(self.effect().annotations(self.title()))
    }

    /// Parses a call.
    pub(super) fn call(self, arguments: Option<JsonObject>) -> Result<SmallCall, ControlError> {
        let given = Arguments::new(self.name(), arguments);
        let (properties, _) = self.parameters();
        let known: Vec<&str> = properties
            .as_object()
            .map(|known| known.keys().map(String::as_str).collect())
            .unwrap_or_default();
        given.only(&known)?;
        let task_id = || given.needed("task_id");
        Ok(match self {
            Self::Start => SmallCall::Start(
                StartArgs {
                    prompt: given.needed("prompt")?,
                    cwd: given.text("cwd")?,
                    model: given.text("model")?,
                    sandbox: given.text("sandbox")?,
                    approval_policy: given.text("approval_policy")?,
                    codex_home: None,
                    notify_target: given.text("notify_target")?,
                    key: None,
                },
                given
                    .number("wait_seconds")?
                    .filter(|seconds| *seconds > 0)
                    .map(wait::patience),
            ),
            Self::Status => SmallCall::Do(Act::Status {
                task_id: task_id()?,
            }),
            Self::Wait => SmallCall::Wait {
                task_id: task_id()?,
                patience: given
                    .number("timeout_seconds")?
                    .map_or(wait::DEFAULT, wait::patience),
            },
            Self::List => SmallCall::Do(Act::List {
                limit: given.number("limit")?,
            }),
            Self::Requests => SmallCall::Requests,
            Self::Respond => SmallCall::Do(Act::Respond {
                task_id: task_id()?,
                request_id: given.needed("request_id")?,
                decision: Some(given.needed("decision")?),
                answers: given.object("answers")?,
            }),
            Self::Steer => SmallCall::Do(Act::Steer {
                task_id: task_id()?,
                instruction: given.needed("instruction")?,
            }),
            Self::Interrupt => SmallCall::Do(Act::Interrupt {
                task_id: task_id()?,
            }),
        })
    }
}

impl ToolEffect {
    fn annotations(&self, title: &str) -> ToolAnnotations {
        let hints = ToolAnnotations::with_title(title);
        match self {
            Self::Looks => hints.read_only(true).open_world(false),
            Self::Adds => hints.read_only(false).destructive(false).open_world(true),
            Self::Changes => hints.read_only(false).destructive(true).open_world(true),
        }
    }
}
