//! Takes over the tasks of the older `codex_bridge` tool as finished ones, so that their ids still answer.
//!
//! A task that failed there is stored as a stopped message, not as a dead letter: all that is left of its prompt is a
//! summary, and nobody may send that again by accident. [`crate::task`] shows it as failed.

use super::import::Imported;
use crate::channels;
use crate::limits::{
    self, IMPORTED_EVENTS_PER_TASK_MAX, IMPORTED_TASKS_MAX, PROMPT_SUMMARY_MAX_CHARS, clip,
};
use crate::port::{Change, RowsError};
use crate::requester::LOCAL_OWNER;
use crate::step::{RunError, Transition, Tx};
use crate::value::{
    Answer, AnswerSource, ApprovalPolicy, AskedDigest, ChannelId, Class, Conversation,
    ConversationId, EventKind, ExternalId, Failure, Life, Message, MessageId, MessageState,
    ReadAccess, Round, Sandbox, SenderKind, Seq, Subscription, SubscriptionState, Task, TaskId,
    TaskInput, TaskInputKind, TaskStart, TaskTerms, ThreadId, Tier, Timestamp, TurnId,
};

/// Longest target of a notification that is taken over.
const TARGET_MAX_CHARS: usize = 1_000;
/// Why an unfinished task is over.
const PROCESS_GONE: &str = "it was not finished when it was taken over from the older tool, and the process that ran it is gone: start it again";
/// Why a notification that the older tool had not sent is not sent by itself.
const NOT_SENT: &str = "the older tool had not sent it: notify_completed sends it";

/// A task as the older tool's database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldTask {
    /// `codex-` and twelve hexadecimal digits.
    pub task_id: String,
    /// In the older tool's words.
    pub status: String,
    /// All that is left of the prompt.
    pub prompt_summary: Option<String>,
    pub thread: Option<String>,
    pub turn: Option<String>,
    pub cwd: Option<String>,
    pub model: Option<String>,
    pub sandbox: Option<String>,
    pub approval_policy: Option<String>,
    pub last_progress: Option<String>,
    pub final_summary: Option<String>,
    pub error_summary: Option<String>,
    pub notify_target: Option<String>,
    pub notification_status: Option<String>,
    pub notified_at: Option<Timestamp>,
    pub notification_error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    /// The newest ones, oldest first.
    pub events: Vec<OldEvent>,
}

/// An event as the older tool's database has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldEvent {
    /// The method of the protocol, or the tool's own name for it.
    pub source: String,
    /// The status that it meant.
    pub status: Option<String>,
    pub summary: String,
    pub at: Timestamp,
}

impl OldEvent {
    /// The source of the last event of every task that was taken over.
    pub const TAKEN_OVER: &'static str = "bridge/imported";

    /// The stored line: `source [status] summary`.
    #[must_use]
    pub fn line(&self) -> String {
        let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
        let source: String = self.source.chars().filter(plain).take(100).collect();
        let status: String = self.status.iter().flat_map(|it| it.chars()).collect();
        let status: String = status.chars().filter(plain).take(40).collect();
        format!("{source} [{status}] {}", self.summary)
    }

    /// Source, status and summary of a stored line.
    #[must_use]
    pub fn read(line: &str) -> (&str, Option<&str>, &str) {
        let parsed = line.split_once(" [").and_then(|(source, rest)| {
            let (status, summary) = rest.split_once("] ")?;
            Some((source, Some(status).filter(|it| !it.is_empty()), summary))
        });
        parsed.unwrap_or((Self::TAKEN_OVER, None, line))
    }
}

/// Takes over the tasks of one database. Once: the mark is written with them, and a task that is here already is not
/// touched.
#[derive(Clone, Debug)]
pub struct ImportTasks {
    /// Where it is marked that this was done, as if it were a source that was read.
    pub mark: ChannelId,
    /// What was taken over, in words for people.
    pub from: String,
    /// The tasks, oldest first, each with the ids that it gets here.
    pub tasks: Vec<(ConversationId, MessageId, OldTask)>,
}

impl Transition for ImportTasks {
    type Outcome = Imported;
    const NAME: &'static str = "import_tasks";

