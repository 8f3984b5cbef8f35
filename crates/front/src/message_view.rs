//! JSON types of messages and their history. The core's values are not serialisable on purpose.

use crate::BridgeService;
use crate::RequestView;
use crate::Time;
use bridge_core::limits::REFERENCE_MIN_CHARS;
use bridge_core::phase::Phase;
use bridge_core::port::{Extent, TextUpdate};
use bridge_core::value::{
    Answer, Attachment, AuditEntry, Conversation, EventKind, Failure, Hold, ItemEvent, NodeId,
    Reply, ReplyKind, ReplyState, Request, Timestamp, Turn,
};
use bridge_core::why::{Why, WhyRows, explain, worth_waiting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shortest accepted prefix of an id.
pub(crate) const ID_PREFIX_MIN_CHARS: usize = REFERENCE_MIN_CHARS;

/// Body of `POST /v1/messages`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// The text.
    pub text: String,
    /// The conversation's key; `main` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// Where a new conversation works; a directory of its own when absent. Only the owner may name one, and only one that
    /// an existing conversation has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The model of a new conversation; only the owner may name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The sandbox of a new conversation, `read-only` or `workspace-write`; only the owner may name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Files that come with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileUpload>,
}

/// A file that comes with a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileUpload {
    /// What it is called: a label, not a path.
    pub name: String,
    /// What it holds, in base64.
    pub data: String,
}

/// Answer to `POST /v1/messages`: the message is on disk.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubmitResponse {
    /// Its id.
    pub message_id: String,
    /// Whether the same `Idempotency-Key` was here before.
    pub duplicate: bool,
    /// Whether it is the first one of its conversation.
    #[serde(default)]
    pub first: bool,
    /// Where its conversation works.
    #[serde(default)]
    pub cwd: String,
    /// What its turns may touch.
    #[serde(default)]
    pub sandbox: String,
}

/// A message, where it is, and its answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MessageView {
    /// Its id.
    pub message_id: String,
    /// The conversation's key.
    pub conversation: String,
    /// The channel.
    pub channel: String,
    /// Who sent it.
    pub sender: String,
    /// Where Codex works on it.
    #[serde(default)]
    pub workdir: Option<String>,
    /// The text.
    pub text: String,
    /// Files that came with it.
    pub files: Vec<FileView>,
    /// Where it is.
    pub state: String,
    /// The same for people: `queued`, `working`, `waiting for you`, `done`, `failed` or `stopped`.
    #[serde(default)]
    pub phase: String,
    /// Ordinal of the newest attempt.
    pub attempt: u32,
    /// Its round among the waiting messages of all senders: lower ones go first.
    pub round: i64,
    /// Whether Codex died under an earlier attempt of it.
    pub suspect: bool,
    /// Who wants it stopped.
    pub stop: Option<String>,
    /// The message whose running turn was given its text.
    pub leader: Option<String>,
    /// Messages whose texts its own turn was given.
    pub followers: Vec<String>,
    /// The message of its conversation that goes first.
    pub behind: Option<String>,
    /// Always `none` and `not_needed`: no channel is owed an ack for a single message.
    pub ack: Option<AckView>,
    /// Codex's thread of the conversation.
    pub thread_id: Option<String>,
    /// When.
    pub received_at: Time,
    /// When.
    pub updated_at: Time,
    /// Why it waits: its own reason, or that of the message of its conversation that goes first.
    pub hold: Option<HoldView>,
    /// The newest failure.
    pub failure: Option<FailureView>,
    /// The answer.
    pub answer: Option<AnswerView>,
    /// What Codex asked while it worked on it.
    pub requests: Vec<RequestView>,
    /// The node that has its conversation, where several share the database; absent when none has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where it is, in words.
    pub why: WhyView,
    /// Whether an answer is to be expected without somebody acting first.
    pub worth_waiting: bool,
}

impl MessageView {
    /// Whether it is in a final state.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "done" | "dead" | "cancelled")
    }

    /// Fingerprint used to suppress duplicate `state` events.
    pub(crate) fn fingerprint(&self) -> String {
        let (state, attempt, now) = (&self.state, self.attempt, &self.why.now);
        format!("{state} {attempt} {} {now}", self.worth_waiting)
    }
}

