//! One row of the feed, read by itself: a message, a dead letter, something that is no message, or nothing at all.
//!
//! Who wrote it is `origin`'s business; the text decides nothing.

pub(crate) mod identity;
pub(crate) mod origin;
pub(crate) mod parts;

use crate::inbox::{Arrival, check_key, check_text};
use crate::molecule::files::with_note;
use crate::molecule::row::origin::{Origins, Outside, Writer, writer};
use crate::molecule::row::parts::{Content, FilePart, parts};
use crate::molecule::wire::{HOPS, Row, Stamp, field};
use bridge_core::limits::clip;
use bridge_core::step::{Extras, LoopLimits, Verdict};
use bridge_core::storage::StorageBudget;
use bridge_core::value::{ChannelId, Command, ExternalId, SenderKind, Tier};
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

/// How much of a row that is no message is kept with its dead letter.
const KEPT_MAX_CHARS: usize = 4_000;
/// The conversation of dead letters that name no sender.
const NOWHERE: &str = "(malformed)";
/// The platform's word for asking whether we still work.
const STALL: &str = "self-stall";

/// What a reader of rows must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowContext<'a> {
    /// Our workspace.
    pub(crate) own: &'a str,
    pub(crate) channel: &'a ChannelId,
    /// What the operator said of those who write.
    pub(crate) origins: &'a Origins,
}

/// What a row is.
#[derive(Debug)]
pub(crate) enum Reading {
    /// A message, or a dead letter of its own.
    Message(Box<Incoming>),
    /// Not meant for anybody: an echo of ours, an upload, another method.
    NoMessage,
    /// The platform speaks for itself; no turn answers it.
    Platform(Notice),
    /// Nothing can be kept of it.
    Nothing(String),
}

/// What the platform itself says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// It asks whether we still work, and takes any activity for the answer.
    Stall,
    /// Something that asks for nothing that the bridge has, by its kind.
    Other(String),
}

/// A message whose files are not fetched yet.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) arrival: Arrival,
    pub(crate) files: Vec<FilePart>,
}

/// Reads a row.
pub(crate) fn read(row: &Row, ground: RowContext<'_>) -> Reading {
    let id = match row.id() {
        Some(id) if check_key(&id).is_ok() => id,
        Some(_) | None => return Reading::Nothing("it has no id".to_owned()),
    };
    let why = match is_message(row) {
        Ok(false) => return Reading::NoMessage,
        Ok(true) => row.broken.clone(),
        Err(why) => Some(why),
    };
    let body: Result<Option<Value>, String> = field(row.request_body.as_deref());
    let known = body.as_ref().ok().and_then(Option::as_ref);
    let writer = writer(row, known, ground.own, ground.origins);
    let letter = Letter { id, row, ground };
    let incoming = match (writer, why) {
        (Writer::Own, _) => return Reading::NoMessage,
        (Writer::Platform(kind), _) => return Reading::Platform(Notice::of(kind)),
        (Writer::Unknown(why), _) => letter.of_nobody(&why),
        (writer, Some(why)) => letter.unreadable(&writer, &why),
        (writer, None) => letter.read(&writer, body),
    };
    Reading::Message(Box::new(incoming))
}

impl Notice {
    fn of(kind: String) -> Self {
        match kind.as_str() {
            STALL => Self::Stall,
            _ => Self::Other(kind),
        }
    }
}

/// Whether a row is meant for an agent to read.
fn is_message(row: &Row) -> Result<bool, String> {
    let kind: Option<String> = field(row.activity_type.as_deref())?;
    let method: Option<String> = field(row.method.as_deref())?;
    let received = kind.is_none_or(|kind| kind == "a2a_receive");
    let said = method.is_some_and(|method| method.starts_with("message/"));
    Ok(received && said)
}

struct Letter<'a> {
    id: String,
    row: &'a Row,
    ground: RowContext<'a>,
}

