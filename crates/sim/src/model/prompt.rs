//! What a request of Codex says: whose words are in it, how far its script has come, which
//! tools it offers. Pure reading of JSON that others wrote, so nothing here may fail.
//! What to answer is not decided here.

use serde_json::Value;

use super::script;

/// Openings of the user messages that Codex writes itself, as seen in 0.166. A marker of any
/// other name is somebody's text, passed on by whoever sent the message.
const CODEX_TAGS: [&str; 18] = [
    "agent_message_board_notification",
    "codex_delegation",
    "codex_internal_context",
    "collaboration_mode",
    "context_window_reminder",
    "current_time_reminder",
    "environment_context",
    "goal_context",
    "hook_prompt",
    "image_resize_notice",
    "model_switch",
    "recommended_plugins",
    "rollout_budget",
    "skill",
    "subagent_notification",
    "turn_aborted",
    "user_instructions",
    "user_shell_command",
];

/// The heading under which Codex passes on a repository's instructions.
const CODEX_HEADING: &str = "# AGENTS.md";

/// How a text begins that the bridge itself wrote around a message.
const BRIDGE: &str = "[codex-bridge]";
/// What it says in it when an earlier turn of the message was cut off.
const CONTINUED: &str = "was cut off before you answered";
/// What it writes behind a message that came with files.
const FILES_FOLLOW: &str = "\n\n[codex-bridge] Files that ";
/// Behind which words of the bridge the message itself stands.
const MESSAGE_FOLLOWS: [&str; 2] = ["The message to answer now:\n", "The message was:\n"];

/// One request, read.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    pub(super) model: String,
    /// What users said, oldest first, without what Codex adds in their name.
    pub(super) users: Vec<String>,
    /// How many pictures came with the last of these.
    pub(super) images: usize,
    /// What tools gave back since the last of these.
    pub(super) outputs: Vec<String>,
    pub(super) tools: Vec<Tool>,
}

/// A tool that Codex offers at the top level.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// It takes free text instead of JSON.
    pub(super) custom: bool,
}

impl Prompt {
    pub(super) fn read(body: &Value) -> Self {
        let mut prompt = Self {
            model: text_at(body, "model").to_owned(),
            tools: list_at(body, "tools").iter().map(tool).collect(),
            ..Self::default()
        };
        for item in list_at(body, "input") {
            prompt.read_item(item);
        }
        prompt
    }

    /// The last user message as it was sent.
    pub(super) fn last(&self) -> &str {
        self.users.last().map_or("", String::as_str)
    }

    /// Whether the bridge says that earlier work on this message was cut off, and to check before acting.
    pub(super) fn is_continued(&self) -> bool {
        self.last().starts_with(BRIDGE) && self.last().contains(CONTINUED)
    }

    /// One step of the script is used up by each tool output.
    pub(super) fn step(&self) -> usize {
        self.outputs.len()
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    fn read_item(&mut self, item: &Value) {
        let kind = item
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("message");
        if kind == "message" && text_at(item, "role") == "user" {
            if let Some(text) = user_text(item) {
                self.users.push(text);
                self.images = images(item);
                self.outputs.clear();
            }
        } else if kind.ends_with("_output") {
            self.outputs.push(output_text(item));
        }
    }
}

/// What the sender wrote, without the marker a bridge put around it to say whose text it is:
/// a line `<name …>` before and a line `</name>` after.
pub(super) fn own_words(text: &str) -> &str {
    let text = unwrapped(text);
    marked(text).unwrap_or(text).trim()
}

/// What the bridge wrote around a message is not the sender's: it may quote what was said long ago, or name files.
fn unwrapped(text: &str) -> &str {
    let text = text
        .split_once(FILES_FOLLOW)
        .map_or(text, |(before, _)| before);
    if !text.starts_with(BRIDGE) {
        return text;
    }
    let message = |text| {
        MESSAGE_FOLLOWS
            .iter()
            .filter_map(|words| text_after(text, words))
            .min_by_key(|rest| rest.len())
    };
    message(text).unwrap_or(text)
}

fn text_after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.split_once(words).map(|(_, rest)| rest)
}

fn marked(text: &str) -> Option<&str> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if let Some(name) = opening(line) {
            let inside = text.get(end..)?;
            let closing = format!("</{name}>");
            let close = inside
                .match_indices(&closing)
                .map(|(at, _)| at)
                .filter(|at| *at == 0 || inside.get(..*at).is_some_and(|s| s.ends_with('\n')))
                .last();
            if let Some(close) = close {
                return inside.get(..close);
            }
        }
        if script::has_directive(line) {
            return None;
        }
        start = end;
    }
    None
}

/// The name in a line that is nothing but an opening tag.
fn opening(line: &str) -> Option<&str> {
    let inner = line.trim_end().strip_prefix('<')?.strip_suffix('>')?;
    let name = inner.split(char::is_whitespace).next()?;
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    named.then_some(name)
}

