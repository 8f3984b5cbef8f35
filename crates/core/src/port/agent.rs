//! The port to the agent that runs turns. `host` implements it over Codex, tests and benches over a script.
//!
//! The types here know threads, turns and items; JSON, sockets and processes stay in the implementation.

use crate::rules::Effect;
use crate::value::{
    ApprovalPolicy, ClientId, Failure, IncarnationId, ItemId, MessageId, QuotaReport, RequestKind,
    RequestVerdict, Sandbox, ThreadId, Timestamp, TraceParent, TurnId, Usage, Wants,
};
use serde::{Deserialize, Serialize};
use std::future::Future;

/// Runs turns on threads.
pub trait Agent: Send + Sync + 'static {
    type Stream: TurnStream;

    /// Starts the agent if it does not run, and returns the incarnation that will take the next turn.
    fn ready(
        &self,
        home: Option<&str>,
    ) -> impl Future<Output = Result<IncarnationId, AgentError>> + Send;

    fn open_thread(
        &self,
        spec: &ThreadSpec,
    ) -> impl Future<Output = Result<ThreadId, AgentError>> + Send;

    /// Loads an existing thread and takes its writer lock.
    fn resume_thread(
        &self,
        thread: &ThreadId,
        spec: &ThreadSpec,
    ) -> impl Future<Output = Result<(), AgentError>> + Send;

    /// The incarnation that has a thread loaded, where that may be another one than takes the next thread.
    fn life_of(&self, _thread: &ThreadId) -> Option<IncarnationId> {
        None
    }

    /// Starts a turn. After an `Ambiguous` error the turn may run all the same.
    fn start_turn(
        &self,
        turn: &TurnSpec,
    ) -> impl Future<Output = Result<Started<Self::Stream>, AgentError>> + Send;

    /// Takes the thread's writer lock and reads the end of a lost turn from the history.
    fn look_up(
        &self,
        lost: &LostTurn,
    ) -> impl Future<Output = Result<TurnLookup<Self::Stream>, AgentError>> + Send;

    /// Answers an approval request. After an `Ambiguous` error the agent may have the answer all the same.
    fn respond(
        &self,
        to: &RequestKey,
        verdict: &RequestVerdict,
    ) -> impl Future<Output = Result<Responded, AgentError>> + Send;

    /// Ends the process that runs a turn on this thread which can't be interrupted; its streams end as lost.
    fn end_life(&self, thread: &ThreadId, why: &str) -> impl Future<Output = ()> + Send;

    /// A cheap call with a short deadline; an error means that the agent of this thread is gone.
    fn probe(&self, thread: &ThreadId) -> impl Future<Output = Result<(), AgentError>> + Send;

    /// Adds text to a running turn. After an `Ambiguous` error the turn may have it all the same.
    fn steer(&self, steer: &Steer) -> impl Future<Output = Result<Steered, AgentError>> + Send;

    /// Asks a running turn to end; its end still arrives on its stream.
    fn interrupt(
        &self,
        thread: &ThreadId,
        turn_id: &TurnId,
    ) -> impl Future<Output = Result<(), AgentError>> + Send;

    /// Lets go of a thread on which nothing runs, so that another program may open it; gives its newest turn.
    fn release_thread(
        &self,
        _thread: &ThreadId,
        _spec: &ThreadSpec,
    ) -> impl Future<Output = Result<Option<TurnId>, AgentError>> + Send {
        core::future::ready(Ok(None))
    }

    /// Takes the thread's writer lock and reads the turns of others behind the last known one, oldest first, at most
    /// [`LOAN_TURNS_MAX`](crate::limits::LOAN_TURNS_MAX) of them.
    fn turns_of_others(
        &self,
        _thread: &ThreadId,
        _spec: &ThreadSpec,
        _after: Option<&TurnId>,
    ) -> impl Future<Output = Result<Vec<ForeignTurn>, AgentError>> + Send {
        core::future::ready(Ok(Vec::new()))
    }

    /// What each CODEX_HOME's agent reported of its account so far; the default home is the absent one.
    fn quotas(&self) -> Vec<(Option<String>, QuotaReport)> {
        Vec::new()
    }

    /// Returns when one of these reports may have changed since this was called last. For one waiter.
    fn quota_changed(&self) -> impl Future<Output = ()> + Send {
        core::future::pending()
    }

    /// In a fleet, before a thread is used: brings it here as it is stored, unless this generation is here already.
    fn bring_thread(
        &self,
        _thread: &TravellingThread,
    ) -> impl Future<Output = Result<(), AgentError>> + Send {
        core::future::ready(Ok(()))
    }

    /// Deletes a thread with its history. One that is gone already is deleted.
    fn delete_thread(
        &self,
        _home: Option<&str>,
        _thread: &ThreadId,
    ) -> impl Future<Output = Result<(), AgentError>> + Send {
        core::future::ready(Ok(()))
    }

    /// In a fleet: stores what a thread grew by, for a message whose turn runs on it.
    fn store_thread(
        &self,
        _thread: &TravellingThread,
        _message_id: &MessageId,
    ) -> impl Future<Output = Result<(), AgentError>> + Send {
        core::future::ready(Ok(()))
    }
}