/// Why a message waits.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HoldView {
    /// Until when.
    pub until: Time,
    /// What it waits for.
    pub failure: FailureView,
}

/// A failure.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FailureView {
    /// `transient`, `capacity`, `config`, `permanent`, `ambiguous` or `bug`.
    pub class: String,
    /// What happened and what to do.
    pub reason: String,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AnswerView {
    /// The text, whole.
    pub text: String,
    /// Files that go with it.
    pub files: Vec<FileView>,
    /// `live`, `harvested` from Codex's history after a crash, or `shared` with the message whose turn it joined.
    pub source: String,
    /// When.
    pub created_at: Time,
}

/// A file that came with a message or goes with its answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FileView {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub media_type: String,
    /// How long it is.
    pub bytes: u64,
    /// Our own copy of it on this machine. Where several daemons share the database it is there once this one needed the
    /// file, or has shown the message by itself, or its end, to its owner on this machine.
    pub path: String,
}

/// Where a message is, in words.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WhyView {
    /// Where it is and what it waits for.
    pub now: String,
    /// What happens next.
    pub next: String,
}

/// One item-level event.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Its place among the events of its message.
    pub ordinal: u32,
    /// Which attempt.
    pub attempt: u32,
    /// What kind of thing happened.
    pub kind: String,
    /// One line for people.
    pub text: String,
    /// When.
    pub at: Time,
}

/// What Codex is writing, as far as it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TextView {
    /// The text so far. It begins with an ellipsis when its beginning was not seen.
    pub text: String,
}

impl From<&TextUpdate> for TextView {
    fn from(said: &TextUpdate) -> Self {
        let text = match said.extent {
            Extent::Middle => format!("…{}", said.text),
            Extent::Head | Extent::Whole => said.text.clone(),
        };
        Self { text }
    }
}

/// A page of messages, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MessageList {
    /// The messages.
    pub messages: Vec<MessageView>,
    /// What to give as `before` for the next page; absent on the last one.
    #[serde(default)]
    pub next: Option<String>,
}

/// How the database is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerView {
    /// `unchecked` since it was opened, `sound` or `damaged`.
    pub health: String,
    /// What is wrong with it.
    pub damage: Option<String>,
    /// Room on its disk.
    pub free_bytes: Option<u64>,
    /// Below this nothing more is taken in.
    pub low_bytes: u64,
    /// Size of the write-ahead log: it grows while somebody holds the database open for reading.
    pub log_bytes: u64,
    /// How long the newest commit took, in milliseconds.
    pub last_commit_ms: Option<u64>,
    /// Why nothing more is taken in now, if it is so.
    pub closed: Option<String>,
    /// What can be lived with and should be changed, such as a server whose commits are not durable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An error, as RFC 9457 has it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What kind of problem.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and what to do.
    pub detail: String,
    /// The message it is about, when it is about what that one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Where that message is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        Self {
            class: failure.class.as_str().to_owned(),
            reason: failure.reason.clone(),
        }
    }
}

impl From<Why> for WhyView {
    fn from(why: Why) -> Self {
        Self {
            now: why.now,
            next: why.next,
        }
    }
}

impl FileView {
    fn new(file: &Attachment, service: &impl BridgeService) -> Self {
        Self {
            name: file.name.clone(),
            media_type: file.media_type.clone(),
            bytes: file.bytes,
            path: service.file_path(file),
        }
    }
}

impl AnswerView {
    fn new(answer: &Answer, replies: &[Reply], service: &impl BridgeService) -> Self {
        let files = replies.iter().flat_map(|reply| &reply.attachments);
        let files = files.map(|file| FileView::new(file, service));
        Self {
            text: answer.text.clone(),
            files: files.collect(),
            source: answer.source.as_str().to_owned(),
            created_at: answer.created_at.into(),
        }
    }
}

impl From<&ItemEvent> for EventView {
    fn from(event: &ItemEvent) -> Self {
        Self {
            ordinal: event.ordinal,
            attempt: event.attempt,
            kind: event.kind.as_str().to_owned(),
            text: event.text.clone(),
            at: event.at.into(),
        }
    }
}

/// The rows of one message view.
pub(crate) struct MessageRows {
    pub(crate) case: WhyRows,
    pub(crate) conversation: Option<Conversation>,
    pub(crate) answer: Option<Answer>,
    pub(crate) requests: Vec<Request>,
    pub(crate) node: Option<NodeId>,
}

