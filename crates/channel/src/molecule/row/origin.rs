//! Who wrote a row, by marks that its writer can't make up, and the tier that follows.
//!
//! A workspace's row has `source_id`, which the platform fills from the writer's token. A row without it was written
//! by a person at the canvas, on a social channel, by a webhook, by the platform itself, or by a holder of
//! the workspace's inbound secret, who writes the whole body. ADR 0056 has the table of marks.

use crate::molecule::wire::{Row, field};
use bridge_core::limits::clip;
use bridge_core::value::Tier;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use uuid::Uuid;

/// The longest id of a person or chat that is taken over.
const ID_MAX_CHARS: usize = 64;
/// The end of the summary of a row that one of the platform's own programs wrote. A message that came in over HTTP and
/// has an id is stored as `(ingest)` before.
const BY_PROGRAM: &str = "(queued for poll)";
/// The only method whose messages are stored as `(ingest)`.
const SEND: &str = "message/send";
/// What the platform's own programs put into a body, and nothing else. Its server reads keys without regard to case: a
/// second spelling of `messageId` would hide the id from it and show it to us.
const ENVELOPE: [&str; 4] = ["id", "jsonrpc", "method", "params"];
const PARAMS: [&str; 2] = ["message", "metadata"];
const MESSAGE: [&str; 3] = ["messageId", "parts", "role"];

/// Where a message comes from that no workspace sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The platform marked it as written at the canvas.
    Canvas,
    /// The platform did not say who wrote it: older editions for every row, newer ones for `/a2a/inbound`.
    Unmarked,
    /// A chat on Telegram.
    Telegram,
    /// A channel on Slack.
    Slack,
    /// A channel on Discord.
    Discord,
    /// A chat on Lark.
    Lark,
    /// A webhook of GitHub.
    Github,
    /// A program of the platform that this version does not know.
    Other,
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Canvas,
        Self::Unmarked,
        Self::Telegram,
        Self::Slack,
        Self::Discord,
        Self::Lark,
        Self::Github,
        Self::Other,
    ];

    /// Services with chats, where people have ids.
    pub(crate) const CHATS: [Self; 4] = [Self::Telegram, Self::Slack, Self::Discord, Self::Lark];

    fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.as_str() == word)
    }

    /// The operator's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canvas => "canvas",
            Self::Unmarked => "unmarked",
            Self::Telegram => "telegram",
            Self::Slack => "slack",
            Self::Discord => "discord",
            Self::Lark => "lark",
            Self::Github => "github",
            Self::Other => "other",
        }
    }

    /// One of the platform's programs, by the word that it writes.
    fn of_program(source: &str) -> Self {
        match Self::read(source) {
            None | Some(Self::Canvas | Self::Unmarked) => Self::Other,
            Some(origin) => origin,
        }
    }
}

/// What the operator said of each origin; everybody else is a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// The tier of everybody from there.
    pub tiers: BTreeMap<Origin, Tier>,
    /// People who are owners wherever their origin stands: `telegram:777`.
    pub owners: BTreeSet<String>,
    /// Other agents that are no ordinary peers, by the ids of their workspaces.
    pub agents: BTreeMap<String, AgentTier>,
}

/// What another agent may do. None is an owner: what it writes is never the owner's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentTier {
    /// What strangers may do.
    #[default]
    Peer,
    /// What programs may do that start tasks.
    Tool,
}

impl AgentTier {
    /// The tier of its turns.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self {
            Self::Peer => Tier::Peer,
            Self::Tool => Tier::Tool,
        }
    }
}

impl Origins {
    /// These with a tier, and nothing said of the others.
    #[must_use]
    pub fn of(origins: impl IntoIterator<Item = Origin>, tier: Tier) -> Self {
        let tiers = origins.into_iter().map(|origin| (origin, tier));
        Self {
            tiers: tiers.collect(),
            ..Self::default()
        }
    }

    /// What everybody from there may do.
    #[must_use]
    pub fn tier(&self, origin: Origin) -> Tier {
        self.tiers.get(&origin).copied().unwrap_or(Tier::Peer)
    }

    /// Whether the operator named anybody as owner.
    #[must_use]
    pub fn has_owner(&self) -> bool {
        !self.owners.is_empty() || self.tiers.values().any(|tier| *tier == Tier::Owner)
    }