/// A thread that other nodes may go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TravellingThread {
    pub thread: ThreadId,
    /// CODEX_HOME as an absolute path; the default one when absent.
    pub codex_home: Option<String>,
    /// How many nodes had its conversation, this one included.
    pub generation: u32,
}

/// The events of one turn, in order, ending with [`TurnEvent::Ended`] or [`TurnEvent::Lost`].
pub trait TurnStream: Send + 'static {
    /// The next event. Text is coalesced: a slow reader gets fewer, newer texts, and always the end.
    fn next(&mut self) -> impl Future<Output = TurnEvent> + Send;

    /// From now on also what the agent's peer wrote: [`TurnEvent::Raw`] and [`TurnEvent::Stderr`], if it has them.
    fn show_raw(&mut self) {}
}

/// How a thread is set up. Comes from the configuration of a tier, never from a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Working directory of its commands; an absolute path.
    pub workdir: String,
    pub sandbox: Sandbox,
    pub approval_policy: ApprovalPolicy,
    /// Codex chooses when absent.
    pub model: Option<String>,
    /// Developer instructions for the model.
    pub instructions: String,
    pub reads: Reads,
    pub transport: TurnTransport,
    /// CODEX_HOME as an absolute path; the default one when absent.
    pub codex_home: Option<String>,
    /// Agents that the model may ask with the tool [`crate::prompt::ASK_AGENT`]. Codex fixes a thread's tools when the
    /// thread starts, so a later list changes the answers and not the offer.
    pub agents: Vec<String>,
}

/// What the commands of a thread may read. A read-only sandbox still shows the whole disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// Everything that the daemon's user may read.
    #[default]
    Disk,
    /// The system's directories, the working directory and `also`.
    Shielded {
        /// More readable paths: absolute, symbolic links resolved.
        also: Vec<String>,
        /// Absolute paths that stay hidden inside the readable ones.
        hidden: Vec<String>,
    },
}

/// Which program of Codex runs a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum TurnTransport {
    /// The app-server: one process for all conversations, which can be steered, asked and interrupted.
    #[default]
    AppServer,
    /// `codex exec`: a process for every turn; see `[exec]`.
    Exec,
}

/// A turn to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSpec {
    pub thread: ThreadId,
    pub spec: ThreadSpec,
    /// Stored by the agent with the text, and the key to find the turn after a crash.
    pub client_id: ClientId,
    pub text: String,
    /// Absolute paths of image files.
    pub images: Vec<String>,
    /// The span that what the agent does for it hangs under.
    pub trace: Option<TraceParent>,
}

/// More text for a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    pub thread: ThreadId,
    /// The agent refuses the text when another turn runs.
    pub turn_id: TurnId,
    pub client_id: ClientId,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The turn has the text.
    Taken,
    /// Too late, or this kind of turn takes no text.
    Refused { why: String },
}

/// Result of input for a running turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// The turn took it.
    Steered,
    /// It waits for the next turn.
    Queued { why: String },
    /// Unknown: sent again, the turn may get it twice.
    Unknown { why: String },
    /// Not taken.
    Refused { why: String },
}

/// A turn whose end was not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTurn {
    pub turn: TurnSpec,
    /// The agent's id of the turn, where that was learned.
    pub turn_id: Option<TurnId>,
    /// The newest turn of the thread before this one.
    pub after_turn: Option<TurnId>,
    /// The incarnation that was given the turn. While it lives, its history may lag behind its events.
    pub incarnation: IncarnationId,
}

#[derive(Debug)]
pub struct Started<S> {
    pub turn_id: TurnId,
    pub stream: S,
}

/// Result of [`Agent::look_up`].
#[derive(Debug)]
pub struct TurnLookup<S> {
    pub found: TurnHistory,
    /// Set when the turn still runs.
    pub stream: Option<S>,
}

/// What the thread's history says about a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnHistory {
    /// A turn with our client id.
    Turn(RecordedTurn),
    /// No turn with our client id, and none after the last known turn.
    Absent,
    /// No turn with our client id, but other turns after the last known one: another program used the thread.
    Foreign,
    /// The history can't be read, so a missing turn proves nothing.
    Unreadable { why: String },
}

