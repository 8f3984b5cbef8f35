//! What one step of a script is: the model's whole behaviour for one request, as data.
//! Reading it from text is `script`, putting it on the wire is `respond`.
//! No behaviour here beyond the names of things.

use std::time::Duration;

/// What the model does in answer to one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Step {
    /// Refuse with an HTTP error instead of answering.
    pub(super) refusal: Option<Refusal>,
    /// What comes before the act, in the order it was written.
    pub(super) cues: Vec<Cue>,
    /// The answer itself, or a tool call.
    pub(super) act: Act,
    /// The gate in the middle of the answer.
    pub(super) pause: Option<String>,
    /// The phase of the answer's message.
    pub(super) phase: Option<Phase>,
    /// How the stream ends.
    pub(super) ending: Ending,
    /// What it is said to have cost.
    pub(super) usage: Usage,
}

/// An HTTP error in place of an answer, for the first `times` requests or for all.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Refusal {
    Status { code: u16, times: Option<u32> },
    UsageLimit { resets_in: u64, times: Option<u32> },
}

impl Refusal {
    pub(super) fn times(&self) -> Option<u32> {
        match self {
            Self::Status { times, .. } | Self::UsageLimit { times, .. } => *times,
        }
    }
}

/// Something that happens in the stream before the act.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cue {
    Sleep(Duration),
    Hold(String),
    Hang(String),
    Reason(String),
    Say { text: String, phase: Phase },
}

/// What a step produces.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Act {
    /// No directive says: quote the message.
    #[default]
    Quote,
    Echo(String),
    Stream {
        deltas: usize,
        gap: Duration,
    },
    Big(usize),
    Remember,
    Call(Call),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    Shell {
        command: String,
        escalate: bool,
    },
    Patch {
        file: String,
        content: String,
    },
    /// Adds a line to a file, as a visible effect that can be counted.
    Append {
        file: String,
        line: String,
    },
    /// Asks another agent the very same, as an agent does that can't decide by itself.
    Relay {
        agent: String,
    },
    Function {
        namespace: Option<String>,
        name: String,
        arguments: String,
    },
}

/// How Codex is told to take a message: Codex passes it through to `agentMessage.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Commentary,
    PartialAnswer,
    FinalAnswer,
}

impl Phase {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Commentary => "commentary",
            Self::PartialAnswer => "partial_answer",
            Self::FinalAnswer => "final_answer",
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        [Self::Commentary, Self::PartialAnswer, Self::FinalAnswer]
            .into_iter()
            .find(|phase| phase.as_str() == text)
    }
}

/// How the stream of a step ends.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Ending {
    #[default]
    Completed,
    Incomplete,
    Failed {
        code: String,
    },
    /// The socket breaks in mid-item, for the first `times` requests or for all.
    Broken {
        times: Option<u32>,
    },
}

/// Token counts to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 100,
            output: 10,
        }
    }
}