    /// Whether the operator said who counts as owner, be it nobody.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        let canvas = [Origin::Canvas, Origin::Unmarked];
        self.has_owner() || canvas.iter().any(|origin| self.tiers.contains_key(origin))
    }

    /// Looks for people in the list of owners whom no row can name.
    pub fn check(&self) -> Result<(), String> {
        let fits = |person: &&String| {
            let (word, id) = person.split_once(':').unwrap_or_default();
            let mut origins = Origin::CHATS.iter().chain([&Origin::Canvas]);
            is_plain(id) && origins.any(|origin| origin.as_str() == word)
        };
        match self.owners.iter().find(|person| !fits(person)) {
            None => Ok(()),
            Some(wrong) => Err(format!(
                "`origins.owners` has {wrong:?}; expected an origin and an id, such as \"telegram:777\" or \"canvas:USER_ID\""
            )),
        }
    }

    /// What a sender may do, by the name that messages carry: `canvas`, `telegram:777@4242`, a workspace's id.
    #[must_use]
    pub fn tier_of_sender(&self, sender: &str) -> Tier {
        match SenderName::read(sender) {
            // Unmarked owners are called so too.
            Some(SenderName {
                origin: Origin::Canvas,
                person: None,
                ..
            }) if self.tier(Origin::Unmarked) == Tier::Owner => Tier::Owner,
            Some(name) => self.tier_of(name.origin, name.person),
            None => self.tier_of_agent(sender),
        }
    }

    /// What an agent of another workspace may do, by the id that the platform took from its token.
    #[must_use]
    pub fn tier_of_agent(&self, workspace: &str) -> Tier {
        let named = self.agents.get(workspace).copied();
        named.unwrap_or_default().tier()
    }

    fn tier_of(&self, origin: Origin, person: Option<&str>) -> Tier {
        let listed = |id: &str| self.owners.contains(&format!("{}:{id}", origin.as_str()));
        if person.is_some_and(listed) {
            Tier::Owner
        } else {
            self.tier(origin)
        }
    }
}

/// Who counts as owner, as a line.
impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owners = self.tiers.iter().filter(|(_, tier)| **tier == Tier::Owner);
        let owners = owners.map(|(origin, _)| format!("everybody from {}", origin.as_str()));
        let owners: Vec<String> = owners.chain(self.owners.iter().cloned()).collect();
        match owners.as_slice() {
            [] => f.write_str("nobody is an owner")?,
            owners => write!(f, "owners are {}", owners.join(", "))?,
        }
        for (workspace, tier) in &self.agents {
            write!(f, ", agent {workspace} is {}", tier.tier().as_str())?;
        }
        Ok(())
    }
}

/// Who wrote a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Ourselves. A `delegate_result` is ours too: it answers a delegation, and the bridge makes none.
    Own,
    /// Another workspace.
    Peer(String),
    /// Somebody who is no workspace.
    Outside(Outside),
    /// The platform, with its word for why: a probe or a notice, no message.
    Platform(String),
    /// Somebody whose id is none.
    Unknown(String),
}

/// Somebody who is no workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) origin: Origin,
    pub(crate) tier: Tier,
    /// Who, by the id that the platform verified: `canvas`, `telegram:777@4242`.
    pub(crate) sender: String,
    /// Where, for places with more than one conversation.
    pub(crate) chat: Option<String>,
}

/// A sender's name in parts: `telegram:777@4242`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SenderName<'a> {
    pub(crate) origin: Origin,
    pub(crate) person: Option<&'a str>,
    pub(crate) chat: Option<&'a str>,
}

impl<'a> SenderName<'a> {
    /// None for workspaces.
    pub(crate) fn read(sender: &'a str) -> Option<Self> {
        let split = |text: &'a str, at: char| match text.split_once(at) {
            Some((before, behind)) => (before, Some(behind)),
            None => (text, None),
        };
        let (who, chat) = split(sender, '@');
        let (word, person) = split(who, ':');
        Some(Self {
            origin: Origin::read(word)?,
            person,
            chat,
        })
    }
}

/// Tells who wrote a row.
pub(crate) fn writer(row: &Row, body: Option<&Value>, own: &str, origins: &Origins) -> Writer {
    let source: Option<String> = match field(row.source_id.as_deref()) {
        Ok(source) => source,
        Err(why) => return Writer::Unknown(why),
    };
    match source.filter(|source| !source.is_empty()) {
        Some(source) => workspace(&source, own),
        None => outside(row, body.unwrap_or(&Value::Null), origins),
    }
}

fn workspace(source: &str, own: &str) -> Writer {
    match Uuid::parse_str(source) {
        Ok(id) if id.hyphenated().to_string() == own => Writer::Own,
        Ok(id) => Writer::Peer(id.hyphenated().to_string()),
        Err(_) => Writer::Unknown(format!("{:?} is no workspace", clip(source, 60))),
    }
}

