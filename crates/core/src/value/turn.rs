//! One attempt's turn: the intent, on disk before Codex is called, and its end.
//!
//! Written by `step::turn`.

use super::{
    BootId, ClientId, Epoch, IncarnationId, MessageId, Sandbox, ThreadId, Timestamp, TurnId,
};

/// The turn of one attempt of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whose turn it is.
    pub message_id: MessageId,
    /// Which attempt.
    pub attempt: u32,
    /// Codex gives it back in its history.
    pub client_id: ClientId,
    /// The daemon's boot that began it.
    pub epoch: Epoch,
    /// The machine's boot: after a reboot Codex's history proves less.
    pub boot_id: BootId,
    /// The Codex process it was given to.
    pub incarnation: IncarnationId,
    /// The thread it runs on.
    pub thread: ThreadId,
    /// The newest turn of that thread when it began: reconcile looks behind it.
    pub after_turn: Option<TurnId>,
    /// Codex's id, once known.
    pub turn_id: Option<TurnId>,
    /// What it may write; decides whether it may be run again.
    pub sandbox: Sandbox,
    /// How far it is.
    pub state: TurnState,
    /// An item that may touch the world was seen.
    pub touched: bool,
    /// When the intent was written.
    pub started_at: Timestamp,
    /// When we saw its end.
    pub ended_at: Option<Timestamp>,
    pub usage: Usage,
}

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// Intent on disk.
    Begun,
    /// Codex named it.
    Attached,
    /// We saw its end.
    Ended,
    /// We lost sight of it.
    Lost,
}

words!(TurnState {
    Begun => "begun",
    Attached => "attached",
    Ended => "ended",
    Lost => "lost",
});

/// What follows when a turn is cut after it may have changed something. A turn that can't write is simply run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum CutPolicy {
    /// A new turn on the same thread gets what happened, checks, and finishes; at most twice.
    Continue,
    /// The sender is asked; the conversation waits for up to a day.
    Ask,
    /// It fails, with a notice.
    Bury,
}

words!(CutPolicy {
    Continue => "continue",
    Ask => "ask",
    Bury => "bury",
});

/// Tokens of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens the model read.
    pub input_tokens: i64,
    /// Tokens the model wrote.
    pub output_tokens: i64,
}

/// One thing that happened while a message was worked on, kept so that people can read it later. Deltas are no events:
/// they are lossy, shown live and never stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemEvent {
    /// Whose turn it happened in.
    pub message_id: MessageId,
    /// Its place among the events of the message, without gaps, from 1.
    pub ordinal: u32,
    /// Which attempt.
    pub attempt: u32,
    /// What kind of thing.
    pub kind: EventKind,
    /// One line for people; raw text, escaped where it is shown.
    pub text: String,
    pub at: Timestamp,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Codex began something.
    Started,
    /// Codex finished something.
    Completed,
    /// Codex or the bridge tries something again.
    Retrying,
    /// Codex asked, or was answered.
    Asked,
    /// Said by the bridge.
    Bridge,
    /// A line of Codex's protocol as it came, where the operator wants them.
    Raw,
    /// A line that Codex wrote to its standard error.
    Stderr,
    /// Taken over from the older tool: see [`crate::step::OldEvent`].
    Imported,
}

words!(EventKind {
    Started => "item/started",
    Completed => "item/completed",
    Retrying => "turn/retrying",
    Asked => "request",
    Bridge => "bridge",
    Raw => "protocol/raw",
    Stderr => "codex/stderr",
    Imported => "imported",
});
