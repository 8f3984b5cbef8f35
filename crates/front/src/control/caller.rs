//! Callers and their rights, derived from the connection and its token, never from the request.

use bridge_core::channels::{LOCAL, OF_TOKENS, conversation_prefix};
use bridge_core::find::conversations;
use bridge_core::port::{Read, RowsError};
pub use bridge_core::requester::ANONYMOUS;
use bridge_core::requester::{GROUP_USER, LOCAL_OWNER, sent_by};
use bridge_core::step::{Authority, Decide};
use bridge_core::value::{
    Actor, ChannelId, Conversation, ConversationId, DecidedBy, Message, MessageId, RequestDecision,
    RequestId, RequestVerdict, Timestamp, TraceParent,
};
use serde_json::Value;

/// A caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `local owner`, `user NAME` for a person of the group, or the name of a token; shown to people and in the audit.
    pub name: String,
    pub via: Via,
    /// The program that calls for the local owner; `None` for a person at a terminal.
    pub program: Option<String>,
    pub grants: Grants,
    /// The span of the caller that the call belongs to.
    pub trace: Option<TraceParent>,
}

impl Caller {
    /// The owner, who alone can open the private socket of the state directory.
    #[must_use]
    pub fn local_owner(via: Via) -> Self {
        Self {
            name: LOCAL_OWNER.to_owned(),
            via,
            program: None,
            grants: Grants::LocalOwner,
            trace: None,
        }
    }

    /// A person of the group that the daemon serves beside its owner. The name holds a blank, so no token has it.
    #[must_use]
    pub fn member(user: &str, via: Via, scopes: &[Scope]) -> Self {
        Self {
            name: format!("{GROUP_USER}{user}"),
            via,
            program: None,
            grants: Grants::Member(scopes.to_vec()),
            trace: None,
        }
    }

    /// A session of the console. With `admin` it is the owner and named as such, with the session in the records; without, it
    /// is a sender of its own, as a token is.
    #[must_use]
    pub fn session(name: &str, scopes: Vec<Scope>) -> Self {
        let is_owner = scopes.contains(&Scope::Admin);
        let sender = if is_owner { LOCAL_OWNER } else { name };
        Self {
            name: sender.to_owned(),
            via: Via::Console,
            program: is_owner.then(|| name.to_owned()),
            grants: Grants::Session {
                name: name.to_owned(),
                scopes,
            },
            trace: None,
        }
    }

    /// What the call was authenticated by: rates and streams are counted by it, and it can be revoked.
    #[must_use]
    pub fn credential(&self) -> &str {
        match &self.grants {
            Grants::Session { name, .. } => name,
            Grants::LocalOwner | Grants::Scopes(_) | Grants::Member(_) => &self.name,
        }
    }

    /// The session of the console that the owner uses, whose name is not the sender's.
    #[must_use]
    pub fn owner_session(&self) -> Option<&str> {
        match &self.grants {
            Grants::Session { name, .. } if *name != self.name => Some(name),
            Grants::LocalOwner | Grants::Scopes(_) | Grants::Session { .. } | Grants::Member(_) => {
                None
            }
        }
    }

    /// Whether the credential is a row that can be revoked.
    #[must_use]
    pub fn is_revocable(&self) -> bool {
        match self.grants {
            Grants::Session { .. } => true,
            Grants::Scopes(_) => !self.is_anonymous(),
            Grants::LocalOwner | Grants::Member(_) => false,
        }
    }