impl MessageRows {
    /// Its files, and those of its answer.
    pub(crate) fn files(&self) -> Vec<Attachment> {
        self.own_files()
            .chain(self.answer_files())
            .cloned()
            .collect()
    }

    /// Those that came with it.
    pub(crate) fn own_files(&self) -> impl Iterator<Item = &Attachment> {
        self.case.message.attachments.iter()
    }

    /// Those of its answer, as `AnswerView` lists them.
    pub(crate) fn answer_files(&self) -> impl Iterator<Item = &Attachment> {
        let replies = self.case.replies.iter();
        replies.flat_map(|reply| &reply.attachments)
    }

    pub(crate) fn view(self, now: Timestamp, service: &impl BridgeService) -> MessageView {
        let Self {
            case,
            conversation,
            answer,
            requests,
            node,
        } = self;
        let why = explain(&case, now);
        let phase = Phase::of_message(&case.message, !case.asked.is_empty());
        let requests = requests.iter();
        let requests = requests.map(|request| RequestView::new(request, Some(&case.message)));
        let requests = requests.collect();
        let WhyRows {
            message,
            behind,
            followers,
            replies,
            ..
        } = case;
        // A hold of the first message of a conversation applies to those behind it.
        let first = behind.as_deref().unwrap_or(&message);
        let worth_waiting = worth_waiting(&message, now) && worth_waiting(first, now);
        let hold = first.life.state.hold().map(HoldView::from);
        let thread_id = conversation
            .as_ref()
            .and_then(|conversation| conversation.thread.as_ref())
            .map(ToString::to_string);
        let workdir = conversation.as_ref().map(|one| one.workdir.clone());
        let files = message.attachments.iter();
        let files = files.map(|file| FileView::new(file, service));
        MessageView {
            worth_waiting,
            workdir,
            message_id: message.message_id.to_string(),
            conversation: conversation
                .map_or_else(String::new, |conversation| conversation.external_key),
            channel: message.channel.to_string(),
            sender: message.sender,
            text: message.body,
            files: files.collect(),
            state: message.life.state.name().as_str().to_owned(),
            phase: phase.as_str().to_owned(),
            attempt: message.life.attempt,
            round: message.round.0,
            suspect: message.life.suspect,
            stop: message.life.stop.clone(),
            leader: message.life.state.leader().map(ToString::to_string),
            followers: followers.iter().map(ToString::to_string).collect(),
            behind: behind.map(|first| first.message_id.to_string()),
            ack: Some(AckView::not_needed()),
            thread_id,
            received_at: message.received_at.into(),
            updated_at: message.life.updated_at.into(),
            hold,
            failure: message.life.failure.as_ref().map(FailureView::from),
            answer: answer
                .as_ref()
                .map(|answer| AnswerView::new(answer, &replies, service)),
            requests,
            node: node.map(|node| node.to_string()),
            why: why.into(),
        }
    }
}

impl From<&Hold> for HoldView {
    fn from(hold: &Hold) -> Self {
        Self {
            until: hold.until.into(),
            failure: FailureView::from(&hold.failure),
        }
    }
}

/// Answer to `GET /v1/messages/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StoryView {
    /// Where it is, and its answer.
    #[serde(flatten)]
    pub message: MessageView,
    /// Its turns, oldest first.
    pub attempts: Vec<AttemptView>,
    /// What Codex did, and what the bridge had to say about it.
    pub events: Vec<EventView>,
    /// What was sent back, in order.
    pub replies: Vec<ReplyView>,
    /// What people did to it, newest first.
    pub acts: Vec<ActEntryView>,
}

/// One attempt and its turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Its ordinal.
    pub attempt: u32,
    /// What Codex knows it by.
    pub client_id: String,
    /// Codex's thread.
    pub thread_id: String,
    /// Codex's turn, once it was named.
    pub turn_id: Option<String>,
    /// The life of Codex that it was given to.
    pub incarnation: String,
    /// `begun`, `attached`, `ended` or `lost`.
    pub state: String,
    /// What its commands could touch.
    pub sandbox: String,
    /// Whether it was seen to do something that may change the world.
    pub touched: bool,
    /// When.
    pub started_at: Time,
    /// When.
    pub ended_at: Option<Time>,
    /// Tokens the model read.
    pub input_tokens: i64,
    /// Tokens the model wrote.
    pub output_tokens: i64,
    /// What went wrong in it, oldest first.
    pub failures: Vec<String>,
}

