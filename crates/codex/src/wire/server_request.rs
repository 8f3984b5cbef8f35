//! Requests of Codex: approvals, questions, forms, tools.
//!
//! Every request is readable and answerable: what does not read is [`RequestKind::Unknown`], which
//! can still be declined. The answers are built in `outcome.rs`, the sentences for people in
//! `headline.rs`.

use serde::Deserialize;
use serde_json::Value;

use super::ReaderVisitor;
use super::values::CommandApprovalKind;
use crate::rpc::RawId;
use bridge_core::value::{ItemId, ThreadId, TurnId};

/// One request of Codex. Its id is unique only within one incarnation: each process counts from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerRequest {
    /// To be echoed exactly.
    pub id: RawId,
    pub method: String,
    /// The whole payload, for what people are shown and what a grant is bound to.
    pub params: Value,
    pub kind: RequestKind,
    /// Also of a kind that we do not know: a new kind of question still hangs the turn that asks it.
    thread_id: Option<ThreadId>,
}

/// Declares the kinds that have params of interest, with the type that reads them.
macro_rules! requests {
    ($($(#[$meta:meta])* $method:literal => $variant:ident($params:ident),)+) => {
        /// What is asked.
        #[derive(Debug, Clone, PartialEq)]
        pub enum RequestKind {
            $($(#[$meta])* $variant($params),)+
            /// A proof about this client, which we do not have.
            Attestation,
            /// A method we do not know, or params we can not read.
            Unknown { why: String },
        }

        impl RequestKind {
            fn parse(method: &str, params: &Value) -> Self {
                match method {
                    $($method => match $params::deserialize(params) {
                        Ok(params) => Self::$variant(params),
                        Err(error) => Self::Unknown { why: error.to_string() },
                    },)+
                    ATTESTATION => Self::Attestation,
                    _ => Self::Unknown { why: "unknown method".to_owned() },
                }
            }
        }

        /// Every method we know.
        pub const METHODS: &[&str] = &[$($method,)+ ATTESTATION];

        /// Shows every kind with the type that reads its params.
        pub fn each_reader(visitor: &mut impl ReaderVisitor) {
            $(visitor.reader::<$params>($method);)+
        }
    };
}

const ATTESTATION: &str = "attestation/generate";

requests! {
    /// May this command run?
    "item/commandExecution/requestApproval" => Command(CommandApproval),
    /// May these files change? The diff is in the item of the same id.
    "item/fileChange/requestApproval" => FileChange(FileChangeApproval),
    /// May the turn do more than its sandbox allows?
    "item/permissions/requestApproval" => Permissions(PermissionsApproval),
    /// Questions to the user; asked under every approval policy.
    "item/tool/requestUserInput" => UserInput(UserInputRequest),
    /// An MCP server wants a form filled in or a page visited.
    "mcpServer/elicitation/request" => Elicitation(Elicitation),
    /// A tool that this client offered is called. No `serverRequest/resolved` follows.
    "item/tool/call" => ToolCall(ToolCall),
    /// Tokens of a login that the client manages; we have none.
    "account/chatgptAuthTokens/refresh" => AuthRefresh(AuthRefresh),
    "currentTime/read" => CurrentTime(CurrentTime),
    "applyPatchApproval" => LegacyPatch(LegacyPatch),
    "execCommandApproval" => LegacyExec(LegacyExec),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandApproval {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub kind: Option<CommandApprovalKind>,
    pub command: Option<String>,
    pub cwd: Option<String>,
    /// Set when the model asks to leave the sandbox: an accept then runs outside of it.
    pub reason: Option<String>,
    /// Set when a running command wants to reach a host.
    pub network_approval_context: Option<NetworkContext>,
    /// Set when the command would keep its sandbox and get these beside it.
    pub additional_permissions: Option<Value>,
    /// Where it would run; absent or `local` is this machine.
    pub environment_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NetworkContext {
    pub host: String,
    pub protocol: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeApproval {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub reason: Option<String>,
    /// Set when an accept would open this whole directory for the session.
    pub grant_root: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionsApproval {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub cwd: Option<String>,
    pub reason: Option<String>,
    /// As asked; a grant gives back all or a part of it.
    pub permissions: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInputRequest {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub questions: Vec<UserQuestion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserQuestion {
    pub id: String,
    #[serde(default)]
    pub header: String,
    pub question: String,
    /// The user may write something that is not among the options.
    #[serde(default)]
    pub is_other: bool,
    /// The answer must not be shown or logged.
    #[serde(default)]
    pub is_secret: bool,
    pub options: Option<Vec<QuestionOption>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct QuestionOption {
    pub label: String,
    #[serde(default)]
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Elicitation {
    pub thread_id: ThreadId,
    /// Absent when Codex can not tell which turn caused it.
    pub turn_id: Option<TurnId>,
    pub server_name: String,
    /// `form`, `url`, `openai/form`, `openai/userVerification`.
    pub mode: String,
    pub message: Option<String>,
    pub url: Option<String>,
    /// JSON schema of the form.
    pub requested_schema: Option<Value>,
    /// Codex's own words about it; [`Elicitation::tool_approval`] reads them.
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// The mark of a form that is none.
const TOOL_APPROVAL: &str = "mcp_tool_call";

impl Elicitation {
    /// Only a visited page is accepted without content.
    pub fn takes_no_content(&self) -> bool {
        self.mode == "url"
    }

    /// The form is empty and means "may this tool run?": Codex 0.166 asks so about every call of an MCP server's tool
    /// that is not known to be read-only. An approval, whatever its method says: who may only answer questions must
    /// not decide it. Gives what Codex says about the call.
    pub fn tool_approval(&self) -> Option<&Value> {
        let meta = self.meta.as_ref()?;
        let kind = meta.get("codex_approval_kind")?;
        (kind == TOOL_APPROVAL).then_some(meta)
    }

    /// Whether an accept needs something that no person can type.
    pub fn needs_device(&self) -> bool {
        self.mode == "openai/userVerification"
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub call_id: ItemId,
    pub namespace: Option<String>,
    pub tool: String,
    pub arguments: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AuthRefresh {
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CurrentTime {
    pub thread_id: ThreadId,
}

/// File changes as very old versions ask for them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyPatch {
    pub conversation_id: ThreadId,
    pub call_id: ItemId,
    pub reason: Option<String>,
}

/// Commands as very old versions ask for them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyExec {
    pub conversation_id: ThreadId,
    pub call_id: ItemId,
    pub command: Vec<String>,
    pub cwd: Option<String>,
    pub reason: Option<String>,
}

impl ServerRequest {
    /// Reads a request; never fails.
    pub fn parse(id: RawId, method: String, params: Value) -> Self {
        let kind = RequestKind::parse(&method, &params);
        let thread_id = ["threadId", "conversationId"]
            .into_iter()
            .find_map(|key| params.get(key).and_then(Value::as_str))
            .map(ThreadId::new);
        Self {
            id,
            method,
            params,
            kind,
            thread_id,
        }
    }

    /// The thread it belongs to; `None` concerns the whole process.
    pub fn thread_id(&self) -> Option<&ThreadId> {
        match &self.kind {
            RequestKind::AuthRefresh(_) | RequestKind::Attestation => None,
            _ => self.thread_id.as_ref(),
        }
    }

    pub fn turn_id(&self) -> Option<&TurnId> {
        match &self.kind {
            RequestKind::Command(request) => Some(&request.turn_id),
            RequestKind::FileChange(request) => Some(&request.turn_id),
            RequestKind::Permissions(request) => Some(&request.turn_id),
            RequestKind::UserInput(request) => Some(&request.turn_id),
            RequestKind::Elicitation(request) => request.turn_id.as_ref(),
            RequestKind::ToolCall(request) => Some(&request.turn_id),
            _ => None,
        }
    }

    /// The item it is about; for a file change this is where the diff is.
    pub fn item_id(&self) -> Option<&ItemId> {
        match &self.kind {
            RequestKind::Command(request) => Some(&request.item_id),
            RequestKind::FileChange(request) => Some(&request.item_id),
            RequestKind::Permissions(request) => Some(&request.item_id),
            RequestKind::UserInput(request) => Some(&request.item_id),
            RequestKind::ToolCall(request) => Some(&request.call_id),
            RequestKind::LegacyPatch(request) => Some(&request.call_id),
            RequestKind::LegacyExec(request) => Some(&request.call_id),
            _ => None,
        }
    }
}
