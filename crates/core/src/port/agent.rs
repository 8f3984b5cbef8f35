//! The agent: who runs turns. `host` implements it over Codex; tests and benches over a script.
//!
//! It speaks of threads, turns and items in the core's words; JSON, sockets and processes stay behind it.

use crate::rules::Effect;
use crate::value::{
    ApprovalPolicy, ClientId, Failure, IncarnationId, ItemId, RequestKind, RequestVerdict, Sandbox,
    ThreadId, TurnId, Usage,
};
use std::future::Future;

/// Runs turns on threads.
pub trait Agent: Send + Sync + 'static {
    /// A turn that can be followed to its end.
    type Stream: TurnStream;

    /// Makes sure that the agent can take such turns now; tells which life of it will.
    fn ready(
        &self,
        home: Option<&str>,
    ) -> impl Future<Output = Result<IncarnationId, AgentFault>> + Send;

    /// Starts a new thread.
    fn open_thread(
        &self,
        spec: &ThreadSpec,
    ) -> impl Future<Output = Result<ThreadId, AgentFault>> + Send;

    /// Loads a thread that exists, and becomes its writer.
    fn resume_thread(
        &self,
        thread: &ThreadId,
        spec: &ThreadSpec,
    ) -> impl Future<Output = Result<(), AgentFault>> + Send;

    /// Starts a turn. After an `Ambiguous` fault it may run all the same.
    fn start_turn(
        &self,
        turn: &TurnSpec,
    ) -> impl Future<Output = Result<Started<Self::Stream>, AgentFault>> + Send;

    /// Takes the thread's writer and asks what became of a turn that was lost from sight.
    fn look(
        &self,
        lost: &LostTurn,
    ) -> impl Future<Output = Result<Looked<Self::Stream>, AgentFault>> + Send;

    /// Answers something the agent asked. After an `Ambiguous` fault it may have heard it all the same.
    fn respond(
        &self,
        to: &AskedRef,
        verdict: &RequestVerdict,
    ) -> impl Future<Output = Result<Responded, AgentFault>> + Send;

    /// Ends the life of the agent that runs a turn on this thread which can't be stopped; its streams end as lost.
    fn end_life(&self, thread: &ThreadId, why: &str) -> impl Future<Output = ()> + Send;

    /// A cheap question with a short deadline: whether the agent that has this thread is still there. A fault means
    /// that it is not.
    fn probe(&self, thread: &ThreadId) -> impl Future<Output = Result<(), AgentFault>> + Send;

    /// Gives a running turn more text. After an `Ambiguous` fault it may have been heard all the same.
    fn steer(&self, steer: &Steer) -> impl Future<Output = Result<Steered, AgentFault>> + Send;

    /// Asks for the end of a running turn; its end still arrives on its stream.
    fn interrupt(
        &self,
        thread: &ThreadId,
        turn_id: &TurnId,
    ) -> impl Future<Output = Result<(), AgentFault>> + Send;
}

/// The news of one turn, in order, ending with [`TurnEvent::Ended`] or [`TurnEvent::Lost`].
pub trait TurnStream: Send + 'static {
    /// The next news. Text is coalesced: a slow reader sees fewer, newer texts, never a lost end.
    fn next(&mut self) -> impl Future<Output = TurnEvent> + Send;
}

/// How a thread is to be set up. Taken from configuration by tier, never from a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Where its commands work; an absolute path kept as text.
    pub workdir: String,
    /// What they may write.
    pub sandbox: Sandbox,
    /// When Codex asks.
    pub approval_policy: ApprovalPolicy,
    /// Which model; Codex's own choice when absent.
    pub model: Option<String>,
    /// What the model is told beside the conversation.
    pub instructions: String,
    /// What its commands may read.
    pub reads: Reads,
    /// Which program of Codex runs its turns.
    pub transport: TurnTransport,
    /// Which CODEX_HOME it lives in; the usual one when absent. An absolute path kept as text.
    pub codex_home: Option<String>,
    /// Agents that its model may ask with the tool [`crate::prompt::ASK_AGENT`]; without any it has no such tool. Codex
    /// fixes the tools of a thread when it begins, so a later list changes what is answered and not what is offered.
    pub agents: Vec<String>,
}

/// What the commands of a thread may read: a sandbox that forbids all writing still shows the whole disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// All that the user may read.
    #[default]
    Disk,
    /// The system's own directories, the working directory and what is granted beside it, and nothing else.
    Shielded {
        /// What may be read beside the working directory; absolute paths kept as text, without symbolic links.
        also: Vec<String>,
        /// Places that stay hidden even where they lie in those; absolute paths kept as text.
        hidden: Vec<String>,
    },
}

/// Which program of Codex runs a turn. From configuration by channel and conversation, never from a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnTransport {
    /// The app-server: one process for all threads, which can be steered, asked and interrupted.
    #[default]
    AppServer,
    /// `codex exec`: a process for every turn. It takes no more text, asks nothing, and is stopped by its end.
    Exec,
}

/// One turn to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSpec {
    /// On which thread.
    pub thread: ThreadId,
    /// How the thread must be set up.
    pub spec: ThreadSpec,
    /// What the agent keeps and gives back after a crash.
    pub client_id: ClientId,
    /// What it is given.
    pub text: String,
    /// Images that it is shown; absolute paths of our own files.
    pub images: Vec<String>,
}

/// More text for a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    /// On which thread.
    pub thread: ThreadId,
    /// For which turn; the agent refuses it when another one runs.
    pub turn_id: TurnId,
    /// What the agent keeps and gives back.
    pub client_id: ClientId,
    /// The text.
    pub text: String,
}

/// What became of a text for a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The turn has it.
    Taken,
    /// It came too late, or this kind of turn takes none; nothing was heard.
    Refused {
        /// Why.
        why: String,
    },
}

