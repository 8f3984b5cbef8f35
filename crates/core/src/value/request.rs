//! What Codex asks while a turn runs, as a durable row.
//!
//! A request is bound to one incarnation, item and shown payload; outside it is known by an unguessable id. Who may
//! decide what is in the rules, what a decision leads to in [`crate::step`].

use super::{Actor, IncarnationId, ItemId, MessageId, RequestId, Tier, Timestamp};
use crate::find::short_id;
use crate::rules::Effect;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// Characters of a request's id that stand for it in a chat.
const CODE_CHARS: usize = 6;

/// One approval request of Codex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Known outside; unguessable.
    pub request_id: RequestId,
    /// The message whose turn asks.
    pub message_id: MessageId,
    /// The attempt whose turn asks.
    pub attempt: u32,
    /// The process that asks; its ids start at 0 again with every process.
    pub incarnation: IncarnationId,
    /// Codex's JSON-RPC id exactly as it was written, with its JSON type.
    pub rpc_id: String,
    /// The item it is about.
    pub item_id: Option<ItemId>,
    /// Codex's own name for this kind of request.
    pub method: String,
    /// What kind of answer it needs.
    pub kind: RequestKind,
    /// What is shown to people, one line.
    pub headline: String,
    /// All that is decided about: command, directory, sandbox, the whole diff, the questions.
    pub shown: String,
    /// What a grant is bound to.
    pub digest: EffectDigest,
    /// The whole payload as Codex sent it.
    pub payload: String,
    /// What the rules looked at, without known secrets; absent when it is too long to be kept.
    pub effect: Option<Effect>,
    /// What an accept must say beside yes.
    pub wants: Wants,
    /// Answers must not be shown, logged or kept.
    pub secret_answer: bool,
    /// Who may decide.
    pub deciders: Deciders,
    /// How far it is.
    pub state: RequestState,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When silence becomes a decline.
    pub deadline: Timestamp,
    /// Whether those who may decide were reminded.
    pub reminded: bool,
    /// How often Codex asked again after it was decided, and was answered once more.
    pub resends: u32,
}

impl Request {
    /// The command that accepts it: a bare yes, or one with answers where it wants words.
    #[must_use]
    pub fn accept_command(&self) -> String {
        let code = self.request_id.code();
        match self.wants {
            Wants::Approval | Wants::Visit => format!("codex-bridge approve {code}"),
            Wants::Text | Wants::Form => {
                let id = short_id(&self.message_id);
                format!("codex-bridge respond {id} {code} accept --answers JSON")
            }
        }
    }

    /// Whether whoever sent its message may decide it. Nothing that a peer says is an approval.
    #[must_use]
    pub fn sender_may(&self, tier: Tier) -> bool {
        match (tier, self.deciders) {
            (Tier::Owner, Deciders::Owner | Deciders::Sender) | (Tier::Tool, Deciders::Sender) => {
                true
            }
            (Tier::Peer, Deciders::Sender) => self.kind == RequestKind::UserInput,
            (Tier::Peer | Tier::Tool, Deciders::Owner) => false,
        }
    }
}

impl RequestId {
    /// What stands for it in a chat. It is looked up only among the open approval requests of that conversation.
    #[must_use]
    pub fn code(&self) -> &str {
        self.as_str().get(..CODE_CHARS).unwrap_or(self.as_str())
    }
}

/// Names what is decided about, whoever asks it and when: the same effect has the same digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectDigest(String);

impl EffectDigest {
    /// The digest of what an approval request of this kind shows.
    #[must_use]
    pub fn of(kind: &RequestKind, shown: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(kind.as_str());
        hash.update([0]);
        hash.update(shown);
        Self(HEXLOWER.encode(&hash.finalize()))
    }

    /// One that was stored.
    pub fn stored(digest: impl Into<String>) -> Self {
        Self(digest.into())
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EffectDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who decides an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Deciders {
    /// The owner's own surfaces alone.
    Owner,
    /// Whoever sent the message as well; never a peer, but for questions to the user.
    Sender,
}

words!(Deciders {
    Owner => "owner",
    Sender => "sender",
});

/// What an accept must say, so that no surface offers what Codex would not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A bare yes lets Codex do it. An MCP server's tool is asked about so too, though by a form.
    Approval,
    /// A bare yes says that a page was visited.
    Visit,
    /// One text.
    Text,
    /// Several answers, a form, or what could not be read.
    Form,
}

words!(Wants {
    Approval => "approval",
    Visit => "visit",
    Text => "text",
    Form => "form",
});

impl Wants {
    /// Whether yes or no is all there is to say.
    #[must_use]
    pub fn is_bare(self) -> bool {
        match self {
            Self::Approval | Self::Visit => true,
            Self::Text | Self::Form => false,
        }
    }
}

/// What kind of answer a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// May this command run?
    Command,
    /// May these files change?
    FileChange,
    /// May the turn have more permissions?
    Permissions,
    /// A question to the user.
    UserInput,
    /// A form or link of an MCP server.
    Elicitation,
    /// May this tool of an MCP server run?
    McpTool,
    /// A call of a tool that the client provides.
    ToolCall,
    /// Anything else, by its method name.
    Other(String),
}

impl RequestKind {
    /// The stored word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Command => "command",
            Self::FileChange => "file_change",
            Self::Permissions => "permissions",
            Self::UserInput => "user_input",
            Self::Elicitation => "elicitation",
            Self::McpTool => "mcp_tool",
            Self::ToolCall => "tool_call",
            Self::Other(method) => method,
        }
    }
}

