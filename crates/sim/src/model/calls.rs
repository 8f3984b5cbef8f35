//! Tool calls in the shapes that Codex offers: which tool runs a command or applies a patch
//! depends on the model Codex believes it talks to. Pure.
//! When a call is made is the script's business, not this file's.

use serde_json::{Value, json};

use super::prompt::{Prompt, own_words};
use super::respond::id;
use super::step::Call;

/// Why the model says it needs more than the sandbox gives.
const JUSTIFICATION: &str = "mock wants to escalate";

/// The output item of a call.
pub(super) fn item(call: &Call, prompt: &Prompt) -> Value {
    match call {
        Call::Shell { command, escalate } => shell(prompt, command, *escalate),
        Call::Patch { file, content } => patch(prompt, file, content),
        Call::Append { file, line } => shell(prompt, &append(prompt, file, line), false),
        Call::Relay { agent } => {
            let asked = own_words(prompt.last());
            function("ask_agent", &json!({"agent": agent, "text": asked}))
        }
        Call::Function {
            namespace,
            name,
            arguments,
        } => namespaced(namespace.as_deref(), name, arguments),
    }
}

fn shell(prompt: &Prompt, command: &str, escalate: bool) -> Value {
    if prompt.tool("exec_command").is_some() {
        return function(
            "exec_command",
            &escalated(json!({"cmd": command}), escalate),
        );
    }
    if prompt.tool("shell_command").is_some() {
        return function(
            "shell_command",
            &escalated(json!({"command": command}), escalate),
        );
    }
    if prompt.tool("shell").is_some() {
        return function("shell", &escalated_argv(command, escalate));
    }
    if prompt.tool("local_shell").is_some() {
        return local_shell(command);
    }
    if prompt.tool("exec").is_some() {
        return code(&escalated(json!({"cmd": command}), escalate));
    }
    function(
        "exec_command",
        &escalated(json!({"cmd": command}), escalate),
    )
}

fn escalated(mut arguments: Value, escalate: bool) -> Value {
    if let (true, Some(fields)) = (escalate, arguments.as_object_mut()) {
        fields.insert("sandbox_permissions".to_owned(), "require_escalated".into());
        fields.insert("justification".to_owned(), JUSTIFICATION.into());
    }
    arguments
}

fn escalated_argv(command: &str, escalate: bool) -> Value {
    let argv = json!(["bash", "-lc", command]);
    if !escalate {
        return json!({ "command": argv });
    }
    json!({
        "command": argv,
        "with_escalated_permissions": true,
        "justification": JUSTIFICATION,
    })
}

fn local_shell(command: &str) -> Value {
    json!({
        "type": "local_shell_call",
        "id": id("lsh"),
        "call_id": id("call"),
        "status": "completed",
        "action": {"type": "exec", "command": ["bash", "-lc", command]},
    })
}

/// In code mode the only tool is a script that calls the tools.
fn code(arguments: &Value) -> Value {
    let source = format!(
        "const r = await tools.exec_command({arguments}); text(r.output ?? JSON.stringify(r));"
    );
    custom("exec", &source)
}

/// A model that is told to check what is done already does so; otherwise it simply acts, and a message that is
/// run twice leaves two lines.
fn append(prompt: &Prompt, file: &str, line: &str) -> String {
    let add = format!("echo {line} >> {file}");
    if prompt.is_continued() {
        format!("grep -qxF {line} {file} || {add}")
    } else {
        add
    }
}

fn patch(prompt: &Prompt, file: &str, content: &str) -> Value {
    let patch = format!("*** Begin Patch\n*** Add File: {file}\n+{content}\n*** End Patch");
    match prompt.tool("apply_patch") {
        Some(tool) if tool.custom => custom("apply_patch", &patch),
        Some(_) => function("apply_patch", &json!({"input": patch})),
        None if prompt.tool("shell").is_some() => {
            function("shell", &json!({"command": ["apply_patch", patch]}))
        }
        None => shell(prompt, &format!("apply_patch <<'EOF'\n{patch}\nEOF"), false),
    }
}