    fn apply(self, tx: &mut Tx<'_>, now: Timestamp) -> Result<Imported, RunError> {
        if tx.cursor(&self.mark)?.is_some() {
            return Ok(Imported::Before);
        }
        let (mut taken, mut known) = (0, 0);
        let channel = ChannelId::new(channels::TASK);
        let surplus = self.tasks.len().saturating_sub(IMPORTED_TASKS_MAX);
        for (conversation_id, message_id, old) in self.tasks.into_iter().skip(surplus) {
            let there = tx.task(&TaskId::new(&old.task_id))?.is_some()
                || tx.conversation_by_key(&channel, &old.task_id)?.is_some();
            if there {
                known += 1;
                continue;
            }
            taken += 1;
            write(tx, conversation_id, message_id, &old, now)?;
        }
        tx.change(Change::Cursor {
            channel: self.mark,
            position: self.from,
            at: now,
        })?;
        Ok(Imported::Now { taken, known })
    }
}

/// Writes the rows of one task. Its message counts as finished now, so that retention keeps it as long as any other; the
/// time of its real end is that of its last event.
fn write(
    tx: &mut Tx<'_>,
    conversation_id: ConversationId,
    message_id: MessageId,
    old: &OldTask,
    now: Timestamp,
) -> Result<(), RowsError> {
    let ended_at = old.completed_at.unwrap_or(old.updated_at).min(now);
    let created_at = old.created_at.min(now);
    let cwd = old.cwd.clone().unwrap_or_else(|| "/".to_owned());
    tx.change(Change::NewConversation(Conversation {
        conversation_id: conversation_id.clone(),
        channel: ChannelId::new(channels::TASK),
        external_key: old.task_id.clone(),
        context: None,
        thread: old.thread.clone().map(ThreadId::new),
        last_turn: old.turn.clone().map(TurnId::new),
        workdir: cwd.clone(),
        model: None,
        sandbox: None,
        created_at,
    }))?;
    let message = message_of(old, conversation_id.clone(), message_id.clone(), now);
    tx.change(Change::NewMessage(message.clone()))?;
    tx.change(Change::Active(conversation_id.clone(), ended_at))?;
    if let (MessageState::Done, Some(text)) = (&message.life.state, &old.final_summary) {
        tx.change(Change::NewAnswer(Answer {
            message_id: message_id.clone(),
            attempt: 0,
            source: AnswerSource::Harvested,
            text: text.clone(),
            created_at: ended_at,
        }))?;
    }
    let task_id = TaskId::new(&old.task_id);
    tx.change(Change::NewTask(task_of(
        old,
        conversation_id,
        cwd,
        created_at,
    )))?;
    tx.change(Change::NewTaskInput(TaskInput {
        task_id: task_id.clone(),
        ordinal: 1,
        client_message_id: message.external_id.to_string(),
        idempotency_key: None,
        kind: TaskInputKind::Message(message_id),
        original: String::new(),
        at: created_at,
    }))?;
    if let Some(notification) = notification_of(old, task_id, ended_at, now) {
        tx.change(Change::PutSubscription(notification))?;
    }
    let surplus = old
        .events
        .len()
        .saturating_sub(IMPORTED_EVENTS_PER_TASK_MAX);
    for event in old.events.iter().skip(surplus) {
        tx.event(
            &message,
            EventKind::Imported,
            &event.line(),
            event.at.min(ended_at),
        )?;
    }
    let end = OldEvent {
        source: OldEvent::TAKEN_OVER.to_owned(),
        status: None,
        summary: format!("the older tool had it as {}", word(&old.status)),
        at: ended_at,
    };
    tx.event(&message, EventKind::Imported, &end.line(), ended_at)
}

fn word(status: &str) -> &str {
    match status {
        "completed"
        | "failed"
        | "cancelled"
        | "starting"
        | "working"
        | "waiting_for_approval"
        | "waiting_for_user_input" => status,
        _ => "unknown",
    }
}

