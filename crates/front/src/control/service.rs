//! Control over the service: each action is checked against the caller's scopes, performed, and answered from rows.

use super::envelope::{NotifyEnvelope, REFUSED, TaskEnvelope, TaskListEnvelope};
use super::rows::{TaskRows, TaskSubject};
use super::shape::TaskDetail;
use super::{Caller, Control, ControlAction, ControlError, ControlErrorKind, Scope, TaskWatch};
use crate::live::MessageUpdates;
use crate::service::BridgeService;
use crate::task_view::{TaskPageView, TaskReply, TaskShape};
use bridge_core::channels;
use bridge_core::limits::PAGE_MAX;
use bridge_core::port::{LedgerError, Read, RowsError, Steering, readable};
use bridge_core::value::{MessageId, Task, TaskId, Transport};
use serde::Serialize;
use serde_json::{Value, json};

/// Tasks in a list for those who name no number.
const LIST_DEFAULT: u32 = 10;
/// Most tasks in one list.
const LIST_MAX: u32 = 200;

/// Control of the daemon behind a service.
#[derive(Clone, Debug)]
pub struct TaskService<D> {
    pub(super) service: D,
}

/// What an action on a task came to.
pub(crate) struct TaskOutcome {
    pub(crate) reply: TaskReply,
    /// How we talk to its Codex.
    transport: Transport,
}

impl TaskOutcome {
    /// The task as it is now.
    pub(super) fn of(rows: &TaskRows) -> Self {
        Self {
            reply: TaskReply::of(rows),
            transport: rows.transport,
        }
    }

    pub(super) fn map(self, edit: impl FnOnce(TaskReply) -> TaskReply) -> Self {
        Self {
            reply: edit(self.reply),
            ..self
        }
    }

    /// Why Codex did not take the text, if one was given.
    pub(crate) fn refusal(&self) -> Option<&str> {
        let refused = self.reply.steer.as_deref() == Some(REFUSED);
        refused.then(|| self.reply.why.as_deref().unwrap_or("it was refused"))
    }
}

/// An answer.
pub(crate) type ActionResult = Result<TaskOutcome, ControlError>;

impl<D: BridgeService> TaskService<D> {
    /// Over this service.
    pub fn new(service: D) -> Self {
        Self { service }
    }

    pub(super) async fn subject(&self, id: &str) -> Result<TaskSubject, ControlError> {
        let named = id.trim().to_owned();
        let found = self
            .service
            .read(move |rows| TaskSubject::find(rows, &named))
            .await?;
        found.map_err(|not| not.of(id))
    }

    pub(super) async fn rows(
        &self,
        subject: TaskSubject,
        id: &str,
    ) -> Result<TaskRows, ControlError> {
        let found = self
            .service
            .read(move |rows| TaskRows::load(rows, subject))
            .await?;
        found.ok_or_else(|| super::NotFound::Unknown.of(id))
    }

    /// The task as it is now.
    pub(super) async fn look(&self, id: &str) -> Result<TaskRows, ControlError> {
        let subject = self.subject(id).await?;
        self.rows(subject, id).await
    }

    pub(crate) async fn status(&self, task_id: &str) -> ActionResult {
        let rows = self.look(task_id).await?;
        let message = format!("The task is {}.", rows.status().as_str());
        Ok(TaskOutcome::of(&rows).map(|reply| reply.with_message(message)))
    }

    /// A page of tasks, newest first, older than `before`.
    pub(crate) async fn page(
        &self,
        limit: Option<u32>,
        before: Option<String>,
    ) -> Result<TaskPageView, ControlError> {
        let limit = limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
        let before = before.map(TaskId::new);
        let rows = self.service.read(move |rows| {
            let tasks = rows.started_tasks(before.as_ref(), limit)?;
            let full = tasks.len() >= limit as usize;
            let last = tasks.last().filter(|_| full);
            let next = last.map(|task| task.task_id.to_string());
            let mut loaded = Vec::new();
            for task in tasks {
                let task = TaskRows::load(rows, TaskSubject::Task(Box::new(task)));
                loaded.extend(readable(task)?.flatten());
            }
            Ok((loaded, next))
        });
        let (rows, next): (Vec<TaskRows>, _) = rows.await?;
        let tasks = rows
            .iter()
            .map(|rows| TaskShape::of(rows, TaskDetail::Line));
        let tasks: Vec<TaskShape> = tasks.collect();
        Ok(TaskPageView { tasks, next })
    }

    /// Whose questions wait, as the list of the API names them.
    async fn requests(&self) -> Result<Value, ControlError> {
        let asked = self.service.read(|rows| {
            let mut asked = Vec::new();
            for request in rows.newest_requests(true, None, PAGE_MAX)? {
                let Some(task) = readable(task_of(rows, &request.message_id))? else {
                    continue;
                };
                asked.push(json!({
                    "request_id": request.request_id.to_string(),
                    "message_id": request.message_id.to_string(),
                    "task_id": task.map(|task| task.task_id.to_string()),
                }));
            }
            Ok(asked)
        });
        let asked = asked.await?;
        Ok(json!({ "success": true, "requests": asked }))
    }

    /// Non-admin callers may steer only tasks they started.
    async fn may_speak(&self, caller: &Caller, subject: &TaskSubject) -> Result<(), ControlError> {
        if caller.may(Scope::Admin) {
            return Ok(());
        }
        let theirs = match subject {
            TaskSubject::Task(task) => task.owner == caller.name,
            TaskSubject::Message(message_id) => {
                let id = message_id.clone();
                let found = self.service.read(move |rows| rows.message(&id));
                found.await?.is_some_and(|message| {
                    message.channel.as_str() == channels::LOCAL && message.sender == caller.name
                })
            }
        };
        if theirs {
            Ok(())
        } else {
            Err(ControlError::forbidden(
                "somebody else began this: a token may steer only what it started itself, or anything with the scope `admin`",
            ))
        }
    }