fn custom(name: &str, input: &str) -> Value {
    json!({
        "type": "custom_tool_call",
        "id": id("ctc"),
        "call_id": id("call"),
        "name": name,
        "input": input,
        "status": "completed",
    })
}

fn function(name: &str, arguments: &Value) -> Value {
    namespaced(None, name, &arguments.to_string())
}

fn namespaced(namespace: Option<&str>, name: &str, arguments: &str) -> Value {
    let mut item = json!({
        "type": "function_call",
        "id": id("fc"),
        "call_id": id("call"),
        "name": name,
        "arguments": arguments,
        "status": "completed",
    });
    if let (Some(namespace), Some(fields)) = (namespace, item.as_object_mut()) {
        fields.insert("namespace".to_owned(), namespace.into());
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(tools: Value) -> Prompt {
        Prompt::read(&json!({ "tools": tools }))
    }

    fn call(prompt: &Prompt, escalate: bool) -> Value {
        let command = "ls".to_owned();
        item(&Call::Shell { command, escalate }, prompt)
    }

    #[test]
    fn command_uses_offered_shell_tool() {
        for (tool, arguments) in [
            ("exec_command", r#"{"cmd":"ls"}"#),
            ("shell_command", r#"{"command":"ls"}"#),
            ("shell", r#"{"command":["bash","-lc","ls"]}"#),
        ] {
            let item = call(
                &offering(json!([{"type": "function", "name": tool}])),
                false,
            );
            assert_eq!(item["name"], tool);
            assert_eq!(item["arguments"], arguments);
        }
        let item = call(&offering(json!([{"type": "local_shell"}])), false);
        assert_eq!(item["action"]["command"], json!(["bash", "-lc", "ls"]));
        let item = call(
            &offering(json!([{"type": "custom", "name": "exec"}])),
            false,
        );
        assert!(
            item["input"]
                .as_str()
                .unwrap()
                .contains(r#"exec_command({"cmd":"ls"})"#)
        );
    }

    #[test]
    fn an_escalation_says_so_and_why() {
        let item = call(&offering(json!([])), true);
        let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments["sandbox_permissions"], "require_escalated");
        assert_eq!(arguments["justification"], JUSTIFICATION);
    }

    #[test]
    fn append_checks_line_after_interruption() {
        let append = Call::Append {
            file: "log".to_owned(),
            line: "r7".to_owned(),
        };
        let told = |text: &str| {
            let content = json!([{"type": "input_text", "text": text}]);
            let message = json!({"type": "message", "role": "user", "content": content});
            let call = item(&append, &Prompt::read(&json!({"input": [message]})));
            call["arguments"].as_str().unwrap().to_owned()
        };
        assert_eq!(told("append:log:r7"), r#"{"cmd":"echo r7 >> log"}"#);
        assert_eq!(
            told(
                "[codex-bridge] It was cut off before you answered. The message was:\nappend:log:r7"
            ),
            r#"{"cmd":"grep -qxF r7 log || echo r7 >> log"}"#
        );
    }

    #[test]
    fn patch_uses_apply_patch_or_shell() {
        let patch = Call::Patch {
            file: "a".to_owned(),
            content: "b".to_owned(),
        };
        let free = offering(json!([{"type": "custom", "name": "apply_patch"}]));
        let sent = item(&patch, &free);
        assert_eq!(
            sent["input"],
            "*** Begin Patch\n*** Add File: a\n+b\n*** End Patch"
        );
        let typed = offering(json!([{"type": "function", "name": "apply_patch"}]));
        assert_eq!(item(&patch, &typed)["type"], "function_call");
        let none = offering(json!([{"type": "function", "name": "exec_command"}]));
        assert_eq!(item(&patch, &none)["name"], "exec_command");
    }
}