fn user_text(item: &Value) -> Option<String> {
    if let Some(text) = item.get("content").and_then(Value::as_str) {
        return (!is_codex_own(text)).then(|| text.to_owned());
    }
    let parts: Vec<&str> = list_at(item, "content")
        .iter()
        .filter_map(|part| part.get("text").and_then(Value::as_str))
        .filter(|text| !is_codex_own(text) && !is_around_image(text))
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

fn images(item: &Value) -> usize {
    let is_image = |part: &&Value| text_at(part, "type") == "input_image";
    list_at(item, "content").iter().filter(is_image).count()
}

/// What Codex writes before and behind a picture.
fn is_around_image(text: &str) -> bool {
    text.starts_with("<image name=") || text == "</image>"
}

fn is_codex_own(text: &str) -> bool {
    let text = text.trim_start();
    if text.starts_with(CODEX_HEADING) {
        return true;
    }
    let Some(inner) = text.strip_prefix('<') else {
        return false;
    };
    let name = inner
        .split(|c: char| c == '>' || c.is_whitespace())
        .next()
        .unwrap_or_default();
    CODEX_TAGS.contains(&name)
}

fn output_text(item: &Value) -> String {
    match item.get("output") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn tool(tool: &Value) -> Tool {
    let kind = text_at(tool, "type");
    let name = tool.get("name").and_then(Value::as_str).unwrap_or(kind);
    Tool {
        name: name.to_owned(),
        custom: kind == "custom",
    }
}

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list_at<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    #[test]
    fn ignores_injected_user_messages() {
        let prompt = Prompt::read(&json!({"model": "m", "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "echo:no"}]},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "# AGENTS.md instructions for /x\necho:no"},
                {"type": "input_text", "text": "<environment_context>\necho:no"},
            ]},
            user("first"),
            user("<turn_aborted>\nThe user interrupted"),
            user("<peer from=\"x\">\necho:yes\n</peer>"),
        ]}));
        assert_eq!(
            prompt.users,
            ["first", "<peer from=\"x\">\necho:yes\n</peer>"]
        );
        assert_eq!(prompt.model, "m");
    }

    #[test]
    fn pictures_are_counted_and_not_read() {
        let prompt = Prompt::read(&json!({"input": [
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "echo:seen"},
                {"type": "input_text", "text": "<image name=[Image #1] path=\"/x\">"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
                {"type": "input_text", "text": "</image>"},
            ]},
        ]}));
        assert_eq!((prompt.last(), prompt.images), ("echo:seen", 1));
    }

    #[test]
    fn steps_count_from_the_last_user_message() {
        let output = |text: &str| json!({"type": "function_call_output", "output": text});
        let mut input = vec![user("a"), output("1"), user("b"), output("2")];
        input.push(json!({"type": "custom_tool_call_output", "output": {"n": 3}}));
        let prompt = Prompt::read(&json!({ "input": input }));
        assert_eq!(prompt.last(), "b");
        assert_eq!(prompt.outputs, ["2", "{\"n\":3}"]);
        assert_eq!(prompt.step(), 2);
    }

    #[test]
    fn finds_tools_by_name_or_type() {
        let prompt = Prompt::read(&json!({"tools": [
            {"type": "function", "name": "exec_command"},
            {"type": "custom", "name": "apply_patch"},
            {"type": "local_shell"},
        ]}));
        assert!(prompt.tool("exec_command").is_some_and(|tool| !tool.custom));
        assert!(prompt.tool("apply_patch").is_some_and(|tool| tool.custom));
        assert!(prompt.tool("local_shell").is_some());
    }

    #[test]
    fn anything_else_reads_as_an_empty_prompt() {
        for body in [json!(null), json!([1]), json!({"input": "x", "tools": {}})] {
            let prompt = Prompt::read(&body);
            assert_eq!((prompt.last(), prompt.step()), ("", 0));
        }
    }

    #[test]
    fn strips_wrapping_from_message_text() {
        let text =
            "Text of another agent, as data:\n<message from=\"a\">\necho:hi\n<b>\n</message>\nEnd.";
        assert_eq!(own_words(text), "echo:hi\n<b>");
        assert_eq!(own_words(" plain "), "plain");
        let recap = "[codex-bridge] lost\nUser:\n> echo:old\n\nThe message to answer now:\n";
        assert_eq!(own_words(&format!("{recap}echo:new")), "echo:new");
        let files = format!("echo:new{FILES_FOLLOW}, in your working directory:\n- a/b");
        assert_eq!(own_words(&files), "echo:new");
        let cut = "[codex-bridge] cut\n\nThe message was:\necho:new";
        assert_eq!(own_words(cut), "echo:new");
        assert_eq!(own_words(&format!("{recap}{cut}")), "echo:new");
        assert_eq!(own_words("<open>\nnever closed"), "<open>\nnever closed");
        assert_eq!(own_words("echo:\n<b>\nx\n</b>"), "echo:\n<b>\nx\n</b>");
    }
}
