//! The tool `codex_bridge` with the parameters and envelope of its legacy version.

use super::tools::Arguments;
use crate::{ControlAction, ControlError, StartArgs};
use rmcp::model::{JsonObject, Tool, ToolAnnotations, object};
use serde_json::json;

pub(super) const NAME: &str = "codex_bridge";

const DESCRIPTION: &str = "Start and control local Codex tasks through the Codex app-server protocol. \
    Actions: start (returns a task_id at once), status, list, steer, interrupt (or cancel), respond, notify_completed. \
    Tasks are durable: they go on when this tool, its client or the daemon restarts. \
    A task in waiting_for_approval or waiting_for_user_input has pending_requests; answer one with action=respond, \
    instruction=its request_id and a decision or answers. What nobody answers in time is declined. \
    Every result is JSON: {\"success\": true, \"task\": {...}} or {\"success\": false, \"error\": \"...\"}.";

pub(super) fn tool() -> Tool {
    Tool::new(NAME, DESCRIPTION, schema()).with_annotations(
        ToolAnnotations::with_title("Codex bridge")
            .read_only(false)
            .destructive(true)
            .idempotent(false)
            .open_world(true),
    )
}

/// The legacy tool's names, enums and required parameters, unchanged.
fn schema() -> JsonObject {
    let text = |description: &str| json!({"type": "string", "description": description});
    let choice = |values: &[&str], description: &str| json!({"type": "string", "enum": values, "description": description});
    let properties = json!({
        "action": choice(
            &["start", "status", "list", "notify_completed", "steer", "interrupt", "cancel", "respond"],
            "Bridge operation to perform.",
        ),
        "prompt": text("Task prompt for action=start."),
        "task_id": text("Task id (codex-...) for status and control actions; the id of a message of another channel works too."),
        "instruction": text("Steering text for steer, or pending request id for respond."),
        "decision": choice(
            &["accept", "acceptForSession", "decline", "cancel"],
            "Approval decision for action=respond. Default decline.",
        ),
        "answers": {
            "type": "object",
            "description": "requestUserInput answers keyed by Codex question id, e.g. {'q1': {'answers': ['value']}}.",
        },
        "cwd": text("Working directory for the Codex thread. Default: the client's own directory over stdio, else a new one of the task's own."),
        "model": text("Optional Codex model override."),
        "sandbox": choice(
            &["read-only", "workspace-write"],
            "Codex sandbox mode. Default read-only. danger-full-access is intentionally not exposed.",
        ),
        "approval_policy": choice(
            &["untrusted", "on-request"],
            "Codex approval policy. Default as configured for tasks.",
        ),
        "codex_home": text("Optional CODEX_HOME override for isolated runs; only directories that the configuration lists."),
        "notify_target": text(
            "Optional completion notification target for action=start: 'local', 'webhook:<url>', \
             'molecule:<workspace>', 'command:<name>', or a target of a scheme that the configuration maps, such as \
             'feishu:<chat_id>'.",
        ),
        "limit": {"type": "integer", "description": "Most tasks for action=list and notify_completed. Default 10."},
        "dry_run": {
            "type": "boolean",
            "description": "For action=notify_completed, preview notifications without sending or marking tasks.",
        },
    });
    object(json!({"type": "object", "properties": properties, "required": ["action"]}))
}

/// Parses a call. Parameters that its action does not use are ignored, as in the legacy tool.
pub(super) fn act(arguments: Option<JsonObject>) -> Result<ControlAction, ControlError> {
    let given = Arguments::new(NAME, arguments);
    let action = given.text("action")?.unwrap_or_default();
    match action.trim().to_lowercase().as_str() {
        "start" => Ok(ControlAction::Start(StartArgs {
            prompt: given.text("prompt")?.unwrap_or_default(),
            cwd: given.text("cwd")?,
            model: given.text("model")?,
            sandbox: given.text("sandbox")?,
            approval_policy: given.text("approval_policy")?,
            codex_home: given.text("codex_home")?,
            notify_target: given.text("notify_target")?,
            key: None,
            base: None,
        })),
        "status" => Ok(ControlAction::Status {
            task_id: given
                .text("task_id")?
                .ok_or_else(|| ControlError::invalid("codex_bridge status requires task_id."))?,
        }),
        "list" => Ok(ControlAction::List {
            limit: given.number("limit")?,
        }),
        "notify_completed" => Ok(ControlAction::NotifyCompleted {
            limit: given.number("limit")?,
            dry_run: given.flag("dry_run")?,
        }),
        "steer" => {
            let words =
                || ControlError::invalid("codex_bridge steer requires task_id and instruction.");
            Ok(ControlAction::Steer {
                task_id: given.text("task_id")?.ok_or_else(words)?,
                instruction: given.text("instruction")?.ok_or_else(words)?,
            })
        }
        "interrupt" | "cancel" => Ok(ControlAction::Interrupt {
            task_id: given
                .text("task_id")?
                .ok_or_else(|| ControlError::invalid("codex_bridge interrupt requires task_id."))?,
        }),
        "respond" => {
            let words = || {
                ControlError::invalid(
                    "codex_bridge respond requires task_id and instruction=request_id.",
                )
            };
            Ok(ControlAction::Respond {
                task_id: given.text("task_id")?.ok_or_else(words)?,
                request_id: given.text("instruction")?.ok_or_else(words)?,
                decision: given.text("decision")?,
                answers: given.object("answers")?,
            })
        }
        _ => Err(ControlError::invalid(
            "action must be one of start, status, list, notify_completed, steer, interrupt, respond.",
        )),
    }
}
