//! The ways of a message that are measured against each other, and what one of them gave. How a way is gone is in the
//! files beside this one.

use crate::section::Whose;
use std::time::Duration;

/// One way from a text to its answer. All of them but those that say so are warm: the process runs and the thread has
/// had turns before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// A turn of the app-server by a minimal client.
    Bare,
    BareLegacy,
    BareEphemeral,
    /// A new thread and its first turn.
    BareNew,
    /// A person writes on the canvas and sees the bubble.
    Inbox,
    /// `codex-bridge send`, the whole process.
    Send,
    /// `POST /v1/messages` and its events.
    Api,
    A2a,
    A2aStream,
    /// A new task over MCP, so a new thread.
    Mcp,
    ExecResume,
    ShimResume,
    /// `codex exec` without a session.
    ExecNew,
}

impl Way {
    /// In the order of one round: what is compared by difference stands side by side.
    pub(crate) const ALL: [Self; 13] = [
        Self::Bare,
        Self::Inbox,
        Self::Send,
        Self::Api,
        Self::A2a,
        Self::A2aStream,
        Self::BareNew,
        Self::Mcp,
        Self::BareLegacy,
        Self::BareEphemeral,
        Self::ExecResume,
        Self::ShimResume,
        Self::ExecNew,
    ];

    /// Part of the keys by which figures are known again.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::BareLegacy => "bare_legacy",
            Self::BareEphemeral => "bare_ephemeral",
            Self::BareNew => "bare_new",
            Self::Inbox => "inbox",
            Self::Send => "send",
            Self::Api => "api",
            Self::A2a => "a2a",
            Self::A2aStream => "a2a_stream",
            Self::Mcp => "mcp",
            Self::ExecResume => "exec_resume",
            Self::ShimResume => "shim_resume",
            Self::ExecNew => "exec_new",
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Bare => "bare app-server turn (the floor)",
            Self::BareLegacy => "bare turn, legacy history",
            Self::BareEphemeral => "bare turn, ephemeral thread",
            Self::BareNew => "bare: new thread, first turn",
            Self::Inbox => "canvas to visible bubble",
            Self::Send => "codex-bridge send",
            Self::Api => "HTTP API with its events",
            Self::A2a => "A2A SendMessage",
            Self::A2aStream => "A2A SendStreamingMessage",
            Self::Mcp => "MCP codex_start (new thread)",
            Self::ExecResume => "codex exec resume, native",
            Self::ShimResume => "codex exec resume, npm shim",
            Self::ExecNew => "codex exec, new session, native",
        }
    }

    pub(crate) fn whose(self) -> Whose {
        match self {
            Self::Bare | Self::BareLegacy | Self::BareEphemeral | Self::BareNew => Whose::Codex,
            Self::Inbox | Self::Send | Self::Api | Self::A2a | Self::A2aStream | Self::Mcp => {
                Whose::Ours
            }
            Self::ExecResume | Self::ShimResume | Self::ExecNew => Whose::Other,
        }
    }

    /// The bare way that does the same at Codex.
    pub(crate) fn floor(self) -> Self {
        match self {
            Self::Mcp | Self::BareNew | Self::ExecNew => Self::BareNew,
            Self::Bare
            | Self::BareLegacy
            | Self::BareEphemeral
            | Self::Inbox
            | Self::Send
            | Self::Api
            | Self::A2a
            | Self::A2aStream
            | Self::ExecResume
            | Self::ShimResume => Self::Bare,
        }
    }
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) whole: Duration,
    /// Where the way streams.
    pub(crate) first_token: Option<Duration>,
}

impl Sample {
    pub(crate) fn whole(whole: Duration) -> Self {
        Self {
            whole,
            first_token: None,
        }
    }
}