fn outside(row: &Row, body: &Value, origins: &Origins) -> Writer {
    if let Some(kind) = system_kind(body) {
        return Writer::Platform(clip(kind, ID_MAX_CHARS));
    }
    let source = text(body, "/params/metadata/source");
    Writer::Outside(match source {
        Some("canvas_user") => canvas(body, origins),
        Some(source) if by_program(row, body) => program(source, body, origins),
        // It names a program that did not write it: that may cost rights, and never gives any.
        Some(_) => Outside {
            tier: Tier::Peer,
            ..unmarked(&Origins::default())
        },
        None => unmarked(origins),
    })
}

/// Where the operator takes them for owners, they are the people at the canvas.
fn unmarked(origins: &Origins) -> Outside {
    let tier = origins.tier(Origin::Unmarked);
    let origin = match tier {
        Tier::Owner => Origin::Canvas,
        Tier::Peer | Tier::Tool => Origin::Unmarked,
    };
    Outside {
        origin,
        tier,
        sender: origin.as_str().to_owned(),
        chat: None,
    }
}

/// The mark of the platform's own probes and notices. Anybody else who writes it gets no answer.
fn system_kind(body: &Value) -> Option<&str> {
    let places = [
        "/params/metadata/source_type",
        "/params/message/metadata/source_type",
    ];
    let found = places.into_iter().find_map(|place| text(body, place));
    found.filter(|kind| kind.starts_with("self-"))
}

fn canvas(body: &Value, origins: &Origins) -> Outside {
    let verified = text(body, "/params/metadata/user_identity_status") == Some("AUTHENTICATED");
    let user = id(body, "/params/metadata/user_id").filter(|_| verified);
    let word = Origin::Canvas.as_str();
    Outside {
        origin: Origin::Canvas,
        tier: origins.tier_of(Origin::Canvas, user),
        sender: user.map_or_else(|| word.to_owned(), |user| format!("{word}:{user}")),
        chat: None,
    }
}

/// Somebody whom one of the platform's programs vouches for.
fn program(source: &str, body: &Value, origins: &Origins) -> Outside {
    let origin = Origin::of_program(source);
    let user = match origin {
        Origin::Github => id(body, "/params/metadata/sender"),
        _ => id(body, "/params/metadata/user_id"),
    };
    let chat = id(body, "/params/metadata/chat_id").map(ToOwned::to_owned);
    let chat = chat.or_else(|| text(body, "/params/metadata/repository").map(readable));
    let who = user.map_or_else(String::new, |user| format!(":{user}"));
    let place = chat
        .as_ref()
        .map_or_else(String::new, |chat| format!("@{chat}"));
    Outside {
        origin,
        tier: origins.tier_of(origin, user),
        sender: format!("{}{who}{place}", origin.as_str()),
        chat,
    }
}

/// Whether one of the platform's own programs made this body, so that its metadata are the server's.
fn by_program(row: &Row, body: &Value) -> bool {
    let text_of = |raw| field::<String>(raw).ok().flatten();
    let summary = text_of(row.summary.as_deref()).unwrap_or_default();
    let has_id = text(body, "/params/message/messageId").is_some_and(|id| !id.is_empty());
    row.seq().is_some()
        && summary.ends_with(BY_PROGRAM)
        && text_of(row.method.as_deref()).as_deref() == Some(SEND)
        && has_id
        && only(Some(body), &ENVELOPE)
        && only(body.get("params"), &PARAMS)
        && only(body.pointer("/params/message"), &MESSAGE)
}

/// Whether a message that no workspace wrote carries the mark of the canvas; none for all other rows.
pub(crate) fn is_marked(row: &Row) -> Option<bool> {
    let method: Option<String> = field(row.method.as_deref()).ok()?;
    method.filter(|method| method.starts_with("message/"))?;
    let body: Option<Value> = field(row.request_body.as_deref()).ok()?;
    match writer(row, body.as_ref(), "", &Origins::default()) {
        Writer::Outside(outside) => Some(outside.origin == Origin::Canvas),
        Writer::Own | Writer::Peer(_) | Writer::Platform(_) | Writer::Unknown(_) => None,
    }
}

fn only(object: Option<&Value>, keys: &[&str]) -> bool {
    let object = object.and_then(Value::as_object);
    object.is_some_and(|object| object.keys().all(|key| keys.contains(&key.as_str())))
}

fn text<'a>(body: &'a Value, place: &str) -> Option<&'a str> {
    body.pointer(place)?.as_str()
}

/// An id that can be shown, logged and written into the configuration as it is.
fn id<'a>(body: &'a Value, place: &str) -> Option<&'a str> {
    text(body, place).filter(|id| is_plain(id))
}

fn is_plain(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !id.is_empty() && id.len() <= ID_MAX_CHARS && id.chars().all(fits)
}

/// The name of a place with everything else than letters, digits and a few signs left out.
fn readable(name: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    name.chars().filter(fits).take(ID_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests;
