//! Tools for one purpose each, for models that do better with a short schema than with `codex_bridge`, and their arguments.

use super::{codex_bridge, wait};
use crate::{ControlAction, ControlError, StartArgs};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::time::Duration;

/// One of the small tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskTool {
    Start,
    Status,
    Wait,
    List,
    Requests,
    Respond,
    Steer,
    Interrupt,
}

/// What a call of a tool asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum McpCall {
    /// `codex_bridge`: one act, answered with its whole envelope.
    Whole(ControlAction),
    /// One act, answered briefly.
    Do(ControlAction),
    /// Start, and then wait if that is asked for.
    Start(StartArgs, Option<Duration>),
    /// Wait until the task ends or asks.
    Wait { task_id: String, patience: Duration },
    /// What Codex waits for, in all recent tasks.
    Requests,
}

/// What a tool does to the world, as the protocol's hints.
enum ToolEffect {
    Looks,
    Adds,
    Changes,
}

impl TaskTool {
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

    /// Its name, title, effect and description.
    const fn about(self) -> (&'static str, &'static str, ToolEffect, &'static str) {
        match self {
            Self::Start => (
                "codex_start",
                "Start a Codex task",
                ToolEffect::Adds,
                "Give Codex a task. Returns its task_id at once, or with wait_seconds its status by then. \
                 The task goes on by itself; follow it with codex_wait.",
            ),
            Self::Status => (
                "codex_status",
                "Look at a Codex task",
                ToolEffect::Looks,
                "What a task is doing now: status, answer or error, and what Codex asks.",
            ),
            Self::Wait => (
                "codex_wait",
                "Wait for a Codex task",
                ToolEffect::Looks,
                "Wait until a task ends or Codex asks something, and return its status. \
                 When the time is over first, nothing is lost: call it again. It never stops the task.",
            ),
            Self::List => (
                "codex_list",
                "List Codex tasks",
                ToolEffect::Looks,
                "The newest tasks with their status.",
            ),
            Self::Requests => (
                "codex_requests",
                "What Codex waits for",
                ToolEffect::Looks,
                "Every approval and question of recent tasks that Codex waits for, with all that is decided about.",
            ),
            Self::Respond => (
                "codex_respond",
                "Answer Codex",
                ToolEffect::Changes,
                "Answer an approval or a question of Codex. Accept only what the person you work for wants done: \
                 look at `shown` first. Questions take `answers`.",
            ),
            Self::Steer => (
                "codex_steer",
                "Tell a running Codex task more",
                ToolEffect::Adds,
                "Give a task another instruction. It reaches the running turn, or waits for the next one; `steer` says which.",
            ),
            Self::Interrupt => (
                "codex_interrupt",
                "Stop a Codex task",
                ToolEffect::Changes,
                "Stop a task. What it changed so far stays changed.",
            ),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        self.about().0
    }

    /// Parameters with their schema, and which of them are required.
    fn parameters(self) -> (Value, &'static [&'static str]) {
        let task = json!({"type": "string", "description": "The task's id, codex-..."});
        let seconds = |description: String| json!({"type": "integer", "minimum": 0, "maximum": wait::MAX.as_secs(), "description": description});
        match self {
            Self::Start => (
                json!({
                    "prompt": {"type": "string", "description": "What to do, with everything Codex needs to know."},
                    "cwd": {"type": "string", "description": "Directory to work in. Default: the client's own directory over stdio, else a new one of the task's own."},
                    "model": {"type": "string", "description": "Codex model. Default: the configured one."},
                    "sandbox": {"type": "string", "enum": ["read-only", "workspace-write"], "description": "Default read-only; workspace-write lets Codex change files in cwd."},
                    "approval_policy": {"type": "string", "enum": ["untrusted", "on-request"], "description": "When Codex asks before it runs a command."},
                    "notify_target": {"type": "string", "description": "Target of the notification at its end: local, webhook:<url>, molecule:<workspace>, command:<name>."},
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
                    "instruction": {"type": "string", "description": "The instruction for Codex."},
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
        let (name, title, effect, description) = self.about();
        Tool::new(name, description, rmcp::model::object(schema))
            .with_title(title)
            .with_annotations(effect.annotations(title))
    }

    /// What a call asks for.
    pub(super) fn call(self, arguments: Option<JsonObject>) -> Result<McpCall, ControlError> {
        let given = Arguments::new(self.name(), arguments);
        let (properties, _) = self.parameters();
        let known: Vec<&str> = properties
            .as_object()
            .map(|known| known.keys().map(String::as_str).collect())
            .unwrap_or_default();
        given.only(&known)?;
        let task_id = || given.needed("task_id");
        Ok(match self {
            Self::Start => McpCall::Start(
                StartArgs {
                    prompt: given.needed("prompt")?,
                    cwd: given.text("cwd")?,
                    model: given.text("model")?,
                    sandbox: given.text("sandbox")?,
                    approval_policy: given.text("approval_policy")?,
                    codex_home: None,
                    notify_target: given.text("notify_target")?,
                    key: None,
                    base: None,
                },
                given
                    .number("wait_seconds")?
                    .filter(|seconds| *seconds > 0)
                    .map(wait::patience),
            ),
            Self::Status => McpCall::Do(ControlAction::Status {
                task_id: task_id()?,
            }),
            Self::Wait => McpCall::Wait {
                task_id: task_id()?,
                patience: given
                    .number("timeout_seconds")?
                    .map_or(wait::DEFAULT, wait::patience),
            },
            Self::List => McpCall::Do(ControlAction::List {
                limit: given.number("limit")?,
            }),
            Self::Requests => McpCall::Requests,
            Self::Respond => McpCall::Do(ControlAction::Respond {
                task_id: task_id()?,
                request_id: given.needed("request_id")?,
                decision: Some(given.needed("decision")?),
                answers: given.object("answers")?,
            }),
            Self::Steer => McpCall::Do(ControlAction::Steer {
                task_id: task_id()?,
                instruction: given.needed("instruction")?,
            }),
            Self::Interrupt => McpCall::Do(ControlAction::Interrupt {
                task_id: task_id()?,
            }),
        })
    }
}

impl McpCall {
    /// Reads a call of any tool.
    pub(super) fn read(
        request: CallToolRequestParams,
    ) -> Result<Result<Self, ControlError>, ErrorData> {
        let CallToolRequestParams {
            name, arguments, ..
        } = request;
        if name == codex_bridge::NAME {
            return Ok(codex_bridge::act(arguments).map(Self::Whole));
        }
        match TaskTool::named(&name) {
            Some(tool) => Ok(tool.call(arguments)),
            None => Err(ErrorData::invalid_params(
                format!("there is no tool {name:?}"),
                None,
            )),
        }
    }

    /// Makes a repeated start the same task.
    pub(super) fn with_key(mut self, key: Option<String>) -> Self {
        if let Self::Start(args, _) | Self::Whole(ControlAction::Start(args)) = &mut self {
            args.key = key;
        }
        self
    }

    /// Where the client works.
    pub(super) fn with_base(mut self, base: Option<String>) -> Self {
        if let Self::Start(args, _) | Self::Whole(ControlAction::Start(args)) = &mut self {
            args.base = base;
        }
        self
    }
}

/// What a proxy must know of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTraits {
    /// A repetition is harmless: the call only reads, or starts a task under the same idempotency key.
    pub repeatable: bool,
    /// It starts a task, so it matters where the client works.
    pub starts: bool,
    /// How long the call waits, and the argument that says so.
    pub wait: Option<(&'static str, Duration)>,
}

impl CallTraits {
    /// Of a call of any tool. One that the daemon will refuse has none.
    #[must_use]
    pub fn of(request: &CallToolRequestParams) -> Self {
        let Ok(Ok(call)) = McpCall::read(request.clone()) else {
            return Self::default();
        };
        let wait = match &call {
            McpCall::Start(_, patience) => patience.map(|patience| ("wait_seconds", patience)),
            McpCall::Wait { patience, .. } => Some(("timeout_seconds", *patience)),
            McpCall::Whole(_) | McpCall::Do(_) | McpCall::Requests => None,
        };
        let repeatable = match &call {
            McpCall::Whole(act) | McpCall::Do(act) => matches!(
                act,
                ControlAction::Start(_)
                    | ControlAction::Status { .. }
                    | ControlAction::List { .. }
                    | ControlAction::Requests
            ),
            McpCall::Start(..) | McpCall::Wait { .. } | McpCall::Requests => true,
        };
        let starts = matches!(
            &call,
            McpCall::Start(..) | McpCall::Whole(ControlAction::Start(_))
        );
        Self {
            repeatable,
            starts,
            wait,
        }
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

/// The arguments of one call. `null` counts as absent: models fill in parameters that they do not use.
#[derive(Debug)]
pub(super) struct Arguments {
    tool: &'static str,
    values: JsonObject,
}

impl Arguments {
    pub(super) fn new(tool: &'static str, values: Option<JsonObject>) -> Self {
        Self {
            tool,
            values: values.unwrap_or_default(),
        }
    }

    /// A text; white space alone counts as absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ControlError> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.unfit(name, "a string")),
        }
    }

    /// A required text.
    pub(super) fn needed(&self, name: &str) -> Result<String, ControlError> {
        self.text(name)?
            .ok_or_else(|| ControlError::invalid(format!("{} requires {name}.", self.tool)))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, ControlError> {
        let unfit = || self.unfit(name, "a whole number that is not negative");
        match self.given(name) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_u64().ok_or_else(unfit)?;
                u32::try_from(number).map(Some).map_err(|_| unfit())
            }
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ControlError> {
        match self.given(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.unfit(name, "true or false")),
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Value>, ControlError> {
        match self.given(name) {
            None => Ok(None),
            Some(object @ Value::Object(_)) => Ok(Some(object.clone())),
            Some(_) => Err(self.unfit(name, "an object")),
        }
    }

    /// Refuses unknown names, so that a misspelt one is not silently ignored.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ControlError> {
        match self
            .values
            .keys()
            .find(|name| !known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(name) => Err(ControlError::invalid(format!(
                "{} has no parameter {name:?}; it has: {}.",
                self.tool,
                known.join(", ")
            ))),
        }
    }

    fn given(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    fn unfit(&self, name: &str, wanted: &str) -> ControlError {
        ControlError::invalid(format!("{}: {name} must be {wanted}.", self.tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(tool: &'static str, arguments: Value) -> CallTraits {
        let arguments = arguments.as_object().cloned().unwrap();
        CallTraits::of(&CallToolRequestParams::new(tool).with_arguments(arguments))
    }

    #[test]
    fn only_starts_and_reads_are_repeatable() {
        for (tool, arguments, repeatable) in [
            ("codex_start", json!({"prompt": "x"}), true),
            ("codex_list", json!({}), true),
            ("codex_requests", json!({}), true),
            ("codex_interrupt", json!({"task_id": "codex-1"}), false),
            (
                "codex_steer",
                json!({"task_id": "codex-1", "instruction": "left"}),
                false,
            ),
            (
                "codex_bridge",
                json!({"action": "start", "prompt": "x"}),
                true,
            ),
            ("codex_bridge", json!({"action": "notify_completed"}), false),
            ("codex_unknown", json!({}), false),
        ] {
            let found = traits(tool, arguments).repeatable;
            assert_eq!(found, repeatable, "{tool}");
        }
    }

    #[test]
    fn waits_are_known_with_their_argument() {
        let seconds = |seconds| Duration::from_secs(seconds);
        let waits = traits("codex_wait", json!({"task_id": "codex-1"}));
        assert_eq!(waits.wait, Some(("timeout_seconds", wait::DEFAULT)));
        let waits = traits("codex_start", json!({"prompt": "x", "wait_seconds": 7}));
        assert_eq!(waits.wait, Some(("wait_seconds", seconds(7))));
        assert_eq!(traits("codex_start", json!({"prompt": "x"})).wait, None);
    }
}