    pub(crate) async fn steer(
        &self,
        caller: &Caller,
        task_id: &str,
        instruction: String,
    ) -> ActionResult {
        if instruction.trim().is_empty() {
            let words = "codex_bridge steer requires task_id and instruction.";
            return Err(ControlError::invalid(words));
        }
        let subject = self.subject(task_id).await?;
        self.may_speak(caller, &subject).await?;
        let steering = match &subject {
            TaskSubject::Task(task) => {
                let steered = self.service.steer_task(task, instruction, caller);
                steered.await?
            }
            TaskSubject::Message(message_id) => {
                let by = caller.actor().to_string();
                let steered = self.service.tell(message_id.clone(), instruction, &by);
                steered.await?
            }
        };
        let rows = self.look(task_id).await?;
        let (word, why) = match steering {
            Steering::Steered => ("steered", None),
            Steering::Queued { why } => ("queued", Some(why)),
            Steering::Unknown { why } => ("unknown", Some(why)),
            Steering::Refused { why } => (REFUSED, Some(why)),
        };
        Ok(TaskOutcome::of(&rows).map(|reply| TaskReply {
            steer: Some(word.to_owned()),
            why,
            ..reply
        }))
    }
}

impl<D: BridgeService> Control for TaskService<D> {
    type TaskWatch = ServiceTaskWatch<D>;

    fn news(&self, task_id: &str) -> ServiceTaskWatch<D> {
        ServiceTaskWatch::of(self.service.clone(), task_id)
    }

    /// In the envelopes of the legacy tool.
    async fn act(&self, caller: &Caller, act: ControlAction) -> Result<Value, ControlError> {
        // As over HTTP: who may accept may also decline.
        let decides = matches!(act, ControlAction::Respond { .. }) && caller.may(Scope::Approve);
        if !decides {
            permit(caller, act.scope())?;
        }
        let task = match act {
            ControlAction::List { limit } => {
                return shown(TaskListEnvelope::from(self.page(limit, None).await?));
            }
            ControlAction::Requests => return self.requests().await,
            ControlAction::NotifyCompleted { limit, dry_run } => {
                let notified = self.notify(caller, limit, dry_run).await?;
                return shown(NotifyEnvelope::from(notified));
            }
            ControlAction::Start(args) => self.start(caller, args).await?,
            ControlAction::Status { task_id } => self.status(&task_id).await?,
            ControlAction::Steer {
                task_id,
                instruction,
            } => self.steer(caller, &task_id, instruction).await?,
            ControlAction::Interrupt { task_id } => self.interrupt(caller, &task_id).await?,
            ControlAction::Respond {
                task_id,
                request_id,
                decision,
                answers,
            } => {
                let decision = decision.as_deref();
                self.respond(caller, &task_id, &request_id, decision, answers)
                    .await?
            }
        };
        shown(TaskEnvelope::of(task.reply, task.transport))
    }
}

/// As JSON.
fn shown(envelope: impl Serialize) -> Result<Value, ControlError> {
    serde_json::to_value(envelope).map_err(|error| {
        let said = format!("the answer can't be written as JSON: {error}");
        ControlError::new(ControlErrorKind::Unavailable, said)
    })
}

pub(super) fn permit(caller: &Caller, scope: Scope) -> Result<(), ControlError> {
    if caller.may(scope) {
        Ok(())
    } else {
        Err(ControlError::forbidden(scope.missing()))
    }
}

/// Changes of one task, or of a message of any channel.
#[derive(Debug)]
pub struct ServiceTaskWatch<D> {
    service: D,
    id: String,
    /// The unfinished messages at the last call.
    open: Option<Vec<MessageId>>,
    updates: MessageUpdates,
}

impl<D: BridgeService> ServiceTaskWatch<D> {
    pub(super) fn of(service: D, id: &str) -> Self {
        Self {
            updates: MessageUpdates::new(service.hub()),
            service,
            id: id.trim().to_owned(),
            open: None,
        }
    }

    /// Follows the unfinished messages; returns whether they are others than before. A finished message is not followed
    /// any more, and its last change may have notified nobody.
    async fn follow_open(&mut self) -> Result<bool, LedgerError> {
        let id = self.id.clone();
        let open = self.service.read(move |rows| {
            let Ok(subject) = TaskSubject::find(rows, &id)? else {
                return Ok(Vec::new());
            };
            let mut messages = subject.messages(rows)?;
            messages.retain(|message| !message.life.state.name().finished());
            Ok(messages)
        });
        let open: Vec<MessageId> = open
            .await?
            .into_iter()
            .map(|message| message.message_id)
            .collect();
        // Where the hub has no room, the caller polls.
        let added = self.updates.follow(&open);
        let is_other = added || self.open.as_ref() != Some(&open);
        self.open = Some(open);
        Ok(is_other)
    }
}

impl<D: BridgeService> TaskWatch for ServiceTaskWatch<D> {
    async fn changed(&mut self) {
        match self.follow_open().await {
            Ok(true) => {}
            Ok(false) => self.updates.changed().await,
            // The caller reads the rows on an interval, and gets the error then.
            Err(_unreadable) => std::future::pending().await,
        }
    }
}

/// The task of a message, if it is of one.
fn task_of(rows: &dyn Read, message_id: &MessageId) -> Result<Option<Task>, RowsError> {
    match rows.message(message_id)? {
        Some(message) => rows.started_task(&message.conversation_id),
        None => Ok(None),
    }
}
