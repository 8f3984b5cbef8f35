//! Items: what a turn consists of. Reading never fails; what we have no type for is `Other`.
//!
//! [`Item::is_effect`] is the question recovery hangs on, so it is exhaustive and conservative.
//! The sentences for people, [`Item::headline`], are written in `headline.rs`.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::ReaderVisitor;
use super::values::{CommandStatus, MessagePhase, PatchStatus, ToolStatus};
use bridge_core::value::{ClientId, ItemId};

/// Declares the item kinds once: the enum, its reader, and the list for the schema check.
macro_rules! items {
    ($($kind:literal => $variant:ident($shape:ident),)+) => {
        /// One item of a turn.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Item {
            $($variant($shape),)+
            /// A kind we have no type for, or one whose fields did not read.
            Other(OtherItem),
        }

        impl Item {
            /// The kinds that have a type.
            pub const KINDS: &'static [&'static str] = &[$($kind),+];

            fn read(kind: &str, value: &Value) -> Option<Self> {
                match kind {
                    $($kind => $shape::deserialize(value).ok().map(Self::$variant),)+
                    _ => None,
                }
            }

            pub fn id(&self) -> &ItemId {
                match self {
                    $(Self::$variant(item) => &item.id,)+
                    Self::Other(item) => &item.id,
                }
            }

            /// Codex's name of the kind.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $kind,)+
                    Self::Other(item) => &item.kind,
                }
            }
        }

        /// Shows every kind of item with the type that reads it.
        pub fn each_reader(visitor: &mut impl ReaderVisitor) {
            $(visitor.reader::<$shape>($kind);)+
        }
    };
}

items! {
    "userMessage" => UserMessage(UserMessage),
    "agentMessage" => AgentMessage(AgentMessage),
    "reasoning" => Reasoning(Reasoning),
    "plan" => Plan(Plan),
    "commandExecution" => CommandExecution(CommandExecution),
    "fileChange" => FileChange(FileChange),
    "mcpToolCall" => McpToolCall(McpToolCall),
    "dynamicToolCall" => DynamicToolCall(DynamicToolCall),
    "collabAgentToolCall" => CollabAgentToolCall(CollabAgentToolCall),
    "subAgentActivity" => SubAgentActivity(SubAgentActivity),
    "functionCallOutput" => FunctionCallOutput(FunctionCallOutput),
    "webSearch" => WebSearch(WebSearch),
    "imageView" => ImageView(ImageView),
    "imageGeneration" => ImageGeneration(ImageGeneration),
    "sleep" => Sleep(Sleep),
    "hookPrompt" => HookPrompt(HookPrompt),
    "contextCompaction" => ContextCompaction(ContextCompaction),
    "enteredReviewMode" => EnteredReviewMode(ReviewMode),
    "exitedReviewMode" => ExitedReviewMode(ReviewMode),
}

/// A message to Codex.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    pub id: ItemId,
    /// The `clientUserMessageId` of the request that brought it.
    #[serde(default, rename = "clientId")]
    pub mark: MessageMark,
    #[serde(default)]
    pub content: Vec<UserContent>,
}

/// Who brought a user message, as far as Codex says. Measured on 0.166: the member is always there.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum MessageMark {
    /// The client named it so.
    Named(ClientId),
    /// The client gave it no name. All of ours have one.
    Nameless,
    /// Codex does not say: it may be anybody's.
    #[default]
    Missing,
}

impl<'de> Deserialize<'de> for MessageMark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Option::<ClientId>::deserialize(deserializer)?;
        Ok(name.map_or(Self::Nameless, Self::Named))
    }
}

impl UserMessage {
    pub fn client_id(&self) -> Option<&ClientId> {
        match &self.mark {
            MessageMark::Named(client_id) => Some(client_id),
            MessageMark::Nameless | MessageMark::Missing => None,
        }
    }

    /// The text parts, one per line.
    pub fn text(&self) -> String {
        let parts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|c| c.text.as_deref())
            .collect();
        parts.join("\n")
    }
}

/// Most lines that are kept of what a command wrote.
const OUTPUT_MAX_LINES: usize = 20;
/// Most bytes of them.
const OUTPUT_MAX_BYTES: usize = 8 * 1024;