/// One piece that is sent back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplyView {
    /// Its place among the pieces.
    pub ordinal: u32,
    /// `answer`, or `notice` for words of the bridge.
    pub kind: String,
    /// `queued`, `sending`, `sent` or `dead`.
    pub state: String,
    /// Sends begun.
    pub tries: u32,
    /// When it is sent again.
    pub not_before: Option<Time>,
    /// The platform's proof that it took it.
    pub receipt: Option<String>,
    /// Why it was given up.
    pub reason: Option<String>,
    /// What a notice says. Pieces of the answer are in `answer`.
    pub notice: Option<String>,
}

/// Something a person did to a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActEntryView {
    /// When.
    pub at: Time,
    /// Who acted.
    pub by: String,
    /// `cancel`, `redrive` or `discard`.
    pub what: String,
    /// The rest.
    pub detail: String,
}

/// The ack that the source of a message is owed: none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AckView {
    /// `none`.
    pub mode: String,
    /// `not_needed`.
    pub state: String,
}

/// The rows of a story beyond those of its [`MessageView`].
pub(crate) struct HistoryRows {
    pub(crate) turns: Vec<Turn>,
    pub(crate) events: Vec<ItemEvent>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) acts: Vec<AuditEntry>,
}

impl HistoryRows {
    pub(crate) fn view(self, message: MessageView) -> StoryView {
        let failures = |attempt: u32| {
            self.events
                .iter()
                .filter(|event| event.attempt == attempt && event.kind == EventKind::Retrying)
                .map(|event| event.text.clone())
                .collect()
        };
        StoryView {
            message,
            attempts: self
                .turns
                .iter()
                .map(|turn| AttemptView::new(turn, failures(turn.attempt)))
                .collect(),
            events: self.events.iter().map(EventView::from).collect(),
            replies: self.replies.into_iter().map(ReplyView::from).collect(),
            acts: self.acts.into_iter().map(ActEntryView::from).collect(),
        }
    }
}

impl AttemptView {
    fn new(turn: &Turn, failures: Vec<String>) -> Self {
        Self {
            attempt: turn.attempt,
            client_id: turn.client_id.to_string(),
            thread_id: turn.thread.to_string(),
            turn_id: turn.turn_id.as_ref().map(ToString::to_string),
            incarnation: turn.incarnation.to_string(),
            state: turn.state.as_str().to_owned(),
            sandbox: turn.sandbox.as_str().to_owned(),
            touched: turn.touched,
            started_at: turn.started_at.into(),
            ended_at: turn.ended_at.map(Time::from),
            input_tokens: turn.usage.input_tokens,
            output_tokens: turn.usage.output_tokens,
            failures,
        }
    }
}

impl From<Reply> for ReplyView {
    fn from(reply: Reply) -> Self {
        let state = reply.state.name().as_str().to_owned();
        let (not_before, receipt, reason) = match reply.state {
            ReplyState::Queued { not_before } => (not_before.map(Time::from), None, None),
            ReplyState::Sending => (None, None, None),
            ReplyState::Sent { receipt, at: _ } => (None, Some(receipt), None),
            ReplyState::Dead { reason } => (None, None, Some(reason)),
        };
        Self {
            ordinal: reply.ordinal,
            kind: reply.kind.as_str().to_owned(),
            state,
            tries: reply.tries,
            not_before,
            receipt,
            reason,
            notice: match reply.kind {
                ReplyKind::Notice => Some(reply.body),
                ReplyKind::Answer => None,
            },
        }
    }
}

impl From<AuditEntry> for ActEntryView {
    fn from(entry: AuditEntry) -> Self {
        Self {
            at: entry.at.into(),
            by: entry.actor,
            what: entry.what,
            detail: entry.detail,
        }
    }
}

impl AckView {
    pub(crate) fn not_needed() -> Self {
        Self {
            mode: "none".to_owned(),
            state: "not_needed".to_owned(),
        }
    }
}
