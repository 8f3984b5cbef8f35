//! The part of the Responses API that Codex and the model of a check speak: what a request says, and the events of an
//! answer.

use super::ModelStep;
use serde_json::{Value, json};
use uuid::Uuid;

/// Why a command wants to leave the sandbox.
const JUSTIFICATION: &str = "codex-bridge checks how this Codex asks for approval";

/// What an answer depends on.
#[derive(Debug, Default)]
pub(super) struct ModelRequest {
    /// Messages of users in their order, and nothing for each output of a tool.
    pub(super) input: Vec<Option<String>>,
    /// Names of the tools that Codex offers.
    pub(super) tools: Vec<String>,
}

impl ModelRequest {
    pub(super) fn read(body: &Value) -> Self {
        let mut request = Self {
            tools: list(body, "tools").iter().map(tool).collect(),
            ..Self::default()
        };
        for item in list(body, "input") {
            let kind = item.get("type").and_then(Value::as_str);
            let kind = kind.unwrap_or("message");
            if kind == "message" && item["role"] == "user" {
                request.input.push(Some(message(item)));
            } else if kind.ends_with("_output") {
                request.input.push(None);
            }
        }
        request
    }

    /// What `of` says of the newest message that it knows, and how many outputs of tools are behind that one.
    pub(super) fn newest<'a, T>(&'a self, of: impl Fn(&'a str) -> Option<T>) -> Option<(T, usize)> {
        let mut outputs: usize = 0;
        for item in self.input.iter().rev() {
            match item.as_deref().map(&of) {
                Some(Some(found)) => return Some((found, outputs)),
                // Codex writes in a user's name, too.
                Some(None) => {}
                None => outputs = outputs.saturating_add(1),
            }
        }
        None
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|name| name == tool)
    }
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

fn tool(tool: &Value) -> String {
    let name = tool["name"].as_str().or(tool["type"].as_str());
    name.unwrap_or_default().to_owned()
}

fn message(item: &Value) -> String {
    let parts = list(item, "content").iter();
    let parts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    parts.join("\n")
}

/// The first event of every answer.
pub(super) fn created() -> String {
    let response = json!({"id": id("resp"), "object": "response", "status": "in_progress"});
    event(&json!({"type": "response.created", "response": response}))
}

/// The output item of a step; none for a model that hangs.
pub(super) fn item(step: &ModelStep, request: &ModelRequest) -> Option<Value> {
    match step {
        ModelStep::Answer(text) => Some(json!({
            "type": "message", "id": id("msg"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })),
        ModelStep::Command { script, escalate } => Some(command(request, script, *escalate)),
        ModelStep::Hang => None,
    }
}

/// The rest of an answer with this one item.
pub(super) fn completed(item: &Value) -> String {
    let mut begun = item.clone();
    begun["status"] = json!("in_progress");
    let is_message = item["type"] == "message";
    if is_message {
        begun["content"] = json!([]);
    }
    let place = |kind: &str, item: &Value| {
        event(
            &json!({"type": format!("response.output_item.{kind}"), "output_index": 0, "item": item}),
        )
    };
    let mut text = place("added", &begun);
    if is_message {
        text.push_str(&event(&json!({
            "type": "response.output_text.delta", "item_id": item["id"], "output_index": 0,
            "content_index": 0, "delta": item["content"][0]["text"],
        })));
    }
    text.push_str(&place("done", item));
    let usage = json!({
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    });
    let response =
        json!({"id": id("resp"), "object": "response", "status": "completed", "usage": usage});
    text.push_str(&event(
        &json!({"type": "response.completed", "response": response}),
    ));
    text
}

/// Which tool runs a command depends on the version of Codex, and on the model that it takes this one for.
fn command(request: &ModelRequest, script: &str, escalate: bool) -> Value {
    let shell = json!(["bash", "-lc", script]);
    if request.has("shell") && !request.has("exec_command") && !request.has("shell_command") {
        let mut arguments = json!({ "command": shell });
        if escalate {
            arguments["with_escalated_permissions"] = json!(true);
            arguments["justification"] = json!(JUSTIFICATION);
        }
        return function("shell", &arguments);
    }
    let in_shell_command = request.has("shell_command") && !request.has("exec_command");
    let member = if in_shell_command { "command" } else { "cmd" };
    let mut arguments = json!({ member: script });
    if escalate {
        arguments["sandbox_permissions"] = json!("require_escalated");
        arguments["justification"] = json!(JUSTIFICATION);
    }
    if in_shell_command {
        return function("shell_command", &arguments);
    }
    // In code mode the only tool is a script that calls the tools.
    if request.has("exec") && !request.has("exec_command") {
        let source = format!(
            "const r = await tools.exec_command({arguments}); text(r.output ?? JSON.stringify(r));"
        );
        return json!({
            "type": "custom_tool_call", "id": id("ctc"), "call_id": id("call"), "name": "exec",
            "input": source, "status": "completed",
        });
    }
    function("exec_command", &arguments)
}

fn function(name: &str, arguments: &Value) -> Value {
    json!({
        "type": "function_call", "id": id("fc"), "call_id": id("call"), "name": name,
        "arguments": arguments.to_string(), "status": "completed",
    })
}

fn event(data: &Value) -> String {
    let kind = data["type"].as_str().unwrap_or_default();
    format!("event: {kind}\ndata: {data}\n\n")
}

fn id(prefix: &str) -> String {
    format!("{prefix}_{}", Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_message_and_its_outputs_count() {
        let said = |text: &str| {
            json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": text}]})
        };
        let output = json!({"type": "function_call_output", "output": "x"});
        let body = json!({"input": [said("one"), output, said("two"), output, output],
            "tools": [{"type": "function", "name": "exec_command"}, {"type": "local_shell"}]});
        let request = ModelRequest::read(&body);
        let newest = |wanted: &str| request.newest(|text| (text == wanted).then_some(()));
        assert_eq!(newest("two"), Some(((), 2)));
        assert_eq!(newest("one"), Some(((), 3)));
        assert_eq!(newest("three"), None);
        assert!(request.has("exec_command") && request.has("local_shell"));
        let empty = ModelRequest::read(&json!({"input": 5}));
        assert_eq!(empty.newest(Some), None);
    }

    #[test]
    fn command_uses_the_tool_that_is_offered() {
        for (tool, expected) in [
            ("exec_command", r#"{"cmd":"ls"}"#),
            ("shell_command", r#"{"command":"ls"}"#),
            ("shell", r#"{"command":["bash","-lc","ls"]}"#),
        ] {
            let request = ModelRequest::read(&json!({"tools": [{"name": tool}]}));
            let call = command(&request, "ls", false);
            assert_eq!(call["name"], tool);
            assert_eq!(call["arguments"], expected);
            let wide = command(&request, "ls", true);
            assert!(wide["arguments"].as_str().unwrap().contains(JUSTIFICATION));
        }
        let code = ModelRequest::read(&json!({"tools": [{"name": "exec"}]}));
        assert_eq!(command(&code, "ls", false)["type"], "custom_tool_call");
    }
}
