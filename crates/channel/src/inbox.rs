//! The inbox that every channel's texts come through: what may come in, and what it is given there.
//!
//! A refusal here happens before anything is stored; the sender, or the platform, still has the text.

use bridge_core::limits::{CONVERSATION_KEY_MAX_CHARS, MESSAGE_MAX_CHARS};
use bridge_core::port::LedgerError;
use bridge_core::step::{Extras, Received, Verdict};
use bridge_core::value::{ChannelId, ExternalId, SenderKind, Tier};
use std::future::Future;

/// Stores what a source shows. The daemon implements it; sources call it.
pub trait Inbox: Send + Sync + 'static {
    /// Stores a page and how far the source was read, together; until it returns the platform must keep them. From the
    /// first row on for which there is no room nothing is taken, and the source stays where it was.
    fn take_page(
        &self,
        page: Page,
    ) -> impl Future<Output = Result<Vec<Received>, LedgerError>> + Send;

    /// How far a source was read.
    fn cursor(
        &self,
        channel: &ChannelId,
    ) -> impl Future<Output = Result<Option<String>, LedgerError>> + Send;

    /// How a row stands, so that nothing is fetched for one that is in already or can't come in. A closed inbox is
    /// the error that taking it in would be.
    fn standing(
        &self,
        channel: &ChannelId,
        external_id: &ExternalId,
    ) -> impl Future<Output = Result<IntakeStatus, LedgerError>> + Send;

    /// The replies to a message that is over; none while it goes on.
    fn replies(
        &self,
        _channel: &ChannelId,
        _external_id: &ExternalId,
    ) -> impl Future<Output = Result<Option<Vec<PastReply>>, LedgerError>> + Send {
        async { Ok(None) }
    }

    /// What the channel's turns do now.
    fn activity(&self, channel: &ChannelId) -> impl Future<Output = Activity> + Send;
}

/// How a row of a source stands before it is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntakeStatus {
    /// It can come in.
    New,
    /// It is in.
    Known {
        /// With so many files.
        files: usize,
    },
    /// Too much waits already.
    Full,
}

/// A reply to a message that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastReply {
    pub text: String,
    /// The platform's proof that it took it, where there is one.
    pub receipt: Option<String>,
}

/// A text that passed the checks, in the core's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The channel.
    pub channel: ChannelId,
    /// The platform's name for the conversation.
    pub conversation: String,
    /// The platform's id for the message.
    pub external_id: ExternalId,
    /// Who waits for the answer.
    pub kind: SenderKind,
    /// Who sent it.
    pub sender: String,
    /// What they may do.
    pub tier: Tier,
    /// The text.
    pub body: String,
    /// Whether the channel found it fit.
    pub verdict: Verdict,
    /// What only some channels know of.
    pub extras: Extras,
}

/// What a source showed at once.
#[derive(Clone, Debug)]
pub struct Page {
    /// The source.
    pub channel: ChannelId,
    /// Its messages, in the order they are to be answered.
    pub arrivals: Vec<Arrival>,
    /// How far it was read with them, in its own words; absent when it stays where it is.
    pub position: Option<String>,
}

/// What a channel's turns do now, as the platform shows it beside the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Turns in flight.
    pub turns: u32,
    /// One line for people: what Codex does now.
    pub current: Option<String>,
}

/// Why a text is not taken in. Nothing was stored; the sender still has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Holds a NUL character.
    #[error(
        "the text holds a NUL character at position {position}, which Codex can't take: remove it and send again"
    )]
    Nul {
        /// Where, in characters from the start.
        position: usize,
    },
    /// Longer than Codex takes.
    #[error(
        "the text has {chars} characters and Codex takes at most {MESSAGE_MAX_CHARS}: put the rest in a file in the working directory and name it in the text"
    )]
    TooLong {
        /// How long it is.
        chars: usize,
    },
    /// The conversation's key can't be one.
    #[error("the conversation key {why}: choose a short name such as `main` or `ticket-42`")]
    Key {
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Whether Codex can take a text. One that says nothing is answered without it.
pub(crate) fn check_text(text: &str) -> Result<(), Refusal> {
    if let Some(position) = text.chars().position(|c| c == '\0') {
        return Err(Refusal::Nul { position });
    }
    match text.chars().count() {
        chars if chars > MESSAGE_MAX_CHARS => Err(Refusal::TooLong { chars }),
        _ => Ok(()),
    }
}

/// Whether a name can be kept and shown.
pub(crate) fn check_key(key: &str) -> Result<(), Refusal> {
    if key.trim().is_empty() {
        return Err(Refusal::Key { why: "is empty" });
    }
    if key.chars().nth(CONVERSATION_KEY_MAX_CHARS).is_some() {
        return Err(Refusal::Key {
            why: "is longer than 200 characters",
        });
    }
    if key.chars().any(char::is_control) {
        return Err(Refusal::Key {
            why: "holds control characters",
        });
    }
    Ok(())
}