/// One part of a user message; only text parts have a text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct UserContent {
    pub r#type: String,
    pub text: Option<String>,
}

/// A message of Codex.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AgentMessage {
    pub id: ItemId,
    /// Without it there is no answer, and an empty one would be a guess.
    pub text: String,
    /// Absent when the model does not say.
    pub phase: Option<MessagePhase>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Reasoning {
    pub id: ItemId,
    #[serde(default)]
    pub summary: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Plan {
    pub id: ItemId,
    #[serde(default)]
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecution {
    pub id: ItemId,
    pub command: String,
    pub cwd: Option<String>,
    pub status: CommandStatus,
    pub exit_code: Option<i64>,
    pub aggregated_output: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FileChange {
    pub id: ItemId,
    pub changes: Vec<FileUpdate>,
    pub status: PatchStatus,
}

/// One file of a change. A request for approval carries no diff: it is here, under the item's id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FileUpdate {
    pub path: String,
    pub kind: FileUpdateKind,
    #[serde(default)]
    pub diff: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FileUpdateKind {
    /// `add`, `delete` or `update`.
    pub r#type: String,
    /// Where an update moves the file to.
    pub move_path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct McpToolCall {
    pub id: ItemId,
    pub server: String,
    pub tool: String,
    pub status: ToolStatus,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DynamicToolCall {
    pub id: ItemId,
    pub tool: String,
    pub namespace: Option<String>,
    pub status: ToolStatus,
}

/// Codex starts or talks to an agent of its own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CollabAgentToolCall {
    pub id: ItemId,
    /// `spawnAgent`, `sendInput`, …
    pub tool: String,
    pub prompt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubAgentActivity {
    pub id: ItemId,
    pub kind: String,
}

/// The result of a function that a client ran.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FunctionCallOutput {
    pub id: ItemId,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WebSearch {
    pub id: ItemId,
    #[serde(default)]
    pub query: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ImageView {
    pub id: ItemId,
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ImageGeneration {
    pub id: ItemId,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sleep {
    pub id: ItemId,
    pub duration_ms: Option<u64>,
}

/// Text that a hook of the operator put in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HookPrompt {
    pub id: ItemId,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ContextCompaction {
    pub id: ItemId,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ReviewMode {
    pub id: ItemId,
}

/// The readable rest of an unknown item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherItem {
    pub id: ItemId,
    pub kind: String,
}

impl Item {
    /// Reads any JSON value; a value without a kind is an `Other` without a kind.
    pub fn from_value(value: &Value) -> Self {
        let field = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = field("type");
        Self::read(kind, value).unwrap_or_else(|| {
            Self::Other(OtherItem {
                id: ItemId::new(field("id")),
                kind: kind.to_owned(),
            })
        })
    }

    /// True for a message of Codex whose fields did not read: its words are lost to us.
    pub fn is_unread_message(&self) -> bool {
        matches!(self, Self::Other(item) if item.kind == "agentMessage")
    }

    /// True for what may be a message of Codex that we can't read: its fields are not those of one, or its kind is new.
    pub fn may_be_message(&self) -> bool {
        match self {
            Self::Other(item) => {
                self.is_unread_message() || !Self::KINDS.contains(&item.kind.as_str())
            }
            _known => false,
        }
    }

    /// The last lines that a command wrote, at most [`OUTPUT_MAX_BYTES`]. Only whole lines: a secret that is cut in two is
    /// not known as one.
    pub fn output_tail(&self) -> Option<String> {
        let Self::CommandExecution(item) = self else {
            return None;
        };
        let all = item.aggregated_output.as_deref()?.trim_end();
        let mut room = OUTPUT_MAX_BYTES;
        let mut lines: Vec<&str> = all
            .lines()
            .rev()
            .take(OUTPUT_MAX_LINES)
            .map_while(|line| {
                room = room.checked_sub(line.len().saturating_add(1))?;
                Some(line)
            })
            .collect();
        lines.reverse();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Whether a command or change was declined before it ran.
    pub fn is_declined(&self) -> bool {
        match self {
            Self::CommandExecution(item) => item.status == CommandStatus::Declined,
            Self::FileChange(item) => item.status == PatchStatus::Declined,
            _other => false,
        }
    }

    /// True when the item may have touched the world. A kind we do not know counts as an effect;
    /// a command or change that was declined before it ran does not.
    pub fn is_effect(&self) -> bool {
        match self {
            Self::CommandExecution(item) => item.status != CommandStatus::Declined,
            Self::FileChange(item) => item.status != PatchStatus::Declined,
            Self::McpToolCall(_)
            | Self::DynamicToolCall(_)
            | Self::CollabAgentToolCall(_)
            | Self::SubAgentActivity(_)
            | Self::FunctionCallOutput(_)
            | Self::ImageGeneration(_)
            | Self::Other(_) => true,
            Self::UserMessage(_)
            | Self::AgentMessage(_)
            | Self::Reasoning(_)
            | Self::Plan(_)
            | Self::WebSearch(_)
            | Self::ImageView(_)
            | Self::Sleep(_)
            | Self::HookPrompt(_)
            | Self::ContextCompaction(_)
            | Self::EnteredReviewMode(_)
            | Self::ExitedReviewMode(_) => false,
        }
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_value(&Value::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_tail_keeps_whole_lines() {
        let tail = |output: &str| {
            let item = json!({"type": "commandExecution", "id": "x", "command": "ls", "cwd": "/",
                "status": "completed", "exitCode": 0, "aggregatedOutput": output});
            Item::from_value(&item).output_tail()
        };
        assert_eq!(tail("a\nb\n\n").as_deref(), Some("a\nb"));
        assert_eq!(tail(""), None);
        let many = "x\n".repeat(OUTPUT_MAX_LINES * 2);
        assert_eq!(
            tail(&many).map(|kept| kept.lines().count()),
            Some(OUTPUT_MAX_LINES)
        );
        let long = format!("{}\nend", "x".repeat(OUTPUT_MAX_BYTES));
        assert_eq!(tail(&long).as_deref(), Some("end"), "no half of a line");
    }

    #[test]
    fn reads_what_the_binary_sends() {
        let item = Item::from_value(&json!({
            "type": "userMessage", "id": "u1", "clientId": "m1.1", "startedAtMs": 1,
            "content": [{"type": "text", "text": "a", "text_elements": []},
                        {"type": "localImage", "path": "/x.png"},
                        {"type": "text", "text": "b"}],
        }));
        let Item::UserMessage(message) = &item else {
            panic!("{item:?}");
        };
        assert_eq!(message.text(), "a\nb");
        assert_eq!(message.client_id(), Some(&ClientId::new("m1.1")));
        assert_eq!((item.kind(), item.id().as_str()), ("userMessage", "u1"));
    }

    #[test]
    fn unreadable_item_counts_as_effect() {
        for value in [
            json!({"type": "teleport", "id": "x"}),
            json!({"type": "commandExecution", "id": "x"}),
            json!({"type": "fileChange", "id": "x", "changes": "many", "status": 1}),
        ] {
            let item = Item::from_value(&value);
            assert_eq!(item.id().as_str(), "x");
            assert_eq!(item.kind(), value["type"]);
            assert!(
                matches!(item, Item::Other(_)) && item.is_effect(),
                "{value}"
            );
        }
        for value in [
            json!(null),
            json!([]),
            json!("x"),
            json!({"type": 7, "id": 8}),
        ] {
            let nameless = OtherItem {
                id: ItemId::new(""),
                kind: String::new(),
            };
            assert_eq!(Item::from_value(&value), Item::Other(nameless));
        }
    }

    #[test]
    fn effects_are_what_may_touch_the_world() {
        let effect = |value: Value| Item::from_value(&value).is_effect();
        let command = |status: &str| {
            effect(
                json!({"type": "commandExecution", "id": "x", "command": "ls", "cwd": "/",
                          "status": status, "commandActions": []}),
            )
        };
        assert!(command("inProgress") && command("failed") && command("postponed"));
        assert!(!command("declined"));
        assert!(effect(
            json!({"type": "mcpToolCall", "id": "x", "server": "s", "tool": "t",
                              "status": "failed", "arguments": {}})
        ));
        assert!(!effect(
            json!({"type": "agentMessage", "id": "x", "text": "t"})
        ));
        assert!(!effect(json!({"type": "reasoning", "id": "x"})));
    }
}