fn message_of(
    old: &OldTask,
    conversation_id: ConversationId,
    message_id: MessageId,
    now: Timestamp,
) -> Message {
    let reason = |text: &str| clip(text, limits::REASON_MAX_CHARS);
    let mut life = Life::new(now);
    let error = old.error_summary.as_deref();
    let failed = match old.status.as_str() {
        "completed" => None,
        "cancelled" => {
            let why = error.unwrap_or("it was cancelled under the older tool");
            life.state = MessageState::Cancelled {
                reason: reason(why),
            };
            None
        }
        "failed" => {
            let last = old.last_progress.as_deref();
            Some(error.or(last).unwrap_or("it failed under the older tool"))
        }
        _ => Some(PROCESS_GONE),
    };
    match failed {
        Some(why) => {
            life.failure = Some(Failure::new(Class::Permanent, reason(why)));
            life.state = MessageState::Cancelled {
                reason: reason(why),
            };
        }
        None if old.status == "completed" => life.state = MessageState::Done,
        None => {}
    }
    let at = old.created_at.min(now);
    let prompt = old.prompt_summary.as_deref();
    Message {
        message_id,
        conversation_id,
        seq: Seq(1),
        channel: ChannelId::new(channels::TASK),
        external_id: ExternalId::new(format!("{}{}", Message::IMPORTED, old.task_id)),
        kind: SenderKind::Person,
        sender: LOCAL_OWNER.to_owned(),
        tier: Tier::Tool,
        body: prompt.unwrap_or("(no prompt summary)").to_owned(),
        attachments: Vec::new(),
        said_at: at,
        hops: 0,
        round: Round(0),
        received_at: at,
        trace: None,
        life,
    }
}

fn task_of(
    old: &OldTask,
    conversation_id: ConversationId,
    cwd: String,
    created_at: Timestamp,
) -> Task {
    let prompt = old.prompt_summary.as_deref().unwrap_or_default();
    Task {
        task_id: TaskId::new(&old.task_id),
        channel: ChannelId::new(channels::TASK),
        conversation_id,
        owner: LOCAL_OWNER.to_owned(),
        sequence: 0,
        created_at,
        start: Some(TaskStart {
            prompt_summary: clip(prompt, PROMPT_SUMMARY_MAX_CHARS),
            asked: AskedDigest::of([Some(prompt)]),
            terms: TaskTerms {
                cwd,
                model: old.model.clone(),
                sandbox: old
                    .sandbox
                    .as_deref()
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(Sandbox::ReadOnly),
                approval_policy: old
                    .approval_policy
                    .as_deref()
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(ApprovalPolicy::Untrusted),
                codex_home: None,
                reads: ReadAccess::Disk,
            },
        }),
    }
}

/// What the older tool noted about the notification. What it had not sent waits for somebody who asks: nobody is told
/// of old tasks because a daemon was started.
fn notification_of(
    old: &OldTask,
    task_id: TaskId,
    ended_at: Timestamp,
    now: Timestamp,
) -> Option<Subscription> {
    let at = old.notified_at.unwrap_or(ended_at).min(now);
    let status = old.notification_status.as_deref();
    let target = old.notify_target.as_deref().map(str::trim);
    let Some(target) = target.filter(|target| !target.is_empty()) else {
        return match status {
            Some("no_target" | "sent") => Some(Subscription::of_end(task_id, None, at)),
            _ => None,
        };
    };
    let target = clip(target, TARGET_MAX_CHARS);
    let mut notification = Subscription::of_end(task_id, Some(target), ended_at);
    if status == Some("sent") {
        notification.state = SubscriptionState::Closed { at };
        notification.mark = Some(Subscription::END.to_owned());
    } else if !notification.is_local() {
        notification.state = SubscriptionState::Dead { at };
        let error = old.notification_error.as_deref().unwrap_or(NOT_SENT);
        notification.error = Some(clip(error, limits::REASON_MAX_CHARS));
    }
    Some(notification)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_lines_are_read_back() {
        let event = OldEvent {
            source: "turn/completed".to_owned(),
            status: Some("completed".to_owned()),
            summary: "{\"a\": [1] }".to_owned(),
            at: Timestamp(1),
        };
        let line = event.line();
        assert_eq!(
            OldEvent::read(&line),
            ("turn/completed", Some("completed"), "{\"a\": [1] }")
        );
        let bare = OldEvent {
            status: None,
            source: "a b] [c".to_owned(),
            ..event
        };
        assert_eq!(OldEvent::read(&bare.line()).0, "abc");
        assert_eq!(OldEvent::read(&bare.line()).1, None);
        assert_eq!(OldEvent::read("torn").2, "torn");
    }
}
