//! The ways of a message that are measured against each other, the order of a round, and what one of them gave. How a
//! way is gone is in the files beside this one.

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

/// One message of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) way: Way,
    /// False: it only warms what the next ones use.
    pub(crate) counted: bool,
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

    /// The messages of one round. Every second one goes backwards, so that each of two neighbours comes as often before
    /// the other as behind it; and what follows a process per message, which is heavy, is warmed first.
    pub(crate) fn round(number: usize) -> Vec<Step> {
        let step = |way, counted| Step { way, counted };
        let all = Self::ALL.into_iter().map(|way| step(way, true));
        if number.is_multiple_of(2) {
            return all.collect();
        }
        let (heavy, light): (Vec<Step>, Vec<Step>) =
            all.rev().partition(|step| step.way.whose() == Whose::Other);
        let warming = [Self::Inbox, Self::Bare].map(|way| step(way, false));
        [heavy, warming.to_vec(), light].concat()
    }

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

    /// The bare way that does the same at Codex; none where it has no thread with the same rights.
    pub(crate) fn floor(self) -> Option<Self> {
        match self {
            Self::Mcp | Self::BareNew | Self::ExecNew => Some(Self::BareNew),
            Self::Bare
            | Self::BareLegacy
            | Self::BareEphemeral
            | Self::Inbox
            | Self::Send
            | Self::Api
            | Self::ExecResume
            | Self::ShimResume => Some(Self::Bare),
            Self::A2a | Self::A2aStream => None,
        }
    }

    /// Whether words of the answer come before its end.
    pub(crate) fn streams(self) -> bool {
        match self {
            Self::Bare
            | Self::BareLegacy
            | Self::BareEphemeral
            | Self::BareNew
            | Self::Api
            | Self::A2aStream => true,
            Self::Inbox
            | Self::Send
            | Self::A2a
            | Self::Mcp
            | Self::ExecResume
            | Self::ShimResume
            | Self::ExecNew => false,
        }
    }
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) whole: Duration,
    /// Where the way streams; none where no words came before the end.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(round: &[Step], way: Way) -> usize {
        let wanted = Step { way, counted: true };
        round.iter().position(|step| *step == wanted).unwrap()
    }

    #[test]
    fn every_round_counts_every_way_once() {
        for number in 0..2 {
            let round = Way::round(number);
            let mut counted: Vec<Way> = round
                .iter()
                .filter(|step| step.counted)
                .map(|step| step.way)
                .collect();
            counted.sort();
            let mut all = Way::ALL.to_vec();
            all.sort();
            assert_eq!(counted, all);
        }
    }

    #[test]
    fn compared_ways_alternate_order_by_round() {
        let (even, odd) = (Way::round(0), Way::round(1));
        for way in Way::ALL {
            let Some(floor) = way.floor().filter(|floor| *floor != way) else {
                continue;
            };
            let first = |round: &[Step]| place(round, way) < place(round, floor);
            assert_ne!(first(&even), first(&odd), "{way:?}");
        }
    }

    #[test]
    fn compared_steps_never_follow_codex_exec() {
        let steps: Vec<Step> = (0..4).flat_map(Way::round).collect();
        for pair in steps.windows(2) {
            let [before, after] = pair else { continue };
            let heavy = |step: &Step| step.way.whose() == Whose::Other;
            assert!(!heavy(before) || heavy(after) || !after.counted, "{pair:?}");
        }
    }
}