impl FromStr for RequestKind {
    type Err = Infallible;

    fn from_str(word: &str) -> Result<Self, Infallible> {
        Ok(match word {
            "command" => Self::Command,
            "file_change" => Self::FileChange,
            "permissions" => Self::Permissions,
            "user_input" => Self::UserInput,
            "elicitation" => Self::Elicitation,
            "mcp_tool" => Self::McpTool,
            "tool_call" => Self::ToolCall,
            method => Self::Other(method.to_owned()),
        })
    }
}

/// How far a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// Codex waits, and nobody has decided.
    Open,
    /// Codex died while it asked. It can still be decided: the decision answers the same request once.
    Orphaned,
    /// Decided; silence is never consent.
    Decided(RequestVerdict),
    /// Decided while it was orphaned, and not used yet.
    Granted(RequestVerdict),
    /// It is not asked any more.
    Withdrawn { why: String },
}

state_names!(
    /// A state without its data: for guards and storage.
    RequestStateName of RequestState {
        Open => "open",
        Orphaned => "orphaned",
        Decided => "decided",
        Granted => "granted",
        Withdrawn => "withdrawn",
    }
);

impl RequestState {
    /// The stored word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.name().as_str()
    }

    /// Whether it has a deadline that still matters: it waits, or its grant may be used.
    #[must_use]
    pub fn lives(&self) -> bool {
        match self {
            Self::Open | Self::Orphaned | Self::Granted(_) => true,
            Self::Decided(_) | Self::Withdrawn { .. } => false,
        }
    }

    /// Whether somebody may still decide it.
    #[must_use]
    pub fn waits(&self) -> bool {
        match self {
            Self::Open | Self::Orphaned => true,
            Self::Decided(_) | Self::Granted(_) | Self::Withdrawn { .. } => false,
        }
    }

    /// What was decided.
    #[must_use]
    pub fn verdict(&self) -> Option<&RequestVerdict> {
        match self {
            Self::Decided(verdict) | Self::Granted(verdict) => Some(verdict),
            Self::Open | Self::Orphaned | Self::Withdrawn { .. } => None,
        }
    }
}

/// A decision, by whom and from where.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestVerdict {
    /// What was decided.
    pub decision: RequestDecision,
    /// What a question or a form was answered with, as JSON.
    pub answers: Option<String>,
    /// Who decided.
    pub by: DecidedBy,
    /// From where: a surface, a rule, the deadline or a grant.
    pub via: String,
    pub at: Timestamp,
}

impl RequestVerdict {
    /// From where a decision comes that nobody made in time.
    pub const DEADLINE: &'static str = "deadline";
    /// From where a decision comes that was made while Codex was dead.
    pub const GRANT: &'static str = "grant";

    /// A decision of the bridge itself.
    #[must_use]
    pub fn own(decision: RequestDecision, via: &str, at: Timestamp) -> Self {
        Self {
            decision,
            answers: None,
            by: DecidedBy::Bridge,
            via: via.to_owned(),
            at,
        }
    }

    /// Whether the bridge decided by itself.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.by == DecidedBy::Bridge
    }
}

/// Who made a decision. What the bridge decides itself is a variant, because no name is safe from being taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// A rule, a deadline or a stop; no caller.
    Bridge,
    /// A caller or sender.
    Caller(Actor),
}

impl DecidedBy {
    /// What stands for the bridge where people read who decided. No token may be called so.
    pub const BRIDGE_NAME: &'static str = "codex-bridge";

    /// A caller or sender of this name.
    pub fn caller(name: impl Into<String>) -> Self {
        Self::Caller(Actor::named(name))
    }

    /// Whether it was the caller or sender of this name, by whichever program.
    #[must_use]
    pub fn is_caller(&self, name: &str) -> bool {
        match self {
            Self::Bridge => false,
            Self::Caller(caller) => caller.name == name,
        }
    }

    /// Who it was, for the records.
    #[must_use]
    pub fn actor(&self) -> Actor {
        match self {
            Self::Bridge => Actor::named(Self::BRIDGE_NAME),
            Self::Caller(caller) => caller.clone(),
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bridge => f.write_str(Self::BRIDGE_NAME),
            Self::Caller(caller) => caller.fmt(f),
        }
    }
}

/// Answers may be secret, and are not for logs.
impl fmt::Debug for RequestVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestVerdict")
            .field("decision", &self.decision)
            .field("answers", &self.answers.as_ref().map(|_| "(given)"))
            .field("by", &self.by)
            .field("via", &self.via)
            .field("at", &self.at)
            .finish()
    }
}

/// What was decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDecision {
    /// Do it, once.
    Accept,
    /// Do it, and the same again in this session.
    AcceptForSession,
    /// Do not; the turn goes on.
    Decline,
    /// Do not, and end the turn.
    Cancel,
}

words!(RequestDecision {
    Accept => "accept",
    AcceptForSession => "acceptForSession",
    Decline => "decline",
    Cancel => "cancel",
});

impl RequestDecision {
    /// Whether it lets Codex do what it asked for.
    #[must_use]
    pub fn accepts(self) -> bool {
        match self {
            Self::Accept | Self::AcceptForSession => true,
            Self::Decline | Self::Cancel => false,
        }
    }
}