    /// Their scopes.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        Scope::ALL
            .into_iter()
            .filter(|scope| self.may(*scope))
            .collect()
    }

    /// What to do where they lack this scope.
    pub(crate) fn missing(&self, scope: Scope) -> String {
        match self.grants {
            Grants::Session { .. } => format!(
                "this session may not `{0}`: open one that may with `codex-bridge console --scopes {0}`, and the others that you need",
                scope.as_str()
            ),
            Grants::LocalOwner | Grants::Scopes(_) | Grants::Member(_) => scope.missing(),
        }
    }

    /// Whether they can open files that this daemon keeps: its owner, on its machine.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.grants == Grants::LocalOwner
    }

    /// Whether this is a person of the group, who sees and does only what is their own.
    #[must_use]
    pub fn is_member(&self) -> bool {
        matches!(self.grants, Grants::Member(_))
    }

    /// Whether they may know of this message.
    #[must_use]
    pub fn sees(&self, message: &Message) -> bool {
        !self.is_member() || sent_by(message, &self.name)
    }

    /// The newest messages that they may know of, before this one.
    pub(crate) fn newest_messages(
        &self,
        rows: &dyn Read,
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<Vec<Message>, RowsError> {
        match before {
            _ if self.is_member() => {
                let own = OF_TOKENS.map(ChannelId::new);
                rows.messages_of_sender(&self.name, &own, before, limit)
            }
            Some(before) => rows.older_messages(before, limit),
            None => rows.newest_messages(limit),
        }
    }

    /// The conversations that they may know of, where something happened last first, before this one.
    pub(crate) fn newest_conversations(
        &self,
        rows: &dyn Read,
        before: Option<(Timestamp, &ConversationId)>,
        limit: u32,
    ) -> Result<Vec<(Conversation, Timestamp)>, RowsError> {
        if self.is_member() {
            let (local, own) = (ChannelId::new(LOCAL), conversation_prefix(&self.name));
            return rows.conversations_under(&local, &own, before, limit);
        }
        rows.conversations(before, limit)
    }

    /// The conversations of this name that they may know of: their own first, whose key has a prefix.
    pub(crate) fn conversations(
        &self,
        rows: &dyn Read,
        name: &str,
    ) -> Result<Vec<Conversation>, RowsError> {
        if !self.may(Scope::Admin) {
            let own = format!("{}{name}", conversation_prefix(&self.name));
            let own = rows.conversation_by_key(&ChannelId::new(LOCAL), &own)?;
            if own.is_some() {
                return Ok(own.into_iter().collect());
            }
        }
        let mut named = conversations(rows, name)?;
        named.retain(|conversation| self.sees_conversation(conversation));
        Ok(named)
    }

    /// Whether they may know of this conversation.
    #[must_use]
    pub fn sees_conversation(&self, conversation: &Conversation) -> bool {
        let prefix = || conversation_prefix(&self.name);
        !self.is_member()
            || conversation.channel.as_str() == LOCAL
                && conversation.external_key.starts_with(&prefix())
    }

    /// A caller of `/a2a` where no token is needed.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            via: Via::A2a,
            program: None,
            grants: Grants::Scopes(vec![Scope::A2a]),
            trace: None,
        }
    }

    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// The actor in the audit.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor {
            name: self.name.clone(),
            program: self.program.clone(),
        }
    }

    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        match &self.grants {
            Grants::LocalOwner => true,
            Grants::Scopes(scopes) | Grants::Session { scopes, .. } => scopes.contains(&scope),
            // Whatever they were given, these make an owner of whoever has them.
            Grants::Member(scopes) => {
                !matches!(scope, Scope::Approve | Scope::Admin) && scopes.contains(&scope)
            }
        }
    }

    /// Their decision about an approval request.
    pub(crate) fn decide(
        &self,
        request_id: RequestId,
        decision: RequestDecision,
        answers: Option<&Value>,
        at: Timestamp,
    ) -> Decide {
        Decide {
            request_id,
            digest: None,
            verdict: RequestVerdict {
                decision,
                answers: answers.map(ToString::to_string),
                by: DecidedBy::Caller(self.actor()),
                via: self.via.as_str().to_owned(),
                at,
            },
            authority: self.authority(),
        }
    }

    /// By what right they decide approval requests.
    #[must_use]
    pub fn authority(&self) -> Authority {
        if self.may(Scope::Approve) {
            return Authority::Owner;
        }
        Authority::Caller {
            name: self.name.clone(),
        }
    }
}

/// The program that calls on `api.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalProgram {
    /// Our own command at a terminal: a person.
    OwnAtTerminal,
    /// Our own command without a terminal: a script, a timer, an MCP client.
    OwnAlone,
    /// Another program, by the name it goes by.
    Other(String),
}

impl LocalProgram {
    /// Longest name of a program that is repeated; the kernel's are shorter.
    const NAME_MAX_CHARS: usize = 32;

    /// Its name in the audit; `None` for a person at a terminal.
    #[must_use]
    pub fn named(&self, via: Via) -> Option<String> {
        match self {
            Self::OwnAtTerminal | Self::OwnAlone if via == Via::Mcp => {
                Some("codex-bridge mcp".to_owned())
            }
            Self::OwnAtTerminal => None,
            Self::OwnAlone => Some("codex-bridge without a terminal".to_owned()),
            Self::Other(name) => {
                let name: String = name.chars().take(Self::NAME_MAX_CHARS).collect();
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
                Some(if name.chars().all(plain) {
                    format!("program {name}")
                } else {
                    format!("program {name:?}")
                })
            }
        }
    }
}