impl Letter<'_> {
    fn read(self, writer: &Writer, body: Result<Option<Value>, String>) -> Incoming {
        let body = match body {
            Ok(Some(body)) => body,
            Ok(None) => return self.unreadable(writer, "it has no body"),
            Err(why) => return self.unreadable(writer, &why),
        };
        let Some(parts) = parts(&body) else {
            return self.unreadable(writer, "it has no parts");
        };
        let content = Content::read(parts);
        let (text, unread) = (content.body(), content.unread_line());
        let verdict = match check_text(&text) {
            Ok(()) if text.trim().is_empty() => {
                // Files alone are something to work on; what can't be read is not.
                if content.files.is_empty() && !unread.is_empty() {
                    unfit(&unread, true)
                } else {
                    Verdict::Fit
                }
            }
            Ok(()) => may_say(writer, &content.text).unwrap_or(Verdict::Fit),
            Err(refusal) => unfit(&refusal.to_string(), true),
        };
        let extras = Extras {
            trace: None,
            context: context(&body),
            said_at: self.row.at().map(Stamp::in_ms),
            attachments: Vec::new(),
            hops: hops(writer, &body),
            command: command(writer, &content.text, content.is_text_only()),
            by_talk: false,
            // The inbox fills both in.
            storage: StorageBudget::default(),
            loop_limits: LoopLimits::default(),
            // `identity` does.
            former_id: None,
            cwd: None,
            model: None,
            sandbox: None,
        };
        match verdict {
            Verdict::Fit => {
                let text = with_note(&text, &unread);
                self.incoming(writer, text, Verdict::Fit, extras, content.files)
            }
            verdict @ Verdict::Unfit { .. } => {
                let kept = clip(&text.replace('\0', "\u{fffd}"), KEPT_MAX_CHARS);
                self.incoming(writer, kept, verdict, extras, Vec::new())
            }
        }
    }

    /// A dead letter with a notice to its writer.
    fn unreadable(self, writer: &Writer, why: &str) -> Incoming {
        let reason = format!("this message can't be read: {}", clip(why, 200));
        self.dead(writer, unfit(&reason, true))
    }

    /// A dead letter without a notice: there is nobody to send it to.
    fn of_nobody(self, why: &str) -> Incoming {
        let why = clip(why, 200);
        let reason = format!("the platform showed a message from nobody: {why}");
        self.dead(&Writer::Unknown(String::new()), unfit(&reason, false))
    }

    fn dead(self, writer: &Writer, verdict: Verdict) -> Incoming {
        let raw = self.row.request_body.as_deref().map_or("", RawValue::get);
        let body = clip(raw, KEPT_MAX_CHARS);
        self.incoming(writer, body, verdict, Extras::default(), Vec::new())
    }

    fn incoming(
        self,
        writer: &Writer,
        body: String,
        verdict: Verdict,
        extras: Extras,
        files: Vec<FilePart>,
    ) -> Incoming {
        let (conversation, kind, sender, tier) = match writer {
            Writer::Peer(peer) => {
                let key = format!("peer:{peer}");
                let tier = self.ground.origins.tier_of_agent(peer);
                (key, SenderKind::Agent, peer.clone(), tier)
            }
            Writer::Outside(outside) => {
                let key = self.conversation(outside);
                (
                    key,
                    SenderKind::Person,
                    outside.sender.clone(),
                    outside.tier,
                )
            }
            // What is no message does not come here; should it, it is nobody's.
            Writer::Own | Writer::Platform(_) | Writer::Unknown(_) => {
                let key = NOWHERE.to_owned();
                (key, SenderKind::Agent, String::new(), Tier::Peer)
            }
        };
        Incoming {
            arrival: Arrival {
                channel: self.ground.channel.clone(),
                conversation,
                external_id: ExternalId::new(self.id),
                kind,
                sender,
                tier,
                body,
                verdict,
                extras,
            },
            files,
        }
    }

    /// The canvas is one conversation; somebody whom nobody vouches for is not let into it, so that no word of theirs
    /// stands in the owner's thread.
    fn conversation(&self, outside: &Outside) -> String {
        let place = outside.chat.clone().unwrap_or_else(|| self.workspace());
        format!("{}:{place}", outside.origin.as_str())
    }

    /// The workspace that a row was written in: ours, where the row does not say.
    fn workspace(&self) -> String {
        let named: Option<String> = field(self.row.workspace_id.as_deref()).ok().flatten();
        let named = named.and_then(|id| Uuid::parse_str(&id).ok());
        named.map_or_else(
            || self.ground.own.to_owned(),
            |id| id.hyphenated().to_string(),
        )
    }
}

fn unfit(reason: &str, tell: bool) -> Verdict {
    Verdict::Unfit {
        reason: reason.to_owned(),
        tell,
    }
}

fn context(body: &Value) -> Option<String> {
    let places = ["/params/message/contextId", "/params/contextId"];
    let found = places
        .iter()
        .find_map(|place| body.pointer(place)?.as_str());
    found
        .filter(|id| check_key(id).is_ok())
        .map(ToOwned::to_owned)
}

fn hops(writer: &Writer, body: &Value) -> u32 {
    let place = format!("/params/message/metadata/{HOPS}");
    let said = body.pointer(&place).and_then(Value::as_u64);
    match writer {
        Writer::Peer(_) => said.map_or(0, |hops| u32::try_from(hops).unwrap_or(u32::MAX)),
        Writer::Outside(_) | Writer::Own | Writer::Platform(_) | Writer::Unknown(_) => 0,
    }
}

/// Refuses commands of people who are not owners, with a notice; Codex does not see them.
fn may_say(writer: &Writer, text: &str) -> Option<Verdict> {
    let outside = match writer {
        Writer::Outside(outside) if outside.tier != Tier::Owner => outside,
        Writer::Outside(_) | Writer::Peer(_) | Writer::Own => return None,
        Writer::Platform(_) | Writer::Unknown(_) => return None,
    };
    match Command::read(text)? {
        Command::Answer { .. } => None,
        Command::New | Command::Stop | Command::Status | Command::Decide { .. } => {
            let reason = format!(
                "this is a command, and only an owner can give one; {} counts as a {} here (`[molecule.origins]` says who is what)",
                outside.sender,
                outside.tier.as_str()
            );
            Some(unfit(&reason, true))
        }
    }
}

/// Only owners talk to the bridge itself; what others write is data, but for the answer to what they are asked.
fn command(writer: &Writer, text: &str, alone: bool) -> Option<Command> {
    let command = match writer {
        Writer::Outside(outside) if outside.tier == Tier::Owner => Command::read(text),
        Writer::Outside(_) | Writer::Peer(_) => Command::read_answer(text),
        Writer::Own | Writer::Platform(_) | Writer::Unknown(_) => None,
    };
    // An answer is words; what comes with files may only read like one.
    command.filter(|command| alone || !matches!(command, Command::Answer { .. }))
}

#[cfg(test)]
mod tests;