/// Our turn as the history records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTurn {
    pub turn_id: TurnId,
    pub status: TurnStatus,
    /// The message marked as final; of a completed turn also its last message.
    pub answer: Option<String>,
    /// One line per item with side effects, or one line that says that the history does not list them.
    pub effects: Vec<String>,
    /// Client ids of the texts that the turn was given.
    pub received: Vec<ClientId>,
    pub failure: Option<Failure>,
}

/// A turn that another program ran on a thread of ours, as the history records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTurn {
    /// What it was given.
    pub input: String,
    pub recorded: RecordedTurn,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    InProgress,
    Completed,
    Interrupted,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// An item started or completed.
    Item(ItemNote),
    /// A message of the agent, while it is written and once more when it is complete.
    Text(TextUpdate),
    /// `codex exec` named the thread that it started.
    Named {
        thread: ThreadId,
    },
    /// The agent retries a call of its model.
    Retrying {
        message: String,
    },
    /// The agent waits for a decision.
    Request(ApprovalRequest),
    /// The request was settled without our answer: by another client, or with its item or turn.
    Resolved(RequestKey),
    /// The agent has our answer.
    Confirmed(RequestKey),
    /// A line of the agent's protocol, as it came.
    Raw(String),
    /// A line that the agent's process wrote to its standard error while the turn ran. One process serves many turns.
    Stderr(String),
    /// A sign of life without other content.
    Alive,
    Ended(TurnEnd),
    /// The process died or the connection broke; look the turn up.
    Lost {
        why: String,
    },
}

/// One message of the agent so far. Only the beginning of a very long message is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextUpdate {
    /// Texts of different items never belong to one message.
    pub item_id: ItemId,
    pub phase: Phase,
    pub extent: Extent,
    pub text: String,
}

/// What the agent says a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Narration; never the answer.
    Commentary,
    Final,
    /// Not stated: the answer, unless another message follows.
    Unmarked,
}

/// Which part of a message a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The beginning is missing, because the turn was attached to while the message was written.
    Middle,
    /// From the beginning.
    Head,
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemNote {
    pub item_id: ItemId,
    /// Codex's name of the kind of item.
    pub kind: String,
    pub completed: bool,
    pub headline: String,
    /// The item may have side effects.
    pub effect: bool,
    /// The diff of a file change, bounded. Shown to watchers and never stored.
    pub diff: Option<String>,
    /// The last lines that a command wrote, bounded. Shown to watchers and never stored.
    pub output: Option<String>,
    /// It was declined before it ran.
    pub declined: bool,
}

/// Identifies an approval request. JSON-RPC ids start again with every incarnation, so all fields count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    pub incarnation: IncarnationId,
    /// The JSON-RPC id as JSON text.
    pub rpc_id: String,
    pub item_id: Option<ItemId>,
}

/// Result of [`Agent::respond`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Responded {
    Delivered,
    /// The agent no longer waits for this request.
    Gone,
    /// The incarnation that asked can't be reached and was sent nothing. The next one may ask the same.
    Disconnected,
    /// The answer does not fit the request, which stays open.
    Invalid {
        /// What is wrong and what would fit.
        why: String,
    },
}

/// A request of the agent that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
    pub key: RequestKey,
    /// The JSON-RPC method.
    pub method: String,
    pub kind: RequestKind,
    pub headline: String,
    /// Everything that is decided about, as text. The same effect has the same text in every incarnation.
    pub shown: String,
    /// The facts that rules match.
    pub effect: Effect,
    /// The JSON-RPC params.
    pub payload: String,
    /// What an accept must say beside yes.
    pub wants: Wants,
    /// Answers must not be shown, logged or kept.
    pub secret_answer: bool,
    /// Arguments of a call of the tool [`crate::prompt::ASK_AGENT`], as JSON.
    pub tool_arguments: Option<String>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    pub turn_id: TurnId,
    pub status: TurnStatus,
    pub answer: Option<String>,
    /// An item with possible side effects was seen.
    pub touched: bool,
    /// Client ids of the texts that the turn was given.
    pub received: Vec<ClientId>,
    pub failure: Option<Failure>,
    pub usage: Usage,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", failure.reason)]
pub struct AgentError {
    pub failure: Failure,
    /// Set when the thread itself can't be used; a new one may work.
    pub thread: Option<ThreadFailure>,
}

/// Why a thread can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadFailure {
    /// It has no record: none is written before the first turn, or it was removed.
    Missing,
    /// Its record is unreadable.
    Damaged,
}

impl AgentError {
    #[must_use]
    pub fn new(failure: Failure) -> Self {
        Self {
            failure,
            thread: None,
        }
    }
}