/// The surface of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The command line.
    Cli,
    /// The HTTP API.
    Http,
    /// A page of the console.
    Console,
    /// An MCP client.
    Mcp,
    /// An A2A peer.
    A2a,
    /// A chat of a channel.
    Chat,
}

impl Via {
    /// The word in rows and views.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Http => "http",
            Self::Console => "console",
            Self::Mcp => "mcp",
            Self::A2a => "a2a",
            Self::Chat => "chat",
        }
    }
}

/// What a caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grants {
    /// Everything, with any directory of this machine.
    LocalOwner,
    /// What the scopes of a token say.
    Scopes(Vec<Scope>),
    /// What the scopes of a session of the console say.
    Session { name: String, scopes: Vec<Scope> },
    /// What these scopes say, within what is the caller's own.
    Member(Vec<Scope>),
}

/// A right that a token may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// See messages, tasks, questions and figures.
    Read,
    /// Send messages.
    Send,
    /// Start, steer and stop tasks, decline requests of Codex, retry and discard failed messages.
    Control,
    /// Accept requests of Codex.
    Approve,
    /// Make and revoke tokens, reload the configuration.
    Admin,
    /// Start tasks over A2A and see one's own there. A caller with this scope alone is a peer.
    A2a,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Send,
        Self::Control,
        Self::Approve,
        Self::Admin,
        Self::A2a,
    ];

    /// Those of the owner's own token. `a2a` is for other agents.
    pub const OWNER: [Self; 5] = [
        Self::Read,
        Self::Send,
        Self::Control,
        Self::Approve,
        Self::Admin,
    ];

    /// The word on the command line, in rows and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Control => "control",
            Self::Approve => "approve",
            Self::Admin => "admin",
            Self::A2a => "a2a",
        }
    }

    /// What to do where a token lacks this scope.
    pub(crate) fn missing(self) -> String {
        let scope = self.as_str();
        format!(
            "this token was not made for `{scope}`: make one with `codex-bridge token add NAME --scope {scope}`"
        )
    }

    /// Reads the word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the configuration would give them.
    #[test]
    fn members_are_never_owners() {
        let member = Caller::member("ada", Via::Cli, &Scope::ALL);
        assert_eq!(member.name, "user ada");
        assert!(member.may(Scope::Send) && member.may(Scope::Read));
        assert!(!member.may(Scope::Approve) && !member.may(Scope::Admin));
        let by_name = Authority::Caller {
            name: "user ada".to_owned(),
        };
        assert_eq!(member.authority(), by_name);
    }

    #[test]
    fn only_admin_sessions_are_the_owner() {
        let whole = Caller::session("console-1", Scope::OWNER.to_vec());
        assert_eq!(whole.name, LOCAL_OWNER);
        assert_eq!(whole.actor().to_string(), "local owner (console-1)");
        let phone = Caller::session("console-2", vec![Scope::Read, Scope::Approve]);
        assert_eq!(phone.actor().to_string(), "console-2");
        assert_eq!(phone.authority(), Authority::Owner, "it was let approve");
        assert!(!phone.may(Scope::Admin) && !phone.may(Scope::Send));
        assert_eq!(
            [whole.credential(), phone.credential()],
            ["console-1", "console-2"]
        );
    }

    #[test]
    fn f2_a_program_cannot_pose_as_somebody() {
        let named = |name: &str| {
            LocalProgram::Other(name.to_owned())
                .named(Via::Mcp)
                .unwrap()
        };
        assert_eq!(named("curl"), "program curl");
        assert_eq!(named("x) by ann\u{1b}["), r#"program "x) by ann\u{1b}[""#);
        assert_eq!(named(&"y".repeat(99)).len(), "program ".len() + 32);
        let own = |via| LocalProgram::OwnAlone.named(via).unwrap();
        assert_eq!(own(Via::Cli), "codex-bridge without a terminal");
        assert_eq!(own(Via::Mcp), "codex-bridge mcp");
        assert_eq!(LocalProgram::OwnAtTerminal.named(Via::Cli), None);
    }
}