/// A turn whose end was not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostTurn {
    /// What was to be run.
    pub turn: TurnSpec,
    /// The newest turn of the thread before it.
    pub after_turn: Option<TurnId>,
    /// The life of the agent it was given to: if that one still lives, its history may lag behind it.
    pub incarnation: IncarnationId,
}

/// A turn that was taken.
#[derive(Debug)]
pub struct Started<S> {
    /// The agent's id for it.
    pub turn_id: TurnId,
    /// Its news.
    pub stream: S,
}

/// What a look at a lost turn found; with the stream if the turn still runs.
#[derive(Debug)]
pub struct Looked<S> {
    /// What is there.
    pub found: Found,
    /// Its news, when it is in progress.
    pub stream: Option<S>,
}

/// What the agent's history says about a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A turn with our client id is there.
    Turn(Finding),
    /// No turn has our client id, and nothing came after the turn we knew.
    Absent,
    /// No turn has our client id, but others came after the turn we knew: somebody else used the thread.
    Foreign,
    /// The history can't be read, so nothing is proven.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// A turn of ours in the agent's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The agent's id for it.
    pub turn_id: TurnId,
    /// How it stands.
    pub status: TurnStatus,
    /// Its answer: the text it marked as final, or for a completed turn its last message.
    pub answer: Option<String>,
    /// Items that may have touched the world, one line each; a line that says so where the record does not list them.
    pub effects: Vec<String>,
    /// The client ids of all texts that the turn was given.
    pub heard: Vec<ClientId>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// How a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    /// It runs.
    InProgress,
    /// It ended well.
    Completed,
    /// It was cut.
    Interrupted,
    /// It failed.
    Failed,
}

/// News of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// An item began or ended.
    Item(ItemNote),
    /// Something that the agent says: while it is written, and once more when it is whole.
    Text(Said),
    /// The agent named the thread, which had none until now.
    Named {
        /// The name.
        thread: ThreadId,
    },
    /// The agent tries its model again by itself.
    Retrying {
        /// What it says.
        message: String,
    },
    /// The agent asks something, and waits.
    Asked(Asked),
    /// A question was settled without us: by another client of the agent, or by the end of what it was about.
    Resolved(AskedRef),
    /// The agent has our answer to what it asked.
    Confirmed(AskedRef),
    /// Something happened that is no news to anybody: the turn is alive.
    Alive,
    /// The end.
    Ended(TurnEnd),
    /// We lost sight of it: the process died or the link broke.
    Lost {
        /// Why.
        why: String,
    },
}

/// One message of the agent, as far as it is known. Of a very long one only the beginning is ever told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The item it is: texts of different items are never parts of one.
    pub item_id: ItemId,
    /// What it is for.
    pub phase: Phase,
    /// How much of it the text is.
    pub extent: Extent,
    /// The text so far.
    pub text: String,
}

/// What a message of the agent is for, as far as the agent says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Narration on the way; never an answer.
    Commentary,
    /// The answer.
    Final,
    /// The agent does not say: the answer, unless something follows it.
    Unmarked,
}

/// How much of a message a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Some of it, joined while it was written: it must not be shown as if it began there.
    Middle,
    /// From its beginning, as far as it is.
    Head,
    /// All of it.
    Whole,
}

/// An item began or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemNote {
    /// Which.
    pub item_id: ItemId,
    /// Whether it ended (or began).
    pub completed: bool,
    /// One line for people.
    pub headline: String,
    /// Whether it may touch the world.
    pub effect: bool,
    /// What it changed in files, bounded; shown to whoever watches and never stored.
    pub diff: Option<String>,
}

/// Names a question of the agent: its ids start again with every life, so all of it counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AskedRef {
    /// The life of the agent that asks.
    pub incarnation: IncarnationId,
    /// Its JSON-RPC id, exactly as written.
    pub rpc_id: String,
    /// The item it is about.
    pub item_id: Option<ItemId>,
}

/// What became of an answer to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Responded {
    /// It has it.
    Told,
    /// It does not ask that any more.
    Gone,
    /// The life that asked it can't be reached, and nothing was said to it. The same may be asked again.
    Cut,
    /// The answer does not fit the question, which is still asked.
    Unfit {
        /// Why, and what would fit.
        why: String,
    },
}

/// Something the agent asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which question it is.
    pub asked: AskedRef,
    /// Its own name for this kind of question.
    pub method: String,
    /// What kind of answer it needs.
    pub kind: RequestKind,
    /// One line for people.
    pub headline: String,
    /// All that is decided about, the same for the same effect whoever asks it and when.
    pub shown: String,
    /// The same in the facts that rules look at.
    pub effect: Effect,
    /// The whole payload.
    pub payload: String,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The agent's id for it.
    pub turn_id: TurnId,
    /// How.
    pub status: TurnStatus,
    /// What it said.
    pub answer: Option<String>,
    /// Whether an item that may touch the world was seen.
    pub touched: bool,
    /// The client ids of all texts that the turn was given.
    pub heard: Vec<ClientId>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What it cost.
    pub usage: Usage,
}

/// Why the agent could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", failure.reason)]
pub struct AgentFault {
    /// Class and reason.
    pub failure: Failure,
    /// What is wrong with the thread itself.
    pub thread: ThreadTrouble,
}

/// What is wrong with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadTrouble {
    /// Nothing.
    None,
    /// There is no record of it: before its first turn there is none, later it was removed.
    Missing,
    /// Its record is there and can't be used.
    Damaged,
}

impl AgentFault {
    /// A fault with this failure.
    #[must_use]
    pub fn new(failure: Failure) -> Self {
        Self {
            failure,
            thread: ThreadTrouble::None,
        }
    }
}
